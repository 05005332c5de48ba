//! What a run would ask for next if an operation had another outcome.
//!
//! A fork performs this; here it is only computed, from records that are at hand. Nothing is written, and ids stay those of the
//! run, so that requests which stay the same have the same ids and digests.

use std::collections::BTreeMap;
use std::sync::Arc;

use dalsegno_core::{AgentConfig, AgentState, Operation, OperationId, Outcome, RunId};
use dalsegno_store::{Body, Record};

use crate::error::HistoryError;
use crate::fold::{Advance, End, Fold, FoldError, Moved};
use crate::fork::{boundary, steps_of};

/// What a step comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Next {
    /// The state, with its usage and its decisions.
    pub state: AgentState,
    /// The operations that it asks for.
    pub asked: Vec<Operation>,
    /// The end, if it is one.
    pub end: Option<End>,
}

/// What follows an edited outcome, beside what followed the recorded one: at the first step that asks for something else, or at the
/// last one.
#[derive(Debug, Clone, PartialEq)]
pub struct WhatIf {
    /// The step that the operation belongs to.
    pub step: u64,
    /// What follows the edited outcome.
    pub now: Next,
    /// What followed the recorded outcomes at the same step; none where the run still waits for them.
    pub was: Option<Next>,
}

/// Computes what a run would ask for after the step of an operation, if that operation had this outcome. Steps that would ask for the
/// same are followed with the outcomes that they had. `origin` is the state in which the run began.
///
/// # Errors
/// When the run has no such operation, it is a part of a declarative tool, its step waits for other operations, the outcome
/// answers another kind of request, or the records do not replay up to there.
pub fn what_if(
    config: &Arc<AgentConfig>,
    run: RunId,
    records: &[Record],
    origin: &AgentState,
    operation: OperationId,
    outcome: Outcome,
) -> Result<WhatIf, HistoryError> {
    let failed = |message: String| HistoryError::Edit { operation, message };
    let asks = |record: &&Record| {
        record.operation == Some(operation) && matches!(record.body, Body::Requested { .. })
    };
    let requested =
        records.iter().find(asks).ok_or_else(|| failed(format!("run {run} never asked for it")))?;
    if let Some(tool) = requested.parent {
        let message =
            format!("it is a part of a declarative tool: edit the outcome of the tool, operation {tool}");
        return Err(failed(message));
    }
    let steps = steps_of(records);
    let step = steps.get(&operation).copied().unwrap_or_default();
    let seq = boundary(records, &steps, step + 1);
    let (first, rest) = records.split_first().ok_or(FoldError::NoStart { run })?;
    let (shared, rest) = rest.split_at(rest.partition_point(|record| record.seq < seq));

    let mut was = Fold::begin(Arc::clone(config), run, first, origin.clone())?;
    shared.iter().try_for_each(|record| was.apply(record))?;
    let mut now = Fold::begin(Arc::clone(config), run, first, origin.clone())?;
    edit(&mut now, first, shared, operation, outcome.bounded()).map_err(|error| match error {
        // The journal is sound: it is the outcome that does not fit.
        FoldError::Diverged { divergence, .. } => failed(format!("the run {}", divergence.got)),
        error => error.into(),
    })?;
    if !now.state().is_settled() {
        let open = now.state().pending().iter().filter(|pending| pending.outcome.is_none());
        let labels: Vec<_> = open.map(|pending| pending.operation.request.label()).collect();
        return Err(failed(format!(
            "step {step} still waits for {}: edit the outcome of a step that the run has left",
            labels.join(", ")
        )));
    }
    if !was.state().is_settled() {
        return Ok(WhatIf { step, now: next(now, run)?, was: None });
    }
    // As long as the same requests follow, they have the outcomes that they had.
    let mut parted = (was.clone(), now.clone());
    for record in rest {
        if was.state().is_settled() && now.state().is_settled() && was.ended.is_none() {
            parted = (was.clone(), now.clone());
        }
        was.apply(record)?;
        if now.apply(record).is_err() {
            break;
        }
    }
    let (was, now) = parted;
    Ok(WhatIf { step, now: next(now, run)?, was: Some(next(was, run)?) })
}

/// Applies the records of a step and of those before it, with another outcome of one operation of that step.
fn edit(
    fold: &mut Fold,
    first: &Record,
    records: &[Record],
    operation: OperationId,
    outcome: Outcome,
) -> Result<(), FoldError> {
    let mut replaced = BTreeMap::from([(operation, outcome)]);
    for record in records {
        let is_declarative = || {
            let mut pending = fold.state().pending().iter();
            pending.any(|pending| pending.operation.id == operation && pending.operation.is_declarative())
        };
        match &record.body {
            // It comes when the recorded one came: a timer after it counts from there.
            Body::Resolved { attempts, elapsed_ms, .. }
                if record.operation == Some(operation) && !is_declarative() =>
            {
                let Some(outcome) = replaced.remove(&operation) else { continue };
                let (attempts, elapsed_ms) = (*attempts, *elapsed_ms);
                let body = Body::Resolved { outcome, attempts, elapsed_ms };
                fold.apply(&Record { body, ..record.clone() })?;
            }
            _ => fold.apply_replaced(record, &replaced)?,
        }
    }
    fold.replace_rest(first, replaced)
}

/// Steps a fold once.
fn next(mut fold: Fold, run: RunId) -> Result<Next, HistoryError> {
    if let Some(end) = fold.ended {
        return Ok(Next { state: fold.machine.into_state(), asked: Vec::new(), end: Some(end) });
    }
    let advance = fold.machine.advance().map_err(|source| FoldError::Execution { run, source })?;
    let (asked, end) = match advance {
        Advance::Asked(asked) | Advance::Moved(Moved { asked, concluded: _ }) => (asked, None),
        Advance::Ended(end) => (Vec::new(), Some(end)),
    };
    Ok(Next { state: fold.machine.into_state(), asked, end })
}
