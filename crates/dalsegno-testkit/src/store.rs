//! The store, as one process sees it: slow, failing, and the place where it dies.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dalsegno_core::{Digest, OperationId, RunId, Timestamp};
use dalsegno_runtime::Clock as _;
use dalsegno_store::{
    AcquireError, Allowance, AppendError, Archive, CreateError, Created, EraseError, Erased, GcError,
    GcOptions, GcReport, ImportError, Imported, Lease, Message, NewRecord, NewRun, Owner, PostError,
    ReadError, Record, ReserveError, RunFilter, RunSummary, Snapshot, SnapshotError, StorageError,
    StorageKind, Store,
};

use crate::process::Process;
use crate::world::World;

/// The kinds of trouble that a disk has and that pass.
const TROUBLE: [StorageKind; 3] = [StorageKind::Busy, StorageKind::Full, StorageKind::Io];

/// One process's way to the store that all share.
pub(crate) struct SimulatedStore {
    inner: Arc<dyn Store>,
    world: Arc<World>,
    process: Arc<Process>,
    /// Leases whose last write was made and not acknowledged: they do not know where the journal ends.
    lost: Mutex<BTreeSet<(RunId, u64)>>,
}

/// What is to become of a write.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Made,
    Failed,
    Unacknowledged,
    DiesBefore,
    DiesAfter,
}

impl SimulatedStore {
    pub(crate) fn new(inner: Arc<dyn Store>, world: Arc<World>, process: Arc<Process>) -> Self {
        Self { inner, world, process, lost: Mutex::default() }
    }

    async fn pause(&self) {
        if self.process.outside {
            return;
        }
        let slow = self.world.faults().store_slow;
        let pause = {
            let mut random = self.process.random();
            if random.chance(slow) {
                self.world.count("fault", "store_slow");
                random.millis(20, 500)
            } else if random.chance(300) {
                random.millis(1, 5)
            } else {
                Duration::ZERO
            }
        };
        if pause.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(pause).await;
        }
        self.process.breathe().await;
    }

    async fn read<E: From<StorageError>>(&self, what: &str) -> Result<(), E> {
        self.process.breathe().await;
        if self.process.outside {
            return Ok(());
        }
        let fails = self.world.faults().read_fails;
        let fails = self.process.random().chance(fails);
        self.pause().await;
        if fails {
            self.world.count("fault", "read_fails");
            return Err(self.trouble(&format!("cannot read: {what}")).into());
        }
        Ok(())
    }

    /// Decides what becomes of a write; what happens before it happens here.
    async fn before<E: From<StorageError>>(&self, what: &str) -> Result<Fate, E> {
        self.process.breathe().await;
        let faults = self.world.faults();
        let dies = self.process.dies_now();
        let fate = {
            let mut random = self.process.random();
            if dies && random.chance(500) {
                Fate::DiesBefore
            } else if dies {
                Fate::DiesAfter
            } else if random.chance(faults.write_fails) || self.world.disk_is_blocked() {
                Fate::Failed
            } else if random.chance(faults.write_unacknowledged) {
                Fate::Unacknowledged
            } else {
                Fate::Made
            }
        };
        self.pause().await;
        match fate {
            Fate::DiesBefore => self.die(&format!("before {what}")).await,
            Fate::Failed => {
                self.world.count("fault", "write_fails");
                return Err(self.trouble(&format!("cannot write: {what}")).into());
            }
            Fate::Made | Fate::Unacknowledged | Fate::DiesAfter => {}
        }
        // It was taken from its owner meanwhile, and a write would be too late.
        Ok(fate)
    }

    /// What happens between a write and the word of it.
    async fn after<E: From<StorageError>>(&self, what: &str, fate: Fate) -> Result<(), E> {
        if fate == Fate::DiesAfter {
            self.die(&format!("after {what}")).await;
        }
        self.pause().await;
        if fate == Fate::Unacknowledged {
            self.world.count("fault", "write_unacknowledged");
            return Err(self.trouble(&format!("is not told of its write: {what}")).into());
        }
        Ok(())
    }

    /// Trouble with the disk, of some kind.
    fn trouble(&self, what: &str) -> StorageError {
        self.process.hurt();
        let kind = self.process.random().pick(&TROUBLE);
        self.world.note(&format!("p{} {what} ({kind:?})", self.process.number));
        StorageError::of_kind(kind)
    }

    async fn die(&self, when: &str) {
        self.world.note(&format!("p{} dies {when}", self.process.number));
        self.world.count("fault", "dies_at_write");
        self.process.kill();
        self.process.breathe().await;
    }

    /// The lock that the process has, or the trouble that it has none.
    fn owner(&self) -> Result<Owner, StorageError> {
        self.process.owner().ok_or_else(|| StorageError::of_kind(StorageKind::Io))
    }

    fn lost(&self) -> MutexGuard<'_, BTreeSet<(RunId, u64)>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lease that does not know where the journal ends is refused.
    fn check(&self, lease: &Lease) -> Result<(), AppendError> {
        let (run, found) = (lease.run(), lease.next_seq());
        if self.lost().contains(&(run, lease.epoch())) {
            return Err(AppendError::SeqMismatch { run, expected: found.saturating_sub(1), found });
        }
        Ok(())
    }

    fn refused(&self, error: &AppendError) {
        if let AppendError::Fenced { run, .. } = error {
            self.world.judge(|guarantees| guarantees.fenced(&self.process, *run));
        } else if let AppendError::UnknownMessage { run, .. } | AppendError::SeqMismatch { run, .. } = error {
            let error = error.to_string();
            self.world.judge(|guarantees| {
                let name = guarantees.name(*run);
                guarantees.broken(format!("{name}: {error}"));
            });
        }
    }
}

