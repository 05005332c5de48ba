//! A server and its sessions: connected when they are needed, and again when they were lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use dalsegno_protocol::{
    Answer, Builtin, CallContext, CallError, CallErrorKind, Called, Era, Failed, Failure, Input, LearnedEra,
    Offer, Received, ToolDescription,
};
use serde_json::{Map, Value};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;

use crate::config::{Limits, Reach, ServerConfig};
use crate::connection::Connection;
use crate::follow::{Begun, follow, total};
use crate::oauth::OAuth;

/// A server that can be asked. Clones share its connections.
///
/// Each tenant has a connection of its own, and so a child process of its own: what one tenant left behind in a server's
/// memory is not there for another.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    config: ServerConfig,
    era: LearnedEra,
    lines: StdMutex<BTreeMap<String, Arc<Line>>>,
    offer: Offer,
}

/// The connection of one tenant.
struct Line {
    state: Mutex<State>,
    room: Semaphore,
    /// How often in a row it was lost or could not be had.
    failures: AtomicU32,
}

struct State {
    connection: Option<Arc<Connection>>,
    not_before: Instant,
}

/// Calls for one tenant, by several callers at once.
#[derive(Clone)]
pub struct ServerSession {
    inner: Arc<Inner>,
    line: Arc<Line>,
}

