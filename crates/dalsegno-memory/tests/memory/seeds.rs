//! Seed files, and the one that the workspace ships.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use crate::common::{create, entities, observation, scopes, search, wait};
use dalsegno_memory::{Memory, Scope, SearchQuery, SeedCounts, SqliteMemory};

const HERE: &str = "acme/support/triage/s1";

fn load(memory: &SqliteMemory, lines: impl Into<String>) -> Result<SeedCounts, String> {
    let lines = std::io::Cursor::new(lines.into());
    wait(memory.seed(&scopes(HERE, Scope::Workspace), lines, 5)).map_err(|error| error.to_string())
}

fn incidents() -> BufReader<File> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agents/incidents.jsonl");
    BufReader::new(File::open(path).unwrap())
}

#[test]
fn loading_again_changes_nothing() {
    let memory = SqliteMemory::in_memory().unwrap();
    let lines = "{\"entity\": \"a\", \"type\": \"t\", \"text\": \"kept\", \"metadata\": {\"n\": 1, \"m\": 2}}\n\n\
                 {\"metadata\": {}, \"text\": \"kept\", \"type\": \"t\", \"entity\": \"b\"}\n";
    assert_eq!(load(&memory, lines), Ok(SeedCounts { added: 2, already: 0 }));
    assert_eq!(load(&memory, lines), Ok(SeedCounts { added: 0, already: 2 }));
    // The order of keys and the space between them are not content.
    let other = r#"{"type":"t","metadata":{"m":2,"n":1},"entity":"a","text":"kept"}"#;
    assert_eq!(load(&memory, format!("{other}\n{other}")), Ok(SeedCounts { added: 0, already: 2 }));
    assert_eq!(wait(search(&memory, &scopes(HERE, Scope::Workspace), "kept")).len(), 2);
}

