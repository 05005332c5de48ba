//! What is read of many runs.

use dalsegno_core::RunId;

use super::Shelf;
use crate::run::{Change, RunFilter, RunSummary};

impl Shelf {
    /// The runs that fit, the newest first.
    pub(super) fn list(&self, filter: &RunFilter) -> Vec<RunSummary> {
        let after = filter.after.map(|after| self.runs.get(&after).map_or(0, |run| run.number));
        let mut found: Vec<(usize, RunSummary)> = self
            .runs
            .iter()
            .filter(|(_, run)| after.is_none_or(|after| run.number < after))
            .filter(|(_, run)| !filter.followable || run.is_followable())
            .map(|(id, run)| (run.number, run.summary(*id)))
            .filter(|(_, run)| filter.matches(run))
            .collect();
        found.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
        found.truncate(filter.limit as usize);
        found.into_iter().map(|(_, run)| run).collect()
    }

    /// The runs whose status has changed since a change, in the order of their latest changes.
    pub(super) fn changed(&self, after: u64, limit: u32) -> Vec<Change> {
        let later = self.runs.iter().filter(|(_, run)| run.changed > after);
        let mut found: Vec<Change> =
            later.map(|(id, run)| Change { number: run.changed, run: run.summary(*id) }).collect();
        found.sort_unstable_by_key(|change| change.number);
        found.truncate(limit as usize);
        found
    }

    /// The number of records of each of these runs that is there.
    pub(super) fn heads(&self, runs: &[RunId]) -> Vec<(RunId, u64)> {
        let head = |run: &RunId| Some((*run, self.runs.get(run)?.rows.len() as u64));
        runs.iter().filter_map(head).collect()
    }

    /// Another number after each change: of a file the version would say so.
    pub(super) fn version(&self) -> u64 {
        let of_runs = self.runs.values().map(|run| run.rows.len() as u64 + run.posted + run.epoch);
        of_runs.sum::<u64>() + self.created as u64
    }
}
