//! A journal's file as text, and back.

use std::fmt::Write as _;
use std::path::Path;

use rusqlite::Connection;

fn texts(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

/// The statements that build the file again, with all blobs in hexadecimal.
pub(crate) fn dump(file: &Path) -> String {
    let connection = Connection::open(file).unwrap();
    let mut sql = String::new();
    for pragma in ["application_id", "user_version"] {
        let value: i64 = connection.pragma_query_value(None, pragma, |row| row.get(0)).unwrap();
        writeln!(sql, "PRAGMA {pragma} = {value};").unwrap();
    }
    let shape =
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid";
    for statement in texts(&connection, shape) {
        writeln!(sql, "{statement};").unwrap();
    }
    let tables =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid";
    for table in texts(&connection, tables) {
        let columns = texts(&connection, &format!("SELECT name FROM pragma_table_info('{table}')"));
        let quoted: Vec<_> = columns.iter().map(|column| format!("quote({column})")).collect();
        let rows = format!("SELECT {} FROM {table} ORDER BY 1", quoted.join(" || ', ' || "));
        for values in texts(&connection, &rows) {
            writeln!(sql, "INSERT INTO {table} ({}) VALUES ({values});", columns.join(", ")).unwrap();
        }
    }
    sql
}

/// Builds the file of a dump.
pub(crate) fn load(dump: &Path, file: &Path) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let sql = std::fs::read_to_string(dump).unwrap();
    Connection::open(file).unwrap().execute_batch(&format!("BEGIN;{sql}COMMIT;")).unwrap();
}
