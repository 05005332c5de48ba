//! What differs between two values, two prompts, two requests: each place with both sides.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use dalsegno_core::{Attachment, Entry, Operation, Reading, ReplyPart, Request};

/// Most places that a comparison lists; more are of no use to a reader.
const CHANGES_MAX: usize = 20;

/// Most characters of one side.
const SIDE_MAX: usize = 160;

/// One place that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Where: a JSON Pointer below what is compared, or words such as `instructions`.
    pub path: String,
    /// What stands on the left; absent when there is nothing.
    pub left: Option<String>,
    /// What stands on the right; absent when there is nothing.
    pub right: Option<String>,
}

impl Change {
    fn new(path: impl Into<String>, left: Option<String>, right: Option<String>) -> Self {
        Self { path: path.into(), left, right }
    }

    /// Two texts, each cut to the part around their first difference.
    fn texts(path: impl Into<String>, left: &str, right: &str) -> Self {
        let same = left.char_indices().zip(right.chars()).take_while(|((_, a), b)| a == b).last();
        let same = same.map_or(0, |((index, c), _)| index + c.len_utf8());
        Self::new(path, Some(around(left, same)), Some(around(right, same)))
    }
}

/// The part of a text around a place.
fn around(text: &str, at: usize) -> String {
    const BEFORE: usize = 40;
    let start = text.floor_char_boundary(at.saturating_sub(BEFORE));
    let rest = &text[start..];
    let end = rest.char_indices().nth(SIDE_MAX).map_or(rest.len(), |(index, _)| index);
    let (head, tail) = (if start > 0 { "…" } else { "" }, if end < rest.len() { "…" } else { "" });
    format!("{head}{}{tail}", &rest[..end])
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => around(text, 0),
        value => around(&value.to_string(), 0),
    }
}

/// The places at which two values differ.
pub fn values(left: &Value, right: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    collect(String::new(), Some(left), Some(right), &mut changes);
    changes
}

fn collect(path: String, left: Option<&Value>, right: Option<&Value>, changes: &mut Vec<Change>) {
    if left == right || changes.len() >= CHANGES_MAX {
        return;
    }
    match (left, right) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let escaped = key.replace('~', "~0").replace('/', "~1");
                collect(format!("{path}/{escaped}"), a.get(key), b.get(key), changes);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                collect(format!("{path}/{index}"), a.get(index), b.get(index), changes);
            }
        }
        (Some(Value::String(a)), Some(Value::String(b))) => changes.push(Change::texts(path, a, b)),
        (left, right) => changes.push(Change::new(path, left.map(shown), right.map(shown))),
    }
}

/// The places at which what two models are sent differs.
pub(crate) fn readings(left: &Reading, right: &Reading) -> Vec<Change> {
    let settings = |reading: &Reading| {
        let settings = &reading.settings;
        json!({
            "model": settings.name,
            "temperature": settings.temperature,
            "max_output_tokens": settings.max_output_tokens,
            "output_schema": reading.schema,
        })
    };
    let mut changes = values(&settings(left), &settings(right));
    let (mut a, mut b) = (left.transcript.iter(), right.transcript.iter());
    for index in 1.. {
        let (a, b) = (a.next(), b.next());
        if (a.is_none() && b.is_none()) || changes.len() >= CHANGES_MAX {
            break;
        }
        if a == b {
            continue;
        }
        match (a, b) {
            (Some(a), Some(b)) if kind(a) == kind(b) => {
                changes.push(Change::texts(format!("message {index}, {}", kind(a)), &text(a), &text(b)));
            }
            (a, b) => {
                let side = |entry: Option<&Entry>| {
                    entry.map(|entry| around(&format!("{}: {}", kind(entry), text(entry)), 0))
                };
                changes.push(Change::new(format!("message {index}"), side(a), side(b)));
                // From here on they are different conversations.
                break;
            }
        }
    }
    changes
}

fn kind(entry: &Entry) -> &'static str {
    match entry {
        Entry::Instructions(_) => "instructions",
        Entry::User(_) => "user",
        Entry::Attachment(_) => "file",
        Entry::Assistant(_) => "assistant",
        Entry::ToolResult { .. } => "tool result",
        Entry::Compaction(_) => "compaction",
    }
}

fn text(entry: &Entry) -> String {
    match entry {
        Entry::Instructions(text) | Entry::User(text) => text.clone(),
        Entry::Attachment(attachment) => format!("{} ({})", attachment.name, attachment.media_type),
        Entry::ToolResult { name, content, files, .. } => {
            // Two pictures may differ by their content alone.
            let file = |file: &Attachment| {
                format!(" [{}, {}, {:.8}]", file.name, file.media_type, file.digest.to_string())
            };
            format!("{name}: {content}{}", files.iter().map(file).collect::<String>())
        }
        Entry::Compaction(compaction) => compaction.summary.clone().unwrap_or_default(),
        Entry::Assistant(reply) => {
            let parts = reply.parts.iter().map(|part| match part {
                ReplyPart::Text(text) => text.clone(),
                ReplyPart::Call(call) => format!("calls {} with {}", call.name, call.arguments),
                ReplyPart::Opaque { provider, .. } => format!("[{provider}]"),
            });
            parts.collect::<Vec<_>>().join(" ")
        }
    }
}

/// The places at which two requests of the same kind differ.
pub fn requests(
    left: &Operation,
    right: &Operation,
    left_reading: Option<&Reading>,
    right_reading: Option<&Reading>,
) -> Vec<Change> {
    if let (Some(left), Some(right)) = (left_reading, right_reading) {
        let changes = readings(left, right);
        if changes.is_empty() {
            // What is left of a model's request is what its settings and the tools' descriptions were.
            let words =
                |reading: &Reading| Some(format!("tools and settings of `{}`", reading.settings.name));
            return vec![Change::new("head", words(left), words(right))];
        }
        return changes;
    }
    match (left.arguments(), right.arguments()) {
        (Some(left), Some(right)) => values(left, right),
        _ => values(&payload(&left.request), &payload(&right.request)),
    }
}

/// What a request asks for, as JSON.
pub(crate) fn payload(request: &Request) -> Value {
    let json = match request {
        Request::ModelCompletion(completion) => serde_json::to_value(completion),
        Request::MemorySearch(search) => serde_json::to_value(search),
        Request::MemoryCreate(create) => serde_json::to_value(create),
        Request::MemoryTraverse(traverse) => serde_json::to_value(traverse),
        Request::ToolCall(call) => serde_json::to_value(call),
        Request::ApiCall(call) => serde_json::to_value(call),
        Request::Email(mail) => serde_json::to_value(mail),
        Request::Transfer(transfer) => serde_json::to_value(transfer),
        Request::AgentCall(call) => serde_json::to_value(call),
        Request::Input(input) => serde_json::to_value(input),
        Request::Timer(timer) => serde_json::to_value(timer),
    };
    json.unwrap_or_default()
}
