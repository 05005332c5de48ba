//! How long things took.

use std::time::Duration;

/// How long something took, each time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// Adds one.
    pub(crate) fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// Adds all of others.
    pub(crate) fn extend(&mut self, others: &Self) {
        self.0.extend_from_slice(&others.0);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// What half of them took at most, in milliseconds.
    pub(crate) fn p50(&self) -> f64 {
        self.at(50)
    }

    /// What 99 of 100 took at most, in milliseconds.
    pub(crate) fn p99(&self) -> f64 {
        self.at(99)
    }

    /// What the longest took, in milliseconds.
    pub(crate) fn longest(&self) -> f64 {
        self.at(100)
    }

    fn at(&self, part: usize) -> f64 {
        let mut times = self.0.clone();
        times.sort_unstable();
        times.get(times.len().saturating_sub(1) * part / 100).map_or(0.0, |time| millis(*time))
    }
}

/// A time in milliseconds.
fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
