//! By how much the time of day jumped while this process looked at it, so that a jump takes no time from a person.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dalsegno_core::Timestamp;
use tokio::time::Instant;

/// What the two clocks may differ by between two looks without counting as a jump: a clock that is set right bit by bit
/// differs by less.
const JUMP_MS: u64 = 1_000;
/// Most stretches that are remembered. What lies before the first one counts as if the clock had been right.
const STRETCHES_MAX: usize = 64;

/// A time in which the clock of the day went at its pace.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    /// What the clock showed at its beginning, in milliseconds since the epoch.
    shown: u64,
    /// The same instant, on a clock that never jumps and does not count the sleep of a machine.
    began: Instant,
}

impl Stretch {
    /// What the clock would show at an instant had it never jumped since the beginning.
    fn at(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.began);
        self.shown.saturating_add(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Compares the clock of the day with one that never jumps, each time that somebody asks for the time.
#[derive(Debug, Default)]
pub(crate) struct Steady {
    stretches: Mutex<VecDeque<Stretch>>,
}

impl Steady {
    /// Takes note of what the clock shows.
    pub(crate) fn note(&self, shown: Timestamp) {
        self.note_at(shown.as_millis(), Instant::now());
    }

    fn note_at(&self, shown: u64, now: Instant) {
        let mut stretches = self.stretches.lock().unwrap_or_else(PoisonError::into_inner);
        if stretches.back().is_none_or(|last| last.at(now).abs_diff(shown) >= JUMP_MS) {
            stretches.push_back(Stretch { shown, began: now });
            if stretches.len() > STRETCHES_MAX {
                stretches.pop_front();
            }
        }
    }

    /// The time of day at which a patience that began at `since` ends. Time that the clock jumped over since then, as this
    /// process saw, does not count.
    ///
    /// When a time of the past was, on a clock that was set back, nobody can say for certain: this process may have looked later
    /// than the one that took the time down. So a clock that is set back makes no end earlier: it is rather too late than too
    /// early. Only a time that is still to come was taken down before.
    pub(crate) fn end_of(&self, since: u64, patience: Duration) -> Timestamp {
        self.end_at(since, patience, Instant::now())
    }

    fn end_at(&self, since: u64, patience: Duration, now: Instant) -> Timestamp {
        let stretches = self.stretches.lock().unwrap_or_else(PoisonError::into_inner);
        // By how much the clock has jumped since each of the stretches, from the last one back to that of `since`.
        let (mut jumped, mut most): (i64, i64) = (0, 0);
        let mut next: Option<Stretch> = None;
        let mut is_to_come = false;
        for stretch in stretches.iter().rev() {
            let until = stretch.at(next.map_or(now, |next| next.began)).saturating_add(JUMP_MS);
            match next {
                Some(next) => {
                    let pace = stretch.at(next.began);
                    jumped = jumped.saturating_add_unsigned(next.shown).saturating_sub_unsigned(pace);
                }
                None => is_to_come = since >= until,
            }
            most = most.max(jumped);
            if (stretch.shown..until).contains(&since) {
                if is_to_come {
                    most = jumped;
                }
                break;
            }
            next = Some(*stretch);
        }
        let patience = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_millis(since.saturating_add(patience).saturating_add_signed(most))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const HOUR: u64 = 3_600_000;

    /// A clock that is looked at.
    struct Looks {
        steady: Steady,
        began: Instant,
        /// Hours from the first look to the last one.
        last: Cell<u64>,
    }

    impl Looks {
        fn new() -> Self {
            Self { steady: Steady::default(), began: Instant::now(), last: Cell::new(0) }
        }

        fn instant(&self, after: u64) -> Instant {
            self.began + Duration::from_millis(after * HOUR)
        }

        /// So many hours after the first look it shows this hour.
        fn look(&self, after: u64, shown: u64) {
            self.last.set(after);
            self.steady.note_at(shown * HOUR, self.instant(after));
        }

        /// When two hours of patience end.
        fn ends(&self, since: u64) -> u64 {
            let (patience, now) = (Duration::from_millis(2 * HOUR), self.instant(self.last.get()));
            let end = self.steady.end_at(since * HOUR, patience, now).as_millis();
            assert_eq!(end % HOUR, 0);
            end / HOUR
        }
    }

    #[test]
    fn a_clock_at_its_pace_changes_nothing() {
        let looks = Looks::new();
        assert_eq!(looks.ends(100), 102);
        for hour in 0..10 {
            looks.look(hour, 100 + hour);
        }
        assert_eq!([90, 100, 105, 120].map(|since| looks.ends(since)), [92, 102, 107, 122]);
    }

    #[test]
    fn a_clock_that_is_set_right_bit_by_bit_has_not_jumped() {
        let looks = Looks::new();
        looks.look(0, 100);
        looks.steady.note_at(101 * HOUR + JUMP_MS - 1, looks.instant(1));
        assert_eq!(looks.ends(100), 102);
    }

    #[test]
    fn what_was_jumped_over_does_not_count_and_only_for_what_began_before() {
        let looks = Looks::new();
        looks.look(0, 100);
        looks.look(1, 109);
        // Before the process, in its first stretch, in the gap, after it.
        assert_eq!([99, 100, 101, 105, 109].map(|since| looks.ends(since)), [109, 110, 111, 115, 111]);
        looks.look(2, 120);
        assert_eq!([100, 109].map(|since| looks.ends(since)), [120, 121]);
    }

    #[test]
    fn a_clock_that_is_set_right_again_has_jumped_over_nothing() {
        let looks = Looks::new();
        looks.look(0, 100);
        looks.look(1, 149);
        looks.look(2, 102);
        assert_eq!(looks.ends(100), 102);
        // Asked while the clock was wrong: one hour later it shows 102 instead of 150.
        assert_eq!(looks.ends(149), 103);
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_end_earlier() {
        let looks = Looks::new();
        looks.look(0, 100);
        looks.look(5, 103);
        // The last one is still to come: it was taken down before.
        assert_eq!([100, 102, 104].map(|since| looks.ends(since)), [102, 104, 104]);
        // Taken down by another process after the clock was set, and before this one looked.
        looks.look(20, 58);
        assert_eq!(looks.ends(57), 59);
    }

    #[test]
    fn a_clock_that_jumps_all_the_time_takes_a_bounded_room() {
        let looks = Looks::new();
        for hour in 0..1_000 {
            looks.look(hour, hour * 2);
        }
        assert_eq!(
            looks.steady.stretches.lock().unwrap_or_else(PoisonError::into_inner).len(),
            STRETCHES_MAX
        );
    }
}
