//! Durations and sizes as people write them. What cannot be read is refused; nothing falls back to something wider.

use std::time::Duration;

/// Reads a duration such as `250ms`, `2s`, `5m`, `1h` or `30d`: more than nothing, and at most a year.
///
/// # Errors
/// In words, when it is no such duration.
pub fn duration(text: &str) -> Result<Duration, String> {
    let found = age(text)?;
    match found.as_millis() {
        0 => Err("expected more than 0".to_owned()),
        millis if millis <= u128::from(MILLIS_MAX) => Ok(found),
        _ => Err("expected at most a year, `8760h`".to_owned()),
    }
}

/// Reads a duration of any length or none, such as how long ago a run ended. It is written as [`duration`] is; a day has 24 hours.
///
/// # Errors
/// In words, when it is no duration.
pub fn age(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text).ok_or(DURATION)?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(DURATION.to_owned()),
    };
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(|| "expected less".to_owned())
}

/// Reads a size such as `64KiB`, `64 MiB` or `1GiB` in bytes; more than nothing.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text).ok_or(SIZE)?;
    let bytes = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" | "KB" | "K" | "k" => return Err(binary(number, "KiB")),
        "MB" | "M" => return Err(binary(number, "MiB")),
        "GB" | "G" => return Err(binary(number, "GiB")),
        _ => return Err(SIZE.to_owned()),
    };
    match number.checked_mul(bytes) {
        Some(0) => Err("expected more than 0".to_owned()),
        Some(bytes) if bytes <= BYTES_MAX => Ok(bytes),
        Some(_) | None => Err("expected at most `1024GiB`".to_owned()),
    }
}

/// Reads a decimal number such as `0.25` as a whole number of its `decimals`-th part; `None` if it is negative, not a
/// number, too large or has more decimals.
pub(crate) fn decimal(text: &str, decimals: u32) -> Option<u64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let (digits, exponent) = match text.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = format!("{whole}{fraction}").parse().ok()?;
    let shift = i32::try_from(decimals).ok()?.checked_add(exponent)?;
    let shift = shift.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let power = 10_u64.checked_pow(shift.unsigned_abs());
    match (number, shift) {
        (0, _) => Some(0),
        (_, 0..) => number.checked_mul(power?),
        (_, _) => power.filter(|power| number.is_multiple_of(*power)).map(|power| number / power),
    }
}

/// Splits a whole number from its unit; one space may stand between them.
fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit())?;
    let unit = &text[end..];
    Some((text[..end].parse().ok()?, unit.strip_prefix(' ').unwrap_or(unit)))
}

fn binary(number: u64, unit: &str) -> String {
    format!("sizes count in powers of 1024: write `{number}{unit}`")
}

const DURATION: &str = "expected a whole number and a unit, such as `250ms`, `2s`, `5m` or `1h`";
const SIZE: &str = "expected a whole number and a unit, such as `512B`, `64KiB`, `64MiB` or `1GiB`";

/// A year. Whatever takes longer is not waited for by a process.
const MILLIS_MAX: u64 = 365 * 24 * 3_600_000;

/// One tebibyte: no machine grants more to a tool, and sums of sizes stay far from overflow.
const BYTES_MAX: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_five_units() {
        let read = [
            ("250ms", 250),
            ("2s", 2_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("2 s", 2_000),
            ("30d", 2_592_000_000),
        ];
        for (text, millis) in read {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(age("800d"), Ok(Duration::from_secs(800 * 86_400)));
        assert_eq!(age("0s"), Ok(Duration::ZERO));
        assert!(
            duration("366d").is_err() && duration("0d").is_err() && age("99999999999999999999d").is_err()
        );
    }

    #[test]
    fn what_is_not_a_duration_is_refused() {
        for text in
            ["", "2", "s", "2x", "-1s", "1.5s", "2  s", "0s", "9000h", "99999999999999999999s", "２s", "2S"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn decimals_are_read_exactly() {
        for (text, amount) in [
            ("0.25", 250_000),
            ("2.0", 2_000_000),
            ("3", 3_000_000),
            ("0.000001", 1),
            ("1e-6", 1),
            ("2.50E1", 25_000_000),
            ("+0.1", 100_000),
            ("0.0000000", 0),
            ("0e99", 0),
        ] {
            assert_eq!(decimal(text, 6), Some(amount), "{text}");
        }
        for text in ["", "-1", "nan", "inf", "0.0000001", "1e-7", "1e99", "1.2.3", ".5", "1e", "1e9999999999"]
        {
            assert_eq!(decimal(text, 6), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_read_in_powers_of_1024() {
        for (text, bytes) in [("1B", 1), ("1 KiB", 1024), ("64MiB", 64 << 20), ("1GiB", 1 << 30)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        for text in ["", "64", "MiB", "64mib", "0B", "1025GiB", "-1B", "1.5MiB", "18446744073709551615GiB"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(size("64MB"), Err("sizes count in powers of 1024: write `64MiB`".to_owned()));
    }
}
