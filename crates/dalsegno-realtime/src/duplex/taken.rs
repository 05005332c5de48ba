//! The frames of a provider whose live model hears while it speaks, as far as they matter.

use alloc::borrow::{Cow, ToOwned as _};
use alloc::string::String;

use dalsegno_core::{LiveTokens, TokenDetails};
use serde::Deserialize;
use serde_json::Value;

use crate::taken::{Call, Error, FRAME_BYTES_MAX, Status, words};

/// The first bytes of a frame, in which sound is looked for before the whole is read.
const HEAD_BYTES: usize = 256;

/// Most seconds that a session can have lasted: a week.
const SECONDS_MAX: f64 = 604_800.0;

/// The kinds of frames that carry sound, by the hundred each second.
const SOUND: [&str; 2] = ["session.output_audio.delta", "session.input_audio.append"];

/// What one frame says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Taken {
    /// A change of the session, or words for it, are in: the frame of ours that asked for it.
    Accepted {
        about: Option<String>,
    },
    /// A part of what the caller says.
    Heard(String),
    /// A part of what the live model says.
    Said(String),
    /// The live model leaves something to another one.
    Delegated {
        delegation: String,
        /// It is left to the client.
        is_ours: bool,
    },
    /// Something that the other model does.
    Response {
        about: Option<String>,
        delegation: Option<String>,
        event: Event,
    },
    /// Keys that the caller pressed.
    Digits(String),
    /// A key was sent to the caller's line: the frame of ours that asked for it.
    KeySent {
        about: Option<String>,
    },
    /// How long the session has lasted, in milliseconds.
    Lasted(u64),
    /// The session is over, after this many milliseconds if that is said.
    Closed(Closed, Option<u64>),
    /// The call did not come to stand.
    Broken(String),
    Error(Error),
    /// Known, and of no consequence.
    Nothing,
    /// Sound.
    Sound,
    /// Of a kind that is not known.
    Unknown,
    /// No frame of this protocol.
    Garbage,
}

/// What the other model does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    Began {
        response: String,
    },
    /// It calls a tool, completely.
    Called(Call),
    Ended {
        response: String,
        status: Status,
        tokens: Option<LiveTokens>,
    },
    Error(Error),
    /// Of no consequence.
    Nothing,
}

/// Why a session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// The caller is gone.
    Caller,
    /// It was asked for.
    Asked,
    /// It may not last longer.
    Expired,
    /// The provider does not allow what was said.
    Content,
    /// For a reason that is not known.
    Other,
}

#[derive(Deserialize)]
struct Frame<'f> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'f, str>,
    #[serde(default)]
    client_event_id: Option<String>,
    #[serde(default)]
    delegation_id: Option<String>,
    #[serde(default)]
    delegation: Option<Delegation>,
    #[serde(default)]
    delta: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    error: Option<Refusal>,
    #[serde(default)]
    usage: Option<Value>,
    /// A key that was pressed, or what the other model does.
    #[serde(default)]
    event: Option<Value>,
}

#[derive(Deserialize)]
struct Delegation {
    id: String,
    target: String,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default, deserialize_with = "words")]
    code: Option<String>,
    #[serde(default, rename = "type", deserialize_with = "words")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "words")]
    message: Option<String>,
    #[serde(default, deserialize_with = "words")]
    client_event_id: Option<String>,
}

impl Refusal {
    fn into_error(self, about: Option<String>) -> Error {
        let Self { code, kind, message, client_event_id } = self;
        Error { code, kind, message, event_id: client_event_id.or(about) }
    }
}

#[derive(Deserialize)]
struct Streamed {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    response: Option<Response>,
    #[serde(default)]
    item: Option<Item>,
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    message: Option<String>,
}

#[derive(Deserialize)]
struct Response {
    id: String,
    #[serde(default)]
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    input_tokens_details: Option<InputDetails>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: u64,
}

#[derive(Deserialize)]
struct OutputDetails {
    #[serde(default)]
    reasoning_tokens: u64,
}

impl Taken {
    /// Reads a frame. Sound, which is most of what the provider sends, is recognised without reading it as JSON.
    pub(super) fn read(frame: &str) -> Self {
        if frame.len() > FRAME_BYTES_MAX {
            return Self::Garbage;
        }
        if is_sound(frame) {
            return Self::Sound;
        }
        let Ok(read) = serde_json::from_str::<Frame<'_>>(frame) else { return Self::Garbage };
        Self::of(read).unwrap_or(Self::Garbage)
    }

