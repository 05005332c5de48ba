//! Export and import: what they keep, merge and refuse.

use crate::common::{create, export, import, observation, relate, relation, scopes, search, unrelate, wait};
use dalsegno_memory::{
    ImportCounts, ImportMode, Memory, NewObservation, Scope, ScopeSet, Source, SqliteMemory, Traverse,
};
use proptest::prelude::*;
use serde_json::{Value, json};

conformance!(
    an_export_is_readable_lines_in_a_fixed_order,
    what_is_superseded_is_kept_and_not_found,
    modes_decide_about_what_differs_only,
    a_relation_that_stands_meets_the_one_that_stands,
    an_import_is_all_or_nothing,
    the_file_of_the_mcp_server_is_imported,
    another_scope_can_take_an_export,
    what_is_imported_does_not_pass_for_a_run_of_here,
);

const HERE: &str = "acme/support/triage/s1";
const HEADER: &str = "{\"format\":\"dalsegno-memory\",\"version\":1}\n";

fn here() -> ScopeSet {
    scopes(HERE, Scope::Workspace)
}

/// The lines of an export as they are after an import: each run that they name is marked.
fn marked(exported: &str) -> String {
    let runs = exported.replace("\"run\":\"", "\"run\":\"imported:");
    runs.replace("\"ended_run\":\"", "\"ended_run\":\"imported:")
}

fn counts(added: u64, updated: u64, skipped: u64) -> ImportCounts {
    ImportCounts { added, updated, skipped }
}

async fn what_is_imported_does_not_pass_for_a_run_of_here(memory: impl Memory) {
    relate(&memory, &here(), relation(1, "a knows b", 1.0, 30)).await;
    create(&memory, &here(), observation(2, "b", "Here.")).await;
    let exported = export(&memory, &here()).await;
    // What stands here keeps its source, whatever a file claims about it.
    let claimed = exported.replace("\"run-1\"", "\"trusted\"").replace("\"run-2\"", "\"trusted\"");
    import(&memory, &here(), &claimed, ImportMode::Update).await.unwrap();
    assert_eq!(export(&memory, &here()).await, exported);
    // What is new is marked, once.
    let there = scopes("acme/support/other/s2", Scope::Agent);
    import(&memory, &there, &claimed, ImportMode::Fail).await.unwrap();
    let marked = claimed.replace("\"trusted\"", "\"imported:trusted\"");
    assert_eq!(export(&memory, &there).await, marked);
    let elsewhere = scopes("acme/support/third/s3", Scope::Agent);
    import(&memory, &elsewhere, &marked, ImportMode::Fail).await.unwrap();
    assert_eq!(export(&memory, &elsewhere).await, marked);
}

