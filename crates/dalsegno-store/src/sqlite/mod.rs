//! The journal in one SQLite file.
//!
//! One thread writes and commits for many runs at once; reads go through a few connections of their own. Other
//! processes may use the same file: each write checks its own condition inside its transaction.

mod backup;
mod convert;
mod definitions;
mod doctor;
mod doorbell;
mod erase;
mod gc;
mod inbox;
mod open;
mod read;
mod readers;
mod rows;
mod spending;
mod take;
mod transfer;
mod write;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dalsegno_core::{Digest, OperationId, RunId, Timestamp};
use rusqlite::Connection;

use crate::archive::{Archive, ImportError, Imported};
use crate::backup::BackupError;
use crate::bytes::Link;
use crate::chain::seal;
use crate::doctor::Checkup;
use crate::erase::{EraseError, Erased};
use crate::error::{
    AcquireError, AppendError, CreateError, Damage, OpenError, ReadError, SnapshotError, StorageError,
};
use crate::gc::{GcError, GcOptions, GcReport};
use crate::inbox::{Message, PostError, Told, encode_message};
use crate::lease::{Holds, Lease};
use crate::owner::Owner;
use crate::page::Page;
use crate::progress::Progress;
use crate::record::{NewRecord, Record};
use crate::run::{Change, Created, NewRun, Recent, RunFilter, RunSummary, Snapshot};
use crate::shares::Turn;
use crate::snapshot::StoredSnapshot;
use crate::spending::{Allowance, ReserveError};
use crate::store::Store;

use self::doorbell::Doorbell;
use self::open::Reading;
use self::readers::Readers;
pub(crate) use self::rows::Stored;
#[cfg(feature = "conformance")]
pub(crate) use self::rows::{COLUMNS, keys, load, replace};
use self::write::{Acquired, Append};
use self::writer::Writer;

/// Files of a new run that are larger than this together, in bytes, are packed on a thread where that may take long.
const LARGE: usize = 256 << 10;

/// How often an erasure tries to empty the log, and the pause between: five seconds in all, in which others write.
const CHECKPOINTS: u32 = 70;
const CHECKPOINT_PAUSE: Duration = Duration::from_millis(50);

/// A journal in one SQLite file.
///
/// Dropping it writes what is queued and closes the file.
#[derive(Debug)]
pub struct SqliteStore {
    // Closed in this order: the writer, last, moves the log into the file, which no open reader lets it do.
    doorbell: Doorbell,
    readers: Arc<Readers>,
    writer: Writer,
    holds: Holds,
    told: Told,
    turn: Turn,
}

