//! What came of a simulation.

use std::fmt;
use std::time::Duration;

use crate::coverage::Coverage;

/// What came of one seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What was promised and did not hold, in the order in which it was noticed; empty when all held.
    pub violations: Vec<String>,
    /// All that happened, a line each, with virtual times.
    pub history: String,
    /// What happened, counted.
    pub counts: Counts,
    /// What was made to happen, by kind.
    pub coverage: Coverage,
}

/// What happened in a simulated world, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs, child runs and those after handoffs included.
    pub runs: u64,
    /// Records that were written.
    pub records: u64,
    /// Calls that left a process.
    pub calls: u64,
    /// Effects that took place.
    pub effects: u64,
    /// Processes that died.
    pub deaths: u64,
    /// Operations that somebody had to be asked about.
    pub in_doubt: u64,
    /// Attempts that followed one whose process had ended.
    pub recovered: u64,
    /// Writes that were refused since somebody else owned the run.
    pub fenced: u64,
    /// Virtual time.
    pub time: Duration,
}

impl Counts {
    /// Adds what happened in another world.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.records += other.records;
        self.calls += other.calls;
        self.effects += other.effects;
        self.deaths += other.deaths;
        self.in_doubt += other.in_doubt;
        self.recovered += other.recovered;
        self.fenced += other.fenced;
        self.time += other.time;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, records, calls, effects, deaths, in_doubt, recovered, fenced, time } = self;
        write!(
            f,
            "{runs} runs, {records} records, {calls} calls, {effects} effects, {deaths} dead processes, {in_doubt} effects \
             in doubt, {recovered} attempts after a death, {fenced} stale writes, {} virtual hours",
            time.as_secs() / 3_600
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seed = self.seed;
        if self.violations.is_empty() {
            return write!(f, "seed {seed}: all held; {}", self.counts);
        }
        writeln!(f, "{}", self.history)?;
        writeln!(f, "seed {seed}: {} promises did not hold:", self.violations.len())?;
        for violation in &self.violations {
            writeln!(f, "  {violation}")?;
        }
        write!(f, "again: cargo run -p dalsegno-testkit --example sim -- --from {seed} --seeds 1")
    }
}
