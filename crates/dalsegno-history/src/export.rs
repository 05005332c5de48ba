//! Runs travel in one file, with all that a replay of them reads.

use std::collections::BTreeSet;

use dalsegno_core::RunId;
use dalsegno_store::{Archive, Body, Damage, ReadError, RunFilter};

use crate::error::HistoryError;
use crate::journal::Journal;

/// Most runs of one file. A session of more is exported in parts.
const RUNS_MAX: usize = 10_000;

impl Journal {
    /// Exports a run with all that a replay of it reads: the runs that it was forked from, the runs that it handed over to,
    /// and its child runs; and the runs before it in its session, where its own records do not say what it began with. Secrets
    /// are in no journal, so they are not in the file either.
    ///
    /// # Errors
    /// When a run is unknown or its journal is damaged.
    pub async fn export(&self, run: RunId) -> Result<Archive, HistoryError> {
        self.export_all(&[run]).await
    }

    /// Exports several runs, each with all that a replay of it reads.
    ///
    /// # Errors
    /// As for [`export`](Self::export).
    pub async fn export_all(&self, runs: &[RunId]) -> Result<Archive, HistoryError> {
        let order = self.belonging(runs, false).await?;
        Ok(self.store().export(&order).await?)
    }

    /// Exports the same of a damaged journal, each run as far as its records verify, and says what is damaged. What only the
    /// damaged part of a run names is left out.
    ///
    /// # Errors
    /// When a run is unknown, or not even its first record verifies.
    pub async fn export_intact(&self, runs: &[RunId]) -> Result<(Archive, Vec<Damage>), HistoryError> {
        let order = self.belonging(runs, true).await?;
        Ok(self.store().export_intact(&order).await?)
    }

    /// These runs with all that belong to them.
    async fn belonging(&self, runs: &[RunId], damaged: bool) -> Result<Vec<RunId>, HistoryError> {
        let mut found = BTreeSet::new();
        let mut order = Vec::new();
        let mut open = runs.to_vec();
        while let Some(run) = open.pop() {
            if !found.insert(run) {
                continue;
            }
            if found.len() > RUNS_MAX {
                return Err(HistoryError::Lineage { run });
            }
            order.push(run);
            let records = match self.store().read(run, 0).await {
                Err(ReadError::Damaged(_)) if damaged => Vec::new(),
                records => records?,
            };
            let is_whole = matches!(records.get(1).map(|record| &record.body), Some(Body::Inherited(_)));
            for record in records {
                match record.body {
                    Body::Started(started) => open.extend(started.predecessor.filter(|_| !is_whole)),
                    Body::Forked { run, .. } | Body::Adopted { run, .. } | Body::HandedOff { run, .. } => {
                        open.push(run);
                    }
                    _ => {}
                }
            }
            let foreign = Some(self.store().summary(run).await?.foreign.is_some());
            let children = RunFilter { parent: Some(run), foreign, limit: u32::MAX, ..RunFilter::default() };
            open.extend(self.store().runs(&children).await?.into_iter().map(|child| child.run));
        }
        Ok(order)
    }
}
