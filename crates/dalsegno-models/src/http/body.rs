//! What the bodies of all wires share: tools in a stable order, attachments, arguments, schemas, and `extra`.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dalsegno_core::{Attachment, Tool, Toolbox};
use serde_json::{Map, Value, json};

use crate::model::{CompletionRequest, ModelError, ModelErrorKind};

/// The tools that a model is told of, by the names that it sees, in the order of the toolbox.
pub(super) fn tools(toolbox: &Toolbox) -> impl Iterator<Item = (String, &Tool)> {
    let allowed = toolbox.tools.iter().filter(|(name, _)| !toolbox.forbidden.contains(*name));
    allowed.map(|(name, tool)| (toolbox.model_name(name), tool))
}

/// A file, as the wires have them.
pub(super) enum Media<'r> {
    Image { media_type: &'r str, base64: String },
    Pdf { base64: String },
    Text(String),
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
        _ if essence.starts_with("text/") => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Media::Text(format!("The file `{}`:\n\n{text}", attachment.name))),
            Err(_) => Err(refused(&format!("is `{essence}` but not in UTF-8; save it in that encoding"))),
        },
        _ => Err(refused(&format!(
            "is `{media_type}`, which models do not read; attach `image/png`, `image/jpeg`, `image/gif`, `image/webp`, \
             `application/pdf` or `text/*`"
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

/// Whether providers accept a schema for strictly structured output: every object closed, every property required, and
/// only keywords that all of them know. They refuse a request with any other.
pub(super) fn is_strict(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object") && is_strict_below(schema)
}

fn is_strict_below(schema: &Value) -> bool {
    let Value::Object(keywords) = schema else { return false };
    let all = |value: &Value| match value {
        Value::Object(schemas) => schemas.values().all(is_strict_below),
        Value::Array(schemas) => schemas.iter().all(is_strict_below),
        _ => false,
    };
    let known = keywords.iter().all(|(keyword, value)| match keyword.as_str() {
        "type"
        | "required"
        | "additionalProperties"
        | "enum"
        | "const"
        | "description"
        | "title"
        | "$ref"
        | "$schema" => true,
        "properties" | "$defs" | "definitions" | "anyOf" => all(value),
        "items" => is_strict_below(value),
        _ => false,
    });
    let object = keywords.contains_key("properties")
        || keywords.get("type").is_some_and(|kind| match kind {
            Value::String(kind) => kind == "object",
            Value::Array(kinds) => kinds.iter().any(|kind| kind == "object"),
            _ => false,
        });
    known && (!object || is_closed(keywords))
}

fn is_closed(keywords: &Map<String, Value>) -> bool {
    let required = keywords.get("required").and_then(Value::as_array);
    let properties = keywords.get("properties").and_then(Value::as_object);
    keywords.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.is_some_and(|properties| {
            properties.keys().all(|name| {
                required.is_some_and(|names| names.iter().any(|required| required == name.as_str()))
            })
        })
}

/// Sets a field of a body that is an object.
pub(super) fn set(body: &mut Value, name: &str, value: impl Into<Value>) {
    body[name] = value.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_schema_that_every_provider_takes_is_strict() {
        let closed = json!({
            "type": "object",
            "properties": {
                "risk": {"type": "number"},
                "causes": {"type": "array", "items": {"$ref": "#/$defs/cause"}}
            },
            "required": ["risk", "causes"],
            "additionalProperties": false,
            "$defs": {"cause": {"anyOf": [{"type": "string"}, {"type": "null"}]}}
        });
        assert!(is_strict(&closed));
        let mut optional = closed.clone();
        optional["required"] = json!(["risk"]);
        let mut open = closed.clone();
        open["additionalProperties"] = json!(true);
        let mut inner = closed.clone();
        inner["$defs"]["cause"] = json!({"type": ["object", "null"]});
        let mut bounded = closed;
        bounded["properties"]["risk"]["minimum"] = json!(0);
        for schema in [optional, open, inner, bounded, json!({"type": "string"}), json!(true)] {
            assert!(!is_strict(&schema), "{schema}");
        }
    }

    #[test]
    fn arguments_that_are_no_object_are_wrapped_in_one() {
        assert_eq!(arguments_text(r#"{ "b": 1,  "a": 2 }"#), r#"{ "b": 1,  "a": 2 }"#);
        assert_eq!(arguments_text(" "), "{}");
        assert_eq!(arguments_text("[1]"), r#"{"INVALID_JSON":"[1]"}"#);
        assert_eq!(arguments_object(r#"{"a"#), json!({"INVALID_JSON": "{\"a"}));
    }
}
