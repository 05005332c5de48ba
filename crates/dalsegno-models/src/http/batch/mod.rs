//! Replies that come later: each request is a batch of its own.
//!
//! | wire | addresses |
//! |---|---|
//! | OpenAI's | `{base_url}/files`, `{base_url}/batches` |
//! | Anthropic Messages | `{base_url}/v1/messages/batches` |
//! | Gemini | `{base_url}/models/{model}:batchGenerateContent`, `{base_url}/batches` |
//!
//! Bedrock reads batches from a store of files, which needs more rights than a model has. A reply comes as one document. It is
//! read as the events that would have brought it, so that one reader for each wire decides what a reply is.

mod anthropic;
mod gemini;
mod openai;
mod whole;

use async_trait::async_trait;
use dalsegno_core::{ModelReply, OrderedJson};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::client::Failed;
use super::failure::{self, protocol, quote};
use super::key::{Hidden, Revealed};
use super::reply::{Draft, Output};
use super::surrogates::Surrogates;
use super::{HttpModel, MAX_REQUEST_BYTES, Wire, address};
use crate::model::{CompletionRequest, Later, LaterError, ModelError, ModelErrorKind, Retry};

/// Longest id of a batch that is taken down.
const MAX_ID_BYTES: usize = 512;

/// A request about batches, below the endpoint's address.
struct Call {
    method: Method,
    path: Vec<String>,
    query: &'static [(&'static str, &'static str)],
    media_type: String,
    body: Vec<u8>,
}

impl Call {
    fn get<const N: usize>(path: [&str; N]) -> Self {
        Self { method: Method::GET, ..Self::post(path, Vec::new()) }
    }

    fn post<const N: usize>(path: [&str; N], body: Vec<u8>) -> Self {
        Self {
            method: Method::POST,
            path: path.iter().map(|segment| (*segment).to_owned()).collect(),
            query: &[],
            media_type: "application/json".to_owned(),
            body,
        }
    }
}

/// What a provider answered, and the key that it may have repeated.
struct Answer {
    body: Vec<u8>,
    key: Option<Revealed>,
}

impl Answer {
    fn hidden(&self) -> Hidden<'_> {
        Hidden::new(self.key.as_ref())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The answer as a document.
    fn json(&self) -> Result<Value, ModelError> {
        let text = self.text();
        serde_json::from_str(&Surrogates::default().join(&text))
            .map_err(|_| self.unexpected("a JSON document"))
    }

    /// The error for an answer that is not what was expected.
    fn unexpected(&self, expected: &str) -> ModelError {
        let said = quote(&self.text(), self.hidden());
        protocol(format!("the endpoint answered `{said}` about a batch, expected {expected}"))
    }

    /// The id that stands in the answer.
    fn id(&self, field: &str) -> Result<String, ModelError> {
        match self.json()?.get(field).and_then(Value::as_str) {
            Some(id) if (1..=MAX_ID_BYTES).contains(&id.len()) && !id.contains(char::is_control) => {
                Ok(id.to_owned())
            }
            _ => Err(self.unexpected(&format!("an object with `{field}`"))),
        }
    }
}

/// How a batch stands.
enum Stand {
    /// The provider works on it, or has not begun.
    Working,
    /// The reply, as the wire has it where it does not stream.
    Replied(Value),
    /// It brought no reply.
    Failed(ModelError),
}

/// Why a batch brought no reply.
fn ended(how: &str) -> ModelError {
    ModelError::new(
        ModelErrorKind::Unavailable,
        format!("the provider ended the batch without a reply: it {how}"),
    )
}

/// The error that an answer about one request is.
fn refused(shown: &str, status: u64, body: &Value, hidden: Hidden<'_>) -> ModelError {
    let status = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    match status {
        Some(status) => {
            let body = body.to_string();
            failure::from_status(shown, status, &HeaderMap::new(), body.as_bytes(), hidden).error
        }
        None => failure::from_event(body, hidden),
    }
}

impl HttpModel {
    /// Asks the endpoint about batches. Asks once more if the key was refused and there is another one.
    async fn call(&self, call: &Call) -> Result<Answer, ModelError> {
        let Some(handle) = &self.key else {
            let answered = self.answered(call, None).await.map_err(|failed| failed.error)?;
            return Ok(Answer { body: answered, key: None });
        };
        let mut key = handle.reveal().await?;
        let mut answered = self.answered(call, Some(&key)).await;
        if answered.as_ref().is_err_and(|failed| failed.unauthorized)
            && let Some(next) = handle.renew(&key).await?
        {
            key = next;
            answered = self.answered(call, Some(&key)).await;
        }
        match answered {
            Ok(body) => Ok(Answer { body, key: Some(key) }),
            Err(failed) => Err(Hidden::new(Some(&key)).error(failed.error)),
        }
    }

