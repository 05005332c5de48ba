//! The runs that pages walk through, kept for a while: the next page of a run begins where the last one stopped.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use dalsegno_core::RunId;
use dalsegno_history::{Journal, Walk};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::problem::Problem;

/// Most runs that are kept. One takes up to about 64 MiB, if it is very long.
const MOST: usize = 6;

type Kept = VecDeque<(RunId, Arc<Mutex<Walk>>)>;

/// The walks that are kept, the latest used last.
#[derive(Default)]
pub(crate) struct Walks(std::sync::Mutex<Kept>);

impl Walks {
    /// The walk through a run, as far as it was recorded by now. Whether the run is in reach was looked at before.
    pub(crate) async fn open(&self, journal: &Journal, run: RunId) -> Result<OwnedMutexGuard<Walk>, Problem> {
        let mut walk = match self.take(run) {
            Some(walk) => walk.lock_owned().await,
            None => {
                let walk = Arc::new(Mutex::new(journal.walk(run).await?));
                self.keep(run, &walk);
                walk.lock_owned().await
            }
        };
        // What was erased meanwhile must not be shown from what was read before.
        let is_there = journal.store().first(run).await.map(drop).map_err(Problem::from);
        let looked = walk.refresh().await.map(drop).map_err(Problem::from);
        is_there.and(looked).inspect_err(|_| self.forget(run))?;
        Ok(walk)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, run: RunId) -> Option<Arc<Mutex<Walk>>> {
        let mut kept = self.kept();
        let place = kept.iter().position(|(of, _)| *of == run)?;
        let (run, walk) = kept.remove(place)?;
        kept.push_back((run, Arc::clone(&walk)));
        Some(walk)
    }

    fn keep(&self, run: RunId, walk: &Arc<Mutex<Walk>>) {
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
