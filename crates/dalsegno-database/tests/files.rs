//! Databases and keys in files: what is made, what is refused, and what is left behind.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs;
use std::path::Path;
use std::thread;

use dalsegno_database::{Format, OpenError, key};
use rusqlite::Connection;

const NOTES: Format = Format {
    what: "the file of notes",
    application_id: 0x4e6f_7465,
    version: 2,
    tables: "CREATE TABLE note (text TEXT NOT NULL) STRICT; INSERT INTO note VALUES ('first');",
};

fn notes(connection: &Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM note", [], |row| row.get(0)).unwrap()
}

fn add(connection: &Connection) {
    connection.execute("INSERT INTO note VALUES ('more')", []).unwrap();
}

/// Changes a closed file in a way that its own program never does.
fn tamper(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn a_file_is_made_once_and_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("private/notes.db");
    add(&NOTES.open(&path).unwrap());
    let again = NOTES.open(&path).unwrap();
    assert_eq!((notes(&again), notes(&NOTES.connect(&path).unwrap())), (2, 2));
}

#[cfg(unix)]
#[test]
fn a_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("notes.db"), folder.path().join("copy.db"));
    let connection = NOTES.open(&path).unwrap();
    NOTES.copy(&connection, &copy).unwrap();
    key("the key of notes", &folder.path().join("notes.key")).unwrap();
    for name in ["notes.db", "copy.db", "notes.key"] {
        let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
    }
}

#[test]
fn many_that_open_a_new_file_at_once_all_have_it() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.db");
        thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| add(&NOTES.open(&path).unwrap()))).collect();
            all.into_iter().for_each(|one| one.join().unwrap());
        });
        assert_eq!(notes(&NOTES.open(&path).unwrap()), 9);
    }
}

#[test]
fn what_is_no_such_file_is_refused_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.db");
    let other = Format { application_id: 1, what: "another file", ..NOTES };
    drop(other.open(&path).unwrap());
    let before = fs::read(&path).unwrap();
    assert!(matches!(NOTES.open(&path), Err(OpenError::Foreign { .. })));
    assert_eq!(fs::read(&path).unwrap(), before);

    let path = folder.path().join("more.db");
    drop(NOTES.open(&path).unwrap());
    tamper(&path, "CREATE TRIGGER t AFTER INSERT ON note BEGIN DELETE FROM note; END");
    assert!(matches!(NOTES.open(&path), Err(OpenError::Foreign { .. })));

    let path = folder.path().join("later.db");
    drop(NOTES.open(&path).unwrap());
    tamper(&path, "PRAGMA user_version = 3");
    let newer = NOTES.open(&path).unwrap_err();
    assert!(matches!(newer, OpenError::Newer { found: 3, known: 2, .. }), "{newer}");
    assert!(newer.remedy().unwrap().contains("newer"));

    let path = folder.path().join("text.db");
    fs::write(&path, "no database, and longer than the head of one: ".repeat(9)).unwrap();
    let text = NOTES.open(&path).unwrap_err();
    assert!(matches!(text, OpenError::Storage { .. }), "{text}");
    assert_eq!(text.remedy(), None);
}

#[test]
fn a_copy_is_whole_or_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("notes.db"), folder.path().join("copy.db"));
    let connection = NOTES.open(&path).unwrap();
    add(&connection);
    NOTES.copy(&connection, &copy).unwrap();
    assert_eq!(notes(&NOTES.open(&copy).unwrap()), 2);
    // What stands there already stays.
    let taken = NOTES.copy(&connection, &copy).unwrap_err();
    assert_eq!(taken.remedy(), Some("name a new path"));
    assert_eq!(notes(&NOTES.open(&copy).unwrap()), 2);
    // What cannot be copied leaves nothing.
    let failed = folder.path().join("failed.db");
    connection.execute_batch("BEGIN").unwrap();
    assert!(matches!(NOTES.copy(&connection, &failed), Err(OpenError::Storage { .. })));
    assert!(!failed.exists());
}

#[test]
fn a_key_is_made_once_and_what_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("private/notes.key");
    let made = key("the key of notes", &path).unwrap();
    assert_ne!(made, [0; 32]);
    assert_eq!(key("the key of notes", &path).unwrap(), made);
    fs::write(&path, [7; 31]).unwrap();
    let short = key("the key of notes", &path).unwrap_err();
    assert_eq!(short.to_string(), format!("`{}` is not the key of notes", path.display()));
}

#[test]
fn where_the_file_may_be_sound_nobody_is_told_to_move_it_away() {
    let file = |kind: std::io::ErrorKind| OpenError::File {
        what: NOTES.what,
        path: "n".into(),
        source: kind.into(),
    };
    let database = |code| {
        NOTES.failed(Path::new("n"), rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None))
    };
    use std::io::ErrorKind as Kind;
    for (error, word) in [
        (file(Kind::StorageFull), "room"),
        (file(Kind::PermissionDenied), "let this user"),
        (file(Kind::ReadOnlyFilesystem), "read-only"),
        (database(rusqlite::ffi::SQLITE_FULL), "room"),
        (database(rusqlite::ffi::SQLITE_IOERR_SHMSIZE), "full"),
        (database(rusqlite::ffi::SQLITE_READONLY), "read-only"),
        (database(rusqlite::ffi::SQLITE_CANTOPEN), "let this user"),
        (database(rusqlite::ffi::SQLITE_BUSY), "try again"),
    ] {
        assert!(error.remedy().unwrap().contains(word), "{error}: {:?}", error.remedy());
    }
    assert_eq!(database(rusqlite::ffi::SQLITE_CORRUPT).remedy(), None);
}
