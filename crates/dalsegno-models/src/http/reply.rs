//! From what a wire delivered to a reply of the core: bounds, and calls judged.
//!
//! A reply that is complete is one, even if it says nothing: the provider counted and charged for it, so its tokens must
//! reach the run, and asking again would be paid for again without a reason to expect more. What an empty reply means
//! the core decides, which goes on with another model or ends the run; at the length limit it says so.

use std::collections::BTreeSet;

use dalsegno_core::{CallRequest, ModelReply, ReplyPart, StopReason, TokenDetails};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::key::Hidden;
use crate::model::{CompletionRequest, DeltaSink, ModelError, ModelErrorKind};
use crate::output::judge_reply;
use crate::validation::judge_call;

/// Reads the events of one stream.
pub(super) trait Reader: Send {
    /// Takes the data of one event, and says whether it was the last.
    fn read(&mut self, data: &str, output: &mut Output<'_>) -> Result<bool, ModelError>;

    /// Says whether nothing is missing any more, although the event that ends the stream has not come.
    /// By default no other event can be the last.
    fn is_complete(&self) -> bool {
        false
    }

    /// What the stream amounts to, after its last event or at the end of the body.
    ///
    /// # Errors
    /// Fails if the stream ended before it was complete.
    fn finish(self: Box<Self>, hidden: Hidden<'_>) -> Result<Draft, ModelError>;
}

/// Where the text of a reply goes while it arrives, and how much of it may still come.
pub(super) struct Output<'s> {
    sink: &'s dyn DeltaSink,
    /// What errors must not tell.
    pub(super) hidden: Hidden<'s>,
    max: usize,
    taken: usize,
}

impl<'s> Output<'s> {
    pub(super) fn new(sink: &'s dyn DeltaSink, hidden: Hidden<'s>, max: usize) -> Self {
        Self { sink, hidden, max, taken: 0 }
    }

    /// Passes text on.
    pub(super) fn text(&mut self, delta: &str) -> Result<(), ModelError> {
        self.count(delta)?;
        if !delta.is_empty() {
            self.sink.text(delta);
        }
        Ok(())
    }

    /// Counts what is kept but not shown: arguments, reasoning.
    pub(super) fn count(&mut self, delta: &str) -> Result<(), ModelError> {
        self.add(delta.len())
    }

    /// Counts what is kept as it came.
    pub(super) fn opaque(&mut self, data: &Value) -> Result<(), ModelError> {
        self.add(json_bytes(data))
    }

    fn add(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.taken = self.taken.saturating_add(bytes);
        if self.taken > self.max { Err(too_long(self.max)) } else { Ok(()) }
    }
}

fn too_long(max: usize) -> ModelError {
    let message = format!(
        "the reply has more than {max} bytes of text, arguments and opaque parts; ask for less at once"
    );
    ModelError::new(ModelErrorKind::LimitExceeded, message)
}

/// The bytes of a value as it is kept.
fn json_bytes(value: &Value) -> usize {
    value.to_string().len()
}

/// Reads a call's arguments, which some servers send as an object rather than as its text.
pub(super) fn arguments<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Null => String::new(),
        value => value.to_string(),
    })
}

/// Tokens as a provider counts them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tokens {
    /// All that the request took, cached ones included.
    pub(super) input: u64,
    /// Those of the reply, with its reasoning.
    pub(super) output: u64,
    /// What some of them were. Counts that are larger than their whole are lowered before they are recorded.
    pub(super) details: TokenDetails,
}

impl Tokens {
    /// Says whether the provider counted: no request takes nothing.
    fn is_counted(&self) -> bool {
        (self.input, self.output) != (0, 0)
    }

    /// The details, none of them larger than what they are part of.
    fn bounded(&self) -> TokenDetails {
        let mut details = self.details;
        details.cached_input_tokens = details.cached_input_tokens.min(self.input);
        details.cache_write_tokens = details.cache_write_tokens.min(self.input - details.cached_input_tokens);
        details.cache_write_1h_tokens = details.cache_write_1h_tokens.min(details.cache_write_tokens);
        details.reasoning_tokens = details.reasoning_tokens.min(self.output);
        details
    }
}

/// A count in a provider's usage, which some servers write as `12.0`; what is no number counts as none.
pub(super) fn count(usage: &Value, pointer: &str) -> u64 {
    let of = |count: &Value| count.as_u64().or_else(|| count.as_f64().map(|count| count.round() as u64));
    usage.pointer(pointer).and_then(of).unwrap_or(0)
}

