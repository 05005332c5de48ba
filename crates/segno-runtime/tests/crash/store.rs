//! A store that dies, or fails, at one of its commits.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use segno_core::{Digest, RunId};
use segno_store::{
    AcquireError, AppendError, Archive, CreateError, Created, ImportError, Imported, Lease, Message,
    NewRecord, NewRun, OpenError, Owner, PostError, ReadError, Record, RunFilter, RunSummary, Snapshot,
    SnapshotError, SqliteStore, StorageError, Store,
};
use serde::{Deserialize, Serialize};

/// Longer than an effect is on its way.
const PAUSE: Duration = Duration::from_millis(3);

/// An instant at which the journal is on the disk up to a known point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Boundary {
    /// Which commit, from 0. Creating, acquiring and releasing a run are commits too.
    pub(crate) commit: u32,
    pub(crate) side: Side,
}

/// On which side of the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Side {
    Before,
    After,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::Before, Self::After];
}

/// What happens at the boundary.
pub(crate) enum Trouble {
    /// This process is killed.
    Death,
    /// The storage fails, once.
    Failure(StorageError),
}

impl Trouble {
    /// A failure as the database reports it, here of a file in a folder that does not exist.
    pub(crate) fn failure() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let Err(OpenError::Inaccessible { source, .. }) =
            SqliteStore::open(dir.path().join("missing/segno.db"))
        else {
            panic!("a journal in a folder that does not exist was opened");
        };
        Self::Failure(source)
    }
}

/// The real store, with trouble at one boundary.
pub(crate) struct TroubledStore {
    inner: SqliteStore,
    trouble: Trouble,
    boundary: Option<Boundary>,
    commits: AtomicU32,
}

impl TroubledStore {
    pub(crate) fn new(inner: SqliteStore, trouble: Trouble, boundary: Option<Boundary>) -> Self {
        Self { inner, trouble, boundary, commits: AtomicU32::new(0) }
    }

    /// Does the commit's own work between its two boundaries.
    async fn commit<T, E: From<StorageError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let commit = self.commits.fetch_add(1, Ordering::SeqCst);
        self.reach(Boundary { commit, side: Side::Before }).await?;
        let result = work.await;
        self.reach(Boundary { commit, side: Side::After }).await?;
        result
    }

    async fn reach(&self, boundary: Boundary) -> Result<(), StorageError> {
        if self.boundary != Some(boundary) {
            return Ok(());
        }
        if boundary.side == Side::Before {
            // An effect that did not wait for this commit reaches the receiver now, and is found out.
            tokio::time::sleep(PAUSE).await;
        }
        match &self.trouble {
            Trouble::Failure(error) => Err(error.clone()),
            Trouble::Death => {
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                    .unwrap();
                loop {
                    std::thread::park();
                }
            }
        }
    }
}

#[async_trait]
impl Store for TroubledStore {
    async fn create(&self, run: NewRun) -> Result<Created, CreateError> {
        self.commit(self.inner.create(run)).await
    }

    async fn hand_off(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        successor: NewRun,
    ) -> Result<Created, CreateError> {
        self.commit(self.inner.hand_off(lease, records, successor)).await
    }

    async fn append_with(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
    ) -> Result<Vec<u64>, AppendError> {
        self.commit(self.inner.append_with(lease, records, consumed)).await
    }

    async fn acquire(&self, run: RunId, owner: &Owner) -> Result<Lease, AcquireError> {
        self.commit(self.inner.acquire(run, owner)).await
    }

    async fn release(&self, lease: Lease) -> Result<(), AppendError> {
        self.commit(self.inner.release(lease)).await
    }

    async fn read(&self, run: RunId, from: u64) -> Result<Vec<Record>, ReadError> {
        self.inner.read(run, from).await
    }

    async fn summary(&self, run: RunId) -> Result<RunSummary, ReadError> {
        self.inner.summary(run).await
    }

    async fn runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, ReadError> {
        self.inner.runs(filter).await
    }

    async fn find_runs(&self, prefix: &str) -> Result<Vec<RunId>, ReadError> {
        self.inner.find_runs(prefix).await
    }

    async fn config(&self, digest: Digest) -> Result<String, ReadError> {
        self.inner.config(digest).await
    }

    async fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, ReadError> {
        self.inner.blob(digest).await
    }

    async fn post(&self, run: RunId, message: Message) -> Result<(), PostError> {
        self.inner.post(run, message).await
    }

    async fn inbox(&self, run: RunId) -> Result<Vec<(u64, Message)>, ReadError> {
        self.inner.inbox(run).await
    }

    async fn export(&self, runs: &[RunId]) -> Result<Archive, ReadError> {
        self.inner.export(runs).await
    }

    async fn import(&self, archive: Archive) -> Result<Imported, ImportError> {
        self.inner.import(archive).await
    }

    async fn save_snapshot(&self, lease: &Lease, snapshot: Snapshot) -> Result<(), SnapshotError> {
        self.commit(self.inner.save_snapshot(lease, snapshot)).await
    }

    async fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, ReadError> {
        self.inner.snapshot(run).await
    }
}
