//! The end of a call: what the journal keeps of it and what the model is told.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::context::Write;
use crate::json;
use crate::parameters::Coercion;

/// The end of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The outcome.
    pub outcome: ToolOutcome,
    /// What the call writes into its session, in order. To be applied as a whole.
    pub writes: Vec<Write>,
}

/// What came of a tool call. Without secrets, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolOutcome {
    /// Whether the tool succeeded.
    pub ok: bool,
    /// The model's id of the call.
    pub function_call_id: String,
    /// What the tool gives back; null where it failed.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub output: Value,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// What the agent says, in order.
    pub said: Vec<String>,
    /// Who goes on with the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<HandoffTo>,
    /// Arguments that were taken as another type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coerced: Vec<Coercion>,
    /// What each action did.
    pub actions: Vec<ActionTrace>,
}

impl Finished {
    /// The end of work that only wrote.
    pub fn wrote(writes: Vec<Write>) -> Self {
        let outcome = ToolOutcome {
            ok: true,
            function_call_id: String::new(),
            output: Value::Null,
            error: None,
            said: Vec::new(),
            handoff: None,
            coerced: Vec::new(),
            actions: Vec::new(),
        };
        Self { outcome, writes }
    }
}

impl ToolOutcome {
    /// The outcome of a call that never began, for instance of a tool that does not exist.
    pub fn refused(function_call_id: impl Into<String>, error: ToolError) -> Self {
        Self {
            ok: false,
            function_call_id: function_call_id.into(),
            output: Value::Null,
            error: Some(error),
            said: Vec::new(),
            handoff: None,
            coerced: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Returns the JSON text that the model reads: no trace, no address and no text that a service sent with an error.
    pub fn model_text(&self) -> String {
        let mut fields = Map::new();
        fields.insert("ok".into(), self.ok.into());
        if self.ok {
            fields.insert("output".into(), self.output.clone());
        }
        if let Some(error) = &self.error {
            fields.insert("error".into(), error.for_model());
        }
        if !self.said.is_empty() {
            fields.insert("said".into(), json!(self.said));
        }
        if let Some(handoff) = &self.handoff {
            fields.insert("handoff".into(), handoff.target_agent.as_str().into());
        }
        if !self.coerced.is_empty() {
            let notes: Vec<String> = self.coerced.iter().map(Coercion::to_note).collect();
            fields.insert("notes".into(), json!(notes));
        }
        json::print(&Value::Object(fields))
    }
}

/// The agent that the session goes on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffTo {
    /// The agent's name as the document has it; `-` and `_` mean the same.
    pub target_agent: String,
    /// What is said with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolError {
    /// The kind.
    pub code: ErrorCode,
    /// Why, for the people who keep the tool.
    pub message: String,
    /// More: `reason` (more than the code, in one word), `status`, `violations`, `body`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
    /// The action that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Box<ActionPlace>>,
}

impl ToolError {
    /// An error without details.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Map::new(), action: None }
    }

    pub(crate) fn because(code: ErrorCode, reason: &str, message: impl Into<String>) -> Self {
        Self::new(code, message).with("reason", reason)
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.into(), value.into());
        self
    }

    pub(crate) fn limit(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::LimitExceeded, message)
    }

    /// About how many bytes of text it has.
    pub fn bytes(&self) -> usize {
        let details = self.details.iter().map(|(name, value)| name.len() + json::print(value).len());
        self.message.len() + details.sum::<usize>()
    }

    /// The value of `error` in `on_failure` of a document and, for a plan, after a failed call: `code`, `message`, `action` and
    /// `details`. For the people who keep the tool; a model is told less.
    pub fn to_value(&self) -> Value {
        let action = self.action.as_ref().map(|place| place.id.as_deref().unwrap_or(&place.action));
        json!({"code": self.code.as_str(), "message": self.message, "action": action, "details": self.details})
    }

    /// The message that a model may read: no address and no text of a service.
    pub fn careful_message(&self) -> &str {
        match self.code.is_about_arguments() {
            true => &self.message,
            false => self.code.plain_words(),
        }
    }

    fn for_model(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("code".into(), self.code.as_str().into());
        fields.insert("message".into(), self.careful_message().into());
        for name in ["violations", "status"] {
            if let Some(value) = self.details.get(name) {
                fields.insert(name.into(), value.clone());
            }
        }
        Value::Object(fields)
    }
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// There is no such tool, or it is switched off.
    ToolNotFound,
    /// The arguments break the schema.
    InvalidArguments,
    /// A `validate` action refused.
    ValidationFailed,
    /// An action could not do its work.
    ActionFailed,
    /// An endpoint answered with an error, or could not be reached.
    HttpError,
    /// An endpoint did not answer in time.
    Timeout,
    /// The place that a request leads to is not allowed.
    EgressDenied,
    /// The call or the write is not allowed.
    NotPermitted,
    /// A person has to agree first.
    ApprovalRequired,
    /// The call was cancelled.
    Cancelled,
    /// An action may have taken place, and nobody knows.
    Indeterminate,
    /// An action took place, and what came back of it cannot be read.
    ResultUnreadable,
    /// A limit was reached.
    LimitExceeded,
    /// The engine's own fault.
    Internal,
}

