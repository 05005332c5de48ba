//! This process asks for the ownership of a run, and gives it back.

use dalsegno_core::RunId;
use dalsegno_store::{AcquireError, Lease, ReadError, RunSummary};

use crate::engine::Engine;
use crate::error::EngineError;

/// A run of which this process asked for the ownership.
pub(crate) enum Opened {
    /// It is this process's.
    Acquired(Box<RunSummary>, Lease),
    /// It has ended.
    Ended(Box<RunSummary>),
}

impl Engine {
    /// Takes a run, unless it has ended: also one that its process ended and released right before.
    pub(crate) async fn acquire_open(&self, run: RunId) -> Result<Opened, EngineError> {
        let summary = self.store().summary(run).await?;
        if summary.status.is_end() {
            return Ok(Opened::Ended(Box::new(summary)));
        }
        let owner = self.ports().owner().await?;
        let lease = match self.store().acquire(run, owner).await {
            Ok(lease) => lease,
            // It was ended and erased meanwhile: nothing is left to do.
            Err(AcquireError::Unreadable(error @ ReadError::Erased { .. })) => {
                let now = self.store().summary(run).await?;
                let ended = now.status.is_end();
                return if ended { Ok(Opened::Ended(Box::new(now))) } else { Err(error.into()) };
            }
            Err(error) => return Err(error.into()),
        };
        if lease.next_seq() > summary.records {
            let now = self.store().summary(run).await?;
            if now.status.is_end() {
                self.ports().release(lease).await?;
                return Ok(Opened::Ended(Box::new(now)));
            }
        }
        let lease = match summary.parent {
            Some(parent) => lease.telling(parent),
            None => lease,
        };
        Ok(Opened::Acquired(Box::new(summary), lease))
    }

    /// Gives a run back that cannot be resumed here. The error that stopped it matters more than one of the release.
    pub(crate) async fn give_back(&self, lease: Lease, error: EngineError) -> EngineError {
        let _ = self.ports().release(lease).await;
        error
    }
}
