//! What came of a soak, as a small table.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Effects that took place, by what may repeat of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effects {
    /// Reads.
    pub read: u64,
    /// Those that may be made again.
    pub idempotent: u64,
    /// Those with a key, each counted once.
    pub keyed: u64,
    /// Calls with a key that the receiver knew: nothing took place.
    pub known: u64,
    /// Those that may not be made again.
    pub not_repeatable: u64,
}

/// How things stand in the middle of a soak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoakSample {
    /// Since the beginning.
    pub after: Duration,
    /// Resident memory of this process in bytes, where the machine says it.
    pub memory: Option<u64>,
    /// Runs that were started, child runs not counted.
    pub started: u64,
    /// Those of them that have ended.
    pub ended: u64,
    /// Promises that did not hold.
    pub broken: usize,
}

/// The memory that a process had, in bytes: medians of each third of a soak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// Of the first third.
    pub first: u64,
    /// Of the second.
    pub middle: u64,
    /// Of the last.
    pub last: u64,
}

/// What memory may grow by from the second third of a soak to the last, in hundredths of the former.
const GROWTH: u64 = 5;

/// And in bytes besides: an allocator hands out memory in pieces.
const SLACK: u64 = 8_000_000;

impl MemoryUse {
    /// The medians of what was sampled; nothing of less than three samples.
    pub(super) fn of(samples: &[SoakSample]) -> Option<Self> {
        let memory: Vec<u64> = samples.iter().filter_map(|sample| sample.memory).collect();
        let third = memory.len() / 3;
        if third == 0 {
            return None;
        }
        let median = |part: &[u64]| {
            let mut part = part.to_vec();
            part.sort_unstable();
            part[part.len() / 2]
        };
        Some(Self {
            first: median(&memory[..third]),
            middle: median(&memory[third..2 * third]),
            last: median(&memory[2 * third..]),
        })
    }

    /// It has not grown from the second third to the last by more than 5 % and 8 MB. The first third is left out:
    /// caches and pools are filled there.
    #[must_use]
    pub fn is_flat(&self) -> bool {
        self.last <= self.middle + self.middle * GROWTH / 100 + SLACK
    }
}

/// What came of a soak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoakReport {
    /// How long it lasted, without the end in which all runs are led to theirs.
    pub length: Duration,
    /// Runs that were started, child runs not counted.
    pub started: u64,
    /// Runs that have ended, by their status; child runs are counted too.
    pub ended: BTreeMap<String, u64>,
    /// Steps of all runs that have ended.
    pub steps: u64,
    /// Records of all runs.
    pub records: u64,
    /// Calls of tools.
    pub calls: u64,
    /// What took place.
    pub effects: Effects,
    /// Questions that were answered, by their kind.
    pub answered: BTreeMap<String, u64>,
    /// Processes that were told to stop.
    pub stopped: u64,
    /// Processes that were gone all at once.
    pub killed: u64,
    /// When the time was up and nothing could go on any more: runs by what they waited for.
    pub waited: BTreeMap<String, u64>,
    /// Memory, where the machine says it and there were enough samples.
    pub memory: Option<MemoryUse>,
    /// What was promised and did not hold, in the order in which it was noticed; empty when all held.
    pub broken: Vec<String>,
}

impl fmt::Display for SoakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |counts: &BTreeMap<String, u64>| {
            let words: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
            if words.is_empty() { "none".to_owned() } else { words.join(", ") }
        };
        let Effects { read, idempotent, keyed, known, not_repeatable } = self.effects;
        writeln!(f, "runs       {} started; with child runs {}", self.started, list(&self.ended))?;
        writeln!(
            f,
            "steps      {}, {} records, {:.0} s",
            self.steps,
            self.records,
            self.length.as_secs_f64()
        )?;
        writeln!(
            f,
            "effects    {} calls: {read} read, {idempotent} idempotent, {keyed} keyed (and {known} known), \
             {not_repeatable} unsafe",
            self.calls
        )?;
        writeln!(f, "answers    {}", list(&self.answered))?;
        writeln!(f, "processes  {} stopped, {} killed", self.stopped, self.killed)?;
        writeln!(f, "time up    {}", list(&self.waited))?;
        match self.memory {
            Some(memory) => {
                let megabytes = |bytes: u64| bytes as f64 / 1e6;
                let verdict = if memory.is_flat() { "flat" } else { "GROWS" };
                writeln!(
                    f,
                    "memory     {:.1} MB, {:.1} MB, {:.1} MB in the thirds: {verdict} (at most {GROWTH} % and {:.0} MB more)",
                    megabytes(memory.first),
                    megabytes(memory.middle),
                    megabytes(memory.last),
                    megabytes(SLACK),
                )?;
            }
            None => writeln!(f, "memory     not known here, or too few samples")?,
        }
        write!(f, "broken     {}", self.broken.len())?;
        for what in &self.broken {
            write!(f, "\n  {what}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(memory: &[u64]) -> Vec<SoakSample> {
        let sample = |memory: &u64| SoakSample {
            after: Duration::ZERO,
            memory: Some(*memory),
            started: 0,
            ended: 0,
            broken: 0,
        };
        memory.iter().map(sample).collect()
    }

    #[test]
    fn memory_that_grows_is_not_flat_and_one_peak_is_no_growth() {
        let flat = |memory: &[u64]| MemoryUse::of(&samples(memory)).unwrap().is_flat();
        let m = 1_000_000;
        assert!(flat(&[20 * m, 90 * m, 100 * m, 101 * m, 100 * m, 102 * m, 101 * m, 900 * m, 101 * m]));
        assert!(!flat(&[20 * m, 90 * m, 100 * m, 101 * m, 100 * m, 102 * m, 131 * m, 132 * m, 133 * m]));
        assert!(MemoryUse::of(&samples(&[m, m])).is_none());
    }
}
