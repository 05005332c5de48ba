//! The steps of a run: what was asked for and why, and what came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use dalsegno_core::{
    Answer, Attachment, FailureCode, Gate, OperationId, Outcome, ReplyPart, Request, Timestamp, Validation,
};
use dalsegno_history::{Inspection, OperationView, StepView};
use dalsegno_models::provider_call;
use dalsegno_store::{AttemptCause, Body, Record, RunSummary};

use super::output::Stream;
use super::progress::{WITHOUT_FILES, causes, outcome_line};
use super::request::{self, value_lines};
use super::text::{self, Style, Words, brief, count, duration, gist, short, styled, time, wrapped};
use super::tool;

/// The columns before the text of a line.
const INDENT: usize = 7;

/// How much is shown of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// One line for the request and one for the outcome, cut at the width of a terminal.
    Lines,
    /// All of it.
    Full,
}

/// The records of a run, by operation.
pub(crate) struct History<'i> {
    started: Timestamp,
    is_over: bool,
    records: BTreeMap<OperationId, Vec<&'i Record>>,
}

impl<'i> History<'i> {
    /// Sorts the records of a run.
    pub(crate) fn of(inspection: &'i Inspection) -> Self {
        Self::over(&inspection.records, &inspection.summary)
    }

    /// Sorts some records of a run.
    pub(crate) fn over(some: &'i [Record], summary: &RunSummary) -> Self {
        let mut records: BTreeMap<OperationId, Vec<&Record>> = BTreeMap::new();
        for record in some {
            if let Some(operation) = record.operation {
                records.entry(operation).or_default().push(record);
            }
        }
        Self { started: summary.started_at, is_over: summary.status.is_end(), records }
    }

    /// The records of an operation, in the order of the journal.
    pub(crate) fn records(&self, operation: OperationId) -> impl DoubleEndedIterator<Item = &'i Record> {
        self.records.get(&operation).into_iter().flatten().copied()
    }

    /// The time from the start of the run to a record, such as `+0.04 s`.
    pub(crate) fn offset(&self, at: Timestamp) -> String {
        let millis = at.as_millis().saturating_sub(self.started.as_millis());
        format!("+{}", duration(Duration::from_millis(millis)))
    }

    /// The number of attempts that were made.
    pub(crate) fn attempts(&self, operation: OperationId) -> u32 {
        dalsegno_wire::attempts(self.records(operation))
    }

    /// How long an operation took from its first attempt on.
    pub(crate) fn elapsed(&self, operation: OperationId) -> Option<Duration> {
        dalsegno_wire::elapsed(self.records(operation))
    }
}

/// Shows a step; with `only`, of its operations this one and the parts of it.
pub(crate) fn step(
    view: &StepView,
    history: &History<'_>,
    detail: Detail,
    only: Option<OperationId>,
    stream: &mut Stream,
) {
    // Before the first step and after the last nothing is asked for; then the decisions speak alone.
    if view.decisions.is_empty() && view.operations.is_empty() {
        return;
    }
    match view.operations.first() {
        None => stream.line(""),
        Some(first) => {
            let at = history.records(first.operation).next().map(|record| history.offset(record.at));
            let at = at.map(|at| format!(" · {at}")).unwrap_or_default();
            let title = styled(Style::Bold, format_args!("step {}", view.step));
            stream.line(Words::from("\n").and(title).and(styled(Style::Dim, at)));
        }
    }
    for decision in view.decisions.iter().filter(|_| only.is_none()) {
        entry("why", decision, Some(Style::Dim), stream);
    }
    for one in &view.operations {
        let is_meant = only.is_none_or(|id| one.operation == id || one.parent == Some(id));
        if is_meant {
            operation(one, history, detail, stream);
        }
    }
}

fn operation(view: &OperationView, history: &History<'_>, detail: Detail, stream: &mut Stream) {
    let room = stream.terminal.room.saturating_sub(INDENT);
    let id = short(view.operation);
    // What a declarative tool asks for is a part of it.
    let word = if view.parent.is_some() { "part" } else { "ask" };
    let asked = match detail {
        Detail::Full => view.label.clone(),
        Detail::Lines => {
            let asked = format!("{} {}", view.label, request_line(&view.request));
            brief(&asked, room.saturating_sub(id.len() + 2))
        }
    };
    stream.line(Words::from(format_args!("  {word:<4} {asked}  ")).and(styled(Style::Dim, id)));
    let attempts = history.attempts(view.operation);
    if detail == Detail::Full {
        for record in history.records(view.operation) {
            if let Body::Requested { class, .. } = &record.body {
                let facts = format!("class {} · {}", tool::class(*class), time(record.at));
                stream.line(Words::from("       ").and(styled(Style::Dim, facts)));
            }
        }
        block(&request::lines(&view.request), stream);
    }
    if let Some(child) = view.child().filter(|_| attempts > 0) {
        entry("run", &format!("{} (child run)", short(child)), None, stream);
    }
    for record in history.records(view.operation) {
        happened(record, history, detail, stream);
    }
    outcome(view, history, attempts, detail, stream);
}

