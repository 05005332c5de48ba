//! What can go wrong: one enum for each family of operations.

mod storage;

use std::fmt;
use std::io;
use std::path::PathBuf;

use dalsegno_core::{Digest, RunId};

use self::storage::inaccessible;
pub use self::storage::{StorageError, StorageKind};
use crate::blob::MAX_BLOB;
use crate::chain::MAX_BODY;
use crate::codec::{DecodeError, EncodeError};
use crate::owner::OwnerId;

/// A store that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The path is a folder.
    #[error("`{}` is a folder, not a journal: name a file, such as `journal.db` in that folder", path.display())]
    Folder {
        /// The path.
        path: PathBuf,
    },
    /// The file is something else than a SQLite database.
    #[error(
        "`{}` is not a journal: it is not a SQLite database, or its header is damaged; restore it from a backup, or \
         move it away to begin a new journal", path.display()
    )]
    NotADatabase {
        /// The path.
        path: PathBuf,
    },
    /// The file is the SQLite database of another program.
    #[error("`{}` is the database of another program, not a journal: name another file", path.display())]
    NotAJournal {
        /// The path.
        path: PathBuf,
    },
    /// The file was written by a newer release.
    #[error(
        "the journal `{}` has version {found}, and this release reads up to {supported}: use the newer release that \
         wrote it", path.display()
    )]
    NewerVersion {
        /// The path.
        path: PathBuf,
        /// The file's version.
        found: i64,
        /// The newest version that this release knows.
        supported: i64,
    },
    /// The file cannot be written.
    #[error("the journal `{}` is read-only: give this user the right to write it and its folder", path.display())]
    ReadOnly {
        /// The path.
        path: PathBuf,
    },
    /// The file may only be read, and its latest commits stand in a log that cannot be read there.
    #[error(
        "the journal `{0}` is read-only, and its latest commits are in `{0}-wal`, which can be read only in a writable \
         folder: copy both files to a folder that this user may write to, and read them there",
        path.display()
    )]
    LogUnreadable {
        /// The path.
        path: PathBuf,
    },
    /// The file defines something that no journal has.
    #[error(
        "the journal `{}` defines `{name}`, which a journal does not have, so it was not opened: restore it from a backup, or move it away \
         to begin a new journal", path.display()
    )]
    Definitions {
        /// The path.
        path: PathBuf,
        /// The name of the trigger, the view, the table or the index.
        name: String,
    },
    /// The file cannot be opened or created.
    #[error("{}", inaccessible(path, source))]
    Inaccessible {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: StorageError,
    },
    /// The file is on a network file system.
    #[error(
        "the journal `{}` is on a network file system ({kind}), where locks of other computers cannot be trusted: put it on \
         a disk of this computer, with `store` in dalsegno.toml", path.display()
    )]
    Network {
        /// The path.
        path: PathBuf,
        /// The file system, such as `nfs`.
        kind: &'static str,
    },
    /// The file system does not let SQLite keep a log beside the file.
    #[error(
        "the journal `{}` cannot keep its log: the file system gives it the journal mode `{mode}` instead of `wal`; put it \
         on a disk of this computer, with `store` in dalsegno.toml", path.display()
    )]
    NoLog {
        /// The path.
        path: PathBuf,
        /// The mode that SQLite chose.
        mode: String,
    },
    /// The thread that writes could not be started.
    #[error("cannot start the thread that writes the journal `{}`", path.display())]
    Thread {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// An owner that cannot be claimed.
#[derive(Debug, thiserror::Error)]
#[error("cannot create and lock an owner file in `{}`: check that it is a writable folder on a local disk", dir.display())]
pub struct OwnerError {
    /// The folder.
    pub(crate) dir: PathBuf,
    /// The cause.
    pub(crate) source: io::Error,
}

/// A run that cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The tenant used the key for something else.
    #[error(
        "the idempotency key `{key}` belongs to run {run}, which has another agent or input: use a new key"
    )]
    KeyConflict {
        /// The key.
        key: String,
        /// The run that has it.
        run: RunId,
    },
    /// The id belongs to a run with another agent or input.
    #[error("run {run} already exists, with another agent or input: use a new id")]
    RunConflict {
        /// The run.
        run: RunId,
    },
    /// The records do not begin with `started`, or it disagrees with the run.
    #[error(
        "the first record of run {run} must be `started`, with the run's agent, tenant, configuration and key"
    )]
    NotStarted {
        /// The run.
        run: RunId,
    },
    /// Another root run of the session goes on.
    #[error(
        "run {run} of the session `{session}` has not ended: resume it or cancel it first, or use another session"
    )]
    SessionBusy {
        /// The session.
        session: String,
        /// The run that goes on.
        run: RunId,
    },
    /// Another root run of the session was created meanwhile.
    #[error("another run of the session `{session}` started first: start this one again, so that it follows")]
    Overtaken {
        /// The session.
        session: String,
        /// The session's last root run that can be followed now.
        last: Option<RunId>,
    },
    /// The handover does not fit: the last record is not `handed_off` to the successor, or the successor does not
    /// begin where the run ends.
    #[error(
        "run {run} cannot hand over to run {successor}: the {field} does not fit; a successor has its predecessor's \
         tenant, session and parent, and is named in its last record"
    )]
    NotSuccessor {
        /// The run that ends.
        run: RunId,
        /// The run that is to go on.
        successor: RunId,
        /// What does not fit.
        field: &'static str,
    },
    /// The run that hands over could not be written to.
    #[error(transparent)]
    Append(AppendError),
    /// The entry of the run that hands over is damaged.
    #[error(transparent)]
    Predecessor(ReadError),
    /// A file is not what its digest says, or too long.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// A record cannot be stored.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<AppendError> for CreateError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Record(error) => Self::Record(error),
            AppendError::Storage(error) => Self::Storage(error),
            error @ (AppendError::Fenced { .. }
            | AppendError::SeqMismatch { .. }
            | AppendError::UnknownRun { .. }
            | AppendError::UnknownMessage { .. }
            | AppendError::Blob(_)) => Self::Append(error),
        }
    }
}