#[async_trait]
impl Store for SimulatedStore {
    async fn create(&self, mut run: NewRun) -> Result<Created, CreateError> {
        let fate = self.before::<CreateError>("a new run").await?;
        run.owner = self.owner()?.id();
        let (id, records) = (run.run, run.records.clone());
        let created = self.inner.create(run).await?;
        if let Created::New(lease) = &created {
            let epoch = lease.epoch();
            self.world.judge(|guarantees| guarantees.created(&self.process, id, epoch, &records));
        }
        self.after::<CreateError>("a new run", fate).await?;
        Ok(created)
    }

    async fn hand_off_with(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
        mut successor: NewRun,
    ) -> Result<Created, CreateError> {
        let fate = self.before::<CreateError>("a handoff").await?;
        self.check(lease)?;
        successor.owner = self.owner()?.id();
        let (run, epoch, first) = (lease.run(), lease.epoch(), lease.next_seq());
        // Whoever wants this run to end means the one that goes on.
        let inbox = self.inner.inbox(run).await.unwrap_or_default();
        let waits = |(number, message): &(u64, Message)| {
            matches!(message, Message::Cancel { .. }) && !consumed.contains(number)
        };
        let cancelled = inbox.iter().any(waits);
        let (next, ours, theirs) = (successor.run, records.clone(), successor.records.clone());
        let created = match self.inner.hand_off_with(lease, records, consumed, successor).await {
            Ok(created) => created,
            Err(error) => {
                if let CreateError::Append(error) = &error {
                    self.refused(error);
                }
                return Err(error);
            }
        };
        self.world.judge(|guarantees| {
            guarantees.written(&self.process, run, epoch, first, &ours);
            if let Created::New(lease) = &created {
                guarantees.created(&self.process, next, lease.epoch(), &theirs);
                if cancelled {
                    guarantees.cancel_wanted(next);
                }
            }
        });
        if let Err(error) = self.after::<CreateError>("a handoff", fate).await {
            self.lost().insert((run, epoch));
            return Err(error);
        }
        Ok(created)
    }

    async fn append_with(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
    ) -> Result<Vec<u64>, AppendError> {
        let run = lease.run();
        self.world.judge(|guarantees| guarantees.writing(run, lease.epoch(), lease.next_seq()));
        let what = format!("{} records", records.len());
        let fate = self.before::<AppendError>(&what).await?;
        self.check(lease)?;
        let mut messages = Vec::new();
        if !consumed.is_empty() {
            let inbox = self.inner.inbox(run).await.unwrap_or_default();
            messages.extend(
                inbox.into_iter().filter(|(number, _)| consumed.contains(number)).map(|(_, message)| message),
            );
        }
        let (epoch, first, copies) = (lease.epoch(), lease.next_seq(), records.clone());
        let result = self.inner.append_with(lease, records, consumed).await;
        match &result {
            Ok(_) => self.world.judge(|guarantees| {
                guarantees.written(&self.process, run, epoch, first, &copies);
                guarantees.consumed(run, &messages, copies.len());
            }),
            Err(error) => self.refused(error),
        }
        let result = result?;
        if let Err(error) = self.after::<AppendError>(&what, fate).await {
            self.lost().insert((run, epoch));
            return Err(error);
        }
        Ok(result)
    }

    async fn acquire(&self, run: RunId, _owner: &Owner) -> Result<Lease, AcquireError> {
        let fate = self.before::<AcquireError>("an acquisition").await?;
        // A copy of the lock that outlived its process would keep the run from everybody else.
        let acquired = {
            let owner = self.owner()?;
            self.inner.acquire(run, &owner).await
        };
        let lease = match acquired {
            Ok(lease) => lease,
            Err(error) => {
                if matches!(error, AcquireError::Owned { .. }) {
                    self.world.judge(|guarantees| guarantees.refused(&self.process, run));
                }
                return Err(error);
            }
        };
        self.world.judge(|guarantees| guarantees.acquired(&self.process, run, lease.epoch()));
        self.after::<AcquireError>("an acquisition", fate).await?;
        Ok(lease)
    }

