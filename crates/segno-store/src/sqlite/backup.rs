//! A copy of the file while others write to it.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::{doctor, open};
use crate::backup::BackupError;
use crate::error::StorageError;
use crate::progress::Progress;

/// Pages of one step: 4 MiB.
const PAGES: i32 = 1024;
/// How long to wait when the copy is locked, which only a stranger can do.
const PAUSE: Duration = Duration::from_millis(5);

/// Copies the journal as it is now to a new file, and examines the copy.
pub(super) fn backup(
    source: &Connection,
    target: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), BackupError> {
    let path = || target.to_owned();
    match OpenOptions::new().write(true).create_new(true).open(target) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(BackupError::Exists { path: path() });
        }
        Err(error) => return Err(BackupError::Target { path: path(), source: error }),
    }
    let result = copy(source, target, progress).and_then(|()| check(target));
    if result.is_err() {
        for name in ["", "-wal", "-shm"] {
            let mut file = target.as_os_str().to_owned();
            file.push(name);
            // What is left of a failed copy must not be taken for one.
            let _ = std::fs::remove_file(file);
        }
    }
    result
}

fn copy(source: &Connection, target: &Path, progress: &mut dyn FnMut(Progress)) -> Result<(), BackupError> {
    let at_target = |error| BackupError::Storage(StorageError::new(target.to_str(), error));
    let mut copy = Connection::open(target).map_err(at_target)?;
    // One read transaction for all steps, so that what others commit meanwhile does not make it begin anew.
    let snapshot = source
        .unchecked_transaction()
        .and_then(|snapshot| {
            snapshot.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
            Ok(snapshot)
        })
        .map_err(|error| BackupError::Storage(StorageError::new(source.path(), error)))?;
    let backup = Backup::new(&snapshot, &mut copy).map_err(at_target)?;
    loop {
        let step = backup.step(PAGES).map_err(at_target)?;
        let state = backup.progress();
        let (total, rest) = (i64::from(state.pagecount), i64::from(state.remaining));
        progress(Progress { done: (total - rest).cast_unsigned(), total: total.cast_unsigned() });
        match step {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            _ => std::thread::sleep(PAUSE),
        }
    }
}

fn check(target: &Path) -> Result<(), BackupError> {
    let connection = open::open_writer(target)
        .map_err(|source| BackupError::Unopenable { path: target.to_owned(), source })?;
    let checkup = doctor::examine(&connection, &mut |_| ());
    if checkup.is_sound() {
        return Ok(());
    }
    Err(BackupError::Damaged { path: target.to_owned(), checkup: Box::new(checkup) })
}
