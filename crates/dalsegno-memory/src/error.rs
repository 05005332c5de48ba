//! What can go wrong when a memory is opened or used.

use std::path::PathBuf;

use rusqlite::ErrorCode;

use crate::ObservationId;
use crate::name::NameError;
use crate::observation::{METADATA_BYTES_MAX, METADATA_DEPTH_MAX, TEXT_BYTES_MAX};
use crate::relation::RELATIONS_MAX;
use crate::traverse::DEPTH_MAX;

/// Why a search or a write did not happen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// A part that must be a name is none.
    #[error("the {field} {problem}")]
    Name {
        /// `entity`, `entity type`, `from`, `relation` or `to`.
        field: &'static str,
        /// What is wrong with it.
        problem: NameError,
    },
    /// The text is empty or too long.
    #[error(
        "the text has {bytes} bytes, expected 1 to {TEXT_BYTES_MAX} that are not all white space; \
             split it into several observations or keep a summary"
    )]
    Text {
        /// Its length, 0 when there is only white space.
        bytes: usize,
    },
    /// The metadata is not an object, or too large, or nested too deeply.
    #[error(
        "the metadata {problem}, expected an object of \
              at most {METADATA_BYTES_MAX} bytes and {METADATA_DEPTH_MAX} levels"
    )]
    Metadata {
        /// What was found instead.
        problem: String,
    },
    /// A number does not fit into the store.
    #[error("the {field} {given} is too large, expected at most {}", i64::MAX)]
    Number {
        /// `recorded_at`, `step` or `time`.
        field: &'static str,
        /// The number.
        given: u64,
    },
    /// The run named as the source is not a name.
    #[error("the source run {problem}")]
    Run {
        /// What is wrong with it.
        problem: NameError,
    },
    /// The entity exists and is of another type.
    #[error("the entity `{entity}` is of type `{existing}`, not `{given}`; use that type or another name")]
    EntityType {
        /// The name of the entity.
        entity: String,
        /// The type it has.
        existing: String,
        /// The type that the new observation gave.
        given: String,
    },
    /// The operation id was used before, in the same scope, for something else.
    #[error(
        "the operation `{operation}` has already written another text; \
             a new write needs a new operation id"
    )]
    OperationReused {
        /// The id, in hexadecimal.
        operation: String,
    },
    /// The written scope has no such observation.
    #[error("the scope has no observation `{observation}`")]
    UnknownObservation {
        /// The id that was given.
        observation: ObservationId,
    },
    /// The observation no longer holds, so it cannot be corrected.
    #[error("the observation `{observation}` no longer holds; correct the one that replaced it")]
    Ended {
        /// The id that was given.
        observation: ObservationId,
    },
    /// The limit of a search, a walk or a listing is out of bounds.
    #[error("the limit is {given}, expected 1 to {most}")]
    Limit {
        /// What was asked for.
        given: u32,
        /// The most that may be asked for.
        most: u32,
    },
    /// The depth of a walk is out of bounds.
    #[error("the depth is {given}, expected 1 to {DEPTH_MAX}")]
    Depth {
        /// What was asked for.
        given: u32,
    },
    /// The strength of a relation is out of bounds.
    #[error("the strength is {given}, expected 0 to 1")]
    Strength {
        /// What was given.
        given: f64,
    },
    /// An observation brings too many relations.
    #[error(
        "{given} relations come with one observation, expected at most {RELATIONS_MAX}; write the others in a call of their own"
    )]
    Relations {
        /// How many there are.
        given: usize,
    },
    /// The lowest score of a search is out of bounds.
    #[error("the lowest score is {given}, expected 0 to 1")]
    MinScore {
        /// What was asked for.
        given: f64,
    },
    /// Another process held the file for too long. The same call may be made again.
    #[error("the memory is busy with another writer; try again")]
    Busy {
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The file is damaged.
    #[error("the memory file is damaged; restore it from a backup or start with a new one")]
    Damaged {
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// Any other trouble with the storage, such as a full disk.
    #[error("the memory file could not be read or written")]
    Storage {
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The work was given up because the program is shutting down or a thread failed.
    #[error("the memory stopped before it answered; make the same call again")]
    Stopped {
        /// What ended the thread.
        source: tokio::task::JoinError,
    },
}

impl From<rusqlite::Error> for MemoryError {
    fn from(source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { source },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged { source },
            _ => Self::Storage { source },
        }
    }
}

/// Why a memory file did not open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be opened or made.
    #[error("cannot open the memory file `{}`; check that its folder exists and \
             is writable", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The file is damaged or was never a database.
    #[error("`{}` is damaged or not a SQLite file; restore it from a backup, or \
             move it away to start with an empty memory", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The file is a database of another program.
    #[error("`{}` is a SQLite file but not a memory; name another path", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file defines something that no memory has.
    #[error("`{}` defines `{name}`, unlike a memory file, so it was not opened; restore it from a \
             backup, or move it away to start with an empty memory", path.display())]
    Definitions {
        /// The file.
        path: PathBuf,
        /// The name of the trigger, the view, the table or the index.
        name: String,
    },
    /// The file was written by a newer version of this program.
    #[error("`{}` has memory format {found}, this release reads up to {known}; \
             use a newer release", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: i64,
        /// The newest format that is known here.
        known: i64,
    },
    /// Another process held the file for too long.
    #[error("the memory file `{}` is busy with another process; try again", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The file was not copied.
    #[error(transparent)]
    Copy(#[from] dalsegno_database::OpenError),
    /// Any other trouble, such as a full disk.
    #[error("cannot prepare the memory file `{}`", path.display())]
    Storage {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
}

impl OpenError {
    /// Sorts trouble that SQLite reported while the file was opened.
    pub(crate) fn from_sqlite(path: PathBuf, source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
                Self::Unreadable { path, source }
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged { path, source },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path, source },
            _ => Self::Storage { path, source },
        }
    }
}
