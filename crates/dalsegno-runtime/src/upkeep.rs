//! What keeps a journal small: old runs are deleted, content is erased.

use dalsegno_core::{OperationId, RunId};
use dalsegno_store::{Erased, GcOptions, GcReport};

use crate::engine::Engine;
use crate::error::EngineError;

impl Engine {
    /// Deletes runs that ended long ago, and what nothing uses any more, or says only what would go.
    ///
    /// # Errors
    /// When what needs what cannot be read, or the store fails; what was deleted by then is gone, and all else is whole.
    pub async fn gc(&self, options: &GcOptions) -> Result<GcReport, EngineError> {
        Ok(self.store().gc(options).await?)
    }

    /// Erases the content of an ended run, or of one operation of it. Its records stay as the proof that they were
    /// there, and their chain verifies; it cannot be replayed any more.
    ///
    /// # Errors
    /// When the run goes on or does not exist, there is no such operation, or the store fails.
    pub async fn erase(&self, run: RunId, operation: Option<OperationId>) -> Result<Erased, EngineError> {
        Ok(self.store().erase(run, operation).await?)
    }
}
