//! OpenAI Responses: `POST {base}/responses`.
//!
//! Nothing is stored on the provider's side. Reasoning items come encrypted and are sent back as they came, each at its
//! place among messages and calls. So is the `phase` of a message, which newer models want back.
//!
//! A model that does not reason refuses to be asked for encrypted reasoning, so only these are asked: one whose `extra`
//! sets `reasoning`, and OpenAI's own reasoning models at OpenAI's own address. An `include` in `extra` decides alone.
//! Reasoning that came without its content is not sent back: nobody stored what its id stands for.

use dalsegno_core::{
    Attachment, Entry, ModelReply, OrderedJson, ProviderTool, ReplyPart, StopReason, TokenDetails,
    ToolChoice, digest_json,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::{self, Body, Media, object, set};
use super::failure::{self, protocol};
use super::key::Hidden;
use super::reply::{self, Draft, Output, RawPart, Reader, Tokens, count};
use super::strict::Dialect;
use super::tool_files;
use crate::model::{CompletionRequest, ModelError};

/// The name of this wire.
pub(super) const PROVIDER: &str = "openai-responses";

/// What ends a stream.
pub(super) const MARKER: &str = "response.completed";

/// The `type` of an item that holds reasoning.
const REASONING: &str = "reasoning";

/// The `type` of an opaque part of our own, which holds the phase of the message after it.
const PHASE: &str = "dalsegno.message_phase";

/// The fields that `extra` cannot set besides those that no wire lets it set.
pub(super) const RESERVED: &[&str] =
    &["store", "background", "conversation", "previous_response_id", "prompt", "text.format"];

/// What an endpoint wants that its wire does not say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Habits {
    /// Whether encrypted reasoning is asked for.
    pub(super) encrypted: bool,
    /// Whether messages of the model go back with all fields of OpenAI's types, by which other servers check requests. OpenAI's
    /// own takes messages without an id, which it would know.
    pub(super) typed: bool,
}

/// Builds the body.
pub(super) fn body(request: &CompletionRequest, model: &str, habits: Habits) -> Result<Body, ModelError> {
    let (settings, control) = (&request.settings, &request.settings.control);
    let dialect = Dialect::of_openai(model);
    let (instructions, input) = input(request, habits.typed)?;
    let mut body = Body::new(json!({ "model": model, "input": input, "stream": true, "store": false }));
    if habits.encrypted {
        body.set("include", json!(["reasoning.encrypted_content"]));
    }
    if !instructions.is_empty() {
        body.set("instructions", instructions.join("\n\n"));
    }
    body.set_some("temperature", settings.temperature);
    body.set_some("max_output_tokens", settings.max_output_tokens);
    body.set_some("top_p", control.top_p);
    body.set_some("service_tier", control.service_tier.clone());
    if control.seed.is_some() {
        return Err(body::lacks(PROVIDER, "seed"));
    }
    if !control.stop.is_empty() {
        return Err(body::lacks(PROVIDER, "stop"));
    }
    if let Some(reasoning) = control.reasoning {
        let effort = body::effort(reasoning).ok_or_else(|| body::lacks(PROVIDER, "reasoning.max_tokens"))?;
        body.set("reasoning", object([("effort", effort.into())]));
    }
    let mut tools: Vec<OrderedJson> = body::tools(&request.tools)
        .map(|(name, tool)| {
            let (parameters, is_strict) = body::parameters(request, tool, dialect);
            object([
                ("type", "function".into()),
                ("name", name.into()),
                ("description", tool.description.as_str().into()),
                ("parameters", parameters),
                // Functions are strict by default on this wire, which refuses most schemas.
                ("strict", is_strict.into()),
            ])
        })
        .collect();
    for tool in &control.provider_tools {
        tools.push(match tool {
            ProviderTool::WebSearch => object([("type", "web_search".into())]),
            ProviderTool::CodeExecution => {
                let container = object([("type", "auto".into())]);
                object([("type", "code_interpreter".into()), ("container", container)])
            }
            ProviderTool::WebFetch => return Err(body::lacks(PROVIDER, tool.as_str())),
        });
    }
    if !tools.is_empty() {
        body.set("tools", OrderedJson::Array(tools));
        let choice = match &request.tool_choice {
            ToolChoice::Auto => json!("auto"),
            ToolChoice::None => json!("none"),
            ToolChoice::Required => json!("required"),
            ToolChoice::Tool(name) => match body::required_tool(request, name) {
                Some(name) => json!({ "type": "function", "name": name }),
                None => json!("required"),
            },
        };
        body.set("tool_choice", choice);
        body.set_some("parallel_tool_calls", control.parallel_tool_calls);
    }
    let mut text = Vec::new();
    if let Some(schema) = &request.output_schema {
        let (schema, is_strict) = body::answer(schema, dialect);
        let format = object([
            ("type", "json_schema".into()),
            ("name", "output".into()),
            ("schema", schema),
            ("strict", is_strict.into()),
        ]);
        text.push(("format".to_owned(), format));
    }
    if let Some(verbosity) = control.verbosity {
        text.push(("verbosity".to_owned(), body::verbosity(verbosity).into()));
    }
    if !text.is_empty() {
        body.set("text", OrderedJson::Object(text));
    }
    Ok(body)
}

