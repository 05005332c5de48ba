//! What every store can do.

use async_trait::async_trait;
use dalsegno_core::{Digest, OperationId, RunId, Timestamp};

use crate::archive::{Archive, ImportError, Imported};
use crate::erase::{EraseError, Erased};
use crate::error::{AcquireError, AppendError, CreateError, Damage, ReadError, SnapshotError, StorageError};
use crate::gc::{GcError, GcOptions, GcReport};
use crate::inbox::{Message, PostError};
use crate::lease::Lease;
use crate::owner::Owner;
use crate::page::Page;
use crate::record::{NewRecord, Record};
use crate::run::{Change, Created, NewRun, Recent, RunFilter, RunSummary, Snapshot};
use crate::spending::{Allowance, ReserveError};

/// A journal of many runs.
///
/// Readers need no [`Owner`]; what else they need is told where a store is opened.
///
/// A future that is dropped half-way may or may not have done its work. After a dropped append the lease's next one is
/// refused with [`AppendError::SeqMismatch`] if the records were written; acquire and read the run again.
#[async_trait]
pub trait Store: Send + Sync {
    /// Creates a run with its first records and its files, in one commit.
    ///
    /// The same start again (the tenant's key, or the run's id, with the same agent and request) creates nothing and
    /// names the run that exists.
    ///
    /// # Errors
    /// When the key or the id belongs to another start, a root run of the same tenant and session has not ended, a
    /// file is not what its digest says, or the storage fails.
    async fn create(&self, run: NewRun) -> Result<Created, CreateError>;

    /// Ends a run with a handover and creates the run that goes on, in one commit: both or neither.
    ///
    /// # Errors
    /// As for [`hand_off_with`](Self::hand_off_with).
    async fn hand_off(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        successor: NewRun,
    ) -> Result<Created, CreateError> {
        self.hand_off_with(lease, records, Vec::new(), successor).await
    }

    /// Ends a run with a handover and creates the run that goes on, as [`hand_off`](Self::hand_off) does; takes these
    /// messages out of the run's inbox, and moves all others to the successor's. All that is one commit.
    ///
    /// The last of the records is `handed_off` to the successor, which has the run's tenant, session and parent, and
    /// names it as its predecessor. If the same successor exists already, no run is created.
    ///
    /// Whatever was posted before the commit is moved, whether the owner has seen it or not, and keeps its order behind
    /// what the successor has already; it gets new numbers. Whoever posts later learns that the run has ended. A
    /// damaged message is lost with the inbox of the run that ends, and so are all of them when the successor exists and
    /// has ended.
    ///
    /// # Errors
    /// When the lease is stale or one of the messages is not in the inbox ([`CreateError::Append`]), the successor does
    /// not fit or cannot be created, or the storage fails.
    async fn hand_off_with(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
        successor: NewRun,
    ) -> Result<Created, CreateError>;

    /// Appends records and returns their sequence numbers. When it returns they are on the disk.
    ///
    /// # Errors
    /// When the lease is stale, a file of a record is not what its digest says or is neither given nor in the store, or
    /// the storage fails. Then none of the records is in the journal, but see [`AppendError::Storage`].
    async fn append(&self, lease: &mut Lease, records: Vec<NewRecord>) -> Result<Vec<u64>, AppendError> {
        self.append_with(lease, records, Vec::new()).await
    }

    /// Appends records, as [`append`](Self::append) does, and takes these messages out of the run's inbox in the same
    /// commit. So a message is journaled once, whatever happens in between.
    ///
    /// When the run ends with these records, each child run of it that has not ended gets a message to end as well
    /// ([`Message::parent_ended`]), in the same commit and however many messages wait for it.
    ///
    /// # Errors
    /// As for an append, and when one of the messages is not in the inbox.
    async fn append_with(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
    ) -> Result<Vec<u64>, AppendError>;

    /// Takes a run that nobody owns, or whose owner is gone. The epoch goes up, so every older lease is fenced.
    ///
    /// Before that the run's entry is verified, as by a [`read`](Self::read) of no records.
    ///
    /// # Errors
    /// When the run does not exist, is foreign, its owner lives, its entry or the records that prove it are damaged or of a newer
    /// release, or the storage fails.
    async fn acquire(&self, run: RunId, owner: &Owner) -> Result<Lease, AcquireError>;

