//! Pruning: which runs may go, and what an account of it says.

use std::collections::BTreeSet;

use dalsegno_core::{RunId, Timestamp};

use crate::error::{ReadError, StorageError};

/// Which runs are to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GcOptions {
    /// Only runs that ended before this time: whose last record is older.
    pub before: Timestamp,
    /// Runs that stay whatever their age, with all that they need.
    pub keep: BTreeSet<RunId>,
    /// Whether to say only what would be deleted.
    pub dry_run: bool,
}

impl GcOptions {
    /// Deletes what ended before this time.
    pub const fn new(before: Timestamp) -> Self {
        Self { before, keep: BTreeSet::new(), dry_run: false }
    }
}

/// What was deleted, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GcReport {
    /// Runs.
    pub runs: u64,
    /// Records of those runs.
    pub records: u64,
    /// Snapshots of those runs.
    pub snapshots: u64,
    /// Files, and long texts that are kept like files, that nothing uses any more.
    pub files: u64,
    /// Configurations that no run has any more.
    pub configs: u64,
    /// The bytes that all of this took as it was stored. The file keeps its length, and fills this room again.
    pub bytes: u64,
}

/// A pruning that stopped. What it had deleted by then is gone, and all else is whole; the next one goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GcError {
    /// Something that says which run needs which cannot be read.
    #[error(
        "cannot find out which runs are needed, so no more are deleted: examine the journal with `doctor`, and restore it \
         from a backup"
    )]
    Unreadable(#[source] ReadError),
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<ReadError> for GcError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Storage(error) => Self::Storage(error),
            error => Self::Unreadable(error),
        }
    }
}