/// Whether a model of OpenAI's own reasons, by its name: `o3`, `o4-mini`, `gpt-5.1`, but not `gpt-5-chat-latest`.
pub(super) fn is_reasoning(model: &str) -> bool {
    // A model that was tuned is named `ft:gpt-…`.
    let name = model.strip_prefix("ft:").unwrap_or(model);
    let o_series = name.strip_prefix('o').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    (o_series || name.starts_with("gpt-5")) && !name.contains("-chat")
}

fn input(request: &CompletionRequest, typed: bool) -> Result<(Vec<&str>, Vec<Value>), ModelError> {
    let mut instructions = Vec::new();
    let mut items: Vec<Value> = Vec::new();
    for entry in request.transcript.iter() {
        match entry {
            Entry::Instructions(text) => instructions.push(text.as_str()),
            Entry::User(text) => {
                let content = json!([{ "type": "input_text", "text": text }]);
                items.push(json!({ "type": "message", "role": "user", "content": content }));
            }
            Entry::Attachment(attachment) => {
                let media = body::media(request, attachment)?;
                let part = part(attachment, media).ok_or_else(|| body::unread(PROVIDER, attachment))?;
                match items.last_mut().filter(|item| item["role"] == "user").map(|item| &mut item["content"])
                {
                    Some(Value::Array(parts)) => parts.push(part),
                    _ => items.push(json!({ "type": "message", "role": "user", "content": [part] })),
                }
            }
            Entry::Assistant(reply) => assistant(reply, typed, &mut items),
            Entry::ToolResult { call_id, content, name: _, is_error: _, files } => {
                let id = body::call_id(call_id);
                let files = tool_files::of_result(request, files);
                let parts: Vec<Value> = files.filter_map(|(file, media)| part(file, media)).collect();
                let output = match parts.is_empty() {
                    true => json!(content),
                    false => {
                        let text = json!({ "type": "input_text", "text": content });
                        [text].into_iter().chain(parts).collect()
                    }
                };
                items.push(json!({ "type": "function_call_output", "call_id": id, "output": output }));
            }
            Entry::Compaction(_) => {}
        }
    }
    Ok((instructions, items))
}

/// A file as a part of a message or of a result; none for what this wire does not carry.
fn part(file: &Attachment, media: Media<'_>) -> Option<Value> {
    Some(match media {
        Media::Image { media_type, base64 } => {
            let url = body::data_url(media_type, &base64);
            json!({ "type": "input_image", "detail": "auto", "image_url": url })
        }
        Media::Pdf { base64 } => {
            let data = body::data_url("application/pdf", &base64);
            json!({ "type": "input_file", "filename": file.name, "file_data": data })
        }
        Media::Recording { .. } => return None,
        Media::Text(text) => json!({ "type": "input_text", "text": text }),
    })
}

