//! Why a file cannot be used.

use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode;

/// Why a file cannot be opened, made or copied. `what` says what the file is to its users: "the file of access keys".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file or its folder cannot be used.
    #[error("cannot open `{}`, {what}", path.display())]
    File {
        /// What it is.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file belongs to another user.
    #[error("`{}`, {what}, belongs to another user", path.display())]
    NotOurs {
        /// What it is.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The file holds something else.
    #[error("`{}` is not {what}", path.display())]
    Foreign {
        /// What it is not.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A newer release wrote it.
    #[error("`{}` has version {found}, and this release reads version {known}: use a newer release", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The version of this release.
        known: i64,
    },
    /// What was copied is not what was there.
    #[error("`{}`, a copy of {what}, is damaged, as what it was copied from is", path.display())]
    Damaged {
        /// What was copied.
        what: &'static str,
        /// The copy.
        path: PathBuf,
    },
    /// The database failed.
    #[error("cannot use `{}`, {what}", path.display())]
    Storage {
        /// What it is.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
}

impl OpenError {
    /// What to do about it where the file itself may be sound, so that nobody moves a good one away. None where it may be damaged
    /// or another program's.
    pub fn remedy(&self) -> Option<&'static str> {
        const FULL: &str = "make room on the disk of the file, and try again";
        const DENIED: &str =
            "let this user read and write the file and its folder, on a file system that is not read-only";
        const READ_ONLY: &str = "name a place that is not read-only, or make this one writable";
        match self {
            Self::File { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(FULL),
                io::ErrorKind::ReadOnlyFilesystem => Some(READ_ONLY),
                io::ErrorKind::PermissionDenied => Some(DENIED),
                io::ErrorKind::AlreadyExists => Some("name a new path"),
                _ => None,
            },
            Self::Storage { source, .. } => match source.sqlite_error_code()? {
                ErrorCode::DiskFull => Some(FULL),
                ErrorCode::ReadOnly => Some(READ_ONLY),
                // Where there is no room for a file beside it, SQLite says no more than this.
                ErrorCode::SystemIoFailure => Some("look whether its disk is full or fails, and try again"),
                ErrorCode::CannotOpen | ErrorCode::PermissionDenied => Some(DENIED),
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                    Some("try again: another process was writing to the file all the time")
                }
                _ => None,
            },
            Self::NotOurs { .. } => Some("run the command as the user that the file belongs to"),
            Self::Newer { .. } => Some("use the release that wrote it, or a newer one"),
            Self::Foreign { .. } | Self::Damaged { .. } => None,
        }
    }
}
