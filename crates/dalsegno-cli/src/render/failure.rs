//! Errors: one style for all of them.

use std::path::Path;

use dalsegno_core::{RunId, Violation};
use dalsegno_runtime::{EngineError, OpenError, ToolboxError};
use dalsegno_workspace::Diagnostic;
use serde::Serialize;

use super::diagnostics;
use super::output::Output;
use super::text::{Style, Words, short, styled};
use crate::args::Format;
use crate::error::Error;
use crate::exit::Exit;

/// An error as a document.
#[derive(Serialize)]
struct Document<'e> {
    error: ErrorDocument<'e>,
}

/// The part that every document of a verb shares.
#[derive(Serialize)]
struct ErrorDocument<'e> {
    code: &'static str,
    message: String,
    help: Option<String>,
    /// The last words of a tool server that could not be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_wrote: Option<&'e str>,
    /// The run that it is about, where a program is to look at that one next.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    diagnostics: &'e [Diagnostic],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    violations: &'e [Violation],
}

/// Tells an error, and says how the command ends.
///
/// `root` is the workspace, once it is known.
pub(crate) fn show(error: &Error, root: Option<&Path>, format: Format, output: &mut Output) -> Exit {
    let class = error.class();
    // Programs read the ids in full.
    let message = chain(error);
    let problems = problems(error);
    if let Error::Configuration { file, problems } = error {
        diagnostics::draw_of(file, problems.text.as_deref(), &problems.diagnostics, output);
    } else if let Some(root) = root {
        diagnostics::draw(root, problems, output);
    }
    let counted =
        if problems.is_empty() { String::new() } else { format!(": {}", diagnostics::summary(problems)) };
    output.note(styled(Style::Red, "error").and(format_args!(": {}{counted}", with_short_ids(&message))));
    let violations = violations(error);
    for Violation { path, message } in violations {
        let place = if path.is_empty() { "/" } else { path };
        output.note(format_args!("  `{place}` {message}"));
    }
    let wrote = last_words(error);
    if let Some(wrote) = wrote {
        let mut word = "it last wrote:";
        for line in wrote.lines() {
            output.note(Words::from("  ").and(styled(Style::Yellow, word)).and(format_args!(" {line}")));
            word = "";
        }
    }
    if let Some(help) = &class.help {
        help_line(help, output);
    }
    let run_id = match error {
        Error::Engine(EngineError::AlreadyRunning { run }) => Some(*run),
        _ => None,
    };
    let error = ErrorDocument {
        code: class.code,
        message,
        help: class.help,
        server_wrote: wrote,
        run_id,
        diagnostics: problems,
        violations,
    };
    let document = Document { error };
    match format {
        Format::Text => {}
        Format::Json => output.document(&document),
        Format::Jsonl => output.json_line(&document),
    }
    class.exit
}

/// Writes one thing to try below a message.
pub(crate) fn help_line(help: &str, output: &mut Output) {
    output.note(Words::from("  ").and(styled(Style::Cyan, "help")).and(format_args!(": {help}")));
}

/// The message with its causes, and with ids as short as people see them everywhere.
pub(crate) fn told(error: &Error) -> String {
    with_short_ids(&chain(error))
}

/// Shortens the ids of runs and operations, which stand behind a word that announces them. Other words of 32 digits, such
/// as the name of a session, stay what they are.
pub(crate) fn with_short_ids(message: &str) -> String {
    let mut told = String::with_capacity(message.len());
    let mut announced = false;
    for word in message.split_inclusive(' ') {
        let digits = word.bytes().take_while(u8::is_ascii_hexdigit).count();
        if announced && digits == ID_DIGITS {
            told.push_str(&short(word));
            told.push_str(&word[digits..]);
        } else {
            told.push_str(word);
        }
        let name = word.trim_matches(|one: char| !one.is_ascii_alphabetic());
        announced = matches!(name, "run" | "operation" | "show" | "resume");
    }
    told
}

/// The digits of the id of a run or an operation.
const ID_DIGITS: usize = 32;

/// The message with its causes; a cause that its message repeats is left out.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let words = source.to_string();
        if !message.contains(&words) {
            message.push_str(": ");
            message.push_str(&words);
        }
        cause = source.source();
    }
    message
}

/// What a tool server that could not be started last wrote to standard error.
fn last_words(error: &Error) -> Option<&str> {
    let call = match error {
        Error::Engine(EngineError::Catalogue(call)) => call,
        Error::Toolbox(error) => match &**error {
            ToolboxError::Engine(EngineError::Catalogue(call)) => call,
            _ => return None,
        },
        _ => return None,
    };
    (!call.stderr.is_empty()).then_some(call.stderr.as_str())
}

/// The places at which arguments do not fit.
fn violations(error: &Error) -> &[Violation] {
    match error {
        Error::Toolbox(error) => match &**error {
            ToolboxError::Arguments { violations, .. } => violations,
            _ => &[],
        },
        _ => &[],
    }
}

/// The diagnostics that an error carries.
pub(crate) fn problems(error: &Error) -> &[Diagnostic] {
    match error {
        Error::Open(OpenError::Workspace { diagnostics, .. })
        | Error::Engine(
            EngineError::Open(OpenError::Workspace { diagnostics, .. })
            | EngineError::Agent { diagnostics, .. }
            | EngineError::BrokenAgent { diagnostics, .. },
        ) => diagnostics,
        Error::Configuration { problems, .. } => &problems.diagnostics,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_as_short_as_people_see_them() {
        let id = "0123456789abcdef0123456789abcdef";
        let message = format!("run {id}: see `dalsegno show {id}`; session `{id}`, file {id}{id}");
        let told =
            format!("run 0123456789ab: see `dalsegno show 0123456789ab`; session `{id}`, file {id}{id}");
        assert_eq!(with_short_ids(&message), told);
    }
}
