//! Gemini: `POST {base}/models/{model}:streamGenerateContent?alt=sse`.
//!
//! Signatures of the thinking stand on parts, most of them on calls, and the provider checks that each comes back on its
//! part. Here a signature is an opaque part before the part that it belongs to. It names the model: another one may refuse
//! it. In its place, models that demand signatures take a word that the provider documents for calls of other origin.

use std::borrow::Cow;

use dalsegno_core::{Entry, ModelReply, OrderedJson, ProviderTool, Reasoning, ReplyPart, ToolChoice};
use serde_json::{Map, Value, json};

use super::body::{self, Body, Media, object, set};
use super::tool_files;
use crate::model::{CompletionRequest, ModelError};

mod reader;

pub(super) use self::reader::GeminiReader;

/// The name of this wire.
pub(super) const PROVIDER: &str = "gemini";

/// What the last piece of a stream has.
pub(super) const MARKER: &str = "finishReason";

/// The header that carries the key.
pub(super) const KEY_HEADER: &str = "x-goog-api-key";

/// The fields that `extra` cannot set besides those that no wire lets it set. The wire takes both spellings of a name; only one
/// is merged.
pub(super) const RESERVED: &[&str] = &[
    "contents",
    "systemInstruction",
    "system_instruction",
    "tool_config",
    "generation_config",
    "toolConfig.functionCallingConfig",
    "generationConfig.candidateCount",
    "generationConfig.responseMimeType",
    "generationConfig.responseSchema",
    "generationConfig.responseJsonSchema",
    "generationConfig.responseFormat",
];

/// Where an opaque part of ours has the model that it is for.
const MODEL: &str = "model";

/// Where it has a part that goes back as it came.
const PART: &str = "part";

/// Where it, and a part of the wire, has a signature.
const SIGNATURE: &str = "thoughtSignature";

/// What the provider takes for the signature of a call that no model of its own signed.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// The least budget of thinking that every model takes which has one.
const MIN_BUDGET: u64 = 512;

/// The path of a model below the address: `models/gemini-2.5-pro:streamGenerateContent`. A name with a slash, such as
/// `tunedModels/mine`, is a path of its own.
pub(super) fn path(model: &str) -> Vec<String> {
    path_of(model, "streamGenerateContent")
}

/// The same for a batch.
pub(super) fn batch_path(model: &str) -> Vec<String> {
    path_of(model, "batchGenerateContent")
}

fn path_of(model: &str, method: &str) -> Vec<String> {
    let folder = if model.contains('/') { "" } else { "models/" };
    format!("{folder}{model}:{method}").split('/').map(str::to_owned).collect()
}

/// The number in `gemini-2.5-pro`, before the dot; none in `gemini-flash-latest`, and in names of others.
fn generation(model: &str) -> Option<u32> {
    let (_, version) = model.split_once("gemini-")?;
    let digits = version.bytes().take_while(u8::is_ascii_digit).count();
    version[..digits].parse().ok()
}

/// Whether a model is from before Gemini 3: it thinks within a budget, and its answers have no schema beside tools.
fn is_old(model: &str) -> bool {
    generation(model).is_some_and(|number| number < 3)
}

/// Whether a model refuses calls without signatures.
fn demands_signatures(model: &str) -> bool {
    model.contains("gemini-") && !is_old(model)
}

