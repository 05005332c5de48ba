//! The runs that belong to another: those that it handed over to, and its child runs.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use dalsegno_core::{AgentConfig, AgentState, OperationId, Request, RunId};
use dalsegno_store::{Record, RunStatus, RunSummary, Snapshot};

use crate::error::HistoryError;
use crate::fold::Fold;
use crate::ids::{child_run, successor_run};
use crate::journal::Journal;
use crate::progress::Progress;
use crate::waiting::{WaitingOperation, waiting};

/// A child run that has not ended, or a child of one, as of the run that was asked about.
#[derive(Debug)]
pub struct Descendant {
    /// The child run.
    pub run: RunId,
    /// Its configuration.
    pub config: Arc<AgentConfig>,
    /// Its state.
    pub state: AgentState,
    /// How many records it had before it was folded.
    pub records: u64,
    /// How far its pending operations are.
    pub progress: BTreeMap<OperationId, Progress>,
}

impl Journal {
    /// A run's line in the listing; after handoffs that of the last run.
    ///
    /// # Errors
    /// When the run is unknown, or the store cannot be read.
    pub async fn last_in_line(&self, run: RunId) -> Result<RunSummary, HistoryError> {
        let mut summary = self.store().summary(run).await?;
        while summary.status == RunStatus::HandedOff {
            summary = self.store().summary(successor_run(summary.run)).await?;
        }
        Ok(summary)
    }

    /// The child runs of a state's pending operations that have not ended, with theirs.
    ///
    /// Boxed, since children have children.
    pub fn descendants<'a>(
        &'a self,
        run: RunId,
        state: &'a AgentState,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<Descendant>, HistoryError>> + Send + 'a>> {
        Box::pin(async move {
            let mut all = Vec::new();
            for child in self.children(run, state).await? {
                let below = self.descendants(child.run, &child.state).await?;
                all.push(child);
                all.extend(below);
            }
            Ok(all)
        })
    }

    async fn children(&self, parent: RunId, state: &AgentState) -> Result<Vec<Descendant>, HistoryError> {
        let pending = state.pending().iter().filter(|pending| pending.outcome.is_none());
        let calls = pending.filter(|pending| matches!(pending.operation.request, Request::AgentCall(_)));
        let mut children = Vec::new();
        for operation in calls.map(|pending| pending.operation.id) {
            // Another run that has the id is no child of this one.
            let known = self.known(child_run(operation)).await?.filter(|known| known.parent == Some(parent));
            let Some(known) = known else { continue };
            let summary = self.last_in_line(known.run).await?;
            if summary.status.is_end() {
                continue;
            }
            let config = self.config(summary.run, summary.config).await?;
            let fold = self.fold_from_snapshot(summary.run, &config).await?;
            let (run, records, progress) = (summary.run, summary.records, fold.progress);
            let state = fold.machine.into_state();
            children.push(Descendant { run, config, state, records, progress });
        }
        Ok(children)
    }

    /// All that a run waits for, its child runs included.
    ///
    /// # Errors
    /// When a child run cannot be read.
    pub async fn all_waiting(
        &self,
        run: RunId,
        state: &AgentState,
    ) -> Result<Vec<WaitingOperation>, HistoryError> {
        let mut all = waiting(run, state);
        for below in self.descendants(run, state).await? {
            all.extend(waiting(below.run, &below.state));
        }
        Ok(all)
    }

    /// Folds the journal of a run from its latest snapshot on; from the beginning when there is none.
    ///
    /// # Errors
    /// When the journal is damaged, or does not replay.
    pub async fn fold_from_snapshot(
        &self,
        run: RunId,
        config: &Arc<AgentConfig>,
    ) -> Result<Fold, HistoryError> {
        let snapshot = self.store().snapshot(run).await?;
        let from = snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
        let records = self.store().read(run, from).await?;
        self.fold_recent(run, config, snapshot, &records).await
    }

    /// Folds these records from a snapshot on; all records of a run where there is none.
    pub(crate) async fn fold_recent(
        &self,
        run: RunId,
        config: &Arc<AgentConfig>,
        snapshot: Option<Snapshot>,
        records: &[Record],
    ) -> Result<Fold, HistoryError> {
        let Some(snapshot) = snapshot else {
            return self.fold_all(run, Arc::clone(config), records).await;
        };
        let mut fold = Fold::restored(Arc::clone(config), run, snapshot);
        records.iter().try_for_each(|record| fold.apply(record))?;
        Ok(fold)
    }
}
