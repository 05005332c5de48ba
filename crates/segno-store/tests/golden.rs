//! Journals of released schema versions stay in the tree, and every release opens and reads them.
//!
//! `golden/v1.sql` is a dump of a journal with every kind of record, `golden/v1.json` what is read from it. A released
//! pair is never written again; `write_the_golden_files` is for a new version.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use segno_core::Digest;
use segno_store::conformance::{create, every_kind, new_run, run_id, snapshot, with_key};
use segno_store::{Created, Owner, RunFilter, SqliteStore, Store};
use serde_json::{Value, json};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// All that can be read from a journal.
async fn read_all(store: &SqliteStore) -> Value {
    let mut runs = Vec::new();
    for summary in store.runs(&RunFilter::default()).await.unwrap() {
        let records = store.read(summary.run, 0).await.unwrap();
        let config = store.config(summary.config).await.unwrap();
        runs.push(json!({ "summary": summary, "config": config, "records": records }));
    }
    Value::Array(runs)
}

/// The statements that build the database again, with all blobs in hexadecimal.
fn dump(connection: &Connection) -> String {
    let texts = |sql: &str| -> Vec<String> {
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let mut sql = String::new();
    for pragma in ["application_id", "user_version"] {
        let value: i64 = connection.pragma_query_value(None, pragma, |row| row.get(0)).unwrap();
        writeln!(sql, "PRAGMA {pragma} = {value};").unwrap();
    }
    for statement in texts("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid") {
        writeln!(sql, "{statement};").unwrap();
    }
    for table in texts("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid") {
        let columns = texts(&format!("SELECT name FROM pragma_table_info('{table}')"));
        let quoted =
            columns.iter().map(|column| format!("quote({column})")).collect::<Vec<_>>().join(" || ', ' || ");
        for values in texts(&format!("SELECT {quoted} FROM {table} ORDER BY 1")) {
            writeln!(sql, "INSERT INTO {table} ({}) VALUES ({values});", columns.join(", ")).unwrap();
        }
    }
    sql
}

#[tokio::test]
async fn a_journal_of_version_1_is_opened_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let sql = std::fs::read_to_string(golden("v1.sql")).unwrap();
    Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let expected: Value = serde_json::from_str(&std::fs::read_to_string(golden("v1.json")).unwrap()).unwrap();
    assert_eq!(read_all(&store).await, expected);
    assert_eq!(store.config(Digest::from_bytes([1; 32])).await.unwrap(), "{}");

    // It is not only read: its runs go on, and its keys still hold.
    let owner = Owner::in_process();
    let mut lease = store.acquire(run_id(1), &owner).await.unwrap();
    store.append(&mut lease, every_kind()).await.unwrap();
    store.save_snapshot(&lease, snapshot(3, "x")).await.unwrap();
    let again = store.create(with_key(new_run(5, &owner), "acme", "invoice 7")).await.unwrap();
    assert!(matches!(again, Created::Existing(run) if run == run_id(2)), "{again:?}");
}

/// The dump of a journal that is written now has the shape of the newest golden file: else the version must go up.
#[tokio::test]
async fn the_schema_is_that_of_the_newest_golden_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("journal.db")).unwrap();
    let schema = dump(&Connection::open(store.path()).unwrap());
    let sql = std::fs::read_to_string(golden("v1.sql")).unwrap();
    assert!(sql.starts_with(&schema), "the schema changed without a new version:\n{schema}");
}

#[tokio::test]
#[ignore = "writes the golden files of a new version"]
async fn write_the_golden_files() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("journal.db")).unwrap();
    let owner = Owner::in_process();
    let mut lease = create(&store, new_run(1, &owner)).await;
    store.append(&mut lease, every_kind()).await.unwrap();
    store.save_snapshot(&lease, snapshot(3, "x")).await.unwrap();
    store.release(lease).await.unwrap();
    let lease = create(&store, with_key(new_run(2, &owner), "acme", "invoice 7")).await;
    store.release(lease).await.unwrap();
    let json = serde_json::to_string_pretty(&read_all(&store).await).unwrap();
    std::fs::write(golden("v1.json"), json + "\n").unwrap();
    std::fs::write(golden("v1.sql"), dump(&Connection::open(store.path()).unwrap())).unwrap();
}
