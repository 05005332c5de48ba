//! The format of a memory file: how it is recognised, made and brought up to date.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior};

use crate::OpenError;

/// Marks the file as a memory, in SQLite's header: `Sgmm`.
const APPLICATION_ID: i64 = 0x5367_6d6d;

/// What makes each format from the one before. The number of a format is the length of the list up to it; a
/// released entry never changes.
const MIGRATIONS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("relations.sql"),
    include_str!("answers.sql"),
    include_str!("seeds.sql"),
];

/// The format that this version writes.
const FORMAT: i64 = MIGRATIONS.len() as i64;

/// How long a call waits for another process before it gives up. Writes take milliseconds, so that this is
/// reached only when something is stuck.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Sets a connection up and makes or migrates the tables. A file that is no memory is left untouched.
pub(super) fn prepare(mut connection: Connection, path: &Path) -> Result<Connection, OpenError> {
    let sqlite = |source| OpenError::from_sqlite(path.to_owned(), source);
    set_up(&connection).map_err(sqlite)?;
    let found = read_version(&mut connection, path)?;
    use_write_ahead_log(&connection).map_err(sqlite)?;
    // An answered write must survive a power cut: the run that made it will not repeat it.
    connection.pragma_update(None, "synchronous", "FULL").map_err(sqlite)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(sqlite)?;
    // What is deleted is overwritten.
    connection.pragma_update_and_check(None, "secure_delete", "ON", |_| Ok(())).map_err(sqlite)?;
    if found < MIGRATIONS.len() {
        migrate(&mut connection, path)?;
    }
    refuse_foreign(&connection, path)?;
    Ok(connection)
}

/// Says whether an open file is a memory of this version or of an older one, without changing it. An empty file is one.
pub(super) fn recognise(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    if version_within(connection, path)? == MIGRATIONS.len() {
        refuse_foreign(connection, path)
    } else {
        Ok(())
    }
}

/// Refuses a file whose definitions are not those of a memory: a trigger or a view would change what a statement does.
fn refuse_foreign(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let sqlite = |source| OpenError::from_sqlite(path.to_owned(), source);
    let expected = Connection::open_in_memory().map_err(sqlite)?;
    for migration in MIGRATIONS {
        expected.execute_batch(migration).map_err(sqlite)?;
    }
    let (found, expected) =
        (definitions(connection).map_err(sqlite)?, definitions(&expected).map_err(sqlite)?);
    match found.symmetric_difference(&expected).next() {
        None => Ok(()),
        Some((_, name, _)) => Err(OpenError::Definitions { path: path.to_owned(), name: name.clone() }),
    }
}

/// Type, name and text of each definition, but for the tables that SQLite makes by itself.
fn definitions(
    connection: &Connection,
) -> Result<BTreeSet<(String, String, Option<String>)>, rusqlite::Error> {
    let sql = "SELECT type, name, sql FROM sqlite_schema
               WHERE type NOT IN ('table', 'index') OR name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    rows.collect()
}

/// Sets up what a connection needs, whether it writes or not.
pub(super) fn set_up(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.set_prepared_statement_cache_capacity(64);
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // What the file defines is the data of a stranger until it is known.
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let sqlite = |source| OpenError::from_sqlite(path.to_owned(), source);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sqlite)?;
    // Another process may have been faster.
    let found = version_within(&transaction, path)?;
    // No format has triggers or views: they would act on the migration.
    let foreign = "SELECT name FROM sqlite_schema WHERE type NOT IN ('table', 'index') LIMIT 1";
    let foreign: Option<String> =
        transaction.query_row(foreign, [], |row| row.get(0)).optional().map_err(sqlite)?;
    if let Some(name) = foreign {
        return Err(OpenError::Definitions { path: path.to_owned(), name });
    }
    for migration in MIGRATIONS.iter().skip(found) {
        transaction.execute_batch(migration).map_err(sqlite)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(sqlite)?;
    transaction.pragma_update(None, "user_version", FORMAT).map_err(sqlite)?;
    transaction.commit().map_err(sqlite)
}

fn read_version(connection: &mut Connection, path: &Path) -> Result<usize, OpenError> {
    let sqlite = |source| OpenError::from_sqlite(path.to_owned(), source);
    let transaction = connection.transaction().map_err(sqlite)?;
    version_within(&transaction, path)
}

/// Returns the format of the file, 0 when it is empty.
fn version_within(connection: &Connection, path: &Path) -> Result<usize, OpenError> {
    let sqlite = |source| OpenError::from_sqlite(path.to_owned(), source);
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(sqlite);
    let objects = number("SELECT count(*) FROM sqlite_schema")?;
    let application_id = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    if objects == 0 && application_id == 0 && version == 0 {
        return Ok(0);
    }
    if application_id != APPLICATION_ID {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    usize::try_from(version).ok().filter(|known| *known <= MIGRATIONS.len()).ok_or_else(|| OpenError::Newer {
        path: path.to_owned(),
        found: version,
        known: FORMAT,
    })
}

/// Lets readers and one writer work side by side. SQLite does not wait for others here, so that this does.
fn use_write_ahead_log(connection: &Connection) -> Result<(), rusqlite::Error> {
    let start = Instant::now();
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && start.elapsed() < BUSY_TIMEOUT =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}
