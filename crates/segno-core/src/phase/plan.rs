//! A plan goes on: conditions, operations, what is said.

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use segno_expr::Expression;
use serde_json::{Value, json};

use super::scope::RunScope;
use super::start::{MEMORY_TIMEOUT_MS, render};
use super::{Stop, calls, end, think};
use crate::canonical::print_json;
use crate::config::{
    AgentConfig, Approve, OnFailure, Plan, PlanCall, PlanOperation, PlanStep, StepAction, ToolKind,
};
use crate::event::{Failure, FailureCode, MAX_DEPTH, Outcome, depth};
use crate::id::StepId;
use crate::operation::{Gate, GateState, MemoryCreate, MemorySearch, Request, Terms, ToolCall};
use crate::response::RunErrorCode;
use crate::state::{AgentState, Decision, Pending, Phase, Then};

/// Goes through the plan from step `next` until something must be asked or the plan is through.
pub(crate) fn advance(
    config: &AgentConfig,
    plan: &Plan,
    next: usize,
    state: &mut AgentState,
) -> Result<(), Stop> {
    for (index, step) in plan.steps.iter().enumerate().skip(next) {
        if !holds(step.when.as_ref(), index, state)? {
            skip(step, index, state);
            continue;
        }
        if let StepAction::Respond(template) = &step.action {
            let text = render(&alloc::format!("plan step {}", index + 1), template, state)?;
            state.decide(Decision::RunStep { index, id: None });
            state.said.push(text);
            continue;
        }
        if begin(config, step, index, state)? {
            return Ok(());
        }
    }
    let answer = (!state.said.is_empty()).then(|| state.said.join("\n\n"));
    end::completed(state, answer, "the plan is through");
    Ok(())
}

/// Starts a step's operations; `false` when every branch is skipped.
fn begin(config: &AgentConfig, step: &PlanStep, index: usize, state: &mut AgentState) -> Result<bool, Stop> {
    let mut requests = Vec::new();
    let mut branches = Vec::new();
    let mut calls = 0;
    for (branch, (when, operation)) in operations(step).into_iter().enumerate() {
        if !holds(when, index, state)? {
            let when = when.map(|when| when.source().to_string()).unwrap_or_default();
            state.decide(Decision::SkipStep { index, id: operation.id.clone(), when });
            keep(operation.id.as_ref(), Value::Null, state);
            continue;
        }
        calls += u64::from(matches!(operation.call, PlanCall::Tool { .. }));
        state.decide(Decision::RunStep { index, id: operation.id.clone() });
        requests.push(request(config, operation, index, state)?);
        branches.push(branch);
    }
    if requests.is_empty() {
        return Ok(false);
    }
    let limits = &config.limits;
    if state.step >= limits.max_steps {
        return Err(limit_stop("max_steps", limits.max_steps));
    }
    let calls = state.usage.tool_calls.saturating_add(calls);
    if calls > limits.max_tool_calls {
        return Err(limit_stop("max_tool_calls", limits.max_tool_calls));
    }
    state.usage.tool_calls = calls;
    state.wait_for(Then::PlanStep { index, branches }, requests);
    Ok(true)
}

/// The end of a plan at a limit; a plan has no model that could give a last answer.
fn limit_stop(limit: &str, most: u64) -> Stop {
    let message = alloc::format!("`limits.{limit}` ({most}) is reached");
    Stop::failed(RunErrorCode::LimitExceeded, message, think::RAISE_THE_LIMIT)
}

/// Takes the outcomes of a step, in request order.
pub(crate) fn returned(
    config: &AgentConfig,
    step: &PlanStep,
    index: usize,
    branches: &[usize],
    pending: Vec<Pending>,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let operations = operations(step);
    let mut first_failure = None;
    for (pending, branch) in pending.into_iter().zip(branches) {
        let Some((_, operation)) = operations.get(*branch) else { continue };
        match value(config, operation, pending.outcome) {
            Ok(value) => keep(operation.id.as_ref(), value, state),
            Err(stop) => {
                first_failure.get_or_insert(stop);
            }
        }
    }
    match first_failure {
        Some(stop) => Err(stop),
        None => {
            state.phase = Phase::Plan { next: index + 1 };
            Ok(())
        }
    }
}

