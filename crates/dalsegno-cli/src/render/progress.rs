//! A run as it happens: the model's text, and a line for each thing that came.

use std::collections::BTreeMap;

use dalsegno_core::{Gate, MemoryHit, ModelReply, OperationId, Outcome, ReplyPart};
use dalsegno_runtime::RunEvent;
use dalsegno_store::{Body, Denial, NewRecord, Record};

use super::output::Output;
use super::text::{Style, brief, count, gist, harmless, short, styled};

/// Tells a run as it happens.
#[derive(Debug)]
pub(crate) struct Progress {
    /// A line for each thing that came, on standard error.
    lines: bool,
    /// The model's text, on standard output.
    stream: bool,
    labels: BTreeMap<OperationId, (u64, String)>,
    streamed: Option<Streamed>,
}

/// The text of a model call that is shown so far.
#[derive(Debug)]
struct Streamed {
    operation: OperationId,
    attempt: u32,
    text: String,
}

impl Progress {
    /// What is told depends on who watches: lines are shown on a terminal or when asked for, streamed text on a
    /// terminal only.
    pub(crate) fn new(verbose: bool, text: bool, output: &Output) -> Self {
        Self {
            lines: verbose || output.stderr.terminal.progress,
            stream: text && output.stdout.terminal.live,
            labels: BTreeMap::new(),
            streamed: None,
        }
    }

    /// Tells one event.
    pub(crate) fn tell(&mut self, event: &RunEvent, output: &mut Output) {
        match event {
            RunEvent::Recorded { record, .. } => self.record(record, output),
            RunEvent::Delta { operation, attempt, text } if self.stream => {
                self.delta(*operation, *attempt, text, output);
            }
            RunEvent::Delta { .. } => {}
            RunEvent::HandedOff { target, run } => {
                if self.lines {
                    output.note(format_args!("handed over to `{target}` · run {}", short(run)));
                }
            }
        }
    }

    /// Says whether this text is the last that was streamed, so that it need not be written again.
    pub(crate) fn has_shown(&self, answer: &str) -> bool {
        self.streamed.as_ref().is_some_and(|streamed| streamed.text == answer)
    }

    fn delta(&mut self, operation: OperationId, attempt: u32, text: &str, output: &mut Output) {
        let goes_on = self
            .streamed
            .as_ref()
            .is_some_and(|shown| shown.operation == operation && shown.attempt == attempt);
        if !goes_on {
            if output.stdout.mid_line {
                output.stdout.write("\n");
            }
            if self.streamed.as_ref().is_some_and(|shown| shown.operation == operation) {
                output.note(styled(output.stderr.terminal.colour, Style::Yellow, "the model begins again"));
            }
            self.streamed = Some(Streamed { operation, attempt, text: String::new() });
        }
        if let Some(streamed) = &mut self.streamed {
            streamed.text.push_str(text);
        }
        output.stdout.write(&harmless(text));
        output.stdout.flush();
    }

    fn record(&mut self, record: &NewRecord, output: &mut Output) {
        if let (Body::Requested { step, label, .. }, Some(operation)) = (&record.body, record.operation) {
            self.labels.insert(operation, (*step, label.clone()));
        }
        if !self.lines {
            return;
        }
        let (news, style) = match &record.body {
            Body::Resolved { outcome, elapsed_ms, .. } => {
                (format!("{} · {elapsed_ms} ms", outcome_line(outcome, room(output))), style_of(outcome))
            }
            Body::Waiting { gate: Gate::Approval } => ("waits for approval".to_owned(), Some(Style::Yellow)),
            Body::Waiting { gate: Gate::Input | Gate::Elicitation { .. } } => {
                ("waits for an answer".to_owned(), Some(Style::Yellow))
            }
            Body::Waiting { gate: Gate::InDoubt { reason } } => {
                (format!("in doubt: {}", brief(reason, room(output))), Some(Style::Yellow))
            }
            Body::Waiting { gate: Gate::Secret { name } } => {
                (format!("waits for the secret `{}`", harmless(name)), Some(Style::Yellow))
            }
            Body::Attempted { attempt, .. } if *attempt > 1 => {
                (format!("attempt {attempt}"), Some(Style::Yellow))
            }
            Body::Denied { server, denials } => {
                let words: Vec<String> = denials.iter().map(denial).collect();
                let line = format!("`{}` was refused {}", harmless(server), words.join(", "));
                (brief(&line, room(output)), Some(Style::Yellow))
            }
            Body::Tasked { server, task, .. } => {
                let line = format!("`{}` works on it as task `{}`", harmless(server), harmless(task));
                (brief(&line, room(output)), None)
            }
            Body::Answered { .. } => ("answered".to_owned(), None),
            Body::Started(_)
            | Body::Requested { .. }
            | Body::Attempted { .. }
            | Body::Late { .. }
            | Body::Signalled { .. }
            | Body::Forked { .. }
            | Body::Rebound { .. }
            | Body::Suspended { .. }
            | Body::Completed { .. }
            | Body::Failed { .. }
            | Body::Cancelled { .. }
            | Body::HandedOff { .. } => return,
        };
        let colour = output.stderr.terminal.colour;
        let label = match record.operation.and_then(|operation| self.labels.get(&operation)) {
            Some((step, label)) => format!("step {step} · {label}"),
            // A resumed run: the request was recorded by an earlier process.
            None => record
                .operation
                .map(|operation| format!("operation {}", short(operation)))
                .unwrap_or_default(),
        };
        let news = styled(colour && style.is_some(), style.unwrap_or(Style::Dim), news);
        output.note(format_args!("{} → {news}", styled(colour, Style::Dim, label)));
    }

