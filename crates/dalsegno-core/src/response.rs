//! How a run ended.

use alloc::string::String;
use alloc::vec::Vec;

use dalsegno_tools::Write;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::reply::TokenDetails;

/// How a run ended, whatever the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentResponse {
    /// The kind of end.
    pub status: Status,
    /// What the agent answers; partial when the run did not complete.
    pub answer: Option<String>,
    /// The structured answer, if the agent has one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::event::present")]
    pub output: Option<Value>,
    /// Why the run did not complete.
    #[serde(default)]
    pub error: Option<RunError>,
    /// What the run used.
    pub usage: Usage,
    /// What a child run wrote into the session, which is its parent's; nothing for other runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<Write>,
}

/// The kind of end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The agent answered.
    Completed,
    /// An error or a limit ended the run.
    Failed,
    /// Somebody ended the run.
    Cancelled,
    /// Another agent goes on in the same session.
    HandedOff,
}

/// Why a run did not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    /// The kind of error.
    pub code: RunErrorCode,
    /// What was wrong, and where.
    pub message: String,
    /// What to do next.
    pub help: String,
}

/// The kinds of error that end a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunErrorCode {
    /// A template or expression could not be evaluated.
    EvaluationFailed,
    /// The model gave no usable reply.
    ModelFailed,
    /// A memory operation failed.
    MemoryFailed,
    /// A tool failed where a failure ends the run.
    ToolFailed,
    /// A child run did not complete where that ends the run.
    AgentFailed,
    /// The model's structured answer does not fit its schema, and all re-asks are used up.
    InvalidOutput,
    /// The model repeats itself.
    CycleDetected,
    /// A person said no where that ends the run.
    Denied,
    /// One of the agent's limits was reached.
    LimitExceeded,
    /// The run's active time was used up.
    Timeout,
    /// Somebody ended the run.
    Cancelled,
    /// A person ended the run without a look at what it had done.
    Abandoned,
}

impl RunErrorCode {
    /// Every code.
    pub const ALL: &[Self] = &[
        Self::EvaluationFailed,
        Self::ModelFailed,
        Self::MemoryFailed,
        Self::ToolFailed,
        Self::AgentFailed,
        Self::InvalidOutput,
        Self::CycleDetected,
        Self::Denied,
        Self::LimitExceeded,
        Self::Timeout,
        Self::Cancelled,
        Self::Abandoned,
    ];

    /// The code as text, such as `limit_exceeded`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EvaluationFailed => "evaluation_failed",
            Self::ModelFailed => "model_failed",
            Self::MemoryFailed => "memory_failed",
            Self::ToolFailed => "tool_failed",
            Self::AgentFailed => "agent_failed",
            Self::InvalidOutput => "invalid_output",
            Self::CycleDetected => "cycle_detected",
            Self::Denied => "denied",
            Self::LimitExceeded => "limit_exceeded",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Abandoned => "abandoned",
        }
    }
}

impl AgentResponse {
    /// What is said of a run that a person ended without a look at what it had done.
    pub fn abandoned(reason: &str) -> Self {
        Self {
            status: Status::Failed,
            answer: None,
            output: None,
            error: Some(RunError {
                code: RunErrorCode::Abandoned,
                message: alloc::format!("a person abandoned the run: {reason}"),
                help: "start a new run".into(),
            }),
            usage: Usage::default(),
            writes: Vec::new(),
        }
    }
}

/// What a run used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Model replies.
    pub model_calls: u64,
    /// Tool calls, memory tools of a model included.
    pub tool_calls: u64,
    /// Tokens sent, as the providers count.
    pub input_tokens: u64,
    /// Tokens received, as the providers count.
    pub output_tokens: u64,
    /// What the model calls cost, in billionths of a US dollar, as far as prices are known.
    #[serde(skip_serializing_if = "is_zero")]
    pub cost_nano_usd: u64,
    /// What some of the tokens were, as the providers count.
    #[serde(skip_serializing_if = "TokenDetails::is_empty")]
    pub details: TokenDetails,
    /// The tokens among those sent and received that are estimated, since no provider counted them.
    #[serde(skip_serializing_if = "is_zero")]
    pub estimated_tokens: u64,
    /// The part of the cost that comes from estimated tokens.
    #[serde(skip_serializing_if = "is_zero")]
    pub estimated_cost_nano_usd: u64,
}

impl Usage {
    /// All tokens, sent and received.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds what another run used.
    pub fn add(&mut self, other: &Self) {
        self.model_calls = self.model_calls.saturating_add(other.model_calls);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cost_nano_usd = self.cost_nano_usd.saturating_add(other.cost_nano_usd);
        self.details.add(&other.details);
        self.estimated_tokens = self.estimated_tokens.saturating_add(other.estimated_tokens);
        self.estimated_cost_nano_usd =
            self.estimated_cost_nano_usd.saturating_add(other.estimated_cost_nano_usd);
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}