#[test]
fn a_bad_line_is_named_and_nothing_is_loaded() {
    let good = r#"{"entity": "a", "type": "t", "text": "kept"}"#;
    let long = format!(r#"{{"entity": "a", "type": "t", "text": "{}"}}"#, "x".repeat(600_000));
    for (bad, expected) in [
        ("nonsense", "line 3: expected ident (column 2); expected {\"entity\": \"…\","),
        ("{\"entity\": \"a\"", "line 3: EOF while parsing an object"),
        ("{\"entity\": \"a\", \"type\": \"t\"}", "line 3: missing field `text` (column 28)"),
        ("{\"entity\": \"a\", \"txt\": \"\"}", "line 3: unknown field `txt`"),
        ("[]", "line 3: invalid length 0"),
        ("{\"entity\": \"\", \"type\": \"t\", \"text\": \"x\"}", "line 3: the entity is empty"),
        (
            "{\"entity\": \"b\", \"type\": \"t\", \"text\": \"x\", \"metadata\": 1}",
            "line 3: the metadata is a number",
        ),
        (
            "{\"entity\": \"a\", \"type\": \"u\", \"text\": \"x\"}",
            "line 3: the entity `a` is of type `t`, not `u`",
        ),
        (&long, "line 3: it is longer than 524288 bytes"),
    ] {
        let memory = SqliteMemory::in_memory().unwrap();
        let problem = load(&memory, format!("{good}\n\n{bad}\n{good}")).unwrap_err();
        assert!(problem.starts_with(expected), "{problem}");
        assert_eq!(wait(search(&memory, &scopes(HERE, Scope::Workspace), "kept")), []);
    }
}

#[test]
fn bytes_that_are_no_text_are_a_bad_line() {
    let memory = SqliteMemory::in_memory().unwrap();
    let lines: &[u8] = b"{\"entity\": \"\xff\", \"type\": \"t\", \"text\": \"x\"}";
    let problem = wait(memory.seed(&scopes(HERE, Scope::Workspace), lines, 5)).unwrap_err().to_string();
    assert!(problem.starts_with("line 1: invalid unicode code point"), "{problem}");
}

#[test]
fn a_seeded_line_and_the_same_observation_of_a_run_are_one() {
    let memory = SqliteMemory::in_memory().unwrap();
    let line = r#"{"entity": "e", "type": "incident", "text": "kept", "metadata": {"severity": "high"}}"#;
    load(&memory, line).unwrap();
    assert!(wait(create(&memory, &scopes(HERE, Scope::Workspace), observation(1, "e", "kept"))).duplicate);
}

#[test]
fn the_incidents_of_the_workspace_load_whole() {
    let memory = SqliteMemory::in_memory().unwrap();
    let scopes = scopes(HERE, Scope::Workspace);
    let counts = wait(memory.seed(&scopes, incidents(), 5)).unwrap();
    assert_eq!(counts, SeedCounts { added: 240, already: 0 });
    let counts = wait(memory.seed(&scopes, incidents(), 6)).unwrap();
    assert_eq!(counts, SeedCounts { added: 0, already: 240 });

    // Each is an incident of its own, with the metadata that agents rely on.
    let mut numbers = BTreeSet::new();
    let mut texts = BTreeSet::new();
    for line in std::io::BufRead::lines(incidents()) {
        let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let entity = line["entity"].as_str().unwrap();
        assert_eq!(line["type"], "incident", "{entity}");
        assert!(numbers.insert(entity[..8].to_owned()), "{entity}");
        assert!(texts.insert(line["text"].as_str().unwrap().to_owned()), "{entity}");
        let metadata = &line["metadata"];
        assert!(["low", "medium", "high"].contains(&metadata["severity"].as_str().unwrap()), "{entity}");
        assert!(metadata["service"].is_string() && metadata["owner"].is_string(), "{entity}");
        assert!(metadata["minutes"].as_u64().unwrap() > 0, "{entity}");
    }
    assert_eq!(
        (numbers.first().unwrap().as_str(), numbers.last().unwrap().as_str()),
        ("INC-0001", "INC-0240")
    );
}

#[test]
fn a_file_that_was_taken_in_is_known_by_its_bytes() {
    let memory = SqliteMemory::in_memory().unwrap();
    let line = |text: &str| format!("{{\"entity\": \"a\", \"type\": \"t\", \"text\": \"{text}\"}}\n");
    let file = line("one") + "\n" + &line("two");
    let is_seeded = |file: &str, place: &str| {
        let digest = *blake3::hash(file.as_bytes()).as_bytes();
        wait(memory.is_seeded(&scopes(place, Scope::Workspace), digest)).unwrap()
    };
    assert!(!is_seeded(&file, HERE));
    load(&memory, file.clone()).unwrap();
    assert!(is_seeded(&file, HERE));
    // Another file, and the same one elsewhere, are not known.
    assert!(!is_seeded(&(file.clone() + &line("three")), HERE));
    assert!(!is_seeded(&file, "acme/other/triage/s1"));
    // One with a mistake was not taken in.
    let broken = file + "nonsense\n";
    load(&memory, broken.clone()).unwrap_err();
    assert!(!is_seeded(&broken, HERE));
}

#[test]
fn a_question_in_everyday_words_finds_a_fitting_incident() {
    let memory = SqliteMemory::in_memory().unwrap();
    let scopes = scopes(HERE, Scope::Workspace);
    wait(memory.seed(&scopes, incidents(), 5)).unwrap();
    for (question, expected) in [
        ("Customers say they were charged twice for one order", "twice"),
        ("the TLS certificate expired", "certificate"),
        ("nobody can log in since the deploy", "login"),
        ("replica lag, users see stale data", "replica"),
    ] {
        let query = SearchQuery { min_score: 0.3, ..SearchQuery::new(question) };
        let hits = wait(memory.search(&scopes, &query)).unwrap();
        assert!(!hits.is_empty(), "{question}");
        let shown = format!("{:?}", entities(&hits)) + &hits.iter().map(|hit| &*hit.text).collect::<String>();
        assert!(shown.to_lowercase().contains(expected), "{question}: {shown}");
    }
}
