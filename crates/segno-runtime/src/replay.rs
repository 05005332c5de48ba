//! Replay: the core over the journal once more, and nothing else.

use serde::Serialize;

use segno_core::RunId;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::fold::{Divergence, FoldError};

/// What a replay found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReplayReport {
    /// The run.
    #[serde(rename = "run_id")]
    pub run: RunId,
    /// Whether the core asked for exactly what the journal has, and came to the same end.
    pub identical: bool,
    /// Steps that were replayed.
    pub steps: u64,
    /// Records that were folded.
    pub records: u64,
    /// The first difference.
    pub divergence: Option<Divergence>,
}

impl Engine {
    /// Replays a run: folds the core over its journal and compares every request and the end. Performs nothing; no
    /// model, tool server or memory is opened.
    ///
    /// # Errors
    /// When the run is unknown or its journal is damaged. A difference is not an error but the finding.
    pub async fn replay(&self, run: RunId) -> Result<ReplayReport, EngineError> {
        let summary = self.store().summary(run).await?;
        let records = self.store().read(run, 0).await?;
        let config = self.config(run, summary.config).await?;
        let folded = self.fold_all(run, config, &records).await.and_then(|fold| {
            // A run that goes on may be anywhere; one that has ended must have recorded all that it asked for.
            if let (true, Some(last)) = (summary.status.is_end(), records.last()) {
                fold.finish(last)?;
            }
            Ok(fold.state().step())
        });
        let count = records.len() as u64;
        match folded {
            Ok(steps) => Ok(ReplayReport { run, identical: true, steps, records: count, divergence: None }),
            Err(EngineError::Fold(FoldError::Diverged { divergence, .. })) => Ok(ReplayReport {
                run,
                identical: false,
                steps: divergence.step,
                records: divergence.seq,
                divergence: Some(divergence),
            }),
            Err(error) => Err(error),
        }
    }
}
