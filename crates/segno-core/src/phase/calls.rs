//! The calls of a model's reply: refused here, or performed at the same time.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::start::MEMORY_TIMEOUT_MS;
use super::{Stop, think};
use crate::canonical::print_json;
use crate::config::{AgentConfig, OnFailure, Tool, ToolKind};
use crate::event::{Failure, FailureCode, Outcome};
use crate::id::ToolName;
use crate::operation::{Gate, GateState, MemoryCreate, MemorySearch, Request, Terms, ToolCall};
use crate::reply::{CallRequest, Verdict, Violation};
use crate::response::RunErrorCode;
use crate::state::{AgentState, CallSlot, Decision, Pending, Phase, Then};
use crate::transcript::Entry;

/// Hits of a `memory.search` that names no limit.
const DEFAULT_HITS: u32 = 5;

/// Decides on each call: a refusal that never leaves the core, or an operation.
pub(crate) fn begin(
    config: &AgentConfig,
    calls: Vec<CallRequest>,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let mut slots = Vec::with_capacity(calls.len());
    let mut requests = Vec::new();
    let mut gated = Vec::new();
    for call in calls {
        let refused = match admit(config, &call) {
            Ok((name, tool, request)) => {
                let terms = match &request {
                    Request::MemorySearch(_) => Terms::read(MEMORY_TIMEOUT_MS),
                    Request::MemoryCreate(_) => Terms::keyed(MEMORY_TIMEOUT_MS),
                    Request::ModelCompletion(_) | Request::ToolCall(_) => tool.terms(),
                };
                let gate = if tool.approve { GateState::Waiting(Gate::Approval) } else { GateState::Open };
                gated.extend(tool.approve.then(|| Decision::AskApproval { name: name.to_string() }));
                requests.push((request, terms, gate));
                None
            }
            Err(refusal) => {
                state.decide(Decision::Refuse { name: call.name.clone(), reason: refusal.message.clone() });
                Some(refusal.into_text())
            }
        };
        slots.push(CallSlot { call_id: call.call_id, name: call.name, refused });
    }
    if requests.is_empty() {
        answer(slots, Vec::new().into_iter(), state);
        return Ok(());
    }
    if let Some(limit) = reached(config, requests.len() as u64, state) {
        let refusal =
            Refusal { code: "limit_exceeded", message: limit.clone(), violations: Vec::new() }.into_text();
        for slot in &mut slots {
            slot.refused.get_or_insert_with(|| refusal.clone());
        }
        answer(slots, Vec::new().into_iter(), state);
        return think::exceeded(config, limit, state);
    }
    let names = slots.iter().filter(|slot| slot.refused.is_none()).map(|slot| slot.name.clone()).collect();
    state.decide(Decision::CallTools { names });
    gated.into_iter().for_each(|decision| state.decide(decision));
    state.usage.tool_calls = state.usage.tool_calls.saturating_add(requests.len() as u64);
    state.wait_for(Then::Calls { calls: slots }, requests);
    Ok(())
}

/// Takes the outcomes of the calls, in the order of the reply.
pub(crate) fn returned(
    config: &AgentConfig,
    slots: Vec<CallSlot>,
    operations: Vec<Pending>,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let mut results = Vec::with_capacity(operations.len());
    let mut names = slots.iter().filter(|slot| slot.refused.is_none()).map(|slot| slot.name.as_str());
    for pending in operations {
        let tool = names.next().and_then(|name| config.tools.find(name));
        results.push(result(tool, pending.outcome)?);
    }
    answer(slots, results.into_iter(), state);
    Ok(())
}

/// Puts the result of every call into the transcript, in the order of the reply.
fn answer(slots: Vec<CallSlot>, mut results: impl Iterator<Item = (String, bool)>, state: &mut AgentState) {
    for CallSlot { call_id, name, refused } in slots {
        let (content, is_error) = match refused {
            Some(content) => (content, true),
            None => results.next().unwrap_or_default(),
        };
        state.transcript.push(Entry::ToolResult { call_id, name, content, is_error });
    }
    state.phase = Phase::Think;
}

/// What the model reads of an outcome; or the end of the run, where the tool's settings say so.
fn result(tool: Option<(&ToolName, &Tool)>, outcome: Option<Outcome>) -> Result<(String, bool), Stop> {
    let failure = match outcome {
        Some(Outcome::ToolReturned(returned)) if !returned.is_error => {
            return Ok((returned.into_text(), false));
        }
        Some(Outcome::MemoryFound(hits)) => return Ok((print_json(&json!({ "hits": hits })), false)),
        Some(Outcome::MemoryCreated(created)) => {
            return Ok((print_json(&json!({ "created": created })), false));
        }
        Some(Outcome::ToolReturned(returned)) => Failure::new(FailureCode::ToolFailed, returned.into_text()),
        Some(Outcome::Failed(failure)) => failure,
        Some(Outcome::ModelReplied(_)) | None => Failure::new(FailureCode::Internal, "the result is missing"),
    };
    match tool.and_then(|(_, tool)| tool.on_failure.as_ref()) {
        Some(OnFailure::Default(value)) => Ok((print_json(value), false)),
        Some(OnFailure::Fail) => {
            let name = tool.map_or("", |(name, _)| name.as_str());
            Err(failed(name, &failure))
        }
        Some(OnFailure::Report) | None => {
            let refusal = Refusal {
                code: failure.code.as_str(),
                message: failure.message,
                violations: failure.violations,
            };
            Ok((refusal.into_text(), true))
        }
    }
}