    fn of(frame: Frame<'_>) -> Option<Self> {
        let Frame {
            kind,
            client_event_id: about,
            delegation_id,
            delegation,
            delta,
            reason,
            error,
            usage,
            event,
        } = frame;
        Some(match &*kind {
            "session.started"
            | "session.updated"
            | "session.instructions.appended"
            | "session.commentary.appended"
            | "session.thinking.appended" => Self::Accepted { about },
            "session.input_transcript.delta" => Self::Heard(delta?),
            "session.output_transcript.delta" => Self::Said(delta?),
            "session.delegation.created" => {
                let Delegation { id, target } = delegation?;
                Self::Delegated { delegation: id, is_ours: target == "client" }
            }
            "response.event" => {
                let event = serde_json::from_value::<Streamed>(event?).ok()?;
                Self::Response { about, delegation: delegation_id, event: Event::of(event)? }
            }
            "transport.dtmf.received" => Self::Digits(event?.as_str()?.to_owned()),
            "transport.dtmf.sent" => Self::KeySent { about },
            "transport.failed" => {
                let said = error.and_then(|error| error.message);
                Self::Broken(said.unwrap_or_else(|| "the provider gives no reason".to_owned()))
            }
            "session.usage.updated" => lasted(usage).map_or(Self::Nothing, Self::Lasted),
            "session.closed" => {
                let closed = match reason.as_deref() {
                    Some("remote_hangup" | "connection_lost") => Closed::Caller,
                    Some("close_requested") => Closed::Asked,
                    Some("expired") => Closed::Expired,
                    Some("content") => Closed::Content,
                    _ => Closed::Other,
                };
                Self::Closed(closed, lasted(usage))
            }
            "error" => Self::Error(error?.into_error(about)),
            "info"
            | "session.input_audio.muted"
            | "session.input_audio.unmuted"
            | "session.output_audio.fixture.playing"
            | "session.output_audio.fixture.played"
            | "session.paused"
            | "session.resumed"
            | "transport.ringing"
            | "transport.answered"
            | "transport.dtmf.send" => Self::Nothing,
            kind if SOUND.contains(&kind) => Self::Sound,
            _ => Self::Unknown,
        })
    }

    /// Says whether it tells something of a call.
    pub(super) fn is_of_a_call(&self) -> bool {
        !matches!(
            self,
            Self::Accepted { .. }
                | Self::KeySent { .. }
                | Self::Lasted(_)
                | Self::Nothing
                | Self::Sound
                | Self::Unknown
                | Self::Garbage
                | Self::Error(_)
        )
    }
}

impl Event {
    fn of(event: Streamed) -> Option<Self> {
        let Streamed { kind, response, item, code, message } = event;
        let ended = |status| {
            let Response { id, usage } = response.as_ref()?;
            Some(Self::Ended { response: id.clone(), status, tokens: usage.clone().and_then(tokens) })
        };
        Some(match &*kind {
            "response.created" => Self::Began { response: response?.id },
            "response.output_item.done" => match item? {
                // What has no status is complete: the event says so.
                Item { kind, status, call_id, name, arguments }
                    if kind == "function_call"
                        && status.as_deref().is_none_or(|status| status == "completed") =>
                {
                    Self::Called(Call { call_id: call_id?, name: name?, arguments: arguments? })
                }
                _ => Self::Nothing,
            },
            "response.completed" => ended(Status::Completed)?,
            "response.cancelled" => ended(Status::Cancelled)?,
            "response.failed" | "response.incomplete" => ended(Status::Failed)?,
            "error" => Self::Error(Error { code, kind: None, message, event_id: None }),
            _ => Self::Nothing,
        })
    }
}

/// The time that a provider bills, in milliseconds; none where it says nothing that can be one.
fn lasted(usage: Option<Value>) -> Option<u64> {
    let seconds = usage?["seconds"].as_f64()?;
    // A session lasts for hours at most.
    (0.0..=SECONDS_MAX).contains(&seconds).then_some((seconds * 1_000.0) as u64)
}

/// What a response of the other model took.
fn tokens(usage: Value) -> Option<LiveTokens> {
    let usage = serde_json::from_value::<Usage>(usage).ok()?;
    let details = TokenDetails {
        cached_input_tokens: usage.input_tokens_details.map_or(0, |details| details.cached_tokens),
        reasoning_tokens: usage.output_tokens_details.map_or(0, |details| details.reasoning_tokens),
        ..TokenDetails::default()
    };
    Some(LiveTokens {
        input: usage.input_tokens,
        output: usage.output_tokens,
        details,
        ..LiveTokens::default()
    })
}

/// Says whether a frame is sound, by its first bytes.
fn is_sound(frame: &str) -> bool {
    let head = &frame[..frame.floor_char_boundary(HEAD_BYTES)];
    let Some((_, rest)) = head.split_once("\"type\"") else { return false };
    let Some(rest) = rest.trim_start().strip_prefix(':').map(str::trim_start) else { return false };
    let Some(kind) = rest.strip_prefix('"').and_then(|rest| rest.split('"').next()) else { return false };
    SOUND.contains(&kind)
}
