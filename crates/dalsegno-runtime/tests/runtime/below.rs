//! Runs that start runs, hand over, ask, and wait for a time.

use std::time::Duration;

use dalsegno_core::{AgentRequest, EffectClass, OperationId, RunErrorCode, Status};
use dalsegno_runtime::{
    Cancelled, EngineError, GateInput, Received, RunEnd, RunFailure, Settlement, StartOptions, WorkerOptions,
};
use dalsegno_store::{Body, Message, RunFilter, RunStatus};
use serde_json::json;

use crate::support::{Behaviour, World, answer, waits};

/// A parent that asks a child, which asks for an approval.
fn family() -> World {
    World::new(
        "[[steps]]\nid = \"child\"\nagent = \"child\"\ninput = \"{{request.text}}!\"\nwith = { n = 1 }\n\
         [[steps]]\nrespond = \"the child said {{steps.child}}\"\n",
    )
    .agent(
        "child",
        "[tools]\nallow = [\"local.write\"]\n[[steps]]\nid = \"it\"\ntool = \"local.write\"\n\
         with = { n = \"{{request.data.n}}\" }\napprove = true\n[[steps]]\nrespond = \"{{request.text}} {{steps.it.n}}\"\n",
    )
    .tool("local.write", EffectClass::Unsafe, Behaviour::Echo)
}

#[tokio::test]
async fn a_child_run_waits_with_its_parent_and_is_answered_through_it() {
    let world = family();
    let report = world.run("hello").await;
    let waiting = waits(&report);
    assert_eq!(waiting.len(), 1);
    assert_ne!(waiting[0].run, report.run, "the child waits");
    assert_eq!(waiting[0].kind(), "approval");
    let report = world.resume(report.run, Some(Settlement::Approve { edited: None, reason: None })).await;
    assert_eq!(answer(&report), "the child said hello! 1");
    assert_eq!(world.count("local.write"), 1);
    let engine = world.engine().await;
    let runs = engine.journal().runs(&RunFilter::default()).await.unwrap();
    assert_eq!(runs.len(), 2, "resuming started no second child");
    for run in runs {
        assert!(engine.journal().replay(run.run).await.unwrap().identical);
    }
}

