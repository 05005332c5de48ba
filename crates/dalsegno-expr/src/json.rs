//! Compact JSON as JavaScript prints it, with sorted keys.

use crate::error::EvalErrorKind;
use crate::meter::Meter;
use crate::number;
use crate::value_template::MAX_VALUE_DEPTH;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde_json::{Map, Value};

/// Appends a value, itself `depth` deep, as compact JSON.
///
/// Keys are sorted, since the order of a map depends on how the workspace was built, and numbers are printed
/// as JavaScript does: `1.0` is `1`.
pub(crate) fn append(value: &Value, text: &mut String, depth: usize) -> Result<(), EvalErrorKind> {
    if depth > MAX_VALUE_DEPTH {
        return Err(EvalErrorKind::TooDeep { limit: MAX_VALUE_DEPTH });
    }
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(bool) => text.push_str(if *bool { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&number_text(number)),
        Value::String(string) => append_string(string, text),
        Value::Array(items) => append_items(items, text, depth)?,
        Value::Object(fields) => append_fields(fields, text, depth)?,
    }
    Ok(())
}

/// Appends an array, as [`append`] does.
pub(crate) fn append_items(items: &[Value], text: &mut String, depth: usize) -> Result<(), EvalErrorKind> {
    text.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        append(item, text, depth + 1)?;
    }
    text.push(']');
    Ok(())
}

/// Appends an object, as [`append`] does.
pub(crate) fn append_fields(
    fields: &Map<String, Value>,
    text: &mut String,
    depth: usize,
) -> Result<(), EvalErrorKind> {
    let mut sorted: Vec<_> = fields.iter().collect();
    sorted.sort_unstable_by_key(|(name, _)| *name);
    text.push('{');
    for (index, (name, field)) in sorted.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        append_string(name, text);
        text.push(':');
        append(field, text, depth + 1)?;
    }
    text.push('}');
    Ok(())
}

/// Prints a JSON number as JavaScript does; an integer that a double cannot hold stays exact.
fn number_text(number: &serde_json::Number) -> String {
    match number::inexact_integer(number) {
        Some(integer) => integer.to_string(),
        None => number::to_text(number.as_f64().unwrap_or(f64::NAN)),
    }
}

fn append_string(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            control if control < ' ' => text.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => text.push(other),
        }
    }
    text.push('"');
}

/// Pays for copying a value, itself `depth` deep.
pub(crate) fn measure(value: &Value, meter: &mut Meter, depth: usize) -> Result<(), EvalErrorKind> {
    if depth > MAX_VALUE_DEPTH {
        return Err(EvalErrorKind::TooDeep { limit: MAX_VALUE_DEPTH });
    }
    meter.items(1)?;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        Value::String(text) => meter.text(text.len()),
        Value::Array(items) => items.iter().try_for_each(|item| measure(item, meter, depth + 1)),
        Value::Object(fields) => measure_fields(fields, meter, depth),
    }
}

/// Pays for copying an object, itself `depth` deep.
pub(crate) fn measure_fields(
    fields: &Map<String, Value>,
    meter: &mut Meter,
    depth: usize,
) -> Result<(), EvalErrorKind> {
    for (name, field) in fields {
        meter.text(name.len())?;
        measure(field, meter, depth + 1)?;
    }
    Ok(())
}
