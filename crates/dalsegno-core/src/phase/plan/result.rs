//! The outcome of an operation becomes its result, or the failure that its settings deal with.

use alloc::boxed::Box;
use alloc::string::{String, ToString};

use dalsegno_tools::ToolError;
use serde_json::{Value, json};

use super::place::Place;
use crate::canonical::print_json;
use crate::config::{AgentConfig, OnFailure, PlanCall, PlanOperation};
use crate::event::{Failure, FailureCode, Outcome};
use crate::id::ToolName;
use crate::join::Pending;
use crate::operation::{ModelCompletion, Operation, Prompt, Purpose, Request};
use crate::phase::result::missing;
use crate::phase::{Stop, budget};
use crate::reply::{ModelReply, StopReason, Validation, Violation};
use crate::response::RunErrorCode;
use crate::state::AgentState;

/// What an operation comes to.
pub(super) enum Folded {
    /// Its result.
    Value(Value),
    /// It failed, and this tool is called in its place with the same arguments.
    FallBack(FallBack),
    /// The run ends.
    Stop(Stop),
}

/// A tool that stands in for one that failed.
pub(super) struct FallBack {
    pub(super) from: ToolName,
    pub(super) to: ToolName,
    pub(super) parameters: Value,
    pub(super) reason: String,
}

/// Takes an outcome. Where the operation stands in for one that failed, its own tool's settings alone count.
pub(super) fn fold(
    config: &AgentConfig,
    place: Place<'_>,
    operation: &PlanOperation,
    stands_in: bool,
    pending: Pending,
    state: &mut AgentState,
) -> Folded {
    let Pending { operation: Operation { request, .. }, outcome, .. } = pending;
    let own = own_words(config.semantics, outcome.as_ref());
    let mut failure = match value(&request, outcome, state) {
        Ok(value) => return Folded::Value(value),
        Err(failure) => failure,
    };
    if let Some(own) = &own {
        failure.message = own.message();
    }
    let called = request.as_tool_call().map(|call| &call.tool_name);
    let of_tool = called.and_then(|name| config.tools.tools.get(name)?.on_failure.as_ref());
    let of_step = operation.on_failure.as_ref().filter(|_| !stands_in);
    match of_step.or(of_tool) {
        Some(OnFailure::Report) => return Folded::Value(report(config, &failure, own.as_ref())),
        Some(OnFailure::Default(value)) if failure.code.allows_a_default(config.semantics) => {
            return Folded::Value(value.clone());
        }
        Some(OnFailure::Fallback(to)) if !stands_in && failure.code.allows_another_tool() => {
            if let Request::ToolCall(call) = &request {
                return Folded::FallBack(FallBack {
                    from: call.tool_name.clone(),
                    to: to.clone(),
                    parameters: call.parameters.clone(),
                    reason: alloc::format!("{}: {}", code(&failure, own.as_ref()), failure.message),
                });
            }
        }
        Some(OnFailure::Fail | OnFailure::Default(_) | OnFailure::Fallback(_)) | None => {}
    }
    if config.has_third_rules() && failure.is_over_budget() && matches!(request, Request::ModelCompletion(_))
    {
        let (code, help) = (RunErrorCode::LimitExceeded, crate::phase::think::RAISE_THE_BUDGET);
        return Folded::Stop(place.stop(code, format_args!("{}", failure.message), help));
    }
    Folded::Stop(stop(place, &operation.call, &request, &failure, own.as_ref()))
}

/// What a tool says of its own failure.
#[derive(Debug)]
pub(crate) enum OwnWords {
    /// A declarative tool.
    Declared(Box<ToolError>),
    /// Any other one: its text, and its structured result where it has one.
    Said { text: String, data: Value },
}

impl OwnWords {
    /// The message that may reach a model.
    fn message(&self) -> String {
        match self {
            Self::Declared(error) => error.careful_message().to_string(),
            Self::Said { text, .. } => text.clone(),
        }
    }
}

