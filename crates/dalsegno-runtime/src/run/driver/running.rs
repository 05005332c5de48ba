//! The tasks of a run in this process: attempts, pauses before them, and what is asked or ended beside them.

use std::collections::BTreeMap;

use dalsegno_core::OperationId;
use dalsegno_store::AttemptCause;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use super::Input;

/// What a task is for. An operation may have several: an attempt, and one that ends what was given up.
pub(super) struct Running {
    pub(super) operation: OperationId,
    pub(super) attempt: u32,
    pub(super) abort: AbortHandle,
    /// Why there will be another attempt, when this is the pause before it.
    pub(super) pause: Option<AttemptCause>,
    /// It may be given up at any time, since it may be repeated.
    pub(super) free: bool,
    /// It only waits for a time, which is no active time.
    pub(super) idle: bool,
}

impl Running {
    /// It is the pause after an attempt that may have been acted on.
    pub(super) fn may_be_lost(&self) -> bool {
        matches!(
            self.pause,
            Some(AttemptCause::Failed { possibly_received: true, .. } | AttemptCause::Recovered)
        )
    }

    /// An attempt, or another task that does something.
    pub(super) fn busy(operation: OperationId, attempt: u32, free: bool) -> impl FnOnce(AbortHandle) -> Self {
        move |abort| Self { operation, attempt, abort, pause: None, free, idle: false }
    }

    /// A task that waits before it attempts an operation, for a time or for room.
    pub(super) fn pause(
        operation: OperationId,
        attempt: u32,
        cause: AttemptCause,
    ) -> impl FnOnce(AbortHandle) -> Self {
        move |abort| Self { operation, attempt, abort, pause: Some(cause), free: true, idle: false }
    }

    /// A task that waits for a time, which is not active time.
    pub(super) fn idle(operation: OperationId, attempt: u32) -> impl FnOnce(AbortHandle) -> Self {
        move |abort| Self { operation, attempt, abort, pause: None, free: true, idle: true }
    }
}

/// The tasks, and what each is for, so that a panic finds its operation and a stop finds its tasks.
#[derive(Default)]
pub(super) struct RunningTasks {
    tasks: JoinSet<Input>,
    running: BTreeMap<Id, Running>,
}

impl RunningTasks {
    pub(super) fn spawn(
        &mut self,
        running: impl FnOnce(AbortHandle) -> Running,
        task: impl Future<Output = Input> + Send + 'static,
    ) {
        let abort = self.tasks.spawn(task);
        self.running.insert(abort.id(), running(abort));
    }

    /// Says whether there is no task.
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Running> {
        self.running.values()
    }

    /// The tasks of an operation, the first one first.
    pub(super) fn of(&self, operation: OperationId) -> impl Iterator<Item = &Running> {
        self.all().filter(move |running| running.operation == operation)
    }

    /// Says whether an operation has a task.
    pub(super) fn has(&self, operation: OperationId) -> bool {
        self.of(operation).next().is_some()
    }

    /// Waits for the next task that is over; `None` if there is no task.
    pub(super) async fn next(&mut self) -> Option<Result<(Id, Input), JoinError>> {
        self.tasks.join_next_with_id().await
    }

    /// The next task that is over already.
    pub(super) fn try_next(&mut self) -> Option<Result<(Id, Input), JoinError>> {
        self.tasks.try_join_next_with_id()
    }

    /// What a task was for that is over.
    pub(super) fn take(&mut self, id: Id) -> Running {
        self.running.remove(&id).expect("every task is entered when it is spawned")
    }

    /// Ends all tasks.
    pub(super) async fn shut_down(&mut self) {
        self.tasks.shutdown().await;
    }
}
