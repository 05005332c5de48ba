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
    -- NULL for a deletion, as the version is.
    text TEXT,
    version TEXT,
    bytes INTEGER NOT NULL,
    at INTEGER NOT NULL,
    by_key TEXT NOT NULL,
    by_name TEXT,
    -- Whether it is the newest one of its document.
    is_last INTEGER NOT NULL,
    PRIMARY KEY (tenant, kind, name, number)
) STRICT;
CREATE INDEX change_last ON change (tenant, kind, name) WHERE is_last = 1;
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
        transaction.execute("INSERT INTO state (id, generation) VALUES (1, 0)", []).map_err(storage)?;
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
    // Readers and one writer work side by side. The first process to set it sets it for all.
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).map_err(storage)?;
    // A document that was acknowledged is there after a power cut.
    connection.pragma_update(None, "synchronous", "FULL").map_err(storage)?;
    Ok(connection)
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
