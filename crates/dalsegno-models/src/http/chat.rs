//! OpenAI Chat Completions: `POST {base}/chat/completions`.
//!
//! Every compatible server speaks it, each with small liberties; what is read here is what they have in common. A
//! reply counts as complete at `[DONE]`, or at the end of the body once a `finish_reason` was there: some servers leave
//! the marker out.

use std::collections::BTreeMap;

use dalsegno_core::{
    Attachment, Entry, ModelReply, OrderedJson, ReplyPart, StopReason, TokenDetails, ToolChoice,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::body::{self, Body, Media, object, set};
use super::failure::{self, protocol};
use super::key::Hidden;
use super::pieces::Pieces;
use super::reply::{self, Draft, Output, RawPart, Reader, Tokens, count};
use super::strict::Dialect;
use super::tool_files;
use crate::model::{CompletionRequest, ModelError};

/// The name of this wire.
pub(super) const PROVIDER: &str = "openai";

/// What ends a stream.
pub(super) const MARKER: &str = "[DONE]";

/// Where DeepSeek and those after it have their reasoning, and where an opaque part keeps it: plain text.
const REASONING: &str = "reasoning_content";

/// Where Ollama, Groq, Cerebras, vLLM and OpenRouter have it: plain text.
const PLAIN_REASONING: &str = "reasoning";

/// Where an opaque part keeps the reasoning that Mistral has in the content: plain text.
const THINKING: &str = "thinking";

/// The parts of an opaque part that are plain text.
pub(super) const PLAIN: [&str; 3] = [REASONING, PLAIN_REASONING, THINKING];

/// Where OpenRouter has reasoning with its signatures: a list.
const DETAILS: &str = "reasoning_details";

/// Where LiteLLM has Claude's thinking with its signatures: a list.
const BLOCKS: &str = "thinking_blocks";

/// The names of the limit of a reply; there may be only one.
pub(super) const LIMITS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// The fields that `extra` cannot set besides those that no wire lets it set.
pub(super) const RESERVED: &[&str] =
    &["response_format", "functions", "function_call", "n", "stream_options.include_usage"];

/// Most calls of one reply: a hostile index must not become memory.
const MAX_CALLS: usize = 256;

/// What an endpoint wants that its wire does not say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Habits {
    /// Which of its two names the limit of the reply has: OpenAI's newer models refuse the old one, and most compatible servers
    /// know no other.
    pub(super) completion_tokens: bool,
    /// Whether it takes `stream_options`, without which most count no tokens.
    pub(super) stream_options: bool,
    /// Whether files of a result stand in the result. OpenAI takes nothing but text there, so they follow as a message of the
    /// user; models of Mistral take images there, and refuse a message of the user behind a result.
    pub(super) files_in_results: bool,
}

/// Whether a model is one of Mistral's, by its name: Mistral, Ministral, Magistral, Devstral, Codestral and Pixtral.
pub(super) fn is_mistral(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    model.contains("stral") || model.contains("pixtral")
}

