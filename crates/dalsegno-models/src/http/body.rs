//! What the bodies of all wires share: tools in a stable order, attachments, arguments, schemas, and `extra`.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dalsegno_core::{
    Attachment, JsonSchema, OrderedJson, Reasoning, Tool, ToolName, Toolbox, Verbosity, digest_json,
};
use serde_json::{Map, Value, json};

use super::strict::{Dialect, strict};
use crate::model::{CompletionRequest, ModelError, ModelErrorKind};

/// The tools that a model is told of, by the names that it sees, in the order of the toolbox.
pub(super) fn tools(toolbox: &Toolbox) -> impl Iterator<Item = (String, &Tool)> {
    let allowed = toolbox.tools.iter().filter(|(name, _)| !toolbox.forbidden.contains(*name));
    allowed.map(|(name, tool)| (toolbox.model_name(name), tool))
}

/// The schema of a tool's arguments, and whether the provider enforces it: where the model's settings ask for that and the
/// provider has a form for it.
pub(super) fn parameters(request: &CompletionRequest, tool: &Tool, dialect: Dialect) -> (OrderedJson, bool) {
    let schema = tool.input_schema.ordered();
    let wanted = request.settings.control.strict == Some(true);
    match wanted.then(|| strict(&schema, dialect)).flatten() {
        Some(form) => (form, true),
        None => (schema, false),
    }
}

/// The schema of an answer, and whether the provider enforces it: where it has a form for it.
pub(super) fn answer(schema: &JsonSchema, dialect: Dialect) -> (OrderedJson, bool) {
    let schema = schema.ordered();
    match strict(&schema, dialect) {
        Some(form) => (form, true),
        None => (schema, false),
    }
}

/// What tells a model in words to answer in a form that its provider does not enforce.
pub(super) fn in_words(schema: &OrderedJson) -> String {
    format!("Answer with nothing but a JSON value that fits this JSON Schema:\n{schema}")
}

/// The name of a level of reasoning; none for a number of tokens.
pub(super) fn effort(reasoning: Reasoning) -> Option<&'static str> {
    match reasoning {
        Reasoning::None => Some("none"),
        Reasoning::Low => Some("low"),
        Reasoning::Medium => Some("medium"),
        Reasoning::High => Some("high"),
        Reasoning::MaxTokens(_) => None,
    }
}

/// The name of a verbosity.
pub(super) fn verbosity(verbosity: Verbosity) -> &'static str {
    match verbosity {
        Verbosity::Low => "low",
        Verbosity::Medium => "medium",
        Verbosity::High => "high",
    }
}

/// The tool that a model must call, by the name that it sees; none where the request has no such tool.
pub(super) fn required_tool(request: &CompletionRequest, name: &ToolName) -> Option<String> {
    let toolbox = &request.tools;
    let is_offered = toolbox.tools.contains_key(name) && !toolbox.forbidden.contains(name);
    is_offered.then(|| toolbox.model_name(name))
}

/// The error for a setting that a wire does not have.
pub(super) fn lacks(provider: &str, setting: &str) -> ModelError {
    let message = format!("the wire `{provider}` has no `{setting}`: remove it from the model's settings");
    ModelError::new(ModelErrorKind::Refused, message)
}

/// A file, as the wires have them.
pub(super) enum Media<'r> {
    Image {
        media_type: &'r str,
        base64: String,
    },
    Pdf {
        base64: String,
    },
    /// Sound or a video.
    Recording {
        media_type: &'r str,
        base64: String,
    },
    Text(String),
}

/// The error for a file that a wire does not read.
pub(super) fn unread(provider: &str, attachment: &Attachment) -> ModelError {
    let Attachment { name, media_type, .. } = attachment;
    let message = format!(
        "the attachment `{name}` is `{media_type}`, which the wire `{provider}` does not carry; ask a model over `gemini`, \
         or attach a transcript"
    );
    ModelError::new(ModelErrorKind::Refused, message)
}

/// Reads an attachment's content.
pub(super) fn media<'r>(
    request: &CompletionRequest,
    attachment: &'r Attachment,
) -> Result<Media<'r>, ModelError> {
    let refused = |why: &str| {
        ModelError::new(ModelErrorKind::Refused, format!("the attachment `{}` {why}", attachment.name))
    };
    let Some(bytes) = request.attachments.get(&attachment.digest) else {
        return Err(refused("has no content: it is not, or no longer, in the store"));
    };
    let media_type = attachment.media_type.as_str();
    let essence = media_type.split(';').next().unwrap_or(media_type).trim();
    match essence {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" => {
            Ok(Media::Image { media_type: essence, base64: STANDARD.encode(bytes) })
        }
        "application/pdf" => Ok(Media::Pdf { base64: STANDARD.encode(bytes) }),
        "audio/aac" | "audio/aiff" | "audio/flac" | "audio/mpeg" | "audio/ogg" | "audio/wav"
        | "video/mp4" | "video/mpeg" | "video/quicktime" | "video/webm" => {
            Ok(Media::Recording { media_type: essence, base64: STANDARD.encode(bytes) })
        }
        _ if essence.starts_with("text/") => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Media::Text(format!("The file `{}`:\n\n{text}", attachment.name))),
            Err(_) => Err(refused(&format!("is `{essence}` but not in UTF-8; save it in that encoding"))),
        },
        _ => Err(refused(&format!(
            "is `{media_type}`, which models do not read; attach `image/png`, `image/jpeg`, `image/gif`, `image/webp`, \
             `application/pdf` or `text/*`, or over the wire `gemini` audio or video"
        ))),
    }
}

