//! News for a run: outcomes, gates and their answers, signals.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use dalsegno_tools::{ActionTrace, ApiResponse, ToolError, Write};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::canonical::print_json;
pub use crate::failure::{Failure, FailureCode};
use crate::id::{OperationId, RunId, Timestamp};
use crate::live::LiveNews;
use crate::media::misfit;
use crate::operation::Gate;
use crate::reply::{ModelReply, ReplyPart, Validation, Violation};
use crate::response::{RunError, RunErrorCode, Status, Usage};
use crate::transcript::Attachment;

/// One piece of news, with its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When the shell learned of it. The core's own time is the latest so far.
    pub at: Timestamp,
    /// What happened.
    pub news: News,
}

impl Event {
    /// An operation's outcome.
    pub fn outcome(at: Timestamp, operation: OperationId, outcome: Outcome) -> Self {
        Self { at, news: News::Outcome { operation, outcome } }
    }

    /// An operation now waits at a gate.
    pub fn gated(at: Timestamp, operation: OperationId, gate: Gate) -> Self {
        Self { at, news: News::Gated { operation, gate } }
    }

    /// An answer at an operation's gate.
    pub fn answer(at: Timestamp, operation: OperationId, answer: Answer) -> Self {
        Self { at, news: News::Answered { operation, answer } }
    }

    /// Something that happened in a call.
    pub fn live(at: Timestamp, news: LiveNews) -> Self {
        Self { at, news: News::Live(news) }
    }

    /// A signal to the run.
    pub fn signal(at: Timestamp, signal: Signal) -> Self {
        Self { at, news: News::Signalled(signal) }
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// An operation has its outcome.
    Outcome {
        /// Which operation.
        operation: OperationId,
        /// What came of it.
        outcome: Outcome,
    },
    /// An operation that had started now waits at a gate.
    Gated {
        /// Which operation.
        operation: OperationId,
        /// What must be answered.
        gate: Gate,
    },
    /// Somebody answered at an operation's gate.
    Answered {
        /// Which operation.
        operation: OperationId,
        /// The answer.
        answer: Answer,
    },
    /// The run is to stop.
    Signalled(Signal),
    /// Something happened in the call that the run is.
    Live(LiveNews),
}

/// What came of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The model replied.
    ModelReplied(ModelReply),
    /// The memory was searched; the best hit first.
    MemoryFound(Vec<MemoryHit>),
    /// The observation is in the memory.
    MemoryCreated(MemoryCreated),
    /// Relations were followed.
    MemoryTraversed(MemoryTraversal),
    /// The tool answered, well or with an error of its own.
    ToolReturned(ToolReturn),
    /// An HTTP endpoint answered, with whatever status.
    ApiAnswered(ApiResponse),
    /// A mail server took the mail.
    EmailSent(EmailReceipt),
    /// The provider of a call took the wish that it be transferred.
    TransferRequested,
    /// The child run is over, whatever its end.
    AgentReturned(AgentReturn),
    /// A person answered the question.
    InputGiven(Value),
    /// The time has come.
    TimerFired,
    /// There is no answer.
    Failed(Failure),
}

/// How deep JSON from outside may be nested. A state that holds it is deeper by a few levels, and must still be read
/// back from JSON, where `serde_json` stops at 128.
pub const MAX_DEPTH: usize = 96;

/// The largest outcome in bytes of text, 8 MiB: far above what a model reads, far below what a store refuses.
const MAX_SIZE: usize = 8 << 20;