/// What a tool says of its own failure, since the rules of number 3.
pub(crate) fn own_words(semantics: u32, outcome: Option<&Outcome>) -> Option<OwnWords> {
    let Some(Outcome::ToolReturned(returned)) = outcome else { return None };
    if !returned.is_error || semantics < 3 {
        return None;
    }
    if let Some(error) = &returned.error {
        return Some(OwnWords::Declared(error.clone()));
    }
    let data = match returned.clone().into_value() {
        Value::String(_) => Value::Null,
        data => data,
    };
    let text = if returned.text.is_empty() { print_json(&data) } else { returned.text.clone() };
    Some(OwnWords::Said { text, data })
}

/// The code of a failure: a declarative tool's own one, but for what its caller must know in any case.
fn code(failure: &Failure, own: Option<&OwnWords>) -> &'static str {
    match own {
        Some(OwnWords::Declared(error)) if failure.code == FailureCode::ToolFailed => error.code.as_str(),
        _ => failure.code.as_str(),
    }
}

/// What a later step reads of a failure.
fn report(config: &AgentConfig, failure: &Failure, own: Option<&OwnWords>) -> Value {
    let mut error = match own {
        Some(OwnWords::Declared(error)) => error.to_value(),
        _ => json!({ "message": failure.message }),
    };
    error["code"] = code(failure, own).into();
    if let Some(OwnWords::Said { data, .. }) = own
        && !data.is_null()
    {
        error["data"] = data.clone();
    }
    if config.has_third_rules() && !failure.violations.is_empty() {
        error["violations"] = json!(failure.violations);
    }
    json!({ "error": error })
}

/// The result; what it took is counted in any case.
fn value(request: &Request, outcome: Option<Outcome>, state: &mut AgentState) -> Result<Value, Failure> {
    match outcome {
        Some(Outcome::ModelReplied(reply)) => match asked(request) {
            Some((completion, prompt)) => {
                state.usage.add(&budget::of_reply(&prompt.model, completion, &reply));
                model_value(prompt, &reply)
            }
            None => Err(missing()),
        },
        Some(Outcome::TimerFired) => Ok(state.now.as_millis().into()),
        Some(outcome) => {
            if let Outcome::AgentReturned(returned) = &outcome {
                state.usage.add(&returned.usage);
            }
            if let (Outcome::Failed(failure), Some((completion, prompt))) = (&outcome, asked(request)) {
                state.usage.add(&budget::of_failure(&prompt.model, completion, failure));
            }
            outcome.into_value()
        }
        None => Err(missing()),
    }
}

/// The completion of a model step, with its prompt.
fn asked(request: &Request) -> Option<(&ModelCompletion, &Prompt)> {
    match request {
        Request::ModelCompletion(completion) => match &completion.purpose {
            Purpose::Step(prompt) => Some((&**completion, &**prompt)),
            Purpose::Reply | Purpose::Summary { .. } => None,
        },
        Request::MemorySearch(_)
        | Request::MemoryCreate(_)
        | Request::MemoryTraverse(_)
        | Request::ToolCall(_)
        | Request::ApiCall(_)
        | Request::Email(_)
        | Request::Transfer(_)
        | Request::AgentCall(_)
        | Request::Input(_)
        | Request::Timer(_) => None,
    }
}

fn model_value(prompt: &Prompt, reply: &ModelReply) -> Result<Value, Failure> {
    match reply.stop {
        StopReason::Refusal => {
            return Err(Failure::new(FailureCode::Protocol, "the provider withheld the reply"));
        }
        StopReason::Length => {
            let message = "the reply was cut off at its length limit";
            return Err(Failure::new(FailureCode::LimitExceeded, message));
        }
        StopReason::End | StopReason::ToolCalls => {}
    }
    let text = reply.text();
    if text.is_empty() {
        return Err(Failure::new(FailureCode::Protocol, "the model sent an empty reply"));
    }
    if prompt.schema.is_none() {
        return Ok(Value::String(text));
    }
    let unfit = |message: &str| Failure::new(FailureCode::InvalidOutput, message);
    Err(match &reply.output {
        Some(Validation::Valid { arguments }) => return Ok(arguments.clone()),
        Some(Validation::Invalid { violations }) => {
            let message = alloc::format!("the reply does not fit its schema{}", listed(violations));
            Failure { violations: violations.clone(), ..unfit(&message) }
        }
        Some(Validation::Malformed { message }) => unfit(&alloc::format!("the reply is not JSON: {message}")),
        Some(Validation::Truncated) => unfit("the reply was cut off and may be incomplete"),
        None => unfit("the reply was not checked against its schema"),
    })
}