/// Shows what came of an operation.
fn outcome(view: &OperationView, history: &History<'_>, attempts: u32, detail: Detail, stream: &mut Stream) {
    let room = stream.terminal.room.saturating_sub(INDENT);
    let Some(outcome) = &view.outcome else {
        if !history.records(view.operation).any(|record| matches!(record.body, Body::Late { .. })) {
            let word = if history.is_over { "nothing before the run ended" } else { "nothing yet" };
            entry("got", word, None, stream);
        }
        return;
    };
    let facts = facts(outcome, history.elapsed(view.operation), attempts);
    let lines = match detail {
        Detail::Full => vec![headline(outcome)],
        Detail::Lines if is_wrong(outcome) => wrapped(&outcome_line(outcome, usize::MAX), room),
        Detail::Lines => vec![outcome_line(outcome, room.saturating_sub(text::width(&facts)))],
    };
    let (last, before) = lines.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    let word = |index: usize| if index == 0 { "  got  " } else { "       " };
    for (index, line) in before.iter().enumerate() {
        stream.line(format_args!("{}{line}", word(index)));
    }
    let line = Words::from(format_args!("{}{last}", word(before.len())));
    // Below what is broken into lines there may be no room beside the last one.
    if text::width(last) + text::width(&facts) <= room {
        stream.line(line.and(styled(Style::Dim, facts)));
    } else {
        stream.line(line);
        stream.line(Words::from("      ").and(styled(Style::Dim, facts)));
    }
    if detail == Detail::Full {
        let mut lines = Vec::new();
        content(outcome, &mut lines);
        block(&lines, stream);
    }
    if let Outcome::ToolReturned(returned) = outcome {
        for note in returned.notes() {
            let line = format!("{} {}: {}", note.level, note.action, note.text);
            let line = if detail == Detail::Full { line } else { brief(&line, room) };
            entry("log", &line, None, stream);
        }
    }
}

/// Time, tokens and attempts, behind a dot each.
fn facts(outcome: &Outcome, elapsed: Option<Duration>, attempts: u32) -> String {
    let tokens = match outcome {
        Outcome::ModelReplied(reply) => Some(reply.input_tokens + reply.output_tokens),
        _ => None,
    };
    let elapsed = elapsed.map(duration);
    let tokens = tokens.filter(|tokens| *tokens > 0).map(|tokens| count(tokens, "token"));
    let attempts = Some(attempts).filter(|attempts| *attempts > 1);
    let attempts = attempts.map(|attempts| count(attempts.into(), "attempt"));
    let facts = [elapsed, tokens, attempts].into_iter().flatten();
    facts.map(|fact| format!(" · {fact}")).collect()
}

/// Says whether an outcome is an error, which a person wants to read to its end.
fn is_wrong(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed(_) => true,
        Outcome::ToolReturned(returned) => returned.is_error,
        Outcome::AgentReturned(returned) => returned.error.is_some(),
        _ => false,
    }
}

/// The kind of an outcome whose content is shown below.
pub(crate) fn headline(outcome: &Outcome) -> String {
    match outcome {
        Outcome::ModelReplied(reply) if reply.without_files => format!("a reply, {WITHOUT_FILES}"),
        Outcome::ModelReplied(_) => "a reply".to_owned(),
        Outcome::ToolReturned(returned) if returned.is_error => "an error".to_owned(),
        Outcome::ToolReturned(_) => "a result".to_owned(),
        Outcome::ApiAnswered(response) => format!("status {}", response.status),
        Outcome::AgentReturned(returned) => format!("an answer of run {}", short(returned.run)),
        Outcome::InputGiven(_) => "an answer".to_owned(),
        Outcome::Failed(failure) => failure.code.as_str().to_owned(),
        other => outcome_line(other, usize::MAX),
    }
}

/// A file that a tool returned.
fn file_line(file: &Attachment) -> String {
    format!("file: {} ({}, {} bytes)", file.name, file.media_type, file.bytes)
}

