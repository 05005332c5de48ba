//! Amazon Bedrock's Converse: `POST {base}/model/{model}/converse-stream`.
//!
//! One form for the models of many makers. What only some of them have goes into `additionalModelRequestFields`, where Claude
//! takes its thinking, and cache marks are set for those that are known to take them. Reasoning that is signed goes back as it
//! came, at its place; the wire refuses reasoning without a signature.

use std::borrow::Cow;
use std::collections::BTreeSet;

use dalsegno_core::{Attachment, Entry, ModelReply, OrderedJson, Reasoning, ReplyPart, ToolChoice};
use serde_json::{Map, Value, json};

use super::anthropic::{self, Thinking};
use super::body::{self, Body, Media, object};
use super::strict::Dialect;
use super::{Cache, HttpModelError, tool_files};
use crate::model::{CompletionRequest, ModelError};

mod reader;

pub(super) use self::reader::BedrockReader;

/// The name of this wire.
pub(super) const PROVIDER: &str = "bedrock";

/// What ends a stream, but for the count of its tokens.
pub(super) const MARKER: &str = "messageStop";

/// The fields that `extra` cannot set besides those that no wire lets it set.
pub(super) const RESERVED: &[&str] = &["modelId", "toolConfig", "outputConfig.textFormat"];

/// The field with what only some models take.
const FIELDS: &str = "additionalModelRequestFields";

/// The field with reasoning.
const REASONING: &str = "reasoningContent";

/// Most characters of a tool's name and of a document's.
const MAX_TOOL_NAME: usize = 64;
const MAX_DOCUMENT_NAME: usize = 200;

/// Most letters of a region.
const MAX_REGION: usize = 32;

/// What stands for a text that must not be empty, and is.
const NOTHING: &str = "(empty)";

/// What a model is told that has to answer without a call: the wire has no word for it, and wants the tools listed as long as
/// the conversation has calls.
const NO_CALLS: &str = "Do not call a tool now. Answer in words, with what you know.";

/// Whether a model is one of Anthropic's, by its name. The names of profiles of one's own do not tell.
fn is_claude(model: &str) -> bool {
    model.contains("anthropic.")
}

/// Whether a model takes cache marks; those that do not refuse them.
fn takes_marks(model: &str) -> bool {
    const WITHOUT: [&str; 5] =
        ["claude-v", "claude-instant", "claude-3-haiku", "claude-3-opus", "sonnet-20240"];
    is_claude(model) && !WITHOUT.iter().any(|old| model.contains(old))
}

/// The address in a region.
pub(super) fn base_url(region: Option<&str>) -> Result<String, HttpModelError> {
    let region = region.ok_or(HttpModelError::NoRegion)?;
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    Ok(format!("https://bedrock-runtime.{region}.{domain}"))
}

/// Refuses what cannot be a region, which is part of a host's name and of a signature.
pub(super) fn check_region(region: &str) -> Result<(), HttpModelError> {
    let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_region = (1..=MAX_REGION).contains(&region.len())
        && region.bytes().all(is_inside)
        && !region.starts_with('-')
        && !region.ends_with('-');
    is_region.then_some(()).ok_or_else(|| HttpModelError::Region { region: region.to_owned() })
}

/// The path of a model, whose name may be an ARN with `:` and `/`. All but letters, digits and `-._~` is encoded, as AWS does
/// before it signs.
pub(super) fn path(model: &str) -> String {
    let mut path = "/model/".to_owned();
    for byte in model.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => path.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => path.push(char::from(byte)),
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path.push_str("/converse-stream");
    path
}

