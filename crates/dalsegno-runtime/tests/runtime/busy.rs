//! A journal that cannot be written for a while: runs wait, and lose nothing that they know.

use std::time::Duration;

use dalsegno_core::{AgentRequest, EffectClass, Outcome, Status};
use dalsegno_runtime::{GateInput, RunEnd, RunEvent, Settlement, StartOptions};
use dalsegno_store::{Body, StorageKind};
use rusqlite::Connection;

use crate::support::{Behaviour, World, answer};

/// Three effects at once that may not be repeated, one of which takes longer than the others.
const AGENT: &str = "[tools]\nallow = [\"*\"]\n[[steps]]\nparallel = [\n\
    { id = \"one\", tool = \"local.quick\", with = { n = 1 } },\n\
    { id = \"two\", tool = \"local.quick\", with = { n = 2 } },\n\
    { id = \"three\", tool = \"local.slow\", with = { n = 3 } },\n]\n\
    [[steps]]\nrespond = \"{{steps.one.n}} {{steps.two.n}} {{steps.three.n}}\"\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_another_process_holds_leaves_nothing_in_doubt() {
    let world = World::new(AGENT).tool("local.quick", EffectClass::Unsafe, Behaviour::Slow(300)).tool(
        "local.slow",
        EffectClass::Unsafe,
        Behaviour::Slow(7_000),
    );
    let engine = world.engine().await;
    let request = AgentRequest::text("go");
    let mut handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    while world.count("local.quick") + world.count("local.slow") < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let other = Connection::open(world.path().join(".dalsegno/dalsegno.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // It is held until the run has said that it waits: the writer has then given up once.
    let mut waits = 0;
    let mut bodies = Vec::new();
    while let Some(event) = handle.next_event().await {
        match event {
            RunEvent::Unwritable { kind, .. } => {
                assert_eq!(kind, StorageKind::Busy);
                waits += 1;
                if waits == 1 {
                    other.execute_batch("COMMIT").unwrap();
                }
            }
            RunEvent::Recorded { record, .. } => bodies.push(record.body.clone()),
            RunEvent::HandedOff { .. } | RunEvent::Said { .. } | RunEvent::Delta { .. } => {}
        }
    }
    assert!(waits > 0, "the run says that the journal cannot be written");
    assert_eq!(answer(&handle.finish().await.unwrap()), "1 2 3");
    assert_eq!((world.count("local.quick"), world.count("local.slow")), (2, 1));
    let doubt = |body: &&Body| matches!(body, Body::Waiting { .. } | Body::Attempted { .. });
    assert!(!bodies.iter().any(|body| doubt(&body)), "{bodies:#?}");
}

/// An effect that may not be repeated, after one that takes a moment.
const TWO: &str = "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"one\"\ntool = \"local.slow\"\nwith = { n = 1 }\n\
    [[steps]]\nid = \"two\"\ntool = \"local.quick\"\nwith = { n = 2 }\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_cancelled_while_a_step_is_written_does_not_start_it() {
    let world = World::new(TWO).tool("local.quick", EffectClass::Unsafe, Behaviour::Echo).tool(
        "local.slow",
        EffectClass::Unsafe,
        Behaviour::Slow(500),
    );
    let engine = world.engine().await;
    let request = AgentRequest::text("go");
    let mut handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    while world.count("local.slow") < 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let other = Connection::open(world.path().join(".dalsegno/dalsegno.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut bodies = Vec::new();
    let mut waits = 0;
    while let Some(event) = handle.next_event().await {
        match event {
            RunEvent::Unwritable { .. } => {
                waits += 1;
                if waits == 1 {
                    handle.cancel();
                    other.execute_batch("COMMIT").unwrap();
                }
            }
            RunEvent::Recorded { record, .. } => bodies.push(record.body.clone()),
            RunEvent::HandedOff { .. } | RunEvent::Said { .. } | RunEvent::Delta { .. } => {}
        }
    }
    assert!(waits > 0, "the journal could not be written");
    let report = handle.finish().await.unwrap();
    assert!(
        matches!(&report.end, RunEnd::Ended(response) if response.status == Status::Cancelled),
        "{report:?}"
    );
    assert_eq!(world.count("local.quick"), 0, "the second tool is not called");
    let late: Vec<_> = bodies
        .iter()
        .filter_map(|body| match body {
            Body::Late { outcome: Outcome::Failed(failure), open, .. } => {
                Some((failure.code.as_str(), *open))
            }
            _ => None,
        })
        .collect();
    assert_eq!(late, [("cancelled", 0)], "it is certain that it did not take place: {bodies:#?}");
}

/// An effect that waits for an approval, beside one that takes a moment.
const ASKED: &str = "[tools]\nallow = [\"*\"]\napprove = [\"local.quick\"]\n[limits]\ntimeout = \"1s\"\n[[steps]]\nparallel = [\n\
    { id = \"one\", tool = \"local.quick\", with = { n = 1 } },\n\
    { id = \"two\", tool = \"local.slow\", with = { n = 2 } },\n]\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_read_when_the_time_is_used_up_ends_the_run() {
    let world = World::new(ASKED).tool("local.quick", EffectClass::Unsafe, Behaviour::Echo).tool(
        "local.slow",
        EffectClass::Read,
        Behaviour::Slow(150),
    );
    let (engine, elsewhere) = (world.engine().await, world.engine().await);
    let request = AgentRequest::text("go");
    let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    while world.count("local.slow") < 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let yes = GateInput {
        operation: None,
        seen: None,
        settlement: Settlement::Approve { edited: None, reason: None },
        by: None,
    };
    let (run, store) = (handle.run(), elsewhere.journal().store().clone());
    let passed = tokio::spawn(async move { elsewhere.pass_on(run, vec![yes]).await });
    while store.inbox(run).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The result of the other call cannot be written until the time of the run is used up.
    let other = Connection::open(world.path().join(".dalsegno/dalsegno.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    other.execute_batch("COMMIT").unwrap();
    let report = handle.finish().await.unwrap();
    passed.await.unwrap().unwrap();
    let RunEnd::Ended(response) = &report.end else { panic!("it waits for nothing: {report:?}") };
    assert_eq!(response.status, Status::Failed);
}

#[tokio::test]
async fn what_was_about_to_start_when_its_run_was_cancelled_leaves_no_doubt() {
    let agent = "[tools]\nallow = [\"*\"]\napprove = [\"local.quick\"]\n[[steps]]\nid = \"one\"\ntool = \"local.quick\"\n\
                 with = { n = 1 }\n";
    let world = World::new(agent).tool("local.quick", EffectClass::Unsafe, Behaviour::Echo);
    let run = world.run("go").await.run;
    let engine = world.engine().await;
    let yes = GateInput {
        operation: None,
        seen: None,
        settlement: Settlement::Approve { edited: None, reason: None },
        by: None,
    };
    // The call is to start with the first commit; on this one thread nothing has been committed yet.
    let handle = engine.resume(run, vec![yes]).await.unwrap();
    handle.cancel();
    let report = handle.finish().await.unwrap();
    assert!(matches!(&report.end, RunEnd::Ended(response) if response.status == Status::Cancelled));
    let inspection = engine.journal().inspect(run, None).await.unwrap();
    let late = inspection.records.iter().filter(|record| matches!(record.body, Body::Late { .. }));
    assert_eq!((late.count(), inspection.waiting.len(), world.count("local.quick")), (0, 0, 0));
    assert!(engine.journal().replay(run).await.unwrap().identical);
}
