//! Starts in one session at once, and what an erasure leaves.
#![cfg(unix)]

use std::time::Duration;

use dalsegno_core::{AgentRequest, EffectClass, Entry, RunErrorCode, RunId};
use dalsegno_runtime::{
    AbandonOptions, Engine, EngineError, ForkOptions, HistoryError, RunEnd, RunReport, Settlement,
    StartOptions,
};
use dalsegno_store::{Body, EraseError, RunStatus};
use rusqlite::Connection;
use serde_json::json;

use crate::support::{Behaviour, World, answer, waits};

async fn say_as(engine: &Engine, agent: &str, text: &str) -> Result<RunReport, EngineError> {
    let options = StartOptions { session: Some("s".to_owned()), ..StartOptions::default() };
    let handle = engine.start(&agent.parse().unwrap(), AgentRequest::text(text), options).await?;
    Ok(handle.finish().await.unwrap())
}

async fn predecessor(world: &World, run: RunId) -> Option<RunId> {
    world.engine().await.journal().predecessor(run).await.unwrap()
}

#[tokio::test]
async fn a_start_that_was_overtaken_follows_the_run_that_was_faster() {
    let server = "while [ ! -e go ]; do sleep 0.02; done\nwhile IFS= read -r line; do\n\
                  id=${line#*\\\"id\\\":}; id=${id%%[,\\}]*}\ncase $line in\n\
                  *'\"method\":\"server/discover\"'*) printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":{}},\"ttlMs\":0,\"cacheScope\":\"private\"}}\\n' \"$id\" ;;\n\
                  *'\"method\":\"tools/list\"'*) printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"resultType\":\"complete\",\"tools\":[{\"name\":\"look\",\"inputSchema\":{\"type\":\"object\"}}],\"ttlMs\":0,\"cacheScope\":\"private\"}}\\n' \"$id\" ;;\n\
                  esac\ndone\n";
    let world = World::new("[tools]\nallow = [\"slow.look\"]\n[[steps]]\nrespond = \"slow\"\n")
        .agent("b", "[[steps]]\nrespond = \"fast\"\n")
        .settings("[servers.slow]\ncommand = [\"/bin/sh\", \"slow.sh\"]\n");
    std::fs::write(world.path().join("slow.sh"), server).unwrap();
    let first = say_as(&world.engine().await, "b", "one").await.unwrap().run;
    let engine = world.engine().await;
    let slow = tokio::spawn(async move { say_as(&engine, "a", "two").await.unwrap().run });
    // The slow one has looked for the run before it, and waits for its server.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let fast = say_as(&world.engine().await, "b", "three").await.unwrap().run;
    assert_eq!(predecessor(&world, fast).await, Some(first));
    std::fs::write(world.path().join("go"), "").unwrap();
    let slow = slow.await.unwrap();
    assert_eq!(predecessor(&world, slow).await, Some(fast), "the turn of the faster one is lost");
}