/// All of an outcome.
pub(crate) fn content(outcome: &Outcome, lines: &mut Vec<String>) {
    let text = |text: &str, lines: &mut Vec<String>| lines.extend(text.lines().map(str::to_owned));
    match outcome {
        Outcome::ModelReplied(reply) => reply_lines(&reply.parts, lines),
        Outcome::ToolReturned(returned) => {
            match &returned.structured {
                Some(structured) => value_lines(structured, lines),
                None => text(&returned.text, lines),
            }
            lines.extend(returned.files.iter().map(file_line));
            lines.extend(causes(returned).map(|cause| format!("cause: {cause}")));
            let violations = returned.violations.iter();
            lines.extend(violations.map(|violation| format!("`{}` {}", violation.path, violation.message)));
        }
        Outcome::ApiAnswered(response) => value_lines(&response.body, lines),
        Outcome::AgentReturned(returned) => match (&returned.error, &returned.output, &returned.answer) {
            (Some(error), _, _) => {
                text(&format!("error[{}]: {}", error.code.as_str(), error.message), lines);
                text(&format!("help: {}", error.help), lines);
            }
            (None, Some(output), _) => value_lines(output, lines),
            (None, None, Some(answer)) => text(answer, lines),
            (None, None, None) => {}
        },
        Outcome::InputGiven(value) => value_lines(value, lines),
        Outcome::Failed(failure) => {
            text(&failure.message, lines);
            text(failure.detail.as_deref().unwrap_or_default(), lines);
            let violations = failure.violations.iter();
            lines.extend(violations.map(|violation| format!("`{}` {}", violation.path, violation.message)));
        }
        Outcome::MemoryFound(hits) => {
            for hit in hits {
                text(&format!("{:.2} {}: {}", hit.score, hit.entity, hit.text), lines);
            }
        }
        Outcome::MemoryTraversed(walked) => {
            value_lines(&serde_json::to_value(walked).unwrap_or_default(), lines);
        }
        Outcome::MemoryCreated(_)
        | Outcome::EmailSent(_)
        | Outcome::TransferRequested
        | Outcome::TimerFired => {}
    }
}

/// What a model said, and the calls that it wants.
pub(crate) fn reply_lines(parts: &[ReplyPart], lines: &mut Vec<String>) {
    for part in parts {
        match part {
            ReplyPart::Text(text) => lines.extend(text.lines().map(str::to_owned)),
            ReplyPart::Call(call) => match serde_json::from_str(&call.arguments) {
                Ok(arguments @ serde_json::Value::Object(_)) => {
                    lines.push(format!("calls {}", call.name));
                    value_lines(&arguments, lines);
                }
                Ok(_) | Err(_) => lines.push(format!("calls {} {}", call.name, call.arguments)),
            },
            ReplyPart::Opaque { provider, .. } => match provider_call(part) {
                Some(call) => {
                    lines.push(format!("the provider ran {}", call.tool));
                    value_lines(call.input, lines);
                }
                None => lines.push(format!("(content that only {provider} reads, such as its reasoning)")),
            },
        }
    }
}

/// Shows what a record says of the course of an operation.
pub(crate) fn happened(record: &Record, history: &History<'_>, detail: Detail, stream: &mut Stream) {
    let (word, told) = match &record.body {
        Body::Attempted { attempt, cause, reason, .. } if detail == Detail::Full || reason.is_some() => {
            ("try", format!("attempt {attempt}{}", because(cause, reason.as_deref())))
        }
        Body::Waiting { gate } => match gate_line(gate, detail) {
            Some(line) => ("then", line),
            None => return,
        },
        Body::Tasked { server, task, expires_at, .. } => {
            let until = expires_at.map(|at| format!(", kept until {}", time(at)));
            ("task", format!("`{task}` at `{server}`{}", until.unwrap_or_default()))
        }
        Body::Denied { server, denials } => {
            let words: Vec<String> = denials.iter().map(super::progress::denial).collect();
            ("then", format!("`{server}` was refused {}", words.join(", ")))
        }
        Body::Verified { tries: 0, .. } => return,
        Body::Verified { tool, tries, evidence, result, error } => {
            let why = match (error, result) {
                (Some(error), _) => format!(": {error}"),
                (None, Some(result)) => format!(", by {}", gist(result)),
                (None, None) => String::new(),
            };
            let times = count(u64::from(*tries), "time");
            ("then", format!("in doubt; `{tool}` was asked {times}: {}{why}", text::evidence(*evidence)))
        }
        Body::Answered { answer } => ("then", answer_line(answer)),
        Body::Late { outcome: Outcome::Failed(failure), .. }
            if failure.code == FailureCode::Indeterminate =>
        {
            ("late", format!("in doubt: {}", failure.message))
        }
        Body::Late { outcome, by, .. } => {
            let by = by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default();
            ("late", format!("{}{by}", outcome_line(outcome, usize::MAX)))
        }
        _ => return,
    };
    let at =
        if detail == Detail::Full { format!(" · {}", history.offset(record.at)) } else { String::new() };
    entry(word, &format!("{told}{at}"), None, stream);
}