/// Builds the body.
pub(super) fn body(request: &CompletionRequest, model: &str, habits: Habits) -> Result<Body, ModelError> {
    let (settings, control) = (&request.settings, &request.settings.control);
    let dialect = Dialect::of_openai(model);
    let mut body =
        Body::new(json!({ "model": model, "messages": messages(request, habits)?, "stream": true }));
    if habits.stream_options {
        body.set("stream_options", object([("include_usage", true.into())]));
    }
    if let Some(limit) = settings.max_output_tokens {
        body.set(if habits.completion_tokens { "max_completion_tokens" } else { "max_tokens" }, limit);
    }
    body.set_some("temperature", settings.temperature);
    body.set_some("top_p", control.top_p);
    body.set_some("seed", control.seed);
    body.set_some("verbosity", control.verbosity.map(body::verbosity));
    body.set_some("service_tier", control.service_tier.clone());
    if !control.provider_tools.is_empty() {
        return Err(body::lacks(PROVIDER, "provider_tools"));
    }
    if !control.stop.is_empty() {
        body.set("stop", control.stop.clone());
    }
    if let Some(reasoning) = control.reasoning {
        let effort = body::effort(reasoning).ok_or_else(|| body::lacks(PROVIDER, "reasoning.max_tokens"))?;
        body.set("reasoning_effort", effort);
    }
    let tools: Vec<OrderedJson> = body::tools(&request.tools)
        .map(|(name, tool)| {
            let (parameters, is_strict) = body::parameters(request, tool, dialect);
            let mut function = vec![
                ("name".to_owned(), name.into()),
                ("description".to_owned(), tool.description.as_str().into()),
                ("parameters".to_owned(), parameters),
            ];
            if is_strict {
                function.push(("strict".to_owned(), true.into()));
            }
            object([("type", "function".into()), ("function", OrderedJson::Object(function))])
        })
        .collect();
    if !tools.is_empty() {
        body.set("tools", OrderedJson::Array(tools));
        let choice = match &request.tool_choice {
            ToolChoice::Auto => json!("auto"),
            ToolChoice::None => json!("none"),
            ToolChoice::Required => json!("required"),
            ToolChoice::Tool(name) => match body::required_tool(request, name) {
                Some(name) => json!({ "type": "function", "function": { "name": name } }),
                None => json!("required"),
            },
        };
        body.set("tool_choice", choice);
        body.set_some("parallel_tool_calls", control.parallel_tool_calls);
    }
    if let Some(schema) = &request.output_schema {
        let (schema, is_strict) = body::answer(schema, dialect);
        let form = object([("name", "output".into()), ("schema", schema), ("strict", is_strict.into())]);
        body.set("response_format", object([("type", "json_schema".into()), ("json_schema", form)]));
    }
    Ok(body)
}

fn messages(request: &CompletionRequest, habits: Habits) -> Result<Vec<Value>, ModelError> {
    let mut messages: Vec<Value> = Vec::new();
    // The files of the last results, which stand behind all of them.
    let mut files: Vec<Value> = Vec::new();
    for entry in request.transcript.iter() {
        if !files.is_empty() && !matches!(entry, Entry::ToolResult { .. } | Entry::Compaction(_)) {
            messages.push(json!({ "role": "user", "content": std::mem::take(&mut files) }));
        }
        match entry {
            Entry::Instructions(text) => messages.push(json!({ "role": "system", "content": text })),
            Entry::User(text) => messages.push(json!({ "role": "user", "content": text })),
            Entry::Attachment(attachment) => {
                let media = body::media(request, attachment)?;
                let part = part(attachment, media).ok_or_else(|| body::unread(PROVIDER, attachment))?;
                attach(&mut messages, part);
            }
            Entry::Assistant(reply) => messages.push(assistant(reply)),
            Entry::ToolResult { call_id, name, content, is_error: _, files: returned } => {
                let id = body::call_id(call_id);
                let returned = tool_files::of_result(request, returned);
                let mut parts: Vec<Value> = returned.filter_map(|(file, media)| part(file, media)).collect();
                let mut said = json!(content);
                if habits.files_in_results {
                    parts.retain(|part| part["type"] == "image_url");
                    if !parts.is_empty() {
                        let text = json!({ "type": "text", "text": content });
                        said = [text].into_iter().chain(std::mem::take(&mut parts)).collect();
                    }
                }
                if !parts.is_empty() {
                    files.push(json!({ "type": "text", "text": tool_files::title(name, &id) }));
                    files.append(&mut parts);
                }
                messages.push(json!({ "role": "tool", "tool_call_id": id, "content": said }));
            }
            Entry::Compaction(_) => {}
        }
    }
    if !files.is_empty() {
        messages.push(json!({ "role": "user", "content": files }));
    }
    Ok(messages)
}

/// A file as a part of a message; none for what this wire does not carry.
fn part(file: &Attachment, media: Media<'_>) -> Option<Value> {
    Some(match media {
        Media::Image { media_type, base64 } => {
            let url = body::data_url(media_type, &base64);
            json!({ "type": "image_url", "image_url": { "url": url } })
        }
        Media::Pdf { base64 } => {
            let data = body::data_url("application/pdf", &base64);
            json!({ "type": "file", "file": { "filename": file.name, "file_data": data } })
        }
        Media::Recording { media_type, base64 } => {
            // The two formats that OpenAI documents.
            let format = match media_type {
                "audio/mpeg" => "mp3",
                "audio/wav" => "wav",
                _ => return None,
            };
            json!({ "type": "input_audio", "input_audio": { "data": base64, "format": format } })
        }
        Media::Text(text) => json!({ "type": "text", "text": text }),
    })
}

