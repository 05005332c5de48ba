//! How long requests are waited for that belong together.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The time of the requests of one call. It begins with the first of them.
#[derive(Debug)]
pub struct Patience {
    each: Duration,
    all: Duration,
    begun: OnceLock<Instant>,
}

impl Patience {
    /// At most `each` for a request, and at most `all` for all of them.
    pub fn new(each: Duration, all: Duration) -> Self {
        Self { each, all, begun: OnceLock::new() }
    }

    /// How long the next request may take. The first has its whole time.
    pub fn left(&self) -> Duration {
        let left = match self.begun.get() {
            Some(begun) => self.all.saturating_sub(begun.elapsed()),
            None => {
                self.begun.get_or_init(Instant::now);
                self.all
            }
        };
        self.each.min(left)
    }
}