/// The result of one operation; or the end of the run, where its settings say so.
fn value(config: &AgentConfig, operation: &PlanOperation, outcome: Option<Outcome>) -> Result<Value, Stop> {
    let failure = match outcome {
        Some(Outcome::ToolReturned(returned)) if !returned.is_error => return Ok(returned.into_value()),
        Some(Outcome::MemoryFound(hits)) => return Ok(json!(hits)),
        Some(Outcome::MemoryCreated(created)) => return Ok(json!(created)),
        Some(Outcome::ToolReturned(returned)) => match returned.into_value() {
            Value::String(text) => Failure::new(FailureCode::ToolFailed, text),
            value => Failure::new(FailureCode::ToolFailed, print_json(&value)),
        },
        Some(Outcome::Failed(failure)) => failure,
        Some(Outcome::ModelReplied(_)) | None => Failure::new(FailureCode::Internal, "the result is missing"),
    };
    let tool_setting = match &operation.call {
        PlanCall::Tool { tool, .. } => config.tools.tools.get(tool).and_then(|tool| tool.on_failure.as_ref()),
        PlanCall::MemorySearch { .. } | PlanCall::MemoryCreate { .. } => None,
    };
    match (operation.on_failure.as_ref().or(tool_setting), &operation.call) {
        (Some(OnFailure::Report), _) => {
            Ok(json!({ "error": { "code": failure.code.as_str(), "message": failure.message } }))
        }
        (Some(OnFailure::Default(value)), _) => Ok(value.clone()),
        (Some(OnFailure::Fail) | None, PlanCall::Tool { tool, .. }) => {
            Err(calls::failed(tool.as_str(), &failure))
        }
        (Some(OnFailure::Fail) | None, PlanCall::MemorySearch { .. } | PlanCall::MemoryCreate { .. }) => {
            Err(Stop::failed(
                RunErrorCode::MemoryFailed,
                alloc::format!("the memory failed with {}: {}", failure.code.as_str(), failure.message),
                "look at the memory file that segno.toml names",
            ))
        }
    }
}

/// Renders an operation's request.
fn request(
    config: &AgentConfig,
    operation: &PlanOperation,
    index: usize,
    state: &mut AgentState,
) -> Result<(Request, Terms, GateState), Stop> {
    let what = match &operation.id {
        Some(id) => alloc::format!("plan step {} `{id}`", index + 1),
        None => alloc::format!("plan step {}", index + 1),
    };
    match &operation.call {
        PlanCall::MemorySearch { query, limit, min_score } => {
            let query = render(&what, query, state)?;
            let search = MemorySearch { query, limit: *limit, min_score: *min_score };
            Ok((Request::MemorySearch(Arc::new(search)), Terms::read(MEMORY_TIMEOUT_MS), GateState::Open))
        }
        PlanCall::MemoryCreate { entity, entity_type, content } => {
            let create = MemoryCreate {
                entity: render(&what, entity, state)?,
                entity_type: entity_type.clone(),
                content: render(&what, content, state)?,
            };
            Ok((Request::MemoryCreate(Arc::new(create)), Terms::keyed(MEMORY_TIMEOUT_MS), GateState::Open))
        }
        PlanCall::Tool { tool: name, with, approve } => {
            let found = config.tools.tools.get(name).filter(|tool| tool.kind == ToolKind::External);
            let Some(tool) = found.filter(|_| !config.tools.forbidden.contains(name)) else {
                return Err(Stop::failed(
                    RunErrorCode::ToolFailed,
                    alloc::format!("{what}: the tool `{name}` is not among the agent's tools"),
                    "add it to `[tools] allow`, or look at the server that should offer it",
                ));
            };
            let parameters =
                with.render(&RunScope(state)).map_err(|error| Stop::evaluation(&what, &error))?;
            if depth(&parameters) > MAX_DEPTH {
                return Err(Stop::failed(
                    RunErrorCode::EvaluationFailed,
                    alloc::format!("{what}: the arguments are nested more than {MAX_DEPTH} deep"),
                    "pass on only the part of an earlier result that the tool needs",
                ));
            }
            let asked = match approve {
                Approve::AsConfigured => false,
                Approve::Always => true,
                Approve::When(condition) => {
                    condition.is_true(&RunScope(state)).map_err(|error| Stop::evaluation(&what, &error))?
                }
            };
            let gate = if asked || tool.approve {
                state.decide(Decision::AskApproval { name: name.to_string() });
                GateState::Waiting(Gate::Approval)
            } else {
                GateState::Open
            };
            let call = ToolCall { tool_name: name.clone(), parameters };
            Ok((Request::ToolCall(Arc::new(call)), tool.terms(), gate))
        }
    }
}

/// A step's operations, each with the condition of its branch.
fn operations(step: &PlanStep) -> Vec<(Option<&Expression>, &PlanOperation)> {
    match &step.action {
        StepAction::Operation(operation) => alloc::vec![(None, operation)],
        StepAction::Parallel(branches) => {
            branches.iter().map(|branch| (branch.when.as_ref(), &branch.operation)).collect()
        }
        StepAction::Respond(_) => Vec::new(),
    }
}

fn holds(when: Option<&Expression>, index: usize, state: &AgentState) -> Result<bool, Stop> {
    let Some(when) = when else { return Ok(true) };
    when.is_true(&RunScope(state)).map_err(|error| {
        Stop::evaluation(&alloc::format!("the condition of plan step {}", index + 1), &error)
    })
}

fn skip(step: &PlanStep, index: usize, state: &mut AgentState) {
    let when = step.when.as_ref().map(|when| when.source().to_string()).unwrap_or_default();
    let operations = operations(step);
    if operations.is_empty() {
        state.decide(Decision::SkipStep { index, id: None, when });
        return;
    }
    for (_, operation) in operations {
        state.decide(Decision::SkipStep { index, id: operation.id.clone(), when: when.clone() });
        keep(operation.id.as_ref(), Value::Null, state);
    }
}

fn keep(id: Option<&StepId>, value: Value, state: &mut AgentState) {
    if let (Some(id), Value::Object(results)) = (id, &mut state.results) {
        results.insert(id.as_str().to_string(), value);
    }
}
