//! Erasure: the content of a run goes, and the proof that it was there stays.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::{OperationId, RunId};

use crate::error::{ReadError, StorageError};
use crate::record::RecordKind;
use crate::run::RunStatus;

/// What an erasure did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Erased {
    /// The records whose content is gone now. Those that had lost it before are not counted.
    pub records: u64,
    /// The files, and the long texts that are kept like files, that are gone.
    pub files: u64,
    /// The same, of those that stay because other records use them too.
    pub shared_files: u64,
}

/// An erasure that was not done, or not to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EraseError {
    /// There is no such run.
    #[error("the journal has no run {run}")]
    UnknownRun {
        /// The run.
        run: RunId,
    },
    /// The run goes on and needs its content.
    #[error("run {run} has not ended ({status}): cancel it first")]
    NotEnded {
        /// The run.
        run: RunId,
        /// Where it stands.
        status: RunStatus,
    },
    /// The run is a child run, and its parent has still to read how it ended.
    #[error(
        "run {run} is a child run of {parent}, which has not ended and needs its outcome: cancel the parent first, or wait until it ends"
    )]
    Needed {
        /// The run.
        run: RunId,
        /// Its parent.
        parent: RunId,
    },
    /// The run has ended, and its process may still record what an effect did that was under way then.
    #[error(
        "run {run} has ended while an effect was under way, and its process has still to record what came of it: wait for that, or, if \
         the process is gone, resume the run first"
    )]
    UnderWay {
        /// The run.
        run: RunId,
    },
    /// The run has no record of this operation.
    #[error("run {run} has no operation {operation}")]
    UnknownOperation {
        /// The run.
        run: RunId,
        /// The operation.
        operation: OperationId,
    },
    /// Nothing can read the content any more, but its bytes may still be in the log beside the file, because somebody
    /// reads an older state of the journal.
    #[error(
        "the content of run {run} is erased, but a reader of an older state keeps its bytes in the log of the journal: \
         stop the programs that read the journal, and erase the run again"
    )]
    Busy {
        /// The run.
        run: RunId,
    },
    /// The run's entry is damaged.
    #[error(transparent)]
    Unreadable(ReadError),
    /// The storage failed. Unless the content can be read still, erase again to be sure that its bytes are gone.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// A run, as far as it matters to who holds what another one said.
#[derive(Debug)]
pub(crate) struct Kin {
    pub(crate) run: RunId,
    /// Its tenant and its session.
    pub(crate) session: (String, String),
    /// The run above it; none for a root run.
    pub(crate) parent: Option<RunId>,
    /// The run before it; the outer one is none where the content that says so was erased.
    pub(crate) predecessor: Option<Option<RunId>>,
}

/// The runs that hold content of this one: those that follow it, are forks of it or child runs of it, and theirs. All runs are given in
/// the order in which they were created, and with each fork the run that it is one of.
///
/// Of a run that was erased nobody knows what it followed, so it is taken for one that followed the root run before it in
/// its session. It holds nothing itself.
pub(crate) fn heirs(run: RunId, all: &[Kin], forks: &[(RunId, RunId)]) -> Vec<RunId> {
    let mut last: BTreeMap<&(String, String), RunId> = BTreeMap::new();
    let mut below: BTreeMap<RunId, Vec<RunId>> = BTreeMap::new();
    let mut erased = BTreeSet::new();
    for kin in all {
        let before = if kin.parent.is_none() { last.insert(&kin.session, kin.run) } else { None };
        let source = match kin.predecessor {
            Some(predecessor) => predecessor,
            None => {
                erased.insert(kin.run);
                before
            }
        };
        for source in source.into_iter().chain(kin.parent) {
            below.entry(source).or_default().push(kin.run);
        }
    }
    for (fork, source) in forks {
        below.entry(*source).or_default().push(*fork);
    }
    let (mut found, mut open) = (BTreeSet::from([run]), vec![run]);
    while let Some(next) = open.pop() {
        open.extend(below.remove(&next).into_iter().flatten().filter(|heir| found.insert(*heir)));
    }
    let holds = |kin: &&Kin| kin.run != run && found.contains(&kin.run) && !erased.contains(&kin.run);
    all.iter().filter(holds).map(|kin| kin.run).collect()
}

/// Says whether records of this kind hold what people or tools said. Of the others the journal keeps all.
pub(crate) const fn has_content(kind: RecordKind) -> bool {
    match kind {
        RecordKind::Started
        | RecordKind::Conversed
        | RecordKind::Answered
        | RecordKind::Resolved
        | RecordKind::Late
        | RecordKind::Signalled
        | RecordKind::Forked
        | RecordKind::Suspended
        | RecordKind::Paused
        | RecordKind::Continued
        | RecordKind::Completed
        | RecordKind::Failed
        | RecordKind::Cancelled
        | RecordKind::HandedOff
        | RecordKind::Inherited
        | RecordKind::Abandoned => true,
        // A guest may ask for an address that holds what it was given.
        RecordKind::Denied => true,
        // An id is the server's word, and may hold anything.
        RecordKind::Tasked => true,
        // What the tool said of the operation.
        RecordKind::Verified => true,
        // A gate's reason is what a tool's failure said.
        RecordKind::Waiting => true,
        // The words for a request may hold what it was about: releases before the words without values wrote addresses.
        RecordKind::Requested => true,
        // The reason is what the attempt before it met with.
        RecordKind::Attempted => true,
        RecordKind::Adopted | RecordKind::Narrowed | RecordKind::Rebound => false,
    }
}
