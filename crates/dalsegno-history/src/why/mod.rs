//! Where the values of a request came from, as a fold over the journal.
//!
//! Every value of a request is looked for, as a whole, in all that the run had read when it asked: what its user wrote, the
//! settings of its tenant, its instructions, and the outcomes before the request. Nothing is recorded for that, and no step of a
//! run costs more. What a model put into other words is found nowhere; then the answer says so.

mod request;
mod sources;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use dalsegno_core::{
    AgentConfig, AgentName, AgentState, Answer, OperationId, PartRead, Pending, Purpose, Request, RunId,
    Sought, ToolName, leaves_with_paths,
};
use dalsegno_store::Body;

use self::request::{arguments, parts};
use self::sources::Known;
use crate::error::HistoryError;
use crate::journal::Journal;

/// Most values of one request that are looked for.
const VALUES_MAX: usize = 500;

/// Most places that are told for one value.
const PLACES_MAX: usize = 8;

/// Where the values of a request came from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Provenance {
    /// The operation.
    pub operation: OperationId,
    /// Its step.
    pub step: u64,
    /// What it is, such as ``tool `payments.send` ``.
    pub label: String,
    /// What put the request together.
    pub author: Author,
    /// Its values, in the order of the request. A value that carries nothing, such as `null`, is not among them.
    pub values: Vec<Traced>,
    /// How many further values it has, which were not looked for.
    #[serde(skip_serializing_if = "is_zero")]
    pub further: usize,
}

/// What put a request together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Author {
    /// A model, in a reply.
    Model {
        /// The completion.
        completion: OperationId,
        /// Its step.
        step: u64,
        /// How many messages the model had read.
        messages: u64,
    },
    /// A part of the agent's plan.
    Plan {
        /// Which part, such as ``plan step 2 `score` ``.
        place: String,
    },
    /// The document of a declarative tool, in a call of it.
    Document {
        /// The tool.
        tool: ToolName,
        /// The call.
        call: OperationId,
    },
    /// The agent's own settings, such as the search before the first reply.
    Agent,
}

/// A value of a request, and where it came from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Traced {
    /// Where in the request it stands, such as `to` or `orders[0].id`.
    pub path: String,
    /// The value.
    pub value: Value,
    /// The person who put it in place of another one when the call was approved, if that is how it came here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited: Option<Edited>,
    /// What the plan's template for it reads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub templates: Vec<TemplateRead>,
    /// The places at which the whole value stands.
    pub found: Vec<Found>,
    /// Parts of a longer text that can be told apart, such as addresses and numbers, where the whole stands nowhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<TracedPart>,
}

/// An edit of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Edited {
    /// Who, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A path that a template reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TemplateRead {
    /// The template, as it is written.
    pub template: String,
    /// Where in it the path stands, in bytes.
    pub range: Range<usize>,
    /// The path, such as `steps.contact.email`.
    pub reads: String,
    /// The operation whose result it reads, where it reads one of this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationId>,
}

/// A part of a text, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TracedPart {
    /// The part.
    pub text: String,
    /// The places at which it stands; none where the author wrote it.
    pub found: Vec<Found>,
}

/// A place at which a value stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// In what.
    pub source: Source,
    /// Where in it, such as `messages[0].body`; empty where it is one text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Where in the text there, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<Range<usize>>,
    /// The text around it, at most a line.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub excerpt: String,
}

/// Something that a run had read when it asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Source {
    /// What the user wrote.
    User,
    /// The structured input of the run.
    Input,
    /// What the caller says of the user.
    Caller,
    /// The request of the run that started this one.
    Parent {
        /// Its agent.
        agent: AgentName,
        /// The run, where it is known.
        run: Option<RunId>,
        /// Its operation.
        operation: Option<OperationId>,
    },
    /// The message of the agent that handed over.
    Handoff {
        /// That agent.
        agent: AgentName,
    },
    /// The settings of the tenant.
    Tenant,
    /// The agent's instructions.
    Instructions,
    /// What was said before this run, in its session or in the run that it is a fork of.
    Earlier {
        /// By what: `user`, `model`, or a tool.
        of: String,
    },
    /// The arguments of the call that a tool's document performs.
    Call {
        /// The call.
        operation: OperationId,
    },
    /// An outcome of this run.
    Outcome {
        /// The operation.
        operation: OperationId,
        /// Its step.
        step: u64,
        /// What it is, such as ``tool `mail.read` ``.
        label: String,
    },
    /// A reply of the model, before the one that asked. It is told only where nothing else has the value.
    Reply {
        /// The completion.
        operation: OperationId,
        /// Its step.
        step: u64,
    },
}

/// The request that is looked at, until all of it is known.
struct Asked {
    step: u64,
    label: String,
    author: Author,
    request: Request,
    /// The arguments with which it was asked for.
    original: Value,
    templates: Vec<(String, TemplateRead)>,
}

