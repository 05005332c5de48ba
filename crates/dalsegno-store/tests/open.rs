//! Opening files, and two processes' stores on one file.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::path::Path;

use dalsegno_store::conformance::{create, new_run, note, portable_run, run_id};
use dalsegno_store::{
    AcquireError, AppendError, OpenError, Owner, RunFilter, SqliteStore, StorageError, StorageKind, Store,
};
use rusqlite::Connection;

fn refusal(path: &Path) -> OpenError {
    let error = SqliteStore::open(path).unwrap_err();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(error.to_string().contains(name), "the message does not name the file: {error}");
    error
}

#[test]
fn a_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(refusal(folder.path()), OpenError::Folder { .. }));
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    for text in ["a", "not a database\n", &"long ".repeat(10_000)] {
        std::fs::write(&path, text).unwrap();
        let error = refusal(&path);
        assert!(matches!(error, OpenError::NotADatabase { .. }), "{} bytes: {error:?}", text.len());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn the_database_of_another_program_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE song (title TEXT)").unwrap();
    assert!(matches!(refusal(&path), OpenError::NotAJournal { .. }));
    other.pragma_update(None, "user_version", 1).unwrap();
    assert!(matches!(refusal(&path), OpenError::NotAJournal { .. }));
    let mode: String = other.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete");
}

/// The version that a file says it has.
fn version(raw: &Connection) -> i64 {
    raw.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

#[test]
fn a_journal_of_a_newer_release_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    drop(SqliteStore::open(&path).unwrap());
    let raw = Connection::open(&path).unwrap();
    let ours = version(&raw);
    raw.pragma_update(None, "user_version", ours + 1).unwrap();
    let error = refusal(&path);
    let OpenError::NewerVersion { found, supported, .. } = error else { panic!("{error}") };
    assert_eq!((found, supported), (ours + 1, ours));
}

#[test]
fn a_missing_folder_is_an_error_with_a_cause() {
    let folder = tempfile::tempdir().unwrap();
    let error = refusal(&folder.path().join("missing").join("journal.db"));
    assert!(matches!(error, OpenError::Inaccessible { .. }), "{error:?}");
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn advice_about_folders_and_rights_is_given_where_they_may_be_the_cause() {
    let said = |kind| {
        let source = StorageError::of_kind(kind);
        OpenError::Inaccessible { path: "journal.db".into(), source }.to_string()
    };
    assert_eq!(said(StorageKind::Full), "cannot open the journal `journal.db`");
    assert_eq!(said(StorageKind::Io), "cannot open the journal `journal.db`");
    let other = said(StorageKind::Other);
    assert!(
        other.starts_with("cannot open the journal `journal.db`: check that its folder exists"),
        "{other}"
    );
    let full = StorageError::of_kind(StorageKind::Full).to_string();
    assert!(full.contains("make room, then run the command again"), "{full}");
}

#[test]
fn an_empty_file_becomes_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    std::fs::write(&path, "").unwrap();
    drop(SqliteStore::open(&path).unwrap());
    drop(SqliteStore::open(&path).unwrap());
}

#[tokio::test]
async fn a_journal_is_there_again_after_it_was_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let owner = Owner::claim(&folder.path().join("owners")).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let mut lease = create(&store, new_run(1, &owner)).await;
    store.append(&mut lease, vec![note(1)]).await.unwrap();
    let run = lease.run();
    drop((store, lease));
    assert!(!path.with_extension("db-wal").exists(), "the file was not closed");
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.read(run, 0).await.unwrap().len(), 2);
}

#[test]
fn many_may_open_a_new_file_at_once() {
    for _ in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| SqliteStore::open(&path).map(drop))).collect();
            for thread in threads {
                thread.join().unwrap().unwrap();
            }
        });
    }
}

