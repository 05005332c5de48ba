//! The examination of a whole file.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, ffi};

use super::schema;
use crate::OpenError;

/// The most findings of each kind that are reported.
const FINDINGS_MAX: usize = 20;

pub(super) fn examine(path: &Path) -> Result<Vec<String>, OpenError> {
    let examined = match look(path, "") {
        // In a folder that this user cannot write to, SQLite reads a file only if there is no log to read with it.
        Err(OpenError::Unreadable { .. }) if is_whole(path) => look(path, "?immutable=1"),
        other => other,
    };
    let damaged = match examined {
        Ok(findings) => return Ok(findings),
        Err(OpenError::Storage { path, source }) if is_short_read(&source) => {
            OpenError::Damaged { path, source }
        }
        Err(error) => error,
    };
    match damaged {
        OpenError::Damaged { .. } | OpenError::Foreign { .. } | OpenError::Definitions { .. } => {
            Ok(vec![damaged.to_string()])
        }
        other => Err(other),
    }
}

/// Says whether all that was committed is in the file itself.
fn is_whole(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    fs::metadata(log).map_or(true, |log| log.len() == 0)
}

/// Says whether a file ends before its pages do.
fn is_short_read(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_IOERR_SHORT_READ)
}

fn look(path: &Path, how: &str) -> Result<Vec<String>, OpenError> {
    let sqlite = |source| OpenError::from_sqlite(path.to_owned(), source);
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection =
        address(path, how).and_then(|address| Connection::open_with_flags(address, flags)).map_err(sqlite)?;
    schema::set_up(&connection).map_err(sqlite)?;
    schema::recognise(&connection, path)?;
    let ask = |question: &str| -> Result<Vec<String>, rusqlite::Error> {
        let mut statement = connection.prepare(question)?;
        statement.query_map([], |row| row.get(0))?.take(FINDINGS_MAX).collect()
    };
    let pages = ask("PRAGMA integrity_check(20)").map_err(sqlite)?;
    let tables = ask("PRAGMA foreign_key_check").map_err(sqlite)?;
    let pages = pages.into_iter().filter(|said| said != "ok");
    let tables =
        tables.into_iter().map(|table| format!("an entry of `{table}` refers to one that is missing"));
    Ok(pages.chain(tables).map(|finding| format!("`{}`: {finding}", path.display())).collect())
}

/// The file as SQLite is given it with more than its name.
fn address(path: &Path, how: &str) -> Result<String, rusqlite::Error> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let path = absolute.to_str().ok_or_else(|| rusqlite::Error::InvalidPath(absolute.clone()))?;
    let path = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    Ok(format!("file:{path}{how}"))
}
