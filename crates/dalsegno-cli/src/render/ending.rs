//! How a run stands when the command lets go of it, and how to go on.

use std::path::Path;
use std::time::Duration;

use dalsegno_core::{Gate, Request, Usage};
use dalsegno_history::{Pause, WaitingOperation};
use dalsegno_runtime::{RunEnd, RunReport, SecretGiver};
use serde_json::Value;

use super::failure::help_line;
use super::output::{Output, Stream};
use super::request;
use super::screen::inert;
use super::text::{Style, Words, count, dollars, duration, short, styled, time, wrapped};
use crate::exit::Exit;

/// Tells how a run stands, with the causes of its error, and says how the command ends.
pub(crate) fn tell(
    report: &RunReport,
    causes: &[String],
    took: Duration,
    named: Option<&Path>,
    output: &mut Output,
) -> Exit {
    let (word, style, exit) = match &report.end {
        RunEnd::Ended(response) => {
            let done = response.status == dalsegno_core::Status::Completed;
            let style = if done { Style::Green } else { Style::Red };
            (dalsegno_wire::end(response.status), style, if done { Exit::Done } else { Exit::Failed })
        }
        RunEnd::Suspended { .. } => ("suspended", Style::Yellow, Exit::Suspended),
        RunEnd::Paused { .. } => ("paused", Style::Yellow, Exit::Suspended),
        RunEnd::Interrupted => ("interrupted", Style::Yellow, Exit::Interrupted),
    };
    if let RunEnd::Ended(response) = &report.end
        && let Some(error) = &response.error
    {
        let word = styled(Style::Red, format_args!("error[{}]", error.code.as_str()));
        output.note(word.and(format_args!(": {}", error.message)));
        for cause in causes {
            output.note(Words::from("  ").and(styled(Style::Yellow, "cause")).and(format_args!(": {cause}")));
        }
        help_line(&error.help, output);
    }
    let run = short(report.run);
    let mut parts = vec![count(report.steps, "step")];
    parts.extend(usage(report.usage));
    parts.push(duration(took));
    output.note(styled(style, word).and(format_args!(" · {} · run {run}", parts.join(" · "))));
    match &report.end {
        RunEnd::Ended(_) => {}
        RunEnd::Suspended { waiting, wake_at, answer_by } => {
            self::waiting(&run, waiting, named, output);
            if let Some(at) = answer_by {
                output.note(format_args!(
                    "without an answer until {}, the answer is no: then a worker resumes it, or `{}`",
                    time(*at),
                    resume(&run, named)
                ));
            }
            if let Some(at) = wake_at.filter(|at| Some(*at) != *answer_by) {
                let at = time(at);
                output
                    .note(format_args!("it waits until {at}; then resume it with `{}`", resume(&run, named)));
            } else if waiting.is_empty() {
                output.note(format_args!(
                    "it waits for a child run that another process performs, or that is paused; then a worker resumes it, or `{}`",
                    resume(&run, named)
                ));
            }
        }
        RunEnd::Paused { pause, waiting } => {
            output.note(paused(pause));
            self::waiting(&run, waiting, named, output);
            output.note(format_args!("continue it with `{}`", resume(&run, named)));
        }
        RunEnd::Interrupted => output.note(format_args!("resume it with `{}`", resume(&run, named))),
    }
    exit
}

/// Who paused a run, and why.
pub(crate) fn paused(pause: &Pause) -> String {
    let by = pause.by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
    let reason = pause.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("it was paused{by}{reason}")
}

/// What a run used, in parts; what it did not use is left out.
pub(crate) fn usage(usage: Usage) -> Vec<String> {
    let calls = [(usage.model_calls, "model call"), (usage.tool_calls, "tool call")];
    let calls = calls.into_iter().filter(|(number, _)| *number > 0);
    let mut parts: Vec<String> = calls.map(|(number, thing)| count(number, thing)).collect();
    if usage.tokens() > 0 {
        let cached = usage.details.cached_input_tokens;
        let notes = [(cached, "cached"), (usage.estimated_tokens, "estimated")];
        let notes = notes.into_iter().filter(|(number, _)| *number > 0);
        let notes: Vec<String> = notes.map(|(number, word)| format!("{number} {word}")).collect();
        let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
        parts.push(count(usage.tokens(), "token") + &notes);
    }
    let searches = usage.details.web_searches;
    parts.extend((searches > 0).then(|| match searches {
        1 => "1 web search".to_owned(),
        many => format!("{many} web searches"),
    }));
    parts.extend(Some(cost(&usage)).filter(|_| usage.cost_nano_usd > 0));
    parts
}

