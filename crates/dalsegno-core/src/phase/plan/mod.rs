//! A plan goes on: conditions, operations, variables, what is said.

mod allowance;
mod each;
mod fallback;
mod keep;
mod part;
mod place;
mod request;
mod result;
mod wait;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use dalsegno_expr::Expression;
use serde_json::Value;

use self::allowance::Allowance;
pub(crate) use self::each::{Each, returned as each_returned};
use self::fallback::Settled;
pub use self::part::{PartRead, PlanPart};
use self::place::Place;
use self::request::{Draft, Drawn};
pub(crate) use self::result::{OwnWords, own_words};
use super::scope::RunScope;
use super::{Stop, end};
use crate::canonical::print_json;
use crate::config::{AgentConfig, Plan, PlanHandoff, PlanOperation, PlanStep, StepAction};
use crate::id::StepId;
use crate::join::{Pending, Then};
use crate::state::{AgentState, Decision, Phase};

/// Goes through the plan from step `next` until something must be asked or the plan is through.
pub(crate) fn advance(
    config: &AgentConfig,
    plan: &Plan,
    next: usize,
    state: &mut AgentState,
) -> Result<(), Stop> {
    for (index, step) in plan.steps.iter().enumerate().skip(next) {
        let place = Place::step(index);
        if !holds(step.when.as_ref(), place, state)? {
            skip(config, step, index, state)?;
            continue;
        }
        match &step.action {
            StepAction::Operation(_) | StepAction::Parallel(_) => {
                if begin(config, step, index, state)? {
                    return Ok(());
                }
            }
            StepAction::ForEach(list) => {
                if each::begin(config, list, index, state)? {
                    return Ok(());
                }
            }
            StepAction::Set(vars) => set(config, vars, index, state)?,
            StepAction::Respond(template) => {
                state.decide(Decision::RunStep { index, id: None });
                let text = place.text(template, &RunScope::new(state))?;
                keep::said(config, place, text, state)?;
            }
            StepAction::Output(template) => {
                state.decide(Decision::RunStep { index, id: None });
                let value = place.value(template, &RunScope::new(state))?;
                keep::output(config, place, value, state)?;
            }
            StepAction::Handoff(handoff) => return hand_off(config, handoff, index, state),
        }
    }
    end::completed(state, answer(state), "the plan is through");
    Ok(())
}

/// What was said, else the structured answer as text.
fn answer(state: &AgentState) -> Option<String> {
    if state.said.is_empty() { state.output.as_ref().map(print_json) } else { Some(state.said.join("\n\n")) }
}

/// Starts the operations of a step; `false` when there is nothing to wait for.
fn begin(config: &AgentConfig, step: &PlanStep, index: usize, state: &mut AgentState) -> Result<bool, Stop> {
    let mut picked = Vec::new();
    let mut known: Vec<(&PlanOperation, Value)> = Vec::new();
    for (branch, (when, operation)) in operations(step).into_iter().enumerate() {
        let id = operation.id.clone();
        match when {
            Some(when) if !holds(Some(when), Place::operation(index, operation), state)? => {
                state.decide(Decision::SkipStep { index, id, when: when.source().to_string() });
                known.push((operation, Value::Null));
            }
            Some(_) | None => {
                state.decide(Decision::RunStep { index, id });
                picked.push((branch, operation));
            }
        }
    }
    let mut allowance = Allowance::new(config, state);
    for (_, operation) in &picked {
        if operation.call.is_call() {
            allowance.call(Place::operation(index, operation))?;
        }
    }
    let scope = RunScope::new(state);
    let mut drafts = Vec::new();
    let mut branches = Vec::new();
    for (branch, operation) in &picked {
        let place = Place::operation(index, operation);
        match request::draw(config, place, operation, &scope, state, &mut allowance)? {
            Drawn::Known(value) => known.push((operation, value)),
            Drawn::Asked(draft) => {
                drafts.push(draft);
                branches.push(*branch);
            }
        }
    }
    if !drafts.is_empty() {
        allowance.step(Place::whole(index, step))?;
    }
    for (operation, value) in known {
        keep::result(config, Place::operation(index, operation), operation.id.as_ref(), value, state)?;
    }
    if drafts.is_empty() {
        return Ok(false);
    }
    ask(config, Then::PlanStep { index, branches, fallback: false }, drafts, &allowance, state);
    Ok(true)
}

/// Asks for operations that are drawn up.
fn ask(
    config: &AgentConfig,
    then: Then,
    mut drafts: Vec<Draft>,
    allowance: &Allowance<'_>,
    state: &mut AgentState,
) {
    allowance.share(&mut drafts);
    request::note_approvals(drafts.iter(), state);
    state.usage.tool_calls = state.usage.tool_calls.saturating_add(allowance.calls());
    state.wait_for(config, then, drafts.into_iter().map(Draft::into_parts).collect());
}

