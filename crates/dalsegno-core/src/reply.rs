//! What a model said, with the shell's validation of each call.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canonical::Canonical;

/// One reply of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The parts in the order in which the provider sent them.
    pub parts: Vec<ReplyPart>,
    /// Why the reply ended.
    pub stop: StopReason,
    /// Tokens that the request took, as the provider counts.
    #[serde(default)]
    pub input_tokens: u64,
    /// Tokens of the reply, as the provider counts.
    #[serde(default)]
    pub output_tokens: u64,
    /// What some of these tokens were.
    #[serde(default, skip_serializing_if = "TokenDetails::is_empty")]
    pub details: TokenDetails,
    /// Whether no provider counted the tokens: then they are estimated.
    #[serde(default, skip_serializing_if = "is_false")]
    pub estimated: bool,
    /// What the shell found when it checked the text against the schema of a structured answer, where one is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Validation>,
    /// Attempts before this one that the provider possibly received and charged for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_attempts: u32,
    /// Whether the provider refused the request with the files that tools returned, and replied to the same without them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub without_files: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// What a provider counted besides the tokens sent and received: what some of these were, and what it did by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenDetails {
    /// Tokens sent that the provider had in its cache.
    #[serde(skip_serializing_if = "is_none")]
    pub cached_input_tokens: u64,
    /// Tokens sent that the provider wrote to its cache.
    #[serde(skip_serializing_if = "is_none")]
    pub cache_write_tokens: u64,
    /// Those of them that it wrote for an hour.
    #[serde(skip_serializing_if = "is_none")]
    pub cache_write_1h_tokens: u64,
    /// Tokens received that are reasoning.
    #[serde(skip_serializing_if = "is_none")]
    pub reasoning_tokens: u64,
    /// Searches of the web that the provider made while it replied.
    #[serde(skip_serializing_if = "is_none")]
    pub web_searches: u64,
}

impl TokenDetails {
    /// Says whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds those of other replies.
    pub fn add(&mut self, other: &Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.cached_input_tokens, other.cached_input_tokens);
        add(&mut self.cache_write_tokens, other.cache_write_tokens);
        add(&mut self.cache_write_1h_tokens, other.cache_write_1h_tokens);
        add(&mut self.reasoning_tokens, other.reasoning_tokens);
        add(&mut self.web_searches, other.web_searches);
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(number: &u64) -> bool {
    *number == 0
}

impl ModelReply {
    /// A reply of these parts that no provider counted.
    pub fn new(parts: Vec<ReplyPart>, stop: StopReason) -> Self {
        Self {
            parts,
            stop,
            input_tokens: 0,
            output_tokens: 0,
            details: TokenDetails::default(),
            estimated: false,
            output: None,
            lost_attempts: 0,
            without_files: false,
        }
    }

    /// All text parts, joined.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            if let ReplyPart::Text(part) = part {
                text.push_str(part);
            }
        }
        text
    }

    /// What its parts take in tokens, by estimate: for a reply that no provider counted.
    pub fn estimate_tokens(&self) -> u64 {
        crate::tokens::reply(self)
    }

    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        let parts = self.parts.iter().map(|part| match part {
            ReplyPart::Text(text) => text.len(),
            ReplyPart::Call(call) => call.call_id.len() + call.name.len() + call.arguments.len(),
            ReplyPart::Opaque { provider, data } => provider.len() + crate::event::size(data),
        });
        parts.sum()
    }

    /// The tools that the model wants called, in order.
    pub fn calls(&self) -> impl Iterator<Item = &CallRequest> {
        self.parts.iter().filter_map(|part| match part {
            ReplyPart::Call(call) => Some(call),
            ReplyPart::Text(_) | ReplyPart::Opaque { .. } => None,
        })
    }

    /// Forgets what the shell found of the calls: they are decided upon.
    pub(crate) fn settle(&mut self) {
        for part in &mut self.parts {
            if let ReplyPart::Call(call) = part {
                call.validation = None;
            }
        }
    }

    pub(crate) fn feed(&self, canonical: &mut Canonical) {
        canonical.number(self.parts.len() as u64);
        for part in &self.parts {
            match part {
                ReplyPart::Text(text) => canonical.tag(0).text(text),
                ReplyPart::Call(call) => {
                    canonical.tag(1).text(&call.call_id).text(&call.name).text(&call.arguments)
                }
                ReplyPart::Opaque { provider, data } => canonical.tag(2).text(provider).json(data),
            };
        }
    }
}

/// One part of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyPart {
    /// Text for the user.
    Text(String),
    /// A tool that the model wants called.
    Call(CallRequest),
    /// Something that only the provider understands and needs back untouched, such as signed thinking.
    Opaque {
        /// The wire format that it belongs to.
        provider: String,
        /// Its content.
        data: Value,
    },
}

/// A tool that a model wants called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRequest {
    /// The provider's id of the call, which the result must carry.
    pub call_id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them: text that should be a JSON object.
    pub arguments: String,
    /// What the shell found when it checked them. Absent in a transcript once the call has its result: it has served then,
    /// and takes more room than all else of a call. A call of a shell that is without one is refused.
    #[serde(rename = "verdict", default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<Validation>,
}

impl CallRequest {
    /// The checked arguments, where they fit.
    pub(crate) fn checked(&self) -> Option<&Value> {
        self.validation.as_ref().and_then(Validation::arguments)
    }
}

/// What the shell found when it checked a call's arguments. Part of the outcome, so that a replay needs no validator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validation {
    /// They fit, perhaps after a lossless coercion such as `"3"` to `3`.
    Valid {
        /// The arguments to call the tool with.
        arguments: Value,
    },
    /// They are a JSON object that breaks the tool's schema.
    Invalid {
        /// Each place that does not fit.
        violations: Vec<Violation>,
    },
    /// They are not a JSON object.
    Malformed {
        /// What is wrong with the text.
        message: String,
    },
    /// The reply was cut off at its length limit, so the call may be incomplete.
    Truncated,
}

impl Validation {
    /// The arguments, where they fit.
    pub(crate) fn arguments(&self) -> Option<&Value> {
        match self {
            Self::Valid { arguments } => Some(arguments),
            Self::Invalid { .. } | Self::Malformed { .. } | Self::Truncated => None,
        }
    }
}

/// One place at which a value breaks its schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// JSON Pointer of the place; empty for the whole.
    pub path: String,
    /// What was expected there.
    pub message: String,
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model finished.
    End,
    /// The model waits for tools.
    ToolCalls,
    /// The length limit cut it off.
    Length,
    /// The provider withheld the reply.
    Refusal,
}
