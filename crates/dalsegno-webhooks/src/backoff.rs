//! When a delivery that failed is tried again.

use std::time::Duration;

/// The pause after the first failure, in milliseconds; twice as long after each further one.
const FIRST: u64 = 5_000;
/// The longest pause, in milliseconds.
const LONGEST: u64 = 60 * 60 * 1_000;
/// The longest that a receiver may ask to be left alone, in milliseconds.
const ASKED_MAX: u64 = 24 * 60 * 60 * 1_000;
/// How long a delivery is tried, in milliseconds.
pub(crate) const WINDOW: u64 = 24 * 60 * 60 * 1_000;
/// The fewest attempts in that time: a time in which no server ran is not held against a receiver.
pub(crate) const FEWEST: u32 = 10;
/// A time that is further away than any that is set here: the clock was wrong when it was set.
pub(crate) const NONSENSE: u64 = ASKED_MAX + 2 * LONGEST;

/// The pause after so many failures in a row, in milliseconds: up to a fifth longer or shorter, so that receivers that failed at once
/// are not tried at once. A receiver may ask for a longer one.
pub(crate) fn pause(failures: u32, asked: Option<Duration>) -> u64 {
    let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(LONGEST);
    let jittered = doubled * fastrand::u64(80..=120) / 100;
    let asked = asked.map_or(0, |asked| u64::try_from(asked.as_millis()).unwrap_or(u64::MAX));
    jittered.max(asked.min(ASKED_MAX))
}

/// Says whether it was tried long enough, `since` and `now` in milliseconds since the epoch.
pub(crate) fn is_over(since: u64, now: u64, attempts: u32) -> bool {
    attempts >= FEWEST && now.saturating_sub(since) >= WINDOW
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pauses_double_up_to_an_hour_and_differ_by_a_fifth(failures in 1_u32..4_000) {
            let middle = (FIRST << (failures - 1).min(10)).min(LONGEST);
            let pause = pause(failures, None);
            prop_assert!((middle * 4 / 5..=middle * 6 / 5).contains(&pause), "{failures}: {pause}");
        }

        #[test]
        fn a_receiver_makes_a_pause_longer_and_within_a_day(failures in 1_u32..40, asked in any::<u64>()) {
            let pause = pause(failures, Some(Duration::from_secs(asked)));
            let asked = asked.saturating_mul(1_000);
            prop_assert!(pause >= asked.min(ASKED_MAX));
            prop_assert!(pause <= ASKED_MAX);
        }
    }

    #[test]
    fn a_day_is_tried_in_some_thirty_attempts_and_downtime_is_not_held_against_a_receiver() {
        let (mut at, mut attempts) = (0, 1);
        while !is_over(0, at, attempts) {
            at += pause(attempts, None);
            attempts += 1;
        }
        assert!((25..=45).contains(&attempts), "{attempts}");
        assert!(!is_over(0, 10 * WINDOW, FEWEST - 1));
        assert!(!is_over(0, WINDOW - 1, 1_000));
        assert!(is_over(0, WINDOW, FEWEST));
    }
}
