//! The format of the file of webhooks: how it is recognised and made.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::error::OpenError;

/// Marks the file in SQLite's header: `Dswh`.
const APPLICATION_ID: i64 = 0x4473_7768;
/// The format that this version writes and reads.
const FORMAT: i64 = 1;
/// How long a call waits for another process. Writes take milliseconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

const TABLES: &str = "
CREATE TABLE endpoint (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT,
    url TEXT NOT NULL,
    -- NULL for all tenants.
    tenant TEXT,
    events TEXT NOT NULL,
    agent TEXT,
    root INTEGER NOT NULL,
    content INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    rotated_at INTEGER,
    created_at INTEGER NOT NULL,
    -- The number of the change up to which all is delivered or in `delivery`.
    position INTEGER NOT NULL,
    off_at INTEGER,
    off_reason TEXT,
    -- Of the failures since the last delivery that was accepted.
    failing_since INTEGER,
    failures INTEGER NOT NULL,
    resume_at INTEGER,
    failed_at INTEGER,
    failure TEXT,
    delivered_at INTEGER,
    delivered INTEGER NOT NULL,
    given_up INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE delivery (
    id TEXT PRIMARY KEY NOT NULL,
    endpoint TEXT NOT NULL,
    run BLOB NOT NULL,
    event TEXT NOT NULL,
    records INTEGER NOT NULL,
    change INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    failed_at INTEGER,
    next_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_due ON delivery (endpoint, next_at, change);
-- Runs whose end was seen, and the change that it was seen in: a later change of such a run is no end.
CREATE TABLE ended (
    run BLOB PRIMARY KEY NOT NULL,
    change INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- The digest of the key that the secrets of all endpoints are derived from.
CREATE TABLE root (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
    digest BLOB NOT NULL
) STRICT;
";

/// Opens the file, or makes it for its owner only.
pub(crate) fn open(path: &Path) -> Result<Connection, OpenError> {
    let file = |source| OpenError::File { path: path.to_owned(), source };
    let storage = |source| OpenError::Storage { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        dalsegno_files::make_folder(folder).map_err(file)?;
    }
    if !dalsegno_files::reserve(path).map_err(file)? {
        if !dalsegno_files::is_ours(path) {
            return Err(OpenError::NotOurs { path: path.to_owned() });
        }
        dalsegno_files::close_database(path);
    }
    // To SQLite some names mean something else than a file; none of them begins with a folder.
    let place = Path::new(".").join(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(place, flags).map_err(storage)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(storage)?;
    connection.pragma_update(None, "trusted_schema", false).map_err(storage)?;
    connection.pragma_update(None, "cell_size_check", true).map_err(storage)?;
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(storage)?;
    let number = |sql: &str| transaction.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(storage);
    let (objects, application, found) = (
        number("SELECT count(*) FROM sqlite_schema")?,
        number("PRAGMA application_id")?,
        number("PRAGMA user_version")?,
    );
    if objects == 0 && application == 0 && found == 0 {
        transaction.execute_batch(TABLES).map_err(storage)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(storage)?;
        transaction.pragma_update(None, "user_version", FORMAT).map_err(storage)?;
    } else if application != APPLICATION_ID {
        return Err(OpenError::Foreign { path: path.to_owned() });
    } else if found != FORMAT {
        return Err(OpenError::Newer { path: path.to_owned(), found, known: FORMAT });
    } else if definitions(&transaction).map_err(storage)? != expected().map_err(storage)? {
        // A trigger, or a table of another form, would do something else than what is asked here.
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    transaction.commit().map_err(storage)?;
    // Readers and one writer work side by side. Who is faster sets it for all.
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).map_err(storage)?;
    // An endpoint whose secret was shown stays, also after a power cut.
    connection.pragma_update(None, "synchronous", "FULL").map_err(storage)?;
    Ok(connection)
}

/// Copies the database as of this moment to a new file for its owner only, and examines the copy.
pub(crate) fn copy(connection: &Connection, target: &Path) -> Result<(), OpenError> {
    let path = || target.to_owned();
    let file = |source| OpenError::File { path: path(), source };
    let storage = |source| OpenError::Storage { path: path(), source };
    if !dalsegno_files::reserve(target).map_err(file)? {
        return Err(file(std::io::ErrorKind::AlreadyExists.into()));
    }
    let copied = || {
        let name = target.to_str().ok_or_else(|| file(std::io::ErrorKind::InvalidFilename.into()))?;
        connection.execute("VACUUM INTO ?1", [name]).map_err(storage)?;
        let copy = Connection::open_with_flags(target, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(storage)?;
        let found: String =
            copy.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(storage)?;
        if found != "ok" {
            return Err(OpenError::Damaged { path: path() });
        }
        std::fs::File::open(target).and_then(|copy| copy.sync_all()).map_err(file)
    };
    let copied = copied();
    if copied.is_err() {
        // What is left of a failed copy must not be taken for one.
        let _ = std::fs::remove_file(target);
    }
    copied
}

fn definitions(connection: &Connection) -> Result<Vec<Option<String>>, rusqlite::Error> {
    let mut statement = connection.prepare("SELECT sql FROM sqlite_schema ORDER BY name")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}

fn expected() -> Result<Vec<Option<String>>, rusqlite::Error> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(TABLES)?;
    definitions(&connection)
}
