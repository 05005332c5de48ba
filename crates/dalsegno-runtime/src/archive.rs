//! Runs travel in one file: to another workspace, to another machine.

use std::collections::BTreeSet;

use dalsegno_core::RunId;
use dalsegno_store::{Archive, Body, Imported, RunFilter};

use crate::engine::Engine;
use crate::error::EngineError;

/// Most runs of one file. A session of more is exported in parts.
const RUNS_MAX: usize = 10_000;

impl Engine {
    /// Exports a run with all that a replay of it reads: the runs before it in its session or by forks, the runs that
    /// it handed over to, and its child runs. Secrets are in no journal, so they are not in the file either.
    ///
    /// # Errors
    /// When a run is unknown or its journal is damaged.
    pub async fn export(&self, run: RunId) -> Result<Archive, EngineError> {
        let mut found = BTreeSet::new();
        let mut order = Vec::new();
        let mut open = vec![run];
        while let Some(run) = open.pop() {
            if !found.insert(run) {
                continue;
            }
            if found.len() > RUNS_MAX {
                return Err(EngineError::Lineage { run });
            }
            order.push(run);
            for record in self.store().read(run, 0).await? {
                match record.body {
                    Body::Started(started) => open.extend(started.predecessor),
                    Body::Forked { run, .. } | Body::HandedOff { run, .. } => open.push(run),
                    _ => {}
                }
            }
            let children = RunFilter { parent: Some(run), limit: u32::MAX, ..RunFilter::default() };
            open.extend(self.store().runs(&children).await?.into_iter().map(|child| child.run));
        }
        Ok(self.store().export(&order).await?)
    }

    /// Imports runs: all of the file's, or none. Runs that are there already stay as they are.
    ///
    /// # Errors
    /// When the file's journals do not verify, a run is there with another content, or it cannot be written down.
    pub async fn import(&self, archive: Archive) -> Result<Imported, EngineError> {
        Ok(self.store().import(archive).await?)
    }
}
