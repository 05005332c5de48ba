//! One connection to a server: opened in the era that the server speaks, asked, and closed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_protocol::{
    Answer, Ask, Builtin, CallContext, CallErrorKind, Called, Era, Failed, Failure, Patience, Received,
    TaskState, ToolDescription, meta,
};
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientNotification, ClientRequest, ErrorCode,
    RequestId, RequestMetaObject, ServerCapabilities, ServerResult, SubscriptionFilter,
};
use rmcp::service::{
    ClientInitializeError, ClientServiceExt, PeerRequestOptions, RunningService, ServiceError,
};
use rmcp::transport::Transport;
use rmcp::{Peer, RoleClient};
use serde_json::{Map, Value};
use tokio::task::AbortHandle;

use crate::config::{Limits, Reach, ServerConfig};
use crate::handler::Handler;
use crate::http;
use crate::lines::Lines;
use crate::process::Process;
use crate::wire::{Wire, lost};

/// A server that answered the handshake. Dropped, it is closed at once, with its process.
pub(crate) struct Connection {
    wire: Arc<Wire>,
    handler: Handler,
    service: RunningService<RoleClient, Handler>,
    process: Option<Process>,
    limits: Limits,
    /// Listens for changes, where the server tells them only to those who ask.
    listening: Option<AbortHandle>,
    /// Ends the client when the connection is over: its streams are read no more, and nothing piles up behind them.
    ending: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.ending.abort();
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

impl Connection {
    /// Starts or reaches a server and shakes hands.
    pub(crate) async fn open(config: &ServerConfig, era: Era) -> Result<Self, Failed> {
        match Self::open_in(config, era).await {
            // Servers of the old era may end, or lose the thread, when the first message is not the one that they know.
            Err(failed) if era == Era::Unknown && is_lost(&config.reach, failed.failure.kind) => {
                // What the first one said is the better reason where neither works.
                Self::open_in(config, Era::Legacy).await.map_err(|_| failed)
            }
            opened => opened,
        }
    }

    async fn open_in(config: &ServerConfig, era: Era) -> Result<Self, Failed> {
        let wire = Arc::new(Wire::new());
        // A question of the old era is answered on its connection, or not at all.
        let may_ask = config.answers.is_some() || (config.asks && era != Era::Legacy);
        // Servers of the old era have tasks of another kind.
        let handler = Handler::new(&config.name, config.answers.clone(), may_ask, era != Era::Legacy);
        let limits = config.limits.clone();
        let unsent = Failed::unsent;
        let (process, shaken) = match &config.reach {
            Reach::Stdio(command) => {
                let started = Process::start(command, limits.stderr, &wire).await;
                let (process, pipes) = started.map_err(unsent)?;
                let lines = Lines::new(Arc::clone(&wire), pipes.output, pipes.input, limits.output);
                let shaken = shake(handler.clone(), lines, era, &wire, limits.start_timeout).await;
                (Some(process), shaken)
            }
            Reach::Http(endpoint) => {
                let transport = http::transport(endpoint, &wire, limits.output).map_err(unsent)?;
                let shaken = shake(handler.clone(), transport, era, &wire, limits.start_timeout).await;
                (None, shaken)
            }
        };
        match shaken {
            Ok(service) => {
                tracing::debug!(server = %config.name, ?era, "connected");
                let (over, token) = (Arc::clone(&wire), service.cancellation_token());
                let ending = tokio::spawn(async move {
                    over.failed().await;
                    token.cancel();
                });
                let ending = ending.abort_handle();
                let mut connection =
                    Self { wire, handler, service, process, limits, listening: None, ending };
                connection.listen();
                Ok(connection)
            }
            Err(mut failure) => {
                failure.message.push_str(" (at its start)");
                let stderr = process.as_ref().map(Process::stderr).unwrap_or_default();
                Err(Failed { stderr, ..Failed::unsent(failure) })
            }
        }
    }

    /// The era that the server turned out to speak.
    pub(crate) fn era(&self) -> Era {
        match self.peer().peer_info() {
            Some(info) => Era::of(&info.protocol_version),
            None => Era::Unknown,
        }
    }

    /// Asks a server of the new era to tell when its tools change. One of the old era tells it unasked.
    fn listen(&mut self) {
        let Some(info) = self.peer().peer_info().filter(|_| self.era() == Era::Modern) else { return };
        let tools = info.capabilities.tools.as_ref();
        if tools.is_none_or(|tools| tools.list_changed != Some(true)) {
            return;
        }
        let (peer, handler) = (self.peer().clone(), self.handler.clone());
        let listening = tokio::spawn(async move {
            let wanted = SubscriptionFilter::builder().tools_list_changed().build();
            loop {
                match peer.listen(wanted.clone()).await {
                    Ok(mut changes) => {
                        while let Ok(Some(_)) = changes.next().await {
                            handler.note_changed();
                        }
                    }
                    Err(error) => {
                        tracing::debug!(%error, "it does not tell when its tools change");
                        return;
                    }
                }
                // Something may have changed while nobody listened.
                handler.note_changed();
                tokio::time::sleep(LISTEN_AGAIN).await;
            }
        });
        self.listening = Some(listening.abort_handle());
    }

