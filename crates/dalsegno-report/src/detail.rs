//! What a page shows of one step: everything that the core knew, asked for and got.

use dalsegno_core::{
    AgentState, Entry, GateState, Operation, OperationId, Outcome, Pending, Reading, ReplyPart, Request,
    RunId,
};
use dalsegno_history::{Change, End, Fold, child_run};
use dalsegno_store::{Body, Record};
use serde::Serialize;
use serde_json::{Value, json};

use crate::course::Course;

/// One step.
#[derive(Serialize)]
pub(crate) struct Detail {
    row: usize,
    #[serde(rename = "n")]
    step: u64,
    decisions: Vec<String>,
    operations: Vec<OperationDetail>,
    /// The state when the step was asked for, without its conversation.
    state: Value,
    /// How it differs from the state of the row before.
    changes: Vec<Change>,
    records: Vec<RecordLine>,
    /// The end, in the last row.
    end: Option<Value>,
    /// The digest of the course of the run up to here.
    course: String,
}

/// One operation of a step.
#[derive(Serialize)]
struct OperationDetail {
    id: OperationId,
    label: String,
    digest: String,
    class: String,
    gate: Option<Value>,
    request: Value,
    outcome: Option<Value>,
    /// The operation of the declarative tool that it is a part of.
    parent: Option<OperationId>,
    /// The child run that performs it.
    child: Option<RunId>,
    /// How many messages a model was sent, and how many of them were new.
    prompt: Option<Messages>,
}

/// The messages of a completion.
#[derive(Serialize)]
struct Messages {
    total: usize,
    new: usize,
    model: String,
}

/// One record, without its content.
#[derive(Serialize)]
struct RecordLine {
    seq: u64,
    at: dalsegno_core::Timestamp,
    kind: &'static str,
    operation: Option<OperationId>,
    checksum: String,
    link: String,
    /// What it says that no operation shows.
    note: Option<Value>,
}

/// One message that a model was sent.
#[derive(Serialize)]
pub(crate) struct Message {
    index: usize,
    kind: &'static str,
    text: String,
}

impl Detail {
    pub(crate) fn of(course: &Course, index: usize) -> Option<Self> {
        let row = course.rows.get(index)?;
        let (asked, done) = course.at(index)?;
        let view = shown(asked.state());
        let before = index.checked_sub(1).and_then(|before| course.at(before));
        let changes = before
            .map_or_else(Vec::new, |(before, _)| dalsegno_history::changes(&shown(before.state()), &view));
        // The step that ends a run has asked for nothing; what is pending belongs to the step before it.
        let pending = if row.ops.is_empty() { &[] } else { done.state().pending() };
        let operations = pending.iter().map(|one| OperationDetail::of(course, &asked, one)).collect();
        let decisions = asked.state().decisions().iter().map(ToString::to_string).collect();
        Some(Self {
            row: index,
            step: row.step,
            decisions,
            operations,
            state: view,
            changes,
            records: course.records[row.from..row.to].iter().map(RecordLine::of).collect(),
            end: row.end.and(course.end()).map(ended),
            course: row.mark.to_string(),
        })
    }
}

impl OperationDetail {
    fn of(course: &Course, asked: &Fold, pending: &Pending) -> Self {
        let Operation { id, digest, request, terms, gate, .. } = &pending.operation;
        let prompt = reading(course, asked.state(), request).map(|(reading, new)| Messages {
            total: reading.transcript.iter().count(),
            new,
            model: reading.settings.name,
        });
        Self {
            id: *id,
            label: request.label(),
            digest: digest.to_string(),
            class: json!(terms.class).as_str().unwrap_or_default().to_owned(),
            gate: (*gate != GateState::Open).then(|| json!(gate)),
            request: payload(request),
            outcome: pending.outcome.as_ref().map(|outcome| json!(outcome)),
            parent: pending.parent,
            child: matches!(request, Request::AgentCall(_)).then(|| child_run(*id)),
            prompt,
        }
    }
}

impl RecordLine {
    fn of(record: &Record) -> Self {
        let note = match &record.body {
            Body::Requested { .. } | Body::Resolved { .. } | Body::Inherited(_) => None,
            body => serde_json::to_value(body).ok(),
        };
        Self {
            seq: record.seq,
            at: record.at,
            kind: record.body.kind().as_str(),
            operation: record.operation,
            checksum: record.checksum.to_string(),
            link: record.link.to_string(),
            note,
        }
    }
}

