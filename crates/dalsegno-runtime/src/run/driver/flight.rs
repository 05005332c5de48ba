//! What this process does with each operation of the current step: one place for each operation.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use dalsegno_core::{OperationId, Timestamp};
use dalsegno_history::WaitingOperation;
use dalsegno_store::AttemptCause;

use crate::effects::dispatch::Permit;

/// What this process does with an operation that has no task here. The tasks are in [`RunningTasks`](super::running::RunningTasks), and what
/// the journal knows of an operation is its [`Progress`](dalsegno_history::Progress).
enum Flight {
    /// It waits until fewer of its step are under way.
    Queued(AttemptCause),
    /// It waits until there is room for it in this process.
    Admitting,
    /// It starts after the next commit, and uses its permit until it is over.
    Starting(Starting),
    /// It is a child run that is suspended, or that another process executes.
    Suspended(Paused),
    /// Its receiver works on it, and is asked again at this time.
    Later(Timestamp),
    /// It was given up while an attempt of it was under way: the result of that attempt is dropped.
    GivenUp,
}

/// A child run that this process does not execute now.
pub(super) struct Paused {
    pub(super) waiting: Vec<WaitingOperation>,
    pub(super) wake_at: Option<Timestamp>,
    /// When the first of its questions is answered with a no, unless a person answers it before.
    pub(super) answer_by: Option<Timestamp>,
    /// Another process executes it, and tells this run when the child ends or is suspended.
    pub(super) elsewhere: bool,
}

impl Paused {
    pub(super) const fn elsewhere() -> Self {
        Self { waiting: Vec::new(), wake_at: None, answer_by: None, elsewhere: true }
    }
}

/// An operation that starts now.
pub(super) struct Starting {
    pub(super) operation: OperationId,
    pub(super) attempt: u32,
    pub(super) permit: Option<Permit>,
    /// When its receiver is asked, if not at once.
    pub(super) at: Option<Timestamp>,
}

/// The operations of the current step. Each is in one stage, or in none: it has a task, or waits for an answer or a time.
#[derive(Default)]
pub(super) struct Flights {
    stages: BTreeMap<OperationId, Flight>,
    /// The queued operations in their order.
    queue: VecDeque<OperationId>,
    /// The starting operations in their order.
    starting: Vec<OperationId>,
    /// Child runs under way here of which there was news: their tasks may say how they stood before it.
    news: BTreeSet<OperationId>,
}

