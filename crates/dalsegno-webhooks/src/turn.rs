//! Whose turn it is to deliver: of several servers on one file, one.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// The right to deliver, held until it is dropped or the process ends, however it ends.
///
/// The lock is the system's: a process that is killed has lost it at once, and no clock says when.
#[derive(Debug)]
pub struct Turn {
    /// Locked as long as it is open.
    _file: File,
}

impl Turn {
    /// Takes the turn; none while another process has it.
    pub(crate) fn take(path: &Path) -> io::Result<Option<Self>> {
        let file = dalsegno_files::open_or_create(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}
