//! What a program can do about an error.

use dalsegno_store::{
    AcquireError, AppendError, CreateError, EraseError, ImportError, PostError, ReadError, StorageError,
};
use dalsegno_workspace::NoTenant;

use crate::error::{EngineError, OpenError, RunFailure};

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

impl OpenError {
    /// What a program can do about this error.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Folder { .. } | Self::Owner(_) | Self::Stopped { .. } => ErrorKind::Unavailable,
            Self::Store(error) => match error {
                dalsegno_store::OpenError::NotADatabase { .. }
                | dalsegno_store::OpenError::NotAJournal { .. }
                | dalsegno_store::OpenError::NewerVersion { .. }
                | dalsegno_store::OpenError::Definitions { .. } => ErrorKind::Stored,
                _ => ErrorKind::Unavailable,
            },
            Self::Memory(_) => ErrorKind::Stored,
            _ => ErrorKind::Invalid,
        }
    }
}

impl EngineError {
    /// What a program can do about this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::UserSecret { .. }
            | Self::SecretName { .. }
            | Self::ToolkitConfig { .. }
            | Self::Agent { .. }
            | Self::BrokenAgent { .. }
            | Self::ServerSecret { .. }
            | Self::Principal { .. }
            | Self::TooDeep { .. }
            | Self::Model { .. }
            | Self::Fork { .. }
            | Self::Answer { is_late: false, .. }
            | Self::Edit { .. }
            | Self::NotAdopted { .. }
            | Self::Tenant(NoTenant::NotAName { .. } | NoTenant::Broken { .. })
            | Self::ReadOnly { .. } => ErrorKind::Invalid,
            Self::UnknownAgent { .. } | Self::NoSigningKey | Self::Tenant(_) => ErrorKind::NotFound,
            Self::AlreadyRunning { .. }
            | Self::Foreign { .. }
            | Self::Stranger { .. }
            | Self::Ended { .. }
            | Self::Cancellable { .. }
            | Self::After { .. }
            | Self::Answer { is_late: true, .. }
            | Self::Rebind { .. } => ErrorKind::Conflict,
            Self::Suspended { .. } => ErrorKind::Suspended,
            Self::Interrupted { .. } => ErrorKind::Interrupted,
            Self::Scrubbing { .. } | Self::SigningKey(_) | Self::Catalogue(_) => ErrorKind::Unavailable,
            Self::Fold(_) | Self::Config { .. } | Self::Lineage { .. } | Self::Beginning { .. } => {
                ErrorKind::Stored
            }
            Self::Uncancellable { source, .. } => source.kind(),
            Self::Open(error) => error.kind(),
            Self::Create(error) => create(error),
            Self::Acquire(error) => match error {
                AcquireError::Owned { .. } | AcquireError::Foreign { .. } => ErrorKind::Conflict,
                AcquireError::UnknownRun { .. } => ErrorKind::NotFound,
                AcquireError::Unreadable(error) => read(error),
                AcquireError::Storage(error) => storage(error),
                _ => ErrorKind::Unavailable,
            },
            Self::Read(error) => read(error),
            Self::Import(error) => match error {
                ImportError::RunConflict { .. } => ErrorKind::Conflict,
                ImportError::Storage(error) => storage(error),
                ImportError::Unreadable(error) => read(error),
                _ => ErrorKind::Invalid,
            },
            Self::Gc(error) => match error {
                dalsegno_store::GcError::Storage(error) => storage(error),
                _ => ErrorKind::Stored,
            },
            Self::Erase(error) => match error {
                EraseError::UnknownRun { .. } | EraseError::UnknownOperation { .. } => ErrorKind::NotFound,
                EraseError::Busy { .. } => ErrorKind::Unavailable,
                EraseError::Storage(error) => storage(error),
                EraseError::Unreadable(error) => read(error),
                _ => ErrorKind::Conflict,
            },
            Self::Post(error) => match error {
                PostError::UnknownRun { .. } => ErrorKind::NotFound,
                PostError::TooLong { .. } => ErrorKind::Invalid,
                PostError::Storage(error) => storage(error),
                PostError::Unreadable(error) => read(error),
                _ => ErrorKind::Conflict,
            },
            Self::Run(error) => error.kind(),
        }
    }
}

impl RunFailure {
    /// What a program can do about this error. The run can be resumed in every case but that of a defect.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Append { source, .. } => append(source),
            Self::Handoff { source, .. } | Self::Child { source, .. } => source.kind(),
            Self::Defect { .. } | Self::Panicked { .. } => ErrorKind::Defect,
        }
    }
}

const fn storage(error: &StorageError) -> ErrorKind {
    if error.is_passing() { ErrorKind::Unavailable } else { ErrorKind::Stored }
}

const fn read(error: &ReadError) -> ErrorKind {
    match error {
        ReadError::UnknownRun { .. } => ErrorKind::NotFound,
        ReadError::Storage(error) => storage(error),
        _ => ErrorKind::Stored,
    }
}

const fn append(error: &AppendError) -> ErrorKind {
    match error {
        AppendError::Fenced { .. } => ErrorKind::Conflict,
        AppendError::UnknownRun { .. } => ErrorKind::NotFound,
        AppendError::Storage(error) => storage(error),
        _ => ErrorKind::Defect,
    }
}

const fn create(error: &CreateError) -> ErrorKind {
    match error {
        CreateError::KeyConflict { .. }
        | CreateError::RunConflict { .. }
        | CreateError::SessionBusy { .. }
        | CreateError::Overtaken { .. } => ErrorKind::Conflict,
        CreateError::Append(error) => append(error),
        CreateError::Predecessor(error) => read(error),
        CreateError::Storage(error) => storage(error),
        _ => ErrorKind::Defect,
    }
}
