//! Documents to compiled tools, or to all their problems at once.

mod actions;
mod api_call;
mod email;
mod logic;
mod parameters;
mod reader;
mod sources;
mod tool;
mod toolkit;
mod transfer;
mod verify;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json;
use crate::limits::{MAX_DOCUMENT_DEPTH, MAX_DOCUMENT_VALUES, MAX_STRING};
use crate::path::Path;
use crate::problem::{Problem, Report, item, member};
use crate::tool::Toolkit;

pub(crate) use api_call::is_header_text;

/// What a document was compiled to.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The toolkit; `None` if there is any problem.
    pub toolkit: Option<Toolkit>,
    /// Everything that is wrong.
    pub problems: Vec<Problem>,
    /// What works, and is probably not meant.
    pub warnings: Vec<Problem>,
    /// What a document must not say any more. There is a toolkit all the same, since a run may have begun with a document
    /// of an earlier release.
    pub mistakes: Vec<Problem>,
    /// What is meant, and worth knowing.
    pub notes: Vec<Problem>,
}

/// What compiling depends on besides the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The paths of the context that hold secrets, below `user` or `tenant`; `user.auth_token` unless said otherwise.
    pub secret_paths: Vec<Path>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { secret_paths: alloc::vec![Path::of_names("user", ["auth_token"])] }
    }
}

/// Compiles a document with one tool or one toolkit.
///
/// All problems are found at once, each with its JSON pointer.
pub fn compile(document: &Value) -> Compiled {
    compile_with(document, &Settings::default())
}

/// As [`compile`], with settings.
pub fn compile_with(document: &Value, settings: &Settings) -> Compiled {
    let mut report = Report::default();
    let mut budget = MAX_DOCUMENT_VALUES;
    let toolkit = match check_size(document, "", MAX_DOCUMENT_DEPTH, &mut budget, &mut report) {
        Some(()) if report.problems.is_empty() => {
            let mut reader = reader::Reader::new(settings, report);
            let toolkit = toolkit::toolkit(&mut reader, document);
            report = reader.report;
            toolkit
        }
        _ => None,
    };
    let toolkit = toolkit.filter(|_| report.problems.is_empty());
    let Report { problems, warnings, mistakes, notes } = report;
    Compiled { toolkit, problems, warnings, mistakes, notes }
}

/// Refuses what is too deep, too much or too long, before anything else looks at it; `None` where it gives up.
fn check_size(
    value: &Value,
    pointer: &str,
    depth: usize,
    budget: &mut usize,
    report: &mut Report,
) -> Option<()> {
    if depth == 0 {
        report.problem(
            pointer,
            "this is nested too deeply",
            format!("expected at most {MAX_DOCUMENT_DEPTH} levels"),
        );
        return Some(());
    }
    let Some(left) = budget.checked_sub(1) else {
        report.problem(
            "",
            "the document is too large",
            format!("expected at most {MAX_DOCUMENT_VALUES} values"),
        );
        return None;
    };
    *budget = left;
    match value {
        Value::String(text) => check_length(text, pointer, report),
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                check_size(value, &item(pointer, index), depth - 1, budget, report)?;
            }
        }
        Value::Object(fields) => {
            for (name, field) in json::sorted(fields) {
                if name.len() > MAX_STRING {
                    check_length(name, pointer, report);
                    continue;
                }
                check_size(field, &member(pointer, name), depth - 1, budget, report)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Some(())
}

fn check_length(text: &str, pointer: &str, report: &mut Report) {
    if text.len() > MAX_STRING {
        let help: String = format!("expected at most {MAX_STRING} bytes");
        report.problem(pointer, format!("this text has {} bytes", text.len()), help);
    }
}
