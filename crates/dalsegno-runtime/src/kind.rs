//! What a program can do about an error.

use dalsegno_history::ErrorKind;
use dalsegno_store::{AcquireError, AppendError, CreateError, ImportError, PostError};
use dalsegno_workspace::NoTenant;

use crate::error::{EngineError, OpenError, RunFailure};

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
            | Self::TenantKey { .. }
            | Self::Agent { .. }
            | Self::BrokenAgent { .. }
            | Self::ServerSecret { .. }
            | Self::Principal { .. }
            | Self::TooDeep { .. }
            | Self::Model { .. }
            | Self::NoVoice { .. }
            | Self::NoLine { .. }
            | Self::NoCall { .. }
            | Self::Note { .. }
            | Self::Answer { is_late: false, .. }
            | Self::Edit { .. }
            | Self::NotAdopted { .. }
            | Self::Tenant(NoTenant::NotAName { .. } | NoTenant::Broken { .. }) => ErrorKind::Invalid,
            Self::UnknownAgent { .. } | Self::NoSigningKey | Self::Tenant(_) => ErrorKind::NotFound,
            Self::AlreadyRunning { .. }
            | Self::Foreign { .. }
            | Self::Ended { .. }
            | Self::PausedCall { .. }
            | Self::NotPaused { .. }
            | Self::Cancellable { .. }
            | Self::After { .. }
            | Self::Answer { is_late: true, .. }
            | Self::Rebind { .. } => ErrorKind::Conflict,
            Self::Suspended { .. } => ErrorKind::Suspended,
            Self::Interrupted { .. } => ErrorKind::Interrupted,
            Self::Scrubbing { .. } | Self::Budget { .. } | Self::SigningKey(_) | Self::Catalogue(_) => {
                ErrorKind::Unavailable
            }
            Self::Uncancellable { source, .. } => source.kind(),
            Self::Open(error) => error.kind(),
            Self::Create(error) => create(error),
            Self::Acquire(error) => match error {
                AcquireError::Owned { .. } | AcquireError::Foreign { .. } => ErrorKind::Conflict,
                AcquireError::UnknownRun { .. } => ErrorKind::NotFound,
                AcquireError::Unreadable(error) => ErrorKind::of_read(error),
                AcquireError::Storage(error) => ErrorKind::of_storage(error),
                _ => ErrorKind::Unavailable,
            },
            Self::History(error) => error.kind(),
            Self::Import(error) => match error {
                ImportError::RunConflict { .. } => ErrorKind::Conflict,
                ImportError::Storage(error) => ErrorKind::of_storage(error),
                ImportError::Unreadable(error) => ErrorKind::of_read(error),
                _ => ErrorKind::Invalid,
            },
            Self::Post(error) => match error {
                PostError::UnknownRun { .. } => ErrorKind::NotFound,
                PostError::TooLong { .. } => ErrorKind::Invalid,
                PostError::Storage(error) => ErrorKind::of_storage(error),
                PostError::Unreadable(error) => ErrorKind::of_read(error),
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

const fn append(error: &AppendError) -> ErrorKind {
    match error {
        AppendError::Fenced { .. } => ErrorKind::Conflict,
        AppendError::UnknownRun { .. } => ErrorKind::NotFound,
        AppendError::Storage(error) => ErrorKind::of_storage(error),
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
        CreateError::Predecessor(error) => ErrorKind::of_read(error),
        CreateError::Storage(error) => ErrorKind::of_storage(error),
        _ => ErrorKind::Defect,
    }
}
