//! A session: calls of one run to one server, served by one instance at a time.

use std::sync::Arc;

use dalsegno_protocol::{CallContext, CallError, CallErrorKind, Failed, Failure, ToolOutput};
use serde_json::{Map, Value};

use crate::config::Lifetime;
use crate::instance::Instance;
use crate::pool::{Cell, Lease, Slot};
use crate::server::Loaded;
use crate::stats::Counters;

/// Calls to one server, by several callers at once.
///
/// The instance starts with the first call. When it traps, exits, is ended or loses the thread of the protocol, every
/// call that waits for it gets a typed error and the next call a fresh instance. A guest's memory is only a cache: an
/// instance that is idle may be ended to make room for another.
/// A call that is dropped before its answer ends the instance, since nobody would time the guest any more.
pub struct ServerSession {
    loaded: Arc<Loaded>,
    home: Home,
}

/// Where the instance is between calls.
enum Home {
    /// There is none.
    Nowhere,
    /// This session has its own.
    Own(Cell),
    /// It belongs to all sessions of a tenant.
    Tenant(Arc<Cell>),
}

impl ServerSession {
    pub(crate) fn new(loaded: Arc<Loaded>, tenant: &str) -> Self {
        let home = match loaded.config.lifetime {
            Lifetime::PerCall => Home::Nowhere,
            Lifetime::PerRun => Home::Own(Cell::default()),
            Lifetime::Shared => Home::Tenant(loaded.pool.shared(tenant)),
        };
        Self { loaded, home }
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
        let loaded = &self.loaded;
        loaded.check_tool(tool)?;
        let call = CallContext { timeout: call.timeout.min(loaded.config.limits.call_timeout), ..call };
        let not_received = |failure| loaded.error(Failed::unsent(failure));
        let _place = loaded.pool.place(call.timeout).await.map_err(not_received)?;
        let counted = Counted::new(&loaded.counters);
        let lease = self.lease().await?;
        let mark = lease.instance().denials().mark();
        tracing::debug!(server = %loaded.config.name, tool, operation = %call.operation, "calling");
        let answered = match loaded.builtin(tool, lease.instance()).await? {
            Some(builtin) => lease.instance().perform(builtin, arguments, &call).await,
            None => lease.instance().call(tool, arguments, &call).await,
        };
        let denials = lease.instance().denials().since(mark);
        drop(lease);
        match answered {
            Ok(output) => {
                counted.answered();
                Ok(ToolOutput { denials, ..output })
            }
            Err(failed) => {
                let error = CallError { denials, ..loaded.error(failed) };
                tracing::debug!(server = %error.server, tool, kind = ?error.kind, received = ?error.received, "call failed");
                Err(error)
            }
        }
    }

    /// Ends the session. A guest that belongs to it alone is asked to come to its end and has a moment to do so.
    pub async fn close(self) {
        if let Home::Own(cell) = self.home
            && let Some(slot) = cell.into_inner()
        {
            slot.instance.close().await;
        }
    }

    /// The running instance, or a fresh one. Callers that come meanwhile wait for the same start.
    async fn lease(&self) -> Result<Lease, CallError> {
        let cell = match &self.home {
            Home::Nowhere => return self.start(None).await,
            Home::Own(cell) => cell,
            Home::Tenant(cell) => cell,
        };
        let patience = self.loaded.config.limits.start_timeout;
        let Ok(mut current) = tokio::time::timeout(patience, cell.lock()).await else {
            let message =
                format!("no instance came to stand within {patience:?}, though several were started");
            let failure = Failure::new(CallErrorKind::Overloaded, message);
            return Err(self.loaded.error(Failed::unsent(failure)));
        };
        if let Some(lease) = current.as_ref().and_then(|slot| slot.lease()) {
            return Ok(lease);
        }
        *current = None;
        self.start(Some(&mut current)).await
    }

    /// Starts an instance and takes it at once.
    async fn start(&self, cell: Option<&mut Option<Arc<Slot>>>) -> Result<Lease, CallError> {
        let loaded = &self.loaded;
        let failed = |failed| loaded.error(failed);
        let room = loaded.pool.room(loaded.config.limits.start_timeout).await;
        let room = room.map_err(|failure| failed(Failed::unsent(failure)))?;
        let instance = Instance::start(loaded).await.map_err(failed)?;
        let lease = loaded.pool.keep(instance, room);
        if let Some(cell) = cell {
            *cell = Some(Arc::clone(lease.slot()));
        }
        Ok(lease)
    }
}

impl std::fmt::Debug for ServerSession {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ServerSession")
            .field("server", &self.loaded.config.name)
            .finish_non_exhaustive()
    }
}

/// Counts a call for as long as it lives, as failed unless it was answered.
struct Counted<'a> {
    counters: &'a Counters,
    is_answered: bool,
}

impl<'a> Counted<'a> {
    fn new(counters: &'a Counters) -> Self {
        counters.call_started();
        Self { counters, is_answered: false }
    }

    fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.counters.call_ended();
        if !self.is_answered {
            self.counters.call_failed();
        }
    }
}