/// A data URL.
pub(super) fn data_url(media_type: &str, base64: &str) -> String {
    format!("data:{media_type};base64,{base64}")
}

/// A call's arguments as a JSON object, which is what every endpoint accepts.
///
/// What is no object is wrapped in one, as Anthropic advises, so that the model sees what it wrote.
pub(super) fn arguments_object(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Value::Object(object),
        _ if text.trim().is_empty() => json!({}),
        _ => json!({ "INVALID_JSON": text }),
    }
}

/// The same as text: as the model wrote it, where that is an object.
pub(super) fn arguments_text(text: &str) -> Cow<'_, str> {
    match serde_json::from_str::<Map<String, Value>>(text) {
        Ok(_) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(arguments_object(text).to_string()),
    }
}

/// A call's id as OpenAI's wires take it: 1 to 64 bytes. One of another provider may be longer; it becomes its own digest, so
/// that a call and its result still agree and two ids never become one.
pub(super) fn call_id(id: &str) -> Cow<'_, str> {
    if (1..=MAX_ID_BYTES).contains(&id.len()) { Cow::Borrowed(id) } else { Cow::Owned(digest_id(id)) }
}

/// A call's id of 1 to 64 letters, digits and a few other characters. One of another provider need not be such; it becomes its
/// own digest, so that a call and its result still agree and two ids never become one.
pub(super) fn id_of<'i>(id: &'i str, others: &[u8]) -> Cow<'i, str> {
    let fits = (1..=MAX_ID_BYTES).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte));
    if fits { Cow::Borrowed(id) } else { Cow::Owned(digest_id(id)) }
}

/// What stands for a call's id that a wire does not take.
pub(super) fn digest_id(id: &str) -> String {
    format!("call_{:.32}", digest_json(&json!(id)).to_string())
}

/// Most bytes of a call's id on each wire.
pub(super) const MAX_ID_BYTES: usize = 64;

/// The messages at which a prefix ends that a provider is to keep: the last one, and the last one of the request before,
/// which it has kept.
pub(super) fn ends(messages: &[Value]) -> impl Iterator<Item = usize> + use<> {
    let reply = messages.iter().rposition(|message| message["role"] == "assistant");
    let before = reply.and_then(|reply| reply.checked_sub(1));
    [before, messages.len().checked_sub(1)].into_iter().flatten()
}

/// Adds the parts of a message, which stand in this field. Neighbours of one role become one message, as wires want that let
/// roles take turns.
pub(super) fn add(messages: &mut Vec<Value>, field: &str, role: &str, parts: Vec<Value>) {
    if parts.is_empty() {
        return;
    }
    match messages.last_mut().filter(|message| message["role"] == role).map(|last| &mut last[field]) {
        Some(Value::Array(before)) => before.extend(parts),
        _ => messages.push(json!({ "role": role, field: parts })),
    }
}

/// Sets a field of a part of a body that is an object.
pub(super) fn set(part: &mut Value, name: &str, value: impl Into<Value>) {
    part[name] = value.into();
}

/// An object with these members, in this order.
pub(super) fn object<const N: usize>(members: [(&str, OrderedJson); N]) -> OrderedJson {
    OrderedJson::object(members.into_iter().map(|(name, value)| (name.to_owned(), value)))
}

/// The body of a request. Schemas in it have the keys in the order of their authors, which models follow.
pub(super) struct Body {
    fields: Vec<(String, OrderedJson)>,
}

impl Body {
    /// A body with the fields of an object.
    pub(super) fn new(fields: Value) -> Self {
        let fields = match fields {
            Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, value.into())).collect(),
            _ => Vec::new(),
        };
        Self { fields }
    }

    /// Sets a field, which must be new.
    pub(super) fn set(&mut self, name: &str, value: impl Into<OrderedJson>) {
        debug_assert!(!self.has(name), "`{name}` is set twice");
        self.fields.push((name.to_owned(), value.into()));
    }

    /// Sets a field, which must be new, if there is a value.
    pub(super) fn set_some(&mut self, name: &str, value: Option<impl Into<OrderedJson>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Says whether a field is set.
    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, _)| field == name)
    }

    /// Sets a field that is not set yet. An object that is set takes those members that it does not have.
    pub(super) fn add(&mut self, name: &str, value: &Value) {
        let Some((_, ours)) = self.fields.iter_mut().find(|(field, _)| field == name) else {
            return self.set(name, value.clone());
        };
        let (OrderedJson::Object(ours), Value::Object(theirs)) = (ours, value) else { return };
        for (name, value) in theirs {
            if !ours.iter().any(|(member, _)| member == name) {
                ours.push((name.clone(), value.clone().into()));
            }
        }
    }

    /// The same without a field.
    pub(super) fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(field, _)| field != name);
        self
    }

    /// The body as an object.
    pub(super) fn into_json(self) -> OrderedJson {
        OrderedJson::Object(self.fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_no_object_are_wrapped_in_one() {
        assert_eq!(arguments_text(r#"{ "b": 1,  "a": 2 }"#), r#"{ "b": 1,  "a": 2 }"#);
        assert_eq!(arguments_text(" "), "{}");
        assert_eq!(arguments_text("[1]"), r#"{"INVALID_JSON":"[1]"}"#);
        assert_eq!(arguments_object(r#"{"a"#), json!({"INVALID_JSON": "{\"a"}));
    }
}