/// The end of the run by a failed operation.
fn stop(
    place: Place<'_>,
    call: &PlanCall,
    request: &Request,
    failure: &Failure,
    own: Option<&OwnWords>,
) -> Stop {
    let own_code = code(failure, own);
    let (code, help) = match call {
        PlanCall::MemorySearch { .. } | PlanCall::MemoryCreate { .. } | PlanCall::MemoryTraverse { .. } => {
            (RunErrorCode::MemoryFailed, "look at the memory file that dalsegno.toml names")
        }
        PlanCall::Agent { .. } => (RunErrorCode::AgentFailed, REPORT),
        PlanCall::Model { .. } => match failure.code {
            FailureCode::InvalidOutput => (RunErrorCode::InvalidOutput, REPORT),
            FailureCode::LimitExceeded => (
                RunErrorCode::LimitExceeded,
                "raise `max_output_tokens` of the step's model, or ask for less",
            ),
            FailureCode::Timeout
            | FailureCode::Unavailable
            | FailureCode::Overloaded
            | FailureCode::Protocol
            | FailureCode::ToolFailed
            | FailureCode::InvalidArguments
            | FailureCode::Denied
            | FailureCode::NotPermitted
            | FailureCode::Indeterminate
            | FailureCode::ResultUnreadable
            | FailureCode::CrashLoop
            | FailureCode::AgentFailed
            | FailureCode::Cancelled
            | FailureCode::Internal => {
                (RunErrorCode::ModelFailed, "look at the model's settings in dalsegno.toml")
            }
        },
        PlanCall::Ask { .. } | PlanCall::Wait(_) | PlanCall::Tool { .. } => {
            (RunErrorCode::ToolFailed, REPORT)
        }
    };
    let what = match request {
        Request::ToolCall(call) => alloc::format!("`{}`", call.tool_name),
        Request::ModelCompletion(_) => match asked(request) {
            Some((_, prompt)) => alloc::format!("model `{}`", prompt.model.name),
            None => "the model".to_string(),
        },
        Request::AgentCall(_) => request.label(),
        Request::MemorySearch(_)
        | Request::MemoryCreate(_)
        | Request::MemoryTraverse(_)
        | Request::ApiCall(_)
        | Request::Email(_)
        | Request::Transfer(_)
        | Request::Input(_)
        | Request::Timer(_) => alloc::format!("the {}", request.label()),
    };
    if failure.code == FailureCode::Denied {
        let message = format_args!("{what} was denied: {}", failure.message);
        return place.stop(RunErrorCode::Denied, message, REPORT);
    }
    // The violations of an unfit reply stand in its message already.
    let violations = match failure.code {
        FailureCode::InvalidOutput => String::new(),
        FailureCode::Timeout
        | FailureCode::Unavailable
        | FailureCode::Overloaded
        | FailureCode::Protocol
        | FailureCode::ToolFailed
        | FailureCode::InvalidArguments
        | FailureCode::Denied
        | FailureCode::NotPermitted
        | FailureCode::Indeterminate
        | FailureCode::ResultUnreadable
        | FailureCode::CrashLoop
        | FailureCode::LimitExceeded
        | FailureCode::AgentFailed
        | FailureCode::Cancelled
        | FailureCode::Internal => listed(&failure.violations),
    };
    let message = match (request, failure.code) {
        // The message begins with the code of the child's own error.
        (Request::AgentCall(_), FailureCode::AgentFailed | FailureCode::Cancelled) => {
            alloc::format!("{what} did not complete: {}", failure.message)
        }
        _ => alloc::format!("{what} failed with {own_code}: {}{violations}", failure.message),
    };
    place.stop(code, format_args!("{message}"), help)
}

const REPORT: &str = "set `on_failure = \"report\"` where the agent should go on without the result";

fn listed(violations: &[Violation]) -> String {
    let mut text = String::new();
    for Violation { path, message } in violations {
        text.push_str(&alloc::format!("; `{path}` {message}"));
    }
    text
}