/// Adds a part to the user's message that it belongs to.
fn attach(messages: &mut Vec<Value>, part: Value) {
    match messages.last_mut().filter(|message| message["role"] == "user").map(|user| &mut user["content"]) {
        Some(Value::Array(parts)) => parts.push(part),
        Some(content) => {
            let text = content.take();
            *content = match text.as_str() {
                Some("") => json!([part]),
                _ => json!([{ "type": "text", "text": text }, part]),
            };
        }
        None => messages.push(json!({ "role": "user", "content": [part] })),
    }
}

fn assistant(reply: &ModelReply) -> Value {
    let mut message = json!({ "role": "assistant" });
    let mut calls: Vec<Value> = Vec::new();
    let mut opaque: Vec<&Map<String, Value>> = Vec::new();
    for part in &reply.parts {
        match part {
            ReplyPart::Text(_) => {}
            ReplyPart::Call(call) => {
                let arguments = body::arguments_text(&call.arguments);
                let function = json!({ "name": call.name, "arguments": arguments });
                let id = body::call_id(&call.call_id);
                calls.push(json!({ "id": id, "type": "function", "function": function }));
            }
            ReplyPart::Opaque { provider, data } if provider == PROVIDER => opaque.extend(data.as_object()),
            ReplyPart::Opaque { .. } => {}
        }
    }
    let text = reply.text();
    if !text.is_empty() || calls.is_empty() {
        set(&mut message, "content", text);
    }
    let fields = || opaque.iter().flat_map(|data| data.iter());
    let has_details = fields().any(|(name, _)| name == DETAILS);
    for (name, value) in fields() {
        match name.as_str() {
            // It is signed, and belongs to the message whatever the message holds.
            DETAILS | BLOCKS => set(&mut message, name, value.clone()),
            // Where it came in the content, it belongs there.
            THINKING => {
                let thinking = json!({ "type": "thinking", "thinking": [{ "type": "text", "text": value }] });
                let text = message["content"].take();
                let text = text.as_str().filter(|text| !text.is_empty());
                let text = text.map(|text| json!({ "type": "text", "text": text }));
                set(&mut message, "content", [thinking].into_iter().chain(text).collect::<Vec<_>>());
            }
            // Servers that send reasoning need it back while tools are being called, and refuse it elsewhere. The details say
            // the same.
            REASONING | PLAIN_REASONING if !calls.is_empty() && !has_details => {
                set(&mut message, name, value.clone());
            }
            "extra_content" => {
                for (index, extra) in value.as_object().into_iter().flatten() {
                    if let Some(call) = index.parse().ok().and_then(|index: usize| calls.get_mut(index)) {
                        set(call, "extra_content", extra.clone());
                    }
                }
            }
            _ => {}
        }
    }
    if !calls.is_empty() {
        set(&mut message, "tool_calls", calls);
    }
    message
}

#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<Content>,
    refusal: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<Value>,
    reasoning_details: Option<Vec<Value>>,
    thinking_blocks: Option<Vec<Value>>,
    tool_calls: Option<Vec<CallDelta>>,
}

/// Text, or parts of which some are thinking.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart {
    Text {
        text: String,
    },
    Thinking {
        thinking: Vec<Self>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<usize>,
    id: Option<String>,
    function: Option<FunctionDelta>,
    /// Where Gemini's compatible endpoint keeps the signature of its thinking, which it wants back.
    extra_content: Option<Value>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    #[serde(default, deserialize_with = "reply::arguments")]
    arguments: String,
}

#[derive(Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
    extra_content: Option<Value>,
}

