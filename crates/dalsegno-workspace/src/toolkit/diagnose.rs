//! Puts what is wrong with a document into the words and the form of all other problems.

use std::ops::Range;

use dalsegno_expr::{Expression, Template};
use dalsegno_tools::{Compiled, Problem, Toolkit};
use serde_json::Value;

use crate::code::Code;
use crate::json::JsonFile;
use crate::report::{Added, Report};

/// Reports everything that was found in a document.
pub(super) fn tell(report: &Report, file: &JsonFile<'_>, compiled: &Compiled) {
    for problem in &compiled.problems {
        if let Some((span, message)) = unread(report, file, problem) {
            explain(report.error(Code::InvalidExpression, span, message), problem);
            continue;
        }
        let code = code(file, problem);
        // A key that means nothing is shown by itself, not by its value.
        let span = match code {
            Code::UnknownKey => file.key_span(&problem.pointer),
            _ => file.span(&written(file, &problem.pointer)),
        };
        explain(report.error(code, span, problem.message.as_str()), problem);
    }
    for mistake in &compiled.mistakes {
        let span = file.span(&written(file, &mistake.pointer));
        explain(report.error(Code::InvalidTool, span, mistake.message.as_str()), mistake);
    }
    for note in &compiled.notes {
        let span = file.span(&written(file, &note.pointer));
        explain(report.note(Code::DoubtfulTool, span, note.message.as_str()), note);
    }
    for problem in &compiled.warnings {
        let span = file.span(&written(file, &problem.pointer));
        explain(report.warning(Code::DoubtfulTool, span, problem.message.as_str()), problem);
    }
}

/// The pointer as the file has it: an older form of a call is read under the names of today.
fn written(file: &JsonFile<'_>, pointer: &str) -> String {
    let older = pointer.replace("/body", "/payload").replace("/url", "/endpoint");
    let is_there = |pointer: &str| file.value().pointer(pointer).is_some();
    if !is_there(pointer) && is_there(&older) { older } else { pointer.to_owned() }
}

/// Finds the very place in a text where its template or expression cannot be read.
fn unread(report: &Report, file: &JsonFile<'_>, problem: &Problem) -> Option<(Range<usize>, String)> {
    let (message, _) = problem.message.rsplit_once(" at column ")?;
    let text = file.value().pointer(&problem.pointer)?.as_str()?;
    let error = if message.starts_with("this template does not parse") {
        Template::parse(text).err()
    } else if message.starts_with("this expression does not parse") {
        Expression::parse(text).err()
    } else {
        None
    };
    let span = report.within(&file.span(&problem.pointer), text, &error?.span);
    Some((span, message.to_owned()))
}

/// The kind of a problem, as far as its words tell it.
fn code(file: &JsonFile<'_>, problem: &Problem) -> Code {
    let message = problem.message.as_str();
    if message.contains(" has no field `") && file.value().pointer(&problem.pointer).is_some() {
        Code::UnknownKey
    } else if message.starts_with('`') && message.ends_with("` is missing") {
        Code::MissingKey
    } else if TYPES.contains(&message) {
        Code::WrongType
    } else {
        Code::InvalidTool
    }
}

fn explain(added: Added<'_>, problem: &Problem) {
    let help = problem.help.as_deref();
    match &problem.suggestion {
        Some(near) => {
            let more = help.map(|help| format!(" {help}")).unwrap_or_default();
            added.help(format!("did you mean `{near}`?{more}"));
        }
        None => match help {
            Some(expected) if expected.starts_with("expected ") => {
                added.label(expected);
            }
            Some(help) => {
                added.help(help);
            }
            None => {}
        },
    }
}

/// Reports a secret. The value is neither shown nor underlined.
pub(super) fn secret(report: &Report, file: &JsonFile<'_>, pointer: &str) {
    let (key, value) = (file.key_span(pointer), file.span(pointer));
    if report.is_concealed(&key) {
        return;
    }
    let is_member = key != value;
    let at = if is_member { key.clone() } else { value.start..value.start + 1 };
    report
        .error(Code::SecretInClear, at, "this is a secret in clear text, which version control keeps forever")
        .label("expected a reference to the secret")
        .help("name it in `secrets` and write `{{secrets.NAME}}` here; replace the secret if it was ever committed");
    report.conceal(key, value);
}

/// Reports a configuration whose schema is none, or whose defaults do not fit it.
pub(super) fn config_schema(report: &Report, file: &JsonFile<'_>, toolkit: &Toolkit) {
    let Some(schema) = toolkit.config_schema() else { return };
    let Some(validator) = validator(schema) else {
        report
            .error(Code::InvalidSchema, file.span("/config_schema"), "`config_schema` is not a JSON Schema")
            .help("give each value its own schema, such as `{ \"type\": \"string\", \"default\": \"primary\" }`");
        return;
    };
    let defaults = toolkit.config_with(&serde_json::Map::new());
    for error in validator.iter_errors(&Value::Object(defaults)) {
        let place = error.instance_path().to_string();
        // What has no default must be set by somebody else.
        if !place.is_empty() {
            let name = place.split('/').nth(1).unwrap_or_default();
            let pointers = [
                format!("/config_schema/properties/{name}/default"),
                format!("/config_schema/{name}/default"),
            ];
            let found = pointers.iter().find(|pointer| file.value().pointer(pointer).is_some());
            let span = found.map_or_else(|| file.span("/config_schema"), |pointer| file.span(pointer));
            report.error(
                Code::InvalidSchema,
                span,
                format!("the default does not match its own schema: {error}"),
            );
        }
    }
}

/// A validator by the rules of all others: no network, no files, patterns in linear time.
pub(crate) fn validator(schema: &Value) -> Option<jsonschema::Validator> {
    jsonschema::options()
        .offline()
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .build(schema)
        .ok()
}

const TYPES: &[&str] = &[
    "this is null",
    "this is a boolean",
    "this is a number",
    "this is a string",
    "this is an array",
    "this is an object",
];
