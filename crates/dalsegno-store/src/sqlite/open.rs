//! Opening the file: is it ours, of which version, and with which settings.
//!
//! Nobody but SQLite may open the file: POSIX drops all locks that a process has on a file as soon as it closes any
//! handle of it. Another store of this process would lose its locks, and another process could then delete the log
//! with commits that were acknowledged.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, TransactionBehavior};

use super::{convert, definitions};
use crate::error::{OpenError, StorageError};

/// `SGNO`: tells a journal from the databases of other programs.
pub(crate) const APPLICATION_ID: i64 = 0x5347_4e4f;
/// The version of the schema that this release writes.
pub(crate) const VERSION: i64 = SCHEMAS.len() as i64;
/// What leads from each version to the next, beginning with an empty file. A released one never changes: a new version
/// gets a file of its own and a golden file.
const SCHEMAS: [&str; 8] = [
    include_str!("schema/v1.sql"),
    include_str!("schema/v2.sql"),
    include_str!("schema/v3.sql"),
    include_str!("schema/v4.sql"),
    include_str!("schema/v5.sql"),
    include_str!("schema/v6.sql"),
    include_str!("schema/v7.sql"),
    include_str!("schema/v8.sql"),
];

/// How long to wait for the write lock of another process. Its transactions take milliseconds; whoever holds the lock
/// for seconds is stuck.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
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
    if let Some(kind) = network(path) {
        return Err(OpenError::Network { path: path.to_owned(), kind });
    }
    let failed = |error| explain(path, error);
    keep_private(path);
    // Without the flag that makes a file: it is there, with the right mode, or cannot be made.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    distrust(&connection).map_err(failed)?;
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
    let mode = log_ahead(&connection).map_err(failed)?;
    if mode != "wal" {
        return Err(OpenError::NoLog { path: path.to_owned(), mode });
    }
    connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
    // What is deleted is overwritten, so that nothing erased stays behind in a page.
    connection.pragma_update_and_check(None, "secure_delete", "on", |_| Ok(())).map_err(failed)?;
    if found < VERSION {
        migrate(&mut connection, path)?;
    }
    refuse_foreign(&connection, path, true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Makes a missing file for its owner only, and takes the rights of others away from one that is there. The files beside it get
/// the mode that it has. What cannot be made or changed is told by what opens it.
fn keep_private(path: &Path) {
    if let Err(error) = dalsegno_files::reserve(path) {
        tracing::debug!(path = %path.display(), %error, "the file of the journal was not made");
    }
    for closed in dalsegno_files::close_database(path) {
        tracing::warn!(
            path = %closed.path.display(),
            mode = format!("{:04o}", closed.mode),
            "other users could use this file: it is closed to them from now on"
        );
    }
}

/// The network file systems that Linux tells apart, by their numbers in `statfs`. SQLite needs memory that all processes
/// share and locks that all of them see, and none of these gives both to several computers.
const NETWORKS: [(u64, &str); 9] = [
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x5346_414f, "afs"),
    (0x7375_7245, "coda"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
    (0x564c, "ncp"),
];

/// The network file system with this number.
fn network_of(number: u64) -> Option<&'static str> {
    NETWORKS.iter().find(|(known, _)| *known == number).map(|(_, kind)| *kind)
}

/// The network file system that a file is on, or will be; none when it is on another one, or that cannot be told.
#[cfg(target_os = "linux")]
fn network(path: &Path) -> Option<&'static str> {
    let place = if path.exists() { path } else { path.parent()? };
    // The type of the field differs between processors; the numbers have 32 bits.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the numbers have 32 bits")]
    let number = u64::from(rustix::fs::statfs(place).ok()?.f_type as u32);
    network_of(number)
}

#[cfg(not(target_os = "linux"))]
const fn network(_: &Path) -> Option<&'static str> {
    None
}

/// Switches to the write-ahead log, which a new file does not have yet. Returns the mode that the file has then.
fn log_ahead(connection: &Connection) -> Result<String, rusqlite::Error> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)) {
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

/// How a connection that reads is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Beside those who write.
    Shared,
    /// As a file that nobody changes, without a look at its log: for a folder in which nothing can be made.
    Unchanging,
}

/// Opens a connection that reads.
pub(super) fn open_reader(path: &Path, reading: Reading) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match reading {
        Reading::Shared => Connection::open_with_flags(path, flags)?,
        Reading::Unchanging => {
            Connection::open_with_flags(unchanging(path)?, flags | OpenFlags::SQLITE_OPEN_URI)?
        }
    };
    connection.busy_timeout(BUSY_TIMEOUT)?;
    distrust(&connection)?;
    keep_plans(&connection)?;
    Ok(connection)
}

/// The address by which SQLite opens a file without locks, log and shared memory.
fn unchanging(path: &Path) -> Result<String, rusqlite::Error> {
    let path = path.to_str().ok_or_else(|| rusqlite::Error::InvalidPath(path.to_owned()))?;
    let path = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    Ok(format!("file:{path}?immutable=1"))
}

/// Opens a journal that may only be read, and says how its connections are opened. Nothing is made or changed.
///
/// Where no file can be made beside it, SQLite reads the journal only if it is whole without its log.
pub(super) fn open_read_only(path: &Path) -> Result<Reading, OpenError> {
    let failed = |error| explain(path, error);
    let look = |reading| {
        let connection = open_reader(path, reading)?;
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))?;
        Ok::<_, rusqlite::Error>(connection)
    };
    let (reading, connection) = match look(Reading::Shared) {
        Ok(connection) => (Reading::Shared, connection),
        Err(error) if !is_unwritable(&error) => return Err(failed(error)),
        Err(_) if has_log(path) => return Err(OpenError::LogUnreadable { path: path.to_owned() }),
        Err(_) => (Reading::Unchanging, look(Reading::Unchanging).map_err(failed)?),
    };
    // An older journal has to be migrated first, and a new file holds nothing.
    if check(&connection, path)? < VERSION {
        return Err(OpenError::ReadOnly { path: path.to_owned() });
    }
    refuse_foreign(&connection, path, true)?;
    Ok(reading)
}

/// Says whether SQLite failed since it may not write, or make a file beside the journal.
fn is_unwritable(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied)
    )
}

/// Says whether commits stand in the log beside a journal, and not yet in the journal.
fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).is_ok_and(|found| found.len() > 0)
}

/// Takes what the file defines for the data of a stranger: none of its functions has effects, and its pages are checked.
fn distrust(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)
}

/// Refuses a file with definitions that no journal has.
fn refuse_foreign(connection: &Connection, path: &Path, is_current: bool) -> Result<(), OpenError> {
    match definitions::foreign(connection, is_current).map_err(|error| explain(path, error))? {
        None => Ok(()),
        Some(name) => Err(OpenError::Definitions { path: path.to_owned(), name }),
    }
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
    refuse_foreign(&transaction, path, false)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_file_system_is_known_by_its_number() {
        assert_eq!(network_of(0x6969), Some("nfs"));
        assert_eq!(network_of(0xff53_4d42), Some("cifs"));
        assert_eq!(network_of(0xef53), None, "a disk of this computer");
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(network(&folder.path().join("journal.db")), None);
    }

    #[test]
    fn a_file_that_cannot_have_a_log_says_so() {
        // A database in memory has no log either, and SQLite reports no error.
        assert_eq!(log_ahead(&Connection::open_in_memory().unwrap()).unwrap(), "memory");
    }
}