/// The end of a run by a failed tool.
pub(crate) fn failed(name: &str, failure: &Failure) -> Stop {
    let code = match failure.code {
        FailureCode::Denied => RunErrorCode::Denied,
        FailureCode::Timeout
        | FailureCode::Unavailable
        | FailureCode::Protocol
        | FailureCode::ToolFailed
        | FailureCode::InvalidArguments
        | FailureCode::Indeterminate
        | FailureCode::LimitExceeded
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

/// Why a call never leaves the core; the model reads it and goes on.
struct Refusal {
    code: &'static str,
    message: String,
    violations: Vec<Violation>,
}

impl Refusal {
    fn new(code: &'static str, message: String) -> Self {
        Self { code, message, violations: Vec::new() }
    }

    fn into_text(self) -> String {
        let mut error = json!({ "code": self.code, "message": self.message });
        if !self.violations.is_empty() {
            error["violations"] = json!(self.violations);
        }
        print_json(&json!({ "ok": false, "error": error }))
    }
}

/// Turns a call into a request, unless it must not leave the core.
fn admit<'a>(
    config: &'a AgentConfig,
    call: &CallRequest,
) -> Result<(&'a ToolName, &'a Tool, Request), Refusal> {
    let Some((name, tool)) = config.tools.find(&call.name) else {
        if config.tools.is_forbidden(&call.name) {
            let message = alloc::format!("the tool `{}` is not allowed for this agent", call.name);
            return Err(Refusal::new("not_permitted", message));
        }
        let known: Vec<String> = config.tools.tools.keys().map(ToolName::model_name).collect();
        let message = alloc::format!("there is no tool `{}`; the tools are: {}", call.name, known.join(", "));
        return Err(Refusal::new("tool_not_found", message));
    };
    let arguments = match &call.verdict {
        Verdict::Valid { arguments } => arguments,
        Verdict::Invalid { violations } => {
            return Err(Refusal {
                code: "invalid_arguments",
                message: "the arguments do not fit the tool's schema; correct them and call again"
                    .to_string(),
                violations: violations.clone(),
            });
        }
        Verdict::Malformed { message } => {
            let message = alloc::format!("the arguments are not a JSON object: {message}");
            return Err(Refusal::new("invalid_arguments", message));
        }
        Verdict::Truncated => {
            let message = "the call was cut off at the reply's length limit and was not executed";
            return Err(Refusal::new("invalid_arguments", message.to_string()));
        }
    };
    let request = match tool.kind {
        ToolKind::External => {
            Request::ToolCall(Arc::new(ToolCall { tool_name: name.clone(), parameters: arguments.clone() }))
        }
        ToolKind::MemorySearch => Request::MemorySearch(Arc::new(MemorySearch {
            query: text(arguments, "query")?,
            limit: arguments["limit"]
                .as_u64()
                .and_then(|limit| u32::try_from(limit).ok())
                .unwrap_or(DEFAULT_HITS),
            min_score: 0.0,
        })),
        ToolKind::MemoryCreate => Request::MemoryCreate(Arc::new(MemoryCreate {
            entity: text(arguments, "entity")?,
            entity_type: text(arguments, "type").unwrap_or_else(|_| "note".to_string()),
            content: text(arguments, "content")?,
        })),
    };
    Ok((name, tool, request))
}

fn text(arguments: &Value, key: &str) -> Result<String, Refusal> {
    arguments[key].as_str().map(ToString::to_string).ok_or_else(|| Refusal {
        code: "invalid_arguments",
        message: alloc::format!("`{key}` is missing or not a string"),
        violations: Vec::new(),
    })
}

/// The limit that `count` more calls would exceed, in words.
fn reached(config: &AgentConfig, count: u64, state: &AgentState) -> Option<String> {
    let limits = &config.limits;
    if state.step >= limits.max_steps {
        return Some(alloc::format!("`limits.max_steps` ({}) is reached", limits.max_steps));
    }
    let calls = state.usage.tool_calls.saturating_add(count);
    (calls > limits.max_tool_calls)
        .then(|| alloc::format!("`limits.max_tool_calls` ({}) is reached", limits.max_tool_calls))
}
