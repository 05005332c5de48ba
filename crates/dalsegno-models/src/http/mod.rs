//! Models behind an HTTP endpoint: a few wires, any address.
//!
//! | wire | `provider` | address |
//! |---|---|---|
//! | OpenAI Chat Completions | `openai` | `{base_url}/chat/completions` |
//! | OpenAI Responses | `openai-responses` | `{base_url}/responses` |
//! | Anthropic Messages | `anthropic` | `{base_url}/v1/messages` |
//! | Gemini | `gemini` | `{base_url}/models/{model}:streamGenerateContent` |
//! | Amazon Bedrock Converse | `bedrock` | `{base_url}/model/{model}/converse-stream` |
//!
//! A request always streams. One call is one attempt; nothing is repeated in here, except
//! once a request that was refused for its key (401, or what AWS has for it), so that no model worked on it, if there is another key now. The endpoint is another party: its
//! answer is bounded before it is kept, a redirect is refused, and no proxy is taken from the environment. What a wire
//! needs back untouched, such as signed thinking, is an opaque part of the reply; it is left out when the next
//! request goes over another wire.
//!
//! The bodies are our own on `reqwest` and `sse-stream` rather than those of the crate `genai`: version 0.7.2 gathers
//! an event of any length in memory before anyone can refuse it (and copies it again for each chunk), reads an error's
//! body whole, and trims what it reads. It also switches on `serde_json/preserve_order` for the whole build.

mod address;
mod anthropic;
mod aws;
mod aws_errors;
mod batch;
mod bedrock;
mod body;
mod chat;
mod client;
mod extra;
mod failure;
mod frames;
mod gemini;
mod key;
mod pieces;
mod reply;
mod responses;
mod strict;
mod surrogates;
mod tool_files;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::pin::pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use dalsegno_core::{ModelReply, OrderedJson, Reasoning, ReplyPart};
use dalsegno_secrets::Reveal;
use futures::StreamExt;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use self::anthropic::AnthropicReader;
pub use self::aws::{AwsKey, aws_key_parts};
use self::bedrock::BedrockReader;
use self::body::Body;
use self::chat::ChatReader;
use self::client::{Endpoint, Failed};
use self::gemini::GeminiReader;
use self::key::{Hidden, Key, Revealed};
use self::reply::{Draft, Output, Reader};
use self::responses::ResponsesReader;
use self::surrogates::Surrogates;
pub use self::tool_files::ToolFiles;
use crate::model::{CompletionRequest, DeltaSink, Later, Model, ModelError, ModelErrorKind};

/// Most bytes of a request's body: more than any provider takes.
const MAX_REQUEST_BYTES: usize = 64 << 20;

/// How often a provider may pause one reply. Each time it has worked on it for a while, and is paid.
const MAX_PAUSES: u32 = 16;

/// How long a stream may take to end once nothing is missing but its end.
const END: Duration = Duration::from_secs(2);

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI Chat Completions, which every compatible server speaks.
    OpenaiChat,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini.
    Gemini,
    /// Amazon Bedrock's Converse.
    Bedrock,
}

impl Wire {
    /// All wires.
    pub const ALL: [Self; 5] =
        [Self::OpenaiChat, Self::OpenaiResponses, Self::Anthropic, Self::Gemini, Self::Bedrock];

