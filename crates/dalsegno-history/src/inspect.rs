//! What happened in a run, what the agent knew, and why it did what it did.

use std::sync::Arc;

use serde::Serialize;

use dalsegno_core::{
    AgentConfig, AgentResponse, AgentState, OperationId, Outcome, Pending, Reading, Request, RunId,
};
use dalsegno_store::{Body, Record, RunSummary};

use crate::error::HistoryError;
use crate::fold::{Divergence, End, FoldError, Pause};
use crate::ids::child_run;
use crate::journal::Journal;
use crate::waiting::WaitingOperation;

/// A run, seen from its journal.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// Its line in the listing.
    pub summary: RunSummary,
    /// The configuration that the run began with.
    pub config: Arc<AgentConfig>,
    /// Its journal.
    pub records: Vec<Record>,
    /// The state when the step that was asked for was requested, else the latest.
    pub state: AgentState,
    /// How it ended, if it did.
    pub response: Option<AgentResponse>,
    /// What it waits for.
    pub waiting: Vec<WaitingOperation>,
    /// Who paused it; none for a run that is not paused.
    pub paused: Option<Pause>,
    /// Its steps.
    pub steps: Vec<StepView>,
    /// Where the journal and the core part, if they do; the rest is as of there.
    pub divergence: Option<Divergence>,
}

/// One step of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepView {
    /// Its number, from 1. The last view of a run that ended has the number of its last step once more.
    pub step: u64,
    /// Why the core asked for what it asked.
    pub decisions: Vec<String>,
    /// What it asked for.
    pub operations: Vec<OperationView>,
}

/// One operation of a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperationView {
    /// The operation.
    pub operation: OperationId,
    /// The call of a declarative tool that asks for it; none for an operation of the step itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<OperationId>,
    /// What it is, such as ``tool `risk.score` ``.
    pub label: String,
    /// What was asked for.
    pub request: Request,
    /// What came of it, if that is known.
    pub outcome: Option<Outcome>,
    /// Whether a model called it.
    #[serde(skip)]
    pub is_called: bool,
}

impl OperationView {
    /// The id of the child run that performs the operation, once it has begun; none for an operation that is no call of an
    /// agent.
    pub fn child(&self) -> Option<RunId> {
        matches!(self.request, Request::AgentCall(_)).then(|| child_run(self.operation))
    }
}

/// What a model was sent for one completion, computed from the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// The step of the completion.
    pub step: u64,
    /// The completion.
    pub operation: OperationId,
    /// The messages, and how the model is asked.
    pub reading: Reading,
    /// The configuration with the tools that the model may call.
    pub config: Arc<AgentConfig>,
}

impl Journal {
    /// Computes what the model was sent for a completion of this run: the one with this id, else the last one of `step`, else
    /// the last one of the run. None where the run asked for no such completion, or shares the step with the run that it is a
    /// fork of.
    ///
    /// # Errors
    /// When the run is unknown, its journal is damaged, or it does not replay as far as that completion.
    pub async fn prompt(
        &self,
        run: RunId,
        step: Option<u64>,
        operation: Option<OperationId>,
    ) -> Result<Option<Prompt>, HistoryError> {
        let (config, records) = self.journal_of(run).await?;
        let mut fold = self.begin(run, Arc::clone(&config), &records).await?;
        let mut found = None;
        for record in &records[1..] {
            fold.apply(record)?;
            let Body::Requested { step: of, .. } = record.body else { continue };
            if step.is_some_and(|step| step != of) || operation.is_some() && operation != record.operation {
                continue;
            }
            let state = fold.state();
            let asked = state.pending().iter().find(|pending| Some(pending.operation.id) == record.operation);
            if let Some(Pending { operation, .. }) = asked
                && let Request::ModelCompletion(completion) = &operation.request
                && let Ok(reading) = state.reading(&config, completion)
            {
                let config = Arc::clone(&config);
                found = Some(Prompt { step: of, operation: operation.id, reading, config });
            }
        }
        Ok(found)
    }

    /// Shows a run; with `step`, the state when that step was requested.
    ///
    /// # Errors
    /// When the run is unknown or its journal is damaged.
    pub async fn inspect(&self, run: RunId, step: Option<u64>) -> Result<Inspection, HistoryError> {
        let summary = self.store().summary(run).await?;
        let records = self.store().read(run, 0).await?;
        let config = self.config(run, summary.config).await?;
        let mut fold = self.begin(run, Arc::clone(&config), &records).await?;
        let mut steps = Vec::new();
        let mut chosen = None;
        let mut divergence = None;
        for record in &records[1..] {
            let before = fold.state().step();
            let outcome = match &record.body {
                Body::Resolved { outcome, .. } => Some(outcome.clone()),
                Body::Answered { answer } => answer.outcome(),
                _ => None,
            };
            if let Some(outcome) = outcome {
                settle(record.operation, &outcome, steps.last_mut());
            }
            let had_ended = fold.ended.is_some();
            match fold.apply(record) {
                Ok(()) => {}
                Err(FoldError::Diverged { divergence: found, .. }) => {
                    divergence = Some(found);
                    break;
                }
                Err(error) => return Err(error.into()),
            }
            if fold.state().step() != before || fold.ended.is_some() != had_ended {
                steps.push(view(fold.state()));
            } else if matches!(record.body, Body::Requested { .. })
                && let Some(step) = steps.last_mut()
                && !step.operations.iter().any(|known| Some(known.operation) == record.operation)
            {
                // A part of a declarative tool, or what is asked for in a call.
                let asked = fold.state().pending().iter();
                let asked = asked.filter(|pending| Some(pending.operation.id) == record.operation);
                step.operations.extend(asked.map(|asked| operation(fold.state(), asked)));
            }
            if chosen.is_none() && step.is_some_and(|step| fold.state().step() >= step) {
                chosen = Some(fold.state().clone());
            }
        }
        let waiting = match fold.closed {
            true => fold.left.waiting(run),
            false => self.all_waiting(run, fold.state()).await?,
        };
        let response = fold.ended.as_ref().and_then(End::response).cloned();
        let paused = fold.paused.take();
        let state = chosen.unwrap_or_else(|| fold.machine.into_state());
        Ok(Inspection { summary, config, records, state, response, waiting, paused, steps, divergence })
    }
}

/// The step that a state has just asked for.
pub(crate) fn view(state: &AgentState) -> StepView {
    StepView {
        step: state.step(),
        decisions: state.decisions().iter().map(ToString::to_string).collect(),
        operations: state.pending().iter().map(|pending| operation(state, pending)).collect(),
    }
}

pub(crate) fn operation(state: &AgentState, pending: &Pending) -> OperationView {
    OperationView {
        operation: pending.operation.id,
        parent: pending.parent,
        label: pending.operation.request.label(),
        request: pending.operation.request.clone(),
        outcome: pending.outcome.clone(),
        is_called: state.call_id_of(pending.operation.id).is_some(),
    }
}

/// Gives an operation of a step its outcome.
pub(crate) fn settle(operation: Option<OperationId>, outcome: &Outcome, step: Option<&mut StepView>) {
    let operations = step.into_iter().flat_map(|step| &mut step.operations);
    for view in operations.filter(|view| Some(view.operation) == operation) {
        view.outcome = Some(outcome.clone());
    }
}
