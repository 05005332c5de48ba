//! What happens in a call, as the shell reports it.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::event::{MAX_DEPTH, depth};
use crate::id::OperationId;
use crate::reply::{CallRequest, TokenDetails, Validation};

/// Most bytes of one text of a call: what was said, a call's arguments, a reason. What is longer is cut.
pub const TEXT_BYTES_MAX: usize = 16 * 1_024;

/// Most bytes of an id that a provider gives.
const ID_BYTES_MAX: usize = 256;

/// One thing that happened in a call. Audio is never among it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveNews {
    /// The session with the live model is open.
    Connected,
    /// The connection to the session is lost; the call itself may continue.
    Lost {
        /// Why.
        reason: String,
    },
    /// The shell is connected to the session again. What happened in between is unknown.
    Attached,
    /// The caller begins to speak.
    SpeechStarted,
    /// The caller has stopped.
    SpeechStopped,
    /// What the caller said, whole.
    Heard {
        /// The words.
        text: String,
    },
    /// What the live model said, whole.
    Said {
        /// The words.
        text: String,
        /// How much of it the caller heard, in milliseconds, where it was cut off.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        heard_ms: Option<u64>,
    },
    /// The live model begins a response.
    ResponseBegan {
        /// The provider's id of it.
        response: String,
        /// The command that asked for it; none for one that the provider began after the caller's turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<OperationId>,
    },
    /// A response has ended.
    ResponseEnded {
        /// The provider's id of it.
        response: String,
        /// How.
        end: ResponseEnd,
    },
    /// What a response took, as its provider counts; it comes before the end of the response.
    Counted {
        /// The provider's id of it.
        response: String,
        /// The tokens.
        tokens: LiveTokens,
    },
    /// The session has lasted this long, as its provider counts, which bills the live model by time.
    Lasted {
        /// All of its time until now, in milliseconds.
        millis: u64,
        /// What the time since the last of these cost by the price of the line when it was counted, in billionths of a US dollar; none
        /// where the line has no price for time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_nano_usd: Option<u64>,
    },
    /// A completed item of a response asks for a tool.
    Asked {
        /// The response.
        response: String,
        /// The call, with the shell's validation.
        call: CallRequest,
    },
    /// The provider has taken a call out of the conversation: nothing answers it.
    Withdrawn {
        /// The provider's id of the call.
        call_id: String,
    },
    /// The caller pressed a key.
    Digit {
        /// `0` to `9`, `*`, `#` or `A` to `D`.
        digit: char,
    },
    /// A person of the staff gives the live model a note; it speaks of it at the next pause.
    Told {
        /// The words.
        text: String,
        /// Who, if that was said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The session has a command, or had it already.
    Taken {
        /// Which.
        command: OperationId,
    },
    /// The session refused a command.
    Refused {
        /// Which.
        command: OperationId,
        /// The provider's code. `busy` is the core's own: a response was active.
        code: String,
        /// The provider's words.
        message: String,
    },
    /// The caller has heard the last of a response.
    Played {
        /// The provider's id of it.
        response: String,
    },
    /// The caller interrupts words that were reported as said already: they were made faster than they are played.
    Cut {
        /// The response that they belong to.
        response: String,
        /// How much of them the caller heard, in milliseconds.
        heard_ms: u64,
    },
    /// A time has come that the core waits for.
    Woke,
    /// The call is over.
    Ended {
        /// Who ended it.
        by: EndedBy,
        /// Why.
        reason: String,
    },
}

