//! The format of a store's file: how it is recognised, made and brought up to date.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::head::Head;
use crate::{DamagedPart, MasterKey, OpenError, SecretError};

/// Marks the file as a store of secrets, in SQLite's header: `Sgsc`.
const APPLICATION_ID: i64 = 0x5367_7363;

/// The format that this version writes and reads.
const FORMAT: i64 = 1;

/// What makes the tables. A released version never changes, comments included.
const TABLES: &str = include_str!("schema.sql");

/// How long a call waits for another process before it gives up. Writes take milliseconds, so that this is reached
/// only when something is stuck.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a call that waits for another process sleeps before it asks again.
const BUSY_PAUSE: Duration = Duration::from_millis(2);

/// Sets a connection up, and makes the tables in an empty file. A file that is no store is left untouched.
pub(super) fn prepare(connection: &mut Connection, path: &Path, key: &MasterKey) -> Result<(), OpenError> {
    let at = |source: rusqlite::Error| OpenError::at(path.to_owned(), source);
    wait_up_to(connection, BUSY_TIMEOUT).map_err(at)?;
    // What stands in the file's schema is data of somebody else until it is known.
    connection.pragma_update(None, "trusted_schema", false).map_err(at)?;
    connection.pragma_update(None, "cell_size_check", true).map_err(at)?;
    let transaction = connection.transaction().map_err(at)?;
    let made = is_made(&transaction, path)?;
    transaction.commit().map_err(at)?;
    use_write_ahead_log(connection).map_err(at)?;
    // An answered write must survive a power cut: the token that it replaced is not valid any more.
    connection.pragma_update(None, "synchronous", "FULL").map_err(at)?;
    // Whatever is deleted is overwritten. The pragma answers, unlike the others.
    connection.pragma_update_and_check(None, "secure_delete", "ON", |_| Ok(())).map_err(at)?;
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(at)?;
    if !made {
        make(connection, path, key)?;
    }
    Ok(())
}

/// Sets how long calls wait for another process.
///
/// The pauses stay short. SQLite's own grow to 100 ms, so that the longer a call has waited, the less often it asks, and
/// processes that write one value after the other get in before it until they stop.
pub(super) fn wait_up_to(connection: &mut Connection, timeout: Duration) -> rusqlite::Result<()> {
    let mut began = Instant::now();
    connection.busy_handler(Some(move |asked: i32| {
        if asked == 0 {
            began = Instant::now();
        }
        let waits = began.elapsed() < timeout;
        if waits {
            std::thread::sleep(BUSY_PAUSE);
        }
        waits
    }))
}

fn make(connection: &mut Connection, path: &Path, key: &MasterKey) -> Result<(), OpenError> {
    let at = |source: rusqlite::Error| OpenError::at(path.to_owned(), source);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(at)?;
    // Another process may have been faster.
    if is_made(&transaction, path)? {
        return Ok(());
    }
    transaction.execute_batch(TABLES).map_err(at)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(at)?;
    transaction.pragma_update(None, "user_version", FORMAT).map_err(at)?;
    Head::create(&transaction, key).map_err(|source: SecretError| OpenError::at(path.to_owned(), source))?;
    transaction.commit().map_err(at)
}

/// Says whether the file is a store, as opposed to empty.
fn is_made(connection: &Connection, path: &Path) -> Result<bool, OpenError> {
    let number = |sql: &str| {
        let found = connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        found.map_err(|source| OpenError::at(path.to_owned(), source))
    };
    let objects = number("SELECT count(*) FROM sqlite_schema")?;
    let application_id = number("PRAGMA application_id")?;
    let found = number("PRAGMA user_version")?;
    if objects == 0 && application_id == 0 && found == 0 {
        return Ok(false);
    }
    if application_id != APPLICATION_ID {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    if found != FORMAT {
        return Err(OpenError::Newer { path: path.to_owned(), found, known: FORMAT });
    }
    // A trigger, or a table that sorts in another way, would do something else than what is asked here.
    let at = |source: rusqlite::Error| OpenError::at(path.to_owned(), source);
    let expected = Connection::open_in_memory().map_err(at)?;
    expected.execute_batch(TABLES).map_err(at)?;
    if definitions(connection).map_err(at)? != definitions(&expected).map_err(at)? {
        let damaged = SecretError::Damaged { part: DamagedPart::Tables };
        return Err(OpenError::at(path.to_owned(), damaged));
    }
    Ok(true)
}

fn definitions(connection: &Connection) -> Result<Vec<[Option<String>; 4]>, rusqlite::Error> {
    let sql = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?;
    rows.collect()
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
                std::thread::sleep(BUSY_PAUSE);
            }
            other => return other,
        }
    }
}
