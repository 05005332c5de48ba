//! Dates as `Date.parse` reads and `toISOString` prints them, without a time zone database.

use alloc::format;
use alloc::string::String;

/// Reads the date-time format of the standard, as milliseconds since 1970.
///
/// `2024`, `2024-05`, `2024-05-06` (midnight UTC) and `2024-05-06T07:08[:09[.123]]` with `Z` or an offset, which is
/// required: the local zone that JavaScript would take is not the same on every machine. A year may have a sign and
/// six digits.
pub(crate) fn parse(text: &str) -> Option<f64> {
    let (date, time) = match text.split_once(['T', 't']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let (year, rest) = split_year(date)?;
    let mut parts = rest.map(|rest| rest.splitn(2, '-')).into_iter().flatten();
    let month =
        parts.next().map_or(Some(1), |month| digits(month, 2)).filter(|month| (1..=12).contains(month))?;
    let day = parts.next().map_or(Some(1), |day| digits(day, 2)).filter(|day| (1..=31).contains(day))?;
    let milliseconds = match time {
        Some(time) => parse_time(time)?,
        None => 0,
    };
    let milliseconds = days_from_civil(year, month, day) * DAY + milliseconds;
    (milliseconds.abs() <= MAX_MILLISECONDS).then_some(milliseconds as f64)
}

/// Reads `2024`, `+002024` or `-000044`, and what follows it after a hyphen. There is no year `-000000`.
fn split_year(date: &str) -> Option<(i64, Option<&str>)> {
    let (sign, unsigned, width) = match date.as_bytes().first()? {
        b'+' => (1, &date[1..], 6),
        b'-' => (-1, &date[1..], 6),
        _ => (1, date, 4),
    };
    let (year, rest) = match unsigned.split_once('-') {
        Some((year, rest)) => (year, Some(rest)),
        None => (unsigned, None),
    };
    let year = digits(year, width)? * sign;
    (year != 0 || sign > 0).then_some((year, rest))
}

/// Reads `07:08[:09[.123]]` with its zone, as milliseconds since midnight UTC of the written date.
fn parse_time(text: &str) -> Option<i64> {
    let zone_start = text.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = text.split_at(zone_start);
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let (hours, minutes) = zone[1..].split_once(':')?;
            let minutes = digits(hours, 2).filter(|hours| *hours < 24)? * 60
                + digits(minutes, 2).filter(|minutes| *minutes < 60)?;
            if zone.starts_with('-') { -minutes } else { minutes }
        }
    };
    let mut parts = time.splitn(3, ':');
    let hour = digits(parts.next()?, 2)?;
    let minute = digits(parts.next()?, 2).filter(|minute| *minute < 60)?;
    let (second, millisecond) = match parts.next() {
        None => (0, 0),
        Some(text) => {
            let (second, fraction) =
                text.split_once('.').map_or((text, None), |(second, rest)| (second, Some(rest)));
            (digits(second, 2).filter(|second| *second < 60)?, fraction.map_or(Some(0), milliseconds)?)
        }
    };
    let of_day = ((hour * 60 + minute) * 60 + second) * 1000 + millisecond;
    // Midnight at the end of a day is written 24:00.
    (of_day <= DAY).then_some(of_day - offset * 60_000)
}

/// Reads a fraction of a second; digits past the third are cut off.
fn milliseconds(fraction: &str) -> Option<i64> {
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let shown = &fraction[..fraction.len().min(3)];
    let scale = [100, 10, 1].get(shown.len() - 1)?;
    Some(digits(shown, shown.len())? * scale)
}

/// Prints milliseconds since 1970 as RFC 3339 in UTC, or `None` outside the years 0 to 9999, which it can write.
pub(crate) fn to_iso(milliseconds: f64) -> Option<String> {
    let range = (days_from_civil(0, 1, 1) * DAY) as f64..(days_from_civil(10_000, 1, 1) * DAY) as f64;
    let milliseconds = libm::trunc(milliseconds);
    if !range.contains(&milliseconds) {
        return None;
    }
    let milliseconds = milliseconds as i64;
    let (year, month, day) = civil_from_days(milliseconds.div_euclid(DAY));
    let of_day = milliseconds.rem_euclid(DAY);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, millisecond) = (of_day / 1000 % 60, of_day % 1000);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z"))
}

const DAY: i64 = 86_400_000;

/// How far from 1970 the standard's dates reach, on both sides.
const MAX_MILLISECONDS: i64 = 8_640_000_000_000_000;

fn digits(text: &str, count: usize) -> Option<i64> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Counts days since 1970-01-01 in the proleptic Gregorian calendar.
///
/// Years start in March here, so that the leap day is the last one and month lengths follow a straight line.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = (shifted_month + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}
