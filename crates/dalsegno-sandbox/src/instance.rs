//! One running guest: started, asked, and ended, by itself or by the host.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use dalsegno_protocol::{
    Answer, Ask, Builtin, CallContext, CallErrorKind, Era, Failed, Failure, Input, Patience, Received,
    ToolDescription, ToolOutput, client, meta,
};
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, ErrorCode, RequestId, ServerCapabilities, ServerResult,
};
use rmcp::service::{ClientServiceExt, PeerRequestOptions, RunningService, ServiceError};
use rmcp::{Peer, RoleClient};
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::denial::Denials;
use crate::guest;
use crate::pipe::{Pipe, StderrRing};
use crate::server::Loaded;
use crate::transport::PipeTransport;

/// What the guest's task, the transport and the callers of one instance share.
pub(crate) struct Link {
    pub(crate) input: Arc<Pipe>,
    pub(crate) output: Arc<Pipe>,
    pub(crate) stderr: StderrRing,
    pub(crate) output_limit: u64,
    /// What the guest was refused.
    pub(crate) denials: Arc<Denials>,
    /// How many callers wait for the guest.
    busy: watch::Sender<usize>,
    /// Why the instance is over. Set once, when nothing that it wrote is left to be read.
    failure: watch::Sender<Option<Failure>>,
    /// How it came to that, the first cause. When the guest ended by itself, its output may still have to be read.
    ending: OnceLock<Failure>,
    ended: AtomicBool,
    task: OnceLock<AbortHandle>,
    /// Where in the input each call begins.
    calls: Mutex<HashMap<RequestId, u64>>,
}