impl ErrorCode {
    /// Every code.
    pub const ALL: &[Self] = &[
        Self::ToolNotFound,
        Self::InvalidArguments,
        Self::ValidationFailed,
        Self::ActionFailed,
        Self::HttpError,
        Self::Timeout,
        Self::EgressDenied,
        Self::NotPermitted,
        Self::ApprovalRequired,
        Self::Cancelled,
        Self::Indeterminate,
        Self::ResultUnreadable,
        Self::LimitExceeded,
        Self::Internal,
    ];

    /// The code as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ToolNotFound => "tool_not_found",
            Self::InvalidArguments => "invalid_arguments",
            Self::ValidationFailed => "validation_failed",
            Self::ActionFailed => "action_failed",
            Self::HttpError => "http_error",
            Self::Timeout => "timeout",
            Self::EgressDenied => "egress_denied",
            Self::NotPermitted => "not_permitted",
            Self::ApprovalRequired => "approval_required",
            Self::Cancelled => "cancelled",
            Self::Indeterminate => "indeterminate",
            Self::ResultUnreadable => "result_unreadable",
            Self::LimitExceeded => "limit_exceeded",
            Self::Internal => "internal",
        }
    }

    /// Says whether the message is about what the model itself gave.
    fn is_about_arguments(self) -> bool {
        matches!(self, Self::InvalidArguments | Self::ValidationFailed)
    }

    /// The words that the model is told.
    fn plain_words(self) -> &'static str {
        match self {
            Self::ToolNotFound => "the tool is not available",
            Self::InvalidArguments | Self::ValidationFailed => "the arguments are not valid",
            Self::ActionFailed => "the tool could not do its work",
            Self::HttpError => "the service behind the tool answered with an error",
            Self::Timeout => "the service behind the tool did not answer in time",
            Self::EgressDenied => "the tool may not reach the service",
            Self::NotPermitted => "the tool is not allowed to do this",
            Self::ApprovalRequired => "a person has to agree first",
            Self::Cancelled => "the call was cancelled",
            Self::Indeterminate => {
                "what the tool does may or may not have taken place; calling it again may do it twice"
            }
            Self::ResultUnreadable => {
                "the tool did its work, and the answer of the service cannot be read; calling it again would do it twice"
            }
            Self::LimitExceeded => "the call reached a limit",
            Self::Internal => "the engine could not run the tool",
        }
    }
}

impl core::str::FromStr for ErrorCode {
    type Err = UnknownErrorCode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text).ok_or(UnknownErrorCode)
    }
}

/// A text that is no [`ErrorCode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no code of an error of a declarative tool")]
pub struct UnknownErrorCode;

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which action of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionPlace {
    /// Its place below the tool, such as `actions[2].then_actions[0]`.
    pub action: String,
    /// Its `id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its type, such as `api_call`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// What an action did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionTrace {
    /// The action.
    #[serde(flatten)]
    pub place: ActionPlace,
    /// How it ended.
    pub status: ActionStatus,
    /// Why it failed, or what went wrong where it went on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// What was missing or odd.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What else is worth knowing, by the type of the action.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

/// How an action ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionStatus {
    /// It did its work.
    Ok,
    /// It failed, and the list with it.
    Failed,
    /// It failed, and the list went on (`on_error: continue`).
    Continued,
    /// The list ended before it.
    Skipped,
}