/// Reads the chunks of a stream.
#[derive(Default)]
pub(super) struct ChatReader {
    text: String,
    reasoning: String,
    plain_reasoning: String,
    thinking: String,
    details: Pieces,
    blocks: Pieces,
    calls: Vec<Call>,
    /// Where a call stands whose index another one had already.
    slots: BTreeMap<usize, usize>,
    refused: bool,
    stop: Option<StopReason>,
    tokens: Tokens,
    /// Whether a usage came with the end or after it.
    counted: bool,
    done: bool,
}

impl Reader for ChatReader {
    fn read(&mut self, data: &str, output: &mut Output<'_>) -> Result<bool, ModelError> {
        if data.trim() == MARKER {
            self.done = true;
            return Ok(true);
        }
        let chunk: Chunk = serde_json::from_str(data)
            .map_err(|error| failure::garbage(PROVIDER, data, &error, output.hidden))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(failure::from_event(&error, output.hidden));
        }
        let usage = chunk.usage.filter(Value::is_object);
        let has_usage = usage.is_some();
        if let Some(usage) = usage {
            self.tokens = tokens(&usage);
        }
        for choice in chunk.choices.into_iter().flatten().filter(|choice| choice.index == 0) {
            if let Some(delta) = choice.delta {
                self.delta(delta, output)?;
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.stop = Some(match reason.as_str() {
                    "length" => StopReason::Length,
                    "content_filter" => StopReason::Refusal,
                    "tool_calls" | "function_call" => StopReason::ToolCalls,
                    _ => StopReason::End,
                });
            }
        }
        // Servers that count as they go have a usage before the end as well.
        self.counted |= has_usage && self.stop.is_some();
        Ok(false)
    }

    /// With the end and the usage after it only the marker can be missing, which some servers leave out.
    fn is_complete(&self) -> bool {
        self.stop.is_some() && self.counted
    }

    fn finish(self: Box<Self>, _hidden: Hidden<'_>) -> Result<Draft, ModelError> {
        let stop = match self.stop {
            Some(_) if self.refused => StopReason::Refusal,
            Some(stop) => stop,
            // Some servers give no reason. With the marker the reply is whole.
            None if self.done && !(self.text.is_empty() && self.calls.is_empty()) => StopReason::End,
            None if self.done => {
                return Err(protocol("the stream ended with `[DONE]` but without a `finish_reason`"));
            }
            None => return Err(protocol(format!("the stream ended before `{MARKER}`"))),
        };
        let mut opaque = Map::new();
        let texts =
            [(REASONING, self.reasoning), (PLAIN_REASONING, self.plain_reasoning), (THINKING, self.thinking)];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            opaque.insert(name.to_owned(), text.into());
        }
        for (name, pieces) in [(DETAILS, self.details.0), (BLOCKS, self.blocks.0)] {
            if !pieces.is_empty() {
                opaque.insert(name.to_owned(), pieces.into());
            }
        }
        let extra = self.calls.iter().enumerate();
        let extra: Map<String, Value> = extra
            .filter_map(|(index, call)| Some((index.to_string(), call.extra_content.clone()?)))
            .collect();
        if !extra.is_empty() {
            opaque.insert("extra_content".to_owned(), extra.into());
        }
        let mut parts = Vec::with_capacity(self.calls.len() + 2);
        if !opaque.is_empty() {
            parts.push(RawPart::Opaque(opaque.into()));
        }
        parts.push(RawPart::Text(self.text));
        if self.calls.iter().any(|call| call.name.is_empty()) {
            return Err(protocol("the reply has a call without a name"));
        }
        parts.extend(self.calls.into_iter().map(|call| RawPart::Call {
            id: call.id,
            name: call.name,
            arguments: call.arguments,
        }));
        Ok(Draft { parts, stop, tokens: self.tokens, paused: false })
    }
}