fn assistant(reply: &ModelReply, typed: bool, items: &mut Vec<Value>) {
    let mut phase = None;
    for part in &reply.parts {
        match part {
            ReplyPart::Text(text) => {
                let mut content = json!({ "type": "output_text", "text": text });
                let mut message = json!({ "type": "message", "role": "assistant" });
                if typed {
                    set(&mut content, "annotations", json!([]));
                    let digest = digest_json(&json!([items.len(), text]));
                    set(&mut message, "id", format!("msg_{:.32}", digest.to_string()));
                    set(&mut message, "status", "completed");
                }
                set(&mut message, "content", json!([content]));
                if let Some(phase) = phase.take() {
                    set(&mut message, "phase", phase);
                }
                items.push(message);
            }
            ReplyPart::Call(call) => items.push(json!({
                "type": "function_call",
                "call_id": body::call_id(&call.call_id),
                "name": call.name,
                "arguments": body::arguments_text(&call.arguments),
            })),
            ReplyPart::Opaque { provider, data } if provider == PROVIDER => {
                if data["type"] == PHASE {
                    phase = Some(data["phase"].clone());
                } else if data["type"] != REASONING || has_content(data) {
                    items.push(data.clone());
                }
            }
            ReplyPart::Opaque { .. } => {}
        }
    }
    // The provider refuses reasoning that nothing follows.
    while items.last().is_some_and(|item| item["type"] == REASONING) {
        items.pop();
    }
}

