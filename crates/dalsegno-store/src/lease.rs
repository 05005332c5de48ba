//! Proof that a run is owned.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use dalsegno_core::RunId;

use crate::bytes::Link;
use crate::chain::Head;
use crate::owner::OwnerId;
use crate::run::RunStatus;
use crate::waiting::{Waiting, WaitingSet};

/// Proof of ownership of a run, needed for every write.
///
/// It knows the next sequence number and the owner's epoch, and every write states both. Dropping it without a release
/// leaves the run to its owner, who may acquire it again; others may when the owner is gone.
#[derive(Debug)]
pub struct Lease {
    pub(crate) run: RunId,
    pub(crate) epoch: u64,
    pub(crate) owner: OwnerId,
    pub(crate) next_seq: u64,
    /// The link of the last record.
    pub(crate) head: Link,
    /// The run that is told when this one ends.
    pub(crate) tells: Option<Tells>,
    /// What the run waits for while it is performed.
    pub(crate) waiting: WaitingSet,
    /// The run's row in a store that numbers its rows; else 0.
    pub(crate) row: i64,
    pub(crate) _hold: Hold,
}

impl Lease {
    /// That of a run which its owner has from here on: what follows the head is written under this epoch.
    pub(crate) fn new(run: RunId, epoch: u64, owner: OwnerId, head: Head, row: i64, holds: &Holds) -> Self {
        let Head { next_seq, link: head } = head;
        let (tells, waiting, _hold) = (None, WaitingSet::EMPTY, holds.hold(run, epoch));
        Self { run, epoch, owner, next_seq, head, tells, waiting, row, _hold }
    }

    /// The run.
    pub const fn run(&self) -> RunId {
        self.run
    }

    /// The owner's epoch: it goes up with each acquisition.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The owner to whom the run was given.
    pub const fn owner(&self) -> OwnerId {
        self.owner
    }

    /// The sequence number of the next record, which is also the number of records so far.
    pub const fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// The link of the last record.
    pub const fn head(&self) -> Link {
        self.head
    }

    /// Says what the run waits for while it is performed: one of its operations, while others are under way, or while a caller is on
    /// the line. Its entry says so from the next commit on after which it is running, until another commit with something else.
    /// A run that is suspended says itself what it waits for.
    pub fn waits_for(&mut self, kinds: impl IntoIterator<Item = Waiting>) {
        self.waiting = WaitingSet::of_kinds(kinds);
    }

    /// The same lease, with which the commit that ends or suspends the run tells this one to
    /// [look](crate::Message::Look), unless it has ended: a parent that waits for a child run wakes, whenever the child's
    /// process dies. The lease of a run that goes on after a handoff tells it too.
    #[must_use]
    pub fn telling(self, parent: RunId) -> Self {
        Self { tells: Some(Tells { run: parent, sleepers_only: false }), ..self }
    }

    /// The same for a parent that performs this run itself, and sees how it stands: it is told of the end only, and only
    /// where the journal has it as suspended still. If its process dies before it has written down what it saw, nobody else would wake it.
    #[must_use]
    pub fn telling_sleeper(self, parent: RunId) -> Self {
        Self { tells: Some(Tells { run: parent, sleepers_only: true }), ..self }
    }
}

/// Whom the end of a run is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tells {
    pub(crate) run: RunId,
    /// Only if it is suspended, as far as the journal says.
    pub(crate) sleepers_only: bool,
}

impl Tells {
    /// Says whether a commit after which the run stands like this is told.
    pub(crate) const fn tells_of(self, status: RunStatus) -> bool {
        match status {
            RunStatus::Running => false,
            RunStatus::Suspended => !self.sleepers_only,
            RunStatus::Completed
            | RunStatus::Failed
            | RunStatus::Cancelled
            | RunStatus::HandedOff
            | RunStatus::Abandoned => true,
        }
    }
}

/// The leases that a store has given out and that still live.
///
/// It tells a second task of the same owner (refused) from an owner that takes up again what it dropped (allowed).
#[derive(Debug, Clone, Default)]
pub(crate) struct Holds(Arc<Mutex<BTreeSet<(RunId, u64)>>>);

impl Holds {
    pub(crate) fn hold(&self, run: RunId, epoch: u64) -> Hold {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((run, epoch));
        Hold { holds: self.clone(), key: (run, epoch) }
    }

    pub(crate) fn holds(&self, run: RunId, epoch: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&(run, epoch))
    }
}

/// One lease's entry among the holds, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Hold {
    holds: Holds,
    key: (RunId, u64),
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.holds.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}
