//! A copy of the file while others write to it.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::{doctor, open};
use crate::backup::BackupError;
use crate::error::StorageError;
use crate::progress::Progress;

/// Pages of one step: 4 MiB.
const PAGES: i32 = 1024;
/// How long to wait between two attempts when the copy is locked, which only a stranger can do.
const PAUSE: Duration = Duration::from_millis(5);
/// How long to try then, without one more page. Whoever looks at a file by accident is done long before.
const PATIENCE: Duration = Duration::from_secs(10);

/// Copies the journal as it is now to a new file, and examines the copy.
pub(super) fn backup(
    source: &Connection,
    target: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), BackupError> {
    let path = || target.to_owned();
    match dalsegno_files::reserve(target) {
        Ok(true) => {}
        Ok(false) => return Err(BackupError::Exists { path: path() }),
        Err(error) => return Err(BackupError::Target { path: path(), source: error }),
    }
    let result = copy(source, target, PATIENCE, progress).and_then(|()| check(target));
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

fn copy(
    source: &Connection,
    target: &Path,
    patience: Duration,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), BackupError> {
    let at_target = |error| BackupError::Storage(StorageError::new(target.to_str(), error));
    let mut copy = Connection::open(target).map_err(at_target)?;
    // The loop below waits by itself.
    copy.busy_timeout(Duration::ZERO).map_err(at_target)?;
    // One read transaction for all steps, so that what others commit meanwhile does not make it begin anew.
    let snapshot = source
        .unchecked_transaction()
        .and_then(|snapshot| {
            snapshot.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
            Ok(snapshot)
        })
        .map_err(|error| BackupError::Storage(StorageError::new(source.path(), error)))?;
    let backup = Backup::new(&snapshot, &mut copy).map_err(at_target)?;
    let mut deadline = Instant::now() + patience;
    loop {
        let step = backup.step(PAGES).map_err(at_target)?;
        let state = backup.progress();
        let (total, rest) = (i64::from(state.pagecount), i64::from(state.remaining));
        progress(Progress { done: (total - rest).cast_unsigned(), total: total.cast_unsigned() });
        match step {
            StepResult::Done => return Ok(()),
            StepResult::More => deadline = Instant::now() + patience,
            _ if Instant::now() < deadline => std::thread::sleep(PAUSE),
            _ => return Err(BackupError::Locked { path: target.to_owned() }),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_a_stranger_keeps_locked_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("journal.db"), folder.path().join("copy.db"));
        let source = open::open_writer(&path).unwrap();
        let stranger = Connection::open(&target).unwrap();
        stranger.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let error = copy(&source, &target, Duration::from_millis(20), &mut |_| ()).unwrap_err();
        assert!(matches!(&error, BackupError::Locked { path } if *path == target), "{error}");
        stranger.execute_batch("ROLLBACK").unwrap();
        copy(&source, &target, PATIENCE, &mut |_| ()).unwrap();
        check(&target).unwrap();
    }
}
