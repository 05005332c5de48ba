//! How often a server behind an address may have its stream opened again.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The shortest time from the opening of a stream to its next opening, whatever the server asks for.
pub(crate) const FLOOR: Duration = Duration::from_secs(1);

/// How many streams may be opened in a minute while no request is under way. A server that closes its stream every two
/// seconds stays below it.
pub(crate) const STREAMS_PER_MINUTE: usize = 30;

const MINUTE: Duration = Duration::from_secs(60);

/// Counts the streams of a connection that were opened in the last minute.
#[derive(Default)]
pub(crate) struct Pace(Mutex<VecDeque<Instant>>);

impl Pace {
    /// Counts a stream. Returns false when there were too many in the last minute: each request under way may have as many
    /// of its own.
    pub(crate) fn admit(&self, now: Instant, under_way: usize) -> bool {
        let mut opened = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while opened.front().is_some_and(|then| now.duration_since(*then) >= MINUTE) {
            opened.pop_front();
        }
        if opened.len() >= STREAMS_PER_MINUTE.saturating_mul(1 + under_way) {
            return false;
        }
        opened.push_back(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_so_many_streams_and_each_request_under_way_as_many_more() {
        let (pace, begin) = (Pace::default(), Instant::now());
        let at = |second: u64| begin + Duration::from_secs(second);
        for second in 0..30 {
            assert!(pace.admit(at(second), 0), "{second}");
        }
        assert!(!pace.admit(at(59), 0));
        for _ in 0..30 {
            assert!(pace.admit(at(59), 1));
        }
        assert!(!pace.admit(at(59), 1));
        // The first of them is a minute ago, and one may come.
        assert!(!pace.admit(at(60), 0), "31 were opened in the last minute");
        assert!(pace.admit(at(120), 0));
    }
}
