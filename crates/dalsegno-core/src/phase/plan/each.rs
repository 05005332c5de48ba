//! The same operation for each item of a list.

use alloc::vec;
use alloc::vec::Vec;

use serde_json::Value;

use super::allowance::Allowance;
use super::fallback::Settled;
use super::place::Place;
use super::request::{self, Drawn};
use super::{ask, keep, result};
use crate::canonical::print_json;
use crate::config::{AgentConfig, ForEach};
use crate::event::size;
use crate::join::{Pending, Then};
use crate::phase::Stop;
use crate::phase::scope::{ItemScope, RunScope};
use crate::response::RunErrorCode;
use crate::state::{AgentState, Decision, Phase};

/// Where a `for_each` stands while operations are on their way; see [`Then::ForEach`].
pub(crate) struct Each {
    pub(crate) index: usize,
    pub(crate) concurrency: u32,
    pub(crate) items: Vec<usize>,
    pub(crate) results: Vec<Value>,
    pub(crate) fallback: bool,
}

impl Each {
    /// Says whether there is an item, and room for its result, for each of so many operations.
    pub(crate) fn is_for(&self, operations: usize) -> bool {
        self.items.len() == operations && self.items.iter().all(|item| *item < self.results.len())
    }
}

/// Starts an operation for each item; `false` when there is nothing to wait for.
pub(super) fn begin(
    config: &AgentConfig,
    each: &ForEach,
    index: usize,
    state: &mut AgentState,
) -> Result<bool, Stop> {
    let operation = &each.operation;
    let place = Place::operation(index, operation);
    state.decide(Decision::RunStep { index, id: operation.id.clone() });
    let scope = RunScope::new(state);
    let list = items(place, each, place.evaluate(&each.list, &scope)?)?;
    let mut allowance = Allowance::new(config, state);
    if operation.call.is_call() {
        (0..list.len()).try_for_each(|item| allowance.call(place.item(item)))?;
    }
    let mut results = vec![Value::Null; list.len()];
    let mut drafts = Vec::new();
    let mut asked = Vec::new();
    for (item, value) in list.iter().enumerate() {
        let scope = ItemScope { run: &scope, item: value, index: item };
        match request::draw(config, place.item(item), operation, &scope, state, &mut allowance)? {
            Drawn::Known(value) => results[item] = value,
            Drawn::Asked(draft) => {
                drafts.push(draft);
                asked.push(item);
            }
        }
    }
    if drafts.is_empty() {
        keep::result(config, place, operation.id.as_ref(), Value::Array(results), state)?;
        return Ok(false);
    }
    allowance.step(place)?;
    let then = Then::ForEach { index, concurrency: each.concurrency, items: asked, results, fallback: false };
    ask(config, then, drafts, &allowance, state);
    Ok(true)
}

/// The items of a list; none of what is null.
fn items(place: Place<'_>, each: &ForEach, list: Value) -> Result<Vec<Value>, Stop> {
    let source = each.list.source();
    match list {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) if items.len() <= ForEach::MAX_ITEMS => Ok(items),
        Value::Array(items) => Err(place.stop(
            RunErrorCode::LimitExceeded,
            format_args!("`{source}` has {} items, more than {}", items.len(), ForEach::MAX_ITEMS),
            "give the step a part of the list, such as `list.slice(0, 1000)`",
        )),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            let kind = match &other {
                Value::Object(_) => "an object".into(),
                Value::String(_) => "a string".into(),
                scalar => print_json(scalar),
            };
            Err(place.stop(
                RunErrorCode::EvaluationFailed,
                format_args!("`{source}` is {kind}, and `for_each` needs an array"),
                "correct the template or expression in the agent file",
            ))
        }
    }
}

/// Takes the outcomes, in the order of the items.
pub(crate) fn returned(
    config: &AgentConfig,
    list: &ForEach,
    each: Each,
    pending: Vec<Pending>,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let Each { index, concurrency, items, mut results, fallback } = each;
    state.phase = Phase::Plan { next: index + 1 };
    let operation = &list.operation;
    let place = Place::operation(index, operation);
    let mut settled = Settled::default();
    for (pending, item) in pending.into_iter().zip(items) {
        let folded = result::fold(config, place.item(item), operation, fallback, pending, state);
        if let Some(value) = settled.take(item, place.item(item), folded)
            && let Some(result) = results.get_mut(item)
        {
            *result = value;
        }
    }
    match settled.fall_back(config, place, state)? {
        Some(again) => {
            keep::fits(config, place, results.iter().map(size).sum(), state)?;
            let then = Then::ForEach { index, concurrency, items: again.places, results, fallback: true };
            ask(config, then, again.drafts, &again.allowance, state);
            Ok(())
        }
        None => keep::result(config, place, operation.id.as_ref(), Value::Array(results), state),
    }
}
