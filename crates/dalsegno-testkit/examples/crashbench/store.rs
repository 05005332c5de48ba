//! A store that kills its process before or after one of its commits.

use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use dalsegno_core::{Digest, RunId, Timestamp};
use dalsegno_store::{
    AcquireError, Allowance, AppendError, Archive, CreateError, Created, ImportError, Imported, Lease,
    Message, NewRecord, NewRun, Owner, PostError, ReadError, Record, ReserveError, RunFilter, RunSummary,
    Snapshot, SnapshotError, SqliteStore, StorageError, Store,
};
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

/// Where a process kills itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Boundary {
    /// Which commit of the process, from 0.
    pub(crate) commit: u32,
    /// After the commit, else before it.
    pub(crate) is_after: bool,
}

/// The real store, which dies at a boundary.
pub(crate) struct DyingStore {
    pub(crate) inner: SqliteStore,
    pub(crate) death: Option<Boundary>,
    pub(crate) commits: AtomicU32,
}

impl DyingStore {
    async fn commit<T>(&self, work: impl Future<Output = T>) -> T {
        let commit = self.commits.fetch_add(1, Ordering::SeqCst);
        self.reach(Boundary { commit, is_after: false });
        let result = work.await;
        self.reach(Boundary { commit, is_after: true });
        result
    }

    fn reach(&self, boundary: Boundary) {
        if self.death == Some(boundary) {
            kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
            loop {
                std::thread::park();
            }
        }
    }
}

#[async_trait]
impl Store for DyingStore {
    async fn create(&self, run: NewRun) -> Result<Created, CreateError> {
        self.commit(self.inner.create(run)).await
    }

    async fn hand_off_with(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
        successor: NewRun,
    ) -> Result<Created, CreateError> {
        self.commit(self.inner.hand_off_with(lease, records, consumed, successor)).await
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

    async fn first(&self, run: RunId) -> Result<Record, ReadError> {
        self.inner.first(run).await
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

    async fn takeable(&self, owner: &Owner, now: Timestamp, limit: u32) -> Result<Vec<RunId>, ReadError> {
        self.inner.takeable(owner, now, limit).await
    }

    async fn next_wake(&self, after: Timestamp) -> Result<Option<Timestamp>, ReadError> {
        self.inner.next_wake(after).await
    }

    async fn config(&self, digest: Digest) -> Result<String, ReadError> {
        self.inner.config(digest).await
    }

    async fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, ReadError> {
        self.inner.blob(digest).await
    }

    async fn post(&self, run: RunId, message: Message) -> Result<(), PostError> {
        self.commit(self.inner.post(run, message)).await
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

    async fn reserve(&self, allowances: &[Allowance], nano_usd: u64) -> Result<(), ReserveError> {
        self.inner.reserve(allowances, nano_usd).await
    }

    async fn settle(&self, allowances: &[Allowance], reserved: u64, spent: u64) -> Result<(), StorageError> {
        self.inner.settle(allowances, reserved, spent).await
    }

    async fn spent(&self, account: &str, day: &str) -> Result<u64, ReadError> {
        self.inner.spent(account, day).await
    }

    async fn save_snapshot(&self, lease: &Lease, snapshot: Snapshot) -> Result<(), SnapshotError> {
        self.commit(self.inner.save_snapshot(lease, snapshot)).await
    }

    async fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, ReadError> {
        self.inner.snapshot(run).await
    }
}
