//! Anthropic Messages: `POST {base}/v1/messages`.
//!
//! Blocks are read in their order. Signed and redacted thinking is kept as it came and sent back at its place, which
//! the provider checks. Cache marks let it keep the prefix of a conversation; without a mark it caches nothing. It looks
//! for an earlier entry only at a mark and at the 20 blocks before it, so that the request before has a mark, too.

use std::borrow::Cow;
use std::collections::BTreeMap;

use dalsegno_core::{
    Attachment, Entry, ModelReply, OrderedJson, ProviderTool, Reasoning, ReplyPart, StopReason, TokenDetails,
    ToolChoice,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Cache;
use super::body::{self, Body, Media, object, set};
use super::failure::{self, protocol};
use super::key::Hidden;
use super::reply::{Draft, Output, RawPart, Reader, Tokens, count};
use super::strict::Dialect;
use super::tool_files;
use crate::model::{CompletionRequest, ModelError};

/// The name of this wire.
pub(super) const PROVIDER: &str = "anthropic";

/// What ends a stream.
pub(super) const MARKER: &str = "message_stop";

/// The version of the wire, a header that each request must have.
pub(super) const VERSION: &str = "2023-06-01";

/// The wire demands a limit for each reply. Every model since 2024 can write this much.
const DEFAULT_MAX_TOKENS: u64 = 8192;

/// The same where the model is asked for an effort: those that take one write 64,000 tokens and more, and thinking counts.
const DEFAULT_MAX_TOKENS_WITH_EFFORT: u64 = 32_000;

/// The least budget of thinking that the provider takes.
const MIN_BUDGET: u64 = 1024;

/// What is left for the answer where the limit of a reply is below the budget of its thinking.
const MIN_ANSWER: u64 = 1024;

/// The field of a block that ends what the provider keeps.
const MARK: &str = "cache_control";

/// Most blocks of one reply.
const MAX_BLOCKS: usize = 1024;

/// The fields that `extra` cannot set besides those that no wire lets it set.
pub(super) const RESERVED: &[&str] = &["output_format", "output_config.format"];

/// Builds the body. `paused` is the beginning of a reply that the provider continues.
pub(super) fn body(
    request: &CompletionRequest,
    model: &str,
    extra: &Map<String, Value>,
    cache: Cache,
    paused: &[ReplyPart],
) -> Result<Body, ModelError> {
    let (settings, control) = (&request.settings, &request.settings.control);
    let (mut system, mut messages) = messages(request, paused)?;
    let mark = mark(cache);
    if let Some(mark) = &mark {
        set_marks(&mut messages, mark);
    }
    let mut body = Body::new(json!({ "model": model, "messages": messages, "stream": true }));
    let limit_in_extra = extra.get("max_tokens").and_then(Value::as_u64);
    let Thinking { limit, thinking, effort } = thinking(request, extra.get("thinking"), limit_in_extra);
    body.set("max_tokens", limit);
    body.set_some("thinking", thinking);
    body.set_some("temperature", settings.temperature);
    body.set_some("top_p", control.top_p);
    body.set_some("service_tier", control.service_tier.clone());
    if !control.stop.is_empty() {
        body.set("stop_sequences", control.stop.clone());
    }
    if control.seed.is_some() {
        return Err(body::lacks(PROVIDER, "seed"));
    }
    if control.verbosity.is_some() {
        return Err(body::lacks(PROVIDER, "verbosity"));
    }
    let tools: Vec<OrderedJson> = body::tools(&request.tools)
        .map(|(name, tool)| {
            let (parameters, is_strict) = body::parameters(request, tool, Dialect::Anthropic);
            let mut tool = vec![
                ("name".to_owned(), name.into()),
                ("description".to_owned(), tool.description.as_str().into()),
                ("input_schema".to_owned(), parameters),
            ];
            if is_strict {
                tool.push(("strict".to_owned(), true.into()));
            }
            OrderedJson::Object(tool)
        })
        .chain(control.provider_tools.iter().map(|tool| provider_tool(*tool)))
        .collect();
    if !tools.is_empty() {
        body.set("tools", OrderedJson::Array(tools));
        let mut choice = match &request.tool_choice {
            ToolChoice::Auto => json!({ "type": "auto" }),
            ToolChoice::None => json!({ "type": "none" }),
            ToolChoice::Required => json!({ "type": "any" }),
            ToolChoice::Tool(name) => match body::required_tool(request, name) {
                Some(name) => json!({ "type": "tool", "name": name }),
                None => json!({ "type": "any" }),
            },
        };
        if let (Some(parallel), true) = (control.parallel_tool_calls, choice["type"] != "none") {
            set(&mut choice, "disable_parallel_tool_use", !parallel);
        }
        body.set("tool_choice", choice);
    }
    let mut config = Vec::new();
    if let Some(schema) = &request.output_schema {
        match body::answer(schema, Dialect::Anthropic) {
            (schema, true) => {
                let format = object([("type", "json_schema".into()), ("schema", schema)]);
                config.push(("format".to_owned(), format));
            }
            (schema, false) => {
                // The provider refuses what its grammar cannot hold, so the model is told in words.
                system.push(json!({ "type": "text", "text": body::in_words(&schema) }));
            }
        }
    }
    if let Some(effort) = effort {
        config.push(("effort".to_owned(), effort.into()));
    }
    if !config.is_empty() {
        body.set("output_config", OrderedJson::Object(config));
    }
    if let Some(block) = system.last_mut() {
        if let Some(mark) = mark {
            set(block, MARK, mark);
        }
        body.set("system", system);
    }
    Ok(body)
}

/// A tool that the provider runs by itself. These versions are of the stable interface, and known to all models that have the tool.
fn provider_tool(tool: ProviderTool) -> OrderedJson {
    let (kind, name) = match tool {
        ProviderTool::CodeExecution => ("code_execution_20250825", "code_execution"),
        ProviderTool::WebFetch => ("web_fetch_20250910", "web_fetch"),
        ProviderTool::WebSearch => ("web_search_20250305", "web_search"),
    };
    object([("type", kind.into()), ("name", name.into())])
}

/// What a block carries whose end is the end of a prefix to keep.
fn mark(cache: Cache) -> Option<Value> {
    match cache {
        Cache::Off => None,
        Cache::FiveMinutes => Some(json!({ "type": "ephemeral" })),
        Cache::OneHour => Some(json!({ "type": "ephemeral", "ttl": "1h" })),
    }
}

/// Marks where prefixes end that are worth keeping.
fn set_marks(messages: &mut [Value], mark: &Value) {
    for end in body::ends(messages) {
        if let Some(block) = messages[end]["content"].as_array_mut().and_then(|blocks| blocks.last_mut()) {
            set(block, MARK, mark.clone());
        }
    }
}

/// How much a model of Anthropic thinks.
pub(super) struct Thinking {
    /// The limit of the reply, which counts thinking and must be above its budget.
    pub(super) limit: u64,
    /// The value of `thinking`, if something is to be said of it.
    pub(super) thinking: Option<Value>,
    /// The effort, where one is asked for.
    pub(super) effort: Option<&'static str>,
}

/// How much the model thinks and the limit of its reply; `written` and `limit_in_extra` are what `extra` says of both.
pub(super) fn thinking(
    request: &CompletionRequest,
    written: Option<&Value>,
    limit_in_extra: Option<u64>,
) -> Thinking {
    let reasoning = request.settings.control.reasoning;
    let limit = request.settings.max_output_tokens;
    let written = written.filter(|_| reasoning.is_none());
    let budget = match reasoning {
        Some(Reasoning::MaxTokens(budget)) => Some(u64::from(budget)),
        _ => written.and_then(|thinking| thinking["budget_tokens"].as_u64()),
    };
    let effort = match reasoning {
        Some(Reasoning::None) | None => None,
        Some(reasoning) => body::effort(reasoning),
    };
    let limit = match (limit.map(u64::from).or(limit_in_extra), budget, effort) {
        (Some(limit), _, _) => limit,
        (None, Some(budget), _) => budget.saturating_add(DEFAULT_MAX_TOKENS),
        (None, None, Some(_)) => DEFAULT_MAX_TOKENS_WITH_EFFORT,
        (None, None, None) => DEFAULT_MAX_TOKENS,
    };
    // What a limit of tokens or cost leaves may be less than the budget, which then has to give way.
    let fitted = budget.map(|budget| if budget < limit { budget } else { limit.saturating_sub(MIN_ANSWER) });
    let thinking = match (reasoning, fitted) {
        (_, Some(fitted)) if fitted < MIN_BUDGET && Some(fitted) != budget => {
            Some(json!({ "type": "disabled" }))
        }
        (Some(Reasoning::MaxTokens(_)), Some(budget)) => {
            Some(json!({ "type": "enabled", "budget_tokens": budget }))
        }
        (None, Some(fitted)) if Some(fitted) != budget => written.cloned().map(|mut thinking| {
            set(&mut thinking, "budget_tokens", fitted);
            thinking
        }),
        (Some(Reasoning::None), _) => Some(json!({ "type": "disabled" })),
        (Some(_), None) => Some(json!({ "type": "adaptive" })),
        _ => None,
    };
    Thinking { limit, thinking, effort }
}

/// The system prompt and the messages. Neighbours of one role become one message, as the wire wants results of parallel
/// calls together; blank text, which it refuses, is left out.
fn messages(
    request: &CompletionRequest,
    paused: &[ReplyPart],
) -> Result<(Vec<Value>, Vec<Value>), ModelError> {
    let mut system = Vec::new();
    let mut messages: Vec<Value> = Vec::new();
    for entry in request.transcript.iter() {
        let (role, blocks) = match entry {
            Entry::Instructions(text) => {
                system.extend(text_block(text));
                continue;
            }
            Entry::User(text) => ("user", text_block(text).into_iter().collect()),
            Entry::Attachment(attachment) => {
                let media = body::media(request, attachment)?;
                let block = file(attachment, media).ok_or_else(|| body::unread(PROVIDER, attachment))?;
                ("user", vec![block])
            }
            Entry::Assistant(reply) => ("assistant", assistant(reply)),
            Entry::ToolResult { call_id, content, is_error, name: _, files } => {
                let id = wire_id(call_id);
                let files = tool_files::of_result(request, files);
                let files: Vec<Value> = files.filter_map(|(one, media)| file(one, media)).collect();
                let said = match files.is_empty() {
                    true => json!(content),
                    false => text_block(content).into_iter().chain(files).collect(),
                };
                let mut block = json!({ "type": "tool_result", "tool_use_id": id, "content": said });
                if *is_error {
                    set(&mut block, "is_error", true);
                }
                ("user", vec![block])
            }
            Entry::Compaction(_) => continue,
        };
        body::add(&mut messages, "content", role, blocks);
    }
    body::add(&mut messages, "content", "assistant", paused.iter().filter_map(block).collect());
    Ok((system, messages))
}

/// A file as a block of a message or of a result; none for what this wire does not carry.
fn file(file: &Attachment, media: Media<'_>) -> Option<Value> {
    Some(match media {
        Media::Image { media_type, base64 } => {
            let source = json!({ "type": "base64", "media_type": media_type, "data": base64 });
            json!({ "type": "image", "source": source })
        }
        Media::Pdf { base64 } => {
            let source = json!({ "type": "base64", "media_type": "application/pdf", "data": base64 });
            json!({ "type": "document", "source": source, "title": file.name })
        }
        Media::Recording { .. } => return None,
        Media::Text(text) => json!({ "type": "text", "text": text }),
    })
}

fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({ "type": "text", "text": text }))
}