async fn an_export_is_readable_lines_in_a_fixed_order(memory: impl Memory) {
    assert_eq!(export(&memory, &here()).await, HEADER);
    relate(&memory, &here(), relation(1, "b caused_by a", 0.5, 10)).await;
    unrelate(&memory, &here(), 2, "b caused_by a", 20).await;
    relate(&memory, &here(), relation(3, "a knows b", 1.0, 30)).await;
    create(&memory, &here(), observation(4, "b", "A \"quoted\" text\nof two lines.")).await;
    let seeded = NewObservation { source: Source::Seed, recorded_at: 7, ..observation(5, "b", "Earlier.") };
    create(&memory, &here(), seeded).await;
    create(&memory, &scopes(HERE, Scope::Agent), observation(6, "mine", "Not of this scope.")).await;
    let lines = [
        r#"{"format":"dalsegno-memory","version":1}"#,
        r#"{"type":"entity","name":"a","entity_type":"unknown"}"#,
        r#"{"type":"entity","name":"b","entity_type":"incident"}"#,
        r#"{"type":"observation","entity":"b","text":"Earlier.","metadata":{"severity":"high"},"hash":"HASH","valid_from":7,"recorded_at":7}"#,
        r#"{"type":"observation","entity":"b","text":"A \"quoted\" text\nof two lines.","metadata":{"severity":"high"},"hash":"HASH","valid_from":1700000000000,"recorded_at":1700000000000,"run":"run-1","step":3}"#,
        r#"{"type":"relation","from":"a","relation":"knows","to":"b","strength":1.0,"valid_from":30,"recorded_at":30,"run":"run-2","step":5}"#,
        r#"{"type":"relation","from":"b","relation":"caused_by","to":"a","strength":0.5,"valid_from":10,"recorded_at":10,"valid_to":20,"run":"run-2","step":5,"ended_run":"run-2","ended_step":5}"#,
    ];
    let exported: Vec<String> = export(&memory, &here())
        .await
        .lines()
        .map(|line| match line.split_once("\"hash\":\"") {
            Some((before, after)) => {
                assert!(after[..64].bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
                format!("{before}\"hash\":\"HASH{}", &after[64..])
            }
            None => line.to_owned(),
        })
        .collect();
    assert_eq!(exported, lines);
}

/// Ends one observation in favour of another, in the lines of an export.
fn supersede(exported: &str, old: &str, new: &str, at: u64) -> String {
    let mut lines: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let hash = lines.iter().find(|line| line["text"] == new).unwrap()["hash"].clone();
    let line = lines.iter_mut().find(|line| line["text"] == old).unwrap();
    line["valid_to"] = at.into();
    line["superseded_by"] = hash;
    lines.iter().map(|line| format!("{line}\n")).collect()
}

async fn what_is_superseded_is_kept_and_not_found(memory: impl Memory) {
    let at = |recorded_at, new: NewObservation| NewObservation { recorded_at, ..new };
    create(&memory, &here(), at(10, observation(1, "a", "The owner is Ann."))).await;
    create(&memory, &here(), at(20, observation(2, "a", "The owner is Bob."))).await;
    create(&memory, &here(), at(20, observation(3, "b", "The owner is nobody."))).await;
    let edited = supersede(&export(&memory, &here()).await, "The owner is Ann.", "The owner is Bob.", 20);
    assert_eq!(import(&memory, &here(), &edited, ImportMode::Update).await, Ok(counts(0, 1, 4)));

    // It is gone from the words, and from the statistics: the scores are those of a memory without it.
    let found = search(&memory, &here(), "the owner ann").await;
    let without = SqliteMemory::in_memory().unwrap();
    create(&without, &here(), at(20, observation(2, "a", "The owner is Bob."))).await;
    create(&without, &here(), at(20, observation(3, "b", "The owner is nobody."))).await;
    assert_eq!(found, search(&without, &here(), "the owner ann").await);
    assert_eq!(found.len(), 2);

    let view = memory.entity(&here(), "a").await.unwrap().unwrap();
    let [bob, ann] = &view.observations[..] else { panic!("{view:?}") };
    assert_eq!((ann.valid_to, ann.superseded_by), (Some(20), Some(bob.observation)));
    let texts = async |as_of| {
        let asked = Traverse { as_of, ..Traverse::new("a") };
        memory.traverse(&here(), &asked).await.unwrap().entities[0].observations.clone()
    };
    assert_eq!(texts(Some(15)).await, ["The owner is Ann."]);
    assert_eq!(texts(None).await, ["The owner is Bob."]);

    let exported = export(&memory, &here()).await;
    let copy = SqliteMemory::in_memory().unwrap();
    assert_eq!(import(&copy, &here(), &exported, ImportMode::Fail).await, Ok(counts(5, 0, 0)));
    assert_eq!(export(&copy, &here()).await, marked(&exported));
    assert_eq!(search(&copy, &here(), "the owner ann").await, found);

    // Whoever writes it again means it.
    let again = create(&memory, &here(), at(30, observation(9, "a", "The owner is Ann."))).await;
    assert!(again.duplicate);
    assert_eq!(search(&memory, &here(), "ann").await.len(), 1);
    assert_eq!(search(&memory, &here(), "the owner").await.len(), 3);
}

async fn modes_decide_about_what_differs_only(memory: impl Memory) {
    create(&memory, &here(), NewObservation { recorded_at: 10, ..observation(1, "a", "text") }).await;
    relate(&memory, &here(), relation(2, "a r b", 0.5, 10)).await;
    let before = export(&memory, &here()).await;
    for mode in ImportMode::ALL {
        assert_eq!(import(&memory, &here(), &before, mode).await, Ok(counts(0, 0, 4)), "{mode}");
        assert_eq!(export(&memory, &here()).await, before, "{mode}");
    }
    for (changed, what) in [
        (before.replace("incident", "person"), "line 2: the entity `a`, of type `incident`, already exists"),
        (
            before.replace(
                "\"valid_from\":10,\"recorded_at\":10,\"run\":\"run-1\"",
                "\"valid_from\":9,\"recorded_at\":10,\"run\":\"run-1\"",
            ),
            "line 3: an observation about `a` already exists",
        ),
        (
            before.replace("\"strength\":0.5", "\"strength\":0.25"),
            "line 5: the relation `a` `r` `b` already exists",
        ),
    ] {
        assert_ne!(changed, before);
        let problem = import(&memory, &here(), &changed, ImportMode::Fail).await.unwrap_err();
        assert!(problem.starts_with(what), "{problem}");
        assert!(
            problem.ends_with("mode `update` to replace what is there, or `skip` to keep it"),
            "{problem}"
        );
        assert_eq!(import(&memory, &here(), &changed, ImportMode::Skip).await, Ok(counts(0, 0, 4)));
        assert_eq!(export(&memory, &here()).await, before);
        assert_eq!(import(&memory, &here(), &changed, ImportMode::Update).await, Ok(counts(0, 1, 3)));
        assert_eq!(export(&memory, &here()).await, changed);
        assert_eq!(import(&memory, &here(), &before, ImportMode::Update).await, Ok(counts(0, 1, 3)));
        assert_eq!(export(&memory, &here()).await, before);
    }
    // A type that is unknown differs from none.
    let learned = before.replace("unknown", "service");
    assert_eq!(import(&memory, &here(), &learned, ImportMode::Fail).await, Ok(counts(0, 1, 3)));
    assert_eq!(import(&memory, &here(), &before, ImportMode::Fail).await, Ok(counts(0, 0, 4)));
    assert_eq!(export(&memory, &here()).await, learned);
}

async fn a_relation_that_stands_meets_the_one_that_stands(memory: impl Memory) {
    relate(&memory, &here(), relation(1, "a r b", 1.0, 10)).await;
    let line = |valid_from: u64, more: &str| {
        format!(
            "{HEADER}{{\"type\":\"relation\",\"from\":\"a\",\"relation\":\"r\",\"to\":\"b\",\
             \"recorded_at\":{valid_from}{more}}}\n"
        )
    };
    assert_eq!(import(&memory, &here(), &line(20, ""), ImportMode::Skip).await, Ok(counts(0, 0, 1)));
    assert_eq!(import(&memory, &here(), &line(20, ""), ImportMode::Update).await, Ok(counts(0, 1, 0)));
    // An earlier period meets none.
    let earlier = line(5, ",\"valid_to\":8");
    assert_eq!(import(&memory, &here(), &earlier, ImportMode::Fail).await, Ok(counts(1, 0, 0)));
    let view = memory.entity(&here(), "a").await.unwrap().unwrap();
    let periods: Vec<_> =
        view.relations_out.iter().map(|relation| (relation.valid_from, relation.valid_to)).collect();
    assert_eq!(periods, [(5, Some(8)), (20, None)]);
}

async fn an_import_is_all_or_nothing(memory: impl Memory) {
    relate(&memory, &here(), relation(1, "a r b", 0.5, 10)).await;
    let before = export(&memory, &here()).await;
    let good = "{\"type\":\"entity\",\"name\":\"new\",\"entity_type\":\"t\"}\n";
    let long = format!("{{\"type\":\"entity\",\"name\":\"{}\"}}", "x".repeat(5_000_000));
    let deep = format!("{{\"type\":\"entity\",\"name\":{}1{}}}", "[".repeat(200), "]".repeat(200));
    let nested = format!(
        "{{\"type\":\"observation\",\"entity\":\"new\",\"text\":\"x\",\"metadata\":{}1{}}}",
        "{\"k\":".repeat(17),
        "}".repeat(17)
    );
    let observed =
        |more: &str| format!("{{\"type\":\"observation\",\"entity\":\"new\",\"text\":\"x\"{more}}}");
    let related = |more: &str| {
        format!("{{\"type\":\"relation\",\"from\":\"new\",\"relation\":\"r\",\"to\":\"new\"{more}}}")
    };
    let zeros = format!(",\"valid_from\":1,\"valid_to\":2,\"superseded_by\":\"{}\"", "0".repeat(64));
    for (bad, expected) in [
        ("nonsense".to_owned(), "line 4: expected ident (column 2); expected one JSON object on each line"),
        ("[]".to_owned(), "line 4: invalid type: sequence, expected a JSON object"),
        ("{\"type\":\"entity\"".to_owned(), "line 4: EOF while parsing an object"),
        ("{\"a\":1,\"a\":2}".to_owned(), "line 4: the field `a` stands twice"),
        (long, "line 4: it is longer than 4194304 bytes"),
        (deep, "line 4: recursion limit exceeded"),
        (nested, "line 4: the metadata is nested too deeply, expected an object of at most"),
        ("{}".to_owned(), "line 4, field `type`: is missing, expected a string"),
        ("{\"type\":\"note\"}".to_owned(), "line 4, field `type`: is unknown, expected `entity`,"),
        (
            "{\"type\":\"entity\",\"name\":1}".to_owned(),
            "line 4, field `name`: is the number 1, expected a string",
        ),
        (
            "{\"type\":\"entity\",\"name\":\"\"}".to_owned(),
            "line 4, field `name`: is empty, expected 1 to 256",
        ),
        (
            "{\"type\":\"entity\",\"name\":\"x\"}".to_owned(),
            "line 4, field `entity_type`: is missing, expected a",
        ),
        (observed(",\"txt\":1"), "line 4, field `txt`: is unknown, expected `type`, `entity`, `text`"),
        (observed(",\"metadata\":[]"), "line 4, field `metadata`: is a list, expected an object"),
        (
            observed(",\"recorded_at\":-1"),
            "line 4, field `recorded_at`: is the number -1, expected a whole number",
        ),
        (observed(",\"valid_from\":5,\"valid_to\":5"), "line 4, field `valid_to`: is not after `valid_from`"),
        (observed(",\"hash\":\"00\""), "line 4, field `hash`: does not fit text and metadata, expected "),
        (observed(",\"run\":\"r\""), "line 4, field `step`: is missing, expected a number beside `run`"),
        (observed(",\"superseded_by\":\"00\""), "line 4, field `superseded_by`: is not a hash, expected 64"),
        (
            observed(&zeros),
            "line 4, field `superseded_by`: its entity has no such observation, expected the hash",
        ),
        (observed("").replace("\"x\"", "\" \""), "line 4: the text has 0 bytes"),
        (
            observed("").replace("new", "gone"),
            "line 4, field `entity`: there is no entity `gone`, expected its line",
        ),
        (
            related("").replace("\"to\":\"new\"", "\"to\":\"gone\""),
            "line 4, field `to`: there is no entity `gone`",
        ),
        (related(",\"strength\":2"), "line 4, field `strength`: is 2, expected 0 to 1"),
        (
            related(",\"ended_run\":\"r\",\"ended_step\":1"),
            "line 4, field `ended_run`: names what ended it, expected",
        ),
    ] {
        let lines = format!("{HEADER}{good}\n{bad}\n{good}");
        let problem = import(&memory, &here(), &lines, ImportMode::Update).await.unwrap_err();
        assert!(problem.starts_with(expected), "{problem}");
        assert_eq!(export(&memory, &here()).await, before, "{bad}");
    }
    for (first, expected) in [
        (
            good,
            "line 1: the format is unknown, expected the first line {\"format\":\"dalsegno-memory\",\"version\":1}",
        ),
        (
            "{\"format\":\"other\",\"version\":1}",
            "line 1, field `format`: is another format, expected `dalsegno-",
        ),
        (
            "{\"format\":\"dalsegno-memory\",\"version\":2}",
            "line 1, field `version`: is 2, this program knows up to 1",
        ),
        ("{\"format\":\"dalsegno-memory\"}", "line 1, field `version`: is missing or 0, expected 1"),
        ("{\"entity\":\"e\",\"type\":\"t\",\"text\":\"a seed\"}", "line 1: the format is unknown"),
    ] {
        let problem = import(&memory, &here(), first, ImportMode::Update).await.unwrap_err();
        assert!(problem.starts_with(expected), "{problem}");
    }
    assert_eq!(import(&memory, &here(), "\n", ImportMode::Fail).await, Ok(counts(0, 0, 0)));
    assert_eq!(export(&memory, &here()).await, before);
}

async fn the_file_of_the_mcp_server_is_imported(memory: impl Memory) {
    let lines = concat!(
        r#"{"type":"entity","name":"Ann","entityType":"person","observations":["Speaks Dutch","Owns billing"]}"#,
        "\n",
        r#"{"type":"entity","name":"billing","entityType":"service","observations":[],"extra":1}"#,
        "\n",
        r#"{"type":"relation","from":"Ann","to":"billing","relationType":"owns"}"#,
        "\n",
        r#"{"type":"relation","from":"billing","to":"cards","relationType":"charges"}"#,
    );
    assert_eq!(import(&memory, &here(), lines, ImportMode::Fail).await, Ok(counts(7, 0, 0)));
    let imported = export(&memory, &here()).await;
    for mode in ImportMode::ALL {
        assert_eq!(import(&memory, &here(), lines, mode).await, Ok(counts(0, 0, 6)), "{mode}");
    }
    assert_eq!(export(&memory, &here()).await, imported);
    let hits = search(&memory, &here(), "dutch").await;
    assert_eq!((hits.len(), hits[0].entity_type.as_str(), hits[0].recorded_at), (1, "person", 77));
    let reached = memory.traverse(&here(), &Traverse::new("Ann")).await.unwrap();
    assert_eq!((reached.entities.len(), reached.relations.len()), (3, 2));
    for (bad, expected) in [
        (
            r#"{"type":"entity","name":"x","entityType":"t","observations":["a",2]}"#,
            "line 1, field `observations[1]`: is the number 2, expected a string",
        ),
        (
            r#"{"type":"entity","name":"x","entityType":"t","observations":["a",""]}"#,
            "line 1, field `observations[1]`: the text has 0 bytes",
        ),
        (r#"{"type":"entity","name":"x","entityType":"t"}"#, "line 1, field `observations`: is missing"),
        (r#"{"type":"relation","from":"x","relationType":"t"}"#, "line 1, field `to`: is missing"),
    ] {
        let problem = import(&memory, &here(), bad, ImportMode::Update).await.unwrap_err();
        assert!(problem.starts_with(expected), "{problem}");
    }
}

async fn another_scope_can_take_an_export(memory: impl Memory) {
    create(&memory, &here(), observation(1, "a", "text")).await;
    relate(&memory, &here(), relation(2, "a r b", 0.5, 10)).await;
    let exported = export(&memory, &here()).await;
    let theirs = scopes("rival/other/agent/s9", Scope::Session);
    assert_eq!(import(&memory, &theirs, &exported, ImportMode::Fail).await, Ok(counts(4, 0, 0)));
    assert_eq!(export(&memory, &theirs).await, marked(&exported));
    assert_eq!(export(&memory, &here()).await, exported);
    // The id says where an observation is kept; the content says what it is.
    let (one, other) = (search(&memory, &here(), "text").await, search(&memory, &theirs, "text").await);
    assert_ne!(one[0].observation, other[0].observation);
}

#[test]
fn an_output_that_breaks_is_reported() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("disk full"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let memory = SqliteMemory::in_memory().unwrap();
    let problem = wait(memory.export(&here(), Box::new(Full))).unwrap_err();
    assert_eq!(problem.to_string(), "the export cannot be written");
}

#[derive(Clone, Debug)]
enum Write {
    Create(NewObservation),
    Relate(String, f64, u64),
    Unrelate(String, u64),
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[ab]", 1 => "\\PC{1,6}".prop_filter("a name", |name| !name.trim().is_empty())]
}

fn triple() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a r b", "b r a", "a s a", "b s c", "c r a"]).prop_map(str::to_owned)
}

fn write() -> impl Strategy<Value = Write> {
    let metadata = prop_oneof![
        Just(json!({})),
        Just(Value::Null),
        any::<f64>().prop_map(|number| json!({"n": number, "a": [1, {"z": 0, "b": "\u{2028}"}]})),
        "\\PC{0,5}".prop_map(|text| json!({text.clone(): text})),
    ];
    let created = (name(), "\\PC{0,20}|(\\PC|\\n|\u{0}|\"){0,9}", metadata, 0_u64..50, any::<Option<u64>>());
    let created = created.prop_map(|(entity, text, metadata, recorded_at, step)| {
        let source = match step {
            Some(step) => Source::Run { run: "run-é".to_owned(), step: step >> 1 },
            None => Source::Seed,
        };
        let base = observation(0, &entity, &format!("x{text}"));
        Write::Create(NewObservation { metadata, recorded_at, source, ..base })
    });
    prop_oneof![
        3 => created,
        3 => (triple(), 0.0..=1.0, 0_u64..50).prop_map(|(triple, strength, at)| Write::Relate(triple, strength, at)),
        1 => (triple(), 0_u64..50).prop_map(|(triple, at)| Write::Unrelate(triple, at)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_export_comes_back_byte_for_byte(writes in prop::collection::vec(write(), 0..30)) {
        wait(async {
            let memory = SqliteMemory::in_memory().unwrap();
            for (index, write) in writes.into_iter().enumerate() {
                match write {
                    Write::Create(mut new) => {
                        new.operation = [index as u8; 16];
                        create(&memory, &here(), new).await;
                    }
                    Write::Relate(triple, strength, at) => {
                        relate(&memory, &here(), relation(index as u8, &triple, strength, at)).await;
                    }
                    Write::Unrelate(triple, at) => {
                        unrelate(&memory, &here(), index as u8, &triple, at).await;
                    }
                }
            }
            let exported = export(&memory, &here()).await;
            let lines = exported.lines().count() as u64 - 1;
            let copy = SqliteMemory::in_memory().unwrap();
            prop_assert_eq!(import(&copy, &here(), &exported, ImportMode::Fail).await, Ok(counts(lines, 0, 0)));
            prop_assert_eq!(&export(&copy, &here()).await, &marked(&exported));
            // What both answer is the same as well.
            prop_assert_eq!(
                search(&copy, &here(), "xa b").await,
                search(&memory, &here(), "xa b").await
            );
            let asked = Traverse { depth: 4, ..Traverse::new("a") };
            let walks = (copy.traverse(&here(), &asked).await, memory.traverse(&here(), &asked).await);
            prop_assert_eq!(walks.0.unwrap(), walks.1.unwrap());
            for mode in ImportMode::ALL {
                prop_assert_eq!(import(&copy, &here(), &exported, mode).await, Ok(counts(0, 0, lines)));
            }
            Ok(())
        })?;
    }

    #[test]
    fn any_bytes_end_in_an_error_or_an_import(lines in "(\\PC|\\n|[{}\\[\\]\":,]){0,80}", header in any::<bool>()) {
        let memory = SqliteMemory::in_memory().unwrap();
        let lines = if header { format!("{HEADER}{lines}") } else { lines };
        if wait(import(&memory, &here(), &lines, ImportMode::Update)).is_err() {
            prop_assert_eq!(wait(export(&memory, &here())), HEADER);
        }
    }
}