/// Says whether a step has these branches, one for each of so many operations.
pub(crate) fn has_branches(step: &PlanStep, branches: &[usize], count: usize) -> bool {
    let known = match &step.action {
        StepAction::Operation(_) => 1,
        StepAction::Parallel(branches) => branches.len(),
        StepAction::ForEach(_)
        | StepAction::Set(_)
        | StepAction::Respond(_)
        | StepAction::Output(_)
        | StepAction::Handoff(_) => 0,
    };
    branches.len() == count && branches.iter().all(|branch| *branch < known)
}

/// Takes the outcomes of a step that [has these branches](has_branches), in request order.
pub(crate) fn returned(
    config: &AgentConfig,
    step: &PlanStep,
    index: usize,
    branches: &[usize],
    fallback: bool,
    pending: Vec<Pending>,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let operations = operations(step);
    let mut settled = Settled::default();
    for (pending, branch) in pending.into_iter().zip(branches) {
        let Some((_, operation)) = operations.get(*branch) else { continue };
        let place = Place::operation(index, operation);
        let folded = result::fold(config, place, operation, fallback, pending, state);
        if let Some(value) = settled.take(*branch, place, folded)
            && let Err(stop) = keep::result(config, place, operation.id.as_ref(), value, state)
        {
            settled.stop(stop);
        }
    }
    match settled.fall_back(config, Place::whole(index, step), state)? {
        None => state.phase = Phase::Plan { next: index + 1 },
        Some(again) => {
            let then = Then::PlanStep { index, branches: again.places, fallback: true };
            ask(config, then, again.drafts, &again.allowance, state);
        }
    }
    Ok(())
}

/// Sets variables; each expression reads what was there before.
fn set(
    config: &AgentConfig,
    vars: &BTreeMap<String, Expression>,
    index: usize,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let place = Place::step(index);
    state.decide(Decision::RunStep { index, id: None });
    let scope = RunScope::new(state);
    let values = vars.iter().map(|(name, expression)| Ok((name, place.evaluate(expression, &scope)?)));
    let values: Vec<(&String, Value)> = values.collect::<Result<_, Stop>>()?;
    values.into_iter().try_for_each(|(name, value)| keep::variable(config, place, name, value, state))
}

/// Ends the run for another agent to go on.
fn hand_off(
    config: &AgentConfig,
    handoff: &PlanHandoff,
    index: usize,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let place = Place::step(index);
    let PlanHandoff { target, message, data } = handoff;
    state.decide(Decision::RunStep { index, id: None });
    if !config.agents.contains_key(target) {
        return Err(request::unknown_agent(place, target));
    }
    let scope = RunScope::new(state);
    let message = message.as_ref().map(|template| place.text(template, &scope)).transpose()?;
    let data = data.as_ref().map(|template| place.value(template, &scope)).transpose()?;
    end::handed_off(config, state, target.clone(), message, data).map_err(|stop| place.name(stop))
}

/// A step's operations, each with the condition of its branch.
fn operations(step: &PlanStep) -> Vec<(Option<&Expression>, &PlanOperation)> {
    match &step.action {
        StepAction::Operation(operation) => vec![(None, operation)],
        StepAction::ForEach(each) => vec![(None, &each.operation)],
        StepAction::Parallel(branches) => {
            branches.iter().map(|branch| (branch.when.as_ref(), &branch.operation)).collect()
        }
        StepAction::Set(_) | StepAction::Respond(_) | StepAction::Output(_) | StepAction::Handoff(_) => {
            Vec::new()
        }
    }
}

fn holds(when: Option<&Expression>, place: Place<'_>, state: &AgentState) -> Result<bool, Stop> {
    let Some(when) = when else { return Ok(true) };
    when.is_true(&RunScope::new(state))
        .map_err(|error| Stop::evaluation(&alloc::format!("the condition of {place}"), &error))
}

/// Passes over a step: its results are null.
fn skip(config: &AgentConfig, step: &PlanStep, index: usize, state: &mut AgentState) -> Result<(), Stop> {
    let when = step.when.as_ref().map(|when| when.source().to_string()).unwrap_or_default();
    let ids: Vec<Option<StepId>> =
        operations(step).into_iter().map(|(_, operation)| operation.id.clone()).collect();
    if ids.is_empty() {
        state.decide(Decision::SkipStep { index, id: None, when });
        return Ok(());
    }
    for id in ids {
        keep::result(config, Place::whole(index, step), id.as_ref(), Value::Null, state)?;
        state.decide(Decision::SkipStep { index, id, when: when.clone() });
    }
    Ok(())
}
