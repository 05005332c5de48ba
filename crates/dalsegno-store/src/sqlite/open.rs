//! Opening the file: is it ours, of which version, and with which settings.
//!
//! Nobody but SQLite may open the file: POSIX drops all locks that a process has on a file as soon as it closes any
//! handle of it. Another store of this process would lose its locks, and another process could then delete the log
//! with commits that were acknowledged.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, TransactionBehavior};

use super::convert;
use crate::error::{OpenError, StorageError};

/// `SGNO`: tells a journal from the databases of other programs.
pub(crate) const APPLICATION_ID: i64 = 0x5347_4e4f;
/// The version of the schema that this release writes.
pub(crate) const VERSION: i64 = SCHEMAS.len() as i64;
/// What leads from each version to the next, beginning with an empty file. A released one never changes: a new version
/// gets a file of its own and a golden file.
const SCHEMAS: [&str; 3] =
    [include_str!("schema/v1.sql"), include_str!("schema/v2.sql"), include_str!("schema/v3.sql")];

/// How long to wait for the write lock of another process. Its transactions take milliseconds; whoever holds the lock
/// for seconds is stuck.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait between two attempts where SQLite does not wait by itself.
const BUSY_PAUSE: Duration = Duration::from_millis(2);

/// Opens the connection that writes, and brings a new or older file to this release's schema.
pub(super) fn open_writer(path: &Path) -> Result<Connection, OpenError> {
    if path.is_dir() {
        return Err(OpenError::Folder { path: path.to_owned() });
    }
    if !may_be_database(path) {
        return Err(OpenError::NotADatabase { path: path.to_owned() });
    }
    let failed = |error| explain(path, error);
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    keep_plans(&connection).map_err(failed)?;
    let read_only = connection.is_readonly(MAIN_DB).map_err(failed)?;
    let found = {
        // One transaction, since another process may be changing the schema.
        let transaction = connection.unchecked_transaction().map_err(failed)?;
        check(&transaction, path)
    };
    let found = match found {
        // SQLite only says that it could not make the files beside it.
        Err(OpenError::Inaccessible { path, source }) if read_only && source.is_unopenable() => {
            return Err(OpenError::ReadOnly { path });
        }
        found => found?,
    };
    if read_only {
        return Err(OpenError::ReadOnly { path: path.to_owned() });
    }
    // WAL: readers never wait, and a commit is one flush. FULL: that flush happens before the commit is acknowledged.
    log_ahead(&connection).map_err(failed)?;
    connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
    // What is deleted is overwritten, so that nothing erased stays behind in a page.
    connection.pragma_update_and_check(None, "secure_delete", "on", |_| Ok(())).map_err(failed)?;
    if found < VERSION {
        migrate(&mut connection, path)?;
    }
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Switches to the write-ahead log, which a new file does not have yet.
fn log_ahead(connection: &Connection) -> Result<(), rusqlite::Error> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())) {
            // SQLite does not wait by itself when two processes switch at once, since each holds what the other needs.
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(BUSY_PAUSE);
            }
            result => return result,
        }
    }
}

/// Opens a connection that reads.
pub(super) fn open_reader(path: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    keep_plans(&connection)?;
    Ok(connection)
}

/// Lets no parameter decide about a plan. Otherwise a statement that could gain by that is compiled anew each time that
/// it comes out of the cache, which costs many times what it does.
fn keep_plans(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Says whether SQLite itself finds out whether the file is a database. Only a file of one byte it takes for an empty
/// one (since it once wrote such files for empty ones), and would write over it.
fn may_be_database(path: &Path) -> bool {
    // Whatever else is wrong is told when the file is opened.
    !std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == 1)
}

/// Returns the file's version, 0 for a new one; refuses one that is not a journal that this release knows.
fn check(connection: &Connection, path: &Path) -> Result<i64, OpenError> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let read = || {
        let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((number("application_id")?, number("user_version")?, tables))
    };
    let path = path.to_owned();
    match read().map_err(|error| explain(&path, error))? {
        (0, 0, 0) => Ok(0),
        (APPLICATION_ID, found @ 1..=VERSION, _) => Ok(found),
        (APPLICATION_ID, found, _) if found > VERSION => {
            Err(OpenError::NewerVersion { path, found, supported: VERSION })
        }
        _ => Err(OpenError::NotAJournal { path }),
    }
}

/// Brings the file to this release's version in one transaction, unless another process was faster.
fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |error| explain(path, error);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let found = check(&transaction, path)?;
    for (schema, _) in SCHEMAS.iter().zip(1..).filter(|(_, version)| *version > found) {
        transaction.execute_batch(schema).map_err(failed)?;
    }
    if found < 3 {
        convert::to_version_3(&transaction).map_err(failed)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
    transaction.pragma_update(None, "user_version", VERSION).map_err(failed)?;
    transaction.commit().map_err(failed)
}

/// An empty journal in memory, for comparison.
pub(super) fn model() -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open_in_memory()?;
    for schema in SCHEMAS {
        connection.execute_batch(schema)?;
    }
    convert::to_version_3(&connection)?;
    Ok(connection)
}

fn explain(path: &Path, error: rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { path },
        Some(ErrorCode::ReadOnly) => OpenError::ReadOnly { path },
        _ => {
            let source = StorageError::new(path.to_str(), error);
            OpenError::Inaccessible { path, source }
        }
    }
}