fn assistant(reply: &ModelReply) -> Vec<Value> {
    let mut blocks: Vec<Value> = reply.parts.iter().filter_map(block).collect();
    // The provider refuses a message that ends with thinking.
    while blocks
        .last()
        .is_some_and(|block| block["type"] == "thinking" || block["type"] == "redacted_thinking")
    {
        blocks.pop();
    }
    blocks
}

fn block(part: &ReplyPart) -> Option<Value> {
    match part {
        ReplyPart::Text(text) => text_block(text),
        ReplyPart::Call(call) => {
            let input = body::arguments_object(&call.arguments);
            let id = wire_id(&call.call_id);
            Some(json!({ "type": "tool_use", "id": id, "name": call.name, "input": input }))
        }
        ReplyPart::Opaque { provider, data } => (provider == PROVIDER).then(|| data.clone()),
    }
}

/// A call's id as this wire takes it: 1 to 64 letters, digits, `_` and `-`.
fn wire_id(id: &str) -> Cow<'_, str> {
    body::id_of(id, b"_-")
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: MessageStart,
    },
    ContentBlockStart {
        index: usize,
        content_block: Map<String, Value>,
    },
    ContentBlockDelta {
        index: usize,
        delta: Delta,
    },
    MessageDelta {
        delta: MessageDelta,
        #[serde(default)]
        usage: Value,
    },
    MessageStop,
    Error {
        error: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct MessageStart {
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct MessageDelta {
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "input_json_delta")]
    Json { partial_json: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(other)]
    Other,
}

