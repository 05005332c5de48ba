//! Reads the form of an answer: a JSON Schema in a file of its own, or written where it is needed.

use std::ops::Range;

use dalsegno_core::{JsonSchema, OrderedJson};
use serde_json::Value;
use toml::de::DeValue;

use super::expressions::json;
use crate::code::Code;
use crate::section::{Section, wrong_type};
use crate::settings::Paths;

/// Reads `schema`, with its keys in the order of the file; `None` where it is absent or not a schema.
pub(super) fn schema(section: &Section<'_>, paths: &Paths<'_>) -> Option<JsonSchema> {
    let value = section.get("schema")?;
    let schema = match value.get_ref() {
        DeValue::String(_) => file(section, paths)?,
        DeValue::Table(_) => {
            ordered(value.get_ref(), json(section.report, "schema", value, &mut |_, _| {})?).into()
        }
        _ => {
            return wrong_type(
                section.report,
                "schema",
                value,
                "the path of a JSON Schema, or the schema as a table",
            );
        }
    };
    check(section, value.span(), &schema)?;
    Some(schema)
}

/// A table as JSON, with its keys where they stand in the file.
fn ordered(table: &DeValue<'_>, json: Value) -> OrderedJson {
    match (table, json) {
        (DeValue::Array(items), Value::Array(values)) => OrderedJson::Array(
            items.iter().zip(values).map(|(item, value)| ordered(item.get_ref(), value)).collect(),
        ),
        (DeValue::Table(table), Value::Object(mut members)) => {
            let mut keys: Vec<_> = table.iter().collect();
            keys.sort_by_key(|(key, _)| key.span().start);
            OrderedJson::object(keys.into_iter().filter_map(|(key, value)| {
                let (name, member) = members.remove_entry(key.get_ref().as_ref())?;
                Some((name, ordered(value.get_ref(), member)))
            }))
        }
        (_, json) => json.into(),
    }
}

fn file(section: &Section<'_>, paths: &Paths<'_>) -> Option<JsonSchema> {
    let written = section.string("schema")?;
    let path = paths.file(section, "schema", "write the JSON Schema, or correct the path")?;
    let problem = match paths.place.bytes(&path, SCHEMA_BYTES_MAX) {
        Err(error) => format!("the file `{}` cannot be read: {error}", written.value),
        Ok(bytes) if bytes.len() as u64 > SCHEMA_BYTES_MAX => {
            format!("the file `{}` is larger than {} KiB", written.value, SCHEMA_BYTES_MAX >> 10)
        }
        Ok(bytes) => match serde_json::from_slice::<OrderedJson>(&bytes) {
            Ok(schema) => return Some(schema.into()),
            Err(error) => format!("the file `{}` is not JSON: {error}", written.value),
        },
    };
    section
        .report
        .error(Code::InvalidSchema, written.span, problem)
        .help("write a JSON Schema, such as `{ \"type\": \"object\", \"properties\": { … } }`");
    None
}

/// Reports what is no JSON Schema. It is compiled by the same rules as when the run checks an answer.
fn check(section: &Section<'_>, span: Range<usize>, schema: &Value) -> Option<()> {
    let built = jsonschema::options()
        .offline()
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .build(schema);
    let Err(error) = built else { return Some(()) };
    let place = error.instance_path().as_str();
    let place = if place.is_empty() { String::new() } else { format!(" at `{place}`") };
    section
        .report
        .error(Code::InvalidSchema, span, format!("this is not a JSON Schema{place}: {error}"))
        .help("see json-schema.org for the format; external references are not followed");
    None
}

/// What a run accepts as a schema.
const SCHEMA_BYTES_MAX: u64 = 256 << 10;