/// Builds the body.
pub(super) fn body(request: &CompletionRequest, model: &str) -> Result<Body, ModelError> {
    let control = &request.settings.control;
    if control.verbosity.is_some() {
        return Err(body::lacks(PROVIDER, "verbosity"));
    }
    if control.parallel_tool_calls == Some(false) {
        return Err(body::lacks(PROVIDER, "parallel_tool_calls"));
    }
    let (mut system, contents) = contents(request, model)?;
    let tools = tools(request);
    let mut config = config(request, model);
    if let Some(schema) = &request.output_schema {
        if is_old(model) && !tools.is_empty() {
            // These models take no schema of the answer beside tools, so they are told in words.
            system.push(body::in_words(&schema.ordered()));
        } else {
            config.push(("responseMimeType".to_owned(), "application/json".into()));
            config.push(("responseJsonSchema".to_owned(), schema.ordered()));
        }
    }
    let mut body = Body::new(json!({ "contents": contents }));
    if !system.is_empty() {
        let parts: Vec<Value> = system.into_iter().map(|text| json!({ "text": text })).collect();
        body.set("systemInstruction", json!({ "parts": parts }));
    }
    // Where nothing may be called, the provider's own tools are left out: the mode below is about functions alone.
    let is_free = request.tool_choice != ToolChoice::None;
    let own = control.provider_tools.iter().filter(|_| is_free).map(|tool| {
        let name = match tool {
            ProviderTool::CodeExecution => "codeExecution",
            ProviderTool::WebFetch => "urlContext",
            ProviderTool::WebSearch => "googleSearch",
        };
        object([(name, json!({}).into())])
    });
    let mut kinds: Vec<OrderedJson> = own.collect();
    if !tools.is_empty() {
        kinds.insert(0, object([("functionDeclarations", OrderedJson::Array(tools))]));
        body.set("toolConfig", object([("functionCallingConfig", choice(request).into())]));
    }
    if !kinds.is_empty() {
        body.set("tools", OrderedJson::Array(kinds));
    }
    if !config.is_empty() {
        body.set("generationConfig", OrderedJson::Object(config));
    }
    body.set_some("serviceTier", control.service_tier.clone());
    Ok(body)
}

fn tools(request: &CompletionRequest) -> Vec<OrderedJson> {
    let tools = body::tools(&request.tools).map(|(name, tool)| {
        object([
            ("name", name.into()),
            ("description", tool.description.as_str().into()),
            ("parametersJsonSchema", tool.input_schema.ordered()),
        ])
    });
    tools.collect()
}

/// Whether the model calls tools. It fits calls to their schemas in each mode but `AUTO`.
fn choice(request: &CompletionRequest) -> Value {
    let is_strict = request.settings.control.strict == Some(true);
    match &request.tool_choice {
        ToolChoice::Auto => json!({ "mode": if is_strict { "VALIDATED" } else { "AUTO" } }),
        ToolChoice::None => json!({ "mode": "NONE" }),
        ToolChoice::Required => json!({ "mode": "ANY" }),
        ToolChoice::Tool(name) => match body::required_tool(request, name) {
            Some(name) => json!({ "mode": "ANY", "allowedFunctionNames": [name] }),
            None => json!({ "mode": "ANY" }),
        },
    }
}

fn config(request: &CompletionRequest, model: &str) -> Vec<(String, OrderedJson)> {
    let (settings, control) = (&request.settings, &request.settings.control);
    let stop = (!control.stop.is_empty()).then(|| control.stop.clone().into());
    let fields: [(&str, Option<Value>); 6] = [
        ("temperature", settings.temperature.map(Into::into)),
        ("topP", control.top_p.map(Into::into)),
        ("seed", control.seed.map(Into::into)),
        ("maxOutputTokens", settings.max_output_tokens.map(Into::into)),
        ("stopSequences", stop),
        ("thinkingConfig", control.reasoning.map(|reasoning| thinking(request, model, reasoning))),
    ];
    let set = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into())));
    set.collect()
}

/// How much the model thinks: a level since Gemini 3, a budget before it. The thoughts are asked for where it thinks.
fn thinking(request: &CompletionRequest, model: &str, reasoning: Reasoning) -> Value {
    let (level, budget) = match reasoning {
        Reasoning::None => ("MINIMAL", 0),
        Reasoning::Low => ("LOW", 1024),
        Reasoning::Medium => ("MEDIUM", 8192),
        Reasoning::High => ("HIGH", 24_576),
        Reasoning::MaxTokens(budget) => ("", u64::from(budget)),
    };
    let mut thinking = match is_old(model) || level.is_empty() {
        true => json!({ "thinkingBudget": fitted(budget, request.settings.max_output_tokens) }),
        false => json!({ "thinkingLevel": level }),
    };
    if reasoning != Reasoning::None {
        set(&mut thinking, "includeThoughts", true);
    }
    thinking
}

/// A budget that leaves something for the answer: the limit of a reply counts the thinking.
fn fitted(budget: u64, limit: Option<u32>) -> u64 {
    match limit.map(u64::from) {
        Some(limit) if budget >= limit && budget > 0 => (limit / 2).max(MIN_BUDGET).min(budget),
        _ => budget,
    }
}

