//! How an attempt fails: what went wrong, and whether its receiver may have acted.

use std::time::Duration;

use dalsegno_core::{Failure, FailureCode, Gate, Received};
use dalsegno_protocol::{CallError, CallErrorKind};

/// An attempt that brought no answer.
#[derive(Debug, Clone)]
pub(crate) struct AttemptError {
    /// What went wrong.
    pub(crate) failure: Failure,
    /// Whether the receiver may have acted.
    pub(crate) received: Received,
    /// Whether another attempt could help.
    pub(crate) transient: bool,
    /// The receiver's own wish for a pause.
    pub(crate) after: Option<Duration>,
    /// What must be settled before it can go on: a secret that is not in the store, a question of the server. Nothing took
    /// place then.
    pub(crate) gate: Option<Box<Gate>>,
    /// Its receiver works on it, and is to be asked again after the pause; nothing went wrong.
    pub(crate) is_under_way: bool,
}

/// A failure that certainly had no effect and will not go away.
pub(crate) fn certain(code: FailureCode, message: String) -> AttemptError {
    AttemptError {
        failure: Failure::new(code, message),
        received: Received::No,
        transient: false,
        after: None,
        gate: None,
        is_under_way: false,
    }
}

/// What is under way at its receiver, which is asked again after a pause.
pub(crate) fn later(pause: Duration) -> AttemptError {
    let words = "its receiver works on it".to_owned();
    AttemptError {
        received: Received::Possibly,
        after: Some(pause),
        is_under_way: true,
        ..certain(FailureCode::Unavailable, words)
    }
}

/// What it means that a server gave no answer.
pub(crate) fn no_answer(error: &CallError) -> AttemptError {
    let code = match error.kind {
        CallErrorKind::Timeout => FailureCode::Timeout,
        CallErrorKind::OutputTooLarge | CallErrorKind::OutOfMemory => FailureCode::LimitExceeded,
        CallErrorKind::Protocol => FailureCode::Protocol,
        CallErrorKind::Overloaded => FailureCode::Overloaded,
        CallErrorKind::Refused { .. } => FailureCode::ToolFailed,
        CallErrorKind::Cancelled => FailureCode::Cancelled,
        _ => FailureCode::Unavailable,
    };
    // A refusal is an answer: the server said that it did not process the call, or how it ended. The same call again
    // would be refused again.
    let answered = matches!(
        error.kind,
        CallErrorKind::Refused { .. } | CallErrorKind::UnknownTool | CallErrorKind::Cancelled
    );
    let refused = answered || error.kind == CallErrorKind::Unauthorized;
    let received = if answered { Received::No } else { error.received };
    // A model is told what happened, and a person also what the server wrote about it.
    let detail = (!error.stderr.is_empty()).then(|| format!("it last wrote: {}", error.stderr));
    let failure = Failure { detail, ..Failure::new(code, error.to_string()) };
    AttemptError { failure, received, transient: !refused, after: None, gate: None, is_under_way: false }
}

/// An error with its causes, in one line.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}