/// The tokens of a usage. What the cache had and took, servers call by several names.
fn tokens(usage: &Value) -> Tokens {
    let first = |pointers: [&str; 2]| pointers.iter().map(|at| count(usage, at)).find(|count| *count > 0);
    let input = count(usage, "/prompt_tokens");
    // xAI and Gemini's compatible endpoint leave the reasoning out of the completion, but not out of the total.
    let output = count(usage, "/completion_tokens").max(count(usage, "/total_tokens").saturating_sub(input));
    let cached = ["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens"];
    let written = ["/prompt_tokens_details/cache_write_tokens", "/cache_creation_input_tokens"];
    let details = TokenDetails {
        cached_input_tokens: first(cached).unwrap_or(0),
        cache_write_tokens: first(written).unwrap_or(0),
        reasoning_tokens: count(usage, "/completion_tokens_details/reasoning_tokens"),
        ..TokenDetails::default()
    };
    Tokens { input, output, details }
}

impl ChatReader {
    fn delta(&mut self, delta: Delta, output: &mut Output<'_>) -> Result<(), ModelError> {
        match (delta.reasoning_content, delta.reasoning) {
            // Servers that changed the name send both for a while.
            (Some(reasoning), _) if !reasoning.is_empty() => {
                output.count(&reasoning)?;
                self.reasoning.push_str(&reasoning);
            }
            (_, Some(Value::String(reasoning))) => {
                output.count(&reasoning)?;
                self.plain_reasoning.push_str(&reasoning);
            }
            _ => {}
        }
        for (pieces, list) in
            [(&mut self.details, delta.reasoning_details), (&mut self.blocks, delta.thinking_blocks)]
        {
            list.into_iter().flatten().try_for_each(|piece| pieces.add(piece, output))?;
        }
        if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.is_empty()) {
            self.refused = true;
            output.text(&refusal)?;
            self.text.push_str(&refusal);
        }
        match delta.content {
            Some(Content::Text(text)) => self.add_text(&text, output)?,
            Some(Content::Parts(parts)) => {
                for part in parts {
                    match part {
                        ContentPart::Text { text } => self.add_text(&text, output)?,
                        ContentPart::Thinking { thinking } => {
                            for part in thinking {
                                if let ContentPart::Text { text } = part {
                                    output.count(&text)?;
                                    self.thinking.push_str(&text);
                                }
                            }
                        }
                        ContentPart::Other => {}
                    }
                }
            }
            None => {}
        }
        delta.tool_calls.into_iter().flatten().try_for_each(|call| self.call(call, output))
    }

    fn add_text(&mut self, text: &str, output: &mut Output<'_>) -> Result<(), ModelError> {
        output.text(text)?;
        self.text.push_str(text);
        Ok(())
    }

    fn call(&mut self, delta: CallDelta, output: &mut Output<'_>) -> Result<(), ModelError> {
        // Without an index, a new id begins a call and anything else goes on with the last one.
        let begins = delta.id.as_ref().is_some_and(|id| !id.is_empty()) || self.calls.is_empty();
        let index = delta.index.unwrap_or(self.calls.len() - usize::from(!begins));
        // Some servers give parallel calls one index: another id there begins another call.
        let slot = self.slots.get(&index).copied().unwrap_or(index);
        let taken = self.calls.get(slot).is_some_and(|call| {
            !call.id.is_empty() && delta.id.as_ref().is_some_and(|id| !id.is_empty() && *id != call.id)
        });
        let index = if taken { self.calls.len() } else { slot };
        if taken {
            self.slots.insert(delta.index.unwrap_or(index), index);
        }
        if index >= MAX_CALLS {
            return Err(protocol(format!(
                "the reply has a call with the index {index}, at most {MAX_CALLS} calls are read"
            )));
        }
        if index >= self.calls.len() {
            self.calls.resize_with(index + 1, Call::default);
        }
        let call = &mut self.calls[index];
        if let Some(id) = delta.id.filter(|id| !id.is_empty()) {
            output.count(&id)?;
            call.id = id;
        }
        if let Some(extra) = delta.extra_content.filter(|extra| !extra.is_null()) {
            output.opaque(&extra)?;
            call.extra_content = Some(extra);
        }
        if let Some(function) = delta.function {
            // Some servers repeat the name with every piece of the arguments.
            if let Some(name) = function.name.filter(|name| *name != call.name) {
                output.count(&name)?;
                call.name.push_str(&name);
            }
            output.count(&function.arguments)?;
            call.arguments.push_str(&function.arguments);
        }
        Ok(())
    }
}
