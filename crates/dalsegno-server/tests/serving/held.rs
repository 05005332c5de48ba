//! A journal that can be held: what reads a run waits until it is let go.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use dalsegno_core::{Digest, RunId, Timestamp};
use dalsegno_store::{
    AcquireError, AppendError, Archive, Change, CreateError, Created, ImportError, Imported, Lease, Message,
    NewRecord, NewRun, Owner, Page, PostError, ReadError, Record, RunFilter, RunSummary, Snapshot,
    SnapshotError, SqliteStore, StorageError, Store,
};
use tokio::sync::watch;

/// The runs that are held, and how many reads of them there are.
#[derive(Clone, Default)]
pub(crate) struct Hold {
    runs: Arc<Mutex<BTreeSet<RunId>>>,
    is_free: Arc<watch::Sender<bool>>,
    reading: Arc<watch::Sender<usize>>,
}

impl Hold {
    /// Holds all reads of this run from here on.
    pub(crate) fn hold(&self, run: &str) {
        self.runs.lock().unwrap().insert(run.parse().unwrap());
    }

    /// Lets go of all that is held.
    pub(crate) fn free(&self) {
        self.is_free.send_replace(true);
    }

    /// Returns when so many reads are held.
    pub(crate) async fn reads(&self, number: usize) {
        self.reading.subscribe().wait_for(|reading| *reading == number).await.unwrap();
    }

    async fn pass(&self, run: RunId) {
        if !self.runs.lock().unwrap().contains(&run) {
            return;
        }
        let _reading = Reading::of(&self.reading);
        self.is_free.subscribe().wait_for(|is_free| *is_free).await.unwrap();
    }
}

/// What a test has of it. When the test ends, also by a failure, all is let go: a runtime ends only when what it computes has.
#[derive(Default)]
pub(crate) struct Holder(Hold);

impl Deref for Holder {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.0
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.free();
    }
}

/// A read that is held: given up, it is none any more.
struct Reading(Arc<watch::Sender<usize>>);

impl Reading {
    fn of(reading: &Arc<watch::Sender<usize>>) -> Self {
        reading.send_modify(|number| *number += 1);
        Self(Arc::clone(reading))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.send_modify(|number| *number -= 1);
    }
}

pub(crate) struct HeldStore {
    pub(crate) inner: SqliteStore,
    pub(crate) hold: Hold,
}

#[async_trait]
impl Store for HeldStore {
    async fn create(&self, run: NewRun) -> Result<Created, CreateError> {
        self.inner.create(run).await
    }

    async fn hand_off_with(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
        successor: NewRun,
    ) -> Result<Created, CreateError> {
        self.inner.hand_off_with(lease, records, consumed, successor).await
    }

    async fn append_with(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
    ) -> Result<Vec<u64>, AppendError> {
        self.inner.append_with(lease, records, consumed).await
    }

    async fn acquire(&self, run: RunId, owner: &Owner) -> Result<Lease, AcquireError> {
        self.inner.acquire(run, owner).await
    }

    async fn release(&self, lease: Lease) -> Result<(), AppendError> {
        self.inner.release(lease).await
    }

    async fn read(&self, run: RunId, from: u64) -> Result<Vec<Record>, ReadError> {
        self.hold.pass(run).await;
        self.inner.read(run, from).await
    }

    async fn page(&self, run: RunId, from: u64, most: usize) -> Result<Page, ReadError> {
        self.hold.pass(run).await;
        self.inner.page(run, from, most).await
    }

    async fn version(&self) -> Result<u64, ReadError> {
        self.inner.version().await
    }

    async fn probe(&self) -> Result<(), StorageError> {
        self.inner.probe().await
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

    async fn changed(&self, after: u64, limit: u32) -> Result<Vec<Change>, ReadError> {
        self.inner.changed(after, limit).await
    }

    async fn last_change(&self) -> Result<u64, ReadError> {
        self.inner.last_change().await
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
        self.inner.save_snapshot(lease, snapshot).await
    }

    async fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, ReadError> {
        self.inner.snapshot(run).await
    }
}
