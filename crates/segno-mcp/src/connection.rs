//! One connection to a server: opened in the era that the server speaks, asked, and closed.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
    ClientNotification, ClientRequest, GetPromptRequest, GetPromptRequestParams, ListPromptsRequest,
    ListResourcesRequest, ListToolsRequest, PaginatedRequestParams, ProtocolVersion, ReadResourceRequest,
    ReadResourceRequestParams, RequestId, RequestMetaObject, ServerResult, SubscriptionFilter,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, PeerRequestOptions, RunningService,
    ServiceError,
};
use rmcp::transport::Transport;
use rmcp::{Peer, RoleClient};
use serde_json::{Map, Value};
use tokio::task::AbortHandle;

use crate::catalogue::{Catalogue, Pages, PromptDescription, ResourceDescription, ToolDescription};
use crate::config::{Limits, Reach, ServerConfig};
use crate::error::{CallErrorKind, Failed, Failure, Received};
use crate::handler::Handler;
use crate::http;
use crate::lines::Lines;
use crate::output::{self, Answer};
use crate::process::Process;
use crate::server::CallContext;
use crate::wire::{Wire, lost};

/// Which handshake a server understands. It is learned from the first connection and saves the others a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Unknown,
    /// `server/discover`, then requests that stand for themselves.
    Modern,
    /// `initialize` first.
    Legacy,
}

