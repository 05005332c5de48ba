//! What models, plans and documents read of an operation's outcome.

use alloc::string::String;

use serde_json::{Value, json};

use super::Stop;
use crate::canonical::print_json;
use crate::event::{AgentReturn, Failure, FailureCode, Outcome, ToolReturn};
use crate::join::{Pending, Settled};
use crate::operation::{GateState, Request};
use crate::reply::CallRequest;
use crate::response::{RunErrorCode, Status};

/// What the model reads of an outcome, or why there is nothing to read.
pub(super) fn result(outcome: Option<Outcome>) -> Result<Settled, Failure> {
    let mut returned = outcome.ok_or_else(missing)?.into_tool_return()?;
    if returned.is_error {
        let code = returned.code.unwrap_or(FailureCode::ToolFailed);
        return Err(Failure::new(code, returned.into_text()));
    }
    let files = core::mem::take(&mut returned.files);
    Ok(Settled { files, ..Settled::text(returned.into_text()) })
}

impl Outcome {
    /// Returns the outcome in the form of a tool's result, which is what a model reads.
    ///
    /// # Errors
    ///
    /// The failure where there is no answer, and one of its own where no model reads such an outcome.
    pub fn into_tool_return(self) -> Result<ToolReturn, Failure> {
        match self {
            Self::ToolReturned(returned) => Ok(returned),
            Self::MemoryFound(hits) => Ok(ToolReturn::structured(json!({ "hits": hits }))),
            Self::MemoryCreated(created) => Ok(ToolReturn::structured(json!({ "created": created }))),
            Self::MemoryTraversed(found) => Ok(ToolReturn::structured(json!(found))),
            Self::AgentReturned(returned) => {
                Ok(ToolReturn { text: agent_answer(returned)?, ..ToolReturn::default() })
            }
            Self::Failed(failure) => Err(failure),
            // Only a declarative tool asks for these, and reads them itself.
            Self::ApiAnswered(_)
            | Self::EmailSent(_)
            | Self::TransferRequested
            | Self::ModelReplied(_)
            | Self::InputGiven(_)
            | Self::TimerFired => Err(missing()),
        }
    }

    /// Returns the value that a plan and a document read of the outcome.
    ///
    /// # Errors
    ///
    /// The failure where there is no answer or a tool answered with an error, and one of its own where the value follows
    /// from more than the outcome.
    pub fn into_value(self) -> Result<Value, Failure> {
        match self {
            Self::ToolReturned(returned) if returned.is_error => {
                let code = returned.code.unwrap_or(FailureCode::ToolFailed);
                let message = match returned.into_value() {
                    Value::String(text) => text,
                    value => print_json(&value),
                };
                Err(Failure::new(code, message))
            }
            Self::ToolReturned(returned) => Ok(returned.into_value()),
            Self::MemoryFound(hits) => Ok(json!(hits)),
            Self::MemoryCreated(created) => Ok(json!(created)),
            Self::MemoryTraversed(traversal) => Ok(json!(traversal)),
            Self::AgentReturned(returned) => agent_value(returned),
            Self::InputGiven(value) => Ok(value),
            Self::Failed(failure) => Err(failure),
            Self::ApiAnswered(_)
            | Self::EmailSent(_)
            | Self::TransferRequested
            | Self::ModelReplied(_)
            | Self::TimerFired => Err(missing()),
        }
    }
}

/// The child's structured answer, else its text parsed as JSON, else its text; null where it said nothing.
fn agent_value(returned: AgentReturn) -> Result<Value, Failure> {
    let AgentReturn { status, answer, output, error, .. } = returned;
    let code = match status {
        Status::Completed if output.is_none() && answer.is_none() => return Ok(Value::Null),
        Status::Completed => {
            let text = answer.unwrap_or_default();
            return Ok(ToolReturn { structured: output, text, ..ToolReturn::default() }.into_value());
        }
        Status::Cancelled => FailureCode::Cancelled,
        Status::Failed | Status::HandedOff => FailureCode::AgentFailed,
    };
    Err(match error {
        Some(error) => Failure::new(code, alloc::format!("{}: {}", error.code.as_str(), error.message)),
        None => Failure::new(code, "the child run did not complete"),
    })
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

pub(crate) fn missing() -> Failure {
    Failure::new(FailureCode::Internal, "the result is missing")
}
