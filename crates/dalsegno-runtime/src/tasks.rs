//! Tasks of tool servers: what the journal knows of them, and what an attempt and the driver of its run say about them.
//!
//! A server may make a task of a call and answer it later. The driver writes the task's id down before the server is asked
//! about it for the first time, so that whoever goes on with the run, in another process as well, asks about the same
//! task instead of calling the tool once more.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use dalsegno_core::{Gate, OperationId};
use dalsegno_protocol::{Task, TaskOwner};
use dalsegno_store::AttemptCause;
use tokio::sync::{Notify, oneshot, watch};

use crate::attempt::RunContext;

/// The tasks of the open operations of a step, by the server's ids for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tasks(BTreeMap<OperationId, String>);

impl Tasks {
    /// Takes a `tasked` record.
    pub(crate) fn note(&mut self, operation: OperationId, task: String) {
        self.0.insert(operation, task);
    }

    /// The task of an operation that goes on at its server, as far as is known.
    pub(crate) fn get(&self, operation: OperationId) -> Option<&String> {
        self.0.get(&operation)
    }

    /// Takes an `attempted` record. An attempt that follows a question goes on with the task that asked it; any other one
    /// begins anew.
    pub(crate) fn attempted(&mut self, operation: OperationId, cause: AttemptCause) {
        match cause {
            AttemptCause::Answered | AttemptCause::Queued => {}
            AttemptCause::Recovered | AttemptCause::Failed { .. } => self.forget(operation),
        }
    }

    /// Takes a `waiting` record. What is in doubt is a person's matter from here on: its server could not say.
    pub(crate) fn gated(&mut self, operation: OperationId, gate: &Gate) {
        match gate {
            Gate::InDoubt { .. } => self.forget(operation),
            Gate::Approval | Gate::Input | Gate::Secret { .. } | Gate::Elicitation { .. } => {}
        }
    }

    pub(crate) fn forget(&mut self, operation: OperationId) {
        self.0.remove(&operation);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What is to become of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// It is followed.
    Follow,
    /// It is to be cancelled at its server.
    Cancel,
}

/// A task that an attempt was told of.
pub(crate) struct Announced {
    pub(crate) operation: OperationId,
    pub(crate) attempt: u32,
    pub(crate) server: String,
    pub(crate) task: Task,
    pub(crate) written: Written,
}

/// Whether the journal has a task, and the attempt that waits to be told so.
pub(crate) struct Written {
    flag: Arc<AtomicBool>,
    told: oneshot::Sender<()>,
}

impl Written {
    /// The journal has it. The attempt goes on; should it be ended before it does, it knows so all the same.
    pub(crate) fn done(self) {
        self.flag.store(true, Ordering::Release);
        // It may have been ended meanwhile.
        let _ = self.told.send(());
    }
}

/// The tasks that attempts of a run were told of and no record says yet.
#[derive(Default)]
pub(crate) struct Announcements {
    noted: Mutex<Vec<Announced>>,
    news: Notify,
}

impl Announcements {
    fn add(&self, announced: Announced) {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).push(announced);
        self.news.notify_one();
    }

    pub(crate) fn take(&self) -> Vec<Announced> {
        std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns when there is something to take.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }
}

/// What an attempt has to do with a task.
#[derive(Clone)]
pub(crate) struct Tasking {
    /// The task that the operation has already.
    pub(crate) known: Option<String>,
    /// What the driver wants to become of it.
    pub(crate) wish: watch::Receiver<Wish>,
}

/// The line between an attempt and the driver of its run.
pub(crate) struct Line {
    context: Arc<RunContext>,
    operation: OperationId,
    attempt: u32,
    server: String,
    wish: watch::Receiver<Wish>,
    /// The journal has the task.
    is_written: Arc<AtomicBool>,
}

impl Line {
    pub(crate) fn new(
        context: &Arc<RunContext>,
        operation: OperationId,
        attempt: u32,
        server: &str,
        tasking: &Tasking,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            operation,
            attempt,
            server: server.to_owned(),
            wish: tasking.wish.clone(),
            is_written: Arc::new(AtomicBool::new(tasking.known.is_some())),
        }
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("operation", &self.operation).finish_non_exhaustive()
    }
}

#[async_trait]
impl TaskOwner for Line {
    async fn begun(&self, task: &Task) {
        let (told, written) = oneshot::channel();
        self.context.tasked.add(Announced {
            operation: self.operation,
            attempt: self.attempt,
            server: self.server.clone(),
            task: task.clone(),
            written: Written { flag: Arc::clone(&self.is_written), told },
        });
        // A driver that is gone, or whose run has ended, has written nothing.
        let _ = written.await;
    }

    async fn unwanted(&self) {
        let mut wish = self.wish.clone();
        if wish.wait_for(|wish| *wish == Wish::Cancel).await.is_err() {
            // Nobody is left who could say so.
            std::future::pending::<()>().await;
        }
    }

    /// A task that the journal has goes on without this process, which is about to stop or was interrupted.
    fn keeps(&self) -> bool {
        self.is_written.load(Ordering::Acquire) && *self.wish.borrow() == Wish::Follow
    }
}

#[cfg(test)]
mod tests {
    use dalsegno_core::FailureCode;

    use super::*;

    const ID: OperationId = OperationId::from_bytes([1; 16]);

    fn known() -> Tasks {
        let mut tasks = Tasks::default();
        tasks.note(ID, "t1".to_owned());
        tasks
    }

    #[test]
    fn a_task_outlives_its_question_and_no_other_attempt() {
        let failed = AttemptCause::Failed { code: FailureCode::Timeout, possibly_received: true };
        for (cause, goes_on) in [
            (AttemptCause::Answered, true),
            (AttemptCause::Queued, true),
            (AttemptCause::Recovered, false),
            (failed, false),
        ] {
            let mut tasks = known();
            tasks.attempted(ID, cause);
            assert_eq!(tasks.get(ID).is_some(), goes_on, "{cause:?}");
        }
    }

    #[test]
    fn a_task_in_doubt_is_not_asked_about_again() {
        let elicitation = Gate::Elicitation { requests: BTreeMap::new(), request_state: None };
        for (gate, goes_on) in [
            (elicitation, true),
            (Gate::Secret { name: "x".to_owned() }, true),
            (Gate::InDoubt { reason: "x".to_owned() }, false),
        ] {
            let mut tasks = known();
            tasks.gated(ID, &gate);
            assert_eq!(tasks.get(ID).is_some(), goes_on, "{gate:?}");
        }
    }
}
