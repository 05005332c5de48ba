//! Sizes and text of JSON values.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

/// Estimates the bytes of a value's JSON, without printing it. Text counts as it is, without escapes.
///
/// `None` where it is more than `most`, or nested more than `depth` deep.
pub(crate) fn measure(value: &Value, most: usize, depth: usize) -> Option<usize> {
    let size = match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => {
            let depth = depth.checked_sub(1)?;
            let mut size = 2;
            for item in items {
                size += 1 + measure(item, most.checked_sub(size)?, depth)?;
            }
            size
        }
        Value::Object(fields) => {
            let depth = depth.checked_sub(1)?;
            let mut size = 2;
            for (name, field) in fields {
                size += name.len() + 4;
                size += measure(field, most.checked_sub(size)?, depth)?;
            }
            size
        }
    };
    (size <= most).then_some(size)
}

/// Prints a value with sorted keys, whatever order its maps keep.
pub(crate) fn print(value: &Value) -> String {
    let mut text = String::new();
    append(value, &mut text);
    text
}

fn append(value: &Value, text: &mut String) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                append(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            for (index, (name, field)) in sorted(fields).into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                append(field, text);
            }
            text.push('}');
        }
    }
}

/// Returns the fields in the order of their names.
pub(crate) fn sorted(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_unstable_by_key(|(name, _)| *name);
    fields
}

/// Names the type of a value, as messages do.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Shortens text for a message.
pub(crate) fn excerpt(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => alloc::format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
