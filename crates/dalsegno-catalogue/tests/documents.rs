//! Every store of documents does the same after every sequence of changes; and the file survives several processes and a kill.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use dalsegno_catalogue::{
    Author, Change, ChangeError, Changed, DocumentId, DocumentKind, DocumentStore, DocumentsError, Limits,
    MemoryDocuments, OpenError, Room, SqliteDocuments, Version,
};
use proptest::prelude::*;

fn ada() -> Author {
    Author { key: "0123456789abcdef".to_owned(), name: Some("ada".to_owned()) }
}

fn tool(tenant: Option<&str>, name: &str) -> DocumentId {
    DocumentId::new(tenant, DocumentKind::Tool, name).unwrap()
}

/// Small limits, so that each is reached.
const SMALL: Limits = Limits {
    document: 40,
    workspace: Room { documents: 3, bytes: 60 },
    tenant: Room { documents: 2, bytes: 60 },
    versions: 3,
    version_bytes: 50,
    deleted: 2,
};

/// Changes a document as one who has seen everything.
fn put(store: &dyn DocumentStore, id: &DocumentId, text: Option<&str>) -> Result<Changed, ChangeError> {
    let expected = store.get(id).unwrap().map(|document| document.version);
    let generation = store.generation().unwrap();
    store.change(&Change { id, text, expected, generation, by: &ada(), at: generation + 100 })
}

fn both(limits: Limits, check: impl Fn(&dyn DocumentStore)) {
    let folder = tempfile::tempdir().unwrap();
    check(&MemoryDocuments::with_limits(limits));
    check(&SqliteDocuments::open_with(folder.path().join("private/catalogue.db"), limits).unwrap());
}

#[test]
fn a_document_is_what_was_written_last_and_its_versions_stay() {
    both(Limits::default(), |store| {
        let id = tool(Some("acme"), "crm");
        assert_eq!((store.generation().unwrap(), store.get(&id).unwrap()), (0, None));
        let first = put(store, &id, Some("{\"a\":1}\r\n")).unwrap();
        assert_eq!((first.number, first.generation, first.is_new), (1, 1, true));
        let second = put(store, &id, Some("{\"a\":2}")).unwrap();
        // The same text again is no change, also with other line ends.
        let again = put(store, &id, Some("\u{feff}{\"a\":2}\r\n")).unwrap();
        assert_eq!(again, Changed { is_new: false, ..second });
        let document = store.get(&id).unwrap().unwrap();
        assert_eq!((document.text.as_str(), document.version), ("{\"a\":2}\n", Version::of("{\"a\":2}")));
        assert_eq!((document.by.clone(), document.at), (ada(), 101));
        assert_eq!(store.snapshot().unwrap().documents, [document]);
        let gone = put(store, &id, None).unwrap();
        assert_eq!((gone.version, gone.number, gone.generation), (None, 3, 3));
        assert!(!put(store, &id, None).unwrap().is_new, "what is not there is not deleted again");
        assert_eq!(store.get(&id).unwrap(), None);
        assert!(store.snapshot().unwrap().documents.is_empty());
        let versions = store.versions(&id).unwrap();
        let told: Vec<_> = versions.iter().map(|entry| (entry.number, entry.version, entry.bytes)).collect();
        assert_eq!(told, [(3, None, 0), (2, second.version, 8), (1, first.version, 8)]);
        let text = store.version(&id, first.version.unwrap()).unwrap();
        assert_eq!(text.as_deref(), Some("{\"a\":1}\n"));
        assert_eq!(store.version(&id, Version::of("never")).unwrap(), None);
        // The same name elsewhere is another document.
        for other in [tool(None, "crm"), tool(Some("rival"), "crm")] {
            assert_eq!(store.versions(&other).unwrap(), []);
            assert_eq!(store.version(&other, first.version.unwrap()).unwrap(), None);
        }
        let kind = DocumentId::new(None, DocumentKind::Agent, "crm").unwrap();
        put(store, &kind, Some("x")).unwrap();
        assert_eq!(store.get(&tool(None, "crm")).unwrap(), None);
    });
}

#[test]
fn a_writer_that_has_not_seen_everything_is_refused() {
    both(Limits::default(), |store| {
        let (id, by) = (tool(None, "crm"), ada());
        let change = Change { id: &id, text: Some("1"), expected: None, generation: 0, by: &by, at: 1 };
        let first = store.change(&change).unwrap();
        // The document is there already.
        let refused = store.change(&Change { generation: 1, ..change }).unwrap_err();
        assert!(matches!(refused, ChangeError::Stale { found } if found == first.version), "{refused}");
        // It is at another version.
        let stale = Change { expected: Some(Version::of("0")), generation: 1, text: None, ..change };
        assert!(matches!(store.change(&stale).unwrap_err(), ChangeError::Stale { .. }));
        // Another document has changed since this change was checked.
        put(store, &tool(None, "other"), Some("x")).unwrap();
        let moved = Change { expected: first.version, generation: 1, text: Some("2"), ..change };
        assert!(matches!(store.change(&moved).unwrap_err(), ChangeError::Moved { generation: 2 }));
        assert_eq!(store.get(&id).unwrap().unwrap().text, "1\n");
        assert!(store.change(&Change { generation: 2, ..moved }).unwrap().is_new);
    });
}

