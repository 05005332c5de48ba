//! The file itself: what opens, what is refused, and several openings of one file.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod common;

use std::fs;
use std::path::Path;
use std::thread;

use common::{create, observation, scopes, search, wait};
use rusqlite::Connection;
use segno_memory::{Memory, MemoryError, OpenError, Scope, SqliteMemory};

const HERE: &str = "acme/support/triage/s1";

fn refusal(path: &Path) -> OpenError {
    SqliteMemory::open(path).expect_err("the file must be refused")
}

fn count(path: &Path, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    Connection::open(path).unwrap().query_row(&sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn what_was_written_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    let scopes = scopes(HERE, Scope::Workspace);
    let before = wait(async {
        let memory = SqliteMemory::open(&path).unwrap();
        create(&memory, &scopes, observation(1, "e", "kept text")).await;
        search(&memory, &scopes, "kept").await
    });
    let after = wait(async {
        let memory = SqliteMemory::open(&path).unwrap();
        assert!(create(&memory, &scopes, observation(1, "e", "kept text")).await.duplicate);
        search(&memory, &scopes, "kept").await
    });
    assert_eq!(before.len(), 1);
    assert_eq!(before, after);
}

#[test]
fn the_same_operation_from_many_openings_at_once_writes_one_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    let firsts: usize = thread::scope(|threads| {
        let handles: Vec<_> = (0..8)
            .map(|_| {
                threads.spawn(|| {
                    // Opening a file that does not exist yet is part of the race.
                    let memory = SqliteMemory::open(&path).unwrap();
                    wait(async {
                        let mut firsts = 0;
                        for operation in 0..10 {
                            let new = observation(operation, &format!("entity {operation}"), "raced text");
                            let created = create(&memory, &scopes(HERE, Scope::Workspace), new).await;
                            firsts += usize::from(!created.duplicate);
                        }
                        firsts
                    })
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).sum()
    });
    assert_eq!(firsts, 10);
    assert_eq!(count(&path, "observation"), 10);
    assert_eq!(count(&path, "operation"), 10);
    let memory = SqliteMemory::open(&path).unwrap();
    assert_eq!(wait(search(&memory, &scopes(HERE, Scope::Workspace), "raced")).len(), 10);
}

#[test]
fn the_file_names_run_step_and_times_of_a_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    let memory = SqliteMemory::open(&path).unwrap();
    wait(create(&memory, &scopes(HERE, Scope::Workspace), observation(1, "e", "text")));
    let row: (String, i64, i64, i64) = Connection::open(&path)
        .unwrap()
        .query_row("SELECT source_run, source_step, valid_from, recorded_at FROM observation", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .unwrap();
    assert_eq!(row, ("run-1".to_owned(), 3, 1_700_000_000_000, 1_700_000_000_000));
}

#[test]
fn a_reader_is_not_held_up_by_a_writer_of_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    let scopes = scopes(HERE, Scope::Workspace);
    let memory = SqliteMemory::open(&path).unwrap();
    wait(create(&memory, &scopes, observation(1, "e", "text")));
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; UPDATE scope SET word_count = 0;").unwrap();
    let during = wait(search(&memory, &scopes, "text"));
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(during.len(), 1);
    assert_eq!(wait(search(&memory, &scopes, "text")), during);
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    drop(SqliteMemory::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = fs::read(&path).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, OpenError::Newer { found: 99, known: 1, .. }), "{error:?}");
    assert!(
        error
            .to_string()
            .ends_with("has memory format 99, this program knows up to 1; use a newer version of it")
    );
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    let text = "not a database\n".repeat(100);
    fs::write(&path, &text).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
    assert!(error.to_string().contains("is damaged or not a SQLite file"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE scope (id INTEGER)").unwrap();
    let before = fs::read(&path).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_missing_folder_and_a_folder_in_place_of_the_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("missing/memory.db"), folder.path().to_owned()] {
        let error = refusal(&path);
        assert!(matches!(error, OpenError::Unreadable { .. }), "{error:?}");
        assert!(error.to_string().contains("check that its folder exists"), "{error}");
    }
}

#[test]
fn damage_found_later_is_reported_as_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    let scopes = scopes(HERE, Scope::Workspace);
    wait(async {
        let memory = SqliteMemory::open(&path).unwrap();
        create(&memory, &scopes, observation(1, "e", "text")).await;
    });
    let mut bytes = fs::read(&path).unwrap();
    // The first page holds the header and the schema; all others go.
    bytes[4096..].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let memory = SqliteMemory::open(&path).unwrap();
    let outcome = wait(memory.create(&scopes, observation(2, "f", "text")));
    assert!(matches!(outcome, Err(MemoryError::Damaged { .. })), "{outcome:?}");
}