impl Outcome {
    /// The outcome, or the failure that stands for one which no state can hold: JSON nested too deeply, text that is too
    /// large, a score that is not a number. A shell records it in this form.
    #[must_use]
    pub fn bounded(self) -> Self {
        let wrong = match &self {
            Self::ModelReplied(reply) => {
                let parts = reply.parts.iter().filter_map(|part| match part {
                    ReplyPart::Call(call) => call.checked(),
                    ReplyPart::Opaque { data, .. } => Some(data),
                    ReplyPart::Text(_) => None,
                });
                too_deep(parts.chain(reply.output.as_ref().and_then(Validation::arguments)))
            }
            // JSON has no such numbers, and they differ from themselves.
            Self::MemoryFound(hits) if hits.iter().any(|hit| !hit.score.is_finite()) => {
                Some(Failure::new(FailureCode::Protocol, "a hit has a score that is not a number"))
            }
            Self::MemoryFound(hits) => too_deep(hits.iter().map(|hit| &hit.metadata)),
            Self::ToolReturned(ToolReturn { structured, error, files, .. }) => {
                let values = structured.iter().chain(error.iter().flat_map(|error| error.details.values()));
                too_deep(values).or_else(|| misfit(files))
            }
            Self::ApiAnswered(response) => too_deep(core::iter::once(&response.body)),
            Self::AgentReturned(returned) => {
                too_deep(returned.output.iter().chain(returned.writes.iter().filter_map(Write::value)))
            }
            Self::InputGiven(value) => too_deep(core::iter::once(value)),
            Self::MemoryTraversed(found)
                if found.relations.iter().any(|relation| !relation.strength.is_finite()) =>
            {
                Some(Failure::new(FailureCode::Protocol, "a relation has a strength that is not a number"))
            }
            Self::MemoryTraversed(_)
            | Self::MemoryCreated(_)
            | Self::EmailSent(_)
            | Self::TransferRequested
            | Self::TimerFired
            | Self::Failed(_) => None,
        };
        let wrong = wrong.or_else(|| {
            let size = self.size();
            let message = || alloc::format!("the outcome has {size} bytes, which is more than {MAX_SIZE}");
            (size > MAX_SIZE).then(|| Failure::new(FailureCode::LimitExceeded, message()))
        });
        wrong.map_or(self, Self::Failed)
    }

    /// What is left of an outcome for which a state has no room: what it used.
    pub(crate) fn hollow(self) -> Self {
        match self {
            Self::ModelReplied(reply) => {
                Self::ModelReplied(ModelReply { parts: Vec::new(), output: None, ..reply })
            }
            Self::AgentReturned(returned) => {
                let (code, message) = (RunErrorCode::LimitExceeded, NO_ROOM.into());
                let error = Some(RunError { code, message, help: String::new() });
                let (status, writes) = (Status::Failed, Vec::new());
                Self::AgentReturned(AgentReturn {
                    status,
                    answer: None,
                    output: None,
                    error,
                    writes,
                    ..returned
                })
            }
            Self::Failed(failure) => {
                Self::Failed(Failure { message: NO_ROOM.into(), violations: Vec::new(), ..failure })
            }
            Self::MemoryFound(_)
            | Self::MemoryCreated(_)
            | Self::MemoryTraversed(_)
            | Self::ToolReturned(_)
            | Self::ApiAnswered(_)
            | Self::EmailSent(_)
            | Self::TransferRequested
            | Self::InputGiven(_)
            | Self::TimerFired => Self::Failed(Failure::new(FailureCode::LimitExceeded, NO_ROOM)),
        }
    }

    /// About how large the outcome is, in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::ModelReplied(reply) => {
                let parts = reply.parts.iter().map(|part| match part {
                    ReplyPart::Text(text) => PART + text.len(),
                    ReplyPart::Call(call) => {
                        PART + call.call_id.len()
                            + call.name.len()
                            + call.arguments.len()
                            + call.validation.as_ref().map_or(0, validation_size)
                    }
                    ReplyPart::Opaque { provider, data } => PART + provider.len() + size(data),
                });
                parts.sum::<usize>() + reply.output.as_ref().map_or(0, validation_size)
            }
            Self::MemoryFound(hits) => {
                let hits = hits.iter().map(|hit| {
                    PART + hit.entity.len() + hit.entity_type.len() + hit.text.len() + size(&hit.metadata)
                });
                hits.sum()
            }
            Self::MemoryCreated(created) => created.entity.len() + created.observation.len(),
            Self::MemoryTraversed(found) => {
                let observed =
                    |entity: &TraversedEntity| entity.observations.iter().map(String::len).sum::<usize>();
                let entities = found
                    .entities
                    .iter()
                    .map(|entity| entity.entity.len() + entity.entity_type.len() + PART + observed(entity));
                let ends = |relation: &TraversedRelation| {
                    relation.from.len() + relation.relation.len() + relation.to.len() + PART
                };
                entities.sum::<usize>() + found.relations.iter().map(ends).sum::<usize>()
            }
            Self::AgentReturned(returned) => {
                let writes = returned.writes.iter().map(Write::bytes).fold(0, usize::saturating_add);
                let output = returned.output.as_ref().map_or(0, size);
                writes.saturating_add(returned.answer.as_ref().map_or(0, String::len) + output)
            }
            Self::InputGiven(value) => size(value),
            Self::TransferRequested | Self::TimerFired => 0,
            Self::ToolReturned(returned) => {
                returned.text.len()
                    + returned.structured.as_ref().map_or(0, size)
                    + returned.error.as_ref().map_or(0, |error| error.bytes())
                    + violations_size(&returned.violations)
                    + returned.files.iter().map(Attachment::size).sum::<usize>()
            }
            Self::ApiAnswered(response) => {
                let headers = response.headers.iter().map(|(name, value)| name.len() + value.len());
                let violations =
                    response.violations.iter().map(|one| PART + one.pointer.len() + one.message.len());
                size(&response.body) + headers.sum::<usize>() + violations.sum::<usize>()
            }
            Self::EmailSent(receipt) => receipt.message_id.as_ref().map_or(0, String::len),
            Self::Failed(failure) => {
                let detail = failure.detail.as_ref().map_or(0, String::len);
                failure.message.len() + detail + violations_size(&failure.violations)
            }
        }
    }
}