/// What a run cost; with a `~` where a part of it is estimated.
pub(crate) fn cost(usage: &Usage) -> String {
    let estimated = if usage.estimated_cost_nano_usd > 0 { "~" } else { "" };
    format!("{estimated}{}", dollars(usage.cost_nano_usd))
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
    let request = request::waiting(operation);
    for line in wrapped(&headline(operation, request.as_ref()), stream.terminal.room) {
        stream.line(styled(Style::Bold, line));
    }
    if let Gate::InDoubt { reason } = &operation.gate {
        for line in wrapped(reason, stream.terminal.room.saturating_sub(2)) {
            stream.line(format_args!("  {line}"));
        }
        if operation.arguments.is_some() {
            stream.line(if operation.tool.is_some() { "its arguments:" } else { "what was sent:" });
        }
    }
    // To give a secret is no agreement to a call.
    if matches!(operation.gate, Gate::Secret { .. }) {
        return;
    }
    match (&request, &operation.arguments) {
        (Some(request), _) => request::lines(request).iter().for_each(|line| put(line, stream)),
        (None, Some(arguments)) => self::arguments(arguments, stream),
        (None, None) => {}
    }
}

/// Arguments in full, each of their characters visible: a person agrees only to what they see.
pub(crate) fn arguments(arguments: &Value, stream: &mut Stream) {
    inert(&format!("{arguments:#}")).lines().for_each(|line| put(line, stream));
}

fn put(line: &str, stream: &mut Stream) {
    stream.line(format_args!("  {line}"));
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
            output.note(format_args!("  {resume}{op} --answer \"…\""));
            output.note(format_args!("  {resume}{op} --answer @FILE"));
        }
        Gate::Secret { name } => {
            output.note(format_args!("  {}", SecretGiver::of(name)));
            output.note(format_args!("  {resume}"));
        }
        Gate::InDoubt { .. } => {
            // It may be tried again by the time that it is answered: the answer is about this attempt.
            let settle = format!("{resume} --shown {} --outcome", operation.shown());
            output.note(format_args!("  {settle} happened         it took place"));
            output.note(format_args!("  {settle} not-happened     it did not: it starts again"));
            output
                .note(format_args!("  {settle} refused:WHY      it arrived and was refused with this error"));
            output.note(format_args!("  {settle} @FILE            it took place and returned this"));
        }
    }
}

/// What an operation waits for; the reason of a doubt and the arguments are shown below.
fn headline(operation: &WaitingOperation, request: Option<&Request>) -> String {
    match (&operation.gate, &operation.tool, request) {
        (Gate::Approval, Some(tool), _) if operation.rule.is_some() => {
            let rule = operation.rule.as_deref().unwrap_or_default();
            format!("`{tool}` waits for approval by the rule {rule}; its arguments:")
        }
        (Gate::Approval, Some(tool), _) => format!("`{tool}` waits for approval; its arguments:"),
        (Gate::InDoubt { .. }, Some(tool), _) => format!("did `{tool}` take place?"),
        (Gate::InDoubt { .. }, None, Some(request)) => format!("did `{}` take place?", request.label()),
        (Gate::Approval, None, Some(request)) => format!("`{}` waits for approval:", request.label()),
        _ => operation.question.clone(),
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
    use dalsegno_core::TokenDetails;

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
        let used = Usage {
            tool_calls: 1,
            input_tokens: 3,
            output_tokens: 4,
            model_calls: 2,
            cost_nano_usd: 20_000_000,
            ..Usage::default()
        };
        assert_eq!(usage(used), ["2 model calls", "1 tool call", "7 tokens", "$0.0200"]);
        let details = TokenDetails { cached_input_tokens: 2, ..TokenDetails::default() };
        let used = Usage { details, estimated_tokens: 5, estimated_cost_nano_usd: 1, ..used };
        assert_eq!(usage(used)[2..], ["7 tokens (2 cached, 5 estimated)", "~$0.0200"]);
        let searched = |web_searches| {
            let details = TokenDetails { web_searches, ..TokenDetails::default() };
            usage(Usage { details, ..Usage::default() })
        };
        assert_eq!([searched(1), searched(2)], [["1 web search"], ["2 web searches"]]);
    }
}
