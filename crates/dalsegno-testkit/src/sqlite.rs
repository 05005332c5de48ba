//! A journal on a disk in a simulated world: each call of it takes no virtual time, and nothing else happens meanwhile.

use std::path::Path;

use async_trait::async_trait;
use dalsegno_core::{Digest, OperationId, RunId, Timestamp};
use dalsegno_store::{
    AcquireError, Allowance, AppendError, Archive, CreateError, Created, EraseError, Erased, GcError,
    GcOptions, GcReport, ImportError, Imported, Lease, Message, NewRecord, NewRun, Owner, PostError,
    ReadError, Record, ReserveError, RunFilter, RunSummary, Snapshot, SnapshotError, SqliteStore,
    StorageError, Store,
};

use crate::error::SimulationError;
use crate::shared::at_once;

/// A journal in a SQLite file.
pub(crate) struct OnDisk(SqliteStore);

impl OnDisk {
    pub(crate) fn open(path: &Path) -> Result<Self, SimulationError> {
        let failed = |error| SimulationError::World(std::io::Error::other(error));
        SqliteStore::open(path).map(Self).map_err(failed)
    }
}

#[async_trait]
impl Store for OnDisk {
    async fn create(&self, run: NewRun) -> Result<Created, CreateError> {
        at_once(self.0.create(run))
    }

    async fn hand_off_with(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
        successor: NewRun,
    ) -> Result<Created, CreateError> {
        at_once(self.0.hand_off_with(lease, records, consumed, successor))
    }

    async fn append_with(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
    ) -> Result<Vec<u64>, AppendError> {
        at_once(self.0.append_with(lease, records, consumed))
    }

    async fn acquire(&self, run: RunId, owner: &Owner) -> Result<Lease, AcquireError> {
        at_once(self.0.acquire(run, owner))
    }

    async fn heirs(&self, run: RunId) -> Result<Vec<RunId>, ReadError> {
        at_once(self.0.heirs(run))
    }

    async fn release(&self, lease: Lease) -> Result<(), AppendError> {
        at_once(self.0.release(lease))
    }

    async fn read(&self, run: RunId, from: u64) -> Result<Vec<Record>, ReadError> {
        at_once(self.0.read(run, from))
    }

    async fn first(&self, run: RunId) -> Result<Record, ReadError> {
        at_once(self.0.first(run))
    }

    async fn summary(&self, run: RunId) -> Result<RunSummary, ReadError> {
        at_once(self.0.summary(run))
    }

    async fn runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, ReadError> {
        at_once(self.0.runs(filter))
    }

    async fn find_runs(&self, prefix: &str) -> Result<Vec<RunId>, ReadError> {
        at_once(self.0.find_runs(prefix))
    }

    async fn takeable(&self, owner: &Owner, now: Timestamp, limit: u32) -> Result<Vec<RunId>, ReadError> {
        at_once(self.0.takeable(owner, now, limit))
    }

    async fn next_wake(&self, after: Timestamp) -> Result<Option<Timestamp>, ReadError> {
        at_once(self.0.next_wake(after))
    }

    async fn erase(&self, run: RunId, operation: Option<OperationId>) -> Result<Erased, EraseError> {
        at_once(self.0.erase(run, operation))
    }

    async fn gc(&self, options: &GcOptions) -> Result<GcReport, GcError> {
        at_once(self.0.gc(options))
    }

    async fn config(&self, digest: Digest) -> Result<String, ReadError> {
        at_once(self.0.config(digest))
    }

    async fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, ReadError> {
        at_once(self.0.blob(digest))
    }

    async fn post(&self, run: RunId, message: Message) -> Result<(), PostError> {
        at_once(self.0.post(run, message))
    }

    async fn inbox(&self, run: RunId) -> Result<Vec<(u64, Message)>, ReadError> {
        at_once(self.0.inbox(run))
    }

    async fn export(&self, runs: &[RunId]) -> Result<Archive, ReadError> {
        at_once(self.0.export(runs))
    }

    async fn import(&self, archive: Archive) -> Result<Imported, ImportError> {
        at_once(self.0.import(archive))
    }

    async fn reserve(&self, allowances: &[Allowance], nano_usd: u64) -> Result<(), ReserveError> {
        at_once(self.0.reserve(allowances, nano_usd))
    }

    async fn settle(&self, allowances: &[Allowance], reserved: u64, spent: u64) -> Result<(), StorageError> {
        at_once(self.0.settle(allowances, reserved, spent))
    }

    async fn spent(&self, account: &str, day: &str) -> Result<u64, ReadError> {
        at_once(self.0.spent(account, day))
    }

    async fn save_snapshot(&self, lease: &Lease, snapshot: Snapshot) -> Result<(), SnapshotError> {
        at_once(self.0.save_snapshot(lease, snapshot))
    }

    async fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, ReadError> {
        at_once(self.0.snapshot(run))
    }
}