impl SqliteStore {
    /// Opens the journal at `path`, or begins a new one if there is no such file. Its folder must exist.
    ///
    /// This takes the right to write the file and its folder: SQLite keeps the log of the latest commits, and what readers share
    /// with the writer, in files beside it. [`open_read_only`](Self::open_read_only) does without.
    ///
    /// # Errors
    /// When the file cannot be opened, is something else, or was written by a newer release.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        // An absolute path, since SQLite gives names such as `:memory:` a meaning of their own.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let connection = open::open_writer(&path)?;
        let writer = Writer::start(connection, &path)?;
        Ok(Self::with(path, writer, Reading::Shared))
    }

    /// Opens a journal that this process may read but not write, such as one on a read-only disk. Whatever writes is refused.
    ///
    /// # Errors
    /// When there is no journal of this release's version, it cannot be read, or its latest commits stand in a log that cannot be
    /// read there.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let reading = open::open_read_only(&path)?;
        Ok(Self::with(path, Writer::none(), reading))
    }

    fn with(path: PathBuf, writer: Writer, reading: Reading) -> Self {
        let readers = Readers::new(path, reading);
        let holds = Holds::default();
        let (told, turn, doorbell) = (Told::default(), Turn::default(), Doorbell::default());
        Self { doorbell, readers, writer, holds, told, turn }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.readers.path()
    }

    /// Examines the whole journal as of one moment, and writes nothing: the file itself, the schema, every run's chain,
    /// entry, messages and snapshot, every file and configuration. Writers do not wait.
    ///
    /// # Errors
    /// When nothing can be read at all. Whatever else is wrong is among the findings.
    pub async fn doctor(
        &self,
        mut progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<Checkup, ReadError> {
        self.readers.call(move |connection| Ok(doctor::examine(connection, &mut progress))).await
    }

    /// Copies the journal as of this moment to a new file, while others write to it, and examines the copy.
    ///
    /// # Errors
    /// When there is such a file, it cannot be written, or the copy is damaged.
    pub async fn backup(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<(), BackupError> {
        let target = path.as_ref();
        let target = std::path::absolute(target).unwrap_or_else(|_| target.to_owned());
        let (source, reading) = (self.readers.path().to_owned(), self.readers.reading());
        blocking(move || {
            let connection = open::open_reader(&source, reading)
                .map_err(|error| StorageError::new(source.to_str(), error))?;
            backup::backup(&connection, &target, &mut progress)
        })
        .await
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.readers.close();
    }
}

impl SqliteStore {
    /// Overwrites what is left of deleted content between the rows of pages: some pages at a time, so that nobody waits
    /// long.
    async fn clean(&self) -> Result<(), EraseError> {
        let pages = |connection: &Connection| {
            let known = erase::has_pages(connection)? && erase::pages(connection)? < erase::PAGES_MAX;
            Ok::<_, Fault<EraseError>>(known)
        };
        if !self.readers.call(pages).await? {
            let vacuum = |connection: &Connection| erase::vacuum(connection).map_err(Fault::Storage);
            return self.writer.call_alone::<_, EraseError>(vacuum).await;
        }
        let mut next = Some(1);
        while let Some(from) = next {
            let found = self.readers.call(move |connection| {
                erase::unclean(connection, from).map_err(Fault::<EraseError>::Storage)
            });
            let (mut unclean, rest) = found.await?;
            while !unclean.is_empty() {
                let call = self.writer.call::<_, EraseError>(move |connection| {
                    erase::clean(connection, &mut unclean)?;
                    Ok(unclean)
                });
                unclean = call.await?;
            }
            next = rest;
        }
        Ok(())
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn create(&self, mut run: NewRun) -> Result<Created, CreateError> {
        run.started()?;
        run.check_blobs()?;
        let bytes: usize = run.blobs.iter().map(|(_, bytes)| bytes.len()).sum();
        let (run, (rows, blobs)) = if bytes > LARGE {
            blocking(move || Ok::<_, CreateError>((pack(&mut run)?, run)))
                .await
                .map(|(packed, run)| (run, packed))?
        } else {
            let packed = pack(&mut run)?;
            (run, packed)
        };
        let holds = self.holds.clone();
        self.writer.call(move |connection| write::create(connection, &run, &rows, &blobs, &holds)).await
    }

    async fn hand_off_with(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
        mut successor: NewRun,
    ) -> Result<Created, CreateError> {
        successor.started()?;
        successor.check_blobs()?;
        successor.is_handed_off_by(lease.run, &records)?;
        let (rows, blobs) = pack(&mut successor)?;
        let append = Append::new(lease, &records, consumed)?;
        let (end, head, holds) = (append.end(), append.head, self.holds.clone());
        let call = self
            .writer
            .call(move |connection| write::hand_off(connection, &append, &successor, &rows, &blobs, &holds));
        let mut created = call.await?;
        lease.next_seq = end;
        lease.head = head;
        if let Created::New(next) = &mut created {
            next.tells = lease.tells;
        }
        Ok(created)
    }

    async fn append_with(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
    ) -> Result<Vec<u64>, AppendError> {
        let append = Append::new(lease, &records, consumed)?;
        let (seqs, head) = (append.next_seq..append.end(), append.head);
        self.writer.call(move |connection| write::append(connection, &append)).await?;
        lease.next_seq = seqs.end;
        lease.head = head;
        Ok(seqs.collect())
    }

    async fn acquire(&self, run: RunId, owner: &Owner) -> Result<Lease, AcquireError> {
        let (holds, claimant) = (self.holds.clone(), owner.clone());
        let call = self.writer.call(move |connection| write::acquire(connection, run, &claimant, &holds));
        let Acquired { lease, from } = call.await?;
        if let Some(dead) = from {
            owner.bury(dead);
        }
        Ok(lease)
    }

    async fn seize(&self, run: RunId, owner: &Owner) -> Result<Lease, AcquireError> {
        let (holds, claimant) = (self.holds.clone(), owner.clone());
        let call = self.writer.call(move |connection| write::seize(connection, run, &claimant, &holds));
        let Acquired { lease, from } = call.await?;
        if let Some(dead) = from {
            owner.bury(dead);
        }
        Ok(lease)
    }

    async fn release(&self, lease: Lease) -> Result<(), AppendError> {
        self.writer.call(move |connection| write::release(connection, &lease)).await
    }

    async fn read(&self, run: RunId, from: u64) -> Result<Vec<Record>, ReadError> {
        self.readers.call(move |connection| read::records(connection, run, from)).await
    }

    async fn page(&self, run: RunId, from: u64, most: usize) -> Result<Page, ReadError> {
        self.readers.call(move |connection| read::page(connection, run, from, most)).await
    }

    async fn heads(&self, runs: &[RunId]) -> Result<Vec<(RunId, u64)>, ReadError> {
        let runs = runs.to_vec();
        self.readers.call(move |connection| read::heads(connection, &runs)).await
    }

    async fn has_erased(&self, run: RunId) -> Result<bool, ReadError> {
        self.readers.call(move |connection| read::has_erased(connection, run)).await
    }

    async fn version(&self) -> Result<u64, ReadError> {
        let version = self.doorbell.version(self.readers.path());
        version.map_err(|error| StorageError::new(self.readers.path().to_str(), error).into())
    }

    async fn probe(&self) -> Result<(), StorageError> {
        self.writer.call(|connection| write::probe(connection).map_err(Fault::Storage)).await
    }

    async fn first(&self, run: RunId) -> Result<Record, ReadError> {
        self.readers.call(move |connection| read::first_record(connection, run)).await
    }

    async fn summary(&self, run: RunId) -> Result<RunSummary, ReadError> {
        self.readers.call(move |connection| read::summary(connection, run)).await
    }

    async fn runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, ReadError> {
        let filter = filter.clone();
        self.readers.call(move |connection| read::runs(connection, &filter)).await
    }

    async fn changed(&self, after: u64, limit: u32) -> Result<Vec<Change>, ReadError> {
        self.readers.call(move |connection| read::changed(connection, after, limit)).await
    }

    async fn last_change(&self) -> Result<u64, ReadError> {
        self.readers.call(read::last_change).await
    }

    async fn find_runs(&self, prefix: &str) -> Result<Vec<RunId>, ReadError> {
        let prefix = prefix.to_owned();
        self.readers.call(move |connection| read::find_runs(connection, &prefix)).await
    }

    async fn takeable(&self, owner: &Owner, now: Timestamp, limit: u32) -> Result<Vec<RunId>, ReadError> {
        let (owner, turn) = (owner.clone(), self.turn.next());
        self.readers.call(move |connection| take::takeable(connection, &owner, now, turn, limit)).await
    }

    async fn next_wake(&self, after: Timestamp) -> Result<Option<Timestamp>, ReadError> {
        self.readers.call(move |connection| take::next_wake(connection, after)).await
    }

    async fn erase(&self, run: RunId, operation: Option<OperationId>) -> Result<Erased, EraseError> {
        let planned = self.readers.call(move |connection| erase::Work::plan(connection, run, operation));
        let mut work: erase::Work = planned.await?;
        let erased = loop {
            let call = self.writer.call::<_, EraseError>(move |connection| {
                let more = work.perform(connection)?;
                let erased = if more { Err(work) } else { Ok(work.finish(connection)?) };
                Ok(erased)
            });
            match call.await? {
                Ok(erased) => break erased,
                Err(rest) => work = rest,
            }
        };
        self.clean().await?;
        let mut emptied = false;
        for _ in 0..CHECKPOINTS {
            let empty = |connection: &Connection| erase::empty_log(connection).map_err(Fault::Storage);
            emptied = self.writer.call_alone::<_, EraseError>(empty).await?;
            if emptied {
                break;
            }
            tokio::time::sleep(CHECKPOINT_PAUSE).await;
        }
        if emptied { Ok(erased) } else { Err(EraseError::Busy { run }) }
    }

    async fn heirs(&self, run: RunId) -> Result<Vec<RunId>, ReadError> {
        self.readers.call(move |connection| erase::heirs(connection, run)).await
    }

    async fn gc(&self, options: &GcOptions) -> Result<GcReport, GcError> {
        let asked = options.clone();
        let plan = self.readers.call(move |connection| gc::plan(connection, &asked)).await?;
        if options.dry_run {
            return Ok(plan.report);
        }
        let mut work = gc::Work::new(options.clone(), plan);
        loop {
            let call = self.writer.call::<_, GcError>(move |connection| {
                let more = work.perform(connection)?;
                Ok((work, more))
            });
            let (done, more) = call.await?;
            if !more {
                return Ok(done.report);
            }
            work = done;
        }
    }

    async fn config(&self, digest: Digest) -> Result<String, ReadError> {
        self.readers.call(move |connection| read::config(connection, digest)).await
    }

    async fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, ReadError> {
        self.readers.call(move |connection| read::blob(connection, digest)).await
    }

    async fn post(&self, run: RunId, message: Message) -> Result<(), PostError> {
        let bytes = encode_message(&message)?;
        self.writer.call(move |connection| inbox::post(connection, run, bytes)).await
    }

    async fn inbox(&self, run: RunId) -> Result<Vec<(u64, Message)>, ReadError> {
        if self.doorbell.is_silent(run) {
            return Ok(Vec::new());
        }
        let opened = self.readers.call(move |connection| inbox::read(connection, run)).await?;
        self.doorbell.know(run, self.readers.path());
        Ok(self.told.readable(run, opened))
    }

    async fn export(&self, runs: &[RunId]) -> Result<Archive, ReadError> {
        let runs = runs.to_vec();
        self.readers.call(move |connection| transfer::export(connection, &runs)).await
    }

    async fn export_intact(&self, runs: &[RunId]) -> Result<(Archive, Vec<Damage>), ReadError> {
        let runs = runs.to_vec();
        self.readers.call(move |connection| transfer::export_intact(connection, &runs)).await
    }

    async fn import(&self, archive: Archive) -> Result<Imported, ImportError> {
        let verified = blocking(move || archive.verify().map(transfer::Packed::new)).await?;
        self.writer.call(move |connection| transfer::import(connection, &verified)).await
    }

    async fn reserve(&self, allowances: &[Allowance], nano_usd: u64) -> Result<(), ReserveError> {
        let allowances = allowances.to_vec();
        self.writer.call(move |connection| spending::reserve(connection, &allowances, nano_usd)).await
    }

    async fn settle(&self, allowances: &[Allowance], reserved: u64, spent: u64) -> Result<(), StorageError> {
        let allowances = allowances.to_vec();
        let settle = move |connection: &Connection| {
            spending::settle(connection, &allowances, reserved, spent).map_err(Fault::Storage)
        };
        self.writer.call(settle).await
    }

    async fn spent(&self, account: &str, day: &str) -> Result<u64, ReadError> {
        let (account, day) = (account.to_owned(), day.to_owned());
        self.readers
            .call(move |connection| spending::spent(connection, &account, &day).map_err(Fault::Storage))
            .await
    }

    async fn save_snapshot(&self, lease: &Lease, snapshot: Snapshot) -> Result<(), SnapshotError> {
        let Lease { run, row, epoch, next_seq: records, .. } = *lease;
        if snapshot.seq > records {
            return Err(SnapshotError::Ahead { run, found: snapshot.seq, records });
        }
        // A long state takes long to encode, which a reader does: other runs of the process continue meanwhile. What cannot be
        // looked up is not left out.
        let seal = move |connection: &Connection| {
            let mut is_kept = |digest| read::is_part(connection, row, digest).unwrap_or(false);
            StoredSnapshot::seal(run, snapshot, &mut is_kept)
                .map_err(|error| Fault::Refused(SnapshotError::from(error)))
        };
        let stored: StoredSnapshot = self.readers.call(seal).await?;
        self.writer.call(move |connection| write::save_snapshot(connection, run, row, epoch, &stored)).await
    }

    async fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, ReadError> {
        self.readers.call(move |connection| read::snapshot(connection, run)).await
    }

    async fn recent(&self, run: RunId, tenant: Option<&str>) -> Result<Recent, ReadError> {
        let tenant = tenant.map(str::to_owned);
        self.readers.call(move |connection| read::recent(connection, run, tenant.as_deref())).await
    }
}

/// Packs a new run's records and files. Those that no other record names belong to the first one.
fn pack(run: &mut NewRun) -> Result<(Vec<Stored>, Vec<rows::PackedFile>), CreateError> {
    let rows = seal(run.run, 0, Link::default(), &run.records)?;
    let mut rows = Stored::of_records(rows, &run.records);
    let files = std::mem::take(&mut run.blobs);
    if let Some((first, rest)) = rows.split_first_mut() {
        let digests = files.iter().map(|(digest, _)| *digest);
        first.use_files(digests.filter(|digest| !rest.iter().any(|row| row.uses(digest))));
    }
    let with_records = run.records.iter().flat_map(|record| &record.files);
    let packed = rows::pack_files(&files).into_iter().chain(rows::pack_files(with_records));
    Ok((rows, packed.collect()))
}

/// Why an operation on the database failed.
enum Fault<E> {
    /// The operation itself says no.
    Refused(E),
    /// The database failed.
    Storage(rusqlite::Error),
}

impl<E> From<rusqlite::Error> for Fault<E> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(error)
    }
}

impl<E> Fault<E> {
    /// The same, when the operation is part of another.
    fn within<F: From<E>>(self) -> Fault<F> {
        match self {
            Self::Refused(error) => Fault::Refused(error.into()),
            Self::Storage(error) => Fault::Storage(error),
        }
    }
}

fn storage_error(connection: &Connection, error: rusqlite::Error) -> StorageError {
    StorageError::new(connection.path(), error)
}

/// Works on a thread where waiting is allowed.
async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<StorageError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(StorageError::closed().into()),
        },
    }
}
