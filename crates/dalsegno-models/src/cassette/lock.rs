//! One recorder of a file at a time: each writes the whole file, so a second one would undo what the first added.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::CassetteError;

/// How often a lock is taken of a file that is gone by then: each time another recorder has come and gone meanwhile.
const MAX_TRIES: usize = 64;

/// The right to write a cassette, held until it is dropped or the process ends, however it ends.
///
/// The lock is on a file of its own, `.NAME.lock` beside the cassette, since the cassette is replaced at each write.
#[derive(Debug)]
pub(super) struct Lock {
    /// Locked as long as it is open.
    _file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock of a cassette, or says that another recorder has it.
    pub(super) fn take(cassette: &Path) -> Result<Self, CassetteError> {
        let mut name = std::ffi::OsString::from(".");
        name.push(cassette.file_name().unwrap_or_default());
        name.push(".lock");
        let path = cassette.with_file_name(name);
        let failed = |source| CassetteError::Write { path: cassette.to_owned(), source };
        for _ in 0..MAX_TRIES {
            let opened = dalsegno_files::open_or_create(&path);
            let file = opened.map_err(failed)?;
            locked(file.try_lock(), cassette)?;
            // Whoever had it may have removed the file between the two calls: a lock on what no longer stands there
            // keeps nobody out.
            if is_at(&file, &path).map_err(failed)? {
                return Ok(Self { _file: file, path });
            }
        }
        Err(CassetteError::Busy { path: cassette.to_owned() })
    }
}

/// What an attempt to lock a file comes to.
fn locked(tried: Result<(), TryLockError>, cassette: &Path) -> Result<(), CassetteError> {
    tried.map_err(|error| match error {
        TryLockError::WouldBlock => CassetteError::Busy { path: cassette.to_owned() },
        TryLockError::Error(source) => CassetteError::NoLock { path: cassette.to_owned(), source },
    })
}

impl Drop for Lock {
    /// Removes the file while it is still locked. Where files cannot be told apart it stays, which does no harm.
    fn drop(&mut self) {
        if cfg!(unix) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether a file is the one that stands at a path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let opened = file.metadata()?;
    // Opening it followed a link, so this does as well.
    match fs::metadata(path) {
        Ok(found) => Ok((opened.dev(), opened.ino()) == (found.dev(), found.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Nobody removes a lock's file here.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> io::Result<bool> {
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_locks_is_named_as_such() {
        let path = Path::new("run.jsonl");
        let none = TryLockError::Error(io::ErrorKind::Unsupported.into());
        let error = locked(Err(none), path).unwrap_err();
        assert!(matches!(error, CassetteError::NoLock { .. }), "{error:?}");
        let words = error.to_string();
        assert!(words.starts_with("the cassette `run.jsonl` cannot be locked: "), "{words}");
        assert!(words.ends_with("; record to a local file"), "{words}");
        let busy = locked(Err(TryLockError::WouldBlock), path).unwrap_err();
        assert!(matches!(busy, CassetteError::Busy { .. }), "{busy:?}");
        assert!(locked(Ok(()), path).is_ok());
    }
}