impl Server {
    /// A server; nothing is started or reached.
    pub fn new(config: ServerConfig) -> Self {
        let inner = Inner {
            era: LearnedEra::default(),
            lines: StdMutex::default(),
            offer: Offer::new(config.tools.clone()),
            config,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The name from the configuration.
    pub fn name(&self) -> &str {
        &self.inner.config.name
    }

    /// How the server is asked for access, where its configuration says so.
    pub fn oauth(&self) -> Option<&OAuth> {
        self.inner.oauth()
    }

    /// The limits from the configuration.
    pub fn limits(&self) -> &Limits {
        &self.inner.config.limits
    }

    /// The tools, narrowed to those of the configuration, and bounded: 1,000 tools, 100 pages, 4 MiB. The [`Builtin`]
    /// ones that the server's capabilities give are among them.
    ///
    /// They are asked for anew when the server said that they have changed, and when its connection is a new one.
    ///
    /// # Errors
    ///
    /// When the server cannot be had, does not answer, or describes its tools in a way that breaks a bound.
    pub async fn catalogue(&self, tenant: &str) -> Result<Vec<ToolDescription>, CallError> {
        let session = self.session(tenant);
        let (connection, is_new) = session.connected().await?;
        let tools = match self.inner.offer.known().filter(|_| !is_new && !connection.take_changed()) {
            Some(tools) => tools,
            None => self.inner.list(&connection).await?,
        };
        Ok(self.inner.offer.narrowed(tools))
    }

    /// The session of a tenant.
    pub fn session(&self, tenant: &str) -> ServerSession {
        let mut lines = self.inner.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(tenant.to_owned()).or_insert_with(|| {
            Arc::new(Line {
                state: Mutex::new(State { connection: None, not_before: Instant::now() }),
                room: Semaphore::new(self.inner.config.limits.concurrency.clamp(1, Semaphore::MAX_PERMITS)),
                failures: AtomicU32::new(0),
            })
        });
        ServerSession { inner: Arc::clone(&self.inner), line: Arc::clone(line) }
    }

    /// Ends all connections. Child processes have a moment to come to their own end.
    pub async fn close(&self) {
        let lines = std::mem::take(&mut *self.inner.lines.lock().unwrap_or_else(PoisonError::into_inner));
        let closing = lines.into_values().map(|line| async move {
            let connection = line.state.lock().await.connection.take();
            if let Some(connection) = connection {
                connection.close().await;
            }
        });
        futures::future::join_all(closing).await;
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl ServerSession {
    /// Calls a tool and waits for its answer. A tool that reports its own failure has answered.
    ///
    /// A server of the new era may make a task of the call, which is followed to its end, or to its next question. With
    /// the id of such a task in [`CallContext::task`] nothing is called: the task is followed where it stands, and gets
    /// the answers to what it asked.
    ///
    /// # Errors
    ///
    /// When there is no answer. [`CallError::received`] tells whether the server may have acted on the request.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        mut call: CallContext,
    ) -> Result<Answer, CallError> {
        self.inner.check_tool(tool)?;
        call.timeout = call.timeout.min(self.inner.config.limits.call_timeout);
        if let Some(task) = call.task.take() {
            return self.attach(&task, &call).await;
        }
        let waiting = async {
            // The semaphore is never closed.
            let room = self.line.room.acquire().await.ok();
            Ok((room, self.connection(call.timeout).await?.0))
        };
        let (_room, mut connection) = self.had(waiting).await?;
        let deadline = Instant::now() + total(self.limits(), &call);
        let builtin = match Builtin::named(tool) {
            Some(_) => self.inner.builtin(tool, &connection).await?,
            None => None,
        };
        tracing::debug!(server = %self.inner.config.name, tool, operation = %call.operation, "calling");
        let mut patience = CONTINUATIONS;
        let mut is_second = false;
        loop {
            let answered = match builtin {
                Some(builtin) => {
                    connection.perform(builtin, arguments.clone(), &call).await.map(Called::Answer)
                }
                None => connection.call(tool, arguments.clone(), &call).await,
            };
            if !is_second && answered.as_ref().is_err_and(|failed| connection.has_lost(failed)) {
                // The server forgot the session, or has ended since the last call: nothing was taken, and a new connection
                // is no second attempt.
                is_second = true;
                connection = self.had(self.connection(call.timeout)).await?.0;
                continue;
            }
            match self.settled(answered)? {
                Called::Answer(Answer::InputRequired(input)) if input.requests.is_empty() && patience > 0 => {
                    // It asks nothing, and wants to be asked again with what it gave.
                    patience -= 1;
                    call.input.request_state = input.request_state;
                }
                Called::Answer(answer) => return Ok(answer),
                Called::Task(task) => {
                    tracing::debug!(server = self.name(), tool, operation = %call.operation, "it is a task");
                    // What was told to the call is told to the task no more: its questions are its own.
                    call.input = Input::default();
                    return follow(self, Begun::Now(&task), &call, deadline).await;
                }
            }
        }
    }

    /// Follows a task that an earlier call began.
    async fn attach(&self, task: &str, call: &CallContext) -> Result<Answer, CallError> {
        tracing::debug!(server = self.name(), operation = %call.operation, "asking about its task");
        let room = async { Ok(self.line.room.acquire().await.ok()) };
        // What began earlier may have been acted on, whatever is sent now.
        let _room =
            self.had(room).await.map_err(|error| CallError { received: Received::Possibly, ..error })?;
        let deadline = Instant::now() + total(self.limits(), call);
        follow(self, Begun::Before(task), call, deadline).await
    }

    /// The name of the server.
    pub(crate) fn name(&self) -> &str {
        &self.inner.config.name
    }

    /// The limits from the configuration.
    pub fn limits(&self) -> &Limits {
        &self.inner.config.limits
    }

    pub(crate) fn error(&self, failed: Failed) -> CallError {
        self.inner.error(failed)
    }

    /// How the server is asked for access, where its configuration says so.
    pub fn oauth(&self) -> Option<&OAuth> {
        self.inner.oauth()
    }

    /// The revision of the protocol that is spoken, such as `2025-11-25`.
    ///
    /// # Errors
    ///
    /// When the server cannot be had.
    pub async fn protocol(&self) -> Result<String, CallError> {
        let connection = self.connected().await?.0;
        Ok(connection.protocol().unwrap_or_default())
    }

    /// The connection, or a new one, within the time of a start.
    async fn connected(&self) -> Result<(Arc<Connection>, bool), CallError> {
        self.had(self.connection(self.inner.config.limits.start_timeout)).await
    }

    /// Bounds all that comes before a request by the time of a start: room, pauses, and the start itself.
    pub(crate) async fn had<T>(
        &self,
        waiting: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let limit = self.inner.config.limits.start_timeout;
        tokio::time::timeout(limit, waiting).await.unwrap_or_else(|_| {
            let message = format!("it could not be had within {limit:?}");
            Err(self.inner.error(Failed::unsent(Failure::new(CallErrorKind::Timeout, message))))
        })
    }

    /// The connection, or a new one. Callers that come meanwhile wait for the same start.
    pub(crate) async fn connection(&self, patience: Duration) -> Result<(Arc<Connection>, bool), CallError> {
        let mut state = self.line.state.lock().await;
        match &state.connection {
            Some(connection) if !connection.has_ended() => return Ok((Arc::clone(connection), false)),
            Some(_) => {
                state.connection = None;
                state.not_before = Instant::now() + self.line.failed();
            }
            None => {}
        }
        let pause = state.not_before.saturating_duration_since(Instant::now());
        if pause > patience {
            let message =
                format!("it failed several times in a row, and is left alone for another {pause:.1?}");
            return Err(self.inner.error(Failed::unsent(Failure::new(CallErrorKind::Start, message))));
        }
        tokio::time::sleep(pause).await;
        match Connection::open(&self.inner.config, self.inner.era.get()).await {
            Ok(connection) => {
                self.inner.era.learn(connection.era());
                let connection = Arc::new(connection);
                state.connection = Some(Arc::clone(&connection));
                Ok((connection, true))
            }
            Err(failed) => {
                // The server may have been exchanged for one of another era.
                self.inner.era.learn(Era::Unknown);
                state.not_before = Instant::now() + self.line.failed();
                Err(self.inner.error(failed))
            }
        }
    }

    pub(crate) fn settled<T>(&self, answered: Result<T, Failed>) -> Result<T, CallError> {
        let is_alive = |failed: &Failed| matches!(failed.failure.kind, CallErrorKind::Refused { .. });
        if answered.as_ref().map_or_else(is_alive, |_| true) {
            self.line.failures.store(0, Ordering::Relaxed);
        }
        answered.map_err(|failed| {
            let error = self.inner.error(failed);
            tracing::debug!(server = %error.server, kind = ?error.kind, received = ?error.received, "no answer");
            error
        })
    }
}

impl std::fmt::Debug for ServerSession {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ServerSession")
            .field("server", &self.inner.config.name)
            .finish_non_exhaustive()
    }
}

impl Line {
    /// Counts a failure, and says how long to wait before the next start.
    fn failed(&self) -> Duration {
        pause(self.failures.fetch_add(1, Ordering::Relaxed))
    }
}

/// The pause after this many earlier failures in a row: none after the first, then doubling.
fn pause(earlier: u32) -> Duration {
    match earlier.checked_sub(1) {
        None => Duration::ZERO,
        Some(exponent) => PAUSE.saturating_mul(1 << exponent.min(16)).min(PAUSE_MAX),
    }
}

impl Inner {
    fn oauth(&self) -> Option<&OAuth> {
        match &self.config.reach {
            Reach::Stdio(_) => None,
            Reach::Http(endpoint) => endpoint.oauth.as_ref(),
        }
    }

    /// Refuses a tool that configuration or the server does not offer.
    fn check_tool(&self, tool: &str) -> Result<(), CallError> {
        self.offer.check(tool).map_err(|failure| self.error(Failed::unsent(failure)))
    }

    /// Asks for the tools, and remembers them.
    async fn list(&self, connection: &Connection) -> Result<Vec<ToolDescription>, CallError> {
        let tools = connection.tools().await.map_err(|failed| self.error(failed))?;
        self.offer.learn(&tools);
        Ok(tools)
    }

    /// The built-in tool of this name; none if the server has a tool of its own with it.
    async fn builtin(&self, tool: &str, connection: &Connection) -> Result<Option<Builtin>, CallError> {
        if !self.offer.is_known() {
            self.list(connection).await?;
            // Now it is known whether there is such a tool.
            self.check_tool(tool)?;
        }
        Ok(self.offer.builtin(tool))
    }

    fn error(&self, failed: Failed) -> CallError {
        failed.at(&self.config.name)
    }
}

/// How often in one call a server may want to be asked again without a question of its own.
const CONTINUATIONS: u32 = 8;

/// The pause after the second failure in a row.
const PAUSE: Duration = Duration::from_millis(200);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::{PAUSE, PAUSE_MAX, pause};

    #[test]
    fn pauses_grow_up_to_a_limit() {
        assert!(pause(0).is_zero());
        assert_eq!(pause(1), PAUSE);
        assert_eq!(pause(2), PAUSE * 2);
        assert_eq!(pause(u32::MAX), PAUSE_MAX);
    }
}