    /// The name that a workspace gives as `provider`, and that opaque parts carry.
    pub const fn provider(self) -> &'static str {
        match self {
            Self::OpenaiChat => chat::PROVIDER,
            Self::OpenaiResponses => responses::PROVIDER,
            Self::Anthropic => anthropic::PROVIDER,
            Self::Gemini => gemini::PROVIDER,
            Self::Bedrock => bedrock::PROVIDER,
        }
    }

    /// The address of the provider itself; that of Bedrock has the [region](HttpModelSettings::region) in it.
    pub const fn default_base_url(self) -> &'static str {
        match self {
            Self::OpenaiChat | Self::OpenaiResponses => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta",
            Self::Bedrock => "https://bedrock-runtime.{region}.amazonaws.com",
        }
    }

    /// The fields of a request's body that [`extra`](HttpModelSettings::extra) cannot set, since they make up the request
    /// itself. `text.format` stands for the member `format` of the object `text`, to which `extra` can only add.
    pub fn reserved(self) -> impl Iterator<Item = &'static str> {
        extra::reserved(self)
    }

    /// What follows the address, segment by segment.
    fn path(self, model: &str) -> Vec<String> {
        let fixed = |segments: &[&str]| segments.iter().map(|segment| (*segment).to_owned()).collect();
        match self {
            Self::OpenaiChat => fixed(&["chat", "completions"]),
            Self::OpenaiResponses => fixed(&["responses"]),
            Self::Anthropic => fixed(&["v1", "messages"]),
            Self::Gemini => gemini::path(model),
            // That of Bedrock is one text, encoded as AWS signs it.
            Self::Bedrock => Vec::new(),
        }
    }

    /// What the query of the address must have.
    const fn query(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::OpenaiChat | Self::OpenaiResponses | Self::Anthropic | Self::Bedrock => None,
            // Without it, a list of JSON is streamed.
            Self::Gemini => Some(("alt", "sse")),
        }
    }

    /// Says whether the providers of the wire work off batches of requests.
    pub const fn has_batches(self) -> bool {
        !matches!(self, Self::Bedrock)
    }

    fn key_header(self) -> HeaderName {
        match self {
            Self::OpenaiChat | Self::OpenaiResponses | Self::Bedrock => AUTHORIZATION,
            Self::Anthropic => HeaderName::from_static("x-api-key"),
            Self::Gemini => HeaderName::from_static(gemini::KEY_HEADER),
        }
    }

    fn marker(self) -> &'static str {
        match self {
            Self::OpenaiChat => chat::MARKER,
            Self::OpenaiResponses => responses::MARKER,
            Self::Anthropic => anthropic::MARKER,
            Self::Gemini => gemini::MARKER,
            Self::Bedrock => bedrock::MARKER,
        }
    }

    fn reader(self, model: &str) -> Box<dyn Reader> {
        match self {
            Self::OpenaiChat => Box::<ChatReader>::default(),
            Self::OpenaiResponses => Box::<ResponsesReader>::default(),
            Self::Anthropic => Box::<AnthropicReader>::default(),
            Self::Gemini => Box::new(GeminiReader::new(model)),
            Self::Bedrock => Box::<BedrockReader>::default(),
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.provider())
    }
}

/// A name that belongs to no wire.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no provider `{0}`: expected `openai`, `openai-responses`, `anthropic`, `gemini` or `bedrock`"
)]
pub struct UnknownWire(pub String);

impl FromStr for Wire {
    type Err = UnknownWire;

    fn from_str(name: &str) -> Result<Self, UnknownWire> {
        Self::ALL.into_iter().find(|wire| wire.provider() == name).ok_or_else(|| UnknownWire(name.to_owned()))
    }
}

/// How long a provider keeps the beginning of a conversation, where a request has to ask for that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cache {
    /// Not at all: right for models that are asked once, since a write of the cache costs more than the tokens.
    Off,
    /// Five minutes from its last use.
    #[default]
    FiveMinutes,
    /// An hour from its last use; a write costs twice the tokens.
    OneHour,
}