/// One part of a reply, not judged yet.
#[derive(Debug)]
pub(super) enum RawPart {
    Text(String),
    Call { id: String, name: String, arguments: String },
    Opaque(Value),
}

/// A reply, not judged yet.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) parts: Vec<RawPart>,
    pub(super) stop: StopReason,
    pub(super) tokens: Tokens,
    /// Whether the provider paused the reply, and continues it when it is sent back.
    pub(super) paused: bool,
}

impl Draft {
    /// The parts as they are sent back to the provider that paused the reply.
    pub(super) fn sent_back(&self, provider: &str) -> Vec<ReplyPart> {
        let parts = self.parts.iter().map(|part| match part {
            RawPart::Text(text) => ReplyPart::Text(text.clone()),
            RawPart::Opaque(data) => ReplyPart::Opaque { provider: provider.to_owned(), data: data.clone() },
            RawPart::Call { id, name, arguments } => {
                let (call_id, name, arguments) = (id.clone(), name.clone(), arguments.clone());
                ReplyPart::Call(CallRequest { call_id, name, arguments, validation: None })
            }
        });
        parts.collect()
    }

    /// The reply of which this is what came after `before`.
    pub(super) fn after(mut self, mut before: Self) -> Self {
        before.parts.append(&mut self.parts);
        let (now, mut tokens) = (self.tokens, before.tokens);
        tokens.input = tokens.input.saturating_add(now.input);
        tokens.output = tokens.output.saturating_add(now.output);
        tokens.details.add(&now.details);
        Self { parts: before.parts, tokens, ..self }
    }

    /// Judges the reply.
    pub(super) fn into_reply(
        self,
        request: &CompletionRequest,
        provider: &str,
        max: usize,
    ) -> Result<ModelReply, ModelError> {
        let Self { mut parts, stop, tokens, paused: _ } = self;
        parts.retain(|part| !matches!(part, RawPart::Text(text) if text.is_empty()));
        let sizes = parts.iter().map(|part| match part {
            RawPart::Text(text) => text.len(),
            RawPart::Call { id, name, arguments } => id.len() + name.len() + arguments.len(),
            RawPart::Opaque(data) => json_bytes(data),
        });
        if sizes.sum::<usize>() > max {
            return Err(too_long(max));
        }
        let calls = parts.iter().any(|part| matches!(part, RawPart::Call { .. }));
        let stop = match stop {
            // Compatible servers disagree about the stop of a reply with calls; the calls themselves decide.
            StopReason::End | StopReason::ToolCalls if calls => StopReason::ToolCalls,
            StopReason::ToolCalls => StopReason::End,
            StopReason::End | StopReason::Length | StopReason::Refusal => stop,
        };
        let last = parts.len().saturating_sub(1);
        let replies = request.transcript.replies();
        let mut ids = BTreeSet::new();
        let judged = parts.into_iter().enumerate().map(|(index, part)| match part {
            RawPart::Text(text) => ReplyPart::Text(text),
            RawPart::Opaque(data) => ReplyPart::Opaque { provider: provider.to_owned(), data },
            RawPart::Call { id, name, arguments } => {
                let truncated = stop == StopReason::Length && index == last;
                let validation = judge_call(&request.tools, &name, &arguments, truncated);
                // Results find their calls by the id, so a server that leaves it out or gives it twice gets one.
                let is_own = !id.is_empty() && ids.insert(id.clone());
                let call_id = if is_own { id } else { format!("call_{replies}_{index}") };
                ReplyPart::Call(CallRequest { call_id, name, arguments, validation: Some(validation) })
            }
        });
        let mut reply = ModelReply::new(judged.collect(), stop);
        if tokens.is_counted() {
            (reply.input_tokens, reply.output_tokens) = (tokens.input, tokens.output);
            reply.details = tokens.bounded();
        } else {
            // Something was paid for all the same: an estimate that says so is closer to it than nothing.
            (reply.input_tokens, reply.output_tokens) =
                (request.transcript.tokens(), reply.estimate_tokens());
            reply.estimated = true;
        }
        reply.output = judge_reply(request, &reply);
        tracing::debug!(
            provider,
            input = tokens.input,
            cached = tokens.details.cached_input_tokens,
            written = tokens.details.cache_write_tokens,
            output = tokens.output,
            "model replied"
        );
        Ok(reply)
    }
}
