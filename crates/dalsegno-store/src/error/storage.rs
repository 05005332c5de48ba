//! What can go wrong below a journal: the disk, the file, and who else has it.

use std::path::PathBuf;
use std::sync::Arc;

/// The storage below a journal failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", self.message())]
pub struct StorageError {
    kind: StorageKind,
    path: Option<PathBuf>,
    #[source]
    cause: Option<Arc<Cause>>,
}

#[cfg(feature = "disk")]
type Cause = rusqlite::Error;
/// No database, no cause.
#[cfg(not(feature = "disk"))]
type Cause = std::convert::Infallible;

/// The kinds of storage failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StorageKind {
    /// No room on the disk.
    Full,
    /// The file may not be written.
    ReadOnly,
    /// Another process kept the file locked.
    Busy,
    /// The file itself is damaged.
    Corrupt,
    /// The disk failed.
    Io,
    /// The store was closed, or its writer stopped.
    Closed,
    /// This kind of store cannot do it.
    Unsupported,
    /// Something else.
    Other,
}

/// What is said of a journal that cannot be opened. The cause says what to do, unless it is that the file cannot be reached at all.
pub(super) fn inaccessible(path: &std::path::Path, source: &StorageError) -> String {
    let advice = match source.kind {
        StorageKind::Full | StorageKind::ReadOnly | StorageKind::Busy | StorageKind::Io => "",
        StorageKind::Corrupt | StorageKind::Closed | StorageKind::Unsupported | StorageKind::Other => {
            ": check that its folder exists and that this user may read and write it"
        }
    };
    format!("cannot open the journal `{}`{advice}", path.display())
}

impl StorageError {
    #[cfg(feature = "disk")]
    pub(crate) fn new(path: Option<&str>, cause: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        let kind = match cause.sqlite_error_code() {
            Some(Code::DiskFull) => StorageKind::Full,
            Some(Code::ReadOnly | Code::PermissionDenied) => StorageKind::ReadOnly,
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => StorageKind::Busy,
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => StorageKind::Corrupt,
            Some(Code::SystemIoFailure | Code::CannotOpen) => StorageKind::Io,
            _ => StorageKind::Other,
        };
        Self { kind, path: path.map(PathBuf::from), cause: Some(Arc::new(cause)) }
    }

    /// An error of this kind, for a store of one's own.
    pub const fn of_kind(kind: StorageKind) -> Self {
        Self { kind, path: None, cause: None }
    }

    pub(crate) const fn closed() -> Self {
        Self { kind: StorageKind::Closed, path: None, cause: None }
    }

    /// What a store answers that lacks an operation.
    pub(crate) const fn unsupported() -> Self {
        Self { kind: StorageKind::Unsupported, path: None, cause: None }
    }

    /// Says whether SQLite could not open a file.
    #[cfg(feature = "disk")]
    pub(crate) fn is_unopenable(&self) -> bool {
        let code = self.cause.as_ref().and_then(|cause| cause.sqlite_error_code());
        code == Some(rusqlite::ErrorCode::CannotOpen)
    }

    /// The kind of failure.
    pub const fn kind(&self) -> StorageKind {
        self.kind
    }

    /// Says whether the same write can succeed later without a change to the journal: another process locks the file, the
    /// disk is full, or the disk failed.
    pub const fn is_passing(&self) -> bool {
        match self.kind {
            StorageKind::Full | StorageKind::Busy | StorageKind::Io => true,
            StorageKind::ReadOnly
            | StorageKind::Corrupt
            | StorageKind::Closed
            | StorageKind::Unsupported
            | StorageKind::Other => false,
        }
    }

    fn message(&self) -> String {
        let place = self.path.as_ref().map(|path| format!(" `{}`", path.display())).unwrap_or_default();
        #[cfg(feature = "disk")]
        if self.is_unopenable() {
            return format!(
                "the journal{place} cannot be opened: look whether this user may read and write it and its folder, and whether its disk \
                 has room"
            );
        }
        match self.kind {
            StorageKind::Full => {
                format!(
                    "no room on the disk for the journal{place}: make room, then run the command again, or resume the run"
                )
            }
            StorageKind::ReadOnly => {
                format!(
                    "the journal{place} is read-only: give this user the right to write it and its folder"
                )
            }
            StorageKind::Busy => {
                format!(
                    "another process kept the journal{place} locked: look for one that is stuck, then try again"
                )
            }
            StorageKind::Corrupt => {
                format!("the file of the journal{place} is damaged: restore it from a backup")
            }
            StorageKind::Io => {
                // Where there is no room for a file beside the journal, SQLite says no more than this.
                format!(
                    "the disk of the journal{place} is full or failed: look at the disk, then run the command again, or resume \
                     the run"
                )
            }
            StorageKind::Closed => "the journal is closed: open it again".into(),
            StorageKind::Unsupported => "this kind of store cannot do that: use the journal itself".into(),
            StorageKind::Other => {
                format!("the database of the journal{place} failed: examine the journal with `doctor`")
            }
        }
    }
}
