//! What a recording keeps of a request: all that a model reads, and nothing else.

use std::borrow::Cow;

use dalsegno_core::{
    Attachment, Compaction, Digest, Entry, ModelControl, ModelName, ReplyPart, ToolChoice, digest_json,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::CompletionRequest;

/// A request as it is recorded. The operation, the attempt and the time limits do not matter to a model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    pub(super) head: Head,
    pub(super) tools: Vec<ToolView>,
    pub(super) output_schema: Option<Value>,
    /// Each entry of the transcript as an object with one key, its kind.
    pub(super) entries: Vec<Value>,
}

/// The settings of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub(super) model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) max_output_tokens: Option<u32>,
    pub(super) tool_choice: ToolChoice,
    #[serde(default, skip_serializing_if = "ModelControl::is_empty")]
    pub(super) control: ModelControl,
}

/// What a model is told of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolView {
    pub(super) name: String,
    /// The name that the model sees, where one is pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) model_name: Option<ModelName>,
    pub(super) description: String,
    pub(super) input_schema: Value,
}

impl Request {
    pub(super) fn of(request: &CompletionRequest) -> Self {
        let settings = &request.settings;
        let head = Head {
            model: settings.name.clone(),
            temperature: settings.temperature,
            max_output_tokens: settings.max_output_tokens,
            tool_choice: request.tool_choice.clone(),
            control: (*settings.control).clone(),
        };
        let allowed = request.tools.tools.iter().filter(|(name, _)| !request.tools.forbidden.contains(*name));
        let tools = allowed.map(|(name, tool)| ToolView {
            name: name.to_string(),
            model_name: request.tools.names.get(name).cloned(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.value().clone(),
        });
        Self {
            head,
            tools: tools.collect(),
            output_schema: request.output_schema.as_deref().map(|schema| schema.value().clone()),
            entries: request.transcript.iter().filter_map(view).collect(),
        }
    }

    /// The same for equal requests, in whatever order their objects keep their keys. The workspace's name of the model does
    /// not count: a recording is played under a name of its own.
    pub(super) fn digest(&self) -> Digest {
        let head = Head { model: String::new(), ..self.head.clone() };
        digest_json(&json!({
            "head": head,
            "tools": self.tools,
            "output_schema": self.output_schema,
            "entries": self.entries,
        }))
    }

    /// The number of entries at the beginning that two requests have in common.
    pub(super) fn common_entries(&self, other: &Self) -> usize {
        self.entries.iter().zip(&other.entries).take_while(|(one, other)| one == other).count()
    }
}

/// An entry as the model reads it: without validations and counts. Keys are in the order in which every map prints them.
fn view(entry: &Entry) -> Option<Value> {
    Some(match entry {
        Entry::Instructions(text) => json!({ "instructions": text }),
        Entry::User(text) => json!({ "user": text }),
        Entry::Assistant(reply) => {
            let parts = reply.parts.iter().map(|part| match part {
                ReplyPart::Text(text) => json!({ "text": text }),
                ReplyPart::Call(call) => {
                    let call = json!({ "arguments": call.arguments, "id": call.call_id, "name": call.name });
                    json!({ "call": call })
                }
                ReplyPart::Opaque { provider, data } => {
                    json!({ "opaque": { "data": data, "provider": provider } })
                }
            });
            json!({ "assistant": parts.collect::<Vec<_>>() })
        }
        Entry::Attachment(attachment) => json!({ "attachment": file(attachment) }),
        Entry::ToolResult { call_id, name, content, is_error, files } => {
            let files: Vec<Value> = files.iter().map(file).collect();
            let result = match files.is_empty() {
                true => json!({ "content": content, "id": call_id, "is_error": is_error, "name": name }),
                false => json!({
                    "content": content, "files": files, "id": call_id, "is_error": is_error, "name": name
                }),
            };
            json!({ "tool_result": result })
        }
        // A cut shows in what stands around it; the model never sees the entry itself.
        Entry::Compaction(Compaction { .. }) => return None,
    })
}

fn file(Attachment { name, media_type, digest, bytes }: &Attachment) -> Value {
    json!({ "bytes": bytes, "digest": digest, "media_type": media_type, "name": name })
}

fn file_text(file: &Value) -> String {
    let of = |name: &str| file[name].as_str().unwrap_or_default();
    format!("{}, {} bytes, {}", of("media_type"), file["bytes"], of("digest"))
}

/// What an entry is, in words, and its text.
pub(super) fn words(entry: &Value) -> (String, Cow<'_, str>) {
    let Some((kind, content)) = entry.as_object().and_then(|entry| entry.iter().next()) else {
        return ("an entry".to_owned(), Cow::Owned(entry.to_string()));
    };
    let of = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let text = Cow::Borrowed(content.as_str().unwrap_or_default());
    match kind.as_str() {
        "instructions" => ("the instructions".to_owned(), text),
        "user" => ("the user's message".to_owned(), text),
        "assistant" => {
            let parts = content.as_array().into_iter().flatten().map(|part| match part.as_object() {
                Some(part) if part.contains_key("text") => {
                    part["text"].as_str().unwrap_or_default().to_owned()
                }
                Some(part) if part.contains_key("call") => {
                    let call = &part["call"];
                    format!("(call `{}`: {} {})", of(call, "id"), of(call, "name"), of(call, "arguments"))
                }
                _ => part.to_string(),
            });
            ("the model's reply".to_owned(), Cow::Owned(parts.collect::<Vec<_>>().join(" ")))
        }
        "tool_result" => {
            let failed = if content["is_error"] == true { ", failed" } else { "" };
            let files = content["files"].as_array().into_iter().flatten();
            let files = files.map(|file| format!(", with `{}`: {}", of(file, "name"), file_text(file)));
            let files: String = files.collect();
            let text = format!("{} (call `{}`{failed}{files})", of(content, "content"), of(content, "id"));
            (format!("the result of `{}`", of(content, "name")), Cow::Owned(text))
        }
        "attachment" => (format!("the attachment `{}`", of(content, "name")), Cow::Owned(file_text(content))),
        _ => ("an entry".to_owned(), Cow::Owned(entry.to_string())),
    }
}
