//! What a program can do about an error.

use dalsegno_store::{EraseError, ReadError, StorageError};

use crate::error::HistoryError;

/// What a program can do about an error: one answer for each kind.
///
/// An error says in words what is wrong. Its kind is for code that has to choose, such as a handler that has to choose the
/// status of an HTTP response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request, the answer, the workspace or its configuration is wrong. Nothing was started. Correct it.
    Invalid,
    /// There is no such run, agent, tenant or operation.
    NotFound,
    /// The run is in a state that does not allow this: it has ended, another process executes it, or its key or session is
    /// in use. Look at the run.
    Conflict,
    /// The run waits for an answer from a person, and can be resumed with it.
    Suspended,
    /// The run was interrupted. Nothing is lost: resume it.
    Interrupted,
    /// Something that the engine needs did not answer: the disk, the journal's lock or a tool server. Try again later.
    Unavailable,
    /// What was stored cannot be used: it is damaged, erased, or from a newer release. Restore it from a backup, or use the
    /// newer release.
    Stored,
    /// A defect of Dalsegno. Please report it.
    Defect,
}

impl ErrorKind {
    /// The kind of an error of the disk, or of the database.
    pub const fn of_storage(error: &StorageError) -> Self {
        if error.is_passing() { Self::Unavailable } else { Self::Stored }
    }

    /// The kind of an error of a store that was read.
    pub const fn of_read(error: &ReadError) -> Self {
        match error {
            ReadError::UnknownRun { .. } => Self::NotFound,
            ReadError::Storage(error) => Self::of_storage(error),
            _ => Self::Stored,
        }
    }
}

impl HistoryError {
    /// What a program can do about this error.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Read(error) => ErrorKind::of_read(error),
            Self::Fold(_) | Self::Config { .. } | Self::Lineage { .. } | Self::Beginning { .. } => {
                ErrorKind::Stored
            }
            Self::Stranger { .. } => ErrorKind::Conflict,
            Self::Encode(_) => ErrorKind::Defect,
            Self::Edit { .. } | Self::Fork { .. } => ErrorKind::Invalid,
            Self::Gc(error) => match error {
                dalsegno_store::GcError::Storage(error) => ErrorKind::of_storage(error),
                _ => ErrorKind::Stored,
            },
            Self::Erase(error) => match error {
                EraseError::UnknownRun { .. } | EraseError::UnknownOperation { .. } => ErrorKind::NotFound,
                EraseError::Busy { .. } => ErrorKind::Unavailable,
                EraseError::Storage(error) => ErrorKind::of_storage(error),
                EraseError::Unreadable(error) => ErrorKind::of_read(error),
                _ => ErrorKind::Conflict,
            },
        }
    }
}