/// The system prompt and the contents. Neighbours of one role become one content, as the wire wants results of parallel
/// calls together; blank text is left out.
fn contents(request: &CompletionRequest, model: &str) -> Result<(Vec<String>, Vec<Value>), ModelError> {
    let mut system = Vec::new();
    let mut contents: Vec<Value> = Vec::new();
    // The files of the last results that do not stand in them: behind all of them, as the wire wants these together.
    let mut behind: Vec<Value> = Vec::new();
    for entry in request.transcript.iter() {
        if !matches!(entry, Entry::ToolResult { .. } | Entry::Compaction(_)) {
            body::add(&mut contents, "parts", "user", std::mem::take(&mut behind));
        }
        match entry {
            Entry::Instructions(text) if text.trim().is_empty() => {}
            Entry::Instructions(text) => system.push(text.clone()),
            Entry::User(text) => {
                body::add(&mut contents, "parts", "user", text_part(text).into_iter().collect());
            }
            Entry::Attachment(attachment) => {
                let part = file(body::media(request, attachment)?);
                body::add(&mut contents, "parts", "user", vec![part]);
            }
            Entry::Assistant(reply) => body::add(&mut contents, "parts", "model", assistant(reply, model)),
            Entry::ToolResult { call_id, name, content, is_error, files } => {
                let said = if *is_error { "error" } else { "output" };
                let mut response = json!({ "name": wire_name(name), "response": { said: content } });
                if let Some(id) = wire_id(call_id) {
                    set(&mut response, "id", id);
                }
                let (inside, outside): (Vec<_>, Vec<_>) =
                    tool_files::of_result(request, files).partition(|(_, media)| takes_inside(model, media));
                if !inside.is_empty() {
                    let parts = inside.into_iter().map(|(_, media)| file(media));
                    set(&mut response, "parts", parts.collect::<Vec<_>>());
                }
                if !outside.is_empty() {
                    behind.push(json!({ "text": tool_files::title(name, call_id) }));
                    behind.extend(outside.into_iter().map(|(_, media)| file(media)));
                }
                body::add(&mut contents, "parts", "user", vec![json!({ "functionResponse": response })]);
            }
            Entry::Compaction(_) => {}
        }
    }
    body::add(&mut contents, "parts", "user", behind);
    Ok((system, contents))
}

/// Whether a result of a tool may hold a file: since Gemini 3, for pictures and documents.
fn takes_inside(model: &str, media: &Media<'_>) -> bool {
    let is_taken = match media {
        Media::Image { media_type, .. } => *media_type != "image/gif",
        Media::Pdf { .. } => true,
        Media::Recording { .. } | Media::Text(_) => false,
    };
    is_taken && model.contains("gemini-") && !is_old(model)
}

fn file(media: Media<'_>) -> Value {
    match media {
        Media::Image { media_type, base64 } | Media::Recording { media_type, base64 } => {
            inline(media_type, &base64)
        }
        Media::Pdf { base64 } => inline("application/pdf", &base64),
        Media::Text(text) => json!({ "text": text }),
    }
}

fn text_part(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({ "text": text }))
}

fn inline(media_type: &str, base64: &str) -> Value {
    json!({ "inlineData": { "mimeType": media_type, "data": base64 } })
}

/// The parts of a reply, those of the model's thinking among them; nothing where it only thought.
fn assistant(reply: &ModelReply, model: &str) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut signature = None;
    for part in &reply.parts {
        let part = match part {
            ReplyPart::Text(text) if signature.is_some() => Some(json!({ "text": text })),
            ReplyPart::Text(text) => text_part(text),
            ReplyPart::Call(call) => {
                let arguments = body::arguments_object(&call.arguments);
                let mut made = json!({ "name": wire_name(&call.name), "args": arguments });
                if let Some(id) = wire_id(&call.call_id) {
                    set(&mut made, "id", id);
                }
                Some(json!({ "functionCall": made }))
            }
            ReplyPart::Opaque { provider, data } if provider == PROVIDER && data[MODEL] == model => {
                match data.get(PART) {
                    Some(part) => Some(part.clone()),
                    None => {
                        signature = data.get(SIGNATURE).cloned();
                        continue;
                    }
                }
            }
            ReplyPart::Opaque { .. } => continue,
        };
        let Some(mut part) = part else { continue };
        if let Some(signature) = signature.take() {
            set(&mut part, SIGNATURE, signature);
        }
        parts.push(part);
    }
    // Of parallel calls, the first has the signature.
    let first = parts.iter_mut().find(|part| part.get("functionCall").is_some());
    if let Some(first) = first.filter(|first| demands_signatures(model) && first.get(SIGNATURE).is_none()) {
        set(first, SIGNATURE, UNSIGNED);
    }
    if parts.iter().any(says) { parts } else { Vec::new() }
}

