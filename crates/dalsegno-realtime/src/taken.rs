//! The provider's frames, as far as they matter.

use alloc::borrow::{Cow, ToOwned as _};
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use dalsegno_core::{AudioTokens, LiveTokens, TokenDetails};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Most bytes of one frame of the provider. What is longer is not read.
pub const FRAME_BYTES_MAX: usize = 1_024 * 1_024;

/// The first bytes of a frame, in which its kind is looked for before the whole is read.
const HEAD_BYTES: usize = 256;

/// Most parts of one response's output that are looked at.
const PARTS_MAX: usize = 64;

/// What one frame of the provider says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Taken {
    SessionCreated,
    SessionUpdated,
    /// An item is in the conversation.
    ItemAdded {
        id: String,
        /// The call that it is the output of.
        output_of: Option<String>,
        /// It is something that we told the model.
        is_note: bool,
    },
    /// An item was taken out of the conversation.
    ItemDeleted {
        id: String,
    },
    /// The caller heard this much of an item, in milliseconds.
    Truncated {
        heard_ms: u64,
    },
    /// What the caller said; none where it was not understood.
    Transcribed(Option<String>),
    SpeechStarted,
    SpeechStopped,
    Digits(String),
    ResponseCreated {
        response: String,
        metadata: Metadata,
    },
    /// A completed item of a response calls a tool.
    Called {
        response: String,
        item: String,
        call: Call,
    },
    /// What the live model said, and whether as audio.
    Said {
        response: String,
        text: String,
        spoken: bool,
    },
    ResponseDone(Done),
    /// All audio of a response was played.
    Stopped {
        response: String,
    },
    Error(Error),
    /// Known, and of no consequence.
    Nothing,
    /// Audio, or a part of something that comes whole later.
    Part,
    /// Of a kind that is not known.
    Unknown,
    /// No frame of this protocol.
    Garbage,
}

/// What came with a response of ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Metadata {
    /// The command that asked for the response.
    pub(crate) command: Option<String>,
    /// It answers the caller's turn.
    pub(crate) is_turn: bool,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) call_id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// The end of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) response: String,
    pub(crate) status: Status,
    /// What the response said, for providers that say it nowhere else.
    pub(crate) text: String,
    pub(crate) error: Option<Error>,
    /// What it took, if the provider says so.
    pub(crate) tokens: Option<LiveTokens>,
}

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Completed,
    Cancelled,
    /// It failed, or was cut off by the provider.
    Failed,
}

/// What the provider refuses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Error {
    #[serde(default, deserialize_with = "words")]
    pub(crate) code: Option<String>,
    #[serde(default, rename = "type", deserialize_with = "words")]
    pub(crate) kind: Option<String>,
    #[serde(default, deserialize_with = "words")]
    pub(crate) message: Option<String>,
    /// The id of the frame of ours that it is about.
    #[serde(default, deserialize_with = "words")]
    pub(crate) event_id: Option<String>,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct OfItem {
    item: Item,
    #[serde(default)]
    response_id: String,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    id: Option<String>,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
    #[serde(default)]
    content: Option<Vec<Piece>>,
}

#[derive(Deserialize)]
struct Piece {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    transcript: Option<String>,
}

#[derive(Deserialize)]
struct OfResponse {
    response: Response,
}

#[derive(Deserialize)]
struct Response {
    id: String,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    status_details: Option<Details>,
    #[serde(default)]
    metadata: Option<Value>,
    #[serde(default)]
    output: Option<Vec<Item>>,
    #[serde(default)]
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    input_token_details: Option<InputDetails>,
    #[serde(default)]
    output_token_details: Option<Kinds>,
    /// Said by a model of the workspace that plays the live model, where its provider does not count.
    #[serde(default)]
    estimated: bool,
    /// Said by a model of the workspace that plays the live model: all that is known of its tokens.
    #[serde(default)]
    details: Option<TokenDetails>,
}

#[derive(Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: u64,
    #[serde(default)]
    audio_tokens: u64,
    #[serde(default)]
    cached_tokens_details: Option<Kinds>,
}

#[derive(Deserialize)]
struct Kinds {
    #[serde(default)]
    audio_tokens: u64,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    error: Option<Error>,
}

#[derive(Deserialize)]
struct OfError {
    error: Error,
}

#[derive(Deserialize)]
struct Words {
    #[serde(default)]
    response_id: String,
    #[serde(default)]
    item_id: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    transcript: Option<String>,
    #[serde(default)]
    event: Option<String>,
    #[serde(default)]
    audio_end_ms: Option<u64>,
}

impl Taken {
    /// Says whether it tells something of a call.
    pub(crate) fn is_of_a_call(&self) -> bool {
        !matches!(self, Self::SessionCreated | Self::Nothing | Self::Part | Self::Unknown | Self::Garbage)
    }

    /// Reads a frame. What the provider sends by the thousand, audio and parts of words, is recognised without reading it as JSON.
    pub(crate) fn read(frame: &str) -> Self {
        if frame.len() > FRAME_BYTES_MAX {
            return Self::Garbage;
        }
        if is_part(frame) {
            return Self::Part;
        }
        let Ok(head) = serde_json::from_str::<Head<'_>>(frame) else { return Self::Garbage };
        Self::whole(&head.kind, frame).unwrap_or(Self::Garbage)
    }

