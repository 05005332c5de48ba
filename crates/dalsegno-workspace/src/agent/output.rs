//! Reads the form of an answer: a JSON Schema in a file of its own, or written where it is needed.

use std::fs::File;
use std::io::Read;
use std::ops::Range;

use serde_json::Value;
use toml::de::DeValue;

use super::expressions::json;
use crate::code::Code;
use crate::section::{Section, wrong_type};
use crate::settings::Paths;

/// Reads `schema`; `None` where it is absent or not a schema.
pub(super) fn schema(section: &Section<'_>, paths: &Paths<'_>) -> Option<Value> {
    let value = section.get("schema")?;
    let schema = match value.get_ref() {
        DeValue::String(_) => file(section, paths)?,
        DeValue::Table(_) => json(section.report, "schema", value, &mut |_, _| {})?,
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

fn file(section: &Section<'_>, paths: &Paths<'_>) -> Option<Value> {
    let written = section.string("schema")?;
    let path = paths.file(section, "schema", "write the JSON Schema, or correct the path")?;
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SCHEMA_BYTES_MAX + 1).read_to_end(&mut bytes));
    let problem = match read {
        Err(error) => format!("the file `{}` cannot be read: {error}", written.value),
        Ok(_) if bytes.len() as u64 > SCHEMA_BYTES_MAX => {
            format!("the file `{}` is larger than {} KiB", written.value, SCHEMA_BYTES_MAX >> 10)
        }
        Ok(_) => match serde_json::from_slice(&bytes) {
            Ok(schema) => return Some(schema),
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
