//! Differences of two ways, each the mean of several pairs.

use crate::bets::Sample;

/// Differences between two ways of running an agent, from -1 to 1: one for each example, in any order.
///
/// Several trials of one example are not independent: an easy example passes each time. So the trials of an example count as one
/// observation, the mean of their differences, and it is examples that are drawn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Differences {
    /// As values from 0 to 1.
    sample: Sample,
    squares: f64,
}

impl Differences {
    /// These differences, each with how often it was observed.
    pub fn new(values: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut differences = Self::default();
        for (difference, times) in values {
            differences.add_times(difference, times);
        }
        differences
    }

    /// Adds one: the pass rate of the second way less that of the first one.
    pub fn add(&mut self, difference: f64) {
        self.add_times(difference, 1.0);
    }

    fn add_times(&mut self, difference: f64, times: f64) {
        let before = self.sample.size();
        self.sample.add(f64::midpoint(difference, 1.0), times);
        if self.sample.size() > before {
            self.squares += difference.clamp(-1.0, 1.0).powi(2) * times;
        }
    }

    /// How many there are.
    pub fn count(&self) -> f64 {
        self.sample.size()
    }

    /// Their mean; 0 where there are none.
    pub fn mean(&self) -> f64 {
        self.sample.mean().map_or(0.0, |mean| 2.0 * mean - 1.0)
    }

    pub(crate) const fn sample(&self) -> &Sample {
        &self.sample
    }

    /// The sum of their squares.
    pub(crate) const fn squares(&self) -> f64 {
        self.squares
    }
}