impl Link {
    fn new(loaded: &Loaded) -> Self {
        Self {
            input: Arc::default(),
            output: Arc::default(),
            stderr: StderrRing::new(loaded.config.limits.stderr),
            output_limit: loaded.config.limits.output,
            denials: Arc::new(Denials::new(Arc::clone(&loaded.counters))),
            busy: watch::Sender::new(0),
            failure: watch::Sender::new(None),
            ending: OnceLock::new(),
            ended: AtomicBool::new(false),
            task: OnceLock::new(),
            calls: Mutex::default(),
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn is_busy(&self) -> bool {
        *self.busy.borrow() > 0
    }

    /// Waits until a caller waits for the guest.
    pub(crate) async fn until_busy(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.busy.subscribe().wait_for(|callers| *callers > 0).await;
    }

    /// Ends the instance from outside, at once: the guest reads and writes nothing from here on.
    pub(crate) fn kill(&self, failure: Failure) {
        let cause = self.ending.get_or_init(|| failure).clone();
        self.ended.store(true, Ordering::Release);
        // First the input: whoever learns of the failure must find out for certain what the guest has read.
        self.input.shut();
        self.publish(cause);
        self.output.shut();
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    /// Everything that the guest wrote was read, and it will not write more.
    pub(crate) fn output_ended(&self) {
        let failure = self.ending.get().cloned();
        self.publish(
            failure.unwrap_or_else(|| Failure::new(CallErrorKind::Closed, "the host stopped the instance")),
        );
    }

    /// Notes where a call begins in the guest's input.
    pub(crate) fn note_call(&self, id: RequestId, position: u64) {
        self.calls().insert(id, position);
    }

    /// The guest ended by itself. What it wrote is still read; the failure follows after that.
    fn guest_ended(&self, failure: Failure) {
        tracing::debug!(kind = ?failure.kind, message = %failure.message, "guest ended");
        // If the host ended it meanwhile, that is the cause.
        self.ending.get_or_init(|| failure);
        self.ended.store(true, Ordering::Release);
        self.input.shut();
        self.output.close();
    }

    fn publish(&self, failure: Failure) {
        self.failure.send_if_modified(|published| {
            let first = published.is_none();
            if first {
                *published = Some(failure);
            }
            first
        });
    }

    fn published(&self) -> Option<Failure> {
        self.failure.borrow().clone()
    }

    /// Waits until the instance is over.
    async fn failed(&self) -> Failure {
        let mut failure = self.failure.subscribe();
        match failure.wait_for(Option::is_some).await {
            Ok(failure) => failure.clone().unwrap_or_else(lost),
            Err(_) => lost(),
        }
    }

    /// Whether the guest can have seen the call. Only exact once the instance is over.
    fn received(&self, id: &RequestId) -> Received {
        match self.calls().get(id) {
            Some(position) if self.input.bytes_read() > *position => Received::Possibly,
            Some(_) | None => Received::No,
        }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<RequestId, u64>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lost() -> Failure {
    Failure::new(CallErrorKind::Closed, "the connection to the guest was lost")
}

/// Counts a caller as waiting for as long as it lives.
struct Busy<'a>(&'a Link);

impl<'a> Busy<'a> {
    fn new(link: &'a Link) -> Self {
        link.busy.send_modify(|callers| *callers += 1);
        Self(link)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.send_modify(|callers| *callers -= 1);
    }
}

/// Ends the instance when it is dropped, whether a start was given up or the owner has finished.
struct KillOnDrop(Arc<Link>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill(Failure::new(CallErrorKind::Closed, "the host stopped the instance"));
    }
}

/// An instance that answered the handshake.
pub(crate) struct Instance {
    link: KillOnDrop,
    service: RunningService<RoleClient, ClientConfig>,
}

impl Instance {
    /// Starts a guest and shakes hands in the era that it speaks.
    pub(crate) async fn start(loaded: &Loaded) -> Result<Self, Failed> {
        let era = loaded.era.get();
        let started = Self::start_in(loaded, era).await;
        let started = match started {
            // Servers of the old era may end when the first message is not the one that they know.
            Err(failed) if era == Era::Unknown && failed.failure.kind == CallErrorKind::Exited => {
                Self::start_in(loaded, Era::Legacy).await
            }
            other => other,
        };
        if let Ok(instance) = &started {
            let info = instance.peer().peer_info();
            loaded.era.learn(info.map_or(Era::Legacy, |info| Era::of(&info.protocol_version)));
        }
        started
    }

    async fn start_in(loaded: &Loaded, era: Era) -> Result<Self, Failed> {
        let limits = &loaded.config.limits;
        let link = Arc::new(Link::new(loaded));
        let failed = |failure| Failed {
            stderr: link.stderr.tail(),
            denials: link.denials.since(0),
            ..Failed::unsent(failure)
        };
        let env = loaded.env().await.map_err(failed)?;
        let store = guest::store(loaded, &env, &link).map_err(|error| {
            failed(Failure::new(CallErrorKind::Start, format!("cannot start: {error:#}")))
        })?;
        let guest = {
            let link = Arc::clone(&link);
            let program = loaded.program.clone();
            tokio::spawn(async move { link.guest_ended(guest::run(program, store).await) })
        };
        // Set once, here.
        let _ = link.task.set(guest.abort_handle());
        let owner = KillOnDrop(Arc::clone(&link));
        let busy = Busy::new(&link);

        let shaking = client(ClientCapabilities::default())
            .serve_with_lifecycle(PipeTransport::new(Arc::clone(&link)), era.lifecycle());
        let result = tokio::select! {
            biased;
            // The guest's end is known before it is published, which waits until its last output is read.
            result = shaking => result.map_err(|error| match link.published().or_else(|| link.ending.get().cloned()) {
                Some(failure) => failure,
                None => Failure::new(CallErrorKind::Protocol, format!("the handshake failed: {error}")),
            }),
            failure = link.failed() => Err(failure),
            () = tokio::time::sleep(limits.start_timeout) => {
                let message = format!("the guest did not answer the handshake within {:?}", limits.start_timeout);
                Err(Failure::new(CallErrorKind::Timeout, message))
            }
        };
        drop(busy);
        match result {
            Ok(service) => {
                tracing::debug!(server = %loaded.config.name, ?era, "instance started");
                Ok(Self { link: owner, service })
            }
            Err(mut failure) => {
                link.kill(failure.clone());
                failure.message.push_str(" (at its start)");
                Err(failed(failure))
            }
        }
    }

    /// What the guest was refused so far.
    pub(crate) fn denials(&self) -> &Denials {
        &self.link.0.denials
    }

    /// Ends the guest at once.
    pub(crate) fn kill(&self, message: &str) {
        self.link.0.kill(Failure::new(CallErrorKind::Closed, message));
    }

    /// Whether the instance is over and must be replaced.
    pub(crate) fn has_ended(&self) -> bool {
        self.link.0.has_ended()
    }

    /// Calls a tool of the server's own.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Result<ToolOutput, Failed> {
        let asking = self.asking(call.timeout, Some(call));
        self.done(dalsegno_protocol::call(&asking, tool, arguments, Input::default()).await?)
    }

    /// Performs a built-in tool.
    pub(crate) async fn perform(
        &self,
        builtin: Builtin,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Result<ToolOutput, Failed> {
        let asking = self.asking(call.timeout, Some(call));
        self.done(dalsegno_protocol::perform(&asking, builtin, arguments, Input::default()).await?)
    }

    /// All tools, the built-in ones included. Each page has `timeout`.
    pub(crate) async fn tools(&self, timeout: Duration) -> Result<Vec<ToolDescription>, Failed> {
        dalsegno_protocol::tools(&self.asking(timeout, None)).await
    }

    fn asking<'a>(&'a self, timeout: Duration, call: Option<&'a CallContext>) -> Asking<'a> {
        // A call has its time for all that it asks.
        let all = if call.is_some() { timeout } else { Duration::MAX };
        Asking { instance: self, call, patience: Patience::new(timeout, all) }
    }

    fn done(&self, answer: Answer) -> Result<ToolOutput, Failed> {
        match answer {
            Answer::Done(output) => Ok(output),
            Answer::InputRequired(_) => {
                let message = "the server asks for input, which is not offered";
                Err(self.failed(Failure::new(CallErrorKind::Protocol, message), Received::Possibly))
            }
        }
    }

    /// Lets the guest come to its end, for a moment, then ends it.
    pub(crate) async fn close(&self) {
        let link = &self.link.0;
        let busy = Busy::new(link);
        link.input.close();
        if tokio::time::timeout(CLOSE_GRACE, link.failed()).await.is_err() {
            link.kill(Failure::new(CallErrorKind::Closed, "the host stopped the instance"));
        }
        drop(busy);
    }

    async fn request(
        &self,
        request: ClientRequest,
        options: PeerRequestOptions,
        timeout: Duration,
    ) -> Result<ServerResult, Failed> {
        let sending = self.peer().send_request_with_option(request, options);
        let mut handle = match sending.await {
            Ok(handle) => handle,
            Err(error) => {
                let failure = self.link.0.published().unwrap_or_else(|| service_failure(&error));
                return Err(self.failed(failure, Received::No));
            }
        };
        let answer = async { (&mut handle.rx).await.unwrap_or(Err(ServiceError::TransportClosed)) };
        let result = self.guarded(answer, timeout).await;
        let received = self.link.0.received(&handle.id);
        self.link.0.calls().remove(&handle.id);
        result.map_err(|failure| {
            // A refusal is an answer: whoever wrote it has read the request.
            let answered = matches!(failure.kind, CallErrorKind::Refused { .. });
            self.failed(failure, if answered { Received::Possibly } else { received })
        })
    }

    /// Waits for an answer, but not when the instance ends, and not for ever.
    async fn guarded<T>(
        &self,
        answer: impl Future<Output = Result<T, ServiceError>>,
        timeout: Duration,
    ) -> Result<T, Failure> {
        let link = &self.link.0;
        let busy = Busy::new(link);
        let abandoned = KillIfAbandoned { link, armed: true };
        let result = tokio::select! {
            biased;
            result = answer => result.map_err(|error| match (&error, link.published()) {
                (ServiceError::McpError(_), _) | (_, None) => service_failure(&error),
                (_, Some(failure)) => failure,
            }),
            failure = link.failed() => Err(failure),
            () = tokio::time::sleep(timeout) => {
                let failure = Failure::new(CallErrorKind::Timeout, format!("the guest did not answer within {timeout:?}"));
                link.kill(failure.clone());
                Err(failure)
            }
        };
        abandoned.disarm();
        drop(busy);
        result
    }

    fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    fn failed(&self, failure: Failure, received: Received) -> Failed {
        let link = &self.link.0;
        Failed { failure, received, stderr: link.stderr.tail(), denials: link.denials.since(0) }
    }
}

/// Requests that belong to one call, or to none, within its time.
struct Asking<'a> {
    instance: &'a Instance,
    call: Option<&'a CallContext>,
    patience: Patience,
}

impl Ask for Asking<'_> {
    type Error = Failed;

    async fn ask(&self, request: ClientRequest) -> Result<ServerResult, Failed> {
        let mut options = PeerRequestOptions::no_options();
        if let Some(call) = self.call {
            options = options.with_meta(meta(&call.operation, &call.caller, call.traceparent.as_deref()));
        }
        self.instance.request(request, options, self.patience.left()).await
    }

    fn capabilities(&self) -> ServerCapabilities {
        self.instance.peer().peer_info().map(|info| info.capabilities.clone()).unwrap_or_default()
    }

    fn output_limit(&self) -> usize {
        usize::try_from(self.instance.link.0.output_limit).unwrap_or(usize::MAX)
    }

    fn unusable(&self, failure: Failure) -> Failed {
        self.instance.failed(failure, Received::Possibly)
    }

    fn is_unknown_method(error: &Failed) -> bool {
        error.failure.kind == CallErrorKind::Refused { code: ErrorCode::METHOD_NOT_FOUND.0 }
    }
}

/// Ends the instance if its caller went away while the guest was at work: nobody would time it any more.
struct KillIfAbandoned<'a> {
    link: &'a Link,
    armed: bool,
}

impl KillIfAbandoned<'_> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for KillIfAbandoned<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.link.kill(Failure::new(
                CallErrorKind::Closed,
                "the instance was stopped together with a call that timed out or was cancelled",
            ));
        }
    }
}

fn service_failure(error: &ServiceError) -> Failure {
    match error {
        ServiceError::McpError(error) => dalsegno_protocol::refusal(error),
        ServiceError::TransportClosed | ServiceError::TransportSend(_) => lost(),
        other => Failure::new(CallErrorKind::Protocol, other.to_string()),
    }
}

/// How long a guest may take to come to its end when it is asked to.
const CLOSE_GRACE: Duration = Duration::from_millis(200);