/// Which model, where, and in what bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpModelSettings {
    /// The wire format.
    pub wire: Wire,
    /// The endpoint's address, without the wire's own path; [`Wire::default_base_url`] when absent.
    ///
    /// Those of OpenAI's wires end in `/v1` as a rule, and Gemini's in `/v1beta`; Anthropic's may end in `/v1`, and need not. A
    /// query is kept.
    pub base_url: Option<String>,
    /// The model, as the endpoint calls it.
    pub model: String,
    /// Whether an address beyond this machine may be `http`; `false` by default, since the key and all that is asked
    /// would travel unencrypted.
    pub allow_http: bool,
    /// The region of AWS, such as `eu-central-1`: part of Bedrock's own address, and of each signature.
    pub region: Option<String>,
    /// The header that carries the key; by default that of the wire. The key stands in `authorization` behind `Bearer `, and in
    /// any other header alone, such as `api-key` of Azure.
    pub api_key_header: Option<String>,
    /// Fields of the request's body besides those that this crate sets, such as `reasoning` or `thinking`.
    ///
    /// What a request says wins: its `temperature` and its limit of tokens replace those in here. The objects
    /// `stream_options` (Chat Completions), `text` (Responses), `output_config` (Anthropic), `generationConfig` and
    /// `toolConfig` (Gemini), `inferenceConfig`, `additionalModelRequestFields` and `outputConfig` (Bedrock) are merged
    /// member by member; of Responses, `include` replaces ours as a whole. [`HttpModel::new`] refuses what makes up the
    /// request itself:
    ///
    /// - over each wire `model`, `messages`, `input`, `instructions`, `system`, `tools`, `tool_choice` and `stream`;
    /// - over Chat Completions `response_format`, `functions`, `function_call`, `n` and `stream_options.include_usage`;
    /// - over Responses `store`, `background`, `conversation`, `previous_response_id`, `prompt` and `text.format`;
    /// - over Anthropic Messages `output_format` and `output_config.format`;
    /// - over Gemini `contents`, `systemInstruction`, `toolConfig.functionCallingConfig`, and of `generationConfig` what forms the
    ///   answer;
    /// - over Bedrock `modelId`, `toolConfig` and `outputConfig.textFormat`.
    pub extra: Map<String, Value>,
    /// Longest silence within a stream; as long as an attempt may take when absent, since models that reason say nothing for
    /// minutes and nothing tells which do. A connection that is lost is found without it.
    pub idle_timeout: Option<Duration>,
    /// Further headers of each request, which are no secrets. [`HttpModel::new`] refuses those that this crate sets.
    pub headers: BTreeMap<String, String>,
    /// Whether Chat Completions are asked to count tokens by `stream_options`, which some servers refuse; `true` by default.
    pub stream_options: bool,
    /// Which files that tools return are sent; all that the wire carries by default.
    pub tool_files: ToolFiles,
    /// How long the provider keeps what it has read; five minutes by default. Only Anthropic Messages and Bedrock ask for that:
    /// other providers decide by themselves.
    pub cache: Cache,
    /// Most bytes of what is kept of a reply: its text, the ids, names and arguments of its calls, and its opaque parts
    /// as JSON; 8 MiB by default, far above any model's limit.
    pub max_reply_bytes: usize,
    /// Most bytes of a response on the wire, where each word is wrapped in an event; 32 MiB by default. It bounds what
    /// is held while a reply arrives.
    pub max_response_bytes: usize,
}

impl HttpModelSettings {
    /// A model of the wire's own provider, all else by default.
    pub fn new(wire: Wire, model: impl Into<String>) -> Self {
        Self {
            wire,
            base_url: None,
            model: model.into(),
            allow_http: false,
            region: None,
            api_key_header: None,
            extra: Map::new(),
            idle_timeout: None,
            headers: BTreeMap::new(),
            stream_options: true,
            tool_files: ToolFiles::default(),
            cache: Cache::default(),
            max_reply_bytes: 8 << 20,
            max_response_bytes: 32 << 20,
        }
    }
}