/// What stands in an outcome for which there is no room.
const NO_ROOM: &str = "the state has no room for what came of it";

/// What one part of an outcome takes besides its text.
const PART: usize = 64;

/// About how large a validation is, in bytes.
fn validation_size(validation: &Validation) -> usize {
    match validation {
        Validation::Valid { arguments } => size(arguments),
        Validation::Invalid { violations } => violations_size(violations),
        Validation::Malformed { message } => message.len(),
        Validation::Truncated => 0,
    }
}

fn violations_size(violations: &[Violation]) -> usize {
    violations.iter().map(|violation| PART + violation.path.len() + violation.message.len()).sum()
}

/// About how large a value is as JSON, in bytes.
pub(crate) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 1).sum(),
        Value::Object(fields) => fields.iter().map(|(name, field)| name.len() + size(field) + 4).sum(),
    }
}

fn too_deep<'a>(mut values: impl Iterator<Item = &'a Value>) -> Option<Failure> {
    let message = || alloc::format!("the outcome holds JSON that is nested more than {MAX_DEPTH} deep");
    values.any(|value| depth(value) > MAX_DEPTH).then(|| Failure::new(FailureCode::LimitExceeded, message()))
}

/// How deep a value is nested; 0 for one that holds no other.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
    }
}

/// One hit of a memory search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryHit {
    /// The entity's name.
    pub entity: String,
    /// The entity's type.
    pub entity_type: String,
    /// What was observed.
    pub text: String,
    /// How well it fits, from 0 to 1.
    pub score: f64,
    /// The entity's metadata.
    #[serde(default)]
    pub metadata: Value,
}

/// An observation that is now in the memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryCreated {
    /// The entity's name.
    pub entity: String,
    /// The observation's id in the memory.
    pub observation: String,
    /// The same content was known already.
    #[serde(default)]
    pub duplicate: bool,
}

/// What following relations reached.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryTraversal {
    /// The entities, the nearest first, then by name; the one that the walk began at is the first.
    pub entities: Vec<TraversedEntity>,
    /// The relations between them.
    pub relations: Vec<TraversedRelation>,
    /// There was more than the limit allows.
    #[serde(default)]
    pub truncated: bool,
}

/// An entity that a walk reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraversedEntity {
    /// Its name.
    pub entity: String,
    /// Its type.
    pub entity_type: String,
    /// The fewest relations from the beginning.
    pub depth: u32,
    /// What was observed of it, the newest first.
    pub observations: Vec<String>,
}

/// A relation that a walk followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraversedRelation {
    /// The entity that it goes from.
    pub from: String,
    /// Its type.
    pub relation: String,
    /// The entity that it goes to.
    pub to: String,
    /// How strong it is, from 0 to 1.
    pub strength: f64,
}

/// How a child run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentReturn {
    /// The run; after handoffs the last one.
    pub run: RunId,
    /// The kind of end.
    pub status: Status,
    /// What the agent answered.
    pub answer: Option<String>,
    /// Its structured answer.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub output: Option<Value>,
    /// Why it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// What it used, its own child runs and handoffs included.
    pub usage: Usage,
    /// What it wrote into the session, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<Write>,
}

/// What a tool answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolReturn {
    /// The structured result, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub structured: Option<Value>,
    /// The result as text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The tool says that it failed.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_error: bool,
    /// Why a declarative tool failed, where its caller must know: it may have taken place, or a person said no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<FailureCode>,
    /// Why a declarative tool failed, in its own words, for its author. Since the rules of number 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<ToolError>>,
    /// What each action of a declarative tool did, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<ActionTrace>,
    /// Where the result breaks what the tool promised of it. It is used all the same: its effect took place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// Files that the model reads with the result, such as images: at most [`RESULT_FILES_MAX`](crate::RESULT_FILES_MAX).
    /// Their bytes lie in the store. A plan and a document read none of them, and a failure has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Attachment>,
}

