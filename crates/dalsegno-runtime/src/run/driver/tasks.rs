//! Tasks of tool servers: written down before they are followed, taken up again, and ended when nobody wants them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dalsegno_core::Received;
use dalsegno_core::{Failure, FailureCode, OnIndeterminate, Operation, OperationId, Outcome, Timestamp};
use dalsegno_history::{Tasks, comes_later};
use dalsegno_store::{Body, NewRecord};
use tokio::sync::watch;

use super::running::Running;
use super::{Driver, Input};
use crate::effects::failure::AttemptError;
use crate::effects::policy;
use crate::effects::policy::is_free;
use crate::error::RunFailure;
use crate::run::tasks::{Announced, Tasking, Wish, Written};

/// The tasks that open operations have at their servers, and what the driver does about them.
pub(super) struct RemoteTasks {
    /// What the journal knows of them.
    pub(super) tasked: Tasks,
    /// Attempts that continue when the next commit has recorded their tasks.
    announced: Vec<Written>,
    /// What the attempts under way are to do with their tasks.
    wishes: BTreeMap<OperationId, Wished>,
    /// Tasks to be ended at their servers after the next commit.
    releasing: Vec<Release>,
}

impl RemoteTasks {
    pub(super) const fn new(tasked: Tasks) -> Self {
        Self { tasked, announced: Vec::new(), wishes: BTreeMap::new(), releasing: Vec::new() }
    }

    /// Says whether a task is to be ended.
    pub(super) fn has_releases(&self) -> bool {
        !self.releasing.is_empty()
    }
}

/// What the driver wants to become of the task of an attempt.
struct Wished {
    wish: watch::Sender<Wish>,
    /// Why it was given up, if somebody gave it up.
    words: Option<String>,
}

/// A task that is to be ended at its server, of an operation that nobody performs here.
struct Release {
    operation: Operation,
    task: String,
    attempt: u32,
    /// What comes of it is recorded.
    is_kept: bool,
}

impl Driver {
    /// Records the tasks that attempts were told of. The attempts go on after the commit.
    pub(super) fn record_tasks(&mut self) {
        for announced in self.context.tasked.take() {
            let Announced { operation, attempt, server, task, written } = announced;
            if self.ended.is_some() || !self.is_missing(operation) {
                // Nobody will ask about it again.
                drop(written);
                self.unwish(operation, None);
                continue;
            }
            let at = self.now();
            let ttl = task.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
            let expires_at = ttl.map(|ttl| Timestamp::from_millis(at.as_millis().saturating_add(ttl)));
            let mut task = task.id;
            self.context.bindings.secrets().text(&mut task);
            self.remote.tasked.note(operation, task.clone(), at);
            if comes_later(self.machine.state(), operation) {
                self.progress.entry(operation).or_default().pause(at);
            }
            let body = Body::Tasked { attempt, server, task, expires_at };
            self.outbox.push(NewRecord::of(at, operation, body));
            self.remote.announced.push(written);
        }
    }

    /// Lets the attempts go on whose tasks the last commit has written down.
    pub(super) fn acknowledge(&mut self) {
        for written in self.remote.announced.drain(..) {
            written.done();
        }
    }

    /// What an attempt has to do with a task.
    pub(super) fn tasking(&mut self, operation: OperationId) -> Tasking {
        let known = self.remote.tasked.get(operation).cloned();
        let since = self.remote.tasked.since(operation);
        let wished = self
            .remote
            .wishes
            .entry(operation)
            .or_insert_with(|| Wished { wish: watch::channel(Wish::Follow).0, words: None });
        Tasking { known, since, left: Duration::ZERO, wish: wished.wish.subscribe() }
    }

    /// Has the task of an operation cancelled that is performed here, or is about to be.
    fn unwish(&mut self, operation: OperationId, words: Option<String>) {
        let wished = self
            .remote
            .wishes
            .entry(operation)
            .or_insert_with(|| Wished { wish: watch::channel(Wish::Follow).0, words: None });
        wished.wish.send_replace(Wish::Cancel);
        if words.is_some() {
            wished.words = words;
        }
    }

    /// Has all tasks cancelled that are followed here, since the run has ended.
    pub(super) fn unwish_all(&self) {
        for wished in self.remote.wishes.values() {
            wished.wish.send_replace(Wish::Cancel);
        }
    }

    /// Gives the task of an operation up that is under way here, or is about to be; says whether there is one.
    pub(super) fn give_up_task(&mut self, operation: OperationId, words: &str) -> bool {
        let is_here = self.running.has(operation) || self.flights.is_starting(operation);
        if !is_here || self.remote.tasked.get(operation).is_none() {
            return false;
        }
        self.unwish(operation, Some(words.to_owned()));
        true
    }

