//! The format of the file of documents: how it is recognised and made.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::error::OpenError;

/// Marks the file in SQLite's header: `Dsca`.
const APPLICATION_ID: i64 = 0x4473_6361;
/// The format that this version writes and reads.
const FORMAT: i64 = 1;
/// How long a call waits for another process. Writes take milliseconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

const TABLES: &str = "
CREATE TABLE state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    generation INTEGER NOT NULL
) STRICT;
CREATE TABLE change (
    -- Empty for a document of the workspace.
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    -- NULL for a deletion, as the text is.
    version TEXT,
    bytes INTEGER NOT NULL,
    at INTEGER NOT NULL,
    by_key TEXT NOT NULL,
    by_name TEXT,
    -- Whether it is the newest one of its document.
    is_last INTEGER NOT NULL,
    -- The last column: what only asks for the others reads none of it.
    text TEXT,
    PRIMARY KEY (tenant, kind, name, number)
) STRICT;
CREATE INDEX change_last ON change (tenant, kind, name, version, bytes) WHERE is_last = 1;
";

/// Opens the file, or makes it for its owner only.
pub(super) fn open(path: &Path) -> Result<Connection, OpenError> {
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
    let mut connection = connect(path)?;
    if is_empty(&connection).map_err(storage)? {
        make(&mut connection).map_err(storage)?;
    }
    check(&connection, path)?;
    // Readers and one writer work side by side. The first process to set it sets it for all.
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).map_err(storage)?;
    Ok(connection)
}

/// Another connection to a file that was opened.
pub(super) fn connect(path: &Path) -> Result<Connection, OpenError> {
    let storage = |source| OpenError::Storage { path: path.to_owned(), source };
    // To SQLite some names mean something else than a file; none of them begins with a folder.
    let place = Path::new(".").join(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(place, flags).map_err(storage)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(storage)?;
    connection.pragma_update(None, "trusted_schema", false).map_err(storage)?;
    connection.pragma_update(None, "cell_size_check", true).map_err(storage)?;
    // A document that was acknowledged is there after a power cut.
    connection.pragma_update(None, "synchronous", "FULL").map_err(storage)?;
    Ok(connection)
}

fn number(connection: &Connection, sql: &str) -> Result<i64, rusqlite::Error> {
    connection.query_row(sql, [], |row| row.get(0))
}

fn is_empty(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let marks = ["SELECT count(*) FROM sqlite_schema", "PRAGMA application_id", "PRAGMA user_version"];
    let marks = marks.map(|sql| number(connection, sql));
    marks.into_iter().try_fold(true, |is_empty, mark| Ok(is_empty && mark? == 0))
}

/// Makes the tables, unless another process was faster.
fn make(connection: &mut Connection) -> Result<(), rusqlite::Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !is_empty(&transaction)? {
        return Ok(());
    }
    transaction.execute_batch(TABLES)?;
    transaction.execute("INSERT INTO state (id, generation) VALUES (1, 0)", [])?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()
}

/// Refuses a file that is another program's, or of another release.
fn check(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let storage = |source| OpenError::Storage { path: path.to_owned(), source };
    let found = number(connection, "PRAGMA user_version").map_err(storage)?;
    if number(connection, "PRAGMA application_id").map_err(storage)? != APPLICATION_ID {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    if found > FORMAT {
        return Err(OpenError::Newer { path: path.to_owned(), found, known: FORMAT });
    }
    if found != FORMAT || definitions(connection).map_err(storage)? != expected().map_err(storage)? {
        // A trigger, or a table of another form, would do something else than what is asked here.
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    Ok(())
}

/// Copies the database as of this moment to a new file for its owner only, and examines the copy.
pub(super) fn copy(connection: &Connection, target: &Path) -> Result<(), OpenError> {
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