/// Whether a part is more than thinking.
fn says(part: &Value) -> bool {
    let is_thought = part["thought"] == true;
    let is_blank = part["text"].as_str().is_some_and(|text| text.trim().is_empty());
    !is_thought && !is_blank
}

/// A call's id, where the provider gave it: it demands no other back.
fn wire_id(id: &str) -> Option<&str> {
    let is_ours =
        id.strip_prefix("call_").and_then(|rest| rest.split_once('_')).is_some_and(|(one, other)| {
            [one, other].iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
        });
    (!is_ours && !id.is_empty()).then_some(id)
}

/// A tool's name as this wire takes it. One that another model made up need not be such.
fn wire_name(name: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins && name.len() <= body::MAX_ID_BYTES && name.chars().all(fits) {
        return Cow::Borrowed(name);
    }
    let start = if begins { "" } else { "_" };
    let name = name.chars().map(|c| if fits(c) { c } else { '_' });
    Cow::Owned(start.chars().chain(name).take(body::MAX_ID_BYTES).collect())
}

/// What is plain text of an opaque part of this wire: thoughts that are not signed.
pub(super) fn plain(data: &mut Value) -> Option<&mut String> {
    let part = data.get_mut(PART)?.as_object_mut()?;
    match part.contains_key(SIGNATURE) {
        true => None,
        false => plain_text(part),
    }
}

fn plain_text(part: &mut Map<String, Value>) -> Option<&mut String> {
    match part.get_mut("text")? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_read_from_the_name() {
        for (model, number) in [
            ("gemini-2.5-pro", Some(2)),
            ("gemini-3-flash-preview", Some(3)),
            ("publishers/google/models/gemini-2.0-flash-001", Some(2)),
            ("gemini-flash-latest", None),
            ("gemini-99999999999999", None),
            ("some-model", None),
        ] {
            assert_eq!(generation(model), number, "{model}");
        }
        assert!(is_old("gemini-2.5-flash") && !is_old("gemini-3-pro") && !is_old("gemini-flash-latest"));
        assert!(demands_signatures("gemini-flash-latest") && !demands_signatures("some-model"));
    }

    #[test]
    fn a_name_is_a_path() {
        assert_eq!(path("gemini-2.5-pro"), ["models", "gemini-2.5-pro:streamGenerateContent"]);
        assert_eq!(path("tunedModels/mine"), ["tunedModels", "mine:streamGenerateContent"]);
    }

    #[test]
    fn names_and_ids_are_those_that_the_wire_takes() {
        for (name, sent) in [
            ("disk__free", "disk__free"),
            ("a.b:c-d", "a.b:c-d"),
            ("1st", "_1st"),
            ("", "_"),
            ("löschen!", "l_schen_"),
        ] {
            assert_eq!(wire_name(name), sent);
        }
        assert_eq!(wire_name(&"x".repeat(70)).len(), 64);
        for (id, sent) in [
            ("call_0_1", None),
            ("", None),
            ("call_0_x", Some("call_0_x")),
            ("call_1", Some("call_1")),
            ("8f2b", Some("8f2b")),
        ] {
            assert_eq!(wire_id(id), sent);
        }
    }

    #[test]
    fn a_budget_leaves_something_for_the_answer() {
        assert_eq!(fitted(8192, None), 8192);
        assert_eq!(fitted(8192, Some(10_000)), 8192);
        assert_eq!(fitted(8192, Some(4000)), 2000);
        assert_eq!(fitted(8192, Some(300)), MIN_BUDGET);
        assert_eq!(fitted(0, Some(300)), 0);
    }
}