/// A block as it began, and what was added to it.
struct Block {
    start: Map<String, Value>,
    text: String,
    json: String,
    thinking: String,
    signature: String,
}

/// Reads the events of a stream.
#[derive(Default)]
pub(super) struct AnthropicReader {
    blocks: BTreeMap<usize, Block>,
    usage: Map<String, Value>,
    stop: Option<StopReason>,
    /// Whether the usage of the whole reply has come.
    counted: bool,
    done: bool,
    /// Whether the provider paused, and continues when the reply is sent back.
    paused: bool,
}

impl Reader for AnthropicReader {
    fn read(&mut self, data: &str, output: &mut Output<'_>) -> Result<bool, ModelError> {
        let event = serde_json::from_str(data)
            .map_err(|error| failure::garbage(PROVIDER, data, &error, output.hidden))?;
        match event {
            Event::MessageStart { message } => self.add_usage(message.usage),
            Event::ContentBlockStart { index, content_block } => self.begin(index, content_block, output)?,
            Event::ContentBlockDelta { index, delta } => self.add(index, &delta, output)?,
            Event::MessageDelta { delta, usage } => {
                self.counted |= usage["output_tokens"].is_number();
                self.add_usage(usage);
                let paused = delta.stop_reason.as_deref() == Some("pause_turn");
                let stop = delta.stop_reason.map(|reason| match reason.as_str() {
                    "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
                    "refusal" => StopReason::Refusal,
                    "tool_use" => StopReason::ToolCalls,
                    _ => StopReason::End,
                });
                self.paused = paused;
                self.stop = stop.or(self.stop);
            }
            Event::MessageStop => self.done = true,
            Event::Error { error } => return Err(failure::from_event(&error, output.hidden)),
            Event::Other => {}
        }
        Ok(self.done)
    }