    /// The revision of the protocol that was agreed on.
    pub(crate) fn protocol(&self) -> Option<String> {
        Some(self.peer().peer_info()?.protocol_version.to_string())
    }

    /// Whether the connection is over and must be replaced.
    pub(crate) fn has_ended(&self) -> bool {
        self.wire.has_failed() || self.peer().is_transport_closed()
    }

    /// Whether a request failed only because the connection was over before the server took anything of it.
    pub(crate) fn has_lost(&self, failed: &Failed) -> bool {
        let is_over = matches!(failed.failure.kind, CallErrorKind::Closed | CallErrorKind::Exited);
        is_over && failed.received == Received::No && self.has_ended()
    }

    /// Whether the server said that its tools have changed since this was asked last.
    pub(crate) fn take_changed(&self) -> bool {
        self.handler.take_changed()
    }

    /// Calls a tool of the server's own.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Result<Called, Failed> {
        dalsegno_protocol::call_or_task(&self.asking(Some(call)), tool, arguments, call.input.clone()).await
    }

    /// Asks how a task stands.
    pub(crate) async fn task(&self, id: &str, call: &CallContext) -> Result<TaskState, Failed> {
        dalsegno_protocol::task(&self.asking(Some(call)), id).await
    }

    /// Answers questions of a task.
    pub(crate) async fn answer_task(
        &self,
        id: &str,
        answers: BTreeMap<String, Value>,
        call: &CallContext,
    ) -> Result<(), Failed> {
        dalsegno_protocol::answer_task(&self.asking(Some(call)), id, answers).await
    }

    /// Asks the server to end a task.
    pub(crate) async fn cancel_task(&self, id: &str, call: &CallContext) -> Result<(), Failed> {
        dalsegno_protocol::cancel_task(&self.asking(Some(call)), id).await
    }

    /// Performs a built-in tool.
    pub(crate) async fn perform(
        &self,
        builtin: Builtin,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Result<Answer, Failed> {
        dalsegno_protocol::perform(&self.asking(Some(call)), builtin, arguments, call.input.clone()).await
    }

    /// All tools, the built-in ones included, within bounds.
    pub(crate) async fn tools(&self) -> Result<Vec<ToolDescription>, Failed> {
        dalsegno_protocol::tools(&self.asking(None)).await
    }

    /// Ends the input of the server and gives it a moment to come to its own end.
    pub(crate) async fn close(&self) {
        self.service.cancellation_token().cancel();
        if let Some(process) = &self.process {
            process.grace().await;
        }
        self.wire.fail(Failure::new(CallErrorKind::Closed, "the engine closed the connection"));
    }

    /// Requests that belong to one call, or to none.
    fn asking<'a>(&'a self, call: Option<&'a CallContext>) -> Asking<'a> {
        let patience = call.map_or(self.limits.call_timeout, |call| call.timeout);
        let patience = Patience::new(patience, self.limits.total_timeout.max(patience));
        Asking { connection: self, call, patience }
    }

    /// Sends a request and waits for its answer: as long as `patience` without any word of it, and with progress up to
    /// the server's limit. A request that is given up is cancelled at the server.
    async fn request(
        &self,
        request: ClientRequest,
        meta: Option<RequestMetaObject>,
        patience: Duration,
    ) -> Result<ServerResult, Failed> {
        let heard = self.wire.heard();
        let total = self.limits.total_timeout.max(patience);
        let mut options = PeerRequestOptions::with_timeout(patience)
            .reset_timeout_on_progress()
            .with_max_total_timeout(total);
        options.meta = meta;
        let sending = self.peer().send_request_with_option(request, options);
        let handle = match tokio::time::timeout(patience, sending).await {
            Ok(Ok(handle)) => handle,
            Ok(Err(error)) => {
                let failure = self.cause(&error).await;
                return Err(self.failed(failure, Received::No));
            }
            Err(_) => {
                return Err(self.failed(
                    Failure::new(CallErrorKind::Timeout, "the server accepts no more requests"),
                    Received::No,
                ));
            }
        };
        let id = handle.id.clone();
        let mut cancel = CancelIfDropped { peer: self.peer(), id: Some(id.clone()) };
        let answer = tokio::select! {
            biased;
            answer = handle.await_response() => match answer {
                Ok(result) => Ok(result),
                Err(error) => Err(self.cause(&error).await),
            },
            failure = self.wire.failed() => Err(failure),
        };
        cancel.id = None;
        let (received, reason) = self.wire.settle(&id);
        answer.map_err(|failure| {
            if failure.kind == CallErrorKind::Timeout && self.process.is_some() && self.wire.heard() == heard
            {
                // Not a word since the request went out: it hangs, and others would wait for it as well.
                self.wire.fail(failure.clone());
            }
            let answered = matches!(failure.kind, CallErrorKind::Refused { .. });
            // The transport knows best what became of a request that never had an answer.
            let failure = reason.filter(|_| !answered).unwrap_or(failure);
            // A refusal is an answer: whoever wrote it has read the request.
            self.failed(failure, if answered { Received::Possibly } else { received })
        })
    }

    /// Why a request failed: what the SDK says, or what ended the connection.
    async fn cause(&self, error: &ServiceError) -> Failure {
        match error {
            ServiceError::McpError(error) => dalsegno_protocol::refusal(error),
            ServiceError::Timeout { timeout } => {
                Failure::new(CallErrorKind::Timeout, format!("the server did not answer within {timeout:?}"))
            }
            ServiceError::TransportClosed
            | ServiceError::TransportSend(_)
            | ServiceError::Cancelled { .. } => ending(&self.wire).await,
            other => Failure::new(CallErrorKind::Protocol, other.to_string()),
        }
    }

    fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    fn failed(&self, failure: Failure, received: Received) -> Failed {
        let stderr = self.process.as_ref().map(Process::stderr).unwrap_or_default();
        Failed { stderr, ..Failed::new(failure, received) }
    }
}

/// Requests that belong to one call, or to none, within its time.
struct Asking<'a> {
    connection: &'a Connection,
    call: Option<&'a CallContext>,
    patience: Patience,
}