/// A file that is not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    /// The bytes have another digest.
    #[error("the file {digest} has the digest {found}: state the digest of the bytes that are stored")]
    Digest {
        /// The digest that was stated.
        digest: Digest,
        /// The digest of the bytes.
        found: Digest,
    },
    /// It is too long.
    #[error("the file {digest} has {found} bytes, expected at most {MAX_BLOB}: send a smaller one")]
    TooLong {
        /// Its digest.
        digest: Digest,
        /// Its length in bytes.
        found: usize,
    },
    /// A part of what a new run begins with is not here.
    #[error(
        "the run before it was erased meanwhile, and with it the part {digest} of what was said: start again"
    )]
    Missing {
        /// Its digest.
        digest: Digest,
    },
    /// A file that a result names is neither here nor with its record.
    #[error("a result names the file {digest}, which is not here: append its bytes with the record")]
    Absent {
        /// Its digest.
        digest: Digest,
    },
}

/// A record that cannot be stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The body has no stored form.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The body is too long.
    #[error(
        "the body of a record has {found} bytes, expected at most {MAX_BODY}: store large results elsewhere"
    )]
    TooLong {
        /// Its length in bytes.
        found: usize,
    },
}

/// An append, or a release, that was refused whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// Somebody else owns the run now. The lease is of no more use.
    #[error(
        "run {run} was taken over by another owner (epoch {current}, this lease has {epoch}): stop working on it"
    )]
    Fenced {
        /// The run.
        run: RunId,
        /// The lease's epoch.
        epoch: u64,
        /// The run's epoch.
        current: u64,
    },
    /// The run has another number of records, as after an append that was given up half-way.
    #[error("run {run} has {found} records, expected {expected}: acquire the run again")]
    SeqMismatch {
        /// The run.
        run: RunId,
        /// What the lease expected.
        expected: u64,
        /// What there is.
        found: u64,
    },
    /// The run is gone from the store.
    #[error("the journal has no run {run}")]
    UnknownRun {
        /// The run.
        run: RunId,
    },
    /// A message that the append was to consume is not in the run's inbox.
    #[error("message {number} is not in the inbox of run {run}: it was already read; read the inbox again")]
    UnknownMessage {
        /// The run.
        run: RunId,
        /// The message's number.
        number: u64,
    },
    /// A file of a record is not what its digest says, too long, or not here.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// A record cannot be stored.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The storage failed. The records were not acknowledged; if a flush failed they may still appear later, so the
    /// run has to be acquired and read again.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// A run that cannot be acquired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Somebody works on it.
    #[error("run {run} belongs to the running process {by}: wait until it is done, or stop it")]
    Owned {
        /// The run.
        run: RunId,
        /// Its owner.
        by: OwnerId,
    },
    /// There is no such run.
    #[error("the journal has no run {run}")]
    UnknownRun {
        /// The run.
        run: RunId,
    },
    /// An archive brought it, and nobody performs it here.
    #[error(
        "run {run} came in an archive and is foreign: it can be shown, replayed, compared and forked, but not \
         executed"
    )]
    Foreign {
        /// The run.
        run: RunId,
    },
    /// The run's entry or the records that prove it are damaged or of a newer release: nobody may go on from them.
    #[error(transparent)]
    Unreadable(ReadError),
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<ReadError> for AcquireError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::UnknownRun { run } => Self::UnknownRun { run },
            ReadError::Storage(error) => Self::Storage(error),
            error @ (ReadError::Damaged(_)
            | ReadError::NewerVersion { .. }
            | ReadError::Erased { .. }
            | ReadError::UnknownConfig { .. }
            | ReadError::DamagedConfig { .. }
            | ReadError::DamagedBlob { .. }
            | ReadError::DamagedMessage { .. }
            | ReadError::NewerMessage { .. }) => Self::Unreadable(error),
        }
    }
}

