//! Errors: one style for all of them.

use std::error::Error as _;
use std::path::Path;

use segno_core::Violation;
use segno_runtime::{EngineError, OpenError, ToolboxError};
use segno_workspace::Diagnostic;
use serde::Serialize;

use super::diagnostics;
use super::output::Output;
use super::text::{Style, harmless, styled};
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
    let message = chain(error);
    let problems = problems(error);
    if let Some(root) = root {
        diagnostics::draw(root, problems, output);
    }
    let error_word = styled(output.stderr.terminal.colour, Style::Red, "error").to_string();
    let counted =
        if problems.is_empty() { String::new() } else { format!(": {}", diagnostics::summary(problems)) };
    output.note(format_args!("{error_word}: {}{counted}", harmless(&message)));
    let violations = violations(error);
    for Violation { path, message } in violations {
        let place = if path.is_empty() { "/" } else { path };
        output.note(format_args!("  `{}` {}", harmless(place), harmless(message)));
    }
    if let Some(help) = &class.help {
        help_line(help, output);
    }
    let error =
        ErrorDocument { code: class.code, message, help: class.help, diagnostics: problems, violations };
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
    let word = styled(output.stderr.terminal.colour, Style::Cyan, "help").to_string();
    output.note(format_args!("  {word}: {help}"));
}

/// The message with its causes; a cause that its message repeats is left out.
fn chain(error: &Error) -> String {
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
            | EngineError::Agent { diagnostics, .. },
        ) => diagnostics,
        _ => &[],
    }
}
