//! Pairs of trials: the same example under two ways of running an agent.

use serde::Serialize;

use crate::bets::{Interval, Sample};
use crate::differences::Differences;

/// How the second way did against the first one, example by example.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Pairs {
    /// The second way passed, and the first one did not.
    pub better: u64,
    /// The first way passed, and the second one did not.
    pub worse: u64,
    /// Both passed, or neither did.
    pub same: u64,
}

/// What pairs say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The second way passes more often.
    Better,
    /// The second way passes less often.
    Worse,
    /// If there is a difference, it is smaller than the smallest that counts.
    Equal,
    /// So many pairs do not tell.
    Inconclusive,
}

/// How pairs are judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// How sure a verdict is, for example 0.95: of two ways that are the same, at most 1 in 20 comparisons says otherwise,
    /// however often one looks.
    pub confidence: f64,
    /// The smallest difference of the pass rates that counts, for example 0.1 for ten points.
    pub smallest: f64,
}

impl Pairs {
    /// Adds a pair: whether the first way passed, and whether the second one did.
    pub fn add(&mut self, first: bool, second: bool) {
        match (first, second) {
            (false, true) => self.better += 1,
            (true, false) => self.worse += 1,
            _ => self.same += 1,
        }
    }

    /// How many pairs there are.
    pub fn count(&self) -> u64 {
        self.better + self.worse + self.same
    }

    /// The difference of the pass rates, from -1 to 1: above 0 where the second way passes more often.
    #[expect(clippy::cast_precision_loss, reason = "there are never 2^53 trials")]
    pub fn difference(&self) -> f64 {
        if self.count() == 0 {
            return 0.0;
        }
        (self.better as f64 - self.worse as f64) / self.count() as f64
    }

    /// The differences of the pairs: -1, 0 and 1.
    #[expect(clippy::cast_precision_loss, reason = "there are never 2^53 trials")]
    pub fn differences(&self) -> Differences {
        Differences::new([(-1.0, self.worse as f64), (0.0, self.same as f64), (1.0, self.better as f64)])
    }
}

impl Comparison {
    /// Judges the pairs. It may be asked after each pair, and the first verdict that is not [`Verdict::Inconclusive`] taken.
    pub fn judge(&self, pairs: &Pairs) -> Verdict {
        self.judge_differences(&pairs.differences())
    }

    /// The same for differences that are means of several pairs.
    pub fn judge_differences(&self, differences: &Differences) -> Verdict {
        let sample = differences.sample();
        let mirrored = sample.mirrored();
        // As a mean of values from 0 to 1, no difference is a half.
        let beyond = (1.0 - self.smallest) / 2.0;
        if sample.is_above(0.5, self.confidence) {
            Verdict::Better
        } else if mirrored.is_above(0.5, self.confidence) {
            Verdict::Worse
        } else if sample.is_above(beyond, self.confidence) && mirrored.is_above(beyond, self.confidence) {
            Verdict::Equal
        } else {
            Verdict::Inconclusive
        }
    }

    /// The interval in which the true difference of the pass rates lies, from -1 to 1.
    pub fn interval(&self, pairs: &Pairs) -> Interval {
        self.interval_of(&pairs.differences())
    }

    /// The same for differences that are means of several pairs.
    pub fn interval_of(&self, differences: &Differences) -> Interval {
        let Interval { low, high } = differences.sample().interval(self.confidence);
        Interval { low: 2.0 * low - 1.0, high: 2.0 * high - 1.0 }
    }

    /// The smallest true difference that so many pairs, of which as large a part differs, show in four of five comparisons.
    ///
    /// `None` where not even the greatest would be seen.
    pub fn visible(&self, pairs: &Pairs) -> Option<f64> {
        self.visible_by(&pairs.differences())
    }

    /// The same for differences that are means of several pairs. Pairs with the same mean square stand for them.
    pub fn visible_by(&self, differences: &Differences) -> Option<f64> {
        let count = differences.count();
        // With no pair that differs, one more is supposed to: nothing would be seen otherwise.
        let differing = differences.squares().max(1.0) / count.max(1.0);
        let shows = |difference: f64| {
            // All that differ do so one way where the difference is larger than what was seen to differ.
            let differing = differing.max(difference);
            let spread = ((differing - difference * difference) * count).max(0.0).sqrt();
            let gap = (difference * count - FOUR_OF_FIVE * spread).max(0.0);
            let (better, worse) = (f64::midpoint(differing * count, gap), (differing * count - gap) / 2.0);
            let pairs = [(0.0, worse), (0.5, count - differing * count), (1.0, better)];
            Sample::new(pairs).is_above(0.5, self.confidence)
        };
        if !shows(1.0) {
            return None;
        }
        let (mut hidden, mut shown) = (0.0, 1.0);
        for _ in 0..30 {
            let middle = f64::midpoint(hidden, shown);
            if shows(middle) {
                shown = middle;
            } else {
                hidden = middle;
            }
        }
        Some(shown)
    }
}

/// By how many standard deviations fewer pairs than on average may differ. For a single look at the end it would be 0.84, which four of
/// five values of a normal distribution reach; looking after each pair sees more. The value was found by simulation, and the tests
/// repeat it.
const FOUR_OF_FIVE: f64 = 0.4;
