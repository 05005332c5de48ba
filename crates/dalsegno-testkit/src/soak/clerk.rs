//! People who answer, late and truthfully.

use std::collections::BTreeMap;

use dalsegno_core::{Gate, RunId};
use dalsegno_history::Journal;
use dalsegno_runtime::{GateInput, Settlement};
use dalsegno_store::{RunFilter, RunStatus};

use super::tools::Outside;

/// Answers to what a run and those below it wait for, as far as somebody knows one. Nobody lies: an effect in doubt was
/// done if the receiver has it, and while a message is on its way nobody knows.
pub(super) async fn answers(
    reader: &Journal,
    outside: &Outside,
    run: RunId,
    counts: &mut BTreeMap<String, u64>,
) -> Vec<GateInput> {
    let inspection = match reader.inspect(run, None).await {
        Ok(inspection) => inspection,
        Err(error) => {
            outside.book().break_promise(format!("run {run} cannot be inspected: {error}: {error:?}"));
            return Vec::new();
        }
    };
    let mut answers = Vec::new();
    for waiting in &inspection.waiting {
        let settlement = match waiting.gate {
            Gate::Approval => Settlement::Approve { edited: None, reason: None },
            Gate::Input => Settlement::Deny { reason: None },
            // No agent here has a secret, so that nothing waits for one.
            Gate::Secret { .. } | Gate::Elicitation { .. } => continue,
            Gate::InDoubt { .. } => match outside.book().took_place(waiting.run, waiting.operation) {
                None => continue,
                Some(None) => Settlement::NotDone,
                result @ Some(Some(_)) => Settlement::Done { result: result.flatten() },
            },
        };
        *counts.entry(waiting.kind().to_owned()).or_default() += 1;
        answers.push(GateInput {
            operation: Some(waiting.operation),
            seen: Some(waiting.gate.clone()),
            settlement,
            by: Some("eve".to_owned()),
        });
    }
    answers
}

/// Runs that were started from outside and are suspended.
pub(super) async fn suspended(reader: &Journal, outside: &Outside) -> Vec<RunId> {
    let filter = RunFilter {
        status: Some(RunStatus::Suspended),
        roots_only: true,
        limit: u32::MAX,
        ..RunFilter::default()
    };
    match reader.runs(&filter).await {
        Ok(runs) => runs.into_iter().map(|summary| summary.run).collect(),
        Err(error) => {
            outside.book().break_promise(format!("the runs cannot be listed: {error}: {error:?}"));
            Vec::new()
        }
    }
}
