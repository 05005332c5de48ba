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
            .filter(|(_, run)| filter.agent.as_ref().is_none_or(|agent| run.agent == *agent))
            .filter(|(_, run)| filter.status.is_none_or(|status| run.status == status))
            .filter(|(_, run)| filter.tenant.as_ref().is_none_or(|tenant| run.tenant == *tenant))
            .filter(|(_, run)| {
                filter
                    .wake_by
                    .is_none_or(|by| run.foreign.is_none() && run.wake_at.is_some_and(|at| at <= by))
            })
            .filter(|(_, run)| filter.foreign.is_none_or(|foreign| run.foreign.is_some() == foreign))
            .filter(|(_, run)| filter.session.as_ref().is_none_or(|session| run.session == *session))
            .filter(|(_, run)| filter.parent.is_none_or(|parent| run.parent == Some(parent)))
            .filter(|(_, run)| filter.waiting.is_none_or(|kind| run.waiting.contains(&kind)))
            .filter(|(_, run)| !filter.roots_only || run.parent.is_none())
            .filter(|(_, run)| filter.since.is_none_or(|since| run.started_at >= since))
            .filter(|(_, run)| filter.until.is_none_or(|until| run.started_at < until))
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