/// Why an operation is attempted; `reason` is the message with which the attempt before it failed.
fn because(cause: &AttemptCause, reason: Option<&str>) -> String {
    match cause {
        AttemptCause::Answered => ", after the answer".to_owned(),
        AttemptCause::Queued => ", after others of its step".to_owned(),
        AttemptCause::Recovered => ": the process of the attempt before it died".to_owned(),
        AttemptCause::Failed { code, possibly_received } => {
            let received = if *possibly_received { ", possibly received" } else { ", not received" };
            let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            format!(": the attempt before it failed with {}{received}{reason}", code.as_str())
        }
    }
}

/// What an operation waited for, as far as the answer does not say it.
fn gate_line(gate: &Gate, detail: Detail) -> Option<String> {
    match gate {
        Gate::InDoubt { reason } => Some(format!("in doubt: {reason}")),
        Gate::Secret { name } => Some(format!("waits for the secret `{name}`")),
        Gate::Approval => (detail == Detail::Full).then(|| "waits for approval".to_owned()),
        Gate::Input | Gate::Elicitation { .. } => {
            (detail == Detail::Full).then(|| "waits for an answer".to_owned())
        }
    }
}

/// What a person answered, and who it was.
fn answer_line(answer: &Answer) -> String {
    let (word, by, more) = match answer {
        Answer::Approved { edited, reason, by } => {
            let edited = match edited {
                Some(Validation::Valid { arguments }) => {
                    format!(" with other arguments: {}", gist(arguments))
                }
                _ => String::new(),
            };
            let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            ("approved", by, format!("{reason}{edited}"))
        }
        Answer::Denied { reason, by } => {
            let reason = reason.as_ref().map(|reason| format!(": {reason}"));
            ("denied", by, reason.unwrap_or_default())
        }
        Answer::Done { error: None, by, .. } => ("settled", by, ": it took place".to_owned()),
        Answer::Done { error: Some(error), by, .. } => ("settled", by, format!(": it was refused: {error}")),
        Answer::NotDone { by } => ("settled", by, ": it did not take place".to_owned()),
        Answer::Given { by, .. } | Answer::Supplied { by, .. } => ("answered", by, String::new()),
    };
    let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    format!("{word}{by}{more}")
}

/// What a request says beyond its label.
fn request_line(request: &Request) -> String {
    match request {
        Request::ModelCompletion(completion) => format!("with {}", count(completion.entries, "message")),
        Request::MemorySearch(search) => format!("for {}", search.query),
        Request::MemoryCreate(create) => format!("{}: {}", create.entity, create.content),
        Request::MemoryTraverse(walk) => {
            let relation = walk.relation.as_deref().map(|relation| format!(" along {relation}"));
            format!("from {}{}", walk.from, relation.unwrap_or_default())
        }
        Request::AgentCall(call) if call.data.is_null() => call.text.clone(),
        Request::AgentCall(call) => format!("{} {}", call.text, gist(&call.data)),
        Request::Input(input) => input.question.clone(),
        Request::Timer(timer) => format!("until {}", time(timer.until)),
        Request::ToolCall(call) => gist(&call.parameters),
        Request::ApiCall(call) => call.body.as_ref().map_or_else(String::new, |body| gist(&body.value)),
        Request::Email(mail) => mail.subject.clone(),
        Request::Transfer(transfer) => format!("to {}", transfer.target),
    }
}

/// Writes a text behind a word of at most four letters; what does not fit continues below.
pub(crate) fn entry(word: &str, text: &str, style: Option<Style>, stream: &mut Stream) {
    let room = stream.terminal.room.saturating_sub(INDENT);
    for (index, line) in wrapped(text, room).into_iter().enumerate() {
        let word = if index == 0 { word } else { "" };
        let line = style.map_or_else(|| Words::from(&line), |style| styled(style, &line));
        stream.line(Words::from(format_args!("  {word:<4} ")).and(line));
    }
}

/// Writes lines below an entry.
fn block(lines: &[String], stream: &mut Stream) {
    for line in lines {
        stream.line(format_args!("         {line}"));
    }
}
