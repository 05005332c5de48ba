//! One HTTP exchange: a client that goes nowhere else, a body that is bounded before it is kept.

use std::error::Error;
use std::time::Duration;

use dalsegno_net::{client_builder, error_chain};
use futures::future::Either;
use futures::stream::{self, Stream, StreamExt};
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use sse_stream::SseByteStream;

use super::failure::{self, excerpt, protocol, quote};
use super::frames::Frames;
use super::key::Hidden;
use crate::model::{ModelError, ModelErrorKind, Retry};

/// Longest time until a connection stands. An attempt has its own limit; this one finds a dead address earlier.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection is silent before it is asked whether the other side is still there. A reply may take minutes to
/// begin, in which nothing but this tells a slow model from a lost connection.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Longest silence within a failure's body, which is short and there already.
const FAILURE_SILENCE: Duration = Duration::from_secs(10);

/// Most bytes that are read of a failure's body.
const MAX_FAILURE_BYTES: usize = 64 * 1024;

/// How long a stream may take to end after its end marker. A connection whose body was read to the end is used again.
const DRAIN: Duration = Duration::from_millis(50);

/// How long a request may take that is answered at once.
const ASK_TIMEOUT: Duration = Duration::from_secs(120);

/// A failed exchange.
pub(super) struct Failed {
    pub(super) error: ModelError,
    /// Whether the endpoint refused it for its key alone.
    pub(super) unauthorized: bool,
    /// Whether it refused what the request holds, which may be its files.
    pub(super) unread: bool,
}

impl From<ModelError> for Failed {
    fn from(error: ModelError) -> Self {
        Self { error, unauthorized: false, unread: false }
    }
}

/// Where requests go, and in what bounds answers come back.
pub(super) struct Endpoint {
    client: Client,
    url: Url,
    /// The address as errors show it, without its query.
    shown: String,
    max_bytes: usize,
}