    /// Says whether it tells more than the model's text.
    pub(crate) fn tells_lines(&self) -> bool {
        self.lines
    }

    /// Remembers what earlier processes asked for.
    pub(crate) fn remember(&mut self, records: &[Record]) {
        for record in records {
            if let (Body::Requested { step, label, .. }, Some(operation)) = (&record.body, record.operation) {
                self.labels.insert(operation, (*step, label.clone()));
            }
        }
    }
}

/// The columns that are left for an outcome beside its label.
fn room(output: &Output) -> usize {
    output.stderr.terminal.width.saturating_sub(40).max(20)
}

/// Colour for what went wrong; none for what went well.
fn style_of(outcome: &Outcome) -> Option<Style> {
    match outcome {
        Outcome::Failed(_) => Some(Style::Red),
        Outcome::ToolReturned(result) if result.is_error => Some(Style::Red),
        Outcome::ModelReplied(_)
        | Outcome::MemoryFound(_)
        | Outcome::MemoryCreated(_)
        | Outcome::MemoryTraversed(_)
        | Outcome::ToolReturned(_)
        | Outcome::EmailSent(_)
        | Outcome::InputGiven(_)
        | Outcome::TimerFired => None,
        Outcome::ApiAnswered(response) => (response.status >= 400).then_some(Style::Red),
        Outcome::AgentReturned(returned) => returned.error.as_ref().map(|_| Style::Red),
    }
}

/// An outcome on one line.
pub(crate) fn outcome_line(outcome: &Outcome, width: usize) -> String {
    match outcome {
        Outcome::ModelReplied(reply) => reply_line(reply, width),
        Outcome::MemoryFound(hits) => match hits.as_slice() {
            [] => "nothing found".to_owned(),
            [MemoryHit { entity, score, text, .. }, ..] => {
                let found = format!("{}, best {score:.2}: {entity}: {text}", count(hits.len() as u64, "hit"));
                brief(&found, width)
            }
        },
        Outcome::MemoryCreated(created) if created.duplicate => {
            brief(&format!("known: {}", created.entity), width)
        }
        Outcome::MemoryTraversed(walked) => {
            let entities = walked.entities.len();
            let word = if entities == 1 { "entity" } else { "entities" };
            let relations = count(walked.relations.len() as u64, "relation");
            brief(&format!("{entities} {word}, {relations}"), width)
        }
        Outcome::AgentReturned(returned) => {
            let said = match (&returned.error, &returned.answer, &returned.output) {
                (Some(error), _, _) => format!("{}: {}", error.code.as_str(), error.message),
                (None, Some(answer), _) => answer.clone(),
                (None, None, Some(output)) => gist(output),
                (None, None, None) => "no answer".to_owned(),
            };
            brief(&said, width)
        }
        Outcome::InputGiven(value) => brief(&format!("answered: {}", gist(value)), width),
        Outcome::TimerFired => "the time has come".to_owned(),
        Outcome::MemoryCreated(created) => brief(&format!("remembered: {}", created.entity), width),
        Outcome::ToolReturned(result) => {
            let said = result.structured.as_ref().map_or_else(|| result.text.clone(), gist);
            let error = if result.is_error { "error: " } else { "" };
            brief(&format!("{error}{said}"), width)
        }
        Outcome::ApiAnswered(response) => {
            brief(&format!("{} {}", response.status, gist(&response.body)), width)
        }
        Outcome::EmailSent(_) => "taken by the mail server".to_owned(),
        Outcome::Failed(failure) => brief(&format!("{}: {}", failure.code.as_str(), failure.message), width),
    }
}

fn reply_line(reply: &ModelReply, width: usize) -> String {
    let calls: Vec<String> = reply
        .parts
        .iter()
        .filter_map(|part| match part {
            ReplyPart::Call(call) => Some(format!("{}({})", call.name, call.arguments)),
            ReplyPart::Text(_) | ReplyPart::Opaque { .. } => None,
        })
        .collect();
    if calls.is_empty() {
        brief(&reply.text(), width)
    } else {
        brief(&format!("calls {}", calls.join(", ")), width)
    }
}

/// What was refused, and how often.
fn denial(denial: &Denial) -> String {
    let times = if denial.count > 1 { format!(" ({} times)", denial.count) } else { String::new() };
    format!("{} `{}`{times}: {}", denial.kind, harmless(&denial.subject), harmless(&denial.reason))
}