/// Builds the body.
pub(super) fn body(
    request: &CompletionRequest,
    model: &str,
    extra: &Map<String, Value>,
    cache: Cache,
) -> Result<Body, ModelError> {
    let control = &request.settings.control;
    let lacks = [
        ("seed", control.seed.is_some()),
        ("verbosity", control.verbosity.is_some()),
        ("parallel_tool_calls", control.parallel_tool_calls.is_some()),
        ("provider_tools", !control.provider_tools.is_empty()),
    ];
    if let Some((setting, _)) = lacks.into_iter().find(|(_, is_set)| *is_set) {
        return Err(body::lacks(PROVIDER, setting));
    }
    let (mut system, mut messages) = messages(request, model)?;
    let tools = tools(request, &messages);
    if tools.is_some() && request.tool_choice == ToolChoice::None {
        system.push(json!({ "text": NO_CALLS }));
    }
    let (thinking, max_tokens) = thinking(request, model, extra)?;
    let mut output = Vec::new();
    if let Some(schema) = &request.output_schema {
        match body::answer(schema, Dialect::Anthropic) {
            (schema, true) if control.strict == Some(true) => {
                output.push(("textFormat".to_owned(), text_format(&schema)));
            }
            // Few models have it, and those that do not refuse it, so the others are told in words.
            _ => {
                system.push(json!({ "text": body::in_words(&schema.ordered()) }));
            }
        }
    }
    if let Some(mark) = mark(cache).filter(|_| takes_marks(model)) {
        if !system.is_empty() {
            system.push(mark.clone());
        }
        for end in body::ends(&messages) {
            if let Some(content) = messages[end]["content"].as_array_mut() {
                content.push(mark.clone());
            }
        }
    }
    let mut body = Body::new(json!({ "messages": messages }));
    if !system.is_empty() {
        body.set("system", system);
    }
    let inference = inference(request, max_tokens);
    if !inference.is_empty() {
        body.set("inferenceConfig", OrderedJson::Object(inference));
    }
    body.set_some("toolConfig", tools);
    if let Some(thinking) = thinking.thinking {
        body.set(FIELDS, object([("thinking", thinking.into())]));
    }
    if let Some(effort) = thinking.effort {
        output.push(("effort".to_owned(), effort.into()));
    }
    if !output.is_empty() {
        body.set("outputConfig", OrderedJson::Object(output));
    }
    body.set_some("serviceTier", control.service_tier.as_ref().map(|tier| json!({ "type": tier })));
    Ok(body)
}

/// The block that ends a prefix to keep.
fn mark(cache: Cache) -> Option<Value> {
    match cache {
        Cache::Off => None,
        Cache::FiveMinutes => Some(json!({ "cachePoint": { "type": "default" } })),
        Cache::OneHour => Some(json!({ "cachePoint": { "type": "default", "ttl": "1h" } })),
    }
}

fn text_format(schema: &OrderedJson) -> OrderedJson {
    let definition = object([("schema", schema.to_string().into()), ("name", "answer".into())]);
    object([("type", "json_schema".into()), ("structure", object([("jsonSchema", definition)]))])
}

