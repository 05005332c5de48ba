//! Where a run stands now, at a cost that does not grow with the run.

use std::sync::Arc;

use dalsegno_core::{AgentConfig, AgentResponse, AgentState, RunId};
use dalsegno_store::{Recent, Record, RunSummary};

use crate::error::HistoryError;
use crate::fold::{End, FoldError, Pause};
use crate::inspect::Inspection;
use crate::journal::Journal;
use crate::waiting::WaitingOperation;

/// Where a run stands now.
#[derive(Debug, Clone)]
pub struct Latest {
    /// Its line in the listing.
    pub summary: RunSummary,
    /// The configuration that the run began with.
    pub config: Arc<AgentConfig>,
    /// Its second record, which says where it came from if it began as a copy of another run.
    pub second: Option<Record>,
    /// The latest state.
    pub state: AgentState,
    /// How it ended, if it did.
    pub response: Option<AgentResponse>,
    /// What it waits for, its child runs included.
    pub waiting: Vec<WaitingOperation>,
    /// Who paused it; none for a run that is not paused.
    pub paused: Option<Pause>,
}

impl Journal {
    /// Says where a run stands: what [`inspect`](Self::inspect) says of its end, from the latest snapshot and the records since.
    ///
    /// # Errors
    /// When the run is unknown or its journal is damaged.
    pub async fn latest(&self, run: RunId) -> Result<Latest, HistoryError> {
        self.latest_of(run, None).await
    }

    /// The same of a run of this tenant, if one is named: a run of another is as unknown as one that is not there.
    ///
    /// # Errors
    /// When the run is unknown or its journal is damaged.
    pub async fn latest_of(&self, run: RunId, tenant: Option<&str>) -> Result<Latest, HistoryError> {
        let recent =
            self.store().recent(run, tenant).await.map_err(|error| HistoryError::of_read(run, error))?;
        let Recent { summary, config, snapshot, records, second } = recent;
        let config = self.parse_config(run, summary.config, config)?;
        let fold = match self.fold_recent(run, &config, snapshot, &records).await {
            Ok(fold) => fold,
            // As of where they part, which the whole journal says.
            Err(HistoryError::Fold(FoldError::Diverged { .. })) => {
                return Ok(self.inspect(run, None).await?.into());
            }
            Err(error) => return Err(error),
        };
        let second = second.or_else(|| records.into_iter().find(|record| record.seq == 1));
        let waiting = match fold.closed {
            true => fold.left.waiting(run),
            false => self.all_waiting(run, fold.state()).await?,
        };
        let response = fold.ended.as_ref().and_then(End::response).cloned();
        let (state, paused) = (fold.machine.into_state(), fold.paused);
        Ok(Latest { summary, config, second, state, response, waiting, paused })
    }
}

impl Latest {
    /// Where a run stands that has only begun, with this state.
    pub fn begun(summary: RunSummary, config: Arc<AgentConfig>, state: AgentState) -> Self {
        Self { summary, config, second: None, state, response: None, waiting: Vec::new(), paused: None }
    }
}

impl From<Inspection> for Latest {
    fn from(inspection: Inspection) -> Self {
        let Inspection { summary, config, records, state, response, waiting, paused, .. } = inspection;
        let second = records.into_iter().nth(1);
        Self { summary, config, second, state, response, waiting, paused }
    }
}
