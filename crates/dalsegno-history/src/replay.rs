//! Replay: the core over the journal once more, and nothing else.

use serde::Serialize;

use dalsegno_core::RunId;
#[cfg(feature = "disk")]
use dalsegno_store::RunFilter;
use dalsegno_store::{Body, ReadError, Record};
#[cfg(feature = "disk")]
use tokio::task::JoinSet;

use crate::error::HistoryError;
use crate::fold::{Divergence, FoldError};
use crate::journal::Journal;

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

impl Journal {
    /// Replays a run: folds the core over its journal and compares every request and the end. Performs nothing; no
    /// model, tool server or memory is opened.
    ///
    /// # Errors
    /// When the run is unknown or its journal is damaged. A difference is not an error but the finding.
    pub async fn replay(&self, run: RunId) -> Result<ReplayReport, HistoryError> {
        self.replay_until(run, u64::MAX).await
    }

    /// Replays a run up to a step: until that step was asked for, and no further.
    ///
    /// # Errors
    /// As for a whole replay; what is damaged after that step is an error as well, since a chain is read as a whole.
    pub async fn replay_until(&self, run: RunId, step: u64) -> Result<ReplayReport, HistoryError> {
        let summary = self.store().summary(run).await?;
        let mut records = self.store().read(run, 0).await?;
        let config = self.config(run, summary.config).await?;
        let beyond =
            |record: &Record| matches!(record.body, Body::Requested { step: asked, .. } if asked > step);
        if let Some(cut) = records.iter().position(beyond) {
            records.truncate(cut);
        }
        let folded = self.fold_all(run, config, &records).await.and_then(|fold| {
            // A run that goes on may be anywhere; one that has ended must have recorded all that it asked for.
            if let (true, Some(last)) = (summary.status.is_end() && step == u64::MAX, records.last()) {
                fold.finish(last)?;
            }
            Ok(fold.state().step())
        });
        let count = records.len() as u64;
        match folded {
            Ok(steps) => Ok(ReplayReport { run, identical: true, steps, records: count, divergence: None }),
            Err(HistoryError::Fold(FoldError::Diverged { divergence, .. })) => Ok(ReplayReport {
                run,
                identical: false,
                steps: divergence.step,
                records: divergence.seq,
                divergence: Some(divergence),
            }),
            Err(error) => Err(error),
        }
    }

    /// Replays every run that the filter shows, several at once, and tells what came of each as it is known.
    ///
    /// # Errors
    /// When the runs cannot be listed. What is wrong with a single run is told.
    #[cfg(feature = "disk")]
    pub async fn replay_all(
        &self,
        filter: &RunFilter,
        mut tell: impl FnMut(RunId, Result<ReplayReport, HistoryError>),
    ) -> Result<(), HistoryError> {
        let runs = self.runs(filter).await?.into_iter().map(|run| run.run);
        let replay = |run| {
            let journal = self.clone();
            async move { (run, journal.replay(run).await) }
        };
        several_at_once(runs, replay, |(run, result)| tell(run, result)).await;
        Ok(())
    }
}

/// Works on as many items at once as there are processors, and tells what came of each as it is known.
///
/// # Panics
/// When the work on an item panics: a defect of the core must not be hidden by those items that are sound.
#[cfg(feature = "disk")]
pub async fn several_at_once<I, T, W>(
    items: impl IntoIterator<Item = I>,
    mut work: impl FnMut(I) -> W,
    mut tell: impl FnMut(T),
) where
    T: Send + 'static,
    W: Future<Output = T> + Send + 'static,
{
    let mut items = items.into_iter();
    let mut tasks = JoinSet::new();
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    loop {
        while tasks.len() < at_once
            && let Some(item) = items.next()
        {
            tasks.spawn(work(item));
        }
        match tasks.join_next().await {
            Some(Ok(done)) => tell(done),
            Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
            None => return,
        }
    }
}

/// What came of a replay, in a word: the causes under which many are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayVerdict {
    /// It is what the journal has.
    Identical,
    /// The core asks for something else, or comes to another end.
    Diverged,
    /// The journal is damaged.
    Damaged,
    /// The run's content, or that of a run that it goes on from, was erased.
    Erased,
    /// A newer release wrote it.
    Newer,
    /// Something else is in the way.
    Failed,
}

impl ReplayVerdict {
    /// The verdict on a replay.
    pub fn of(result: &Result<ReplayReport, HistoryError>) -> Self {
        match result {
            Ok(report) if report.identical => Self::Identical,
            Ok(_) => Self::Diverged,
            Err(HistoryError::Read(ReadError::Damaged(_))) => Self::Damaged,
            Err(HistoryError::Read(ReadError::Erased { .. })) => Self::Erased,
            Err(HistoryError::Read(ReadError::NewerVersion { .. })) => Self::Newer,
            Err(_) => Self::Failed,
        }
    }

    /// The verdict as text, such as `identical`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Identical => "identical",
            Self::Diverged => "diverged",
            Self::Damaged => "damaged",
            Self::Erased => "erased",
            Self::Newer => "newer",
            Self::Failed => "failed",
        }
    }
}
