//! A run is ended without a look at what it had come to: for runs whose records cannot be folded.

use std::collections::BTreeMap;

use dalsegno_core::{AgentResponse, OperationId, Outcome, RunId, Usage};
use dalsegno_history::{HistoryError, is_unrepeatable};
use dalsegno_store::{AcquireError, AttemptCause, Body, NewRecord, ReadError, Record, RunSummary, Start};
use serde::Serialize;
use tokio::sync::{broadcast, watch};

use crate::effects::policy;
use crate::engine::Engine;
use crate::error::{EngineError, RunFailure};
use crate::run::handle::{RunEnd, RunHandle, RunReport, Stop};

/// How a run is abandoned.
#[derive(Debug, Clone, Default)]
pub struct AbandonOptions {
    /// Why. It is recorded.
    pub reason: String,
    /// Who does it.
    pub by: Option<String>,
    /// Whether a run that could be cancelled is abandoned all the same.
    pub force: bool,
}

/// A run that was abandoned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Abandoned {
    /// The run; after handoffs the last one.
    #[serde(rename = "run_id")]
    pub run: RunId,
    /// The effects that its records leave in doubt: they may have taken place.
    pub in_doubt: Vec<LeftInDoubt>,
    /// Whether its records could be read, so that `in_doubt` is all that there is.
    pub readable: bool,
}

/// An effect that may have taken place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftInDoubt {
    /// The operation.
    pub operation: OperationId,
    /// What it is, such as ``tool `shop.order` ``.
    pub label: String,
}

impl Engine {
    /// Ends a run without folding it: one that is damaged, that this release cannot replay, or that rests on content which
    /// was erased. Its parent is told that it failed, its child runs are told to end, and its session is free. What may have
    /// taken place is recorded as being in doubt, as far as the records can be read.
    ///
    /// # Errors
    /// When there is no such run, it has ended or is foreign, another process performs it, it could be cancelled and
    /// `force` is not set, or it cannot be written down.
    pub async fn abandon(&self, run: RunId, options: AbandonOptions) -> Result<Abandoned, EngineError> {
        let AbandonOptions { mut reason, mut by, force } = options;
        let secrets = self.bindings().secrets();
        secrets.text(&mut reason);
        by.iter_mut().for_each(|by| secrets.text(by));
        let summary = self.own_last_in_line(run).await?;
        let run = summary.run;
        let ended = |status| EngineError::Ended { run, status };
        if summary.status.is_end() {
            return Err(ended(summary.status));
        }
        if !force {
            match self.folds(&summary).await {
                Ok(()) => return Err(EngineError::Cancellable { run }),
                Err(error) if error.is_passing() => return Err(error),
                Err(_) => {}
            }
        }
        let owner = self.ports().owner().await?;
        let mut lease = self.store().seize(run, owner).await?;
        let now = self.store().summary(run).await?;
        if now.status.is_end() {
            self.ports().release(lease).await?;
            return Err(ended(now.status));
        }
        if let Some(parent) = summary.parent {
            lease = lease.telling(parent);
        }
        let records = self.store().read(run, 0).await;
        let readable = records.is_ok();
        let in_doubt = left_in_doubt(&records.unwrap_or_default());
        let at = self.now();
        let mut new = vec![NewRecord::new(at, Body::Abandoned { reason, by })];
        for left in &in_doubt {
            let outcome = Outcome::Failed(policy::indeterminate("the run was abandoned"));
            new.push(NewRecord::of(at, left.operation, Body::late(outcome)));
        }
        if let Err(source) = self.store().append(&mut lease, new).await {
            return Err(self.give_back(lease, RunFailure::Append { run, source }.into()).await);
        }
        self.ports().release(lease).await?;
        // The commit told them; this does not wait for a worker.
        if let Err(error) = self.end_left_behind(run).await {
            tracing::debug!(%run, %error, "the child runs of an abandoned run are not ended by this process");
        }
        Ok(Abandoned { run, in_doubt, readable })
    }

    /// Says whether a run could be cancelled.
    async fn folds(&self, summary: &RunSummary) -> Result<(), EngineError> {
        let config = self.journal().config(summary.run, summary.config).await?;
        self.journal().fold_from_snapshot(summary.run, &config).await?;
        // What an acquisition looks at.
        self.store().read(summary.run, summary.records).await?;
        Ok(())
    }

    /// The end of an abandoned run, as far as it is told.
    pub(crate) async fn report_abandoned(&self, summary: &RunSummary) -> RunHandle {
        let run = summary.run;
        let records = self.store().read(run, 0).await.unwrap_or_default();
        let reason = records.iter().rev().find_map(|record| match &record.body {
            Body::Abandoned { reason, .. } => Some(reason.as_str()),
            _ => None,
        });
        let response = AgentResponse::abandoned(reason.unwrap_or("its records cannot be read"));
        let report = RunReport {
            run,
            agent: summary.agent.clone(),
            end: RunEnd::Ended(response),
            steps: 0,
            usage: Usage::default(),
            before: Vec::new(),
        };
        let (_, events) = broadcast::channel(1);
        let (stop, _) = watch::channel(Stop::Go);
        RunHandle { run, is_new: false, begun: None, events, stop, task: tokio::spawn(async { Ok(report) }) }
    }
}

/// Names the way out where a run cannot be ended because nobody can say where it stands.
pub(crate) fn uncancellable(run: RunId, error: EngineError) -> EngineError {
    let unfoldable = match &error {
        EngineError::History(
            HistoryError::Fold(_)
            | HistoryError::Config { .. }
            | HistoryError::Beginning { .. }
            | HistoryError::Lineage { .. }
            | HistoryError::Stranger { .. },
        ) => true,
        EngineError::History(HistoryError::Read(source))
        | EngineError::Acquire(AcquireError::Unreadable(source)) => {
            !matches!(source, ReadError::Storage(_) | ReadError::UnknownRun { .. })
        }
        _ => false,
    };
    if unfoldable { EngineError::Uncancellable { run, source: Box::new(error) } } else { error }
}

/// The operations that may not be repeated, have begun by what the records say, and have no outcome.
fn left_in_doubt(records: &[Record]) -> Vec<LeftInDoubt> {
    let mut open: BTreeMap<OperationId, (String, bool)> = BTreeMap::new();
    for record in records {
        let Some(id) = record.operation else { continue };
        match &record.body {
            Body::Requested { label, class, start, .. } if is_unrepeatable(*class) => {
                open.insert(id, (label.clone(), *start == Start::Now));
            }
            Body::Attempted { start, cause, .. } => {
                if let Some((_, began)) = open.get_mut(&id) {
                    // What was answered is settled; another attempt settles nothing.
                    let settled = *cause == AttemptCause::Answered;
                    *began = *start == Start::Now || (*began && !settled);
                }
            }
            Body::Resolved { .. } | Body::Late { .. } => drop(open.remove(&id)),
            Body::Answered { answer } if answer.outcome().is_some() => drop(open.remove(&id)),
            _ => {}
        }
    }
    let begun = open.into_iter().filter(|(_, (_, began))| *began);
    begun.map(|(operation, (label, _))| LeftInDoubt { operation, label }).collect()
}