#[test]
fn every_limit_holds_and_nothing_is_written_beyond_it() {
    both(SMALL, |store| {
        let large = "x".repeat(40);
        let refused = put(store, &tool(None, "a"), Some(&large)).unwrap_err();
        assert!(matches!(refused, ChangeError::TooLarge { bytes: 41, most: 40 }), "{refused}");
        for name in ["a", "b", "c"] {
            put(store, &tool(None, name), Some("0123456789")).unwrap();
        }
        let refused = put(store, &tool(None, "d"), Some("x")).unwrap_err();
        assert!(matches!(refused, ChangeError::TooMany { most: 3 }), "{refused}");
        let refused = put(store, &tool(None, "a"), Some(&"y".repeat(39))).unwrap_err();
        assert!(matches!(refused, ChangeError::Full { most: 60 }), "{refused}");
        // What takes its own place counts once.
        put(store, &tool(None, "a"), Some(&"y".repeat(37))).unwrap();
        // Tenants have room of their own.
        for name in ["a", "b"] {
            put(store, &tool(Some("acme"), name), Some("x")).unwrap();
        }
        assert!(matches!(put(store, &tool(Some("acme"), "c"), Some("x")), Err(ChangeError::TooMany { .. })));
        put(store, &tool(Some("rival"), "c"), Some("x")).unwrap();
        let generation = store.generation().unwrap();
        assert_eq!(store.snapshot().unwrap().documents.len(), 6);
        assert!(put(store, &tool(None, "e"), Some("x")).is_err());
        assert_eq!(store.generation().unwrap(), generation);
    });
}

#[test]
fn old_versions_and_deleted_documents_are_dropped_and_the_numbers_stay() {
    both(SMALL, |store| {
        let id = tool(Some("acme"), "a");
        for text in ["1", "2", "3", "4", "5"] {
            put(store, &id, Some(text)).unwrap();
        }
        let numbers = |id: &DocumentId| -> Vec<u64> {
            store.versions(id).unwrap().iter().map(|entry| entry.number).collect()
        };
        assert_eq!(numbers(&id), [5, 4, 3]);
        assert_eq!(store.version(&id, Version::of("2")).unwrap(), None);
        // By their bytes: 36 and 12 fit into 50, another 2 do too, and 36 more do not.
        put(store, &id, Some(&"z".repeat(35))).unwrap();
        put(store, &id, Some(&"y".repeat(36))).unwrap();
        assert_eq!(numbers(&id), [7]);
        assert_eq!(store.get(&id).unwrap().unwrap().number, 7);
        // The versions of the two that were deleted last stay.
        put(store, &id, None).unwrap();
        for name in ["b", "c"] {
            put(store, &tool(Some("acme"), name), Some("x")).unwrap();
            put(store, &tool(Some("acme"), name), None).unwrap();
        }
        assert_eq!(numbers(&id), [0_u64; 0]);
        assert_eq!(numbers(&tool(Some("acme"), "b")), [2, 1]);
        assert_eq!(numbers(&tool(Some("acme"), "c")), [2, 1]);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_file_and_the_memory_say_the_same_of_every_sequence(
        steps in prop::collection::vec((0_usize..2, 0_usize..4, 0_usize..6, 0_u64..3, any::<bool>()), 1..40)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalogue.db");
        // Two processes have the file open.
        let files = [SqliteDocuments::open_with(&path, SMALL).unwrap(), SqliteDocuments::open_with(&path, SMALL).unwrap()];
        let memory = MemoryDocuments::with_limits(SMALL);
        let texts = [None, Some("a"), Some("bb"), Some("a"), Some("cccccccccccccccccccccccccccccccccc"), Some("dd\r\n")];
        let tenants = [None, Some("acme")];
        for (at, (tenant, name, text, behind, knows)) in steps.into_iter().enumerate() {
            let id = tool(tenants[tenant], ["a", "b", "c", "d"][name]);
            let expected = memory.get(&id).unwrap().map(|found| found.version);
            let expected = if knows { expected } else { Some(Version::of("a")) };
            let generation = memory.generation().unwrap().saturating_sub(behind / 2);
            let by = ada();
            let change = Change { id: &id, text: texts[text], expected, generation, by: &by, at: at as u64 };
            let told = |result: Result<Changed, ChangeError>| result.map_err(|error| error.to_string());
            let file = &files[at % 2];
            prop_assert_eq!(told(file.change(&change)), told(memory.change(&change)));
            let other = &files[(at + 1) % 2];
            prop_assert_eq!(other.generation().unwrap(), memory.generation().unwrap());
            prop_assert_eq!(other.snapshot().unwrap(), memory.snapshot().unwrap());
            prop_assert_eq!(other.versions(&id).unwrap(), memory.versions(&id).unwrap());
            for text in texts.into_iter().flatten() {
                let version = Version::of(text);
                prop_assert_eq!(file.version(&id, version).unwrap(), memory.version(&id, version).unwrap());
            }
        }
    }
}

#[test]
fn of_two_writers_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    let id = tool(None, "crm");
    SqliteDocuments::open(&path).unwrap();
    for round in 0..20 {
        let start = std::sync::Barrier::new(2);
        let (path, id, start) = (&path, &id, &start);
        let won: usize = std::thread::scope(|scope| {
            let threads = ["one", "two"].map(|who| {
                scope.spawn(move || {
                    let store = SqliteDocuments::open(path).unwrap();
                    let expected = store.get(id).unwrap().map(|document| document.version);
                    let generation = store.generation().unwrap();
                    let text = format!("{who} {round}");
                    start.wait();
                    let by = ada();
                    let change = Change { id, text: Some(&text), expected, generation, by: &by, at: 1 };
                    match store.change(&change) {
                        Ok(_) => 1,
                        Err(ChangeError::Stale { .. }) => 0,
                        Err(other) => panic!("{other}"),
                    }
                })
            });
            threads.map(|thread| thread.join().unwrap()).iter().sum()
        });
        assert_eq!(won, 1, "round {round}");
    }
}

/// The file in which [`writer`] writes.
const PLACE: &str = "DALSEGNO_TEST_CATALOGUE";

/// Not a test of its own: the process that the next test kills. It says each generation once it has been acknowledged.
#[test]
fn writer() {
    let Ok(path) = std::env::var(PLACE) else { return };
    let store = SqliteDocuments::open(path).unwrap();
    for round in 0_u64.. {
        let id = tool(None, if round.is_multiple_of(2) { "one" } else { "two" });
        let text = format!("{round} {}", "x".repeat(2_000));
        let changed = put(&store, &id, Some(text.as_str()).filter(|_| !round.is_multiple_of(5))).unwrap();
        println!("\nwrote {}", changed.generation);
    }
}

#[test]
fn after_a_kill_the_catalogue_is_whole_and_has_all_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    let mut before = 0;
    for kills in 1_usize..=12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer", "--nocapture"])
            .env(PLACE, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let wrote =
            lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("wrote ")?.parse::<u64>().ok());
        let last = wrote.take(kills * 3).last().unwrap();
        // On Unix this is SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        let store = SqliteDocuments::open(&path).unwrap();
        let snapshot = store.snapshot().unwrap();
        assert!(snapshot.generation >= last && last > before, "{last} {}", snapshot.generation);
        before = snapshot.generation;
        let mut changes: Vec<_> =
            ["one", "two"].iter().flat_map(|name| store.versions(&tool(None, name)).unwrap()).collect();
        changes.sort_by_key(|entry| entry.at);
        assert_eq!(changes.last().unwrap().at, snapshot.generation - 1 + 100);
        let connection = rusqlite::Connection::open(&path).unwrap();
        let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
    }
}