    async fn answered(&self, call: &Call, key: Option<&Revealed>) -> Result<Vec<u8>, Failed> {
        let url = address::below(&self.settings, call.path.clone());
        let mut url = url.map_err(|error| ModelError::new(ModelErrorKind::Refused, error.to_string()))?;
        for (name, value) in call.query {
            url.query_pairs_mut().append_pair(name, value);
        }
        let mut headers = self.headers(key, &call.body)?;
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let media_type = HeaderValue::try_from(&call.media_type);
        headers.insert(CONTENT_TYPE, media_type.map_err(|error| protocol(error.to_string()))?);
        let body = call.body.clone();
        self.endpoint.ask((call.method.clone(), url), headers, body, Hidden::new(key)).await
    }

    /// What a request says that is answered as a whole.
    fn request_body(&self, request: &CompletionRequest) -> Result<OrderedJson, ModelError> {
        let fields = self.fields(&self.settings.tool_files.narrow(request), &[])?;
        Ok(fields.without("stream").without("stream_options").into_json())
    }

    /// A reply that came as a whole.
    fn drafted(&self, reply: Value, hidden: Hidden<'_>) -> Result<Draft, ModelError> {
        let Self { settings, .. } = self;
        let mut output = Output::new(&(), hidden, settings.max_reply_bytes);
        let mut reader = settings.wire.reader(&settings.model);
        for event in whole::events(settings.wire, reply) {
            if reader.read(&event, &mut output)? {
                break;
            }
        }
        let draft = reader.finish(hidden)?;
        if draft.paused {
            let message = "the provider paused the reply, which cannot be continued in a batch: ask without `batch`, or \
                           without `provider_tools`";
            return Err(protocol(message).with_retry(Retry::Never));
        }
        Ok(draft)
    }

    async fn look(&self, request: &CompletionRequest, id: &str) -> Result<(Stand, Answer), ModelError> {
        match self.settings.wire {
            Wire::OpenaiChat | Wire::OpenaiResponses => self.look_at_openai(request, id).await,
            Wire::Anthropic => self.look_at_anthropic(id).await,
            Wire::Gemini => self.look_at_gemini(id).await,
            Wire::Bedrock => Err(no_batches()),
        }
    }
}

/// The error for a wire without batches, which a workspace does not let anybody ask for.
fn no_batches() -> ModelError {
    ModelError::new(
        ModelErrorKind::Refused,
        "the wire `bedrock` has no batches: remove `batch` from the model",
    )
}

/// Refuses what is too large to be sent.
fn bounded(body: Vec<u8>) -> Result<Vec<u8>, ModelError> {
    if body.len() <= MAX_REQUEST_BYTES {
        return Ok(body);
    }
    let message =
        format!("the request has {} bytes, at most {MAX_REQUEST_BYTES} are sent in a batch", body.len());
    Err(ModelError::new(ModelErrorKind::LimitExceeded, message))
}

#[async_trait]
impl Later for HttpModel {
    async fn submit(&self, request: &CompletionRequest) -> Result<String, ModelError> {
        match self.settings.wire {
            Wire::OpenaiChat | Wire::OpenaiResponses => self.submit_to_openai(request).await,
            Wire::Anthropic => self.submit_to_anthropic(request).await,
            Wire::Gemini => self.submit_to_gemini(request).await,
            Wire::Bedrock => Err(no_batches()),
        }
    }

    async fn collect(&self, request: &CompletionRequest, id: &str) -> Result<Option<ModelReply>, LaterError> {
        // What was asked is only how it stands: the batch continues, even if the question is refused. The key may be renewed.
        let (stand, answer) = self.look(request, id).await.map_err(|error| match error.kind {
            // There is an answer, which will not become shorter.
            ModelErrorKind::LimitExceeded => LaterError::Ended(error),
            _ => LaterError::NotNow(error),
        })?;
        let hidden = answer.hidden();
        let reply = match stand {
            Stand::Working => return Ok(None),
            Stand::Failed(error) => Err(error),
            Stand::Replied(reply) => self.drafted(reply, hidden).and_then(|draft| {
                let Self { settings, .. } = self;
                draft.into_reply(request, settings.wire.provider(), settings.max_reply_bytes)
            }),
        };
        reply.map(|reply| Some(hidden.reply(reply))).map_err(|error| LaterError::Ended(hidden.error(error)))
    }

    async fn cancel(&self, id: &str) -> Result<(), ModelError> {
        let call = match self.settings.wire {
            Wire::OpenaiChat | Wire::OpenaiResponses => openai::cancel(id),
            Wire::Anthropic => anthropic::cancel(id),
            Wire::Gemini => gemini::cancel(id)?,
            Wire::Bedrock => return Err(no_batches()),
        };
        self.call(&call).await.map(drop)
    }
}
