//! What a script's templates read.

use std::borrow::Cow;

use dalsegno_core::{Entry, Transcript};
use dalsegno_expr::Scope;
use serde_json::{Map, Value, json};

/// The names `request`, `last` and `results`, looked up in a transcript when they are asked for.
pub(super) struct ScriptScope<'t> {
    pub(super) transcript: &'t Transcript,
}

impl Scope for ScriptScope<'_> {
    fn root(&self, name: &str) -> Option<Cow<'_, Value>> {
        let value = match name {
            "request" => self.transcript.iter().rev().find_map(|entry| match entry {
                Entry::User(text) => Some(json!({ "text": text })),
                Entry::Instructions(_)
                | Entry::Assistant(_)
                | Entry::Attachment(_)
                | Entry::Compaction(_)
                | Entry::ToolResult { .. } => None,
            })?,
            "last" => self.transcript.iter().rev().find_map(|entry| Some(result(entry)?.1))?,
            "results" => {
                let results = self.transcript.iter().filter_map(result);
                Value::Object(results.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
            }
            _ => return None,
        };
        Some(Cow::Owned(value))
    }
}

/// The names that a scope knows.
pub(super) const NAMES: [&str; 3] = ["request", "last", "results"];

/// A tool's name, as the model wrote it, and its result.
fn result(entry: &Entry) -> Option<(&str, Value)> {
    match entry {
        Entry::ToolResult { name, content, .. } => {
            let value = serde_json::from_str(content).unwrap_or_else(|_| Value::String(content.clone()));
            Some((name, value))
        }
        Entry::Instructions(_)
        | Entry::User(_)
        | Entry::Assistant(_)
        | Entry::Attachment(_)
        | Entry::Compaction(_) => None,
    }
}