#[tokio::test]
async fn an_owner_of_another_process_is_fenced_through_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, owners) = (folder.path().join("journal.db"), folder.path().join("owners"));
    let (one, other) = (SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap());
    let (dead, heir) = (Owner::claim(&owners).unwrap(), Owner::claim(&owners).unwrap());
    let mut stale = create(&one, new_run(1, &dead)).await;
    let error = other.acquire(stale.run(), &heir).await.unwrap_err();
    assert!(matches!(error, AcquireError::Owned { by, .. } if by == dead.id()), "{error}");
    one.append(&mut stale, vec![note(1)]).await.unwrap();
    drop(dead);
    let mut lease = other.acquire(stale.run(), &heir).await.unwrap();
    other.append(&mut lease, vec![note(2)]).await.unwrap();
    let error = one.append(&mut stale, vec![note(3)]).await.unwrap_err();
    assert!(matches!(error, AppendError::Fenced { epoch: 1, current: 2, .. }), "{error}");
    assert_eq!(one.read(lease.run(), 0).await.unwrap(), other.read(lease.run(), 0).await.unwrap());
    assert_eq!(std::fs::read_dir(&owners).unwrap().count(), 1, "the dead owner's file is still there");
}

const CHILD: &str = "DALSEGNO_OPEN_TEST_FILE";

/// Runs a test of this file again, in a process of its own that finds this path.
fn in_another_process(name: &str, path: &Path) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, path)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Says whether this process has a lock on the file; none where nobody tells.
fn has_lock(path: &Path) -> Option<bool> {
    #[cfg(target_os = "linux")]
    {
        let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap());
        let (process, file) = (std::process::id().to_string(), format!(":{inode}"));
        let is_ours = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.get(4) == Some(&process.as_str()) && fields.get(5).is_some_and(|at| at.ends_with(&file))
        };
        // The list is read piece by piece while others come and go: a lock that stands can be skipped once, not each time.
        let look = || Some(std::fs::read_to_string("/proc/locks").ok()?.lines().any(is_ours));
        (0..20).map(|_| look()).find(|found| *found != Some(false)).unwrap_or(Some(false))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        None
    }
}

