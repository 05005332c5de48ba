//! The time of day of a simulated world.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use dalsegno_core::Timestamp;
use dalsegno_runtime::Clock;
use tokio::time::Instant;

/// The time of day when a world begins: 2026-11-22, in milliseconds since the epoch.
const BEGINNING: i64 = 1_795_305_600_000;

/// A clock that shows the virtual time of a paused tokio runtime, and that somebody may set.
///
/// Virtual time itself never goes back; only what the clock shows does.
#[derive(Debug, Clone)]
pub struct VirtualClock {
    began: Instant,
    /// By how much the clock is wrong, in milliseconds.
    offset: Arc<AtomicI64>,
}

impl VirtualClock {
    /// A clock that begins now.
    #[must_use]
    pub fn new() -> Self {
        Self { began: Instant::now(), offset: Arc::default() }
    }

    /// Virtual time since the beginning, however the clock was set.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The virtual time at which the clock showed a time while it was wrong by so many milliseconds; none before the beginning.
    pub(crate) fn elapsed_at(shown: Timestamp, wrong_by: i64) -> Option<Duration> {
        let since = 0_i64.saturating_add_unsigned(shown.as_millis()).saturating_sub(BEGINNING);
        u64::try_from(since.saturating_sub(wrong_by)).ok().map(Duration::from_millis)
    }

    /// Sets the clock to be wrong by so many milliseconds; 0 sets it right.
    pub fn set_wrong_by(&self, millis: i64) {
        self.offset.store(millis, Ordering::Relaxed);
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.elapsed().as_millis()).unwrap_or(i64::MAX);
        let shown = BEGINNING.saturating_add(elapsed).saturating_add(self.offset.load(Ordering::Relaxed));
        Timestamp::from_millis(u64::try_from(shown).unwrap_or_default())
    }
}
