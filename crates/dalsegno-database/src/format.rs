//! The format of a database: how it is made, recognised, opened and copied.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::error::OpenError;

/// How long a call waits for another process. Writes take milliseconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two attempts where SQLite does not wait by itself.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// The format of a database.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// What the file is to its users, in a sentence: "the file of access keys".
    pub what: &'static str,
    /// Marks the file in SQLite's header.
    pub application_id: i64,
    /// The version that is written and read.
    pub version: i64,
    /// The statements that make the tables, and the rows that are there from the beginning.
    pub tables: &'static str,
}

impl Format {
    /// Opens the file, or makes it with its folder, both for their owner only. Readers and one writer work side by side.
    ///
    /// # Errors
    /// When the file cannot be opened, belongs to another user or program, or is of a newer release. Its content stays as it is then.
    pub fn open(&self, path: &Path) -> Result<Connection, OpenError> {
        let what = self.what;
        let file = |source| OpenError::File { what, path: path.to_owned(), source };
        let storage = |source| self.failed(path, source);
        if let Some(folder) = path.parent() {
            dalsegno_files::make_folder(folder).map_err(file)?;
        }
        if !dalsegno_files::reserve(path).map_err(file)? {
            if !dalsegno_files::is_ours(path) {
                return Err(OpenError::NotOurs { what, path: path.to_owned() });
            }
            dalsegno_files::close_database(path);
        }
        let mut connection = self.connect(path)?;
        if is_empty(&connection).map_err(storage)? {
            self.make(&mut connection).map_err(storage)?;
        }
        self.check(&connection, path)?;
        use_write_ahead_log(&connection).map_err(storage)?;
        Ok(connection)
    }

    /// Opens another connection to a file that [`open`](Self::open) has opened.
    ///
    /// # Errors
    /// When the database fails.
    pub fn connect(&self, path: &Path) -> Result<Connection, OpenError> {
        let storage = |source| self.failed(path, source);
        // To SQLite some names mean something else than a file; none of them begins with a folder.
        let place = Path::new(".").join(path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(place, flags).map_err(storage)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(storage)?;
        connection.pragma_update(None, "trusted_schema", false).map_err(storage)?;
        connection.pragma_update(None, "cell_size_check", true).map_err(storage)?;
        // What was acknowledged is there after a power cut: a key that was revoked stays so.
        connection.pragma_update(None, "synchronous", "FULL").map_err(storage)?;
        Ok(connection)
    }

    /// As [`copy`].
    ///
    /// # Errors
    /// As [`copy`].
    pub fn copy(&self, connection: &Connection, target: &Path) -> Result<(), OpenError> {
        copy(self.what, connection, target)
    }

    /// The error of a database that failed.
    pub fn failed(&self, path: &Path, source: rusqlite::Error) -> OpenError {
        OpenError::Storage { what: self.what, path: path.to_owned(), source }
    }

    /// Makes the tables, unless another process was faster.
    fn make(&self, connection: &mut Connection) -> Result<(), rusqlite::Error> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if !is_empty(&transaction)? {
            return Ok(());
        }
        transaction.execute_batch(self.tables)?;
        transaction.pragma_update(None, "application_id", self.application_id)?;
        transaction.pragma_update(None, "user_version", self.version)?;
        transaction.commit()
    }

    /// Refuses a file that is another program's, or of another release.
    fn check(&self, connection: &Connection, path: &Path) -> Result<(), OpenError> {
        let storage = |source| self.failed(path, source);
        let foreign = || OpenError::Foreign { what: self.what, path: path.to_owned() };
        let found = number(connection, "PRAGMA user_version").map_err(storage)?;
        if number(connection, "PRAGMA application_id").map_err(storage)? != self.application_id {
            return Err(foreign());
        }
        if found > self.version {
            return Err(OpenError::Newer { path: path.to_owned(), found, known: self.version });
        }
        // A trigger, or a table of another form, would do something else than what is asked of it.
        let is_known = definitions(connection).map_err(storage)? == self.expected().map_err(storage)?;
        if found == self.version && is_known { Ok(()) } else { Err(foreign()) }
    }

    fn expected(&self) -> Result<Vec<Option<String>>, rusqlite::Error> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(self.tables)?;
        definitions(&connection)
    }
}

/// The first process to set it sets it for all. SQLite does not wait for others here, so that this does.
fn use_write_ahead_log(connection: &Connection) -> Result<(), rusqlite::Error> {
    let start = Instant::now();
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && start.elapsed() < BUSY_TIMEOUT =>
            {
                thread::sleep(BUSY_PAUSE);
            }
            other => return other,
        }
    }
}

/// Copies the database behind a connection, as of this moment, to a new file for its owner only, and examines the copy. `what` says what
/// the file is to its users.
///
/// # Errors
/// When something stands there already, it cannot be written, or the copy is damaged. Nothing is left there then.
pub fn copy(what: &'static str, connection: &Connection, target: &Path) -> Result<(), OpenError> {
    let file = |source| OpenError::File { what, path: target.to_owned(), source };
    let storage = |source| OpenError::Storage { what, path: target.to_owned(), source };
    if !dalsegno_files::reserve(target).map_err(file)? {
        return Err(file(io::ErrorKind::AlreadyExists.into()));
    }
    let copied = || {
        let name = target.to_str().ok_or_else(|| file(io::ErrorKind::InvalidFilename.into()))?;
        connection.execute("VACUUM INTO ?1", [name]).map_err(storage)?;
        let copy = Connection::open_with_flags(target, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(storage)?;
        let found: String =
            copy.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(storage)?;
        if found != "ok" {
            return Err(OpenError::Damaged { what, path: target.to_owned() });
        }
        File::open(target).and_then(|copy| copy.sync_all()).map_err(file)
    };
    let copied = copied();
    if copied.is_err() {
        // What is left of a failed copy must not be taken for one.
        let _ = fs::remove_file(target);
    }
    copied
}

fn number(connection: &Connection, sql: &str) -> Result<i64, rusqlite::Error> {
    connection.query_row(sql, [], |row| row.get(0))
}

fn is_empty(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let marks = ["SELECT count(*) FROM sqlite_schema", "PRAGMA application_id", "PRAGMA user_version"];
    let marks = marks.map(|sql| number(connection, sql));
    marks.into_iter().try_fold(true, |is_empty, mark| Ok(is_empty && mark? == 0))
}

fn definitions(connection: &Connection) -> Result<Vec<Option<String>>, rusqlite::Error> {
    let mut statement = connection.prepare("SELECT sql FROM sqlite_schema ORDER BY name")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}