/// POSIX drops all locks that a process has on a file when it closes any handle of it. Without them another process
/// could take itself for the last one, and delete the log under the feet of this one.
#[tokio::test]
async fn whoever_opens_a_journal_twice_in_one_process_keeps_its_locks() {
    const NAME: &str = "whoever_opens_a_journal_twice_in_one_process_keeps_its_locks";
    if let Some(path) = std::env::var_os(CHILD) {
        let (store, owner) = (SqliteStore::open(&path).unwrap(), Owner::in_process());
        let taken = store.runs(&RunFilter::default()).await.unwrap().len() as u64;
        assert_eq!(store.read(run_id(1), 0).await.unwrap().len() as u64, taken + 1, "a commit was lost");
        create(&store, portable_run(taken + 1, &owner)).await;
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let log = path.with_extension("db-wal");
    let (store, owner) = (SqliteStore::open(&path).unwrap(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    store.append(&mut lease, vec![note(1)]).await.unwrap();
    let raw = Connection::open(&path).unwrap();
    for attempt in 2..8 {
        match attempt {
            2 => {}
            3 => drop(SqliteStore::open(&path).unwrap()),
            4 => {
                let ours = version(&raw);
                raw.pragma_update(None, "user_version", 77).unwrap();
                assert!(matches!(refusal(&path), OpenError::NewerVersion { .. }));
                raw.pragma_update(None, "user_version", ours).unwrap();
            }
            5 => {
                let other = SqliteStore::open(&path).unwrap();
                assert!(other.doctor(|_| ()).await.unwrap().is_sound());
                other.backup(folder.path().join("copy.db"), |_| ()).await.unwrap();
            }
            6 => assert!(store.backup(&path, |_| ()).await.is_err(), "the journal itself is no target"),
            _ => {
                let archive = store.export(&[run_id(2)]).await.unwrap();
                store.import(archive).await.unwrap();
            }
        }
        assert_ne!(has_lock(&path), Some(false), "attempt {attempt}: the lock is gone");
        // The other process connects, writes and closes.
        in_another_process(NAME, &path);
        assert!(log.exists(), "attempt {attempt}: the log was deleted while this process used it");
        store.append(&mut lease, vec![note(attempt)]).await.unwrap();
    }
    in_another_process(NAME, &path);
    store.append(&mut lease, vec![note(8)]).await.unwrap();
    drop((store, raw));
    in_another_process(NAME, &path);
    assert!(!log.exists(), "nobody has it open any more");
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.read(run_id(1), 0).await.unwrap().len(), 9);
    assert_eq!(store.runs(&RunFilter::default()).await.unwrap().len(), 9);
}

/// The same promise as of the source: a path of a journal goes to SQLite and to nobody else.
#[test]
fn nothing_in_the_store_opens_the_file_of_a_journal_but_sqlite() {
    const OPENING: [&str; 12] = [
        "dalsegno_files::create_new",
        "dalsegno_files::open_or_create",
        "dalsegno_files::replace",
        "dalsegno_files::write_new",
        "File::open",
        "File::create",
        "File::options",
        "OpenOptions",
        "fs::read",
        "fs::write",
        "fs::copy",
        "tokio::fs",
    ];
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            if OPENING.iter().any(|opening| text.contains(opening)) {
                found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    // It has files of its own.
    assert_eq!(found, ["owner.rs"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_write_to_one_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let tasks: Vec<_> = (0..2u64)
        .map(|half| {
            let store = SqliteStore::open(&path).unwrap();
            tokio::spawn(async move {
                let owner = Owner::in_process();
                for number in 0..10 {
                    let mut lease = create(&store, new_run(half * 10 + number, &owner)).await;
                    for attempt in 0..10 {
                        store.append(&mut lease, vec![note(attempt)]).await.unwrap();
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.runs(&RunFilter::default()).await.unwrap().len(), 20);
    for number in 0..20 {
        assert_eq!(store.read(run_id(number), 0).await.unwrap().len(), 11);
    }
}

#[tokio::test]
async fn a_record_costs_little_more_than_its_body() {
    const RECORDS: u32 = 2_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    drop(SqliteStore::open(&path).unwrap());
    let empty = std::fs::metadata(&path).unwrap().len();
    let store = SqliteStore::open(&path).unwrap();
    let owner = Owner::in_process();
    let mut lease = create(&store, new_run(1, &owner)).await;
    let operation = dalsegno_core::OperationId::from_bytes([3; 16]);
    let records =
        (0..RECORDS).map(|attempt| dalsegno_store::NewRecord { operation: Some(operation), ..note(attempt) });
    store.append(&mut lease, records.collect()).await.unwrap();
    drop(store);
    let bodies: i64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT sum(length(body)) FROM record", [], |row| row.get(0))
        .unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    let over = (size - empty - u64::try_from(bodies).unwrap()) / u64::from(RECORDS);
    assert!(over < 90, "{over} bytes over the body");
}

#[test]
fn a_journal_that_defines_more_than_a_journal_is_refused_and_left_alone() {
    for planted in [
        "CREATE TRIGGER planted AFTER INSERT ON run BEGIN DELETE FROM record; END",
        "CREATE VIEW planted AS SELECT * FROM run",
        "CREATE TABLE planted (x)",
        "CREATE INDEX planted ON run (owner)",
        "PRAGMA user_version = 1; CREATE TRIGGER planted AFTER UPDATE ON run BEGIN SELECT 1; END",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        drop(SqliteStore::open(&path).unwrap());
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(planted).unwrap();
        let error = refusal(&path);
        assert!(
            matches!(&error, OpenError::Definitions { name, .. } if name == "planted"),
            "{planted}: {error}"
        );
    }
}

#[tokio::test]
async fn a_journal_that_is_only_read_is_read_and_never_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a journal #1 100%.db");
    let run = {
        let owner = Owner::claim(&folder.path().join("owners")).unwrap();
        let store = SqliteStore::open(&path).unwrap();
        create(&store, portable_run(1, &owner)).await.run()
    };
    let before = std::fs::read(&path).unwrap();
    let store = SqliteStore::open_read_only(&path).unwrap();
    assert_eq!(store.runs(&RunFilter::default()).await.unwrap().len(), 1);
    assert!(store.doctor(|_| {}).await.unwrap().is_sound());
    let owner = Owner::in_process();
    let refused = store.acquire(run, &owner).await.unwrap_err();
    assert!(refused.to_string().contains("read-only"), "{refused}");
    drop(store);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(SqliteStore::open_read_only(folder.path().join("missing.db")).is_err());
    assert!(!folder.path().join("missing.db").exists());
}

/// A write that leaves everything as it was would not be one: the file must change, as a full disk would not let it.
#[tokio::test]
async fn a_probe_reaches_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let (one, other) = (SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap());
    let before = other.version().await.unwrap();
    assert_eq!(other.version().await.unwrap(), before);
    one.probe().await.unwrap();
    assert_ne!(other.version().await.unwrap(), before);
}
