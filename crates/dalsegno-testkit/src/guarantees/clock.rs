//! How the clock was set, so that what it showed can be told from what time it was.

use std::time::Duration;

use dalsegno_core::Timestamp;

use super::Guarantees;
use crate::clock::VirtualClock;
use crate::process::Process;

/// Longer than the time between two looks of a process at the clock.
const MOMENT: Duration = Duration::from_secs(5);

impl Guarantees {
    /// From now on the clock is wrong by so many milliseconds.
    pub(crate) fn clock_is_set(&mut self, wrong_by: i64) {
        if self.clock.last().is_none_or(|(_, last)| *last != wrong_by) {
            self.clock.push((self.now, wrong_by));
        }
    }

    /// Somebody has set the clock, so that two times of day say nothing about the time between them.
    pub(super) fn clock_was_set(&self) -> bool {
        self.clock.len() > 1
    }

    /// Since when a process has seen everything that became of the clock; none where the clock was set twice in a moment.
    pub(super) fn witness_since(&self, process: &Process) -> Option<Duration> {
        let moments = self.clock.windows(2).any(|set| set[1].0.saturating_sub(set[0].0) < MOMENT);
        let began = self.began.get(&process.number).filter(|_| !moments)?;
        Some(self.thawed.get(&process.number).map_or(*began, |thawed| *began.max(thawed)))
    }

    /// The virtual time, not after now, at which the clock showed a time: the last one if it did so more than once.
    pub(super) fn elapsed_at(&self, shown: Timestamp) -> Option<Duration> {
        let mut until = self.now;
        for (since, wrong_by) in self.clock.iter().rev() {
            let at = VirtualClock::elapsed_at(shown, *wrong_by);
            if let Some(at) = at.filter(|at| (*since..=until).contains(at)) {
                return Some(at);
            }
            until = *since;
        }
        None
    }
}