fn inference(request: &CompletionRequest, max_tokens: Option<u64>) -> Vec<(String, OrderedJson)> {
    let (settings, control) = (&request.settings, &request.settings.control);
    let stop = (!control.stop.is_empty()).then(|| json!(control.stop));
    let fields = [
        ("maxTokens", max_tokens.map(Value::from)),
        ("temperature", settings.temperature.map(Value::from)),
        ("topP", control.top_p.map(Value::from)),
        ("stopSequences", stop),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect()
}

/// How much the model reasons, and the limit of its reply where there is one: the wire's own is the most that a model can write.
fn thinking(
    request: &CompletionRequest,
    model: &str,
    extra: &Map<String, Value>,
) -> Result<(Thinking, Option<u64>), ModelError> {
    let reasoning = request.settings.control.reasoning;
    let written = extra.get(FIELDS).and_then(|fields| fields.get("thinking"));
    let limit_in_extra = extra.get("inferenceConfig").and_then(|config| config["maxTokens"].as_u64());
    let mut thinking = anthropic::thinking(request, written, limit_in_extra);
    match reasoning {
        Some(Reasoning::MaxTokens(_)) if !is_claude(model) => {
            return Err(body::lacks(PROVIDER, "reasoning.max_tokens"));
        }
        _ if !is_claude(model) => thinking.thinking = None,
        _ => {}
    }
    let has_budget =
        thinking.thinking.as_ref().or(written).is_some_and(|thinking| thinking["budget_tokens"].is_u64());
    let is_set = request.settings.max_output_tokens.is_some() || (is_claude(model) && has_budget);
    let limit = is_set.then_some(thinking.limit);
    Ok((thinking, limit))
}

/// The tools and the choice among them; nothing where there is none.
fn tools(request: &CompletionRequest, messages: &[Value]) -> Option<OrderedJson> {
    let has_calls = || {
        let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
        blocks.into_iter().any(|block| block.get("toolUse").is_some() || block.get("toolResult").is_some())
    };
    if request.tool_choice == ToolChoice::None && !has_calls() {
        return None;
    }
    let tools = body::tools(&request.tools).map(|(name, tool)| {
        let (parameters, is_strict) = body::parameters(request, tool, Dialect::Anthropic);
        let mut spec = vec![("name".to_owned(), name.into())];
        if !tool.description.trim().is_empty() {
            spec.push(("description".to_owned(), tool.description.as_str().into()));
        }
        spec.push(("inputSchema".to_owned(), object([("json", parameters)])));
        if is_strict {
            spec.push(("strict".to_owned(), true.into()));
        }
        object([("toolSpec", OrderedJson::Object(spec))])
    });
    let tools: Vec<OrderedJson> = tools.collect();
    if tools.is_empty() {
        return None;
    }
    let mut config = vec![("tools".to_owned(), OrderedJson::Array(tools))];
    // Models that know no choice refuse each but the default, which therefore is not written.
    let choice = match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::None => None,
        ToolChoice::Required => Some(json!({ "any": {} })),
        ToolChoice::Tool(name) => Some(match body::required_tool(request, name) {
            Some(name) => json!({ "tool": { "name": name } }),
            None => json!({ "any": {} }),
        }),
    };
    config.extend(choice.map(|choice| ("toolChoice".to_owned(), choice.into())));
    Some(OrderedJson::Object(config))
}

/// The system prompt and the messages. Neighbours of one role become one message, as the wire wants roles to take turns and
/// results of parallel calls together; blank text, which it refuses, is left out.
fn messages(request: &CompletionRequest, model: &str) -> Result<(Vec<Value>, Vec<Value>), ModelError> {
    let claude = is_claude(model);
    let mut system = Vec::new();
    let mut messages: Vec<Value> = Vec::new();
    let mut names = BTreeSet::new();
    // The files of the last results that do not stand in them: behind all of them, as the wire wants these together.
    let mut behind: Vec<Value> = Vec::new();
    for entry in request.transcript.iter() {
        if !matches!(entry, Entry::ToolResult { .. } | Entry::Compaction(_)) {
            body::add(&mut messages, "content", "user", std::mem::take(&mut behind));
        }
        let (role, blocks) = match entry {
            Entry::Instructions(text) => {
                system.extend(text_block(text));
                continue;
            }
            Entry::User(text) => ("user", text_block(text).into_iter().collect()),
            Entry::Attachment(attachment) => {
                let media = body::media(request, attachment)?;
                let is_document = matches!(media, Media::Pdf { .. });
                let block = file(attachment, media, &mut names);
                let block = block.ok_or_else(|| body::unread(PROVIDER, attachment))?;
                // A message with a document must have a text, which also says the name as it is.
                let title =
                    is_document.then(|| json!({ "text": format!("The file `{}`:", attachment.name) }));
                ("user", title.into_iter().chain([block]).collect())
            }
            Entry::Assistant(reply) => ("assistant", assistant(reply, claude)),
            Entry::ToolResult { call_id, content, is_error, name, files } => {
                let content = if content.trim().is_empty() { NOTHING } else { content };
                let id = wire_id(call_id, claude);
                let mut said = vec![json!({ "text": content })];
                let files = tool_files::of_result(request, files);
                let files = files.filter_map(|(one, media)| file(one, media, &mut names));
                // No result may hold sound.
                let (inside, outside): (Vec<Value>, Vec<Value>) =
                    files.partition(|file| takes_files(model) && file.get("audio").is_none());
                said.extend(inside);
                if !outside.is_empty() {
                    behind.push(json!({ "text": tool_files::title(name, &id) }));
                    behind.extend(outside);
                }
                let mut result = json!({ "toolUseId": id, "content": said });
                if *is_error {
                    body::set(&mut result, "status", "error");
                }
                ("user", vec![json!({ "toolResult": result })])
            }
            Entry::Compaction(_) => continue,
        };
        body::add(&mut messages, "content", role, blocks);
    }
    body::add(&mut messages, "content", "user", behind);
    Ok((system, messages))
}

