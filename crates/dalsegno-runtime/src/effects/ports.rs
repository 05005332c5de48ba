//! What a run has of this process: its clock, its store, its rooms, its clients and its secrets. Nothing here starts or ends a
//! run.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dalsegno_core::{Timestamp, ToolPattern};
use dalsegno_history::Journal;
use dalsegno_store::{AcquireError, AppendError, Lease, Owner, Store};
use dalsegno_workspace::Workspace;
use tokio::sync::OnceCell;

use crate::clock::Clock;
use crate::effects::bindings::Bindings;
use crate::effects::dispatch::Dispatcher;
use crate::effects::endpoints::Endpoints;
#[cfg(feature = "oauth")]
use crate::effects::turns::Refreshes;
use crate::error::{EngineError, OpenError, RunFailure};
use crate::live::Live;
use crate::observer::Observer;
use crate::run::converse::Switchboard;
#[cfg(feature = "oauth")]
use crate::secret_source::SecretSource;
use crate::steady::Steady;
use crate::tail::Tails;

/// The pause before a release is tried again because the store could not be written.
const PAUSE: Duration = Duration::from_millis(500);

/// How often a release is tried again.
const RELEASES: u32 = 60;

/// What a run has of this process.
pub(crate) struct Ports {
    /// The workspace, as it is now.
    pub(crate) live: Live,
    /// Models, tool servers, the memory, and the secrets that are scrubbed.
    pub(crate) bindings: Arc<Bindings>,
    pub(crate) journal: Journal,
    pub(crate) owners: Owners,
    /// The room that there is for effects.
    pub(crate) dispatcher: Dispatcher,
    /// The clients of declarative tools.
    pub(crate) endpoints: Endpoints,
    /// Who refreshes access in this process.
    #[cfg(feature = "oauth")]
    pub(crate) refreshes: Refreshes,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    /// The steps between two snapshots of a run.
    pub(crate) snapshot_every: u64,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) steady: Steady,
    /// The tools that may change something, where all runs of this process are trials of an eval.
    pub(crate) trial: Option<Arc<[ToolPattern]>>,
    /// Who follows runs in this process.
    pub(crate) tails: Arc<Tails>,
    /// Who carries calls of telephones in this process.
    pub(crate) switchboard: OnceLock<Arc<dyn Switchboard>>,
}

/// Where this process shows that it lives: claimed when it first owns a run, so that a process that only reads claims nothing.
pub(crate) enum Owners {
    Folder { dir: PathBuf, claimed: OnceCell<Owner> },
    Given(Owner),
}

impl Ports {
    /// The workspace as it is in use now.
    pub(crate) fn workspace(&self) -> Arc<Workspace> {
        self.live.workspace()
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.journal.store()
    }

    /// Where the secrets of the workspace are found.
    #[cfg(feature = "oauth")]
    pub(crate) fn secret_source(&self) -> &SecretSource {
        self.bindings.vault().source()
    }

    /// The time of day.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.clock.now();
        self.steady.note(now);
        now
    }

    /// The time of day at which a patience ends that began at `since`, in milliseconds since the epoch. What the clock jumped
    /// over since then does not count.
    pub(crate) fn end_of(&self, since: u64, patience: Duration) -> Timestamp {
        self.steady.end_of(since, patience)
    }

    /// Who this process is, to own a run.
    pub(crate) async fn owner(&self) -> Result<&Owner, EngineError> {
        match &self.owners {
            Owners::Given(owner) => Ok(owner),
            Owners::Folder { dir, claimed } => {
                let owner =
                    claimed.get_or_try_init(|| async { Owner::claim(dir).map_err(OpenError::Owner) }).await?;
                Ok(owner)
            }
        }
    }

    /// Releases a run. A store that cannot be written is tried again for a while: this process lives, and what it does not
    /// release stays its own.
    pub(crate) async fn release(&self, lease: Lease) -> Result<(), RunFailure> {
        let run = lease.run();
        let failed = |source| RunFailure::Append { run, source };
        let mut source = match self.store().release(lease).await {
            // A run that has ended may be deleted before its process gives it back.
            Ok(()) | Err(AppendError::UnknownRun { .. }) => return Ok(()),
            Err(source) => source,
        };
        for _ in 0..RELEASES {
            match &source {
                AppendError::Storage(error) if error.is_passing() => tokio::time::sleep(PAUSE).await,
                _ => break,
            }
            let Ok(owner) = self.owner().await else { break };
            // The lease went with the attempt. Nobody else can have the run unless it was released after all.
            match self.store().acquire(run, owner).await {
                Ok(lease) => match self.store().release(lease).await {
                    Ok(()) => return Ok(()),
                    Err(error) => source = error,
                },
                Err(AcquireError::Storage(_)) => {}
                Err(_) => return Ok(()),
            }
        }
        Err(failed(source))
    }
}