#[test]
fn what_was_changed_in_the_file_is_refused_and_not_read_as_another_document() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    let store = SqliteDocuments::open(&path).unwrap();
    let id = tool(Some("acme"), "crm");
    for change in [
        "UPDATE change SET text = 'other'",
        "UPDATE change SET version = 'x'",
        "UPDATE change SET name = '../crm'",
        "UPDATE change SET tenant = '../acme'",
        "UPDATE change SET kind = 'door'",
    ] {
        put(&store, &id, Some("{}")).unwrap();
        let connection = rusqlite::Connection::open(&path).unwrap();
        assert_eq!(connection.execute(change, []).unwrap(), 1);
        let refused = store.snapshot().unwrap_err();
        assert!(matches!(refused, DocumentsError::Damaged { .. }), "{change}: {refused}");
        connection.execute("DELETE FROM change", []).unwrap();
    }
}

#[test]
fn a_file_that_is_no_catalogue_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    let open = |path: &Path| SqliteDocuments::open(path).unwrap_err();
    std::fs::write(&path, "no database at all, and longer than the header of one would be. ".repeat(9))
        .unwrap();
    assert!(matches!(open(&path), OpenError::Storage { .. }));
    std::fs::remove_file(&path).unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE mine (x)").unwrap();
    assert!(matches!(open(&path), OpenError::Foreign { .. }));
    std::fs::remove_file(&path).unwrap();
    drop(SqliteDocuments::open(&path).unwrap());
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch("CREATE TRIGGER t AFTER INSERT ON change BEGIN DELETE FROM change; END")
        .unwrap();
    assert!(matches!(open(&path), OpenError::Foreign { .. }));
    connection.execute_batch("DROP TRIGGER t; PRAGMA user_version = 9").unwrap();
    assert!(matches!(open(&path), OpenError::Newer { found: 9, .. }));
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_the_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("private/catalogue.db");
    let store = SqliteDocuments::open(&path).unwrap();
    put(&store, &tool(None, "a"), Some("x")).unwrap();
    for entry in path.parent().unwrap().read_dir().unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o77, 0, "{:?}", entry.path());
    }
}