/// Whether results of tools may hold files: those for Claude and Nova may.
fn takes_files(model: &str) -> bool {
    is_claude(model) || model.contains("amazon.nova")
}

/// A file as a block of a message or of a result; none for what this wire does not carry.
fn file(file: &Attachment, media: Media<'_>, names: &mut BTreeSet<String>) -> Option<Value> {
    Some(match media {
        Media::Image { media_type, base64 } => {
            let format = media_type.trim_start_matches("image/");
            json!({ "image": { "format": format, "source": { "bytes": base64 } } })
        }
        Media::Pdf { base64 } => {
            let name = document_name(&file.name, names);
            json!({ "document": { "format": "pdf", "name": name, "source": { "bytes": base64 } } })
        }
        Media::Recording { media_type, base64 } => {
            let (kind, format) = match media_type {
                "audio/aac" => ("audio", "aac"),
                "audio/flac" => ("audio", "flac"),
                "audio/mpeg" => ("audio", "mp3"),
                "audio/ogg" => ("audio", "ogg"),
                "audio/wav" => ("audio", "wav"),
                "video/mp4" => ("video", "mp4"),
                "video/mpeg" => ("video", "mpeg"),
                "video/quicktime" => ("video", "mov"),
                "video/webm" => ("video", "webm"),
                _ => return None,
            };
            json!({ kind: { "format": format, "source": { "bytes": base64 } } })
        }
        Media::Text(text) => json!({ "text": text }),
    })
}

fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({ "text": text }))
}

fn assistant(reply: &ModelReply, claude: bool) -> Vec<Value> {
    let blocks = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Text(text) => text_block(text),
        ReplyPart::Call(call) => {
            let input = body::arguments_object(&call.arguments);
            let (id, name) = (wire_id(&call.call_id, claude), tool_name(&call.name));
            Some(json!({ "toolUse": { "toolUseId": id, "name": name, "input": input } }))
        }
        ReplyPart::Opaque { provider, data } => {
            (provider == PROVIDER && is_signed(data)).then(|| data.clone())
        }
    });
    let mut blocks: Vec<Value> = blocks.collect();
    // Claude refuses a message that ends with reasoning.
    while blocks.last().is_some_and(|block| block.get(REASONING).is_some()) {
        blocks.pop();
    }
    blocks
}

/// Whether reasoning may go back: it is signed, or encrypted.
fn is_signed(block: &Value) -> bool {
    let reasoning = &block[REASONING];
    reasoning["redactedContent"].is_string() || reasoning["reasoningText"]["signature"].is_string()
}

/// A call's id as this wire takes it. Claude takes fewer characters than the others, some of which know their own ids again.
fn wire_id(id: &str, claude: bool) -> Cow<'_, str> {
    body::id_of(id, if claude { b"_-" } else { b"_-.:" })
}

/// The name of a tool that a model called. One that it made up need not be a name.
fn tool_name(name: &str) -> String {
    let is_inside = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let letters = name.chars().take(MAX_TOOL_NAME).map(|letter| if is_inside(letter) { letter } else { '_' });
    let name: String = letters.collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

/// The name of a document: letters, digits, single spaces, `-`, `(`, `)`, `[` and `]`, and another one for each document.
fn document_name(name: &str, taken: &mut BTreeSet<String>) -> String {
    let is_inside = |letter: char| letter.is_ascii_alphanumeric() || "-()[]".contains(letter);
    let letters = name.chars().map(|letter| if is_inside(letter) { letter } else { ' ' });
    let letters: String = letters.take(MAX_DOCUMENT_NAME - 8).collect();
    let words: Vec<&str> = letters.split_whitespace().collect();
    let plain = if words.is_empty() { "document".to_owned() } else { words.join(" ") };
    let mut name = plain.clone();
    let mut number = 2;
    while !taken.insert(name.clone()) {
        name = format!("{plain} {number}");
        number += 1;
    }
    name
}
