//! Why an operation has no answer.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::event::Outcome;
use crate::reply::Violation;

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
    /// Attempts before the last one that the receiver possibly acted on; a model's provider may have charged for them.
    #[serde(default, skip_serializing_if = "crate::reply::is_zero")]
    pub lost_attempts: u32,
    /// The last attempt was certainly not worked on, so that nothing is paid for it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub unsent: bool,
    /// The core of a call came to it by itself: the operation is not waited for any more, and needs no process.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub withdrawn: bool,
    /// What a person who looks for the cause should see besides, such as the last words of a tool server. No model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Failure {
    /// Says whether a model was not asked because something outside of the run's own limits bounds what may be spent: another
    /// model would not be asked either.
    pub(crate) fn is_over_budget(&self) -> bool {
        self.code == FailureCode::LimitExceeded && self.unsent
    }

    /// A failure without further details.
    pub fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            violations: Vec::new(),
            lost_attempts: 0,
            unsent: false,
            withdrawn: false,
            detail: None,
        }
    }

    /// A failure to which the core of a call comes by itself.
    pub(crate) fn withdrawal(code: FailureCode, message: &str) -> Self {
        Self { withdrawn: true, ..Self::new(code, message) }
    }

    /// Says whether the core of a call came to it before that was recorded as such: then its words alone tell.
    fn was_withdrawal(&self) -> bool {
        matches!(
            (self.code, self.message.as_str()),
            (FailureCode::Cancelled, INTERRUPTED | HUNG_UP) | (FailureCode::Denied, HUNG_UP)
        )
    }
}

/// The message of a withdrawal when the live model is interrupted.
pub(crate) const INTERRUPTED: &str = "the live model was interrupted";

/// The message of a withdrawal when the caller has hung up.
pub(crate) const HUNG_UP: &str = "the call has ended";

impl Outcome {
    /// Says whether the core of a call came to this outcome by itself: the operation needs no process any more.
    pub fn is_withdrawal(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.withdrawn || failure.was_withdrawal())
    }

    /// Says whether this outcome, to which the core comes, is the recorded one. Journals of before do not say of a withdrawal that it is one.
    pub fn is_recorded_as(&self, recorded: &Self) -> bool {
        match (self, recorded) {
            (Self::Failed(own), Self::Failed(recorded)) if own.withdrawn && !recorded.withdrawn => {
                own.was_withdrawal() && *recorded == Failure { withdrawn: false, ..own.clone() }
            }
            _ => self == recorded,
        }
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
    /// Too much waits for the receiver already; nothing was sent.
    Overloaded,
    /// The receiver answered something that cannot be used.
    Protocol,
    /// The tool itself says that it failed.
    ToolFailed,
    /// The arguments do not fit the tool's schema; nothing was called.
    InvalidArguments,
    /// A person said no; nothing was called.
    Denied,
    /// The rules of the workspace or of the tenant do not allow it; nothing was sent.
    NotPermitted,
    /// Possibly received, never answered, and the policy is to report it.
    Indeterminate,
    /// The effect took place, and what came back of it cannot be read: it is too large, cut off or of another kind than
    /// promised. It is not repeated.
    ResultUnreadable,
    /// The process died so often while the operation was under way that it is not started again.
    CrashLoop,
    /// A limit of size or count was reached.
    LimitExceeded,
    /// A model's structured answer does not fit its schema.
    InvalidOutput,
    /// A child run failed.
    AgentFailed,
    /// Somebody ended a child run.
    Cancelled,
    /// The engine's own store or memory failed.
    Internal,
}

impl FailureCode {
    /// Says whether another tool may be called after such a failure: not where a person said no or the arguments do not
    /// fit, and not where the effect took place or may have, which would then take place twice. An answer that cannot be
    /// used is one to an effect that took place. A timeout is none: of an effect that may not be repeated a shell reports
    /// [`Indeterminate`](Self::Indeterminate) instead.
    pub(crate) const fn allows_another_tool(self) -> bool {
        match self {
            Self::Timeout
            | Self::Unavailable
            | Self::Overloaded
            | Self::ToolFailed
            | Self::AgentFailed
            | Self::CrashLoop
            | Self::Cancelled => true,
            Self::Denied
            | Self::NotPermitted
            | Self::InvalidArguments
            | Self::Indeterminate
            | Self::ResultUnreadable
            | Self::Protocol
            | Self::LimitExceeded
            | Self::InvalidOutput
            | Self::Internal => false,
        }
    }

    /// Says whether a value that the author wrote may stand for the result: not for what a person refused, and not, since
    /// the rules of number 2, for what may have taken place.
    pub(crate) const fn allows_a_default(self, semantics: u32) -> bool {
        match self {
            Self::Denied => false,
            Self::Indeterminate => semantics < 2,
            _ => true,
        }
    }

    /// Every code.
    pub const ALL: &[Self] = &[
        Self::Timeout,
        Self::Unavailable,
        Self::Overloaded,
        Self::Protocol,
        Self::ToolFailed,
        Self::InvalidArguments,
        Self::Denied,
        Self::NotPermitted,
        Self::Indeterminate,
        Self::ResultUnreadable,
        Self::CrashLoop,
        Self::LimitExceeded,
        Self::InvalidOutput,
        Self::AgentFailed,
        Self::Cancelled,
        Self::Internal,
    ];

    /// The code as text, such as `invalid_arguments`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::Overloaded => "overloaded",
            Self::Protocol => "protocol",
            Self::ToolFailed => "tool_failed",
            Self::InvalidArguments => "invalid_arguments",
            Self::Denied => "denied",
            Self::NotPermitted => "not_permitted",
            Self::Indeterminate => "indeterminate",
            Self::ResultUnreadable => "result_unreadable",
            Self::CrashLoop => "crash_loop",
            Self::LimitExceeded => "limit_exceeded",
            Self::InvalidOutput => "invalid_output",
            Self::AgentFailed => "agent_failed",
            Self::Cancelled => "cancelled",
            Self::Internal => "internal",
        }
    }
}