/// What a request asks for, without the name of its kind, which its label says.
pub(crate) fn payload(request: &Request) -> Value {
    match serde_json::to_value(request) {
        Ok(Value::Object(kind)) if kind.len() == 1 => {
            kind.into_iter().next().map(|(_, value)| value).unwrap_or_default()
        }
        Ok(value) => value,
        Err(_) => Value::Null,
    }
}

/// What a model is sent for a request of a state, and how many of the messages are new.
pub(crate) fn reading(course: &Course, state: &AgentState, request: &Request) -> Option<(Reading, usize)> {
    let Request::ModelCompletion(completion) = request else { return None };
    let reading = state.reading(&course.config, completion).ok()?;
    let new = usize::try_from(completion.entries.saturating_sub(completion.new_from)).unwrap_or(usize::MAX);
    let new = new.min(reading.transcript.iter().count());
    Some((reading, new))
}

/// So many messages of a reading, from an index on.
pub(crate) fn messages(reading: &Reading, from: usize, count: usize) -> Vec<Message> {
    let entries = reading.transcript.iter().enumerate().skip(from).take(count);
    entries.map(|(index, entry)| Message { index, kind: kind(entry), text: text(entry) }).collect()
}

fn kind(entry: &Entry) -> &'static str {
    match entry {
        Entry::Instructions(_) => "instructions",
        Entry::User(_) => "user",
        Entry::Attachment(_) => "file",
        Entry::Assistant(_) => "assistant",
        Entry::ToolResult { .. } => "tool result",
        Entry::Compaction(_) => "compaction",
    }
}

fn text(entry: &Entry) -> String {
    match entry {
        Entry::Instructions(text) | Entry::User(text) => text.clone(),
        Entry::Attachment(file) => format!("{} ({})", file.name, file.media_type),
        Entry::ToolResult { name, content, files, is_error, .. } => {
            let failed = if *is_error { " failed" } else { "" };
            let files: String = files.iter().map(|file| format!("\n[file {}]", file.name)).collect();
            format!("{name}{failed}: {content}{files}")
        }
        Entry::Compaction(compaction) => compaction.summary.clone().unwrap_or_default(),
        Entry::Assistant(reply) => {
            let parts = reply.parts.iter().map(|part| match part {
                ReplyPart::Text(text) => text.clone(),
                ReplyPart::Call(call) => format!("calls {} with {}", call.name, call.arguments),
                ReplyPart::Opaque { provider, .. } => format!("[part for {provider} only]"),
            });
            parts.collect::<Vec<_>>().join("\n")
        }
    }
}

/// What of a state is shown and compared: all but the conversation, of which the digest and the length are.
pub(crate) fn shown(state: &AgentState) -> Value {
    let transcript = state.transcript();
    let mut view = json!({
        "step": state.step(),
        "usage": state.usage(),
        "conversation": {
            "messages": transcript.len(),
            "tokens": transcript.tokens(),
            "digest": transcript.chain(),
        },
    });
    let rest = [
        ("steps", state.results().clone()),
        ("vars", state.vars().clone()),
        ("said", json!(state.said())),
        ("session", json!(state.session())),
        ("budget", json!(state.budget())),
    ];
    for (name, value) in rest {
        let empty = match &value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        if !empty {
            view[name] = value;
        }
    }
    view
}

/// An end as JSON: a response, or the agent that continues.
pub(crate) fn ended(end: &End) -> Value {
    match end {
        End::Response(response) => json!(response),
        End::Handoff(handoff) => json!({ "handed_off_to": handoff.target, "message": handoff.message }),
    }
}

/// Whether an outcome is no failure.
pub(crate) fn is_well(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed(_) => false,
        Outcome::ToolReturned(returned) => !returned.is_error,
        Outcome::AgentReturned(returned) => returned.error.is_none(),
        Outcome::ModelReplied(_)
        | Outcome::MemoryFound(_)
        | Outcome::MemoryCreated(_)
        | Outcome::MemoryTraversed(_)
        | Outcome::ApiAnswered(_)
        | Outcome::EmailSent(_)
        | Outcome::TransferRequested
        | Outcome::InputGiven(_)
        | Outcome::TimerFired => true,
    }
}
