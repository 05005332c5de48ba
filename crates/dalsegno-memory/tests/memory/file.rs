//! The file itself: what opens, what is refused, and several openings of one file.

use std::fs;
use std::path::Path;
use std::thread;

use crate::common::{create, export, import, observation, relate, relation, scopes, search, wait};
use dalsegno_memory::{ImportMode, Memory, MemoryError, OpenError, Scope, SqliteMemory, Traverse};
use rusqlite::Connection;

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
        assert!(!create(&memory, &scopes, observation(1, "e", "kept text")).await.duplicate);
        assert!(create(&memory, &scopes, observation(2, "e", "kept text")).await.duplicate);
        assert!(create(&memory, &scopes, observation(2, "e", "kept text")).await.duplicate);
        search(&memory, &scopes, "kept").await
    });
    assert_eq!(before.len(), 1);
    assert_eq!(before, after);
}

#[test]
fn the_same_operation_from_many_openings_at_once_writes_one_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    let answered: usize = thread::scope(|threads| {
        let handles: Vec<_> = (0..8)
            .map(|_| {
                threads.spawn(|| {
                    // Opening a file that does not exist yet is part of the race.
                    let memory = SqliteMemory::open(&path).unwrap();
                    wait(async {
                        let mut answered = 0;
                        for operation in 0..10 {
                            let new = observation(operation, &format!("entity {operation}"), "raced text");
                            let created = create(&memory, &scopes(HERE, Scope::Workspace), new).await;
                            answered += usize::from(!created.duplicate);
                        }
                        answered
                    })
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).sum()
    });
    // Whoever asks about an operation is answered as whoever asked first.
    assert_eq!(answered, 80);
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
fn a_reader_is_not_held_up_by_a_writer_of_the_same_process() {
    use std::io::{BufReader, Read};
    use std::sync::mpsc;

    /// Lines that come only when the test has read.
    struct Held {
        given: bool,
        writing: Option<tokio::sync::oneshot::Sender<()>>,
        released: mpsc::Receiver<()>,
    }
    impl Read for Held {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if !self.given {
                let header = b"{\"format\":\"dalsegno-memory\",\"version\":1}\n\
                    {\"type\":\"entity\",\"name\":\"late\",\"entity_type\":\"t\"}\n";
                self.given = true;
                buffer[..header.len()].copy_from_slice(header);
                return Ok(header.len());
            }
            // The first line has been written by now, and the transaction is open.
            let _ = self.writing.take().map(|writing| writing.send(()));
            // Ends when the sender is dropped.
            let _ = self.released.recv();
            Ok(0)
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let memory = SqliteMemory::open(folder.path().join("memory.db")).unwrap();
    let scopes = scopes(HERE, Scope::Workspace);
    wait(async {
        create(&memory, &scopes, observation(1, "e", "text")).await;
        let (release, released) = mpsc::channel();
        let (writing, begun) = tokio::sync::oneshot::channel();
        let held = Held { given: false, writing: Some(writing), released };
        let lines = Box::new(BufReader::new(held));
        let (writer, writable) = (memory.clone(), scopes.clone());
        let writing =
            tokio::spawn(async move { writer.import(&writable, lines, ImportMode::Fail, 9).await.unwrap() });
        begun.await.unwrap();
        // More of them than there are connections that read.
        let mut readers = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let (memory, scopes) = (memory.clone(), scopes.clone());
            readers.spawn(async move { search(&memory, &scopes, "text").await.len() });
        }
        assert_eq!(readers.join_all().await, [1; 16]);
        assert_eq!(memory.entities(&scopes, "", 10).await.unwrap().entities.len(), 1);
        drop(release);
        assert_eq!(writing.await.unwrap().added, 1);
        assert_eq!(memory.entities(&scopes, "", 10).await.unwrap().entities.len(), 2);
    });
}

#[test]
fn a_panic_of_an_output_loses_no_connection() {
    struct Broken;
    impl std::io::Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            panic!("the output breaks")
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let memory = SqliteMemory::open(folder.path().join("memory.db")).unwrap();
    let scopes = scopes(HERE, Scope::Workspace);
    wait(async {
        create(&memory, &scopes, observation(1, "e", "text")).await;
        for _ in 0..8 {
            let error = memory.export(&scopes, Box::new(Broken)).await.unwrap_err();
            assert!(error.to_string().contains("stopped before it answered"), "{error}");
        }
        assert_eq!(search(&memory, &scopes, "text").await.len(), 1);
    });
}

#[test]
fn relations_and_imports_of_many_openings_at_once_are_all_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    let scopes = scopes(HERE, Scope::Workspace);
    thread::scope(|threads| {
        for opening in 0..4_u8 {
            let (path, scopes) = (&path, &scopes);
            threads.spawn(move || {
                let memory = SqliteMemory::open(path).unwrap();
                wait(async {
                    for index in 0..10 {
                        // Every opening writes the first of these, and one of its own.
                        let shared = relation(index, &format!("hub knows s{index}"), 1.0, 5);
                        relate(&memory, scopes, shared).await;
                        let own = relation(100 + opening * 10 + index, &format!("o{opening} is e{index}"), 1.0, 5);
                        relate(&memory, scopes, own).await;
                        let lines = format!(
                            r#"{{"type":"entity","name":"i{opening}","entityType":"t","observations":["{index}"]}}"#
                        );
                        import(&memory, scopes, &lines, ImportMode::Fail).await.unwrap();
                    }
                });
            });
        }
    });
    assert_eq!(count(&path, "relation"), 50);
    assert_eq!(count(&path, "operation"), 50);
    assert_eq!(count(&path, "observation"), 40);
    let memory = SqliteMemory::open(&path).unwrap();
    let walk = wait(memory.traverse(&scopes, &Traverse::new("hub"))).unwrap();
    assert_eq!(walk.relations.len(), 10);
}

#[test]
fn a_file_of_the_first_format_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    let first = Connection::open(&path).unwrap();
    first.execute_batch(include_str!("../files/format-1.sql")).unwrap();
    drop(first);
    let scopes = scopes(HERE, Scope::Workspace);
    let memory = SqliteMemory::open(&path).unwrap();
    wait(async {
        // As the version that wrote the file answered.
        let hits = search(&memory, &scopes, "cards charged twice").await;
        let shown = r#"[{"entity":"INC-1 double charge","entity_type":"incident","text":"Cards were charged twice.","score":0.7037784467792068,"why":{"bm25":3.2063377666739954,"words":["cards","charged","twice"]},"observation":"c6b09282a1956f4d6912b1f78418709b","recorded_at":1700000000000,"metadata":{"severity":"high"}}]"#;
        assert_eq!(serde_json::to_string(&hits).unwrap(), shown);
        // Operations of then are known now.
        let again = observation(1, "INC-1 double charge", "Cards were charged twice.");
        assert!(create(&memory, &scopes, again).await.duplicate);
        assert!(memory.create(&scopes, observation(1, "INC-1 double charge", "Other.")).await.is_err());

        relate(&memory, &scopes, relation(9, "INC-2 caused_by runbook", 1.0, 8)).await;
        let exported = export(&memory, &scopes).await;
        assert_eq!(exported.lines().filter(|line| line.contains("\"observation\"")).count(), 3);
        assert!(!exported.contains("Theirs"), "{exported}");
    });
    assert_eq!(count(&path, "operation"), 5);
    drop(memory);
    drop(SqliteMemory::open(&path).unwrap());
    let version: i64 =
        Connection::open(&path).unwrap().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 4);
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    drop(SqliteMemory::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = fs::read(&path).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, OpenError::Newer { found: 99, known: 4, .. }), "{error:?}");
    assert!(
        error.to_string().ends_with("has memory format 99, this release reads up to 4; use a newer release")
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

#[test]
fn a_file_that_defines_more_than_a_memory_is_refused() {
    for planted in [
        "CREATE TRIGGER planted AFTER INSERT ON entity BEGIN DELETE FROM scope; END",
        "CREATE VIEW planted AS SELECT * FROM entity",
        "CREATE TABLE planted (x)",
        "PRAGMA user_version = 1; CREATE TRIGGER planted AFTER UPDATE ON entity BEGIN SELECT 1; END",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.db");
        drop(SqliteMemory::open(&path).unwrap());
        Connection::open(&path).unwrap().execute_batch(planted).unwrap();
        let error = refusal(&path);
        assert!(
            matches!(&error, OpenError::Definitions { name, .. } if name == "planted"),
            "{planted}: {error}"
        );
    }
}

/// Lines that come when they are allowed to.
struct Slow(std::sync::mpsc::Receiver<()>, std::io::Cursor<Vec<u8>>);

impl std::io::Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        std::io::Read::read(&mut self.1, buffer)
    }
}

