//! News for a run: outcomes, gates and their answers, signals.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{OperationId, Timestamp};
use crate::operation::Gate;
use crate::reply::{ModelReply, Verdict, Violation};

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
    /// The tool answered, well or with an error of its own.
    ToolReturned(ToolReturn),
    /// There is no answer.
    Failed(Failure),
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

/// What a tool answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolReturn {
    /// The structured result, if there is one.
    #[serde(default)]
    pub structured: Option<Value>,
    /// The result as text.
    #[serde(default)]
    pub text: String,
    /// The tool says that it failed.
    #[serde(default)]
    pub is_error: bool,
}

impl ToolReturn {
    /// A structured result.
    pub fn structured(value: Value) -> Self {
        Self { structured: Some(value), text: String::new(), is_error: false }
    }

    /// What a plan reads: the structured result, else the text parsed as JSON, else the text.
    pub(crate) fn into_value(self) -> Value {
        match self.structured {
            Some(value) => value,
            None => serde_json::from_str(&self.text).unwrap_or(Value::String(self.text)),
        }
    }

    /// What a model reads.
    pub(crate) fn into_text(self) -> String {
        match self.structured {
            Some(value) if self.text.is_empty() => alloc::format!("{value}"),
            _ => self.text,
        }
    }
}

/// Why an operation has no answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of failure.
    pub code: FailureCode,
    /// What went wrong, in words for whoever reads the trace.
    pub message: String,
    /// Each argument that does not fit, when the code is `invalid_arguments`.
    #[serde(default)]
    pub violations: Vec<Violation>,
}

impl Failure {
    /// A failure without further details.
    pub fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), violations: Vec::new() }
    }
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// No answer within the time allowed.
    Timeout,
    /// The receiver could not be reached or started.
    Unavailable,
    /// The receiver answered something that cannot be used.
    Protocol,
    /// The tool itself says that it failed.
    ToolFailed,
    /// The arguments do not fit the tool's schema; nothing was called.
    InvalidArguments,
    /// A person said no; nothing was called.
    Denied,
    /// Possibly received, never answered, and the policy is to report it.
    Indeterminate,
    /// A limit of size or count was reached.
    LimitExceeded,
    /// The engine's own store or memory failed.
    Internal,
}

impl FailureCode {
    /// The code as text, such as `invalid_arguments`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::Protocol => "protocol",
            Self::ToolFailed => "tool_failed",
            Self::InvalidArguments => "invalid_arguments",
            Self::Denied => "denied",
            Self::Indeterminate => "indeterminate",
            Self::LimitExceeded => "limit_exceeded",
            Self::Internal => "internal",
        }
    }
}

/// An answer at a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Go on.
    Approved {
        /// The verdict on edited arguments, which then replace the tool's own.
        #[serde(default)]
        edited: Option<Verdict>,
        /// Why.
        #[serde(default)]
        reason: Option<String>,
        /// Who.
        #[serde(default)]
        by: Option<String>,
    },
    /// Do not.
    Denied {
        /// Why.
        #[serde(default)]
        reason: Option<String>,
        /// Who.
        #[serde(default)]
        by: Option<String>,
    },
    /// In doubt: the effect took place.
    Done {
        /// What it returned, if that is known.
        #[serde(default)]
        result: Option<Value>,
        /// Who says so.
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

/// A signal to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Somebody wants the run to end.
    Cancel,
    /// The run's active time is used up.
    Deadline,
}
