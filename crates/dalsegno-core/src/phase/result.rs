//! What a model reads of an operation's outcome.

use alloc::string::String;

use serde_json::json;

use super::Stop;
use crate::canonical::print_json;
use crate::event::{AgentReturn, Failure, FailureCode, Outcome};
use crate::join::Pending;
use crate::operation::{GateState, Request};
use crate::reply::CallRequest;
use crate::response::{RunErrorCode, Status};

/// What the model reads of an outcome, or why there is nothing to read.
pub(super) fn result(outcome: Option<Outcome>) -> Result<String, Failure> {
    match outcome {
        Some(Outcome::ToolReturned(returned)) if returned.is_error => {
            let code = returned.code.unwrap_or(FailureCode::ToolFailed);
            Err(Failure::new(code, returned.into_text()))
        }
        Some(Outcome::ToolReturned(returned)) => Ok(returned.into_text()),
        Some(Outcome::MemoryFound(hits)) => Ok(print_json(&json!({ "hits": hits }))),
        Some(Outcome::MemoryCreated(created)) => Ok(print_json(&json!({ "created": created }))),
        Some(Outcome::MemoryTraversed(found)) => Ok(print_json(&json!(found))),
        Some(Outcome::AgentReturned(returned)) => agent_answer(returned),
        Some(Outcome::Failed(failure)) => Err(failure),
        // Only a declarative tool asks for these, and reads them itself.
        Some(Outcome::ApiAnswered(_) | Outcome::EmailSent(_))
        | Some(Outcome::ModelReplied(_) | Outcome::InputGiven(_) | Outcome::TimerFired)
        | None => Err(missing()),
    }
}

fn agent_answer(returned: AgentReturn) -> Result<String, Failure> {
    let AgentReturn { status, answer, output, error, .. } = returned;
    let code = match status {
        Status::Completed => {
            return Ok(answer.or_else(|| output.as_ref().map(print_json)).unwrap_or_default());
        }
        Status::Cancelled => FailureCode::Cancelled,
        Status::Failed | Status::HandedOff => FailureCode::AgentFailed,
    };
    let mut message = match error {
        Some(error) => alloc::format!("{}: {}", error.code.as_str(), error.message),
        None => "the agent did not complete".into(),
    };
    if let Some(answer) = answer {
        message.push_str("; it said: ");
        message.push_str(&answer);
    }
    Err(Failure::new(code, message))
}

/// The arguments that a person put in the place of the model's.
pub(super) fn edited(pending: &Pending, call: Option<&CallRequest>, stands_in: bool) -> Option<String> {
    // Nobody edits what needs no answer; a tool that stands in is called with what was edited before.
    if pending.operation.gate != GateState::Answered && !stands_in {
        return None;
    }
    let Request::ToolCall(made) = &pending.operation.request else { return None };
    let asked = call?.checked()?;
    (made.parameters != *asked).then(|| print_json(&made.parameters))
}

/// The result with what the model must know of it.
pub(super) fn told(edited: Option<String>, content: String) -> String {
    match edited {
        Some(mut arguments) => {
            let end = arguments.floor_char_boundary(EDITED_BYTES);
            if end < arguments.len() {
                arguments.truncate(end);
                arguments.push_str(" […]");
            }
            alloc::format!(
                "[A person changed the arguments. The tool was called with {arguments}.]\n{content}"
            )
        }
        None => content,
    }
}

/// Most bytes of changed arguments that the model is told.
const EDITED_BYTES: usize = 4_000;

/// The end of a run by a failed tool.
pub(super) fn failed(name: &str, failure: &Failure) -> Stop {
    let code = match failure.code {
        FailureCode::Denied => RunErrorCode::Denied,
        FailureCode::AgentFailed | FailureCode::Cancelled => RunErrorCode::AgentFailed,
        FailureCode::Timeout
        | FailureCode::Unavailable
        | FailureCode::Overloaded
        | FailureCode::Protocol
        | FailureCode::ToolFailed
        | FailureCode::InvalidArguments
        | FailureCode::NotPermitted
        | FailureCode::Indeterminate
        | FailureCode::ResultUnreadable
        | FailureCode::CrashLoop
        | FailureCode::LimitExceeded
        | FailureCode::InvalidOutput
        | FailureCode::Internal => RunErrorCode::ToolFailed,
    };
    let mut message = match code {
        RunErrorCode::Denied => alloc::format!("`{name}` was denied: {}", failure.message),
        _ => alloc::format!("`{name}` failed with {}: {}", failure.code.as_str(), failure.message),
    };
    for violation in &failure.violations {
        message.push_str(&alloc::format!("; `{}` {}", violation.path, violation.message));
    }
    Stop::failed(
        code,
        message,
        "set `on_failure = \"report\"` where the agent should go on without the result",
    )
}

pub(super) fn missing() -> Failure {
    Failure::new(FailureCode::Internal, "the result is missing")
}