impl std::io::BufRead for Slow {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        // The sender is dropped when all may come.
        let _ = self.0.recv();
        self.1.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.1.consume(bytes);
    }
}

#[test]
fn an_import_that_waits_for_its_lines_keeps_nobody_from_writing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, scopes) = (folder.path().join("memory.db"), scopes(HERE, Scope::Workspace));
    let memory = SqliteMemory::open(&path).unwrap();
    let other = SqliteMemory::open(&path).unwrap();
    let exported = wait(async {
        create(&memory, &scopes, observation(1, "e", "old text")).await;
        export(&memory, &scopes).await
    });
    let (allow, allowed) = std::sync::mpsc::channel();
    let lines = Box::new(Slow(allowed, std::io::Cursor::new(exported.into_bytes())));
    let importing = {
        let scopes = scopes.clone();
        thread::spawn(move || wait(async move { memory.import(&scopes, lines, ImportMode::Fail, 77).await }))
    };
    wait(async { create(&other, &scopes, observation(2, "e", "new text")).await });
    drop(allow);
    assert_eq!(importing.join().unwrap().unwrap().added, 0);
}

#[test]
fn a_copy_has_all_scopes_and_nothing_is_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("memory.db"), folder.path().join("copy.db"));
    let memory = SqliteMemory::open(&path).unwrap();
    let places =
        [(HERE, Scope::Workspace), (HERE, Scope::Session), ("other/support/triage/s1", Scope::Tenant)];
    for (place, scope) in places {
        wait(create(&memory, &scopes(place, scope), observation(1, "e", &format!("kept {scope}"))));
    }
    // What another process is writing is not in it, and does not hold it up.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; UPDATE scope SET word_count = 0;").unwrap();
    memory.copy(&copy).unwrap();
    other.execute_batch("ROLLBACK").unwrap();
    let before = fs::read(&copy).unwrap();
    let refused = memory.copy(&copy).unwrap_err();
    assert!(matches!(refused, OpenError::Copy(_)), "{refused}");
    assert_eq!(fs::read(&copy).unwrap(), before);
    assert_eq!(SqliteMemory::examine(&copy).unwrap(), [""; 0]);
    let copied = SqliteMemory::open(&copy).unwrap();
    for (place, scope) in places {
        assert_eq!(
            wait(search(&copied, &scopes(place, scope), "kept")),
            wait(search(&memory, &scopes(place, scope), "kept"))
        );
        assert!(!wait(search(&copied, &scopes(place, scope), "kept")).is_empty());
    }
}

