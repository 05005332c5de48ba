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

/// What follows an edited outcome, beside what followed the recorded one.
#[derive(Debug, Clone, PartialEq)]
pub struct WhatIf {
    /// The step that the operation belongs to.
    pub step: u64,
    /// What follows the edited outcome.
    pub now: Next,
    /// What followed the recorded outcomes; none where the step still waited.
    pub was: Option<Next>,
}

/// Computes what a run would ask for after the step of an operation, if that operation had this outcome. `origin` is the state in
/// which the run began.
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
    let shared = || rest.iter().take_while(|record| record.seq < seq);
    let replaced = BTreeMap::from([(operation, outcome)]);

    let mut was = Fold::begin(Arc::clone(config), run, first, origin.clone())?;
    shared().try_for_each(|record| was.apply(record))?;
    let was = if was.state().is_settled() { Some(next(was, run)?) } else { None };

    let mut now = Fold::begin(Arc::clone(config), run, first, origin.clone())?;
    shared().try_for_each(|record| now.apply_replaced(record, &replaced)).map_err(|error| match error {
        // The journal is sound: it is the outcome that does not fit.
        FoldError::Diverged { divergence, .. } => failed(format!("the run {}", divergence.got)),
        error => error.into(),
    })?;
    now.replace_rest(first, replaced).map_err(|error| match error {
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
    Ok(WhatIf { step, now: next(now, run)?, was })
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