    /// The stop reason and the usage come after all blocks, so only the marker can be missing.
    fn is_complete(&self) -> bool {
        self.stop.is_some() && self.counted
    }

    fn finish(self: Box<Self>, _hidden: Hidden<'_>) -> Result<Draft, ModelError> {
        if !self.done && !self.is_complete() {
            return Err(protocol(format!("the stream ended before `{MARKER}`")));
        }
        let Some(stop) = self.stop else {
            return Err(protocol("the stream ended with `message_stop` but without a `stop_reason`"));
        };
        let usage = Value::Object(self.usage);
        let details = TokenDetails {
            cached_input_tokens: count(&usage, "/cache_read_input_tokens"),
            cache_write_tokens: count(&usage, "/cache_creation_input_tokens"),
            cache_write_1h_tokens: count(&usage, "/cache_creation/ephemeral_1h_input_tokens"),
            web_searches: count(&usage, "/server_tool_use/web_search_requests"),
            ..TokenDetails::default()
        };
        // What the cache had and what it took are not among the tokens that this wire calls the input.
        let input = count(&usage, "/input_tokens")
            .saturating_add(details.cached_input_tokens)
            .saturating_add(details.cache_write_tokens);
        let tokens = Tokens { input, output: count(&usage, "/output_tokens"), details };
        let last = self.blocks.keys().next_back().copied();
        let mut parts = Vec::with_capacity(self.blocks.len());
        for (index, block) in self.blocks {
            let cut = stop == StopReason::Length && Some(index) == last;
            parts.extend(block.into_part(cut)?);
        }
        Ok(Draft { parts, stop, tokens, paused: self.paused })
    }
}

