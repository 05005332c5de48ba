//! The runs that pages walk through, kept for a while: the next page of a run begins where the last one stopped.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError};

use dalsegno_core::RunId;
use dalsegno_history::{Journal, Walk};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::problem::Problem;

/// Most runs that are kept. One takes up to about 64 MiB, if it is very long.
const MOST: usize = 6;

type Kept = VecDeque<(RunId, Arc<Mutex<Seen>>)>;

/// A walk, and the version of the journal at which it was as it is.
pub(crate) struct Seen {
    walk: Walk,
    version: Option<u64>,
}

impl Deref for Seen {
    type Target = Walk;

    fn deref(&self) -> &Walk {
        &self.walk
    }
}

impl DerefMut for Seen {
    fn deref_mut(&mut self) -> &mut Walk {
        &mut self.walk
    }
}

/// The walks that are kept, the latest used last.
#[derive(Default)]
pub(crate) struct Walks(std::sync::Mutex<Kept>);

impl Walks {
    /// The walk through a run, as far as it was recorded by now. Whether the run is in reach was looked at before.
    ///
    /// What was erased meanwhile is not shown from what was read before.
    pub(crate) async fn open(&self, journal: &Journal, run: RunId) -> Result<OwnedMutexGuard<Seen>, Problem> {
        // Read first: what changes from here on is looked for the next time.
        let version = journal.store().version().await.ok();
        if let Some(kept) = self.take(run) {
            let mut seen = kept.lock_owned().await;
            seen.walk.refresh().await.inspect_err(|_| self.forget(run))?;
            if (version.is_some() && version == seen.version) || is_whole(journal, &seen.walk).await {
                seen.version = version;
                return Ok(seen);
            }
        }
        let walk = journal.walk(run).await.inspect_err(|_| self.forget(run))?;
        let seen = Arc::new(Mutex::new(Seen { walk, version }));
        self.keep(run, &seen);
        Ok(seen.lock_owned().await)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, run: RunId) -> Option<Arc<Mutex<Seen>>> {
        let mut kept = self.kept();
        let place = kept.iter().position(|(of, _)| *of == run)?;
        let (run, walk) = kept.remove(place)?;
        kept.push_back((run, Arc::clone(&walk)));
        Some(walk)
    }

    fn keep(&self, run: RunId, walk: &Arc<Mutex<Seen>>) {
        let mut kept = self.kept();
        kept.retain(|(of, _)| *of != run);
        while kept.len() >= MOST {
            kept.pop_front();
        }
        kept.push_back((run, Arc::clone(walk)));
    }

    fn forget(&self, run: RunId) {
        self.kept().retain(|(of, _)| *of != run);
    }
}

/// Says whether all that was read of a run may still be shown. Only what has ended is erased.
async fn is_whole(journal: &Journal, walk: &Walk) -> bool {
    let summary = walk.summary();
    let may_be_erased = summary.status.is_end() || summary.foreign.is_some();
    !may_be_erased || matches!(journal.store().has_erased(summary.run).await, Ok(false))
}
