//! All that a run had read when it asked.

use std::collections::BTreeMap;

use dalsegno_core::{
    AgentConfig, AgentState, Entry, Mind, ModelReply, OperationId, Outcome, Pending, ReplyPart, Request,
    Sought,
};
use dalsegno_store::{Body, Record};
use serde_json::{Value, json};

use super::request::arguments;
use super::{Author, Found, Source, is_reply};

/// Bytes of text that are shown on each side of a value.
const AROUND: usize = 40;

/// What a run knows, in the order in which it came to know it.
pub(super) struct Known {
    all: Vec<(Source, Value)>,
    /// By operation: its step, what it is, and the call of a declarative tool that it is a part of.
    asked: BTreeMap<OperationId, Requested>,
    /// The results of a plan's steps, by the id of the step.
    results: BTreeMap<String, OperationId>,
    /// The last completion of the conversation, its step, and the number of messages that the model read.
    reply: Option<(OperationId, u64, u64)>,
}

struct Requested {
    step: u64,
    label: String,
    parent: Option<OperationId>,
    request: Request,
}

impl Known {
    /// What a run begins with.
    pub(super) fn begin(config: &AgentConfig, first: &Record, origin: &AgentState) -> Self {
        let mut known =
            Self { all: Vec::new(), asked: BTreeMap::new(), results: BTreeMap::new(), reply: None };
        let parent = match &first.body {
            Body::Started(started) => started.parent,
            _ => None,
        };
        let request = origin.request();
        let (text, data) = match &request.called_by {
            Some(agent) => {
                let (run, operation) = parent.map(|parent| (parent.run, parent.operation)).unzip();
                let source = Source::Parent { agent: agent.clone(), run, operation };
                (source.clone(), source)
            }
            None => (Source::User, Source::Input),
        };
        known.add(text, json!(request.text));
        known.add(data, request.data.clone());
        known.add(Source::Caller, request.user.clone());
        known.add(Source::Tenant, request.tenant_settings.clone());
        if let Some(handoff) = &request.handoff {
            known.add(Source::Handoff { agent: handoff.agent.clone() }, json!(handoff.message));
        }
        if let Mind::Model(mind) = &config.mind
            && let Some(instructions) = &mind.instructions
        {
            known.add(Source::Instructions, json!(instructions.source()));
        }
        known.earlier(origin);
        known
    }

    /// What was said before this run.
    fn earlier(&mut self, origin: &AgentState) {
        for entry in origin.transcript().iter() {
            let (of, value) = match entry {
                Entry::User(text) => ("user", json!(text)),
                Entry::Assistant(reply) => ("model", written(reply)),
                Entry::ToolResult { name, content, is_error: false, .. } => (name.as_str(), parsed(content)),
                Entry::Compaction(cut) => ("model", json!(cut.summary)),
                Entry::Instructions(_) | Entry::Attachment(_) | Entry::ToolResult { .. } => continue,
            };
            self.add(Source::Earlier { of: of.to_owned() }, value);
        }
        if let Value::Object(results) = origin.results() {
            for (step, result) in results {
                self.add(Source::Earlier { of: format!("plan step `{step}`") }, result.clone());
            }
        }
        // A fork begins with outcomes that no step has read yet.
        for Pending { operation, outcome, .. } in origin.pending() {
            let Some(outcome) = outcome else { continue };
            let (id, step) = (operation.id, origin.step());
            if let Request::ModelCompletion(completion) = &operation.request
                && is_reply(&operation.request)
            {
                self.reply = Some((id, step, completion.entries));
                self.add(Source::Reply { operation: id, step }, returned(outcome));
            } else {
                let label = operation.request.label();
                self.add(Source::Outcome { operation: id, step, label }, returned(outcome));
            }
        }
    }

    fn add(&mut self, source: Source, value: Value) {
        if !value.is_null() {
            self.all.push((source, value));
        }
    }

    /// Notes that the run has asked for an operation.
    pub(super) fn requested(
        &mut self,
        step: u64,
        label: &str,
        config: &AgentConfig,
        state: &AgentState,
        pending: &Pending,
    ) {
        let id = pending.operation.id;
        let request = pending.operation.request.clone();
        if let Request::ModelCompletion(completion) = &request
            && is_reply(&request)
        {
            let read = state.reading(config, completion).map(|reading| reading.transcript.iter().count());
            self.reply = Some((id, step, read.map_or(completion.entries, |count| count as u64)));
        }
        if pending.parent.is_none()
            && let Some(part) = state.plan_part(config, id)
            && let Some(name) = &part.operation.id
        {
            self.results.insert(name.to_string(), id);
        }
        self.asked.insert(id, Requested { step, label: label.to_owned(), parent: pending.parent, request });
    }

