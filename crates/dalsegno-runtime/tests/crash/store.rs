//! A store that dies, or fails, at one of its commits, and that leaves a receipt for each record that it acknowledged.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use dalsegno_core::{Digest, RunId, Timestamp};
use dalsegno_store::{
    AcquireError, Allowance, AppendError, Archive, Body, CreateError, Created, ImportError, Imported, Lease,
    Message, NewRecord, NewRun, OpenError, Owner, PostError, ReadError, Record, ReserveError, RunFilter,
    RunSummary, Snapshot, SnapshotError, SqliteStore, StorageError, Store,
};
use serde::{Deserialize, Serialize};

/// The file with the receipts, in the folder of the workspace.
pub(crate) const RECEIPTS: &str = "receipts";

/// Longer than an effect is on its way.
const PAUSE: Duration = Duration::from_millis(3);

/// Longer than a signal takes to stop all threads of a process.
const SETTLE: Duration = Duration::from_millis(500);

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
    /// The storage fails, once; the flag says that it did.
    Failure(StorageError, Arc<AtomicBool>),
    /// This process is stopped, until another one lets it continue.
    Stop,
}

impl Trouble {
    /// A failure as the database reports it, here of a file in a folder that does not exist.
    pub(crate) fn failure(flag: &Arc<AtomicBool>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let Err(OpenError::Inaccessible { source, .. }) =
            SqliteStore::open(dir.path().join("missing/dalsegno.db"))
        else {
            panic!("a journal in a folder that does not exist was opened");
        };
        Self::Failure(source, Arc::clone(flag))
    }
}

/// A record that a process was told is in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) run: RunId,
    pub(crate) seq: u64,
    pub(crate) body: Body,
}

/// The receipts of all processes so far. A line that its process did not finish is none.
pub(crate) fn receipts(file: &Path) -> Vec<Receipt> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The real store, with trouble at one boundary.
pub(crate) struct TroubledStore {
    inner: SqliteStore,
    trouble: Trouble,
    boundary: Option<Boundary>,
    commits: AtomicU32,
    receipts: File,
}

impl TroubledStore {
    pub(crate) fn new(
        inner: SqliteStore,
        trouble: Trouble,
        boundary: Option<Boundary>,
        receipts: PathBuf,
    ) -> Self {
        let receipts = OpenOptions::new().create(true).append(true).open(receipts).unwrap();
        Self { inner, trouble, boundary, commits: AtomicU32::new(0), receipts }
    }

    /// Does the commit's own work between its two boundaries. `receipts` says what was acknowledged.
    async fn commit<T, E: From<StorageError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
        receipts: impl FnOnce(&T) -> Vec<Receipt>,
    ) -> Result<T, E> {
        let commit = self.commits.fetch_add(1, Ordering::SeqCst);
        self.reach(Boundary { commit, side: Side::Before }).await?;
        let result = work.await;
        if let Ok(done) = &result {
            let lines = receipts(done).into_iter().map(|receipt| {
                let mut line = serde_json::to_string(&receipt).unwrap();
                line.push('\n');
                line
            });
            // All at once, so that no process leaves half a line.
            (&self.receipts).write_all(lines.collect::<String>().as_bytes()).unwrap();
        }
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
            Trouble::Failure(error, flag) => {
                flag.store(true, Ordering::SeqCst);
                Err(error.clone())
            }
            Trouble::Stop => {
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)
                    .unwrap();
                // The signal may reach another thread first, and this one must not get away meanwhile.
                std::thread::sleep(SETTLE);
                Ok(())
            }
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
        let begun = begun(&run);
        self.commit(self.inner.create(run), |created| match created {
            Created::New(_) => begun,
            Created::Existing(_) => Vec::new(),
        })
        .await
    }

    async fn hand_off_with(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
        successor: NewRun,
    ) -> Result<Created, CreateError> {
        self.commit(self.inner.hand_off_with(lease, records, consumed, successor), |_| Vec::new()).await
    }

    async fn append_with(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
    ) -> Result<Vec<u64>, AppendError> {
        let run = lease.run();
        let bodies: Vec<Body> = records.iter().map(|record| record.body.clone()).collect();
        self.commit(self.inner.append_with(lease, records, consumed), |seqs| {
            seqs.iter().zip(bodies).map(|(seq, body)| Receipt { run, seq: *seq, body }).collect()
        })
        .await
    }

    async fn acquire(&self, run: RunId, owner: &Owner) -> Result<Lease, AcquireError> {
        self.commit(self.inner.acquire(run, owner), |_| Vec::new()).await
    }

    async fn release(&self, lease: Lease) -> Result<(), AppendError> {
        self.commit(self.inner.release(lease), |_| Vec::new()).await
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
        self.commit(self.inner.post(run, message), |()| Vec::new()).await
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
        self.commit(self.inner.save_snapshot(lease, snapshot), |_| Vec::new()).await
    }

    async fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, ReadError> {
        self.inner.snapshot(run).await
    }
}

/// The first records of a run.
fn begun(run: &NewRun) -> Vec<Receipt> {
    let first = (0..).zip(&run.records);
    first.map(|(seq, record)| Receipt { run: run.run, seq, body: record.body.clone() }).collect()
}
