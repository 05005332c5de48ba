//! The bounds of one run. Reaching one is an outcome, not a crash.

use serde::{Deserialize, Serialize};

use crate::canonical::Canonical;
use crate::response::Usage;

/// The bounds of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Most steps: one model reply or one group of operations each. 64 by default, several times what a sound run takes.
    pub max_steps: u64,
    /// Most tool calls, memory tools and child runs included. 64 by default.
    pub max_tool_calls: u64,
    /// Most active time in milliseconds; waiting for a person and time between processes do not count. 10 minutes by
    /// default. The shell sums it and sends the signal; the core never reads a clock.
    pub timeout_ms: u64,
    /// How long an approval or a question waits for a person, in milliseconds: after that the answer is no. For ever when
    /// absent. The shell keeps the time; whether something took place is asked for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_timeout_ms: Option<u64>,
    /// What happens at `max_steps`, `max_tool_calls`, `max_tokens` or `max_cost`.
    pub on_exceeded: OnExceeded,
    /// Most tokens, sent and received, child runs included; no bound when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Most that model calls may cost, child runs included, in billionths of a US dollar; no bound when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_nano_usd: Option<u64>,
    /// Most bytes of what a plan keeps, as JSON: results, variables, what it says, its structured answer; most of what
    /// the operations of one of its steps carry together; and most of what has come of a step's operations while others
    /// are on their way, together with what is kept. 1 MiB by default: every snapshot holds them.
    #[serde(skip_serializing_if = "is_default_state")]
    pub max_state_bytes: u64,
    /// How often in a row a model may make the same call with the same result, or the same up to four calls with the
    /// same results; then it is warned, and the run ends if it goes on. 3 by default, 0 for no bound; 1 counts as 2, since
    /// the first time repeats nothing.
    #[serde(skip_serializing_if = "is_default_repeat")]
    pub repeat_limit: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_steps: 64,
            max_tool_calls: 64,
            timeout_ms: 600_000,
            answer_timeout_ms: None,
            on_exceeded: OnExceeded::Fail,
            max_tokens: None,
            max_cost_nano_usd: None,
            max_state_bytes: DEFAULT_STATE_BYTES,
            repeat_limit: DEFAULT_REPEAT_LIMIT,
        }
    }
}

const DEFAULT_STATE_BYTES: u64 = 1 << 20;
const DEFAULT_REPEAT_LIMIT: u32 = 3;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_default_state(bytes: &u64) -> bool {
    *bytes == DEFAULT_STATE_BYTES
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_default_repeat(limit: &u32) -> bool {
    *limit == DEFAULT_REPEAT_LIMIT
}

impl Limits {
    /// What a run under these limits may use at most.
    pub fn budget(&self) -> Budget {
        Budget {
            max_tool_calls: self.max_tool_calls,
            max_tokens: self.max_tokens,
            max_cost_nano_usd: self.max_cost_nano_usd,
        }
    }
}

/// What a run may use at most of the things that it shares with the runs it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Most tool calls.
    pub max_tool_calls: u64,
    /// Most tokens, sent and received; no bound when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Most cost in billionths of a US dollar; no bound when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_nano_usd: Option<u64>,
}

impl Budget {
    /// The smaller of two budgets, in each part.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        let least = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self {
            max_tool_calls: self.max_tool_calls.min(other.max_tool_calls),
            max_tokens: least(self.max_tokens, other.max_tokens),
            max_cost_nano_usd: least(self.max_cost_nano_usd, other.max_cost_nano_usd),
        }
    }

    /// What is left of the budget after this use.
    #[must_use]
    pub fn without(self, usage: &Usage) -> Self {
        Self {
            max_tool_calls: self.max_tool_calls.saturating_sub(usage.tool_calls),
            max_tokens: self.max_tokens.map(|most| most.saturating_sub(usage.tokens())),
            max_cost_nano_usd: self.max_cost_nano_usd.map(|most| most.saturating_sub(usage.cost_nano_usd)),
        }
    }

    pub(crate) fn feed(&self, canonical: &mut Canonical) {
        canonical.number(self.max_tool_calls);
        canonical.number(self.max_tokens.unwrap_or(u64::MAX));
        canonical.number(self.max_cost_nano_usd.unwrap_or(u64::MAX));
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
