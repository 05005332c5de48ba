//! What workers may take, and what leaves the shelf for good.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::{Digest, OperationId, RunId, Timestamp};

use super::{Run, Shelf};
use crate::codec::decode_body;
use crate::erase::{EraseError, Erased, Kin, has_content};
use crate::error::ReadError;
use crate::gc::{GcOptions, GcReport};
use crate::owner::{Owner, Witness};
use crate::record::{Body, RecordKind};
use crate::run::RunStatus;
use crate::shares::deal;
use crate::waiting::{Waiting, WaitingSet};

impl Shelf {
    pub(super) fn takeable(&self, owner: &Owner, now: Timestamp, turn: usize, limit: u32) -> Vec<RunId> {
        let mut witness = Witness::new(owner);
        let own = |(_, run): &(&RunId, &Run)| run.foreign.is_none();
        let free = |(_, run): &(&RunId, &Run)| run.owner.is_none_or(|owner| !witness.sees_alive(owner));
        let mut free: Vec<(&RunId, &Run)> = self.runs.iter().filter(own).filter(free).collect();
        free.sort_unstable_by_key(|(_, run)| run.number);
        let those = |can_go_on: &dyn Fn(&RunId, &Run) -> bool| {
            free.iter().filter(|(id, run)| can_go_on(id, run)).map(|(id, _)| **id).collect::<Vec<_>>()
        };
        let status = |run: &Run| run.copies.progress.status;
        let wake_at = |run: &Run| run.copies.progress.wake_at.filter(|at| *at <= now);
        let mut due = those(&|_, run| wake_at(run).is_some());
        due.sort_by_key(|id| self.runs.get(id).and_then(wake_at));
        let causes = [
            those(&|_, run| status(run) == RunStatus::Running && run.owner.is_none()),
            those(&|_, run| run.owner.is_some() && run.copies.progress.must_be_let_go()),
            due,
            those(&|id, run| {
                status(run) == RunStatus::Suspended
                    && run.inbox.iter().any(|message| message.open(*id).1.is_ok())
            }),
        ];
        deal(causes, turn, usize::try_from(limit).unwrap_or(usize::MAX))
    }

    pub(super) fn next_wake(&self, after: Timestamp) -> Option<Timestamp> {
        let own = self.runs.values().filter(|run| run.foreign.is_none());
        own.filter_map(|run| run.copies.progress.wake_at).filter(|at| *at > after).min()
    }

    pub(super) fn erase(&mut self, id: RunId, operation: Option<OperationId>) -> Result<Erased, EraseError> {
        let goes_on = |run: &Run| !run.copies.progress.status.is_end() && run.foreign.is_none();
        let run = self.runs.get(&id).ok_or(EraseError::UnknownRun { run: id })?;
        if goes_on(run) {
            return Err(EraseError::NotEnded { run: id, status: run.copies.progress.status });
        }
        if run.owner.is_some() && run.copies.progress.waiting.has(Waiting::InDoubt) {
            return Err(EraseError::UnderWay { run: id });
        }
        let above = run.copies.parent.filter(|_| run.foreign.is_none());
        if let Some(parent) = above.filter(|parent| self.runs.get(parent).is_some_and(goes_on)) {
            return Err(EraseError::Needed { run: id, parent });
        }
        let run = self.runs.get_mut(&id).ok_or(EraseError::UnknownRun { run: id })?;
        let mut family: BTreeSet<OperationId> = operation.into_iter().collect();
        let mut known = operation.is_none();
        let mut erased = Erased::default();
        let mut files = BTreeSet::new();
        for row in &mut run.rows {
            if operation.is_some() {
                let is_of = |id: Option<OperationId>| id.is_some_and(|id| family.contains(&id));
                if !is_of(row.operation) && !is_of(row.parent) {
                    continue;
                }
                family.extend(row.operation);
                known = true;
            }
            let kind = RecordKind::ALL.iter().find(|kind| **kind as u8 == row.kind);
            if kind.is_none_or(|kind| has_content(*kind)) && row.body.take().is_some() {
                erased.records += 1;
                files.extend(run.files.remove(&row.seq).into_iter().flatten());
            }
        }
        if let Some(operation) = operation.filter(|_| !known) {
            return Err(EraseError::UnknownOperation { run: id, operation });
        }
        run.snapshot = None;
        run.inbox.clear();
        if run.copies.progress.waiting != WaitingSet::EMPTY {
            run.copies.progress.waiting = WaitingSet::EMPTY;
            self.changes += 1;
            run.changed = self.changes;
        }
        for digest in files {
            if self.runs.values().flat_map(Run::files).any(|used| used == digest) {
                erased.shared_files += u64::from(self.blobs.contains_key(&digest));
            } else if self.blobs.remove(&digest).is_some() {
                erased.files += 1;
            }
        }
        Ok(erased)
    }

