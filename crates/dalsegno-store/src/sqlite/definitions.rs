//! What a journal's file defines: its tables and indexes, compared with those that this release makes.
//!
//! A file that somebody prepared may define triggers or views, which would change what a statement does.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use rusqlite::Connection;

use super::open;

/// Type and name of each definition, with its table and its text.
pub(super) type Definitions = BTreeMap<(String, String), (String, Option<String>)>;

/// Reads the definitions of a file.
pub(super) fn read(connection: &Connection) -> Result<Definitions, rusqlite::Error> {
    let mut statement = connection.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema")?;
    let rows = statement.query_map([], |row| {
        let key: (String, String) = (row.get(0)?, row.get(1)?);
        Ok((key, (row.get(2)?, row.get(3)?)))
    })?;
    rows.collect()
}

/// The definitions of a journal of this release.
pub(super) fn expected() -> Result<&'static Definitions, rusqlite::Error> {
    static EXPECTED: OnceLock<Definitions> = OnceLock::new();
    match EXPECTED.get() {
        Some(expected) => Ok(expected),
        None => {
            let expected = read(&open::model()?)?;
            Ok(EXPECTED.get_or_init(|| expected))
        }
    }
}

/// Finds a definition that no journal of any release has: a trigger or a view. In a file of this release, also one that is not as
/// this release makes it. One that is missing is for the examination to find.
pub(super) fn foreign(connection: &Connection, is_current: bool) -> Result<Option<String>, rusqlite::Error> {
    let found = read(connection)?;
    let expected = if is_current { Some(expected()?) } else { None };
    let is_foreign = |key: &(String, String), definition: &(String, Option<String>)| {
        let (kind, name) = (key.0.as_str(), key.1.as_str());
        match expected {
            _ if kind != "table" && kind != "index" => true,
            // What SQLite makes by itself, such as statistics.
            _ if name.starts_with("sqlite_") => false,
            Some(expected) => expected.get(key) != Some(definition),
            None => false,
        }
    };
    Ok(found.iter().find(|(key, definition)| is_foreign(key, definition)).map(|(key, _)| key.1.clone()))
}