/// Whether a reasoning item holds its reasoning, encrypted or in plain text.
fn has_content(item: &Value) -> bool {
    item["encrypted_content"].is_string() || item["content"].as_array().is_some_and(|parts| !parts.is_empty())
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Event {
    #[serde(rename = "response.output_text.delta", alias = "response.refusal.delta")]
    Text { delta: String },
    #[serde(rename = "response.function_call_arguments.delta")]
    Arguments { delta: String },
    #[serde(rename = "response.output_item.done")]
    Item { output_index: u64, item: Value },
    #[serde(rename = "response.completed", alias = "response.incomplete", alias = "response.failed")]
    End { response: Box<Response> },
    #[serde(rename = "error")]
    Error {
        #[serde(flatten)]
        error: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Response {
    status: Option<String>,
    error: Option<Value>,
    incomplete_details: Option<IncompleteDetails>,
    #[serde(default)]
    output: Vec<Value>,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct IncompleteDetails {
    reason: Option<String>,
}

/// Reads the events of a stream.
#[derive(Default)]
pub(super) struct ResponsesReader {
    items: Vec<(u64, Value)>,
    end: Option<Box<Response>>,
}

impl Reader for ResponsesReader {
    fn read(&mut self, data: &str, output: &mut Output<'_>) -> Result<bool, ModelError> {
        let event = serde_json::from_str(data)
            .map_err(|error| failure::garbage(PROVIDER, data, &error, output.hidden))?;
        match event {
            Event::Text { delta } => output.text(&delta)?,
            Event::Arguments { delta } => output.count(&delta)?,
            Event::Item { output_index, item } => {
                // Words and arguments were counted when they came; all else comes for good here.
                if !matches!(item["type"].as_str(), Some("message" | "function_call")) {
                    output.opaque(&item)?;
                }
                self.items.push((output_index, item));
            }
            Event::End { response } => {
                if let Some(error) = response.error.as_ref().filter(|error| !error.is_null()) {
                    return Err(failure::from_event(error, output.hidden));
                }
                self.end = Some(response);
                return Ok(true);
            }
            Event::Error { error } => {
                return Err(failure::from_event(error.get("error").unwrap_or(&error), output.hidden));
            }
            Event::Other => {}
        }
        Ok(false)
    }

    fn finish(mut self: Box<Self>, hidden: Hidden<'_>) -> Result<Draft, ModelError> {
        let Some(end) = self.end else {
            return Err(protocol(format!("the stream ended before `{MARKER}`")));
        };
        // Each item was sent whole when it was done; a server that does not do that has them at the end.
        self.items.sort_by_key(|(index, _)| *index);
        let mut items: Vec<Value> = self.items.into_iter().map(|(_, item)| item).collect();
        if items.is_empty() {
            items = end.output;
        }
        let reason = end.incomplete_details.and_then(|details| details.reason);
        let mut stop = match (end.status.as_deref(), reason.as_deref()) {
            (Some("incomplete"), Some("content_filter")) => StopReason::Refusal,
            (Some("incomplete"), _) => StopReason::Length,
            (Some("failed" | "cancelled"), _) => {
                return Err(protocol("the endpoint gave up on the reply without saying why"));
            }
            _ => StopReason::End,
        };
        let web_searches = items.iter().filter(|item| is_search(item)).count() as u64;
        let mut parts = Vec::with_capacity(items.len());
        for item in items {
            if read_item(item, &mut parts, hidden)? {
                stop = StopReason::Refusal;
            }
        }
        let details = TokenDetails {
            cached_input_tokens: count(&end.usage, "/input_tokens_details/cached_tokens"),
            cache_write_tokens: count(&end.usage, "/input_tokens_details/cache_write_tokens"),
            reasoning_tokens: count(&end.usage, "/output_tokens_details/reasoning_tokens"),
            web_searches,
            ..TokenDetails::default()
        };
        let (input, output) = (count(&end.usage, "/input_tokens"), count(&end.usage, "/output_tokens"));
        let tokens = Tokens { input, output, details };
        Ok(Draft { parts, stop, tokens, paused: false })
    }
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Vec<Content>,
    phase: Option<Value>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content {
    OutputText {
        text: String,
    },
    Refusal {
        refusal: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Call {
    call_id: String,
    name: String,
    #[serde(deserialize_with = "reply::arguments")]
    arguments: String,
}

/// Says whether an item is a search of the web. To open a page of what was found, and to look for a text in it, costs nothing.
fn is_search(item: &Value) -> bool {
    item["type"] == "web_search_call" && matches!(item["action"]["type"].as_str(), None | Some("search"))
}

/// Takes one output item, and says whether it is a refusal.
fn read_item(item: Value, parts: &mut Vec<RawPart>, hidden: Hidden<'_>) -> Result<bool, ModelError> {
    let unusable = |error: &serde_json::Error, item: &Value| {
        failure::garbage(PROVIDER, &item.to_string(), error, hidden)
    };
    match item["type"].as_str() {
        Some("message") => {
            let message = Message::deserialize(&item).map_err(|error| unusable(&error, &item))?;
            let mut refused = false;
            let mut text = String::new();
            for content in message.content {
                match content {
                    Content::OutputText { text: more } => text.push_str(&more),
                    Content::Refusal { refusal } => {
                        refused = true;
                        text.push_str(&refusal);
                    }
                    Content::Other => {}
                }
            }
            if let Some(phase) = message.phase.filter(|phase| phase.is_string() && !text.is_empty()) {
                parts.push(RawPart::Opaque(json!({ "type": PHASE, "phase": phase })));
            }
            parts.push(RawPart::Text(text));
            Ok(refused)
        }
        Some("function_call") => {
            let Call { call_id, name, arguments } =
                Call::deserialize(&item).map_err(|error| unusable(&error, &item))?;
            parts.push(RawPart::Call { id: call_id, name, arguments });
            Ok(false)
        }
        _ => {
            parts.push(RawPart::Opaque(item));
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_that_reason_are_known_by_their_names() {
        for name in ["o1", "o3-mini", "o4-mini-2025-04-16", "gpt-5", "gpt-5.1-codex", "ft:o4-mini:me::id"] {
            assert!(is_reasoning(name), "{name}");
        }
        for name in ["gpt-4o", "gpt-4.1-mini", "gpt-5-chat-latest", "gpt-5.1-chat-latest", "omni", "oss", ""]
        {
            assert!(!is_reasoning(name), "{name}");
        }
    }
}
