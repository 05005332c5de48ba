//! How a run stands when the command lets go of it, and how to go on.

use std::path::Path;
use std::time::Duration;

use dalsegno_core::{Gate, Usage};
use dalsegno_runtime::{RunEnd, RunReport, SecretGiver, WaitingOperation};
use serde_json::Value;

use super::document;
use super::failure::help_line;
use super::output::{Output, Stream};
use super::screen::inert;
use super::text::{Style, brief, count, duration, short, styled, time};
use crate::exit::Exit;

/// Tells how a run stands, and says how the command ends.
pub(crate) fn tell(report: &RunReport, took: Duration, named: Option<&Path>, output: &mut Output) -> Exit {
    let (word, style, exit) = match &report.end {
        RunEnd::Ended(response) => {
            let done = response.status == dalsegno_core::Status::Completed;
            let style = if done { Style::Green } else { Style::Red };
            (document::end(response.status), style, if done { Exit::Done } else { Exit::Failed })
        }
        RunEnd::Suspended { .. } => ("suspended", Style::Yellow, Exit::Suspended),
        RunEnd::Interrupted => ("interrupted", Style::Yellow, Exit::Interrupted),
    };
    if let RunEnd::Ended(response) = &report.end
        && let Some(error) = &response.error
    {
        let word = styled(Style::Red, format_args!("error[{}]", error.code.as_str()));
        output.note(word.and(format_args!(": {}", error.message)));
        help_line(&error.help, output);
    }
    let run = short(report.run);
    let mut parts = vec![count(report.steps, "step")];
    parts.extend(usage(report.usage));
    parts.push(duration(took));
    output.note(styled(style, word).and(format_args!(" · {} · run {run}", parts.join(" · "))));
    match &report.end {
        RunEnd::Ended(_) => {}
        RunEnd::Suspended { waiting, wake_at } => {
            self::waiting(&run, waiting, named, output);
            if let Some(at) = wake_at {
                let at = time(*at);
                output
                    .note(format_args!("it waits until {at}; then resume it with `{}`", resume(&run, named)));
            } else if waiting.is_empty() {
                output.note(format_args!(
                    "it waits for a child run that another process performs; then a worker resumes it, or `{}`",
                    resume(&run, named)
                ));
            }
        }
        RunEnd::Interrupted => output.note(format_args!("resume it with `{}`", resume(&run, named))),
    }
    exit
}

/// What a run used, in parts; what it did not use is left out.
pub(crate) fn usage(usage: Usage) -> Vec<String> {
    let counts = [
        (usage.model_calls, "model call"),
        (usage.tool_calls, "tool call"),
        (usage.input_tokens + usage.output_tokens, "token"),
    ];
    counts.into_iter().filter(|(number, _)| *number > 0).map(|(number, thing)| count(number, thing)).collect()
}

/// Tells what a run waits for, with the exact commands that go on.
pub(crate) fn waiting(run: &str, waiting: &[WaitingOperation], named: Option<&Path>, output: &mut Output) {
    for operation in waiting {
        output.note("");
        question(operation, &mut output.stderr);
        ways(operation, waiting.len() > 1, &resume(run, named), output);
    }
}

/// Tells what an operation waits for, with all that a person has to know who decides it.
pub(crate) fn question(operation: &WaitingOperation, stream: &mut Stream) {
    let width = stream.terminal.width;
    stream.line(styled(Style::Bold, headline(operation, width)));
    if let Gate::InDoubt { reason } = &operation.gate {
        stream.line(format_args!("  {}", brief(reason, width.saturating_sub(2))));
        if operation.arguments.is_some() {
            stream.line("its arguments:");
        }
    }
    // To give a secret is no agreement to a call.
    if let (Some(arguments), false) = (&operation.arguments, matches!(operation.gate, Gate::Secret { .. })) {
        self::arguments(arguments, stream);
    }
}

/// Arguments in full, each of their characters to be seen: nobody can agree to what they do not see.
pub(crate) fn arguments(arguments: &Value, stream: &mut Stream) {
    for line in inert(&format!("{arguments:#}")).lines() {
        stream.line(format_args!("  {line}"));
    }
}

