//! What goes with a call, and who made it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::output::Input;
use crate::request::Caller;
use crate::task::Task;

/// What goes with a call.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// The id of the operation; the server sees it in `_meta` under `dalsegno/operation`.
    pub operation: String,
    /// On whose behalf the call is made; the server sees it in `_meta` as well.
    pub caller: Caller,
    /// How long the call may take in a sandbox, or go without an answer or progress elsewhere. The limit of the server
    /// applies as well; a start that is needed is not counted.
    pub timeout: Duration,
    /// The trace that the call belongs to, as W3C writes it; the server sees it in `_meta`.
    pub traceparent: Option<String>,
    /// The answers to the questions of the same call, made before. A module in the sandbox asks nothing.
    pub input: Input,
    /// The task that the server made of the call, where it is known already: the client asks about the task and does
    /// not call the tool again. A module in the sandbox has no tasks.
    pub task: Option<String>,
    /// The owner of the call, who learns of a task. A call without an owner is followed as well, and its task ends with
    /// it.
    pub owner: Option<Arc<dyn TaskOwner>>,
}

impl CallContext {
    /// A first call of an operation, with at most this time.
    pub fn new(operation: impl Into<String>, timeout: Duration) -> Self {
        let (operation, input) = (operation.into(), Input::default());
        Self {
            operation,
            caller: Caller::default(),
            timeout,
            traceparent: None,
            input,
            task: None,
            owner: None,
        }
    }
}

/// The maker of a call that its server made a task of.
#[async_trait]
pub trait TaskOwner: fmt::Debug + Send + Sync {
    /// The server works on the call as this task. The client asks about the task when this returns: an owner that wants
    /// to find the task again has written it down by then.
    async fn begun(&self, task: &Task);

    /// Returns when the task is not wanted any more. It is cancelled then, and followed to its end for a moment more.
    async fn unwanted(&self);

    /// Whether the task continues at the server when the call is dropped, because it is made again with the task's id.
    /// Otherwise the task is cancelled then.
    fn keeps(&self) -> bool;
}
