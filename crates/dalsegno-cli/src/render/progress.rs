//! A run as it happens: the model's text, and a line for each thing that came.

use std::collections::BTreeMap;

use dalsegno_core::{Gate, LiveNews, MemoryHit, ModelReply, OperationId, Outcome, ReplyPart, ToolReturn};
use dalsegno_runtime::RunEvent;
use dalsegno_store::{Body, Denial, NewRecord, Record, Start, StorageKind};

use super::dialogue::Speaking;
use super::output::Output;
use super::text::{self, Style, Words, brief, count, gist, short, styled};

/// Tells a run as it happens.
#[derive(Debug)]
pub(crate) struct Progress {
    /// A line for each thing that came, on standard error.
    lines: bool,
    /// The model's text, on standard output.
    stream: bool,
    labels: BTreeMap<OperationId, (u64, String)>,
    /// What is under way, in the order in which it began.
    under_way: Vec<OperationId>,
    streamed: Option<Streamed>,
    speaking: Speaking,
    /// The journal was out of reach when last heard of.
    waits: bool,
    /// What the agent says is written when it says it, on standard output; it is a part of the answer.
    tells: bool,
    /// What it has said.
    said: Vec<String>,
}

/// Why the journal cannot be written.
fn unwritable(kind: StorageKind) -> &'static str {
    match kind {
        StorageKind::Busy => "another process locks the journal",
        StorageKind::Full => "the disk of the journal is full",
        _ => "the disk of the journal failed",
    }
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
            under_way: Vec::new(),
            streamed: None,
            speaking: Speaking::default(),
            waits: false,
            tells: text,
            said: Vec::new(),
        }
    }

    /// Tells one event.
    pub(crate) fn tell(&mut self, event: &RunEvent, output: &mut Output) {
        match event {
            RunEvent::Recorded { record, .. } => {
                self.waits = false;
                self.record(record, output);
            }
            // Once for each time that the journal is out of reach.
            RunEvent::Unwritable { kind, .. } => {
                if !std::mem::replace(&mut self.waits, true) {
                    output.note(format_args!("{}: the run waits, and writes it again", unwritable(*kind)));
                }
            }
            RunEvent::Delta { operation, attempt, text } if self.stream => {
                self.delta(*operation, *attempt, text, output);
            }
            RunEvent::Said { text } if self.tells => self.say(text, output),
            RunEvent::Said { .. } | RunEvent::Delta { .. } => {}
            RunEvent::HandedOff { target, run } => {
                if self.lines {
                    output.note(format_args!("handed over to `{target}` · run {}", short(run)));
                }
            }
        }
    }

    /// The part of an answer that is not shown yet; none when all of it is. What was said begins the answer, and the
    /// model's text ends it.
    pub(crate) fn unshown<'a>(&self, answer: &'a str) -> Option<&'a str> {
        let rest = if self.said.is_empty() {
            answer
        } else {
            match answer.strip_prefix(&self.said.join(BETWEEN)) {
                Some("") => return None,
                Some(rest) => rest.strip_prefix(BETWEEN).unwrap_or(answer),
                // It did not hear all of it.
                None => answer,
            }
        };
        let streamed = self.streamed.as_ref().is_some_and(|streamed| streamed.text == rest);
        (!streamed && !rest.is_empty()).then_some(rest)
    }

    /// Says whether anything was written of what the agent said.
    pub(crate) fn has_said(&self) -> bool {
        !self.said.is_empty()
    }

    /// Forgets what was said: the next answer is another one.
    pub(crate) fn forget(&mut self) {
        self.said.clear();
        self.streamed = None;
    }

    /// What was said before is not known here: a file gets the whole answer at the end, and nothing of it before.
    pub(crate) fn goes_on(&mut self, output: &Output) {
        self.tells &= output.stdout.terminal.live;
    }

    fn say(&mut self, text: &str, output: &mut Output) {
        if output.stdout.mid_line {
            output.stdout.write("\n");
        }
        if !self.said.is_empty() {
            output.stdout.write("\n");
        }
        self.said.push(text.to_owned());
        output.stdout.prose(text.trim_end_matches('\n'));
        output.stdout.write("\n");
        output.stdout.flush();
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
                output.note(styled(Style::Yellow, "the model begins again"));
            }
            self.streamed = Some(Streamed { operation, attempt, text: String::new() });
        }
        if let Some(streamed) = &mut self.streamed {
            streamed.text.push_str(text);
        }
        output.stdout.prose(text);
        output.stdout.flush();
    }

    /// Writes a word of a call as it is spoken, where a person watches.
    pub(crate) fn speaks(&mut self, word: &str, output: &mut Output) {
        if self.stream {
            self.speaking.word(word, output);
        }
    }

    /// Writes what is said in a call.
    fn conversed(&mut self, news: &[LiveNews], output: &mut Output) {
        if !self.tells {
            return;
        }
        for one in news {
            self.speaking.tell(one, room(output), output);
            if let LiveNews::Said { text, .. } = one {
                // The answer of a call is what was said last.
                let (operation, attempt) = (OperationId::from_bytes([0; 16]), 0);
                self.streamed = Some(Streamed { operation, attempt, text: text.clone() });
            }
        }
        output.stdout.flush();
    }

    fn record(&mut self, record: &NewRecord, output: &mut Output) {
        if let (Body::Requested { step, label, .. }, Some(operation)) = (&record.body, record.operation) {
            self.labels.insert(operation, (*step, label.clone()));
        }
        if let Some(operation) = record.operation {
            self.note_under_way(operation, &record.body);
        }
        if let Body::Conversed { news } = &record.body {
            self.conversed(news, output);
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
                (format!("waits for the secret `{}`", name), Some(Style::Yellow))
            }
            Body::Attempted { attempt, reason, .. } if *attempt > 1 => {
                let reason = reason.as_ref().map(|reason| format!(", since the last one failed: {reason}"));
                let line = format!("attempt {attempt}{}", reason.unwrap_or_default());
                (brief(&line, room(output)), Some(Style::Yellow))
            }
            Body::Denied { server, denials } => {
                let words: Vec<String> = denials.iter().map(denial).collect();
                let line = format!("`{}` was refused {}", server, words.join(", "));
                (brief(&line, room(output)), Some(Style::Yellow))
            }
            Body::Tasked { server, task, .. } => {
                let line = format!("`{}` works on it as task `{}`", server, task);
                (brief(&line, room(output)), None)
            }
            Body::Verified { tool, tries: 0, .. } => {
                (format!("`{tool}` is asked whether it took place"), None)
            }
            Body::Verified { tool, evidence, .. } => {
                (format!("`{tool}` was asked: {}", text::evidence(*evidence)), None)
            }
            Body::Answered { .. } => ("answered".to_owned(), None),
            Body::Started(_)
            | Body::Requested { .. }
            | Body::Attempted { .. }
            | Body::Late { .. }
            | Body::Signalled { .. }
            | Body::Forked { .. }
            | Body::Adopted { .. }
            | Body::Inherited(_)
            | Body::Abandoned { .. }
            | Body::Conversed { .. }
            | Body::Narrowed { .. }
            | Body::Rebound { .. }
            | Body::Suspended { .. }
            | Body::Paused { .. }
            | Body::Continued { .. }
            | Body::Completed { .. }
            | Body::Failed { .. }
            | Body::Cancelled { .. }
            | Body::HandedOff { .. } => return,
        };
        let label = match record.operation.and_then(|operation| self.labels.get(&operation)) {
            Some((step, label)) => format!("step {step} · {label}"),
            // A resumed run: the request was recorded by an earlier process.
            None => record
                .operation
                .map(|operation| format!("operation {}", short(operation)))
                .unwrap_or_default(),
        };
        let news = style.map_or_else(|| Words::from(&news), |style| styled(style, &news));
        output.note(styled(Style::Dim, label).and(" → ").and(news));
    }

    fn note_under_way(&mut self, operation: OperationId, body: &Body) {
        match body {
            Body::Requested { start: Start::Now, .. } | Body::Attempted { start: Start::Now, .. }
                if !self.under_way.contains(&operation) =>
            {
                self.under_way.push(operation);
            }
            Body::Resolved { .. } | Body::Waiting { .. } | Body::Answered { .. } | Body::Late { .. } => {
                self.under_way.retain(|other| *other != operation);
            }
            _ => {}
        }
    }

    /// What is under way, on one line; none where nothing is.
    pub(crate) fn under_way(&self) -> Option<String> {
        let first = self.under_way.first()?;
        let label = match self.labels.get(first) {
            Some((step, label)) => format!("step {step} · {label}"),
            None => format!("operation {}", short(first)),
        };
        Some(match self.under_way.len() - 1 {
            0 => label,
            more => format!("{label}, and {more} more"),
        })
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

/// What stands between two pieces of an answer.
const BETWEEN: &str = "\n\n";

/// The columns that are left for an outcome beside its label.
fn room(output: &Output) -> usize {
    output.stderr.terminal.room.saturating_sub(40).max(20)
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
        | Outcome::TransferRequested
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
            let causes: Vec<String> = causes(result).map(|cause| format!(" · cause: {cause}")).collect();
            let files = match result.files.len() {
                0 => String::new(),
                number => format!(" · {}", count(number as u64, "file")),
            };
            brief(&format!("{error}{said}{}{files}", causes.concat()), width)
        }
        Outcome::ApiAnswered(response) => {
            brief(&format!("{} {}", response.status, gist(&response.body)), width)
        }
        Outcome::EmailSent(_) => "taken by the mail server".to_owned(),
        Outcome::TransferRequested => "asked for: the end of the call shows whether it was made".to_owned(),
        Outcome::Failed(failure) => {
            let detail = failure.detail.as_ref().map(|detail| format!(" · cause: {detail}"));
            let line =
                format!("{}: {}{}", failure.code.as_str(), failure.message, detail.unwrap_or_default());
            brief(&line, width)
        }
    }
}

/// Why the call of a declarative tool failed, in the words for the people who keep the tool. The model is told less.
pub(crate) fn causes(returned: &ToolReturn) -> impl Iterator<Item = String> {
    let failed = returned.actions.iter().filter(|_| returned.is_error);
    failed.filter_map(|trace| {
        let error = trace.error.as_ref()?;
        Some(format!("`{}`: {}", trace.place.action, error.message))
    })
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
    let said = match calls.is_empty() {
        true => reply.text(),
        false => format!("calls {}", calls.join(", ")),
    };
    match reply.without_files {
        true => brief(&format!("({WITHOUT_FILES}) {said}"), width),
        false => brief(&said, width),
    }
}

/// What is said of a reply whose provider did not take the files that tools returned.
pub(crate) const WITHOUT_FILES: &str = "without the files of tools, which the provider refused";

/// What was refused, and how often.
pub(crate) fn denial(denial: &Denial) -> String {
    let times = if denial.count > 1 { format!(" ({} times)", denial.count) } else { String::new() };
    format!("{} `{}`{times}: {}", denial.kind, denial.subject, denial.reason)
}