    pub(super) fn heirs(&self, run: RunId) -> Result<Vec<RunId>, ReadError> {
        self.run(run)?;
        let mut runs: Vec<(&RunId, &Run)> = self.runs.iter().collect();
        runs.sort_unstable_by_key(|(_, run)| run.number);
        let kin = |(id, run): &(&RunId, &Run)| Kin {
            run: **id,
            session: session(run),
            parent: run.copies.parent,
            predecessor: match run.rows.first().and_then(|row| decode_body(row.body.as_deref()?).ok()) {
                Some(Body::Started(started)) => Some(started.predecessor),
                _ => None,
            },
        };
        let all: Vec<Kin> = runs.iter().map(kin).collect();
        let forks = runs.iter().flat_map(|(id, run)| sources(run).map(|source| (**id, source)));
        Ok(crate::erase::heirs(run, &all, &forks.collect::<Vec<_>>()))
    }

    pub(super) fn gc(&mut self, options: &GcOptions) -> GcReport {
        let sessions = self.prunable(options);
        let is_doomed = |run: &Run| sessions.contains(&session(run));
        let doomed: BTreeMap<RunId, &Run> =
            self.runs.iter().filter(|(_, run)| is_doomed(run)).map(|(id, run)| (*id, run)).collect();
        let kept = || self.runs.iter().filter(|(id, _)| !doomed.contains_key(id)).map(|(_, run)| run);
        let used: BTreeSet<Digest> = kept().flat_map(Run::files).collect();
        let configs: BTreeSet<Digest> = kept().map(|run| run.copies.config).collect();
        let length = |bytes: Option<&Vec<u8>>| bytes.map_or(0, |bytes| bytes.len() as u64);
        let rows = || doomed.values().flat_map(|run| &run.rows);
        let snapshots = || doomed.values().filter_map(|run| run.snapshot.as_ref());
        let lost_files = || self.blobs.iter().filter(|(digest, _)| !used.contains(digest));
        let lost_configs = || self.configs.iter().filter(|(digest, _)| !configs.contains(digest));
        let report = GcReport {
            runs: doomed.len() as u64,
            records: rows().count() as u64,
            snapshots: snapshots().count() as u64,
            files: lost_files().count() as u64,
            configs: lost_configs().count() as u64,
            bytes: rows().map(|row| length(row.body.as_ref())).sum::<u64>()
                + snapshots().map(|snapshot| length(Some(&snapshot.state))).sum::<u64>()
                + lost_files().map(|(_, bytes)| length(Some(bytes))).sum::<u64>()
                + lost_configs().map(|(_, json)| json.len() as u64).sum::<u64>(),
        };
        if !options.dry_run {
            let doomed: BTreeSet<RunId> = doomed.into_keys().collect();
            self.runs.retain(|id, _| !doomed.contains(id));
            self.keys.retain(|_, id| !doomed.contains(id));
            self.roots.retain(|_, ids| {
                ids.retain(|id| !doomed.contains(id));
                !ids.is_empty()
            });
            self.blobs.retain(|digest, _| used.contains(digest));
            self.configs.retain(|digest, _| configs.contains(digest));
        }
        report
    }

    /// The sessions all of whose runs are old enough and needed by no run of another one.
    fn prunable(&self, options: &GcOptions) -> BTreeSet<(String, String)> {
        let is_old = |(id, run): (&RunId, &Run)| {
            (run.copies.progress.status.is_end() || run.foreign.is_some())
                && run.copies.updated_at < options.before
                && !options.keep.contains(id)
        };
        let mut sessions: BTreeSet<_> = self.runs.values().map(session).collect();
        for (id, run) in &self.runs {
            if !is_old((id, run)) {
                sessions.remove(&session(run));
            }
        }
        loop {
            let mut needed = BTreeSet::new();
            for run in self.runs.values() {
                let doomed = sessions.contains(&session(run));
                if let Some(parent) = run.copies.parent.and_then(|parent| self.runs.get(&parent)) {
                    match (doomed, sessions.contains(&session(parent))) {
                        (true, false) => needed.insert(session(run)),
                        (false, true) => needed.insert(session(parent)),
                        _ => false,
                    };
                }
                if !doomed {
                    needed.extend(sources(run).filter_map(|source| self.runs.get(&source)).map(session));
                }
            }
            let before = sessions.len();
            sessions.retain(|session| !needed.contains(session));
            if sessions.len() == before {
                return sessions;
            }
        }
    }
}

fn session(run: &Run) -> (String, String) {
    (run.copies.tenant.clone(), run.copies.session.clone())
}

/// The runs of which this one is a fork.
fn sources(run: &Run) -> impl Iterator<Item = RunId> {
    let forked = run
        .rows
        .iter()
        .filter(|row| row.kind == RecordKind::Forked as u8 || row.kind == RecordKind::Adopted as u8);
    forked.filter_map(|row| match decode_body(row.body.as_deref()?) {
        Ok(Body::Forked { run, .. } | Body::Adopted { run, .. }) => Some(run),
        _ => None,
    })
}