impl AnthropicReader {
    /// Counts are cumulative, so a later one replaces an earlier one.
    fn add_usage(&mut self, usage: Value) {
        if let Value::Object(usage) = usage {
            self.usage.extend(usage.into_iter().filter(|(_, count)| count.is_number() || count.is_object()));
        }
    }

    fn begin(
        &mut self,
        index: usize,
        start: Map<String, Value>,
        output: &mut Output<'_>,
    ) -> Result<(), ModelError> {
        if self.blocks.len() >= MAX_BLOCKS {
            return Err(protocol(format!("the reply has more than {MAX_BLOCKS} blocks")));
        }
        let of = |name: &str| start.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (text, thinking, signature) = (of("text"), of("thinking"), of("signature"));
        match start.get("type").and_then(Value::as_str) {
            Some("text") => output.text(&text)?,
            // All that it holds is kept, but for the text of a text.
            _ => start.values().try_for_each(|value| output.opaque(value))?,
        }
        self.blocks.insert(index, Block { start, text, json: String::new(), thinking, signature });
        Ok(())
    }

    fn add(&mut self, index: usize, delta: &Delta, output: &mut Output<'_>) -> Result<(), ModelError> {
        let Some(block) = self.blocks.get_mut(&index) else {
            return Err(protocol(format!("the endpoint continued block {index}, which has not begun")));
        };
        let (target, more) = match delta {
            Delta::Text { text } => {
                output.text(text)?;
                block.text.push_str(text);
                return Ok(());
            }
            Delta::Json { partial_json } => (&mut block.json, partial_json),
            Delta::Thinking { thinking } => (&mut block.thinking, thinking),
            Delta::Signature { signature } => (&mut block.signature, signature),
            Delta::Other => return Ok(()),
        };
        output.count(more)?;
        target.push_str(more);
        Ok(())
    }
}

impl Block {
    /// The part that it is, or none where the provider would refuse it: thinking that was cut off is not signed.
    fn into_part(self, cut: bool) -> Result<Option<RawPart>, ModelError> {
        let Self { mut start, text, json, thinking, signature } = self;
        let of = |name: &str| start.get(name).and_then(Value::as_str).map(str::to_owned);
        Ok(Some(match start.get("type").and_then(Value::as_str) {
            Some("text") => RawPart::Text(text),
            Some("tool_use") => {
                let (Some(id), Some(name)) = (of("id"), of("name")) else {
                    return Err(protocol("the reply has a call without a name or an id"));
                };
                let given =
                    start.get("input").filter(|input| input.as_object().is_some_and(|map| !map.is_empty()));
                let arguments = match given {
                    Some(input) if json.is_empty() => input.to_string(),
                    _ => json,
                };
                RawPart::Call { id, name, arguments }
            }
            Some("thinking") if cut && signature.is_empty() => return Ok(None),
            Some("thinking") => {
                start.insert("thinking".to_owned(), thinking.into());
                if !signature.is_empty() {
                    start.insert("signature".to_owned(), signature.into());
                }
                RawPart::Opaque(start.into())
            }
            _ => {
                if let Ok(input) = serde_json::from_str::<Value>(&json) {
                    start.insert("input".to_owned(), input);
                }
                RawPart::Opaque(start.into())
            }
        }))
    }
}