impl Ask for Asking<'_> {
    type Error = Failed;

    async fn ask(&self, request: ClientRequest) -> Result<ServerResult, Failed> {
        let meta = self.call.map(|call| meta(&call.operation, &call.caller, call.traceparent.as_deref()));
        let connection = self.connection;
        let result = connection.request(request, meta, self.patience.left()).await?;
        // A child's message was bounded as it came in; an answer over HTTP comes in as a whole.
        if connection.process.is_none() {
            let size = serde_json::to_vec(&result).map_or(0, |json| json.len());
            if size > connection.limits.output {
                let message = format!("the answer has more than {} bytes", connection.limits.output);
                return Err(self.unusable(Failure::new(CallErrorKind::OutputTooLarge, message)));
            }
        }
        Ok(result)
    }

    fn capabilities(&self) -> ServerCapabilities {
        self.connection.peer().peer_info().map(|info| info.capabilities.clone()).unwrap_or_default()
    }

    fn output_limit(&self) -> usize {
        self.connection.limits.output
    }

    fn unusable(&self, failure: Failure) -> Failed {
        self.connection.failed(failure, Received::Possibly)
    }

    fn is_unknown_method(error: &Failed) -> bool {
        error.failure.kind == CallErrorKind::Refused { code: ErrorCode::METHOD_NOT_FOUND.0 }
    }
}

/// Tells the server that nobody waits for a request any more.
struct CancelIfDropped<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for CancelIfDropped<'_> {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) else { return };
        let peer = self.peer.clone();
        let reason = Some("the caller does not wait any more".to_owned());
        let params = CancelledNotificationParam::new(Some(id), reason);
        let notification = ClientNotification::CancelledNotification(CancelledNotification::new(params));
        // Bounded by the transport, which takes it or is closed.
        runtime.spawn(async move { peer.send_notification(notification).await });
    }
}

/// Whether a failed handshake may have been one of the wrong era.
fn is_lost(reach: &Reach, kind: CallErrorKind) -> bool {
    match kind {
        CallErrorKind::Protocol => true,
        CallErrorKind::Exited | CallErrorKind::Closed => matches!(reach, Reach::Stdio(_)),
        _ => false,
    }
}

async fn shake<T: Transport<RoleClient> + 'static>(
    handler: Handler,
    transport: T,
    era: Era,
    wire: &Wire,
    limit: Duration,
) -> Result<RunningService<RoleClient, Handler>, Failure> {
    let shaking = handler.serve_with_lifecycle(transport, era.lifecycle());
    let error = tokio::select! {
        biased;
        shaken = shaking => match shaken {
            Ok(service) => return Ok(service),
            Err(error) => error,
        },
        failure = wire.failed() => return Err(failure),
        () = tokio::time::sleep(limit) => {
            let message = format!("the server did not answer the handshake within {limit:?}");
            return Err(Failure::new(CallErrorKind::Timeout, message));
        }
    };
    if let Some(failure) = wire.any_reason() {
        let kind = if failure.kind == CallErrorKind::Closed { CallErrorKind::Start } else { failure.kind };
        return Err(Failure { kind, ..failure });
    }
    match error {
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => {
            Err(ending(wire).await)
        }
        error => Err(Failure::new(CallErrorKind::Protocol, format!("the handshake failed: {error}"))),
    }
}

/// What ended a connection. The end of its output comes a moment before the end of a process.
async fn ending(wire: &Wire) -> Failure {
    let failure = tokio::time::timeout(ENDING, wire.failed()).await;
    failure.unwrap_or_else(|_| wire.failure().unwrap_or_else(lost))
}

/// How long after the end of its announcements a server is asked for them again.
const LISTEN_AGAIN: Duration = Duration::from_secs(10);

/// How long the end of a process may come after the end of its output.
const ENDING: Duration = Duration::from_millis(500);