impl LiveNews {
    /// The kind of news as text, such as `speech_started`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Lost { .. } => "lost",
            Self::Attached => "attached",
            Self::SpeechStarted => "speech_started",
            Self::SpeechStopped => "speech_stopped",
            Self::Heard { .. } => "heard",
            Self::Said { .. } => "said",
            Self::ResponseBegan { .. } => "response_began",
            Self::ResponseEnded { .. } => "response_ended",
            Self::Counted { .. } => "counted",
            Self::Lasted { .. } => "lasted",
            Self::Asked { .. } => "asked",
            Self::Withdrawn { .. } => "withdrawn",
            Self::Digit { .. } => "digit",
            Self::Told { .. } => "told",
            Self::Taken { .. } => "taken",
            Self::Refused { .. } => "refused",
            Self::Played { .. } => "played",
            Self::Cut { .. } => "cut",
            Self::Woke => "woke",
            Self::Ended { .. } => "ended",
        }
    }

    /// The news, or none where no state can hold it: an id that is too long, a key that no telephone has. Texts that are too
    /// long are cut; arguments that are too long or nested too deeply do not fit. A shell records it in this form.
    #[must_use]
    pub fn bounded(mut self) -> Option<Self> {
        match &mut self {
            Self::Connected
            | Self::Attached
            | Self::SpeechStarted
            | Self::SpeechStopped
            | Self::Taken { .. }
            | Self::Lasted { .. }
            | Self::Woke => {}
            Self::Lost { reason: text } | Self::Heard { text } | Self::Said { text, .. } => cut(text),
            Self::Ended { by: _, reason } => cut(reason),
            Self::Told { text, by } => {
                if text.trim().is_empty() || by.as_ref().is_some_and(|by| by.len() > ID_BYTES_MAX) {
                    return None;
                }
                cut(text);
            }
            Self::Refused { command: _, code, message } => {
                if code.len() > ID_BYTES_MAX {
                    return None;
                }
                cut(message);
            }
            Self::ResponseBegan { response, .. }
            | Self::ResponseEnded { response, .. }
            | Self::Counted { response, .. }
            | Self::Cut { response, .. }
            | Self::Played { response } => {
                if response.len() > ID_BYTES_MAX {
                    return None;
                }
            }
            Self::Withdrawn { call_id } => {
                if call_id.len() > ID_BYTES_MAX {
                    return None;
                }
            }
            Self::Digit { digit } => {
                if !matches!(digit, '0'..='9' | '*' | '#' | 'A'..='D') {
                    return None;
                }
            }
            Self::Asked { response, call } => {
                let ids = [&*response, &call.call_id, &call.name];
                if call.call_id.is_empty() || ids.iter().any(|id| id.len() > ID_BYTES_MAX) {
                    return None;
                }
                bound(call);
            }
        }
        Some(self)
    }
}

/// Replaces arguments that no state can hold by word of that.
fn bound(call: &mut CallRequest) {
    let message = if call.arguments.len() > TEXT_BYTES_MAX {
        alloc::format!("they have more than {TEXT_BYTES_MAX} bytes")
    } else if call.checked().is_some_and(|arguments| depth(arguments) > MAX_DEPTH) {
        alloc::format!("they are nested more than {MAX_DEPTH} deep")
    } else {
        return;
    };
    cut(&mut call.arguments);
    call.validation = Some(Validation::Malformed { message });
}

fn cut(text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX - ELLIPSIS.len()));
        text.push_str(ELLIPSIS);
    }
}

const ELLIPSIS: &str = " […]";

/// What a response of a live model took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveTokens {
    /// Tokens that it read.
    pub input: u64,
    /// Tokens of the response.
    pub output: u64,
    /// What some of them were.
    #[serde(default, skip_serializing_if = "TokenDetails::is_empty")]
    pub details: TokenDetails,
    /// Which of them were sound.
    #[serde(default, skip_serializing_if = "AudioTokens::is_none")]
    pub audio: AudioTokens,
    /// Whether no provider counted them: then they are estimated.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub estimated: bool,
    /// What the response cost by the price of the line when it was counted, in billionths of a US dollar; none where the line has no
    /// price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_nano_usd: Option<u64>,
}

/// The tokens of a response that were sound, among all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AudioTokens {
    /// Those that the live model read.
    pub input: u64,
    /// Those of them that the provider had in its cache.
    pub cached_input: u64,
    /// Those of the response.
    pub output: u64,
}

impl AudioTokens {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseEnd {
    /// The live model finished it.
    Completed,
    /// The caller spoke, or it was cancelled.
    Interrupted,
    /// The provider broke it off.
    Failed,
}

/// Who ended a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// The caller hung up.
    Caller,
    /// The agent ended it.
    Agent,
    /// The provider, or the line, broke it off.
    Provider,
}

impl Surface {
    /// Says whether the call continues while no process carries it, since a provider or a carrier holds the caller's line.
    pub const fn outlives_its_process(self) -> bool {
        self.is_answered() || matches!(self, Self::Media)
    }

    /// Says whether the call rings at the provider of the live model, which answers it with a session that is there until the call ends.
    pub const fn is_answered(self) -> bool {
        matches!(self, Self::Telephone | Self::Duplex)
    }
}

/// How a caller speaks with a live model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Surface {
    /// Both are written down beforehand.
    Script,
    /// The caller's words reach a session of a provider's Realtime API.
    Realtime,
    /// The caller's telephone is connected with a session of a provider's Realtime API, and stays so without this process.
    Telephone,
    /// The agent's own model plays the live model.
    Model,
    /// The caller's telephone is connected with a session of a live model that hears while it speaks, and stays so without this process. It
    /// decides itself when to speak; another model of the provider works with the tools, and its responses are those of the call.
    Duplex,
    /// The caller's telephone is connected with a carrier, which sends the sound here and plays what it is sent; it passes through to
    /// a session of a provider's Realtime API. The carrier connects again when this process has gone.
    Media,
}
