//! What a plan keeps: results, variables, what it has said, its structured answer. All of it together is bounded.

use alloc::string::{String, ToString};

use serde_json::{Map, Value};

use super::place::Place;
use crate::config::AgentConfig;
use crate::event::size;
use crate::id::StepId;
use crate::phase::Stop;
use crate::response::RunErrorCode;
use crate::state::AgentState;

/// Keeps a result, where the operation has a name for it.
pub(super) fn result(
    config: &AgentConfig,
    place: Place<'_>,
    id: Option<&StepId>,
    value: Value,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let (Some(id), Value::Object(results)) = (id, &state.results) else { return Ok(()) };
    let freed = freed(results, id.as_str());
    account(config, place, freed, field(id.as_str(), &value), state)?;
    if let Value::Object(results) = &mut state.results {
        results.insert(id.as_str().to_string(), value);
    }
    Ok(())
}

/// Sets a variable.
pub(super) fn variable(
    config: &AgentConfig,
    place: Place<'_>,
    name: &str,
    value: Value,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let Value::Object(vars) = &state.vars else { return Ok(()) };
    let freed = freed(vars, name);
    account(config, place, freed, field(name, &value), state)?;
    if let Value::Object(vars) = &mut state.vars {
        vars.insert(name.to_string(), value);
    }
    Ok(())
}

/// Adds to what is said.
pub(super) fn said(
    config: &AgentConfig,
    place: Place<'_>,
    text: String,
    state: &mut AgentState,
) -> Result<(), Stop> {
    account(config, place, 0, text.len(), state)?;
    state.said.push(text);
    Ok(())
}

/// Sets the structured answer.
pub(super) fn output(
    config: &AgentConfig,
    place: Place<'_>,
    value: Value,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let freed = state.output.as_ref().map_or(0, size);
    account(config, place, freed, size(&value), state)?;
    state.output = Some(value);
    Ok(())
}

/// Refuses more than what a state may hold, without keeping it yet.
pub(super) fn fits(
    config: &AgentConfig,
    place: Place<'_>,
    added: usize,
    state: &AgentState,
) -> Result<(), Stop> {
    total(config, place, 0, added, state).map(|_| ())
}

fn account(
    config: &AgentConfig,
    place: Place<'_>,
    freed: usize,
    added: usize,
    state: &mut AgentState,
) -> Result<(), Stop> {
    state.kept_bytes = total(config, place, freed, added, state)?;
    Ok(())
}

fn total(
    config: &AgentConfig,
    place: Place<'_>,
    freed: usize,
    added: usize,
    state: &AgentState,
) -> Result<u64, Stop> {
    let total = state.kept_bytes.saturating_sub(freed as u64).saturating_add(added as u64);
    let most = config.limits.max_state_bytes;
    if total <= most {
        return Ok(total);
    }
    Err(place.stop(
        RunErrorCode::LimitExceeded,
        format_args!("the plan would keep {total} bytes, more than `limits.max_state` ({most})"),
        "keep only the part of a result that later steps need, or raise the limit in the agent file",
    ))
}

fn freed(fields: &Map<String, Value>, name: &str) -> usize {
    fields.get(name).map_or(0, |old| field(name, old))
}

/// What a field takes in an object, as [`size`] counts.
fn field(name: &str, value: &Value) -> usize {
    name.len() + size(value) + 4
}
