//! What erasing and pruning may take, and what rests on it.

use std::collections::BTreeSet;

use dalsegno_core::RunId;

use super::{Guarantees, Line};
use crate::process::Process;

impl Guarantees {
    /// Runs that were ever made.
    pub(crate) fn made(&self) -> usize {
        self.made
    }

    /// Somebody erases what a run held.
    pub(crate) fn erased(&mut self, run: RunId) {
        if let Some(line) = self.runs.get_mut(&run) {
            line.erased = true;
        }
    }

    /// Says whether a run is a child run whose parent goes on, so that it may not be erased.
    pub(crate) fn is_needed_above(&self, run: RunId) -> bool {
        let parent = self.runs.get(&run).and_then(|line| line.parent);
        parent.and_then(|parent| self.runs.get(&parent.run)).is_some_and(|above| !above.ended)
    }

    /// Says whether a run cannot be folded, since it was erased or is a continuation of one that was, or one that was pruned.
    pub(crate) fn rests_on_erased(&self, run: RunId) -> bool {
        let mut found = BTreeSet::new();
        let mut open = vec![run];
        while let Some(run) = open.pop() {
            if !found.insert(run) {
                continue;
            }
            let Some(line) = self.runs.get(&run) else { return true };
            if line.erased {
                return true;
            }
            // What a run took over at its beginning is its own; a fork shares records.
            open.extend(line.predecessor.filter(|_| !line.inherits));
            open.extend(line.forked_from);
        }
        false
    }

    /// Says whether a run, or one that it handed over to, cannot be folded.
    pub(crate) fn leads_to_erased(&self, run: RunId) -> bool {
        let next = self.runs.values().find(|line| line.predecessor == Some(run) && line.by_handoff);
        self.rests_on_erased(run) || next.is_some_and(|line| self.leads_to_erased(line.run))
    }

    /// All that was created is in the store, unless it was pruned.
    pub(crate) fn are_there(&mut self, found: &BTreeSet<RunId>) {
        let lost = self.runs.values().filter(|line| !found.contains(&line.run));
        let lost: Vec<String> =
            lost.map(|line| format!("{} is not in the store any more", line.alias)).collect();
        self.violations.extend(lost);
    }

    pub(crate) fn all_that_rest_on_erased(&self) -> BTreeSet<RunId> {
        self.runs.keys().copied().filter(|run| self.rests_on_erased(*run)).collect()
    }

    /// Runs that may not be erased yet: others are folded from them.
    pub(crate) fn not_to_be_erased(&self) -> BTreeSet<RunId> {
        let shared = |line: &Line| {
            let mut others = self.runs.values().filter(|other| other.run != line.run);
            others.any(|other| other.forked_from == Some(line.run))
        };
        self.runs.values().filter(|line| line.erased || shared(line)).map(|line| line.run).collect()
    }

    /// Old runs were deleted, and these are left.
    pub(crate) fn pruned(&mut self, left: &BTreeSet<RunId>) {
        let gone: Vec<RunId> = self.runs.keys().copied().filter(|run| !left.contains(run)).collect();
        for run in &gone {
            let Some(line) = self.runs.remove(run) else { continue };
            self.has_pruned = true;
            if !line.ended {
                self.broken(format!("{} was pruned, and has not ended", line.alias));
            }
            self.starts.retain(|_, started| started != run);
            self.children.retain(|_, child| child != run);
        }
        let needs =
            |line: &Line| line.predecessor.filter(|_| !line.inherits).into_iter().chain(line.forked_from);
        let lost: Vec<String> = self
            .runs
            .values()
            // Of an erased run nothing is left that could need another one.
            .filter(|line| !line.erased && needs(line).any(|run| gone.contains(&run)))
            .map(|line| format!("{} needs a run that was pruned", line.alias))
            .collect();
        self.violations.extend(lost);
    }

    /// A worker has stopped, and its process ends.
    pub(crate) fn stopped(&mut self, process: &Process) {
        if process.is_hurt() || !process.holds_lock() {
            return;
        }
        let mine = |line: &&Line| line.owner.as_ref().is_some_and(|owner| owner.number == process.number);
        let kept: Vec<String> = self.runs.values().filter(mine).map(|line| line.alias.clone()).collect();
        // What its person began here goes on besides the worker.
        if !kept.is_empty() {
            self.notes.push(format!("p{} ends with {}", process.number, kept.join(", ")));
        }
    }
}