#[tokio::test]
async fn what_was_asked_for_is_erased_with_the_words_for_it() {
    let world = World::new("[tools]\nallow = [\"*\"]\n[[steps]]\ntool = \"local.read\"\nwith = { n = 1 }\n")
        .tool("local.read", EffectClass::Read, Behaviour::Echo);
    let run = world.run("go").await.run;
    world.engine().await.journal().erase(run, None).await.unwrap();
    let behind = Connection::open(world.path().join(".dalsegno/dalsegno.db")).unwrap();
    let kept: i64 = behind
        .query_row("SELECT count(*) FROM record WHERE kind = 2 AND body IS NOT NULL", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kept, 0);
    let proof: i64 = behind
        .query_row("SELECT count(*) FROM record WHERE kind = 2 AND length(checksum) = 16", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(proof, 1, "the proof that it was asked for stays");
}

/// Answers what it is told, and asks before it answers `wait`.
fn chatty() -> World {
    World::new(
        "[[steps]]\nid = \"how\"\nwhen = \"request.text === 'wait'\"\nask = \"Well?\"\n\
         [[steps]]\nrespond = \"{{request.text}} {{steps.how}}\"\n",
    )
}

fn file(world: &World) -> std::path::PathBuf {
    world.path().join(".dalsegno/dalsegno.db")
}

/// Changes a byte of a run's first record.
fn damage(world: &World, run: RunId) {
    let behind = Connection::open(file(world)).unwrap();
    let changed = behind.execute(
        "UPDATE record SET body = CAST(zeroblob(9) AS BLOB) WHERE key = (SELECT id << 32 FROM run WHERE run = ?1)",
        [run.as_bytes()],
    );
    assert_eq!(changed.unwrap(), 1);
}

fn abandoning(force: bool) -> AbandonOptions {
    AbandonOptions { reason: "its disk failed".to_owned(), by: Some("ada".to_owned()), force }
}

#[tokio::test]
async fn a_session_goes_on_after_any_of_its_runs_was_erased() {
    let world = chatty();
    let engine = world.engine().await;
    let first = say_as(&engine, "a", "one").await.unwrap().run;
    let second = say_as(&engine, "a", "wait").await.unwrap().run;
    assert_eq!(engine.journal().heirs(first).await.unwrap(), [second]);
    let error = engine.journal().erase_everywhere(first).await.unwrap_err();
    assert!(
        matches!(error, HistoryError::Erase(EraseError::NotEnded { run, .. }) if run == second),
        "{error}"
    );
    engine.journal().erase(first, None).await.unwrap();
    // The one that was open when the run before it was erased goes on, in another process as well.
    drop(engine);
    let report = world.resume(second, Some(Settlement::Give { value: json!("fine") })).await;
    assert_eq!(answer(&report), "wait fine");
    let engine = world.engine().await;
    assert!(engine.journal().replay(second).await.unwrap().identical);
    assert_eq!(engine.journal().export(second).await.unwrap().runs().collect::<Vec<_>>(), [second]);
    // The session goes on from there, and passes over what is erased after it.
    let third = say_as(&engine, "a", "three").await.unwrap().run;
    assert_eq!(predecessor(&world, third).await, Some(second));
    engine.journal().erase(third, None).await.unwrap();
    let fourth = say_as(&engine, "a", "wait").await.unwrap().run;
    assert_eq!(predecessor(&world, fourth).await, Some(second));
    engine.journal().erase(second, None).await.unwrap();
    engine.cancel(fourth, None, None).await.unwrap();
    let (erased, heirs) = engine.journal().erase_everywhere(first).await.unwrap();
    assert_eq!(heirs, [fourth]);
    assert!(erased.records > 3);
    // With nothing left it begins anew.
    let fifth = say_as(&engine, "a", "five").await.unwrap().run;
    assert_eq!(predecessor(&world, fifth).await, None);
}

#[tokio::test]
async fn what_a_run_took_over_is_its_own_until_it_is_erased() {
    let script = "repeat = true\n[[replies]]\ntext = \"I heard it.\"\n";
    let world = World::new("prompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\n").script(script);
    let engine = world.engine().await;
    let mut runs = Vec::new();
    for number in 0..40 {
        runs.push(say_as(&engine, "a", &format!("number {number} platypus")).await.unwrap().run);
    }
    let said = async |run| {
        let state = engine.journal().inspect(run, None).await.unwrap().state;
        let said = state.transcript().iter().filter_map(|entry| match entry {
            Entry::User(text) => Some(text.clone()),
            _ => None,
        });
        said.collect::<Vec<_>>()
    };
    let last = runs.pop().unwrap();
    let before = said(last).await;
    assert_eq!(before.len(), 40);
    // Eighty entries: a block of 64 and the rest.
    let count = || -> i64 {
        let behind = Connection::open(file(&world)).unwrap();
        behind.query_row("SELECT count(*) FROM blob", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count(), 1, "the runs of a session share what was said");
    for run in &runs {
        engine.journal().erase(*run, None).await.unwrap();
    }
    assert_eq!((said(last).await, count()), (before, 1));
    assert!(engine.journal().replay(last).await.unwrap().identical);
    let next = say_as(&engine, "a", "once more").await.unwrap().run;
    assert_eq!(said(next).await.len(), 41);
    engine.journal().erase_everywhere(last).await.unwrap();
    assert_eq!(count(), 0);
    drop(engine);
    for name in std::fs::read_dir(world.path().join(".dalsegno")).unwrap() {
        let bytes = std::fs::read(name.unwrap().path()).unwrap_or_default();
        assert!(!bytes.windows(8).any(|window| window == b"platypus"));
    }
}

#[tokio::test]
async fn a_part_of_what_was_said_that_is_gone_is_a_clear_error() {
    let script = "repeat = true\n[[replies]]\ntext = \"I heard it.\"\n";
    let world = World::new("prompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\n").script(script);
    let engine = world.engine().await;
    let mut last = None;
    for number in 0..35 {
        last = Some(say_as(&engine, "a", &format!("number {number}")).await.unwrap().run);
    }
    let behind = Connection::open(file(&world)).unwrap();
    for (change, word) in
        [("UPDATE blob SET bytes = x'00', form = 0", "damaged"), ("DELETE FROM blob", "missing")]
    {
        behind.execute(change, []).unwrap();
        let error = engine.journal().replay(last.unwrap()).await.unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        assert!(matches!(error, HistoryError::Beginning { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_fork_holds_what_its_run_said() {
    let world = chatty();
    let engine = world.engine().await;
    let first = say_as(&engine, "a", "wait").await.unwrap();
    let run = first.run;
    drop(engine);
    world.resume(run, Some(Settlement::Give { value: json!("fine") })).await;
    let engine = world.engine().await;
    let operation = engine.journal().inspect(run, None).await.unwrap().steps[0].operations[0].operation;
    let options = ForkOptions { set: vec![(operation, json!("ill"))], ..ForkOptions::default() };
    let fork = engine.fork(run, options).await.unwrap().finish().await.unwrap();
    assert_eq!(answer(&fork), "wait ill");
    assert_eq!(engine.journal().heirs(run).await.unwrap(), [fork.run]);
    let (_, heirs) = engine.journal().erase_everywhere(run).await.unwrap();
    assert_eq!(heirs, [fork.run]);
    assert!(engine.journal().replay(fork.run).await.is_err());
}

#[tokio::test]
async fn a_damaged_run_is_abandoned_and_its_session_is_free() {
    let world = chatty();
    let engine = world.engine().await;
    let first = say_as(&engine, "a", "one").await.unwrap().run;
    let second = say_as(&engine, "a", "wait").await.unwrap().run;
    let error = engine.abandon(second, abandoning(false)).await.unwrap_err();
    assert!(error.to_string().contains("dalsegno cancel"), "{error}");
    damage(&world, second);
    let error = engine.cancel(second, None, None).await.unwrap_err();
    assert!(error.to_string().contains("dalsegno abandon"), "{error}");
    let error = say_as(&engine, "a", "two").await.unwrap_err();
    assert!(error.to_string().contains("has not ended"), "{error}");
    // Whatever errors the workspace has.
    std::fs::write(world.path().join("agents/broken.toml"), "name = [").unwrap();
    let journal = Engine::ender(world.path()).await.unwrap();
    let abandoned = journal.abandon(second, abandoning(false)).await.unwrap();
    assert!(!abandoned.readable && abandoned.in_doubt.is_empty());
    std::fs::remove_file(world.path().join("agents/broken.toml")).unwrap();
    assert!(matches!(
        journal.abandon(second, abandoning(true)).await,
        Err(EngineError::Ended { status: RunStatus::Abandoned, .. })
    ));
    let third = say_as(&engine, "a", "two").await.unwrap().run;
    assert_eq!(
        predecessor(&world, third).await,
        Some(first),
        "it goes on from the last one that can be followed"
    );
}

#[tokio::test]
async fn what_an_abandoned_run_leaves_in_doubt_is_recorded_and_told() {
    let world = World::new("[tools]\nallow = [\"*\"]\n[[steps]]\ntool = \"local.write\"\n").tool(
        "local.write",
        EffectClass::Unsafe,
        Behaviour::Lost(dalsegno_runtime::Received::Possibly),
    );
    let report = world.run("go").await;
    assert_eq!(waits(&report).len(), 1);
    let engine = world.engine().await;
    let abandoned = engine.abandon(report.run, abandoning(true)).await.unwrap();
    assert_eq!(abandoned.in_doubt.len(), 1);
    assert_eq!(abandoned.in_doubt[0].label, "tool `local.write`");
    let inspection = engine.journal().inspect(report.run, None).await.unwrap();
    assert_eq!(inspection.summary.status, RunStatus::Abandoned);
    let kinds: Vec<_> = inspection.records.iter().rev().take(2).map(|record| &record.body).collect();
    assert!(matches!(kinds[..], [Body::Late { open: 0, .. }, Body::Abandoned { .. }]), "{kinds:?}");
    assert!(engine.journal().replay(report.run).await.unwrap().identical);
    // Whoever resumes it learns how it ended.
    let report = world.resume(report.run, None).await;
    let RunEnd::Ended(response) = report.end else { panic!("{report:?}") };
    assert_eq!(response.error.unwrap().code, RunErrorCode::Abandoned);
}

#[tokio::test]
async fn the_parent_of_an_abandoned_run_is_told() {
    let world = World::new(
        "[[steps]]\nid = \"b\"\nagent = \"b\"\ninput = \"go\"\non_failure = \"report\"\n\
         [[steps]]\nrespond = \"{{steps.b.error.message}}\"\n",
    )
    .agent("b", "[[steps]]\nask = \"Well?\"\n");
    let report = world.run("go").await;
    let child = waits(&report)[0].run;
    assert_ne!(child, report.run);
    damage(&world, child);
    let journal = Engine::ender(world.path()).await.unwrap();
    journal.abandon(child, abandoning(false)).await.unwrap();
    let report = world.resume(report.run, None).await;
    assert!(answer(&report).contains("abandoned"), "{}", answer(&report));
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}