#[tokio::test]
async fn a_parent_that_is_cancelled_ends_its_child() {
    let world = family();
    let report = world.run("hello").await;
    let child = waits(&report)[0].run;
    let engine = world.engine().await;
    let ended = engine.cancel(report.run, Some("eve".to_owned()), None).await.unwrap();
    let Cancelled::Ended(ended) = ended else { panic!("{ended:?}") };
    assert!(matches!(&ended.end, RunEnd::Ended(response) if response.status == Status::Cancelled));
    let runs = engine.journal().runs(&RunFilter::default()).await.unwrap();
    assert!(runs.iter().all(|run| run.status == RunStatus::Cancelled), "{runs:?}");
    assert!(runs.iter().any(|run| run.run == child));
    assert_eq!(world.count("local.write"), 0);
    let again = engine.cancel(report.run, None, None).await.unwrap_err();
    assert!(matches!(again, EngineError::Ended { .. }), "{again}");
    assert!(engine.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn an_agent_that_calls_itself_ends_at_the_depth_limit() {
    let world = World::new("[[steps]]\nid = \"again\"\nagent = \"a\"\nwhen = \"true\"\n");
    let report = world.run("go").await;
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    let error = response.error.as_ref().unwrap();
    assert_eq!(error.code, RunErrorCode::AgentFailed, "{error:?}");
    let runs = world.engine().await.journal().runs(&RunFilter::default()).await.unwrap();
    assert_eq!(runs.len(), 9, "the run itself and eight below it");
}

#[tokio::test]
async fn a_run_hands_over_and_the_next_agent_answers() {
    let world = World::new("[[steps]]\nhandoff = \"b\"\nmessage = \"please: {{request.text}}\"\n")
        .agent("b", "[[steps]]\nrespond = \"b was told {{request.handoff.message}} by {{request.handoff.agent}} for {{request.text}}\"\n");
    let engine = world.engine().await;
    let options = StartOptions { session: Some("s".to_owned()), ..StartOptions::default() };
    let handle = engine.start(&"a".parse().unwrap(), AgentRequest::text("help"), options).await.unwrap();
    let first = handle.run();
    let report = handle.finish().await.unwrap();
    assert_eq!(answer(&report), "b was told please: help by a for help");
    assert_eq!((report.before.as_slice(), report.agent.as_str()), ([first].as_slice(), "b"));
    for run in [first, report.run] {
        let replay = engine.journal().replay(run).await.unwrap();
        assert!(replay.identical, "{replay:?}");
    }
    // Going on with the first one tells the end of the last one.
    let again = engine.resume(first, Vec::new()).await.unwrap().finish().await.unwrap();
    assert_eq!((again.run, answer(&again)), (report.run, "b was told please: help by a for help"));
}

/// A plan that makes two calls, and then does something else.
fn two_calls(then: &str) -> String {
    let call = "[[steps]]\ntool = \"local.it\"\nwith = { n = 1 }\n";
    format!("[tools]\nallow = [\"local.it\"]\n{call}{call}{then}")
}

#[tokio::test]
async fn what_a_run_may_do_bounds_all_that_is_done_below_it() {
    let top = "[limits]\nmax_tool_calls = 4\n[[steps]]\nagent = \"b\"\n";
    // Two calls, and two more after a handoff; the call of the child run counts as well.
    for b in [two_calls("[[steps]]\nhandoff = \"c\"\n"), two_calls("[[steps]]\nagent = \"c\"\n")] {
        let world = World::new(top).agent("b", &b).agent("c", &two_calls("")).tool(
            "local.it",
            EffectClass::Read,
            Behaviour::Echo,
        );
        let report = world.run("go").await;
        let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
        assert!(response.error.is_some(), "{report:?}");
        assert!(world.count("local.it") < 4, "{}", world.count("local.it"));
    }
}

#[tokio::test]
async fn agents_that_hand_over_to_each_other_come_to_an_end() {
    let world = World::new("[[steps]]\nhandoff = \"b\"\n").agent("b", "[[steps]]\nhandoff = \"a\"\n");
    let report = world.run("go").await;
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    assert_eq!(response.error.as_ref().unwrap().code, RunErrorCode::LimitExceeded);
    assert_eq!(report.before.len(), 8);
}

#[tokio::test]
async fn a_question_waits_for_an_answer_that_fits() {
    let world = World::new(
        "[[steps]]\nid = \"q\"\nask = \"how many of {{request.text}}?\"\n\
         schema = { type = \"object\", properties = { n = { type = \"integer\" } }, required = [\"n\"] }\n\
         [[steps]]\nrespond = \"{{steps.q.n}} of them\"\n",
    );
    let report = world.run("pears").await;
    let waiting = waits(&report);
    assert_eq!((waiting[0].kind(), waiting[0].question.as_str()), ("input", "how many of pears?"));
    let wrong = GateInput {
        operation: None,
        seen: None,
        settlement: Settlement::Give { value: json!({ "n": "many" }) },
        by: None,
    };
    let error = world.engine().await.resume(report.run, vec![wrong]).await.unwrap_err();
    assert!(error.to_string().contains("does not fit"), "{error}");
    let given = Settlement::Give { value: json!("{\"n\": 3}") };
    let report = world.resume(report.run, Some(given)).await;
    assert_eq!(answer(&report), "3 of them");
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn a_short_wait_is_waited_for_and_a_long_one_suspends() {
    let world = World::new("[[steps]]\nwait = \"20ms\"\n[[steps]]\nrespond = \"on\"\n");
    assert_eq!(answer(&world.run("go").await), "on");
    let world = World::new("[[steps]]\nwait = \"2h\"\n[[steps]]\nrespond = \"on\"\n");
    let report = world.run("go").await;
    let RunEnd::Suspended { waiting, wake_at, .. } = &report.end else { panic!("{report:?}") };
    assert!(waiting.is_empty() && wake_at.is_some(), "{report:?}");
    // It is too early: nothing is recorded again.
    let engine = world.engine().await;
    let before = engine.journal().inspect(report.run, None).await.unwrap().records.len();
    let again = world.resume(report.run, None).await;
    assert!(matches!(again.end, RunEnd::Suspended { .. }));
    assert_eq!(engine.journal().inspect(report.run, None).await.unwrap().records.len(), before);
}

#[tokio::test]
async fn waiting_for_a_time_is_no_active_time() {
    let world = World::new(
        "[limits]\ntimeout = \"200ms\"\n[[steps]]\nwait = \"600ms\"\n[[steps]]\nrespond = \"on\"\n",
    );
    assert_eq!(answer(&world.run("go").await), "on");
}

#[tokio::test]
async fn items_run_at_most_so_many_at_a_time_and_their_results_keep_the_order() {
    let world = World::new(
        "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"all\"\nfor_each = \"[5, 4, 3, 2, 1]\"\nconcurrency = 2\n\
         tool = \"local.it\"\nwith = { n = \"{{item}}\" }\n[[steps]]\nrespond = \"{{steps.all}}\"\n",
    )
    .tool("local.it", EffectClass::Unsafe, Behaviour::Slow(20));
    let report = world.run("go").await;
    assert_eq!(answer(&report), r#"[{"n":5},{"n":4},{"n":3},{"n":2},{"n":1}]"#);
    let engine = world.engine().await;
    let records = engine.journal().inspect(report.run, None).await.unwrap().records;
    let (mut under_way, mut most) = (0_u32, 0);
    for record in &records {
        use dalsegno_store::{Body, Start};
        match &record.body {
            Body::Requested { start: Start::Now, .. } | Body::Attempted { start: Start::Now, .. } => {
                under_way += 1;
            }
            Body::Resolved { .. } => under_way -= 1,
            _ => {}
        }
        most = most.max(under_way);
    }
    assert_eq!(most, 2);
    assert!(engine.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn a_session_has_one_active_run_and_the_next_reads_what_was_said() {
    let world = World::new("prompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\n").script(
        "[[replies]]\ntext = \"one: {{request.text}}\"\n[[replies]]\ntext = \"two: {{request.text}}\"\n",
    );
    let engine = world.engine().await;
    let agent = "a".parse().unwrap();
    let options = || StartOptions { session: Some("s".to_owned()), ..StartOptions::default() };
    for text in ["first", "second"] {
        let handle = engine.start(&agent, AgentRequest::text(text), options()).await.unwrap();
        let report = handle.finish().await.unwrap();
        assert!(matches!(report.end, RunEnd::Ended(_)), "{report:?}");
    }
    let runs = engine
        .journal()
        .runs(&RunFilter { session: Some("s".to_owned()), ..RunFilter::default() })
        .await
        .unwrap();
    let last = engine.journal().inspect(runs[0].run, None).await.unwrap();
    // The messages of the first run, then those of the second.
    assert_eq!(last.state.transcript().len(), 4);
    for run in runs {
        let replay = engine.journal().replay(run.run).await.unwrap();
        assert!(replay.identical, "{replay:?}");
    }
}

#[tokio::test]
async fn an_item_in_doubt_that_did_not_take_place_starts_again() {
    let world = World::new(
        "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"all\"\nfor_each = \"[1, 2]\"\ntool = \"local.it\"\n\
         with = { n = \"{{item}}\" }\n[[steps]]\nrespond = \"{{steps.all.length}}\"\n",
    )
    .tool("local.it", EffectClass::Unsafe, Behaviour::LostFirst(1, Received::Possibly));
    let report = world.run("go").await;
    assert_eq!(waits(&report)[0].kind(), "in_doubt", "the second item ran meanwhile");
    let report = world.resume(report.run, Some(Settlement::NotDone)).await;
    assert_eq!(answer(&report), "2");
    assert_eq!(world.count("local.it"), 3);
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn a_child_that_another_process_performs_is_waited_for() {
    let world = World::new("[[steps]]\nid = \"child\"\nagent = \"child\"\n[[steps]]\nrespond = \"{{steps.child}}\"\n")
        .agent(
            "child",
            "[tools]\nallow = [\"*\"]\n[[steps]]\nask = \"go on?\"\n[[steps]]\nid = \"it\"\ntool = \"local.slow\"\n\
             with = { n = 1 }\n[[steps]]\nrespond = \"done {{steps.it.n}}\"\n",
        )
        .tool("local.slow", EffectClass::Unsafe, Behaviour::Slow(400));
    let report = world.run("go").await;
    let child = waits(&report)[0].run;
    let other = world.engine().await;
    let yes = GateInput {
        operation: None,
        seen: None,
        settlement: Settlement::Give { value: json!("yes") },
        by: None,
    };
    let performed = other.resume(child, vec![yes]).await.unwrap();
    // The child is under way in the other engine: its parent waits, and says what it waits for.
    let here = world.engine().await;
    let parent = here.resume(report.run, Vec::new()).await.unwrap().finish().await.unwrap();
    assert_eq!(parent.end, RunEnd::Suspended { waiting: Vec::new(), wake_at: None, answer_by: None });
    let last = here.journal().inspect(report.run, None).await.unwrap().records.pop().unwrap();
    let Body::Suspended { waiting_for, .. } = &last.body else { panic!("{last:?}") };
    assert_eq!(waiting_for[0].kind, "child_run");
    performed.finish().await.unwrap();
    // Its end wakes the parent: a worker needs no person for that.
    let options = WorkerOptions { until_idle: true, ..WorkerOptions::default() };
    let worked = here.work(&options, std::future::pending(), |_| {}).await.unwrap();
    assert_eq!((worked.ended, worked.failed), (1, 0), "{worked:?}");
    let report = world.resume(report.run, None).await;
    assert_eq!(answer(&report), "done 1");
    assert_eq!(world.count("local.slow"), 1);
}

#[tokio::test]
async fn an_answer_through_the_parent_reaches_a_child_that_another_process_performs() {
    let world = World::new("[[steps]]\nid = \"child\"\nagent = \"child\"\n[[steps]]\nrespond = \"{{steps.child}}\"\n")
        .agent(
            "child",
            "[tools]\nallow = [\"*\"]\napprove = [\"local.write\"]\n[[steps]]\nask = \"continue?\"\n[[steps]]\nparallel = [\n\
             { id = \"slow\", tool = \"local.slow\", with = { n = 1 } },\n{ id = \"it\", tool = \"local.write\", with = { n = 2 } },\n]\n\
             [[steps]]\nrespond = \"done {{steps.it.n}}\"\n",
        )
        .tool("local.slow", EffectClass::Unsafe, Behaviour::Slow(2_000))
        .tool("local.write", EffectClass::Unsafe, Behaviour::Echo);
    let report = world.run("go").await;
    let child = waits(&report)[0].run;
    let other = world.engine().await;
    let performed =
        other.resume(child, vec![to(None, Settlement::Give { value: json!("yes") })]).await.unwrap();
    while world.count("local.slow") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let here = world.engine().await;
    let gate = here.journal().latest(child).await.unwrap().waiting[0].operation;
    let parent = here.resume(report.run, vec![to(Some(gate), Settlement::approve())]).await.unwrap();
    let suspended = parent.finish().await.unwrap();
    assert!(matches!(suspended.end, RunEnd::Suspended { .. }), "{suspended:?}");
    performed.finish().await.unwrap();
    assert_eq!(world.count("local.write"), 1);
    assert_eq!(answer(&world.resume(report.run, None).await), "done 2");
}

#[tokio::test]
async fn an_answer_through_the_parent_that_contradicts_another_one_is_refused() {
    let world = family();
    let report = world.run("hello").await;
    let waiting = &waits(&report)[0];
    let engine = world.engine().await;
    let gate = Some(waiting.operation);
    engine.pass_on(waiting.run, vec![to(gate, Settlement::Deny { reason: None })]).await.unwrap();
    let refused = engine.resume(report.run, vec![to(gate, Settlement::approve())]).await.unwrap_err();
    assert!(matches!(refused, EngineError::Answer { is_late: true, .. }), "{refused}");
    // The first one counts.
    let report = world.resume(report.run, None).await;
    assert!(
        matches!(&report.end, RunEnd::Ended(response) if response.status == Status::Failed),
        "{report:?}"
    );
    assert_eq!(world.count("local.write"), 0);
}

fn to(operation: Option<OperationId>, settlement: Settlement) -> GateInput {
    GateInput { operation, seen: None, settlement, by: None }
}

#[tokio::test]
async fn a_cancel_that_is_read_with_what_makes_a_run_hand_over_ends_the_next_one() {
    let world =
        World::new("[[steps]]\nask = \"how many?\"\non_failure = \"report\"\n[[steps]]\nhandoff = \"b\"\n")
            .agent("b", "[[steps]]\nask = \"what?\"\n");
    let report = world.run("go").await;
    let operations = vec![waits(&report)[0].operation];
    let engine = world.engine().await;
    let store = engine.journal().store();
    store.post(report.run, Message::GiveUp { operations, by: None, reason: None }).await.unwrap();
    store.post(report.run, Message::Cancel { by: None, reason: None }).await.unwrap();
    let ended = engine.resume(report.run, Vec::new()).await.unwrap().finish().await.unwrap();
    assert!(
        matches!(&ended.end, RunEnd::Ended(response) if response.status == Status::Cancelled),
        "{ended:?}"
    );
}

#[tokio::test]
async fn the_same_start_has_the_same_run_after_a_handoff() {
    let world = World::new("[[steps]]\nhandoff = \"b\"\n").agent("b", "[[steps]]\nask = \"how many?\"\n");
    let engine = world.engine().await;
    let start = || {
        let options = StartOptions { key: Some("k".to_owned()), ..StartOptions::default() };
        let (agent, engine) = ("a".parse().unwrap(), &engine);
        async move { engine.start(&agent, AgentRequest::text("help"), options).await.unwrap() }
    };
    let first = start().await;
    let run = first.run();
    assert_ne!(first.finish().await.unwrap().run, run);
    let again = start().await;
    assert_eq!((again.run(), again.is_new()), (run, false));
    assert_ne!(again.finish().await.unwrap().run, run);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_has_ended_and_is_still_held_wakes_its_parent() {
    let world = World::new("[[steps]]\nid = \"child\"\nagent = \"child\"\n[[steps]]\nrespond = \"{{steps.child}}\"\n")
        .agent(
            "child",
            "[tools]\nallow = [\"*\"]\n[[steps]]\nask = \"go on?\"\n[[steps]]\nid = \"it\"\ntool = \"local.slow\"\n\
             with = { n = 1 }\n[[steps]]\nrespond = \"done {{steps.it.n}}\"\n",
        )
        .tool("local.slow", EffectClass::Unsafe, Behaviour::Slow(3_000));
    let report = world.run("go").await;
    let child = waits(&report)[0].run;
    let other = world.engine().await;
    let yes = GateInput {
        operation: None,
        seen: None,
        settlement: Settlement::Give { value: json!("yes") },
        by: None,
    };
    let performed = other.resume(child, vec![yes]).await.unwrap();
    while world.count("local.slow") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    performed.cancel();
    let status = async || other.journal().inspect(child, None).await.unwrap().summary.status;
    while status().await != RunStatus::Cancelled {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The other engine holds the child until it knows what came of the call; how the child has ended is known now.
    let here = world.engine().await;
    let options = WorkerOptions { until_idle: true, ..WorkerOptions::default() };
    let worked = here.work(&options, std::future::pending(), |_| {}).await.unwrap();
    assert_eq!((worked.ended, worked.suspended, worked.failed), (1, 0, 0), "{worked:?}");
    assert_eq!(other.journal().inspect(report.run, None).await.unwrap().summary.status, RunStatus::Failed);
    performed.finish().await.unwrap();
    assert_eq!(world.count("local.slow"), 1);
}

#[tokio::test]
async fn a_handoff_that_cannot_be_made_loses_no_outcome() {
    let world = World::new(
        "[tools]\nallow = [\"*\"]\n[[steps]]\ntool = \"local.charge\"\nwith = { n = 1 }\n\
         [[steps]]\nhandoff = \"b\"\n",
    )
    .agent("b", "[tools]\nallow = [\"local.gone\"]\n[[steps]]\nrespond = \"b\"\n")
    .tool("local.charge", EffectClass::Unsafe, Behaviour::Echo);
    let engine = world.engine().await;
    let handle =
        engine.start(&"a".parse().unwrap(), AgentRequest::text("go"), StartOptions::default()).await.unwrap();
    let run = handle.run();
    let error = handle.finish().await.unwrap_err();
    assert!(matches!(error, RunFailure::Handoff { .. }), "{error}");
    // The engine that could not hand the run over has released it, and is still there.
    let world = world.agent("b", "[[steps]]\nrespond = \"b goes on\"\n");
    let report = world.resume(run, None).await;
    assert_eq!(answer(&report), "b goes on");
    assert_eq!(world.count("local.charge"), 1, "what was charged was recorded");
    drop(engine);
}

#[tokio::test]
async fn a_run_that_has_not_ended_is_no_predecessor() {
    let world = family();
    let open = world.run("hello").await.run;
    let options = StartOptions { after: Some(open), ..StartOptions::default() };
    let error = world.engine().await.start(&"child".parse().unwrap(), AgentRequest::text("x"), options).await;
    assert!(matches!(error.unwrap_err(), EngineError::After { .. }));
}

#[tokio::test]
async fn a_run_below_one_that_has_ended_is_not_performed_though_nobody_told_it() {
    let world = family();
    let report = world.run("hello").await;
    let (engine, child) = (world.engine().await, waits(&report)[0].run);
    // The run above it ends without a message to its child runs.
    let journal = rusqlite::Connection::open(world.path().join(".dalsegno/dalsegno.db")).unwrap();
    let ended = RunStatus::Cancelled as i64;
    let parent: &[u8] = report.run.as_bytes();
    journal.execute("UPDATE run SET status = ?1 WHERE run = ?2", (ended, parent)).unwrap();
    let yes = GateInput {
        operation: None,
        seen: None,
        settlement: Settlement::Approve { edited: None, reason: None },
        by: None,
    };
    let Err(error) = engine.resume(child, vec![yes]).await else { panic!("it is performed") };
    assert!(matches!(error, EngineError::Answer { .. }), "{error}");
    let child = engine.journal().inspect(child, None).await.unwrap().summary;
    assert_eq!((child.status, world.count("local.write")), (RunStatus::Cancelled, 0));
}

#[tokio::test]
async fn a_child_that_cannot_be_resumed_here_has_not_failed() {
    let world = family();
    let report = world.run("hello").await;
    let child = waits(&report)[0].run;
    // Its journal cannot be read for a while.
    let journal = rusqlite::Connection::open(world.path().join(".dalsegno/dalsegno.db")).unwrap();
    let id: &[u8] = child.as_bytes();
    let sound: Vec<u8> =
        journal.query_row("SELECT head FROM run WHERE run = ?1", [id], |row| row.get(0)).unwrap();
    journal.execute("UPDATE run SET head = zeroblob(16) WHERE run = ?1", [id]).unwrap();
    let engine = world.engine().await;
    let error = engine.resume(report.run, Vec::new()).await.unwrap().finish().await.unwrap_err();
    assert!(matches!(error, RunFailure::Child { .. }), "{error}");
    journal.execute("UPDATE run SET head = ?1 WHERE run = ?2", (sound, id)).unwrap();
    // The parent records no failure, and resumes once the child can be read.
    let report = world.resume(report.run, Some(Settlement::Approve { edited: None, reason: None })).await;
    assert_eq!(answer(&report), "the child said hello! 1");
    assert_eq!(world.count("local.write"), 1);
}
