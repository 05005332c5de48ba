//! Why a journal cannot be opened or read.

use std::path::PathBuf;

use dalsegno_core::RunId;

use crate::fold::FoldError;

/// Why a journal could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder of the journal could not be made.
    #[error("cannot create the folder `{}`", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The store could not be opened.
    #[error(transparent)]
    Store(#[from] dalsegno_store::OpenError),
    /// The program shuts down.
    #[error("cannot open the journal: {message}: try again")]
    Stopped {
        /// What ended it.
        message: String,
    },
}

/// Why a journal does not say what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The journal could not be read, or is damaged.
    #[error(transparent)]
    Read(#[from] dalsegno_store::ReadError),
    /// The journal and the core do not agree.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// The run's configuration in the store cannot be read.
    #[error("the configuration of run {run} cannot be read: {message}: restore the store from a backup")]
    Config {
        /// The run.
        run: RunId,
        /// What is wrong.
        message: String,
    },
    /// A run names another as the one that it goes on from, and that one is none of its business.
    #[error(
        "run {run} names run {other}, which belongs to another tenant or session, as its predecessor: erase \
         run {run} if an archive brought it"
    )]
    Stranger {
        /// The run.
        run: RunId,
        /// The other run.
        other: RunId,
    },
    /// The runs before a run lead back to it, or it is a fork of more forks than are followed.
    #[error(
        "the predecessors of run {run} lead back to it, or it is a fork of too many forks: erase it if an archive brought it, \
         or begin a new session"
    )]
    Lineage {
        /// The run.
        run: RunId,
    },
    /// What a run took over from the run before it cannot be read or written.
    #[error(
        "cannot use what run {run} inherits from its predecessor: {message}: restore the journal from a backup, end \
         the run with `dalsegno abandon {run} --reason TEXT`, or begin a new session"
    )]
    Beginning {
        /// The run.
        run: RunId,
        /// What is wrong.
        message: String,
    },
    /// What a run takes over cannot be written as a part of its own.
    #[error(transparent)]
    Encode(#[from] dalsegno_store::codec::EncodeError),
    /// An outcome cannot be edited as asked.
    #[error("the outcome of operation {operation} cannot be edited: {message}")]
    Edit {
        /// The operation.
        operation: dalsegno_core::OperationId,
        /// What is wrong, and what to do instead.
        message: String,
    },
    /// The run cannot be forked as asked.
    #[error("run {run} cannot be forked: {message}")]
    Fork {
        /// The run.
        run: RunId,
        /// What is wrong, and what was expected.
        message: String,
    },
    /// Old runs could not be deleted.
    #[error(transparent)]
    Gc(#[from] dalsegno_store::GcError),
    /// Content could not be erased.
    #[error(transparent)]
    Erase(#[from] dalsegno_store::EraseError),
}

impl HistoryError {
    /// What a store says of a run that cannot be read.
    pub(crate) fn of_read(run: RunId, error: dalsegno_store::ReadError) -> Self {
        use dalsegno_store::ReadError::{DamagedConfig, UnknownConfig};
        match error {
            DamagedConfig { .. } | UnknownConfig { .. } => Self::Config { run, message: error.to_string() },
            error => Self::Read(error),
        }
    }

    /// Says whether the journal could not be read for a reason that can pass: another process locks it, the disk is full, or
    /// the disk failed.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Read(dalsegno_store::ReadError::Storage(error)) if error.is_passing())
    }
}