/// Why a model cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpModelError {
    /// The address is none, or holds what it must not.
    #[error("`base_url` is `{url}`: {message}")]
    BaseUrl {
        /// The address as it was given, without a user's name or password.
        url: String,
        /// What is wrong and what is expected.
        message: String,
    },
    /// The address is beyond this machine, and not encrypted.
    #[error(
        "`base_url` is `{url}`, which sends the key and the prompts unencrypted over the network: write \
         `https://…`, or set `allow_http` for your own network"
    )]
    Insecure {
        /// The address, without a query.
        url: String,
    },
    /// The header cannot carry the key.
    #[error(
        "`api_key_header` is `{}`, expected a header of its own such as `api-key`, or `authorization`",
        name.escape_debug()
    )]
    KeyHeader {
        /// What was given.
        name: String,
    },
    /// Bedrock has an address in each region, and signatures hold for one.
    #[error("the model has no `region`: add one such as `eu-central-1`")]
    NoRegion,
    /// The region is none.
    #[error("`region` is `{}`, expected letters in lower case, digits and `-`, such as `eu-central-1`", region.escape_debug())]
    Region {
        /// What was given.
        region: String,
    },
    /// Only Bedrock takes an access key of AWS.
    #[error("the wire `{wire}` takes no access key of AWS: give it an `api_key`")]
    NotSigned {
        /// The wire.
        wire: Wire,
    },
    /// `extra` names a field that it cannot set.
    #[error("`extra` cannot set `{name}`, a field that Dalsegno sets itself: remove it")]
    Reserved {
        /// The field, or the path to it: `text.format`.
        name: String,
    },
    /// A header of the settings is none, or one that is set otherwise.
    #[error("`headers` cannot set `{name}`: {message}")]
    Header {
        /// The header.
        name: String,
        /// Why it cannot.
        message: &'static str,
    },
    /// `extra` replaces an object to which it can only add.
    #[error(
        "`extra` sets `{name}` to {found}, expected an object: its members are merged with those of the request"
    )]
    NotAnObject {
        /// The field.
        name: String,
        /// What it is set to.
        found: &'static str,
    },
    /// The system's certificates or the TLS library cannot be used.
    #[error("cannot set up TLS: {source}; install the system's certificates (`ca-certificates`)")]
    Client {
        /// What is wrong.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// A model behind an HTTP endpoint.
pub struct HttpModel {
    settings: Arc<HttpModelSettings>,
    endpoint: Arc<Endpoint>,
    /// Whether the endpoint belongs to OpenAI or Azure.
    is_openai: bool,
    /// Whether it belongs to Mistral, or the model is one of Mistral's.
    is_mistral: bool,
    /// Whether encrypted reasoning is asked for; over OpenAI Responses alone.
    encrypted_reasoning: bool,
    /// The headers of the settings.
    headers: HeaderMap,
    key: Option<Key>,
    /// The header that carries it, unless it signs.
    key_header: HeaderName,
}

impl HttpModel {
    /// Sets up a model. Nothing is sent yet; `key` is read for each request.
    ///
    /// # Errors
    /// Fails if the address or `extra` cannot be used, or the system has no certificates.
    pub fn new(settings: HttpModelSettings, key: Option<Arc<dyn Reveal>>) -> Result<Self, HttpModelError> {
        Self::with(settings, key.map(Key::Header))
    }

    /// Sets up a model of Bedrock whose requests an access key of AWS signs. Nothing is sent yet; the key is read for each
    /// request.
    ///
    /// # Errors
    /// Fails like [`HttpModel::new`], without a region, and for any other wire.
    pub fn signing(settings: HttpModelSettings, key: AwsKey) -> Result<Self, HttpModelError> {
        signs(&settings)?;
        Self::with(settings, Some(Key::Aws(key)))
    }

    /// The same model for another key: the same endpoint over the same connections, and each request carries this key and no
    /// other.
    #[must_use]
    pub fn with_key(&self, key: Arc<dyn Reveal>) -> Self {
        self.keyed(Some(Key::Header(key)))
    }

    /// The same without any key.
    #[must_use]
    pub fn without_key(&self) -> Self {
        self.keyed(None)
    }

    /// The same as [`with_key`](Self::with_key) where an access key of AWS signs each request.
    ///
    /// # Errors
    /// Fails without a region, and for any other wire than Bedrock's.
    pub fn with_aws_key(&self, key: AwsKey) -> Result<Self, HttpModelError> {
        signs(&self.settings)?;
        Ok(self.keyed(Some(Key::Aws(key))))
    }

    fn keyed(&self, key: Option<Key>) -> Self {
        Self {
            settings: Arc::clone(&self.settings),
            endpoint: Arc::clone(&self.endpoint),
            is_openai: self.is_openai,
            is_mistral: self.is_mistral,
            encrypted_reasoning: self.encrypted_reasoning,
            headers: self.headers.clone(),
            key,
            key_header: self.key_header.clone(),
        }
    }

    fn with(settings: HttpModelSettings, key: Option<Key>) -> Result<Self, HttpModelError> {
        extra::check(settings.wire, &settings.extra)?;
        settings.region.as_deref().map_or(Ok(()), bedrock::check_region)?;
        let url = address::read(&settings)?;
        let is_at = |domain: &str| {
            let host = url.host_str().unwrap_or_default();
            host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let is_openai = is_at("openai.com") || is_at("azure.com");
        let is_mistral = is_at("mistral.ai") || chat::is_mistral(&settings.model);
        let extra = &settings.extra;
        let reasons = extra.contains_key("reasoning")
            || (is_at("openai.com") && responses::is_reasoning(&settings.model));
        let encrypted_reasoning = reasons && !extra.contains_key("include");
        let headers = headers(&settings.headers)?;
        let key_header = match &settings.api_key_header {
            Some(name) => key_header(name)?,
            None => settings.wire.key_header(),
        };
        let endpoint = Endpoint::new(url, settings.max_response_bytes)
            .map_err(|source| HttpModelError::Client { source })?;
        let (settings, endpoint) = (Arc::new(settings), Arc::new(endpoint));
        Ok(Self { settings, endpoint, is_openai, is_mistral, encrypted_reasoning, headers, key, key_header })
    }

    /// The fields of a request's body; `paused` is the beginning of a reply that the provider continues.
    fn fields(&self, request: &CompletionRequest, paused: &[ReplyPart]) -> Result<Body, ModelError> {
        let HttpModelSettings { wire, model, extra, .. } = &*self.settings;
        let mut body = match wire {
            Wire::OpenaiChat => {
                let stream_options = self.settings.stream_options;
                let habits = chat::Habits {
                    completion_tokens: self.is_openai,
                    stream_options,
                    files_in_results: self.is_mistral,
                };
                chat::body(request, model, habits)?
            }
            Wire::OpenaiResponses => {
                let reasons =
                    request.settings.control.reasoning.is_some_and(|level| level != Reasoning::None);
                let encrypted = self.encrypted_reasoning || (reasons && !extra.contains_key("include"));
                responses::body(request, model, responses::Habits { encrypted, typed: !self.is_openai })?
            }
            Wire::Anthropic => anthropic::body(request, model, extra, self.settings.cache, paused)?,
            Wire::Gemini => gemini::body(request, model)?,
            Wire::Bedrock => bedrock::body(request, model, extra, self.settings.cache)?,
        };
        extra::merge(*wire, extra, &mut body);
        Ok(body)
    }

    /// The bytes of a body that is sent.
    fn bytes(body: &OrderedJson) -> Result<Vec<u8>, ModelError> {
        let body = body.to_string().into_bytes();
        if body.len() > MAX_REQUEST_BYTES {
            let message = format!(
                "the request has {} bytes, at most {MAX_REQUEST_BYTES} are sent; attach less, or let the transcript \
                 be compacted earlier",
                body.len()
            );
            return Err(ModelError::new(ModelErrorKind::LimitExceeded, message));
        }
        Ok(body)
    }

    /// The headers of a request with this body, which is signed if the key is one that signs.
    fn headers(&self, key: Option<&Revealed>, body: &[u8]) -> Result<HeaderMap, ModelError> {
        let mut headers = self.headers.clone();
        let events =
            if self.in_frames() { "application/vnd.amazon.eventstream" } else { "text/event-stream" };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(events));
        if self.settings.wire == Wire::Anthropic {
            let version = HeaderValue::from_static(anthropic::VERSION);
            headers.entry("anthropic-version").or_insert(version);
        }
        match (&self.key, key) {
            (Some(Key::Aws(_)), Some(key)) => {
                let request = aws::Unsigned {
                    method: "POST",
                    url: self.endpoint.url(),
                    body,
                    region: self.settings.region.as_deref().unwrap_or_default(),
                    service: aws::SERVICE,
                    now: SystemTime::now(),
                };
                request.sign(key, &mut headers)?;
            }
            (_, Some(Revealed { parts, .. })) => {
                let prefix = if self.key_header == AUTHORIZATION { "Bearer " } else { "" };
                for key in parts {
                    headers.insert(self.key_header.clone(), key::header(key, prefix)?);
                }
            }
            (_, None) => {}
        }
        Ok(headers)
    }

    /// Whether events come in frames of AWS rather than as lines of text.
    fn in_frames(&self) -> bool {
        self.settings.wire == Wire::Bedrock
    }

    async fn exchange(
        &self,
        request: &CompletionRequest,
        key: Option<&Revealed>,
        sink: &dyn DeltaSink,
    ) -> Result<ModelReply, Failed> {
        let (wire, max) = (self.settings.wire, self.settings.max_reply_bytes);
        let hidden = Hidden::new(key);
        let mut request = self.settings.tool_files.narrow(request);
        let mut output = Output::new(sink, hidden, max);
        let mut draft = self.draft(&request, &[], key, &mut output).await;
        let less = draft.as_ref().err().and_then(|failed| tool_files::without(&request, failed));
        let without_files = less.is_some();
        if let Some(less) = less {
            request = less;
            draft = self.draft(&request, &[], key, &mut output).await;
        }
        let mut draft = draft?;
        for _ in 0..MAX_PAUSES {
            if !draft.paused {
                break;
            }
            let paused = draft.sent_back(wire.provider());
            draft = self.draft(&request, &paused, key, &mut output).await?.after(draft);
        }
        Ok(ModelReply { without_files, ..draft.into_reply(&request, wire.provider(), max)? })
    }

    /// One exchange: a reply, or as much of one as the provider wrote before it paused.
    async fn draft(
        &self,
        request: &CompletionRequest,
        paused: &[ReplyPart],
        key: Option<&Revealed>,
        output: &mut Output<'_>,
    ) -> Result<Draft, Failed> {
        let wire = self.settings.wire;
        let hidden = Hidden::new(key);
        let body = Self::bytes(&self.fields(request, paused)?.into_json())?;
        let response = self.endpoint.open(self.headers(key, &body)?, body, hidden).await?;
        let idle = self.settings.idle_timeout.unwrap_or(Duration::from_millis(request.settings.timeout_ms));
        let mut events = pin!(self.endpoint.events(response, idle, wire.marker(), self.in_frames()));
        let mut reader = wire.reader(&self.settings.model);
        let mut surrogates = Surrogates::default();
        loop {
            // A whole reply does not wait for an end that some servers never send.
            let patience = if reader.is_complete() { END } else { Duration::MAX };
            let Ok(Some(data)) = tokio::time::timeout(patience, events.next()).await else { break };
            match data {
                Ok(data) if reader.read(&surrogates.join(&data), output)? => {
                    client::drain(&mut events).await;
                    break;
                }
                Ok(_) => {}
                // What was paid for and is whole is not thrown away because the connection is.
                Err(_) if reader.is_complete() => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(reader.finish(hidden)?)
    }
}

/// Refuses a model whose requests no access key of AWS can sign.
fn signs(settings: &HttpModelSettings) -> Result<(), HttpModelError> {
    match (settings.wire, &settings.region) {
        (Wire::Bedrock, Some(_)) => Ok(()),
        (Wire::Bedrock, None) => Err(HttpModelError::NoRegion),
        (wire, _) => Err(HttpModelError::NotSigned { wire }),
    }
}

/// Reads the headers of the settings.
fn headers(settings: &BTreeMap<String, String>) -> Result<HeaderMap, HttpModelError> {
    let mut headers = HeaderMap::new();
    for (name, value) in settings {
        let refused = |message| HttpModelError::Header { name: name.clone(), message };
        let header = HeaderName::try_from(name).map_err(|_| refused("it is not the name of a header"))?;
        if RESERVED_HEADERS.contains(&header.as_str()) {
            return Err(refused("Dalsegno sets this header itself"));
        }
        let value =
            HeaderValue::try_from(value).map_err(|_| refused("its value cannot stand in a header"))?;
        headers.insert(header, value);
    }
    Ok(headers)
}

/// The headers that the settings cannot set.
const RESERVED_HEADERS: [&str; 13] = [
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "user-agent",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-security-token",
    "x-api-key",
    gemini::KEY_HEADER,
];

/// The header that carries the key: no other field of the request can be meant.
fn key_header(name: &str) -> Result<HeaderName, HttpModelError> {
    let is_ours = |header: &HeaderName| {
        let keys = ["authorization", "x-api-key", gemini::KEY_HEADER];
        let ours = RESERVED_HEADERS.contains(&header.as_str()) && !keys.contains(&header.as_str());
        ours || header == "anthropic-version"
    };
    match name.parse::<HeaderName>() {
        Ok(header) if !is_ours(&header) => Ok(header),
        _ => Err(HttpModelError::KeyHeader { name: name.to_owned() }),
    }
}

impl fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel")
            .field("wire", &self.settings.wire)
            .field("model", &self.settings.model)
            .field("endpoint", &self.endpoint.shown())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Model for HttpModel {
    async fn complete(
        &self,
        request: &CompletionRequest,
        sink: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelError> {
        let Some(handle) = &self.key else {
            return self.exchange(request, None, sink).await.map_err(|failed| failed.error);
        };
        let mut key = handle.reveal().await?;
        let mut reply = self.exchange(request, Some(&key), sink).await;
        if reply.as_ref().is_err_and(|failed| failed.unauthorized)
            && let Some(next) = handle.renew(&key).await?
        {
            key = next;
            reply = self.exchange(request, Some(&key), sink).await;
        }
        let hidden = Hidden::new(Some(&key));
        reply.map(|reply| hidden.reply(reply)).map_err(|failed| hidden.error(failed.error))
    }

    fn later(&self) -> Option<&dyn Later> {
        self.settings.wire.has_batches().then_some(self)
    }
}
