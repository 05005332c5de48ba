//! Bets against a claim about a mean.

use serde::Serialize;

/// The shares of the money that are bet, side by side, each with the part of the money that it begins with. A small share wins slowly
/// where the difference is small, a large one fast where it is large.
const SHARES: [(f64, f64); 6] =
    [(0.03, 0.05), (0.09, 0.2), (0.2, 0.25), (0.4, 0.25), (0.65, 0.15), (0.95, 0.1)];

/// How often an end of an interval is halved. After that it is exact to the last digits that are shown.
const HALVINGS: u32 = 50;

/// Values between 0 and 1 that were observed, in any order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// Each value once, with how often it was observed.
    values: Vec<(f64, f64)>,
}

/// The values between which a mean lies, both included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
}

impl Sample {
    /// A sample of these values, each with how often it was observed.
    ///
    /// What is not between 0 and 1 counts as the nearer of the two; what was observed a negative number of times, or cannot be
    /// compared, is left out.
    pub fn new(values: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut sample = Self::default();
        for (value, times) in values {
            sample.add(value, times);
        }
        sample
    }

    /// Adds a value that was observed so often. What cannot be used is left out, as by [`Self::new`].
    pub fn add(&mut self, value: f64, times: f64) {
        if value.is_nan() || !times.is_finite() || times <= 0.0 {
            return;
        }
        let value = value.clamp(0.0, 1.0);
        match self.values.iter_mut().find(|known| known.0 == value) {
            Some(known) => known.1 += times,
            None => self.values.push((value, times)),
        }
    }

    /// A sample of trials, of which so many passed.
    pub fn of_trials(passed: u64, trials: u64) -> Self {
        let failed = trials.saturating_sub(passed);
        #[expect(clippy::cast_precision_loss, reason = "there are never 2^53 trials")]
        Self::new([(0.0, failed as f64), (1.0, passed.min(trials) as f64)])
    }

    /// How many values were observed.
    pub fn size(&self) -> f64 {
        self.values.iter().map(|(_, times)| times).sum()
    }

    /// The mean of what was observed; `None` where nothing was.
    pub fn mean(&self) -> Option<f64> {
        let size = self.size();
        (size > 0.0).then(|| self.values.iter().map(|(value, times)| value * times).sum::<f64>() / size)
    }

    /// The interval in which the true mean lies with this confidence, a number such as 0.95, whenever one looks at it.
    ///
    /// Without any observation it is everything from 0 to 1.
    pub fn interval(&self, confidence: f64) -> Interval {
        let Some(mean) = self.mean() else { return Interval { low: 0.0, high: 1.0 } };
        let refused = self.refusal(confidence);
        // The money of who bets that the mean is greater falls with the mean that is claimed.
        let low = edge(mean, 0.0, |claim| self.gain(claim) >= refused);
        let high = 1.0 - edge(1.0 - mean, 0.0, |claim| self.mirrored().gain(claim) >= refused);
        Interval { low, high }
    }

    /// Says whether the mean is greater than this with the given confidence, half of whose error is spent on this side.
    pub fn is_above(&self, claim: f64, confidence: f64) -> bool {
        self.gain(claim) >= self.refusal(confidence)
    }

    /// Says whether the mean is less than this, in the same way.
    pub fn is_below(&self, claim: f64, confidence: f64) -> bool {
        self.mirrored().is_above(1.0 - claim, confidence)
    }

    /// The logarithm of the gain at which a claim is refused. Half of the error is spent on each side.
    #[expect(clippy::unused_self, reason = "it belongs to the methods that compare with it")]
    fn refusal(&self, confidence: f64) -> f64 {
        (2.0 / (1.0 - confidence.clamp(0.0, 1.0))).ln()
    }

    /// The values seen from 1.
    pub(crate) fn mirrored(&self) -> Self {
        Self { values: self.values.iter().map(|(value, times)| (1.0 - value, *times)).collect() }
    }

    /// The logarithm of what the money has become, of a player who bet that the mean is greater than `claim`.
    ///
    /// With the share `s`, a value `v` multiplies it by `1 - s + s v / claim`, which is 1 on average if the claim is true.
    fn gain(&self, claim: f64) -> f64 {
        if claim <= 0.0 {
            // One that is not 0 refutes it at once.
            return if self.values.iter().any(|(value, _)| *value > 0.0) { f64::INFINITY } else { 0.0 };
        }
        let gains = SHARES.map(|(share, part)| {
            let multiplied = |(value, times): &(f64, f64)| times * (share * (value / claim - 1.0)).ln_1p();
            part.ln() + self.values.iter().map(multiplied).sum::<f64>()
        });
        let most = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        most + gains.iter().map(|gain| (gain - most).exp()).sum::<f64>().ln()
    }
}

/// The greatest number between `refused`, of which `is_refused` holds, and `kept`, of which it does not.
fn edge(kept: f64, refused: f64, is_refused: impl Fn(f64) -> bool) -> f64 {
    if !is_refused(refused) {
        return refused;
    }
    let (mut kept, mut refused) = (kept, refused);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(kept, refused);
        if is_refused(middle) {
            refused = middle;
        } else {
            kept = middle;
        }
    }
    refused
}
