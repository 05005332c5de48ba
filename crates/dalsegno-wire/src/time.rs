//! Points in time as documents have them.

use dalsegno_core::Timestamp;

/// A point in time in UTC, to the millisecond, such as `2025-10-09T08:53:20.123Z`.
pub fn exact(at: Timestamp) -> String {
    rfc3339(at, 3)
}

/// A point in time in UTC with this many decimals of a second.
pub fn rfc3339(at: Timestamp, decimals: usize) -> String {
    let time =
        i64::try_from(at.as_millis()).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    // Only a clock that is thousands of years off has no date.
    time.map_or_else(|| format!("{} ms", at.as_millis()), |time| format!("{time:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_its_milliseconds_and_one_without_a_date_is_a_number() {
        assert_eq!(exact(Timestamp::from_millis(1_760_000_000_123)), "2025-10-09T08:53:20.123Z");
        assert_eq!(exact(Timestamp::from_millis(u64::MAX)), format!("{} ms", u64::MAX));
    }
}