#[test]
fn an_examination_finds_damage_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    let memory = SqliteMemory::open(&path).unwrap();
    for operation in 0..40 {
        wait(create(
            &memory,
            &scopes(HERE, Scope::Workspace),
            observation(operation, &format!("e{operation}"), "kept text"),
        ));
    }
    assert_eq!(SqliteMemory::examine(&path).unwrap(), [""; 0], "while it is open elsewhere");
    drop(memory);
    let sound = fs::read(&path).unwrap();
    assert_eq!(SqliteMemory::examine(&path).unwrap(), [""; 0]);
    assert_eq!(fs::read(&path).unwrap(), sound);
    let find = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let findings = SqliteMemory::examine(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes);
        findings
    };
    assert_ne!(find(&sound[..sound.len() / 2]), [""; 0], "half of it");
    assert_ne!(find(&sound[..sound.len() - 4096]), [""; 0], "all but a page");
    assert_ne!(find(&sound[..100]), [""; 0], "the header alone");
    assert_ne!(find(b"nothing of the kind, and longer than a header is"), [""; 0], "another file");
    let mut torn = sound.clone();
    torn[4096 * 3..4096 * 4].fill(0);
    assert_ne!(find(&torn), [""; 0], "a page of zeros");
    fs::write(&path, &sound).unwrap();
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM entity WHERE name = 'e7';").unwrap();
    drop(connection);
    let findings = SqliteMemory::examine(&path).unwrap();
    assert!(findings.iter().any(|finding| finding.contains("refers to one that is missing")), "{findings:?}");
}
