//! Streamable HTTP under the rules of egress.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use segno_net::{EgressDenied, NetError, Origin, error_chain};
use sse_stream::Sse;

use crate::config::Endpoint;
use crate::error::{CallErrorKind, Failure};
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
    let origin = Origin::of(&endpoint.url).map_err(|error| failed(error.into()))?;
    let inner = endpoint.client.pinned(&origin).map_err(failed)?;
    let client = Guarded { inner, endpoint: endpoint.clone(), wire: Arc::clone(wire), output_max };
    // A session that expired is begun anew by the owner of the connection, which knows what may be repeated.
    let config = StreamableHttpClientTransportConfig::with_uri(endpoint.url.as_str())
        .max_sse_event_size(output_max)
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
}

type HttpError = StreamableHttpError<reqwest::Error>;

impl Guarded {
    /// The headers of a request: those of the protocol, and those of the configuration.
    async fn headers(
        &self,
        mut headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<HashMap<HeaderName, HeaderValue>, String> {
        for (name, value) in self.endpoint.headers.values().await? {
            let invalid = || format!("the header `{}` is not one", name.escape_debug());
            let name = HeaderName::try_from(name.as_str()).map_err(|_| invalid())?;
            let mut value = HeaderValue::try_from(value).map_err(|_| invalid())?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
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

fn unavailable(reason: String) -> HttpError {
    StreamableHttpError::Io(std::io::Error::other(reason))
}

/// What a failed request means to whoever made it, and whether the server said that it did not take it.
fn explain(error: &HttpError) -> (Failure, bool) {
    let words = error_chain(error);
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
        let max = self.output_max;
        self.post_message_with_max_sse_event_size(uri, message, session_id, auth_header, headers, max).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        max: usize,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        self.check(&uri)?;
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
        let posted = self
            .inner
            .post_message_with_max_sse_event_size(uri, message, session_id, auth_header, headers, max)
            .await;
        match &posted {
            Ok(_) => self.wire.hear(),
            Err(error) => {
                let (failure, untaken) = explain(error);
                if let Some(id) = &id {
                    if untaken {
                        self.wire.take_back(id);
                    }
                    self.wire.explain(id, failure.clone());
                }
                if matches!(error, StreamableHttpError::SessionExpired) {
                    self.wire.fail(failure);
                }
            }
        }
        posted
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
        self.inner.delete_session(uri, session_id, auth_header, headers).await
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
        let headers = self.headers(headers).await.map_err(unavailable)?;
        self.inner
            .get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, headers, max)
            .await
    }
}

const TOO_MANY_REQUESTS: u16 = 429;
