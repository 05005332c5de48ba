//! How far a judge agrees with people.

use serde::Serialize;

use crate::bets::{Interval, Sample};

/// Examples that both a judge and a person have judged, by what both said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Agreement {
    /// Both said that it passes.
    pub both_pass: u64,
    /// Both said that it does not.
    pub both_fail: u64,
    /// The judge alone lets it pass.
    pub only_judge: u64,
    /// The person alone lets it pass.
    pub only_person: u64,
}

/// A figure, and what it may truly be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figure {
    /// What was observed.
    pub value: f64,
    /// What it may truly be.
    pub interval: Interval,
}

impl Agreement {
    /// Adds an example.
    pub fn add(&mut self, judge: bool, person: bool) {
        match (judge, person) {
            (true, true) => self.both_pass += 1,
            (false, false) => self.both_fail += 1,
            (true, false) => self.only_judge += 1,
            (false, true) => self.only_person += 1,
        }
    }

    /// How many examples there are.
    pub fn count(&self) -> u64 {
        self.both_pass + self.both_fail + self.only_judge + self.only_person
    }

    /// The share of examples on which both agree; `None` where there is none.
    pub fn raw(&self, confidence: f64) -> Option<Figure> {
        let sample = Sample::of_trials(self.both_pass + self.both_fail, self.count());
        sample.mean().map(|value| Figure { value, interval: sample.interval(confidence) })
    }

    /// Cohen's kappa: how much of the agreement that chance leaves open is reached. 1 is full agreement, 0 is that of two who do not look
    /// (Cohen, "A Coefficient of Agreement for Nominal Scales", Educational and Psychological Measurement 20, 1960).
    ///
    /// Its interval is that of the raw agreement, seen from the agreement by chance that was observed. `None` where both always said
    /// the same one thing: then nothing is known of it.
    #[expect(clippy::cast_precision_loss, reason = "there are never 2^53 examples")]
    pub fn kappa(&self, confidence: f64) -> Option<Figure> {
        let raw = self.raw(confidence)?;
        let count = self.count() as f64;
        let judge = (self.both_pass + self.only_judge) as f64 / count;
        let person = (self.both_pass + self.only_person) as f64 / count;
        let chance = judge * person + (1.0 - judge) * (1.0 - person);
        if chance >= 1.0 {
            return None;
        }
        let beyond = |agreed: f64| ((agreed - chance) / (1.0 - chance)).max(-1.0);
        let Interval { low, high } = raw.interval;
        Some(Figure { value: beyond(raw.value), interval: Interval { low: beyond(low), high: beyond(high) } })
    }
}