impl Flights {
    /// Forgets everything: a new step begins.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn set(&mut self, operation: OperationId, stage: Flight) {
        match self.stages.insert(operation, stage) {
            Some(Flight::Queued(_)) => self.queue.retain(|queued| *queued != operation),
            Some(Flight::Starting(_)) => self.starting.retain(|starting| *starting != operation),
            Some(Flight::Admitting | Flight::Suspended(_) | Flight::Later(_) | Flight::GivenUp) | None => {}
        }
    }

    /// Puts an operation at the end of the queue.
    pub(super) fn queue(&mut self, operation: OperationId, cause: AttemptCause) {
        self.set(operation, Flight::Queued(cause));
        self.queue.push_back(operation);
    }

    pub(super) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Takes the first operation out of the queue.
    pub(super) fn dequeue(&mut self) -> Option<(OperationId, AttemptCause)> {
        let operation = self.queue.pop_front()?;
        match self.stages.remove(&operation) {
            Some(Flight::Queued(cause)) => Some((operation, cause)),
            _ => None,
        }
    }

    /// Lets an operation wait until there is room for it.
    pub(super) fn admit(&mut self, operation: OperationId) {
        self.set(operation, Flight::Admitting);
    }

    /// An operation waits for room no longer.
    pub(super) fn admitted(&mut self, operation: OperationId) {
        if self.is_admitting(operation) {
            self.stages.remove(&operation);
        }
    }

    pub(super) fn is_admitting(&self, operation: OperationId) -> bool {
        matches!(self.stages.get(&operation), Some(Flight::Admitting))
    }

    /// Has an operation start after the next commit.
    pub(super) fn start(&mut self, operation: OperationId, attempt: u32, permit: Option<Permit>) {
        self.set(operation, Flight::Starting(Starting { operation, attempt, permit, at: None }));
        self.starting.push(operation);
    }

    /// Has the receiver of an operation asked again at a time that comes soon.
    pub(super) fn start_at(&mut self, operation: OperationId, attempt: u32, at: Timestamp) {
        self.set(operation, Flight::Starting(Starting { operation, attempt, permit: None, at: Some(at) }));
        self.starting.push(operation);
    }

    pub(super) fn is_starting(&self, operation: OperationId) -> bool {
        matches!(self.stages.get(&operation), Some(Flight::Starting(_)))
    }

    pub(super) fn has_starting(&self) -> bool {
        !self.starting.is_empty()
    }

    /// Takes the operations that start now, in their order. If they do not start after all, their permits are free again.
    pub(super) fn take_starting(&mut self) -> Vec<Starting> {
        let starting = std::mem::take(&mut self.starting).into_iter();
        let starting = starting.filter_map(|operation| match self.stages.remove(&operation) {
            Some(Flight::Starting(starting)) => Some(starting),
            _ => None,
        });
        starting.collect()
    }

    /// Starts nothing more: neither what is queued nor what was to start.
    pub(super) fn withdraw(&mut self) -> Vec<OperationId> {
        while self.dequeue().is_some() {}
        self.take_starting().into_iter().map(|starting| starting.operation).collect()
    }

    /// An operation is not to start, if it was to.
    pub(super) fn hold(&mut self, operation: OperationId) {
        if self.is_starting(operation) {
            self.starting.retain(|starting| *starting != operation);
            self.stages.remove(&operation);
        }
    }

    /// Drops the result of an operation that is under way, and starts it no more.
    pub(super) fn give_up(&mut self, operation: OperationId) {
        self.set(operation, Flight::GivenUp);
    }

    pub(super) fn is_given_up(&self, operation: OperationId) -> bool {
        matches!(self.stages.get(&operation), Some(Flight::GivenUp))
    }

    /// Notes that a child run is not executed here now.
    pub(super) fn suspend(&mut self, operation: OperationId, paused: Paused) {
        self.set(operation, Flight::Suspended(paused));
    }

    pub(super) fn is_suspended(&self, operation: OperationId) -> bool {
        matches!(self.stages.get(&operation), Some(Flight::Suspended(_)))
    }

    /// Has the receiver of an operation asked again at a time.
    pub(super) fn look_at(&mut self, operation: OperationId, at: Timestamp) {
        self.set(operation, Flight::Later(at));
    }

    pub(super) fn is_later(&self, operation: OperationId) -> bool {
        matches!(self.stages.get(&operation), Some(Flight::Later(_)))
    }

    /// The operations whose receivers are asked again, and when.
    pub(super) fn later(&self) -> impl Iterator<Item = (OperationId, Timestamp)> {
        self.stages.iter().filter_map(|(operation, stage)| match stage {
            Flight::Later(at) => Some((*operation, *at)),
            _ => None,
        })
    }

    /// Notes the child runs under way here of which there is news.
    pub(super) fn note_news(&mut self, operations: BTreeSet<OperationId>) {
        self.news = operations;
    }

    /// Says whether there was news of a child run, and forgets it.
    pub(super) fn take_news(&mut self, operation: OperationId) -> bool {
        self.news.remove(&operation)
    }

    /// The child runs that are not executed here now.
    pub(super) fn suspended(&self) -> impl Iterator<Item = (OperationId, &Paused)> {
        self.stages.iter().filter_map(|(operation, stage)| match stage {
            Flight::Suspended(paused) => Some((*operation, paused)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn id(byte: u8) -> OperationId {
        OperationId::from_bytes([byte; 16])
    }

    #[test]
    fn operations_are_queued_and_started_in_their_order() {
        let mut flights = Flights::default();
        for byte in [3, 1, 2] {
            flights.queue(id(byte), AttemptCause::Queued);
        }
        let first = flights.dequeue();
        assert_eq!(first, Some((id(3), AttemptCause::Queued)));
        flights.start(id(3), 1, None);
        flights.start(id(1), 2, None);
        let started: Vec<_> =
            flights.take_starting().iter().map(|one| (one.operation, one.attempt)).collect();
        assert_eq!(started, [(id(3), 1), (id(1), 2)]);
        assert_eq!(flights.dequeue(), Some((id(2), AttemptCause::Queued)));
        assert!(!flights.has_queue() && !flights.has_starting());
    }

    #[test]
    fn an_operation_is_in_one_stage_only() {
        let mut flights = Flights::default();
        flights.queue(id(1), AttemptCause::Answered);
        flights.start(id(1), 1, None);
        assert!(!flights.has_queue() && flights.is_starting(id(1)));
        flights.give_up(id(1));
        assert!(!flights.has_starting() && flights.is_given_up(id(1)));
        flights.admitted(id(1));
        assert!(flights.is_given_up(id(1)), "it did not wait for room");
        flights.suspend(id(2), Paused::elsewhere());
        flights.start(id(2), 1, None);
        assert_eq!(flights.suspended().count(), 0);
        flights.hold(id(2));
        assert!(flights.take_starting().is_empty());
    }

    #[test]
    fn what_is_withdrawn_neither_starts_nor_waits_for_its_turn() {
        let mut flights = Flights::default();
        flights.queue(id(1), AttemptCause::Queued);
        flights.start(id(2), 1, None);
        flights.admit(id(3));
        assert_eq!(flights.withdraw(), [id(2)]);
        assert!(!flights.has_queue() && !flights.has_starting());
        assert!(flights.is_admitting(id(3)), "its task says when it is over");
    }
}