    fn whole(kind: &str, frame: &str) -> Option<Self> {
        Some(match kind {
            "session.created" => Self::SessionCreated,
            "session.updated" => Self::SessionUpdated,
            "conversation.item.added" | "conversation.item.created" => {
                let item = read::<OfItem>(frame)?.item;
                let is_note = item.kind == "message" && item.role.as_deref() == Some("system");
                let output_of = item.call_id.filter(|_| item.kind == "function_call_output");
                Self::ItemAdded { id: item.id?, output_of, is_note }
            }
            "conversation.item.deleted" => Self::ItemDeleted { id: read::<Words>(frame)?.item_id },
            "conversation.item.truncated" => {
                Self::Truncated { heard_ms: read::<Words>(frame)?.audio_end_ms? }
            }
            "conversation.item.input_audio_transcription.completed" => {
                Self::Transcribed(Some(read::<Words>(frame)?.transcript?))
            }
            "conversation.item.input_audio_transcription.failed" => Self::Transcribed(None),
            "input_audio_buffer.speech_started" => Self::SpeechStarted,
            "input_audio_buffer.speech_stopped" => Self::SpeechStopped,
            "input_audio_buffer.dtmf_event_received" => Self::Digits(read::<Words>(frame)?.event?),
            "response.created" => {
                let response = read::<OfResponse>(frame)?.response;
                let found = |key: &str| Some(response.metadata.as_ref()?.get(key)?.as_str()?.to_owned());
                let metadata = Metadata { command: found("command"), is_turn: found("turn").is_some() };
                Self::ResponseCreated { response: response.id, metadata }
            }
            "response.output_item.done" => {
                let OfItem { item, response_id } = read(frame)?;
                match item.kind.as_str() {
                    "function_call" if item.status.as_deref() == Some("completed") => {
                        let call =
                            Call { call_id: item.call_id?, name: item.name?, arguments: item.arguments? };
                        let item = item.id.unwrap_or_default();
                        Self::Called { response: response_id, item, call }
                    }
                    _ => Self::Nothing,
                }
            }
            "response.output_text.done" => {
                let words = read::<Words>(frame)?;
                Self::Said { response: words.response_id, text: words.text?, spoken: false }
            }
            "response.output_audio_transcript.done" => {
                let words = read::<Words>(frame)?;
                Self::Said { response: words.response_id, text: words.transcript?, spoken: true }
            }
            "response.done" => Self::ResponseDone(done(read::<OfResponse>(frame)?.response)),
            "output_audio_buffer.stopped" => Self::Stopped { response: read::<Words>(frame)?.response_id },
            "error" => Self::Error(read::<OfError>(frame)?.error),
            "conversation.created"
            | "conversation.item.done"
            | "conversation.item.retrieved"
            | "input_audio_buffer.cleared"
            | "input_audio_buffer.committed"
            | "input_audio_buffer.timeout_triggered"
            | "output_audio_buffer.cleared"
            | "output_audio_buffer.started"
            | "rate_limits.updated"
            | "response.content_part.added"
            | "response.content_part.done"
            | "response.function_call_arguments.done"
            | "response.output_audio.done"
            | "response.output_item.added" => Self::Nothing,
            kind if kind.ends_with(".delta") => Self::Part,
            _ => Self::Unknown,
        })
    }
}

/// A text; of another value, its JSON.
pub(crate) fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    })
}

fn read<'a, T: Deserialize<'a>>(frame: &'a str) -> Option<T> {
    serde_json::from_str(frame).ok()
}

/// Says whether a frame is audio or another part, by its first bytes. Inside a text of JSON this cannot stand: its quotes are
/// escaped there.
fn is_part(frame: &str) -> bool {
    let head = &frame.as_bytes()[..frame.len().min(HEAD_BYTES)];
    let Some(start) = find(head, b"\"type\"") else { return false };
    let rest = head[start + 6..].trim_ascii_start();
    let Some(rest) = rest.strip_prefix(b":") else { return false };
    let Some(rest) = rest.trim_ascii_start().strip_prefix(b"\"response.") else { return false };
    let Some(end) = rest.iter().position(|byte| *byte == b'"') else { return false };
    rest[..end].ends_with(b".delta")
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

fn done(response: Response) -> Done {
    let status = match response.status.as_deref() {
        Some("completed") => Status::Completed,
        Some("cancelled") => Status::Cancelled,
        _ => Status::Failed,
    };
    let mut text = String::new();
    for item in response.output.into_iter().flatten().filter(|item| item.kind == "message").take(PARTS_MAX) {
        for part in item.content.into_iter().flatten().take(PARTS_MAX) {
            text.push_str(&part.text.or(part.transcript).unwrap_or_default());
        }
    }
    let error = response.status_details.and_then(|details| details.error);
    // One that makes no sense counts nothing.
    let usage = response.usage.and_then(|usage| serde_json::from_value::<Usage>(usage).ok());
    let tokens = usage.map(|usage| {
        let Usage { input_tokens: input, output_tokens: output, estimated, .. } = usage;
        let of_output = usage.output_token_details.map_or(0, |kinds| kinds.audio_tokens);
        let (mut cached, mut audio) = (0, AudioTokens { output: of_output, ..AudioTokens::default() });
        if let Some(InputDetails { cached_tokens, audio_tokens, cached_tokens_details }) =
            usage.input_token_details
        {
            cached = cached_tokens;
            audio.input = audio_tokens;
            audio.cached_input = cached_tokens_details.map_or(0, |kinds| kinds.audio_tokens);
        }
        let details =
            usage.details.unwrap_or(TokenDetails { cached_input_tokens: cached, ..TokenDetails::default() });
        LiveTokens { input, output, details, audio, estimated, cost_nano_usd: None }
    });
    Done { response: response.id, status, text, error, tokens }
}

impl Error {
    pub(crate) fn code(&self) -> &str {
        self.code.as_deref().or(self.kind.as_deref()).unwrap_or("error")
    }

    pub(crate) fn message(&self) -> String {
        self.message.clone().unwrap_or_else(|| "the provider gives no reason".to_owned())
    }
}