/// Tells the exact commands that answer an operation; `several` if it is not the only one.
fn ways(operation: &WaitingOperation, several: bool, resume: &str, output: &mut Output) {
    let id = short(operation.operation);
    // With one operation only there is nothing to choose.
    let op = if several { format!(" --op {id}") } else { String::new() };
    output.note(match &operation.gate {
        Gate::Secret { name } => match SecretGiver::of(name) {
            SecretGiver::Value { .. } => "put it into the secret store, and go on",
            SecretGiver::Toolkit { .. } | SecretGiver::Server { .. } => "give access, and go on",
        },
        Gate::Approval | Gate::Input | Gate::InDoubt { .. } | Gate::Elicitation { .. } => {
            "resume with one of"
        }
    });
    match &operation.gate {
        Gate::Approval => {
            let approve = format!("{resume} --approve --shown {}", operation.shown());
            output.note(format_args!("  {approve}"));
            // Only a tool's arguments can be edited.
            if operation.tool.is_some() {
                output.note(format_args!("  {approve} --edit FILE     with other arguments, as JSON"));
            }
            output.note(format_args!("  {resume}{op} --deny --reason \"…\""));
        }
        Gate::Input | Gate::Elicitation { .. } => {
            if let Some(schema) = &operation.schema {
                output.note("  with an answer as JSON that fits");
                for line in inert(&format!("{schema:#}")).lines() {
                    output.note(format_args!("    {line}"));
                }
            }
            output.note(format_args!("  {resume}{op} --reply \"…\""));
            output.note(format_args!("  {resume}{op} --reply @FILE"));
        }
        Gate::Secret { name } => {
            output.note(format_args!("  {}", SecretGiver::of(name)));
            output.note(format_args!("  {resume}"));
        }
        Gate::InDoubt { .. } => {
            // It may be tried again by the time that it is answered: the answer is about this attempt.
            let settle = format!("{resume} --shown {} --answer", operation.shown());
            output.note(format_args!("  {settle} done         it took place"));
            output.note(format_args!("  {settle} not-done     it did not: it starts again"));
            output.note(format_args!("  {settle} @FILE        it took place and returned this"));
        }
    }
}

/// What an operation waits for; the reason of a doubt and the arguments stand below.
fn headline(operation: &WaitingOperation, width: usize) -> String {
    match (&operation.gate, &operation.tool) {
        (Gate::Approval, Some(tool)) => format!("`{tool}` waits for approval; its arguments:"),
        (Gate::InDoubt { .. }, Some(tool)) => format!("did `{tool}` take place?"),
        // What a person agrees to is not cut.
        (Gate::Approval, None) => operation.question.clone(),
        (Gate::Input | Gate::Secret { .. } | Gate::Elicitation { .. }, Some(_)) | (_, None) => {
            brief(&operation.question, width)
        }
    }
}

/// The command that goes on with a run, as it must be typed here.
fn resume(run: &str, named: Option<&Path>) -> String {
    match named {
        Some(folder) => {
            format!("dalsegno resume {run} --workspace {}", quoted(&folder.display().to_string()))
        }
        None => format!("dalsegno resume {run}"),
    }
}

/// A path as a shell reads it.
pub(crate) fn quoted(path: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-+:".contains(character);
    if path.chars().all(plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        assert_eq!(resume("3fa9", None), "dalsegno resume 3fa9");
        assert_eq!(resume("3fa9", Some(Path::new("a/b"))), "dalsegno resume 3fa9 --workspace a/b");
        assert_eq!(
            resume("3fa9", Some(Path::new("my 'x'"))),
            r"dalsegno resume 3fa9 --workspace 'my '\''x'\'''"
        );
    }

    #[test]
    fn what_was_not_used_is_not_told() {
        assert!(usage(Usage::default()).is_empty());
        let used =
            Usage { tool_calls: 1, input_tokens: 3, output_tokens: 4, model_calls: 2, cost_nano_usd: 0 };
        assert_eq!(usage(used), ["2 model calls", "1 tool call", "7 tokens"]);
    }
}