/// A run, or what belongs to one, that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// There is no such run.
    #[error("the journal has no run {run}")]
    UnknownRun {
        /// The run.
        run: RunId,
    },
    /// A record, or the entry of the run, is not what was written.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// A record is intact and this release cannot read it.
    #[error("record {seq} of run {run} was written by a newer release: use that release")]
    NewerVersion {
        /// The run.
        run: RunId,
        /// The record.
        seq: u64,
        /// Why it cannot be read.
        source: DecodeError,
    },
    /// The content of a record was erased on purpose. The record itself and the chain are intact.
    #[error("the content of record {seq} of run {run} was erased: only its number and checksum are left")]
    Erased {
        /// The run.
        run: RunId,
        /// The first such record that the read came to.
        seq: u64,
    },
    /// There is no such configuration.
    #[error("the journal has no configuration {digest}: restore it from a backup")]
    UnknownConfig {
        /// Its digest.
        digest: Digest,
    },
    /// The configuration is not what was written.
    #[error("the configuration {digest} is damaged: restore the journal from a backup")]
    DamagedConfig {
        /// Its digest.
        digest: Digest,
    },
    /// The file is not what was written.
    #[error("the file {digest} is damaged: restore the journal from a backup")]
    DamagedBlob {
        /// Its digest.
        digest: Digest,
    },
    /// A message in a run's inbox is not what was posted.
    #[error("message {number} in the inbox of run {run} is damaged: restore the journal from a backup")]
    DamagedMessage {
        /// The run.
        run: RunId,
        /// The message's number.
        number: u64,
    },
    /// A message is intact and this release cannot read it.
    #[error("message {number} in the inbox of run {run} was posted by a newer release: use that release")]
    NewerMessage {
        /// The run.
        run: RunId,
        /// The message's number.
        number: u64,
        /// Why it cannot be read.
        source: DecodeError,
    },
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// A snapshot that cannot be saved. The run can go on without it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Somebody else owns the run now.
    #[error("run {run} was taken over by another owner (this lease has epoch {epoch}): stop working on it")]
    Fenced {
        /// The run.
        run: RunId,
        /// The lease's epoch.
        epoch: u64,
    },
    /// The state includes more records than there are.
    #[error("a snapshot of {found} records of run {run}, which has {records}")]
    Ahead {
        /// The run.
        run: RunId,
        /// The records that the state includes.
        found: u64,
        /// The records that there are.
        records: u64,
    },
    /// The state has no stored form.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// A record, or the entry of a run, that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct Damage {
    /// The run.
    pub run: RunId,
    /// The record; for [`Flaw::Copy`] the one that the entry contradicts, for [`Flaw::Row`] 0.
    pub seq: u64,
    /// What is wrong.
    pub what: Flaw,
    /// The number of records from the beginning that verify: what can be saved. When only the entry is wrong, that is
    /// all of them.
    pub intact: u64,
}

impl Damage {
    fn message(&self) -> String {
        let Self { run, seq, what, intact } = self;
        match what {
            Flaw::Row | Flaw::Seal => format!("the entry of run {run} is damaged: {what}"),
            Flaw::Copy { .. } => {
                format!(
                    "the entry of run {run} is damaged: {what} (record {seq}); all {intact} records are intact"
                )
            }
            Flaw::Checksum
            | Flaw::Link
            | Flaw::Kind
            | Flaw::Form
            | Flaw::Missing
            | Flaw::Unknown
            | Flaw::Head
            | Flaw::NotStarted => {
                format!(
                    "record {seq} of run {run} is damaged: {what}; the {intact} records before it are intact"
                )
            }
        }
    }
}

/// What is wrong with a damaged record or entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flaw {
    /// The body does not have its checksum.
    Checksum,
    /// The record does not follow from the one before it.
    Link,
    /// The kind is not the body's.
    Kind,
    /// A field has the wrong form.
    Form,
    /// The record is missing.
    Missing,
    /// The run ended before it.
    Unknown,
    /// The run's last record is another one.
    Head,
    /// The first record is not the one with which every run begins.
    NotStarted,
    /// A field in the entry of the run has the wrong form.
    Row,
    /// The entry's own fields, which no record repeats, are not what was written: the digest of what the run was asked,
    /// its owner, its epoch, the number of its messages.
    Seal,
    /// A field in the entry of the run is not what the records say.
    Copy {
        /// The field.
        field: &'static str,
    },
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Checksum => "its content does not have its checksum",
            Self::Link => "it does not follow from the record before it",
            Self::Kind => "its kind is not that of its content",
            Self::Form => "one of its fields has the wrong form",
            Self::Missing => "it is missing",
            Self::Unknown => "the run ended before it",
            Self::Head => "it is not the record that the run ended with",
            Self::NotStarted => "it is not the `started` with which every run begins",
            Self::Row => "one of its fields has the wrong form",
            Self::Seal => "its fields do not have their checksum",
            Self::Copy { field } => {
                return write!(f, "its `{field}` is not what the records say");
            }
        };
        f.write_str(text)
    }
}
