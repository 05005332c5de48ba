//! The examination of a whole journal: what it counts and what it finds.

use std::fmt;

use dalsegno_core::{Digest, RunId};

use crate::error::{ReadError, StorageError};

/// What an examination saw. The journal is sound if it has no findings.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Checkup {
    /// The version of the file's schema.
    pub version: i64,
    /// Runs, sound or not.
    pub runs: u64,
    /// Records that verify.
    pub records: u64,
    /// Those of them whose content was erased.
    pub erased: u64,
    /// Configurations.
    pub configs: u64,
    /// Files, and long texts that are kept like files.
    pub files: u64,
    /// Files that runs refer to and that are not here. That is no damage: they were not sent along, or were erased
    /// where the run was imported from.
    pub missing_files: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Messages that wait, whether they can be read or not.
    pub messages: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

impl Checkup {
    /// Says whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Something that is wrong in a journal.
#[derive(Debug)]
#[non_exhaustive]
pub enum Finding {
    /// SQLite itself finds the file damaged.
    Database {
        /// What it says.
        message: String,
    },
    /// A table or an index is not the one that this version has.
    Schema {
        /// Its name.
        name: String,
    },
    /// A run, one of its messages or its configuration cannot be read. A [`ReadError::Damaged`] says which record it
    /// is and how many before it are intact.
    Run {
        /// The run.
        run: RunId,
        /// What is wrong with it.
        source: ReadError,
    },
    /// A run's snapshot is damaged. It does no harm: the state is rebuilt from the records.
    Snapshot {
        /// The run.
        run: RunId,
    },
    /// A configuration is damaged.
    Config {
        /// Its digest, if that can be read.
        digest: Option<Digest>,
    },
    /// A file, or a long text that is kept like a file, is damaged.
    File {
        /// Its digest, if that can be read.
        digest: Option<Digest>,
    },
    /// Rows that belong to no run or record.
    Orphans {
        /// The table.
        table: &'static str,
        /// How many there are.
        rows: u64,
    },
    /// A run's list of the files that it uses is not what its first record says, so a pruning might delete one of them.
    References {
        /// The run.
        run: RunId,
    },
    /// Something could not be read at all.
    Storage {
        /// What.
        what: &'static str,
        /// Why.
        source: StorageError,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |digest: &Option<Digest>| digest.map(|digest| format!(" {digest}")).unwrap_or_default();
        match self {
            Self::Database { message } => write!(f, "the file is damaged: {message}"),
            Self::Schema { name } => {
                write!(f, "the table or index `{name}` is not the one that this version has")
            }
            Self::Run { source, .. } => source.fmt(f),
            Self::Snapshot { run } => {
                write!(f, "the snapshot of run {run} is damaged; its state is rebuilt from its records")
            }
            Self::Config { digest } => write!(f, "a configuration{} is damaged", of(digest)),
            Self::File { digest } => write!(f, "a file{} is damaged", of(digest)),
            Self::Orphans { table, rows } => {
                write!(f, "{rows} rows of the table `{table}` belong to nothing")
            }
            Self::References { run } => {
                write!(f, "the list of the files that run {run} uses is not what its first record says")
            }
            Self::Storage { what, source } => write!(f, "cannot read {what}: {source}"),
        }
    }
}
