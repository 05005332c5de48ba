//! Dates and times as RFC 3339 writes them.

use alloc::format;
use alloc::string::{String, ToString};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// Prints milliseconds since 1970 as RFC 3339 in UTC, with milliseconds where there are some.
pub(crate) fn rfc3339(millis: u64) -> String {
    i64::try_from(millis)
        .ok()
        .and_then(|millis| Timestamp::from_millisecond(millis).ok())
        .unwrap_or(Timestamp::MAX)
        .to_string()
}

/// What a text is as a time.
#[derive(Debug, PartialEq)]
pub(crate) enum Time {
    /// A time with an offset, as it stands.
    Exact,
    /// A time without one, completed with that of the zone.
    Completed(String),
    /// A time without one, and no zone is known.
    NoOffset,
    /// The zone's clocks skip this time, or show it twice.
    Ambiguous,
    /// No time.
    Invalid,
}

/// Reads a time. `T` may be a space or `t`, as RFC 3339 allows; the date must exist.
pub(crate) fn read(text: &str, zone: Option<&str>) -> Time {
    let Some((local, offset)) = split(text) else { return Time::Invalid };
    let Ok(civil) = local.replace([' ', 't'], "T").parse::<DateTime>() else { return Time::Invalid };
    if !offset.is_empty() {
        return if is_offset(offset) { Time::Exact } else { Time::Invalid };
    }
    let Some(zone) = zone.and_then(find_zone) else { return Time::NoOffset };
    // A clock that jumps leaves two readings, or none: a guess would be an hour off.
    let Ok(zoned) = zone.to_ambiguous_zoned(civil).unambiguous() else { return Time::Ambiguous };
    let seconds = zoned.offset().seconds();
    if seconds % 60 != 0 {
        return Time::NoOffset;
    }
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.abs() / 60;
    Time::Completed(format!(
        "{}{sign}{:02}:{:02}",
        local.replace([' ', 't'], "T"),
        minutes / 60,
        minutes % 60
    ))
}

/// Finds a zone of the database in this crate, or reads an offset such as `+02:00`.
fn find_zone(name: &str) -> Option<TimeZone> {
    if name.eq_ignore_ascii_case("utc") || name.eq_ignore_ascii_case("z") {
        return Some(TimeZone::UTC);
    }
    if is_offset(name) {
        let seconds = name[1..3].parse::<i32>().ok()? * 3600 + name[4..6].parse::<i32>().ok()? * 60;
        let seconds = if name.starts_with('-') { -seconds } else { seconds };
        return Some(TimeZone::fixed(jiff::tz::Offset::from_seconds(seconds).ok()?));
    }
    TimeZoneDatabase::bundled().get(name).ok()
}

/// Splits a text of the right form into its local part and its offset.
fn split(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let is_form = bytes.len() >= 19
        && text.is_ascii()
        && bytes[..19].iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            10 => matches!(byte, b'T' | b't' | b' '),
            13 | 16 => *byte == b':',
            _ => byte.is_ascii_digit(),
        });
    if !is_form {
        return None;
    }
    // Civil times have no leap second.
    if &bytes[17..19] == b"60" {
        return None;
    }
    let mut end = 19;
    if bytes.get(19) == Some(&b'.') {
        let digits = bytes[20..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=9).contains(&digits) {
            return None;
        }
        end = 20 + digits;
    }
    Some(text.split_at(end))
}

fn is_offset(offset: &str) -> bool {
    let bytes = offset.as_bytes();
    let is_number = |bytes: &[u8], most: u8| {
        bytes.iter().all(u8::is_ascii_digit) && (bytes[0] - b'0') * 10 + (bytes[1] - b'0') <= most
    };
    matches!(offset, "Z" | "z")
        || (bytes.len() == 6
            && matches!(bytes[0], b'+' | b'-')
            && bytes[3] == b':'
            && is_number(&bytes[1..3], 23)
            && is_number(&bytes[4..6], 59))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_needs_an_offset_or_a_zone() {
        assert_eq!(read("2025-12-30T14:00:00Z", None), Time::Exact);
        assert_eq!(read("2025-12-30 14:00:00.5+01:00", None), Time::Exact);
        assert_eq!(read("2025-12-30T14:00:00", None), Time::NoOffset);
        let paris = |text| read(text, Some("Europe/Paris"));
        assert_eq!(paris("2025-12-30T14:00:00"), Time::Completed("2025-12-30T14:00:00+01:00".into()));
        assert_eq!(paris("2025-07-30T14:00:00"), Time::Completed("2025-07-30T14:00:00+02:00".into()));
        assert_eq!(paris("2025-03-30T02:30:00"), Time::Ambiguous);
        assert_eq!(paris("2025-10-26T02:30:00"), Time::Ambiguous);
        assert_eq!(
            read("2025-07-30T14:00:00", Some("-03:30")),
            Time::Completed("2025-07-30T14:00:00-03:30".into())
        );
        assert_eq!(read("2025-07-30T14:00:00", Some("Nowhere/Else")), Time::NoOffset);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "tomorrow",
            "2025-12-30",
            "2025-13-01T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2025-01-01T24:00:00Z",
            "2025-01-01T00:00:00.Z",
            "2025-01-01T00:00:00+1:00",
            "2025-01-01T00:00:00+24:00",
            "2025-01-01T00:00:00Zx",
            "２025-01-01T00:00:00Z",
        ] {
            assert_eq!(read(text, Some("UTC")), Time::Invalid, "{text}");
        }
    }

    #[test]
    fn the_recorded_time_is_printed_in_utc() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(1_767_103_200_500), "2025-12-30T14:00:00.5Z");
        assert_eq!(rfc3339(u64::MAX), Timestamp::MAX.to_string());
    }
}
