//! Tasks of tool servers: what an attempt and the driver of its run say about them.
//!
//! A server may make a task of a call and answer it later. The driver writes the task's id down before the server is asked
//! about it for the first time, so that whoever goes on with the run, in another process as well, asks about the same
//! task instead of calling the tool once more.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dalsegno_core::{OperationId, Timestamp};
use dalsegno_protocol::{Task, TaskOwner};
use tokio::sync::{Notify, oneshot, watch};

use crate::effects::budget::Settlement;

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

/// The tasks that attempts of a run were told of and no record says yet, and what is to be settled once their ends are written down.
#[derive(Default)]
pub(crate) struct Announcements {
    noted: Mutex<Vec<Announced>>,
    owed: Mutex<BTreeMap<(OperationId, u32), Settlement>>,
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

    /// What is to be settled once the end of an attempt is written down. A process that asked about the same task, and died before
    /// it wrote anything, has settled nothing: what was set aside once is settled once.
    pub(crate) fn owed(&self, operation: OperationId, attempt: u32) -> Option<Settlement> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner).remove(&(operation, attempt))
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
    /// When it was written down.
    pub(crate) since: Option<Timestamp>,
    /// How long to wait before its receiver is asked.
    pub(crate) left: Duration,
    /// What the driver wants to become of it.
    pub(crate) wish: watch::Receiver<Wish>,
}

/// The line between an attempt and the driver of its run.
pub(crate) struct Line {
    announcements: Arc<Announcements>,
    operation: OperationId,
    attempt: u32,
    server: String,
    wish: watch::Receiver<Wish>,
    /// The journal has the task.
    is_written: Arc<AtomicBool>,
}

impl Line {
    pub(crate) fn new(
        announcements: &Arc<Announcements>,
        operation: OperationId,
        attempt: u32,
        server: &str,
        tasking: &Tasking,
    ) -> Self {
        Self {
            announcements: Arc::clone(announcements),
            operation,
            attempt,
            server: server.to_owned(),
            wish: tasking.wish.clone(),
            is_written: Arc::new(AtomicBool::new(tasking.known.is_some())),
        }
    }

    /// The task has ended, and this is to be settled once that is written down.
    pub(crate) fn owes(&self, settlement: Option<Settlement>) {
        if let Some(settlement) = settlement {
            let mut owed = self.announcements.owed.lock().unwrap_or_else(PoisonError::into_inner);
            owed.insert((self.operation, self.attempt), settlement);
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
        self.announcements.add(Announced {
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