    async fn release(&self, lease: Lease) -> Result<(), AppendError> {
        let run = lease.run();
        let fate = match self.before::<AppendError>("a release").await {
            Ok(fate) => fate,
            Err(error) => {
                self.world.judge(|guarantees| guarantees.left(&self.process, run));
                return Err(error);
            }
        };
        match self.inner.release(lease).await {
            Ok(()) => self.world.judge(|guarantees| guarantees.released(&self.process, run)),
            Err(error) => {
                self.refused(&error);
                return Err(error);
            }
        }
        self.after::<AppendError>("a release", fate).await
    }

    async fn read(&self, run: RunId, from: u64) -> Result<Vec<Record>, ReadError> {
        self.read::<ReadError>("records").await?;
        self.inner.read(run, from).await
    }

    async fn first(&self, run: RunId) -> Result<Record, ReadError> {
        self.read::<ReadError>("first").await?;
        self.inner.first(run).await
    }

    async fn summary(&self, run: RunId) -> Result<RunSummary, ReadError> {
        self.read::<ReadError>("a run's entry").await?;
        self.inner.summary(run).await
    }

    async fn runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, ReadError> {
        self.read::<ReadError>("the listing").await?;
        self.inner.runs(filter).await
    }

    async fn find_runs(&self, prefix: &str) -> Result<Vec<RunId>, ReadError> {
        self.read::<ReadError>("the listing").await?;
        self.inner.find_runs(prefix).await
    }

    async fn takeable(&self, _owner: &Owner, now: Timestamp, limit: u32) -> Result<Vec<RunId>, ReadError> {
        self.read::<ReadError>("the runs that wait").await?;
        let owner = self.owner()?;
        self.inner.takeable(&owner, now, limit).await
    }

    async fn next_wake(&self, after: Timestamp) -> Result<Option<Timestamp>, ReadError> {
        self.read::<ReadError>("the next time").await?;
        self.inner.next_wake(after).await
    }

    async fn erase(&self, run: RunId, operation: Option<OperationId>) -> Result<Erased, EraseError> {
        self.inner.erase(run, operation).await
    }

    async fn gc(&self, options: &GcOptions) -> Result<GcReport, GcError> {
        self.inner.gc(options).await
    }

    async fn config(&self, digest: Digest) -> Result<String, ReadError> {
        self.read::<ReadError>("a configuration").await?;
        self.inner.config(digest).await
    }

    async fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, ReadError> {
        self.read::<ReadError>("a file").await?;
        self.inner.blob(digest).await
    }

    async fn post(&self, run: RunId, message: Message) -> Result<(), PostError> {
        let fate = self.before::<PostError>("a message").await?;
        self.inner.post(run, message).await?;
        self.after::<PostError>("a message", fate).await
    }

    async fn inbox(&self, run: RunId) -> Result<Vec<(u64, Message)>, ReadError> {
        self.process.breathe().await;
        self.pause().await;
        let messages = self.inner.inbox(run).await?;
        let numbers: Vec<u64> = messages.iter().map(|(number, _)| *number).collect();
        self.world.judge(|guarantees| guarantees.read(&self.process, run, &numbers));
        Ok(messages)
    }

    async fn export(&self, runs: &[RunId]) -> Result<Archive, ReadError> {
        self.inner.export(runs).await
    }

    async fn import(&self, archive: Archive) -> Result<Imported, ImportError> {
        self.inner.import(archive).await
    }

    async fn reserve(&self, allowances: &[Allowance], nano_usd: u64) -> Result<(), ReserveError> {
        // Whose day it is was decided a moment ago.
        let shown = self.world.clock.now().as_millis();
        self.world.judge(|guarantees| guarantees.reserves(allowances, shown));
        let fate = self.before::<ReserveError>("what is set aside").await?;
        let reserved = self.inner.reserve(allowances, nano_usd).await;
        self.world.judge(|guarantees| match &reserved {
            Ok(()) => guarantees.reserved(&self.process, allowances, nano_usd, fate == Fate::Made),
            Err(ReserveError::Exhausted { index, .. }) => {
                guarantees.has_no_room(allowances, *index, nano_usd);
            }
            Err(_) => {}
        });
        reserved?;
        self.after::<ReserveError>("what is set aside", fate).await
    }

    async fn settle(&self, allowances: &[Allowance], reserved: u64, spent: u64) -> Result<(), StorageError> {
        let fate = self.before::<StorageError>("what was spent").await?;
        self.inner.settle(allowances, reserved, spent).await?;
        self.world.judge(|guarantees| guarantees.settled(allowances, reserved, spent));
        self.after::<StorageError>("what was spent", fate).await
    }

    async fn spent(&self, account: &str, day: &str) -> Result<u64, ReadError> {
        self.inner.spent(account, day).await
    }

    async fn save_snapshot(&self, lease: &Lease, snapshot: Snapshot) -> Result<(), SnapshotError> {
        let fate = self.before::<SnapshotError>("a snapshot").await?;
        self.inner.save_snapshot(lease, snapshot).await?;
        self.after::<SnapshotError>("a snapshot", fate).await
    }

    async fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, ReadError> {
        self.read::<ReadError>("a snapshot").await?;
        self.inner.snapshot(run).await
    }
}
