//! One file for each phase of a run.

pub(crate) mod admit;
pub(crate) mod answer;
pub(crate) mod budget;
pub(crate) mod calls;
pub(crate) mod compact;
pub(crate) mod declarative;
pub(crate) mod end;
pub(crate) mod live;
pub(crate) mod plan;
pub(crate) mod repeat;
pub(crate) mod result;
pub(crate) mod scope;
pub(crate) mod start;
pub(crate) mod think;

use alloc::string::String;

use crate::response::{RunError, RunErrorCode, Status};

/// Why a run cannot go on.
pub(crate) struct Stop {
    pub(crate) status: Status,
    pub(crate) error: RunError,
}

impl Stop {
    pub(crate) fn failed(code: RunErrorCode, message: String, help: &str) -> Self {
        Self { status: Status::Failed, error: RunError { code, message, help: help.into() } }
    }

    pub(crate) fn evaluation(what: &str, error: &dalsegno_expr::EvalError) -> Self {
        Self::failed(
            RunErrorCode::EvaluationFailed,
            alloc::format!("{what}: {error}"),
            "correct the template or expression in the agent file",
        )
    }
}
