//! Streamable HTTP under the rules of egress.

use std::borrow::Cow;
use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dalsegno_net::{EgressDenied, NetError, Origin, error_chain};
use dalsegno_protocol::{CallErrorKind, Failure, UNANSWERED_MAX, is_request, keep_order};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use tokio::time::Instant;

use crate::config::{Endpoint, values};
use crate::oauth::OAuthError;
use crate::pace::{FLOOR, Pace};
use crate::wire::Wire;

/// A transport to an endpoint.
pub(crate) fn transport(
    endpoint: &Endpoint,
    wire: &Arc<Wire>,
    output_max: usize,
) -> Result<StreamableHttpClientTransport<Guarded>, Failure> {
    let failed = |error: NetError| {
        let kind = if error.denied().is_some() { CallErrorKind::Denied } else { CallErrorKind::Start };
        Failure::new(kind, error_chain(&error))
    };
    if endpoint.oauth.as_ref().is_some_and(|oauth| !oauth.is_for(&endpoint.url)) {
        let message = "its access is one to another address".to_owned();
        return Err(Failure::new(CallErrorKind::Start, message));
    }
    let origin = Origin::of(&endpoint.url).map_err(|error| failed(error.into()))?;
    let inner = endpoint.client.pinned(&origin).map_err(failed)?;
    let client = Guarded {
        inner,
        endpoint: endpoint.clone(),
        wire: Arc::clone(wire),
        output_max,
        unanswered: Arc::default(),
        pace: Arc::default(),
    };
    // A session that expired is begun anew by the owner of the connection, which knows what may be repeated.
    let config = StreamableHttpClientTransportConfig::with_uri(endpoint.url.as_str())
        .max_sse_event_size(output_max)
        .max_json_response_size(output_max)
        .reinit_on_expired_session(false);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// The SDK's client over a connection that goes nowhere else, with fresh headers, and with notes of what was sent.
#[derive(Clone)]
pub(crate) struct Guarded {
    inner: reqwest::Client,
    endpoint: Endpoint,
    wire: Arc<Wire>,
    output_max: usize,
    /// Requests of the server whose answers it has not taken yet.
    unanswered: Arc<AtomicUsize>,
    /// The streams that were opened in the last minute.
    pace: Arc<Pace>,
}

type HttpError = StreamableHttpError<reqwest::Error>;

impl Guarded {
    /// The headers of a request: those of the protocol, and those of the configuration.
    async fn headers(
        &self,
        mut headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<HashMap<HeaderName, HeaderValue>, String> {
        for (name, value) in values(&self.endpoint.headers).await? {
            let invalid = || format!("the header `{}` is not one", name.escape_debug());
            let name = HeaderName::try_from(name.as_str()).map_err(|_| invalid())?;
            let mut value = HeaderValue::try_from(value).map_err(|_| invalid())?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// Makes a request with the access to the server, and once more with a new token where it does not take the first.
    async fn with_access<T, F>(&self, send: impl Fn(Option<String>) -> F) -> Result<T, Refusal>
    where
        F: Future<Output = Result<T, HttpError>>,
    {
        let Some(oauth) = &self.endpoint.oauth else { return Ok(send(None).await?) };
        let mut token = oauth.token().await?;
        let mut is_second = false;
        loop {
            let error = match send(token.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match AccessRefusal::of(&error) {
                Some(AccessRefusal::Unknown(challenge)) if !is_second => {
                    token = Some(oauth.refused(token, challenge).await?);
                    is_second = true;
                }
                Some(AccessRefusal::Narrow(scope)) => return Err(oauth.wants(scope).await.into()),
                Some(AccessRefusal::Unknown(_)) | None => return Err(error.into()),
            }
        }
    }

    /// Counts a request of the server. More than the bound end the connection: the SDK keeps an answer for each of them
    /// until the server takes it.
    fn asked(&self) -> Result<(), HttpError> {
        if self.unanswered.fetch_add(1, Ordering::Relaxed) < UNANSWERED_MAX {
            return Ok(());
        }
        let message = "the server sends requests but does not accept the answers";
        Err(self.end(Failure::new(CallErrorKind::Protocol, message)))
    }

    /// Ends the connection.
    fn end(&self, failure: Failure) -> HttpError {
        let error = unavailable(failure.message.clone());
        self.wire.fail(failure);
        error
    }

    /// A stream of the server, with its requests counted. It ends with the connection, and not before `floor` is over: a
    /// server that closes it has it opened again no sooner.
    fn watched(
        &self,
        stream: BoxStream<'static, Result<Sse, SseError>>,
        floor: Duration,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        let (guarded, earliest) = (self.clone(), Instant::now() + floor);
        let watched = futures::stream::unfold(Some(stream), move |stream| {
            let guarded = guarded.clone();
            async move {
                let mut stream = stream?;
                if guarded.wire.has_failed() {
                    return None;
                }
                match stream.next().await {
                    Some(Ok(mut event)) => {
                        let is_request = event.data.as_deref().is_some_and(is_request);
                        if is_request && guarded.asked().is_err() {
                            return None;
                        }
                        let kept = event.data.as_deref().map(|data| keep_order(data.as_bytes()));
                        if let Some(Cow::Owned(kept)) = kept {
                            event.data = String::from_utf8(kept).ok();
                        }
                        Some((Ok(event), Some(stream)))
                    }
                    Some(Err(error)) => {
                        tokio::time::sleep_until(earliest).await;
                        Some((Err(error), None))
                    }
                    None => {
                        tokio::time::sleep_until(earliest).await;
                        None
                    }
                }
            }
        });
        watched.boxed()
    }

    /// Whether a URL is the one that the connection is for.
    fn check(&self, uri: &str) -> Result<(), HttpError> {
        if uri == self.endpoint.url.as_str() {
            return Ok(());
        }
        Err(StreamableHttpError::UnexpectedServerResponse(
            "another address than the one that was granted".into(),
        ))
    }
}

/// A request that failed: an error for the SDK, the cause for whoever waits, and whether the server certainly did not
/// take it.
struct Refusal {
    error: HttpError,
    failure: Failure,
    untaken: bool,
}

impl From<HttpError> for Refusal {
    fn from(error: HttpError) -> Self {
        let (failure, untaken) = explain(&error);
        Self { error, failure, untaken }
    }
}

impl From<OAuthError> for Refusal {
    fn from(error: OAuthError) -> Self {
        Self { error: unavailable(error.to_string()), failure: error.failure(), untaken: true }
    }
}

/// What a server says of the access that was shown to it.
enum AccessRefusal<'e> {
    /// It takes none of it, and says what it wants.
    Unknown(&'e str),
    /// It is not enough.
    Narrow(Option<&'e str>),
}

impl<'e> AccessRefusal<'e> {
    fn of(error: &'e HttpError) -> Option<Self> {
        match error {
            StreamableHttpError::AuthRequired(asked) => Some(Self::Unknown(&asked.www_authenticate_header)),
            StreamableHttpError::InsufficientScope(asked) => Some(Self::Narrow(asked.get_required_scope())),
            StreamableHttpError::UnexpectedServerResponse(said) if said.starts_with("HTTP 401") => {
                Some(Self::Unknown(""))
            }
            _ => None,
        }
    }
}

fn unavailable(reason: String) -> HttpError {
    StreamableHttpError::Io(std::io::Error::other(reason))
}

/// What a failed request means to whoever made it, and whether the server said that it did not take it.
fn explain(error: &HttpError) -> (Failure, bool) {
    let words = match error {
        // The SDK's own words hide what the network said, such as a refused connection.
        StreamableHttpError::Client(inner) => error_chain(inner),
        error => error_chain(error),
    };
    let (kind, untaken) = match error {
        StreamableHttpError::Client(inner) => {
            let denied = EgressDenied::among_causes(inner as &(dyn Error + 'static)).is_some();
            let kind = if denied { CallErrorKind::Denied } else { CallErrorKind::Closed };
            (kind, inner.is_connect() || inner.is_builder())
        }
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => {
            (CallErrorKind::Unauthorized, true)
        }
        StreamableHttpError::SessionExpired => (CallErrorKind::Closed, true),
        StreamableHttpError::HttpStatus(status) => {
            (CallErrorKind::Closed, status.status == TOO_MANY_REQUESTS)
        }
        StreamableHttpError::ResponseBodyTooLarge { .. } => (CallErrorKind::OutputTooLarge, false),
        StreamableHttpError::UnexpectedServerResponse(said)
            if ["HTTP 401", "HTTP 403"].iter().any(|status| said.starts_with(status)) =>
        {
            (CallErrorKind::Unauthorized, true)
        }
        StreamableHttpError::Deserialize(_)
        | StreamableHttpError::UnexpectedContentType(_)
        | StreamableHttpError::UnexpectedServerResponse(_) => (CallErrorKind::Protocol, false),
        _ => (CallErrorKind::Closed, false),
    };
    (Failure::new(kind, words), untaken)
}

fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) | JsonRpcMessage::Notification(_) => None,
    }
}

impl StreamableHttpClient for Guarded {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let mut limits = StreamableHttpResponseLimits::default();
        (limits.max_sse_event_size, limits.max_json_response_size) = (self.output_max, self.output_max);
        self.post_message_with_response_limits(uri, message, session_id, auth_header, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        self.check(&uri)?;
        // Counted as taken when this is over, however it ends.
        let _answered = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
            .then(|| Answered(Arc::clone(&self.unanswered)));
        let id = request_id(&message);
        let headers = match self.headers(headers).await {
            Ok(headers) => headers,
            Err(reason) => {
                if let Some(id) = &id {
                    self.wire.explain(id, Failure::new(CallErrorKind::Start, reason.clone()));
                }
                return Err(unavailable(reason));
            }
        };
        if let Some(id) = &id {
            self.wire.begin(id);
        }
        let posted = self.with_access(|token| {
            let (uri, message, session_id) = (uri.clone(), message.clone(), session_id.clone());
            let (auth, headers) = (token.or_else(|| auth_header.clone()), headers.clone());
            self.inner.post_message_with_response_limits(uri, message, session_id, auth, headers, limits)
        });
        match posted.await {
            Ok(posted) => {
                self.wire.hear();
                match posted {
                    StreamableHttpPostResponse::Sse(stream, session) => {
                        let stream = self.watched(stream, Duration::ZERO);
                        Ok(StreamableHttpPostResponse::Sse(stream, session))
                    }
                    StreamableHttpPostResponse::Json(message @ JsonRpcMessage::Request(_), session) => {
                        self.asked()?;
                        Ok(StreamableHttpPostResponse::Json(message, session))
                    }
                    posted => Ok(posted),
                }
            }
            Err(Refusal { error, failure, untaken }) => {
                if let Some(id) = &id {
                    if untaken {
                        self.wire.take_back(id);
                    }
                    self.wire.explain(id, failure.clone());
                }
                if matches!(error, StreamableHttpError::SessionExpired) {
                    self.wire.fail(failure);
                }
                Err(error)
            }
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        self.check(&uri)?;
        let headers = self.headers(headers).await.map_err(unavailable)?;
        let deleted = self.with_access(|token| {
            let (uri, session_id, headers) = (uri.clone(), session_id.clone(), headers.clone());
            self.inner.delete_session(uri, session_id, token.or_else(|| auth_header.clone()), headers)
        });
        deleted.await.map_err(|refusal| refusal.error)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let max = self.output_max;
        self.get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, headers, max)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        max: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        self.check(&uri)?;
        if !self.pace.admit(Instant::now(), self.wire.under_way()) {
            tracing::warn!("the server ends its streams again and again; one is not opened anew");
            // The SDK gives such a stream up. A request whose answer was to come on it has none; the others go on.
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        let headers = self.headers(headers).await.map_err(unavailable)?;
        let opened = self.with_access(|token| {
            let (uri, session_id, last) = (uri.clone(), session_id.clone(), last_event_id.clone());
            let (auth, headers) = (token.or_else(|| auth_header.clone()), headers.clone());
            self.inner.get_stream_with_max_sse_event_size(uri, session_id, last, auth, headers, max)
        });
        let stream = opened.await.map_err(|refusal| refusal.error)?;
        Ok(self.watched(stream, FLOOR))
    }
}

/// An answer on its way to the server. Dropped, it is there, or will never be.
struct Answered(Arc<AtomicUsize>);

impl Drop for Answered {
    fn drop(&mut self) {
        // An answer to what was never counted, such as an error for a message that nobody could read.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
    }
}

const TOO_MANY_REQUESTS: u16 = 429;