impl Era {
    fn lifecycle(self) -> ClientLifecycleMode {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        match self {
            Self::Unknown => ClientLifecycleMode::Auto {
                preferred_versions,
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
            Self::Modern => ClientLifecycleMode::Discover { preferred_versions },
            Self::Legacy => ClientLifecycleMode::Initialize,
        }
    }
}

/// A server that answered the handshake. Dropped, it is closed at once, with its process.
pub(crate) struct Connection {
    wire: Arc<Wire>,
    handler: Handler,
    service: RunningService<RoleClient, Handler>,
    process: Option<Process>,
    limits: Limits,
    /// Listens for changes, where the server tells them only to those who ask.
    listening: Option<AbortHandle>,
}

impl Drop for Connection {
    fn drop(&mut self) {
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
        let handler = Handler::new(&config.name, config.answers.clone(), may_ask);
        let limits = config.limits.clone();
        let unsent = |failure| Failed { failure, received: Received::No, stderr: String::new() };
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
                let mut connection = Self { wire, handler, service, process, limits, listening: None };
                connection.listen();
                Ok(connection)
            }
            Err(mut failure) => {
                failure.message.push_str(" (at its start)");
                let stderr = process.as_ref().map(Process::stderr).unwrap_or_default();
                Err(Failed { failure, received: Received::No, stderr })
            }
        }
    }

    /// The era that the server turned out to speak.
    pub(crate) fn era(&self) -> Era {
        match self.peer().peer_info() {
            Some(info) if info.protocol_version.has_initialize() => Era::Legacy,
            Some(_) => Era::Modern,
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

    /// Whether the server said that its tools have changed since this was asked last.
    pub(crate) fn take_changed(&self) -> bool {
        self.handler.take_changed()
    }

    /// Calls a tool.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Result<Answer, Failed> {
        let mut meta = RequestMetaObject::new();
        meta.insert(OPERATION_KEY.to_owned(), Value::String(call.operation.clone()));
        if let Some(parent) = &call.traceparent {
            meta.insert("traceparent".to_owned(), Value::String(parent.clone()));
        }
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        params.input_responses = (!call.input.is_empty()).then(|| call.input.clone());
        params.request_state.clone_from(&call.request_state);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        match self.request(request, Some(meta), call.timeout).await? {
            ServerResult::CallToolResult(result) => {
                // A child's message was bounded as it came in; an answer over HTTP comes in as a whole.
                let size = serde_json::to_vec(&result).map_or(0, |json| json.len());
                if size > self.limits.output {
                    let message = format!("the answer has more than {} bytes", self.limits.output);
                    return Err(
                        self.failed(Failure::new(CallErrorKind::OutputTooLarge, message), Received::Possibly)
                    );
                }
                Ok(Answer::Done(output::output(result)))
            }
            ServerResult::InputRequiredResult(result) => {
                Ok(Answer::InputRequired(output::input_required(result)))
            }
            ServerResult::CreateTaskResult(_) => {
                Err(self.misfit("the server made a task, which this client does not offer"))
            }
            _ => Err(self.misfit("the server answered a tool call with another kind of result")),
        }
    }

    /// All tools, page by page, within bounds.
    pub(crate) async fn tools(&self) -> Result<Vec<ToolDescription>, Failed> {
        let (mut catalogue, mut pages, mut cursor) = (Catalogue::default(), Pages::default(), None);
        loop {
            let request = ListToolsRequest { params: page(cursor), ..Default::default() };
            let result = self.ask(ClientRequest::ListToolsRequest(request)).await?;
            let ServerResult::ListToolsResult(result) = result else {
                return Err(self.misfit("the server answered `tools/list` with another kind of result"));
            };
            catalogue.add(result.tools).map_err(|message| self.unusable(&message))?;
            cursor = self.next(&mut pages, result.next_cursor)?;
            if cursor.is_none() {
                return Ok(catalogue.tools);
            }
        }
    }

    /// All resources.
    pub(crate) async fn resources(&self) -> Result<Vec<ResourceDescription>, Failed> {
        let (mut all, mut pages, mut cursor) = (Vec::new(), Pages::default(), None);
        loop {
            let request = ListResourcesRequest { params: page(cursor), ..Default::default() };
            let result = self.ask(ClientRequest::ListResourcesRequest(request)).await?;
            let ServerResult::ListResourcesResult(result) = result else {
                return Err(self.misfit("the server answered `resources/list` with another kind of result"));
            };
            all.extend(result.resources.into_iter().map(ResourceDescription::from));
            self.bounded(all.len())?;
            cursor = self.next(&mut pages, result.next_cursor)?;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    /// All prompts.
    pub(crate) async fn prompts(&self) -> Result<Vec<PromptDescription>, Failed> {
        let (mut all, mut pages, mut cursor) = (Vec::new(), Pages::default(), None);
        loop {
            let request = ListPromptsRequest { params: page(cursor), ..Default::default() };
            let result = self.ask(ClientRequest::ListPromptsRequest(request)).await?;
            let ServerResult::ListPromptsResult(result) = result else {
                return Err(self.misfit("the server answered `prompts/list` with another kind of result"));
            };
            all.extend(result.prompts.into_iter().map(PromptDescription::from));
            self.bounded(all.len())?;
            cursor = self.next(&mut pages, result.next_cursor)?;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    /// A resource's contents, as the protocol writes them.
    pub(crate) async fn read(&self, uri: &str) -> Result<Vec<Value>, Failed> {
        let request = ReadResourceRequest::new(ReadResourceRequestParams::new(uri));
        match self.ask(ClientRequest::ReadResourceRequest(request)).await? {
            ServerResult::ReadResourceResult(result) => {
                Ok(result.contents.iter().filter_map(|content| serde_json::to_value(content).ok()).collect())
            }
            _ => Err(self.misfit("the server answered `resources/read` with another kind of result")),
        }
    }

    /// A prompt's messages, as the protocol writes them.
    pub(crate) async fn prompt(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Vec<Value>, Failed> {
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        match self.ask(ClientRequest::GetPromptRequest(GetPromptRequest::new(params))).await? {
            ServerResult::GetPromptResult(result) => {
                Ok(result.messages.iter().filter_map(|message| serde_json::to_value(message).ok()).collect())
            }
            _ => Err(self.misfit("the server answered `prompts/get` with another kind of result")),
        }
    }

    /// Ends the input of the server and gives it a moment to come to its own end.
    pub(crate) async fn close(&self) {
        self.service.cancellation_token().cancel();
        if let Some(process) = &self.process {
            process.grace().await;
        }
        self.wire.fail(Failure::new(CallErrorKind::Closed, "the connection was closed by its owner"));
    }

    async fn ask(&self, request: ClientRequest) -> Result<ServerResult, Failed> {
        self.request(request, None, self.limits.call_timeout).await
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
                    Failure::new(CallErrorKind::Timeout, "the server takes no more requests"),
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
            ServiceError::McpError(error) => Failure::new(
                CallErrorKind::Refused { code: error.code.0 },
                format!("the server refused the request: {} ({})", error.message, error.code.0),
            ),
            ServiceError::Timeout { timeout } => {
                Failure::new(CallErrorKind::Timeout, format!("the server gave no answer within {timeout:?}"))
            }
            ServiceError::TransportClosed
            | ServiceError::TransportSend(_)
            | ServiceError::Cancelled { .. } => ending(&self.wire).await,
            other => Failure::new(CallErrorKind::Protocol, other.to_string()),
        }
    }

    fn next(&self, pages: &mut Pages, cursor: Option<String>) -> Result<Option<String>, Failed> {
        if let Some(cursor) = &cursor {
            pages.follow(cursor).map_err(|message| self.unusable(&message))?;
        }
        Ok(cursor)
    }

    fn bounded(&self, count: usize) -> Result<(), Failed> {
        if count <= LISTED_MAX {
            return Ok(());
        }
        Err(self.unusable(&format!("one of its lists has more than {LISTED_MAX} entries")))
    }

    fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    fn unusable(&self, message: &str) -> Failed {
        self.misfit(&format!("the server cannot be used: {message}"))
    }

    fn misfit(&self, message: &str) -> Failed {
        self.failed(Failure::new(CallErrorKind::Protocol, message), Received::Possibly)
    }

    fn failed(&self, failure: Failure, received: Received) -> Failed {
        let stderr = self.process.as_ref().map(Process::stderr).unwrap_or_default();
        Failed { failure, received, stderr }
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

fn page(cursor: Option<String>) -> Option<PaginatedRequestParams> {
    cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)))
}

/// How long after the end of its announcements a server is asked for them again.
const LISTEN_AGAIN: Duration = Duration::from_secs(10);

/// Where the operation id travels.
const OPERATION_KEY: &str = "segno/operation";

/// How long the end of a process may come after the end of its output.
const ENDING: Duration = Duration::from_millis(500);

/// Resources or prompts of one server.
const LISTED_MAX: usize = 10_000;
