//! A replay performs nothing, finds what was changed, and reports damage as damage. A program of its own: one test looks at the
//! sockets of its process.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::collections::BTreeSet;

use dalsegno_core::{EffectClass, Outcome, RunId};
use dalsegno_runtime::{Engine, HistoryError, Journal, Received, RunEnd};
use dalsegno_store::tamper::tamper;
use dalsegno_store::{Body, ReadError, RunFilter};
use serde_json::json;

use support::{Behaviour, World};

const AGENT: &str = r#"
[tools]
allow = ["*"]
[[steps]]
id = "past"
memory_search = { query = "{{request.text}}" }
[[steps]]
id = "score"
tool = "local.score"
[[steps]]
when = "steps.score.value > 0.7"
id = "act"
tool = "local.act"
with = { n = "{{steps.score.count}}" }
[[steps]]
respond = "{{steps.score.value}} {{steps.act.n}}"
"#;

fn world() -> World {
    World::new(AGENT)
        .tool("local.score", EffectClass::Read, Behaviour::Answer(json!({ "value": 0.9, "count": 3 })))
        .tool("local.act", EffectClass::Unsafe, Behaviour::Echo)
}

/// The record that holds the outcome of the tool `label`.
async fn outcome_of(world: &World, run: RunId, label: &str) -> u64 {
    let records = world.engine().await.journal().inspect(run, None).await.unwrap().records;
    let requested = records
        .iter()
        .find(|record| matches!(&record.body, Body::Requested { label: found, .. } if found == label));
    let operation = requested.unwrap().operation;
    let resolved = |body: &Body| matches!(body, Body::Resolved { .. });
    records.iter().find(|record| record.operation == operation && resolved(&record.body)).unwrap().seq
}

/// Changes what `local.score` returned, and makes every checksum and link fit.
async fn forge(world: &World, run: RunId, structured: serde_json::Value) {
    let seq = outcome_of(world, run, "tool `local.score`").await;
    let path = world.path().join(".dalsegno/dalsegno.db");
    tamper(&path, run, seq, |body| {
        let Body::Resolved { outcome: Outcome::ToolReturned(returned), .. } = body else {
            panic!("{body:?}")
        };
        returned.structured = Some(structured);
    })
    .unwrap();
}

#[tokio::test]
async fn a_replay_opens_nothing_but_the_journal() {
    let world = world();
    let run = world.run("disk full").await.run;
    // Whatever a replay could touch is gone: memory, agent, tools.
    std::fs::remove_file(world.path().join(".dalsegno/memory.db")).unwrap();
    std::fs::remove_file(world.path().join("agents/a.toml")).unwrap();
    let bare = Engine::open(world.path()).await.unwrap();
    let report = bare.journal().replay(run).await.unwrap();
    assert!(report.identical, "{report:?}");
    assert_eq!((report.steps, world.count("local.score"), world.count("local.act")), (3, 1, 1));
    assert!(!world.path().join(".dalsegno/memory.db").exists(), "the memory was not opened");
    assert_eq!(internet_sockets(), BTreeSet::new(), "no socket was opened");
}

/// The internet sockets of this process, by inode.
fn internet_sockets() -> BTreeSet<String> {
    let mine: BTreeSet<String> = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    let tables =
        ["tcp", "tcp6", "udp", "udp6"].map(|name| std::fs::read_to_string(format!("/proc/self/net/{name}")));
    let lines = tables.iter().flatten().flat_map(|table| table.lines().skip(1));
    let inodes = lines.filter_map(|line| line.split_whitespace().nth(9)).map(ToOwned::to_owned);
    inodes.filter(|inode| mine.contains(inode)).collect()
}

#[tokio::test]
async fn a_changed_outcome_is_found_at_the_first_request_that_follows_from_it() {
    let world = world();
    let run = world.run("disk full").await.run;
    forge(&world, run, json!({ "value": 0.9, "count": 4 })).await;
    let divergence = world.engine().await.journal().replay(run).await.unwrap().divergence.unwrap();
    assert_eq!(divergence.step, 3);
    assert!(divergence.expected.starts_with("a request, tool `local.act`"), "{divergence}");
    assert!(divergence.got.ends_with(r#"with {"n":4}"#), "{divergence}");
}

#[tokio::test]
async fn a_changed_outcome_that_turns_a_condition_is_found() {
    let world = world();
    let run = world.run("disk full").await.run;
    forge(&world, run, json!({ "value": 0.1, "count": 3 })).await;
    let divergence = world.engine().await.journal().replay(run).await.unwrap().divergence.unwrap();
    assert_eq!(divergence.got, "asks for nothing more", "{divergence}");
}

#[tokio::test]
async fn a_changed_outcome_that_only_changes_the_answer_is_found() {
    let world = world();
    let run = world.run("disk full").await.run;
    forge(&world, run, json!({ "value": 0.8, "count": 3 })).await;
    let divergence = world.engine().await.journal().replay(run).await.unwrap().divergence.unwrap();
    assert_eq!(divergence.expected, "the end with the answer `0.9 3`", "{divergence}");
    assert_eq!(divergence.got, "ends with the answer `0.8 3`", "{divergence}");
}

#[tokio::test]
async fn a_flipped_byte_is_damage_and_never_an_answer() {
    let world = world();
    let run = world.run("disk full").await.run;
    let path = world.path().join(".dalsegno/dalsegno.db");
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut body: Vec<u8> = connection
        .query_row("SELECT body FROM record WHERE key & 0xffffffff = 4", [], |row| row.get(0))
        .unwrap();
    let middle = body.len() / 2;
    body[middle] ^= 1;
    connection.execute("UPDATE record SET body = ?1 WHERE key & 0xffffffff = 4", [body]).unwrap();
    let engine = world.engine().await;
    for error in [
        engine.journal().replay(run).await.unwrap_err(),
        engine.journal().inspect(run, None).await.unwrap_err(),
    ] {
        let HistoryError::Read(ReadError::Damaged(damage)) = &error else { panic!("{error:?}") };
        assert_eq!((damage.run, damage.seq, damage.intact), (run, 4, 4), "{error}");
    }
}

#[tokio::test]
async fn a_journal_needs_no_sound_workspace_and_changes_nothing() {
    let world = World::new(AGENT)
        .tool("local.score", EffectClass::Read, Behaviour::Answer(json!({ "value": 0.9, "count": 3 })))
        .tool("local.act", EffectClass::Unsafe, Behaviour::Lost(Received::Possibly));
    let report = world.run("disk full").await;
    assert!(matches!(report.end, RunEnd::Suspended { .. }), "{report:?}");
    let before = world.engine().await.journal().inspect(report.run, None).await.unwrap().records;

    std::fs::write(world.path().join("agents/a.toml"), "name = ").unwrap();
    let world = world.settings("[secrets]\ntoken = { env = \"DALSEGNO_TEST_NOT_SET\" }\n");
    assert!(Engine::open(world.path()).await.is_err());
    let journal = Journal::open(&world.path().join(".dalsegno/dalsegno.db")).await.unwrap();
    assert_eq!(journal.runs(&RunFilter::default()).await.unwrap().len(), 1);
    assert!(journal.replay(report.run).await.unwrap().identical);
    assert_eq!(journal.inspect(report.run, None).await.unwrap().records, before);
}
