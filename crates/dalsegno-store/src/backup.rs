//! What can go wrong with a copy of a journal.

use std::io;
use std::path::PathBuf;

use crate::doctor::Checkup;
use crate::error::{OpenError, StorageError};

/// A copy that was not made. Nothing is left of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// There is such a file.
    #[error("`{}` already exists: name a new file", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// The file cannot be made.
    #[error("cannot create `{}`: check that its folder exists and that this user may write to it", path.display())]
    Target {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another process keeps the copy locked.
    #[error(
        "another process locked the copy `{}`, so it was removed: stop the program that opens it, then try again",
        path.display()
    )]
    Locked {
        /// The path.
        path: PathBuf,
    },
    /// The copy cannot be opened.
    #[error(
        "the copy `{}` could not be opened, so it was removed: check the disk that it is on, then try again",
        path.display()
    )]
    Unopenable {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: OpenError,
    },
    /// The copy is damaged, and so is most likely the journal itself.
    #[error(
        "the copy `{}` has {} faults, so it was removed: examine the journal itself with `doctor`, and keep its older \
         backups; the first fault: {}", path.display(), checkup.findings.len(),
        checkup.findings.first().map(ToString::to_string).unwrap_or_default()
    )]
    Damaged {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        checkup: Box<Checkup>,
    },
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}
