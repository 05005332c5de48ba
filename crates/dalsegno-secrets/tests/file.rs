//! The file itself: who may use it, what is refused, and several openings of one file.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::thread;

use common::{Folder, name, put, tenant, value, wait};
use dalsegno_secrets::{MasterKey, OpenError, SecretError, SecretStore, SqliteSecrets};
use rusqlite::Connection;

#[test]
fn what_was_written_is_there_after_reopening() {
    let folder = Folder::new();
    wait(put(&folder.open(), "acme", "a", "kept"));
    assert_eq!(wait(value(&folder.open(), "acme", "a")).as_deref(), Some("kept"));
}

#[test]
fn every_file_of_a_store_is_its_owners_alone() {
    let folder = Folder::new();
    let store = folder.open();
    wait(put(&store, "acme", "a", "value"));
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.folder.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o7777, 0o600, "{entry:?}");
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["secrets.db", "secrets.db-shm", "secrets.db-wal"]);
}

#[test]
fn a_file_that_others_may_use_is_refused_with_the_remedy() {
    let folder = Folder::new();
    drop(folder.open());
    for mode in [0o640, 0o602, 0o644] {
        fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        let error = folder.refusal();
        assert!(matches!(&error, OpenError::TooOpen { problem, .. } if problem.mode == mode), "{error:?}");
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }
    fs::set_permissions(folder.path(), Permissions::from_mode(0o600)).unwrap();
    drop(folder.open());
}

#[test]
fn files_of_other_programs_and_of_later_versions_are_left_alone() {
    type Expected = fn(&OpenError) -> bool;
    let cases: [(&str, Expected); 3] = [
        ("CREATE TABLE t (a); PRAGMA application_id = 7;", |error| {
            matches!(error, OpenError::Foreign { .. })
        }),
        ("CREATE TABLE t (a);", |error| matches!(error, OpenError::Foreign { .. })),
        ("PRAGMA application_id = 0x53677363; PRAGMA user_version = 2;", |error| {
            matches!(error, OpenError::Newer { found: 2, known: 1, .. })
        }),
    ];
    for (sql, expected) in cases {
        let folder = Folder::new();
        folder.tamper(sql);
        fs::set_permissions(folder.path(), Permissions::from_mode(0o600)).unwrap();
        let before = fs::read(folder.path()).unwrap();
        let error = folder.refusal();
        assert!(expected(&error), "{error:?}");
        assert_eq!(fs::read(folder.path()).unwrap(), before);
    }
    let folder = Folder::new();
    fs::write(folder.path(), "no database, but long enough to be read as one ".repeat(100)).unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o600)).unwrap();
    let error = folder.refusal();
    assert!(matches!(error, OpenError::Store { source: SecretError::Corrupt { .. }, .. }), "{error:?}");
}

#[test]
fn a_file_that_cannot_be_made_is_an_error() {
    let folder = Folder::new();
    let path = folder.folder.path().join("missing").join("secrets.db");
    let error = SqliteSecrets::open(path, &folder.key).unwrap_err();
    assert!(matches!(error, OpenError::Unreadable { .. }), "{error:?}");
    let error = SqliteSecrets::open("", &folder.key).unwrap_err();
    assert!(matches!(error, OpenError::Unreadable { .. }), "{error:?}");
}

#[test]
fn many_openings_at_once_make_one_store_and_lose_nothing() {
    let folder = Folder::new();
    thread::scope(|threads| {
        for opening in 0..6 {
            let folder = &folder;
            threads.spawn(move || {
                let store = folder.open();
                wait(async {
                    for number in 0..5 {
                        put(&store, "acme", &format!("n{opening}-{number}"), &format!("{opening} {number}"))
                            .await;
                        put(&store, "acme", "shared", "raced").await;
                    }
                });
            });
        }
    });
    let store = folder.open();
    wait(async {
        for opening in 0..6 {
            for number in 0..5 {
                let expected = format!("{opening} {number}");
                assert_eq!(value(&store, "acme", &format!("n{opening}-{number}")).await, Some(expected));
            }
        }
        // Each put had a version of its own.
        assert_eq!(put(&store, "acme", "last", "last").await, 61);
        store.verify().await.unwrap();
    });
}

#[test]
fn of_two_that_make_the_file_with_different_keys_one_is_refused() {
    let folder = Folder::new();
    let keys = [folder.key.clone(), MasterKey::generate().unwrap()];
    let made = thread::scope(|threads| {
        let openings = keys.each_ref().map(|key| threads.spawn(|| SqliteSecrets::open(folder.path(), key)));
        openings.map(|opening| opening.join().unwrap())
    });
    let refused: Vec<_> = made.iter().filter_map(|opened| opened.as_ref().err()).collect();
    assert!(matches!(refused[..], [OpenError::WrongKey { .. }]), "{refused:?}");
}

#[test]
fn a_reader_that_holds_on_leaves_the_erasing_to_the_next_call() {
    let folder = Folder::new();
    let store = folder.open();
    wait(async {
        put(&store, "acme", "a", "value").await;
        let reader = Connection::open(folder.path()).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM secret;").unwrap();
        let count: i64 = reader.query_row("SELECT count(*) FROM secret", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 1);
        let removed = store.remove(&tenant("acme"), &name("a")).await;
        assert!(matches!(removed, Err(SecretError::NotErased)), "{removed:?}");
        assert_eq!(value(&store, "acme", "a").await, None);
        reader.execute_batch("COMMIT").unwrap();
        assert!(!store.remove(&tenant("acme"), &name("a")).await.unwrap());
        let log = fs::metadata(format!("{}-wal", folder.path().display())).unwrap();
        assert_eq!(log.len(), 0);
    });
}