impl Endpoint {
    pub(super) fn new(url: Url, max_bytes: usize) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let client = client_builder(url.scheme() == "https")?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_keepalive(KEEPALIVE)
            .build()?;
        let shown = shown(&url);
        Ok(Self { client, url, shown, max_bytes })
    }

    /// The address that requests go to.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// The address as errors show it.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Sends a JSON body, and gives the response where its status is 200 and its body a stream of events.
    pub(super) async fn open(
        &self,
        headers: HeaderMap,
        body: Vec<u8>,
        hidden: Hidden<'_>,
    ) -> Result<Response, Failed> {
        let request = self.client.post(self.url.clone()).headers(headers).body(body);
        let mut response = answered(request, &self.shown, hidden).await?;
        let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = media_type.unwrap_or("text/event-stream").to_ascii_lowercase();
        if media_type.starts_with("application/json") || media_type.starts_with("text/html") {
            let body = failure_body(&mut response).await;
            let said = quote(&String::from_utf8_lossy(&body), hidden);
            let message = format!(
                "`{}` answered `{}` where a stream of events was expected; check `base_url`: {said}",
                self.shown,
                quote(&media_type, hidden),
            );
            // It may have been a whole reply, which was paid for; the same request is answered in the same way.
            return Err(protocol(message).with_retry(Retry::Never).into());
        }
        Ok(response)
    }

    /// Sends a request that is answered at once and as a whole, and gives the answer.
    pub(super) async fn ask(
        &self,
        (method, url): (Method, Url),
        headers: HeaderMap,
        body: Vec<u8>,
        hidden: Hidden<'_>,
    ) -> Result<Vec<u8>, Failed> {
        let shown = shown(&url);
        let request = self.client.request(method, url).timeout(ASK_TIMEOUT).headers(headers).body(body);
        let mut response = answered(request, &shown, hidden).await?;
        let mut answer = Vec::new();
        loop {
            let chunk = response.chunk().await.map_err(|error| {
                let why = chain(&error.without_url());
                ModelError::new(
                    ModelErrorKind::Unavailable,
                    format!("the answer of `{shown}` broke off: {why}"),
                )
            })?;
            let Some(chunk) = chunk else { return Ok(answer) };
            if answer.len().saturating_add(chunk.len()) > self.max_bytes {
                let message = format!("the answer of `{shown}` has more than {} bytes", self.max_bytes);
                return Err(ModelError::new(ModelErrorKind::LimitExceeded, message).into());
            }
            answer.extend_from_slice(&chunk);
        }
    }

    /// The data of each event. `idle` is the longest silence between two pieces; `marker` is what ends the stream, for an error
    /// that says that it never came. `in_frames` tells events of AWS from those that are lines of text.
    pub(super) fn events(
        &self,
        response: Response,
        idle: Duration,
        marker: &'static str,
        in_frames: bool,
    ) -> impl Stream<Item = Result<String, ModelError>> + Send {
        let max_bytes = self.max_bytes;
        // The events are cut out of a stream that counts, so that even an endless line ends.
        let chunks = stream::try_unfold((response, 0_usize), move |(mut response, taken)| async move {
            let Ok(chunk) = tokio::time::timeout(idle, response.chunk()).await else {
                let message = format!(
                    "the endpoint sent nothing for {} s, before `{marker}`; raise the model's `idle_timeout`",
                    idle.as_secs_f64()
                );
                return Err(protocol(message));
            };
            let chunk = chunk.map_err(|error| {
                protocol(format!("the stream ended before `{marker}`: {}", chain(&error.without_url())))
            })?;
            let Some(chunk) = chunk else { return Ok(None) };
            let taken = taken.saturating_add(chunk.len());
            if taken > max_bytes {
                let message = format!("the response has more than {max_bytes} bytes");
                return Err(ModelError::new(ModelErrorKind::LimitExceeded, message));
            }
            Ok(Some((chunk, (response, taken))))
        });
        let chunks = Box::pin(chunks);
        if in_frames {
            let frames =
                stream::try_unfold((chunks, Frames::default()), |(mut chunks, mut frames)| async move {
                    loop {
                        if let Some(event) = frames.event()? {
                            return Ok(Some((event, (chunks, frames))));
                        }
                        match chunks.next().await {
                            Some(chunk) => frames.push(&chunk?),
                            None => return Ok(None),
                        }
                    }
                });
            return Either::Left(Box::pin(frames));
        }
        let events = SseByteStream::new(chunks).filter_map(|event| async move {
            match event {
                Ok(event) => event.data.filter(|data| !data.is_empty()).map(Ok),
                Err(sse_stream::Error::Body(error)) => Some(Err(match error.downcast::<ModelError>() {
                    Ok(error) => *error,
                    Err(error) => protocol(format!("the stream cannot be read: {error}")),
                })),
                Err(error) => Some(Err(protocol(format!("the answer is not a stream of events: {error}")))),
            }
        });
        Either::Right(events)
    }
}

/// An address as errors show it, without its query.
fn shown(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// Sends a request, and gives the response where its status is 200.
async fn answered(request: RequestBuilder, shown: &str, hidden: Hidden<'_>) -> Result<Response, Failed> {
    let mut response = request.send().await.map_err(|error| {
        let never_sent = error.is_connect();
        let why = chain(&error.without_url());
        if never_sent {
            return ModelError::new(ModelErrorKind::Unavailable, format!("cannot reach `{shown}`: {why}"));
        }
        // The request may have arrived whole, and then it is worked on and paid for.
        protocol(format!("`{shown}` did not answer the request: {why}"))
    })?;
    let status = response.status();
    if status != StatusCode::OK {
        let body = failure_body(&mut response).await;
        return Err(failure::from_status(shown, status, response.headers(), &body, hidden));
    }
    Ok(response)
}

/// The beginning of a body that is no reply; what cannot be read is left out.
async fn failure_body(response: &mut Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Ok(Some(chunk))) = tokio::time::timeout(FAILURE_SILENCE, response.chunk()).await {
        let room = MAX_FAILURE_BYTES - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if body.len() == MAX_FAILURE_BYTES {
            break;
        }
    }
    body
}

/// Reads on until the body ends, if it does so at once.
pub(super) async fn drain(events: &mut (impl Stream<Item = Result<String, ModelError>> + Unpin)) {
    let _ = tokio::time::timeout(DRAIN, events.next()).await;
}

/// An error and its causes in one line, cut where it is long.
fn chain(error: &dyn Error) -> String {
    excerpt(&error_chain(error))
}