impl ToolReturn {
    /// A structured result.
    pub fn structured(value: Value) -> Self {
        Self { structured: Some(value), ..Self::default() }
    }

    /// What a plan reads: the structured result, else the text parsed as JSON, else the text.
    pub(crate) fn into_value(self) -> Value {
        match self.structured {
            Some(value) => value,
            None => match serde_json::from_str(&self.text) {
                Ok(value) if depth(&value) <= MAX_DEPTH => value,
                Ok(_) | Err(_) => Value::String(self.text),
            },
        }
    }

    /// Adds a line to what a model reads. A plan and a document read a structured result as it was.
    pub fn add_line(&mut self, line: &str) {
        if self.text.is_empty()
            && let Some(value) = &self.structured
        {
            self.text = print_json(value);
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(line);
    }

    /// What a model reads.
    pub(crate) fn into_text(self) -> String {
        match self.structured {
            Some(value) if self.text.is_empty() => print_json(&value),
            _ => self.text,
        }
    }
}

/// Reads a value that is there: `null` is a value, and only what is missing is none. Otherwise a tool that returned
/// `null` would have returned nothing once its outcome had been saved and loaded.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// What a mail server said of a mail that it took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmailReceipt {
    /// Its name for the mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

/// An answer at a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Go on.
    Approved {
        /// The validation of edited arguments, which then replace the tool's own.
        #[serde(default)]
        edited: Option<Validation>,
        /// Why.
        #[serde(default)]
        reason: Option<String>,
        /// Who.
        #[serde(default)]
        by: Option<String>,
    },
    /// Do not. Where nobody answered in time, the shell says so here, with `expired` as the reason and by nobody: nothing
    /// was called, and no value may pass for what nobody agreed to, as after a person's no.
    Denied {
        /// Why.
        #[serde(default)]
        reason: Option<String>,
        /// Who.
        #[serde(default)]
        by: Option<String>,
    },
    /// In doubt: it arrived, and the effect took place or was refused.
    Done {
        /// What it returned, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        result: Option<Value>,
        /// The error with which the receiver refused it: it arrived and is settled, and the operation failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Who says so.
        #[serde(default)]
        by: Option<String>,
    },
    /// A question's answer, which fits its schema.
    Given {
        /// The answer.
        value: Value,
        /// Who.
        #[serde(default)]
        by: Option<String>,
    },
    /// What a tool's server asked for, which fits the schema of its questions: the call goes on with it.
    Supplied {
        /// The answer to a single question, or answers by the server's names for several.
        value: Value,
        /// Who.
        #[serde(default)]
        by: Option<String>,
    },
    /// In doubt: the effect did not take place, so it may start again.
    NotDone {
        /// Who says so.
        #[serde(default)]
        by: Option<String>,
    },
}

impl Answer {
    /// The outcome that the answer itself brings: a denial, or the word that it was done. None when the operation goes
    /// on.
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Denied { reason, .. } => {
                let reason = reason.clone().unwrap_or_else(|| "no reason was given".into());
                Some(Outcome::Failed(Failure::new(FailureCode::Denied, reason)))
            }
            Self::Done { error: Some(error), .. } => {
                Some(Outcome::Failed(Failure::new(FailureCode::ToolFailed, error.clone())))
            }
            Self::Done { result, .. } => {
                let result = result.clone().unwrap_or_else(|| json!({ "settled": "done" }));
                Some(Outcome::ToolReturned(ToolReturn::structured(result)))
            }
            Self::Given { value, .. } => Some(Outcome::InputGiven(value.clone())),
            Self::Approved { .. } | Self::Supplied { .. } | Self::NotDone { .. } => None,
        }
    }
}

/// A signal to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Somebody wants the run to end.
    Cancel,
    /// The run's active time is used up.
    Deadline,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_null_stays_a_result() {
        for structured in [None, Some(Value::Null)] {
            let returned = ToolReturn { structured, ..ToolReturn::default() };
            let json = serde_json::to_string(&returned).unwrap();
            assert_eq!(serde_json::from_str::<ToolReturn>(&json).unwrap(), returned, "{json}");
            let bytes = rmp_serde::to_vec_named(&returned).unwrap();
            assert_eq!(rmp_serde::from_slice::<ToolReturn>(&bytes).unwrap(), returned);
        }
    }
}
