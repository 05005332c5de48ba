//! The time of day, as records have it.

use std::time::{SystemTime, UNIX_EPOCH};

use dalsegno_core::Timestamp;

/// Tells the time of day.
///
/// It is only written down and compared with times that are to come; how long something took is measured with a clock
/// that never jumps. One of one's own lets a test say what time it is.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The clock of the system. A time before 1970 counts as 1970.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}
