//! The bounds of one run. Reaching one is an outcome, not a crash.

use serde::{Deserialize, Serialize};

/// The bounds of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Most steps: one model reply or one group of operations each. 64 by default, several times what a sound run takes.
    pub max_steps: u64,
    /// Most tool calls, memory tools included. 64 by default.
    pub max_tool_calls: u64,
    /// Most active time in milliseconds; waiting for a person and time between processes do not count. 10 minutes by
    /// default. The shell sums it and sends the signal; the core never reads a clock.
    pub timeout_ms: u64,
    /// What happens at `max_steps` or `max_tool_calls`.
    pub on_exceeded: OnExceeded,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_steps: 64, max_tool_calls: 64, timeout_ms: 600_000, on_exceeded: OnExceeded::Fail }
    }
}

/// What a model-driven run does at a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExceeded {
    /// The run fails with the partial answer.
    #[default]
    Fail,
    /// The model is asked once more, with tools off; that last call may exceed `max_steps` by one.
    Answer,
}