    /// Notes what came of an operation.
    pub(super) fn settled(&mut self, id: OperationId, outcome: &Outcome) {
        let Some(asked) = self.asked.get(&id) else { return };
        let step = asked.step;
        let source = match is_reply(&asked.request) {
            true => Source::Reply { operation: id, step },
            false => Source::Outcome { operation: id, step, label: asked.label.clone() },
        };
        self.add(source, returned(outcome));
    }

    /// The completion whose reply the run acts upon, its step, and how many messages the model had read.
    pub(super) fn reply(&self) -> Option<(OperationId, u64, u64)> {
        self.reply
    }

    /// The operation whose result a path reads, where it reads one of this run.
    pub(super) fn result_of(&self, path: &[String]) -> Option<OperationId> {
        match path {
            [root, step, ..] if root == "steps" => self.results.get(step).copied(),
            _ => None,
        }
    }

    /// Forgets what the author of a request had not read.
    pub(super) fn only_for(&mut self, author: &Author) {
        match author {
            // The reply that asked has the value since it asked.
            Author::Model { completion, .. } => self.all.retain(
                |(source, _)| !matches!(source, Source::Reply { operation, .. } if operation == completion),
            ),
            Author::Document { call, .. } => {
                let (asked, all) = (&self.asked, &mut self.all);
                let is_beside = |id: &OperationId| asked.get(id).is_some_and(|one| one.parent == Some(*call));
                all.retain(|(source, _)| match source {
                    Source::Caller | Source::Tenant => true,
                    Source::Outcome { operation, .. } => is_beside(operation),
                    _ => false,
                });
                if let Some(called) = asked.get(call) {
                    all.insert(0, (Source::Call { operation: *call }, arguments(&called.request)));
                }
            }
            Author::Plan { .. } | Author::Agent => {}
        }
    }

    /// At most `most` places at which a value stands. Replies of the model count only where nothing else has it.
    pub(super) fn places(&self, sought: &Sought<'_>, most: usize) -> Vec<Found> {
        let is_reply = |source: &Source| matches!(source, Source::Reply { .. });
        let read = self.places_in(sought, most, |source| !is_reply(source));
        if read.is_empty() { self.places_in(sought, most, is_reply) } else { read }
    }

    fn places_in(&self, sought: &Sought<'_>, most: usize, which: impl Fn(&Source) -> bool) -> Vec<Found> {
        let mut found = Vec::new();
        for (source, value) in self.all.iter().filter(|(source, _)| which(source)) {
            let spots = sought.spots(value, most - found.len());
            found.extend(spots.into_iter().map(|spot| Found {
                source: source.clone(),
                excerpt:
                    spot.text.map(|text| excerpt(text, spot.range.start, spot.range.end)).unwrap_or_default(),
                range: spot.text.map(|_| spot.range),
                path: spot.path,
            }));
            if found.len() == most {
                break;
            }
        }
        found
    }
}

/// The text around a place, in one line.
pub(super) fn excerpt(text: &str, start: usize, end: usize) -> String {
    let from = text.ceil_char_boundary(start.saturating_sub(AROUND));
    let until = text.floor_char_boundary(end.saturating_add(AROUND).min(text.len()));
    let before = if from > 0 { "…" } else { "" };
    let after = if until < text.len() { "…" } else { "" };
    let around = text[from..until].split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{before}{around}{after}")
}

/// What an outcome has for a run to read.
fn returned(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::ModelReplied(reply) => written(reply),
        Outcome::ToolReturned(returned) => match &returned.structured {
            Some(value) => value.clone(),
            None => parsed(&returned.text),
        },
        Outcome::MemoryFound(hits) => json!(hits),
        Outcome::MemoryTraversed(found) => json!(found),
        Outcome::MemoryCreated(created) => json!(created),
        Outcome::ApiAnswered(response) => response.body.clone(),
        Outcome::AgentReturned(returned) => json!({ "answer": returned.answer, "output": returned.output }),
        Outcome::InputGiven(value) => value.clone(),
        Outcome::Failed(failure) => json!(failure.message),
        Outcome::EmailSent(_) | Outcome::TransferRequested | Outcome::TimerFired => Value::Null,
    }
}

/// What a model wrote: its text, and the arguments of its calls.
fn written(reply: &ModelReply) -> Value {
    let parts = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Text(text) => Some(json!(text)),
        ReplyPart::Call(call) => Some(parsed(&call.arguments)),
        ReplyPart::Opaque { .. } => None,
    });
    Value::Array(parts.collect())
}

/// A text as JSON, where it is some.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}
