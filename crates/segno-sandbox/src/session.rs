//! A session: calls of one run to one server, served by one instance at a time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::error::CallError;
use crate::instance::Instance;
use crate::server::Loaded;
use crate::tools::ToolOutput;

/// Calls to one server, by several callers at once.
///
/// The instance starts with the first call. When it traps, exits, is ended or loses the thread of the protocol, every
/// call that waits for it gets a typed error and the next call a fresh instance. A guest's memory is only a cache.
/// A call that is dropped before its answer ends the instance, since nobody would time the guest any more.
pub struct Session {
    loaded: Arc<Loaded>,
    instance: Mutex<Option<Arc<Instance>>>,
}

/// What goes with a call.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// The id of the operation; the server sees it in `_meta` under `segno/operation`.
    pub operation: String,
    /// How long the call may take. The limit of the server applies as well; a start that is needed is not counted.
    pub timeout: Duration,
}

impl Session {
    pub(crate) fn new(loaded: Arc<Loaded>) -> Self {
        Self { loaded, instance: Mutex::new(None) }
    }

    /// Calls a tool and waits for its answer. A tool that reports its own failure has answered.
    ///
    /// # Errors
    ///
    /// When there is no answer. [`CallError::received`] tells whether the server may have acted on the request.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        call: CallContext,
    ) -> Result<ToolOutput, CallError> {
        self.loaded.check_tool(tool)?;
        let call = CallContext { timeout: call.timeout.min(self.loaded.config.limits.call_timeout), ..call };
        let instance = self.instance().await?;
        tracing::debug!(server = %self.loaded.config.name, tool, operation = %call.operation, "calling");
        instance.call(tool, arguments, &call).await.map_err(|failed| {
            let error = self.loaded.error(failed);
            tracing::debug!(server = %error.server, tool, kind = ?error.kind, received = ?error.received, "call failed");
            error
        })
    }

    /// Ends the session. The guest is asked to come to its end and has a moment to do so.
    pub async fn close(self) {
        if let Some(instance) = self.instance.into_inner() {
            instance.close().await;
        }
    }

    /// The running instance, or a fresh one. Callers that come meanwhile wait for the same start.
    async fn instance(&self) -> Result<Arc<Instance>, CallError> {
        let mut current = self.instance.lock().await;
        if let Some(instance) = current.as_ref().filter(|instance| !instance.has_ended()) {
            return Ok(Arc::clone(instance));
        }
        *current = None;
        let started = Instance::start(&self.loaded).await.map_err(|failed| self.loaded.error(failed))?;
        Ok(Arc::clone(current.insert(Arc::new(started))))
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Session").field("server", &self.loaded.config.name).finish_non_exhaustive()
    }
}
