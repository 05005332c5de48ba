//! What every store can do.

use async_trait::async_trait;
use segno_core::{Digest, RunId};

use crate::error::{AcquireError, AppendError, CreateError, ReadError, SnapshotError};
use crate::lease::Lease;
use crate::owner::Owner;
use crate::record::{NewRecord, Record};
use crate::run::{Created, NewRun, RunFilter, RunSummary, Snapshot};

/// A journal of many runs.
///
/// Readers need no [`Owner`]; what else they need is told where a store is opened.
///
/// A future that is dropped half-way may or may not have done its work. After a dropped append the lease's next one is
/// refused with [`AppendError::SeqMismatch`] if the records were written; acquire and read the run again.
#[async_trait]
pub trait Store: Send + Sync {
    /// Creates a run with its first records, in one commit.
    ///
    /// The same start again (the tenant's key, or the run's id, with the same agent and request) creates nothing and
    /// names the run that exists.
    ///
    /// # Errors
    /// When the key or the id belongs to another start, or the storage fails.
    async fn create(&self, run: NewRun) -> Result<Created, CreateError>;

    /// Appends records and returns their sequence numbers. When it returns they are on the disk.
    ///
    /// # Errors
    /// When the lease is stale or the storage fails. Then none of the records is in the journal, but see
    /// [`AppendError::Storage`].
    async fn append(&self, lease: &mut Lease, records: Vec<NewRecord>) -> Result<Vec<u64>, AppendError>;

    /// Takes a run that nobody owns, or whose owner is gone. The epoch goes up, so every older lease is fenced.
    ///
    /// Before that the run's entry is verified, as by a [`read`](Self::read) of no records.
    ///
    /// # Errors
    /// When the run does not exist, its owner lives, its entry or the records that prove it are damaged or of a newer
    /// release, or the storage fails.
    async fn acquire(&self, run: RunId, owner: &Owner) -> Result<Lease, AcquireError>;

    /// Gives a run back, so that anybody may acquire it.
    ///
    /// # Errors
    /// When the lease is stale or the storage fails.
    async fn release(&self, lease: Lease) -> Result<(), AppendError>;

    /// Reads a run's records from `from` on, and verifies them: checksums, the chain (from the stored link before
    /// `from`), and that the last one is the run's last.
    ///
    /// It always verifies the run's entry too: agent, tenant, session, configuration, key and times against the first
    /// record and the last, status and waking time against the last ones. So a later `from` costs what is read from
    /// there and those few records, and only a read from 0 takes account of an end that other records than late ones
    /// follow. The digest of what the run was asked, its owner and its epoch are in no record; they decide who may
    /// start and write, never what a run is.
    ///
    /// # Errors
    /// When the run does not exist, a record or the entry is damaged, a record is of a newer release, or the storage
    /// fails.
    async fn read(&self, run: RunId, from: u64) -> Result<Vec<Record>, ReadError>;

    /// Returns a run's line in the listing. It is cheap: the run's entry as it is stored, which is not compared with
    /// the records. Whoever acts on it acquires or reads the run as well.
    ///
    /// # Errors
    /// When the run does not exist, a field of its entry has the wrong form, or the storage fails.
    async fn summary(&self, run: RunId) -> Result<RunSummary, ReadError>;

    /// Lists runs, the newest first, each as [`summary`](Self::summary) does.
    ///
    /// # Errors
    /// When a field of an entry has the wrong form, or the storage fails.
    async fn runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, ReadError>;

    /// Finds the runs whose ids begin with these hexadecimal digits: at most 16, in the order of their ids.
    ///
    /// # Errors
    /// When the storage fails.
    async fn find_runs(&self, prefix: &str) -> Result<Vec<RunId>, ReadError>;

    /// Returns a configuration as the JSON that was stored under this digest.
    ///
    /// # Errors
    /// When there is none, it is damaged, or the storage fails.
    async fn config(&self, digest: Digest) -> Result<String, ReadError>;

    /// Saves a run's snapshot in place of the one before.
    ///
    /// # Errors
    /// When the lease is stale or the storage fails.
    async fn save_snapshot(&self, lease: &Lease, snapshot: Snapshot) -> Result<(), SnapshotError>;

    /// Returns a run's latest snapshot. One that does not verify or decode is ignored, with a warning: it is a cache.
    ///
    /// # Errors
    /// When the storage fails.
    async fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, ReadError>;
}