    /// Takes a run as [`acquire`](Self::acquire) does, without a look at its entry or its records: to abandon it.
    ///
    /// # Errors
    /// When the run does not exist, is foreign, its owner lives, or the storage fails.
    async fn seize(&self, _run: RunId, _owner: &Owner) -> Result<Lease, AcquireError> {
        Err(StorageError::unsupported().into())
    }

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

    /// Reads at most `most` records from `from` on, fewer where they are long ([`Page::BYTES`]), up to the first that cannot be
    /// read, and verifies them: checksums, and the chain from the stored link before `from`. The last page of a run verifies
    /// that its last record is the run's last. What the run's entry repeats of its records is not compared.
    ///
    /// By default it is a [`read`](Self::read) of all records or none.
    ///
    /// # Errors
    /// When the run does not exist, its entry has the wrong form, or the storage fails.
    async fn page(&self, run: RunId, from: u64, most: usize) -> Result<Page, ReadError> {
        Page::of(self.read(run, from).await, most)
    }

    /// Returns the number of records of each of these runs that is there, in the order in which they are named. It is cheap:
    /// nothing is verified.
    ///
    /// # Errors
    /// When the storage fails.
    async fn heads(&self, runs: &[RunId]) -> Result<Vec<(RunId, u64)>, ReadError> {
        let mut heads = Vec::with_capacity(runs.len());
        for run in runs {
            match self.summary(*run).await {
                Ok(summary) => heads.push((*run, summary.records)),
                Err(ReadError::UnknownRun { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(heads)
    }

    /// Says whether content of a run was erased: of all of it, or of an operation. What was read before must not be shown then.
    ///
    /// # Errors
    /// When there is no such run, or the storage fails.
    async fn has_erased(&self, run: RunId) -> Result<bool, ReadError> {
        match self.read(run, 0).await {
            Err(ReadError::Erased { .. }) => Ok(true),
            read => read.map(|_| false),
        }
    }

    /// Returns a number that is another one whenever this process or another has changed the journal since it was asked
    /// for. It may change without that, too. It is cheap, and waits for no other process.
    ///
    /// # Errors
    /// When the storage fails, or cannot tell.
    async fn version(&self) -> Result<u64, ReadError> {
        Err(StorageError::unsupported().into())
    }

    /// Writes something that changes nothing, to learn whether the journal can be written: on the disk, as an append is.
    ///
    /// # Errors
    /// When the storage fails, such as a full or read-only disk. By default always: a store may lack it.
    async fn probe(&self) -> Result<(), StorageError> {
        Err(StorageError::unsupported())
    }

    /// Reads a run's first record, `started`, and verifies it and the run's entry. It is cheap, however long the run is.
    ///
    /// # Errors
    /// As for a [`read`](Self::read) of no records.
    async fn first(&self, run: RunId) -> Result<Record, ReadError>;

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

    /// Lists the runs whose status has changed after the change with this number, in the order of their latest changes: at most
    /// `limit`. Of several changes of one run, only the latest is there. Each run is found as [`summary`](Self::summary) shows
    /// it. A run's status also counts as changed when it begins, when it enters with an archive, and when it waits for
    /// something else.
    ///
    /// Changes that a commit makes have higher numbers than those of every commit before it, so that who asks again with the
    /// last number that it has misses none.
    ///
    /// # Errors
    /// When a field of an entry has the wrong form, or the storage fails. By default always: a store may lack it.
    async fn changed(&self, _after: u64, _limit: u32) -> Result<Vec<Change>, ReadError> {
        Err(StorageError::unsupported().into())
    }

    /// Returns the number of the latest change of a status; 0 where there was none. It is cheap.
    ///
    /// # Errors
    /// As for [`changed`](Self::changed).
    async fn last_change(&self) -> Result<u64, ReadError> {
        Err(StorageError::unsupported().into())
    }

    /// Finds the runs whose ids begin with these hexadecimal digits: at most 16, in the order of their ids.
    ///
    /// # Errors
    /// When the storage fails.
    async fn find_runs(&self, prefix: &str) -> Result<Vec<RunId>, ReadError>;

    /// Finds runs that nobody living owns and that can go on, at most so many. Children are among them, foreign runs are
    /// not.
    ///
    /// There are four causes: a running one was given back, the owner of one died that had not released it, the time of a
    /// suspended one has come, or messages that can be read wait for a suspended one. Of each cause at least a quarter of `limit`
    /// (rounded down) is found if there are as many; what one does not use is left to the others. They are dealt in
    /// turn, and each call on a store begins with the next cause, so a limit below four hides none for ever either.
    ///
    /// Within a cause those come first that were created first, or are due longest; those of one dead owner come
    /// together. A run that is found and not taken is found again, and keeps its place: whoever leaves some alone
    /// adds four times their number to what it has room for, and then they hide no other run.
    ///
    /// Nothing is looked at but such runs, suspended ones that are due or have messages and are owned or cannot read
    /// them, and the list of owners, however many runs there are besides. Whoever wants one acquires it; another may
    /// have been faster.
    ///
    /// # Errors
    /// When the storage fails.
    async fn takeable(&self, owner: &Owner, now: Timestamp, limit: u32) -> Result<Vec<RunId>, ReadError>;

    /// Returns the first time after this one at which a suspended run wakes by itself; none if none does. Those whose
    /// time has come by then are [`takeable`](Self::takeable), unless somebody living owns them.
    ///
    /// # Errors
    /// When the storage fails.
    async fn next_wake(&self, after: Timestamp) -> Result<Option<Timestamp>, ReadError>;

    /// Erases the content of an ended or foreign run, or of one operation of it and those below it: what it was asked, outcomes,
    /// answers, responses, files that no other run uses, the snapshot. When it returns, the bytes are gone.
    ///
    /// The records stay with their checksums and links, and the chain verifies. Whoever reads one of them gets
    /// [`ReadError::Erased`]; such a run cannot be replayed or exported. Its line in the listing stays, with its
    /// tenant, session and start key. It may take as
    /// long as reading the whole journal; others who write wait for some milliseconds at a time.
    ///
    /// # Errors
    /// When the run goes on or does not exist, there is no such operation, a reader keeps the bytes in the log, or the
    /// storage fails. Erasing again does what is left.
    async fn erase(&self, _run: RunId, _operation: Option<OperationId>) -> Result<Erased, EraseError> {
        Err(StorageError::unsupported().into())
    }

    /// The runs that hold content of this one as well, in the order in which they were created: those that took it over from
    /// the run before them, and forks, which share its records; with those that go on from these. Content that was erased is
    /// held by none. It reads the first record of each run.
    ///
    /// # Errors
    /// When the run does not exist, something that says which run goes on from which cannot be read, or the storage fails.
    async fn heirs(&self, _run: RunId) -> Result<Vec<RunId>, ReadError> {
        Err(StorageError::unsupported().into())
    }

    /// Deletes runs that ended long ago, and then files and configurations that nothing uses any more.
    ///
    /// A run stays as long as another one that stays may need it: the runs of a session go together, and a fork keeps
    /// the session that it was taken from. Writers wait for some milliseconds at most. Killed half-way it leaves whole
    /// runs, and the next one goes on.
    ///
    /// # Errors
    /// When what needs what cannot be read, or the storage fails.
    async fn gc(&self, _options: &GcOptions) -> Result<GcReport, GcError> {
        Err(StorageError::unsupported().into())
    }

    /// Returns a configuration as the JSON that was stored under this digest.
    ///
    /// # Errors
    /// When there is none, it is damaged, or the storage fails.
    async fn config(&self, digest: Digest) -> Result<String, ReadError>;

    /// Returns the file with this digest, verified; none if there is no such file.
    ///
    /// # Errors
    /// When it is damaged, or the storage fails.
    async fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, ReadError>;

    /// Leaves a message for whoever owns the run. Anybody may, from any process.
    ///
    /// # Errors
    /// When there is no such run, it has ended or is foreign, too many messages wait or this one is too long, or the storage fails.
    async fn post(&self, run: RunId, message: Message) -> Result<(), PostError>;

    /// Returns the messages that wait for the run's owner, in the order in which they were posted. Their numbers go
    /// up, and none is given twice. It is cheap, since an owner asks often. A run that ends loses what still waits,
    /// unless another one [goes on](Self::hand_off_with).
    ///
    /// A message that is damaged or of a newer release stays where it is and is left out, with a warning: it must not
    /// keep the others from their reader. An examination finds it.
    ///
    /// # Errors
    /// When the run does not exist, or the storage fails.
    async fn inbox(&self, run: RunId) -> Result<Vec<(u64, Message)>, ReadError>;

    /// Takes a copy of these runs, with their configurations and files, all as of one moment and verified as by a
    /// [`read`](Self::read) from 0. A file that was erased is left out.
    ///
    /// # Errors
    /// When a run does not exist, or one of them or what belongs to it cannot be read.
    async fn export(&self, runs: &[RunId]) -> Result<Archive, ReadError>;

    /// Takes a copy of runs like [`export`](Self::export), each as far as its records verify. Returns the copy and what is
    /// damaged.
    ///
    /// # Errors
    /// When a run does not exist, not even its first record verifies, or something else than a record cannot be read. By default
    /// always: a store may lack it.
    async fn export_intact(&self, _runs: &[RunId]) -> Result<(Archive, Vec<Damage>), ReadError> {
        Err(StorageError::unsupported().into())
    }

    /// Adds the runs of an archive, in one commit: all or none. Everything is verified before anything is written.
    ///
    /// The added runs are foreign: nobody can acquire one, no message reaches one, no worker finds one, and none takes a
    /// start key or a place in a session. A run that is here already with the same last record is left alone.
    ///
    /// # Errors
    /// When something in the archive is damaged or forged, a run is here with other records, a run names one of this
    /// journal's own as its parent or as a run of another tenant or session, or the storage fails.
    async fn import(&self, archive: Archive) -> Result<Imported, ImportError>;

    /// Sets aside what a call may cost, of all these allowances or of none, in one commit: however many reserve at the same
    /// time, the sum of what is reserved and spent never exceeds an allowance.
    ///
    /// What was reserved stays so until it is [settled](Self::settle). A process that dies in between may have made the
    /// call, so it counts.
    ///
    /// # Errors
    /// When an allowance has no room, or the storage fails.
    async fn reserve(&self, _allowances: &[Allowance], _nano_usd: u64) -> Result<(), ReserveError> {
        Err(StorageError::unsupported().into())
    }

    /// Replaces what was reserved for a call by what it cost, which is nothing if it was certainly never made.
    ///
    /// # Errors
    /// When the storage fails.
    async fn settle(
        &self,
        _allowances: &[Allowance],
        _reserved: u64,
        _spent: u64,
    ) -> Result<(), StorageError> {
        Err(StorageError::unsupported())
    }

    /// Returns what an account has spent or reserved on a day, in billionths of a US dollar.
    ///
    /// # Errors
    /// When the storage fails.
    async fn spent(&self, _account: &str, _day: &str) -> Result<u64, ReadError> {
        Err(StorageError::unsupported().into())
    }

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

    /// Returns what tells where a run stands. A store that others write meanwhile reads it as of one moment. With a tenant, a run
    /// of another one is as unknown as one that is not there, and nothing more of it is read.
    ///
    /// # Errors
    /// When the run is unknown, what it needs of the journal is damaged or erased, or the storage fails.
    async fn recent(&self, run: RunId, tenant: Option<&str>) -> Result<Recent, ReadError> {
        let summary = self.summary(run).await?;
        if tenant.is_some_and(|tenant| tenant != summary.tenant) {
            return Err(ReadError::UnknownRun { run });
        }
        let config = self.config(summary.config).await?;
        let snapshot = self.snapshot(run).await?;
        let from = snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
        let records = self.read(run, from).await?;
        let second = match from {
            0 | 1 => None,
            _ => self.page(run, 1, 1).await?.into_records()?.into_iter().next(),
        };
        Ok(Recent { summary, config, snapshot, records, second })
    }
}