impl Journal {
    /// Says where the values of a request came from. None where the run has asked for no such operation, or shares it with the run
    /// that it is a fork of.
    ///
    /// # Errors
    /// When the run is unknown, its journal is damaged, or it does not replay as far as that operation.
    pub async fn why(&self, run: RunId, operation: OperationId) -> Result<Option<Provenance>, HistoryError> {
        let (config, records) = self.journal_of(run).await?;
        let mut fold = self.begin(run, Arc::clone(&config), &records).await?;
        let mut known = Known::begin(&config, &records[0], fold.state());
        let mut asked: Option<Asked> = None;
        let mut edited = None;
        for record in &records[1..] {
            fold.apply(record)?;
            let state = fold.state();
            let Some(id) = record.operation else { continue };
            let find = || state.pending().iter().find(|pending| pending.operation.id == id);
            match &record.body {
                Body::Requested { step, label, .. } => {
                    let Some(pending) = find() else { continue };
                    if id == operation {
                        let author = author(&known, state, &config, pending);
                        known.only_for(&author);
                        asked = Some(Asked {
                            step: *step,
                            label: label.clone(),
                            author,
                            request: pending.operation.request.clone(),
                            original: arguments(&pending.operation.request),
                            templates: read_by_templates(&known, state, &config, pending),
                        });
                    } else if asked.is_none() {
                        known.requested(*step, label, &config, state, pending);
                    }
                }
                Body::Answered { answer: Answer::Approved { edited: Some(_), by, .. } }
                    if id == operation =>
                {
                    edited = Some(Edited { by: by.clone() });
                    if let (Some(asked), Some(pending)) = (&mut asked, find()) {
                        asked.request = pending.operation.request.clone();
                    }
                }
                Body::Resolved { .. } if id == operation => break,
                Body::Resolved { outcome, .. } if asked.is_none() => known.settled(id, outcome),
                Body::Answered { answer } if asked.is_none() => {
                    if let Some(outcome) = answer.outcome() {
                        known.settled(id, &outcome);
                    }
                }
                _ => {}
            }
        }
        Ok(asked.map(|asked| trace(operation, asked, edited.as_ref(), &known)))
    }
}

/// What put a request together.
fn author(known: &Known, state: &AgentState, config: &AgentConfig, pending: &Pending) -> Author {
    if let Some(call) = pending.parent {
        let mut above = state.pending().iter().filter(|pending| pending.operation.id == call);
        if let Some(called) = above.find_map(|pending| pending.operation.request.as_tool_call()) {
            return Author::Document { tool: called.tool_name.clone(), call };
        }
    }
    if let Some(part) = state.plan_part(config, pending.operation.id) {
        return Author::Plan { place: part.to_string() };
    }
    let is_call = matches!(pending.operation.request, Request::ToolCall(_) | Request::AgentCall(_))
        || state.call_id_of(pending.operation.id).is_some();
    match (is_call, known.reply()) {
        (true, Some((completion, step, messages))) => Author::Model { completion, step, messages },
        _ => Author::Agent,
    }
}

/// What the plan's templates for a request read, each with the place in the request that it is for.
fn read_by_templates(
    known: &Known,
    state: &AgentState,
    config: &AgentConfig,
    pending: &Pending,
) -> Vec<(String, TemplateRead)> {
    let part = state.plan_part(config, pending.operation.id).filter(|_| pending.parent.is_none());
    let reads = part.map(|part| part.reads()).unwrap_or_default();
    let read = |read: PartRead| {
        let operation = known.result_of(&read.path);
        let PartRead { place, template, range, path } = read;
        (place, TemplateRead { template, range, reads: path.join("."), operation })
    };
    reads.into_iter().map(read).collect()
}

/// Looks for each value of a request.
fn trace(operation: OperationId, asked: Asked, edited: Option<&Edited>, known: &Known) -> Provenance {
    let Asked { step, label, author, request, original, templates } = asked;
    let arguments = arguments(&request);
    let before: BTreeMap<String, &Value> = leaves_with_paths(&original).collect();
    let mut values = Vec::new();
    let mut further = 0;
    for (path, leaf) in leaves_with_paths(&arguments) {
        let Some(sought) = Sought::of(leaf) else { continue };
        if values.len() == VALUES_MAX {
            further += 1;
            continue;
        }
        let is_edited = before.get(&path).is_none_or(|was| *was != leaf);
        let found = known.places(&sought, PLACES_MAX);
        let parts = match (found.is_empty(), leaf) {
            (true, Value::String(text)) => parts(text)
                .map(|text| {
                    let part = Value::String(text.to_owned());
                    let found = Sought::of(&part).map(|part| known.places(&part, 2)).unwrap_or_default();
                    TracedPart { text: text.to_owned(), found }
                })
                .collect(),
            _ => Vec::new(),
        };
        let reads = templates.iter().filter(|(at, _)| !is_edited && stands_at(&path, at));
        values.push(Traced {
            templates: reads.map(|(_, read)| read.clone()).collect(),
            edited: edited.filter(|_| is_edited).cloned(),
            value: leaf.clone(),
            path,
            found,
            parts,
        });
    }
    Provenance { operation, step, label, author, values, further }
}

/// Says whether a value at `path` is of what stands at `at`: there, or below it.
fn stands_at(path: &str, at: &str) -> bool {
    path.strip_prefix(at).is_some_and(|rest| rest.is_empty() || at.is_empty() || rest.starts_with(['.', '[']))
}

/// Says whether a completion continues the agent's own conversation.
fn is_reply(request: &Request) -> bool {
    matches!(request, Request::ModelCompletion(completion) if matches!(completion.purpose, Purpose::Reply))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
