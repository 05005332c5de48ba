//! The events of a reply, in their order.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dalsegno_core::{StopReason, TokenDetails};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value, json};

use super::{MARKER, PROVIDER, REASONING};
use crate::http::failure::{self, protocol};
use crate::http::frames::EXCEPTION;
use crate::http::key::Hidden;
use crate::http::reply::{self, Draft, Output, RawPart, Reader, Tokens, count};
use crate::model::ModelError;

/// Most blocks of one reply.
const MAX_BLOCKS: usize = 1024;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockStart {
    content_block_index: usize,
    start: Start,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start {
    tool_use: Option<ToolUse>,
    tool_result: Option<IgnoredAny>,
    image: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolUse {
    #[serde(default)]
    tool_use_id: String,
    name: String,
    /// What is there of a call that the provider performs itself.
    r#type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockDelta {
    content_block_index: usize,
    delta: Delta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delta {
    text: Option<String>,
    tool_use: Option<Input>,
    reasoning_content: Option<ReasoningDelta>,
}

#[derive(Deserialize)]
struct Input {
    #[serde(default, deserialize_with = "reply::arguments")]
    input: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReasoningDelta {
    text: Option<String>,
    signature: Option<String>,
    redacted_content: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageStop {
    stop_reason: String,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct Exception {
    code: Option<String>,
    #[serde(default)]
    said: Value,
}

/// A block as far as it has come.
enum Block {
    Text(String),
    Call {
        id: String,
        name: String,
        arguments: String,
    },
    Reasoning {
        text: String,
        signature: String,
    },
    Redacted(Vec<u8>),
    /// A kind that Dalsegno never asks for.
    Other,
}

/// Reads the events of a stream.
#[derive(Default)]
pub(in crate::http) struct BedrockReader {
    blocks: BTreeMap<usize, Block>,
    usage: Value,
    stop: Option<StopReason>,
    /// Whether the model wrote a call that the provider could not read.
    malformed: bool,
    counted: bool,
}

impl Reader for BedrockReader {
    fn read(&mut self, data: &str, output: &mut Output<'_>) -> Result<bool, ModelError> {
        let garbage = |error| failure::garbage(PROVIDER, data, &error, output.hidden);
        let event: Map<String, Value> = serde_json::from_str(data).map_err(garbage)?;
        let Some((name, event)) = event.into_iter().next() else { return Ok(false) };
        match name.as_str() {
            "contentBlockStart" => self.begin(of(event).map_err(garbage)?, output)?,
            "contentBlockDelta" => self.add(of(event).map_err(garbage)?, output)?,
            MARKER => self.end(&of::<MessageStop>(event).map_err(garbage)?.stop_reason),
            "metadata" => {
                self.usage = of::<Metadata>(event).map_err(garbage)?.usage;
                self.counted = true;
            }
            EXCEPTION => {
                let Exception { code, said } = of(event).map_err(garbage)?;
                return Err(failure::from_exception(code.as_deref(), &said, output.hidden));
            }
            _ => {}
        }
        Ok(self.stop.is_some() && self.counted)
    }

    /// All blocks have come by then. Without their count, the tokens are estimated.
    fn is_complete(&self) -> bool {
        self.stop.is_some()
    }

    fn finish(self: Box<Self>, _hidden: Hidden<'_>) -> Result<Draft, ModelError> {
        let Some(stop) = self.stop else {
            return Err(protocol(format!("the stream ended before `{MARKER}`")));
        };
        if self.malformed && !self.blocks.values().any(|block| matches!(block, Block::Call { .. })) {
            return Err(protocol("the model wrote a call of a tool that the provider could not read"));
        }
        let tokens = tokens(&self.usage);
        let last = self.blocks.keys().next_back().copied();
        let parts = self.blocks.into_iter().filter_map(|(index, block)| {
            let is_cut = stop == StopReason::Length && Some(index) == last;
            block.into_part(is_cut)
        });
        Ok(Draft { parts: parts.collect(), stop, tokens, paused: false })
    }
}

/// The tokens of a usage. What the cache had and what it took are not among those that this wire calls the input.
fn tokens(usage: &Value) -> Tokens {
    let by_hour = usage["cacheDetails"].as_array().into_iter().flatten();
    let by_hour = by_hour.filter(|detail| detail["ttl"] == "1h").map(|detail| count(detail, "/inputTokens"));
    let details = TokenDetails {
        cached_input_tokens: count(usage, "/cacheReadInputTokens"),
        cache_write_tokens: count(usage, "/cacheWriteInputTokens"),
        cache_write_1h_tokens: by_hour.fold(0, u64::saturating_add),
        ..TokenDetails::default()
    };
    let input = count(usage, "/inputTokens")
        .saturating_add(details.cached_input_tokens)
        .saturating_add(details.cache_write_tokens);
    Tokens { input, output: count(usage, "/outputTokens"), details }
}

fn of<T: DeserializeOwned>(event: Value) -> Result<T, serde_json::Error> {
    serde_json::from_value(event)
}

impl BedrockReader {
    fn begin(&mut self, event: BlockStart, output: &mut Output<'_>) -> Result<(), ModelError> {
        let block = match event.start.tool_use {
            Some(ToolUse { tool_use_id, name, r#type: None }) => {
                output.count(&tool_use_id)?;
                output.count(&name)?;
                Block::Call { id: tool_use_id, name, arguments: String::new() }
            }
            // What begins without a word of its kind is what its first delta is.
            None if event.start.tool_result.is_none() && event.start.image.is_none() => return Ok(()),
            _ => Block::Other,
        };
        self.insert(event.content_block_index, block)?;
        Ok(())
    }

    fn insert(&mut self, index: usize, block: Block) -> Result<&mut Block, ModelError> {
        if self.blocks.len() >= MAX_BLOCKS {
            return Err(protocol(format!("the reply has more than {MAX_BLOCKS} blocks")));
        }
        let block = self.blocks.entry(index).insert_entry(block);
        Ok(block.into_mut())
    }

    /// Adds to a block. Only calls have an event with which they begin.
    fn add(&mut self, event: BlockDelta, output: &mut Output<'_>) -> Result<(), ModelError> {
        let (index, delta) = (event.content_block_index, event.delta);
        let block = match self.blocks.contains_key(&index) {
            true => self.blocks.get_mut(&index),
            false => match Block::of(&delta) {
                Some(block) => Some(self.insert(index, block)?),
                None => None,
            },
        };
        let Some(block) = block else {
            return Err(protocol(format!("the endpoint continued block {index}, which has not begun")));
        };
        block.add(delta, output).map_err(|error| {
            error.unwrap_or_else(|| {
                protocol(format!("the endpoint continued block {index} as another kind of block"))
            })
        })
    }

    fn end(&mut self, reason: &str) {
        self.malformed = matches!(reason, "malformed_tool_use" | "malformed_model_output");
        self.stop = Some(match reason {
            "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
            "guardrail_intervened" | "content_filtered" => StopReason::Refusal,
            "tool_use" => StopReason::ToolCalls,
            _ => StopReason::End,
        });
    }
}

impl Block {
    /// The block that a first delta begins; none where it cannot begin one.
    fn of(delta: &Delta) -> Option<Self> {
        match delta {
            Delta { text: Some(_), .. } => Some(Self::Text(String::new())),
            Delta { reasoning_content: Some(ReasoningDelta { redacted_content: Some(_), .. }), .. } => {
                Some(Self::Redacted(Vec::new()))
            }
            Delta { reasoning_content: Some(_), .. } => {
                Some(Self::Reasoning { text: String::new(), signature: String::new() })
            }
            Delta { tool_use: Some(_), .. } => None,
            Delta { .. } => Some(Self::Other),
        }
    }

    /// Adds to the block; the error is none where it is of another kind.
    fn add(&mut self, delta: Delta, output: &mut Output<'_>) -> Result<(), Option<ModelError>> {
        match (self, delta) {
            (Self::Other, _) => {}
            (Self::Text(text), Delta { text: Some(more), .. }) => {
                output.text(&more)?;
                text.push_str(&more);
            }
            (Self::Call { arguments, .. }, Delta { tool_use: Some(Input { input }), .. }) => {
                output.count(&input)?;
                arguments.push_str(&input);
            }
            (Self::Reasoning { text, signature }, Delta { reasoning_content: Some(delta), .. }) => {
                for (target, more) in [(text, delta.text), (signature, delta.signature)] {
                    let more = more.unwrap_or_default();
                    output.count(&more)?;
                    target.push_str(&more);
                }
            }
            (Self::Redacted(bytes), Delta { reasoning_content: Some(delta), .. }) => {
                let more = delta.redacted_content.unwrap_or_default();
                output.count(&more)?;
                let more =
                    STANDARD.decode(more).map_err(|_| protocol("redacted reasoning is not in base64"))?;
                bytes.extend(more);
            }
            // Citations stand beside the text that they belong to.
            (_, Delta { text: None, tool_use: None, reasoning_content: None }) => {}
            _ => return Err(None),
        }
        Ok(())
    }

    /// The part that it is. Reasoning that was cut off is not signed, and is left out.
    fn into_part(self, is_cut: bool) -> Option<RawPart> {
        Some(match self {
            Self::Text(text) => RawPart::Text(text),
            Self::Call { id, name, arguments } => RawPart::Call { id, name, arguments },
            Self::Reasoning { signature, .. } if is_cut && signature.is_empty() => return None,
            Self::Reasoning { text, signature } => {
                let mut reasoning = json!({ "text": text });
                if !signature.is_empty() {
                    reasoning["signature"] = signature.into();
                }
                RawPart::Opaque(json!({ REASONING: { "reasoningText": reasoning } }))
            }
            Self::Redacted(bytes) => {
                RawPart::Opaque(json!({ REASONING: { "redactedContent": STANDARD.encode(bytes) } }))
            }
            Self::Other => return None,
        })
    }
}
