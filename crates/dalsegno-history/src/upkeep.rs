//! What keeps a journal small: old runs are deleted, content is erased.

use dalsegno_core::{OperationId, RunId};
use dalsegno_store::{EraseError, Erased, GcOptions, GcReport, Waiting};

use crate::error::HistoryError;
use crate::journal::Journal;

impl Journal {
    /// Deletes runs that ended long ago, and what nothing uses any more, or says only what would go.
    ///
    /// # Errors
    /// When what needs what cannot be read, or the store fails; what was deleted by then is gone, and all else is whole.
    pub async fn gc(&self, options: &GcOptions) -> Result<GcReport, HistoryError> {
        Ok(self.store().gc(options).await?)
    }

    /// Erases the content of an ended run, or of one operation of it. Its records stay as the proof that they were
    /// there, and their chain verifies; it cannot be replayed any more.
    ///
    /// # Errors
    /// When the run goes on or does not exist, it is a child run whose parent goes on, there is no such operation, or the
    /// store fails.
    pub async fn erase(&self, run: RunId, operation: Option<OperationId>) -> Result<Erased, HistoryError> {
        Ok(self.store().erase(run, operation).await?)
    }

    /// The runs that hold content of this one as well: those that took it over from the run before them in their session,
    /// forks, which share its records, and child runs, which were asked in its words; with those of all these.
    ///
    /// # Errors
    /// When there is no such run, or what goes on from what cannot be read.
    pub async fn heirs(&self, run: RunId) -> Result<Vec<RunId>, HistoryError> {
        Ok(self.store().heirs(run).await?)
    }

    /// Erases the content of an ended run wherever it is held: in the run and in all [heirs](Self::heirs) of it. Returns
    /// what was erased, and in which other runs.
    ///
    /// # Errors
    /// When one of the runs has not ended, and nothing is erased then; or as for [`erase`](Self::erase).
    pub async fn erase_everywhere(&self, run: RunId) -> Result<(Erased, Vec<RunId>), HistoryError> {
        let heirs = self.heirs(run).await?;
        for one in heirs.iter().chain([&run]) {
            let summary = self.store().summary(*one).await?;
            if summary.foreign.is_some() {
                continue;
            }
            if !summary.status.is_end() {
                return Err(EraseError::NotEnded { run: *one, status: summary.status }.into());
            }
            if summary.owner.is_some() && summary.waiting.contains(&Waiting::InDoubt) {
                return Err(EraseError::UnderWay { run: *one }.into());
            }
            if let Some(parent) = summary.parent
                && self.known(parent).await?.is_some_and(|above| !above.status.is_end())
            {
                return Err(EraseError::Needed { run: *one, parent }.into());
            }
        }
        let mut all = Erased::default();
        // The run itself comes last: until then it says who holds its content.
        for one in heirs.iter().rev().chain([&run]) {
            let Erased { records, files, shared_files, .. } = self.erase(*one, None).await?;
            all.records += records;
            all.files += files;
            // What another one of them held was erased with that one.
            all.shared_files = shared_files;
        }
        Ok((all, heirs))
    }
}