    /// Why the task of an operation was given up, if it was; asked when its attempt has ended.
    pub(super) fn was_given_up(&mut self, operation: OperationId) -> Option<String> {
        self.remote.wishes.remove(&operation)?.words
    }

    /// Takes the end of an attempt whose task was given up: it has no other attempt.
    pub(super) fn given_up_task(
        &mut self,
        id: OperationId,
        words: String,
        error: AttemptError,
    ) -> Result<(), RunFailure> {
        let Some(operation) = self.missing().find(|operation| operation.id == id) else { return Ok(()) };
        let terms = operation.terms;
        let doubtful = self.progress.get(&id).is_some_and(|progress| progress.doubtful);
        if error.gate.is_some() {
            // Its question came when nobody wanted it any more.
            let operation = operation.clone();
            self.release(operation, false);
            return self.resolve(id, Outcome::Failed(Failure::new(FailureCode::Cancelled, words)));
        }
        let is_certain = error.received == Received::No && !doubtful;
        if is_free(terms.class) || (is_certain && error.failure.code == FailureCode::Cancelled) {
            return self.resolve(id, Outcome::Failed(Failure::new(FailureCode::Cancelled, words)));
        }
        if is_certain {
            return self.resolve(id, Outcome::Failed(error.failure));
        }
        let reason = format!("{words}; {}", error.failure.message);
        match terms.on_indeterminate {
            OnIndeterminate::Report => self.resolve(id, Outcome::Failed(policy::indeterminate(&reason))),
            OnIndeterminate::Ask | OnIndeterminate::Retry => {
                self.open_doubt(id, reason)?;
                self.fill()?;
                self.go_on()
            }
        }
    }

    /// The operation with its task, where one goes on at the server and nobody performs it here.
    pub(super) fn idle_task(&self, operation: OperationId) -> Option<Operation> {
        self.remote.tasked.get(operation)?;
        if self.running.of(operation).any(|running| running.pause.is_none()) {
            return None;
        }
        self.missing().find(|missing| missing.id == operation).cloned()
    }

    /// Has the task of an operation cancelled after the next commit. `is_kept` says that what comes of it is recorded.
    pub(super) fn release(&mut self, operation: Operation, is_kept: bool) {
        let Some(task) = self.remote.tasked.get(operation.id).cloned() else { return };
        self.remote.tasked.forget(operation.id);
        let attempt = self.progress.get(&operation.id).map_or(1, |progress| progress.attempts.max(1));
        self.remote.releasing.push(Release { operation, task, attempt, is_kept });
    }

    /// Takes note that a receiver works on an operation, and is asked again after a pause.
    pub(super) fn comes_later(&mut self, id: OperationId, pause: Duration) -> Result<(), RunFailure> {
        let words = self.was_given_up(id);
        let Some(operation) = self.missing().find(|operation| operation.id == id).cloned() else {
            return Ok(());
        };
        if self.ended.is_some() {
            return Ok(());
        }
        if let Some(words) = words {
            self.release(operation, false);
            return self.resolve(id, Outcome::Failed(Failure::new(FailureCode::Cancelled, words)));
        }
        let at = self.now();
        self.progress.entry(id).or_default().pause(at);
        let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.flights.look_at(id, Timestamp::from_millis(at.as_millis().saturating_add(pause)));
        Ok(())
    }

    /// The operations whose tasks end after the next commit.
    pub(super) fn released(&self) -> BTreeSet<OperationId> {
        self.remote.releasing.iter().map(|release| release.operation.id).collect()
    }

    /// Ends the tasks at their servers that were released.
    pub(super) fn end_released(&mut self) {
        for Release { operation, task, attempt, is_kept } in std::mem::take(&mut self.remote.releasing) {
            let id = operation.id;
            let (_, wish) = watch::channel(Wish::Cancel);
            let tasking = Tasking { known: Some(task), since: None, left: Duration::ZERO, wish };
            let ending = self.task(&operation, attempt, tasking);
            let is_free = is_free(operation.terms.class);
            self.running.spawn(Running::busy(id, attempt, false), async move {
                match ending.perform().await {
                    // What was only read is no matter of the run any more.
                    Err(_) if is_free => Input::GivenUp,
                    result if is_kept => Input::Attempted { operation: id, attempt, result },
                    _ => Input::GivenUp,
                }
            });
        }
    }
}
