//! Where a run can be forked.

use std::collections::BTreeMap;
use std::sync::Arc;

use dalsegno_core::{AgentConfig, OperationId, Outcome, RunId};
use dalsegno_store::{Body, Record};
use serde_json::Value;

use crate::error::HistoryError;
use crate::inspect::OperationView;
use crate::journal::Journal;
use crate::turns::is_call;

/// Where a fork parts from its run.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkPoint {
    /// The run whose records are shared.
    pub run: RunId,
    /// How many of them.
    pub seq: u64,
    /// How many of the news in the record after these are shared as well; for a call alone.
    pub within: u32,
    /// The step that is asked for anew.
    pub step: u64,
    /// The outcomes that it has in place of those that the run had, by operation.
    pub replaced: BTreeMap<OperationId, Outcome>,
}

/// Reads the outcome that an operation is given, or says why it does not fit.
pub type ReadOutcome<'r> =
    &'r (dyn Fn(&AgentConfig, &OperationView, Value) -> Result<Outcome, String> + Sync);

impl Journal {
    /// Finds where a fork of a run parts from it, of its configuration and its records: at step `at`, or after the step whose
    /// outcomes are replaced. A step before a fork's own first is one of the run that it was forked from. A call has turns in the place
    /// of steps. `read` turns the
    /// values of `set` into outcomes.
    ///
    /// # Errors
    /// When there is no such step or operation, or an outcome does not fit.
    pub async fn fork_point(
        &self,
        run: RunId,
        config: &Arc<AgentConfig>,
        records: &[Record],
        at: Option<u64>,
        set: Vec<(OperationId, Value)>,
        read: ReadOutcome<'_>,
    ) -> Result<ForkPoint, HistoryError> {
        let failed = |message: String| HistoryError::Fork { run, message };
        if is_call(records) {
            return Box::pin(self.fork_point_of_call(run, config, records, at, set, read)).await;
        }
        let steps = steps_of(records);
        let mut replaced = BTreeMap::new();
        let mut step = at;
        if !set.is_empty() {
            let views = self.inspect(run, None).await?.steps;
            for (id, value) in set {
                let operations = views.iter().flat_map(|view| &view.operations);
                let Some(view) = operations.into_iter().find(|view| view.operation == id) else {
                    return Err(failed(format!(
                        "it has no operation {id} of its own: `dalsegno show {run}` lists them"
                    )));
                };
                if let Some(tool) = view.parent {
                    return Err(failed(format!(
                        "operation {id} is a part of a declarative tool: replace the outcome of the tool, operation {tool}"
                    )));
                }
                let of = steps.get(&id).copied().unwrap_or_default();
                match step {
                    Some(step) if step != of + 1 => {
                        return Err(failed(format!(
                            "operation {id} belongs to step {of}, so the fork would be at step {}, not {step}",
                            of + 1
                        )));
                    }
                    _ => step = Some(of + 1),
                }
                let outcome = read(config, view, value).map_err(|message| {
                    failed(format!("the outcome of operation {id} does not fit: {message}"))
                })?;
                replaced.insert(id, outcome);
            }
        }
        let Some(step) = step.filter(|step| *step > 0) else {
            return Err(failed("say at which step, from 1, or which outcome to replace".to_owned()));
        };
        let (no_overrides, no_outcomes) = (Vec::new(), Vec::new());
        let forked = match records.get(1).map(|record| &record.body) {
            Some(Body::Adopted { run, seq, step, .. }) => {
                Some((*run, *seq, &no_overrides, &no_outcomes, *step))
            }
            Some(Body::Forked { run, seq, overrides, outcomes, step, .. }) => {
                Some((*run, *seq, overrides, outcomes, *step))
            }
            _ => None,
        };
        // A fork that has asked for nothing itself stands where it was forked.
        let begun = forked.map_or(0, |(_, _, _, _, first)| first.saturating_sub(1));
        let last = steps.values().copied().max().unwrap_or(begun);
        if step > last + 1 {
            return Err(failed(format!("its last step is {last}, so it cannot be forked at step {step}")));
        }
        match forked {
            Some((of, _, _, _, first)) if step < first => {
                let (config, records) = self.journal_of(of).await?;
                Box::pin(self.fork_point(of, &config, &records, Some(step), Vec::new(), read)).await
            }
            Some((of, seq, overrides, outcomes, first)) if step == first => {
                let replaced = overrides.iter().copied().zip(outcomes.iter().cloned()).collect();
                Ok(ForkPoint { run: of, seq, within: 0, step, replaced })
            }
            Some(_) | None => {
                let seq = boundary(records, &steps, step);
                Ok(ForkPoint { run, seq, within: 0, step, replaced })
            }
        }
    }
}

/// The step of each operation.
pub(crate) fn steps_of(records: &[Record]) -> BTreeMap<OperationId, u64> {
    let requested = records.iter().filter_map(|record| match &record.body {
        Body::Requested { step, .. } => Some((record.operation?, *step)),
        _ => None,
    });
    requested.collect()
}

/// How many records stand before a step: all up to the last outcome of the step before it.
pub(crate) fn boundary(records: &[Record], steps: &BTreeMap<OperationId, u64>, step: u64) -> u64 {
    let before = records.iter().rev().find(|record| {
        let settles =
            matches!(record.body, Body::Resolved { .. } | Body::Answered { .. } | Body::Requested { .. });
        settles && record.operation.and_then(|id| steps.get(&id)).is_some_and(|of| *of < step)
    });
    // Without a step before it: what stands before the first request.
    before.map_or_else(
        || {
            let first = records.iter().find(|record| matches!(record.body, Body::Requested { .. }));
            first.map_or(records.len() as u64, |record| record.seq)
        },
        |record| record.seq + 1,
    )
}
