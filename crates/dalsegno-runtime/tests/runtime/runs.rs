//! Runs on real parts: journal in SQLite, memory in SQLite, tools in process, a scripted model.

use std::sync::Arc;

use dalsegno_core::{EffectClass, Gate, RunErrorCode, Status};
use dalsegno_history::Inspection;
use dalsegno_runtime::{EngineError, GateInput, Received, RunEnd, Settlement, StartOptions};
use dalsegno_store::{RunStatus, RunSummary};
use serde_json::json;

use crate::support::{Behaviour, World, answer};

const GATED: &str = r#"
[tools]
allow = ["*"]
[[steps]]
parallel = [
  { id = "gated", tool = "local.write", with = { n = 1 }, approve = true, on_failure = "report" },
  { id = "sibling", tool = "local.read", with = { n = 2 } },
]
[[steps]]
respond = "{{steps.gated}} and {{steps.sibling.n}}"
"#;

fn gated() -> World {
    World::new(GATED).tool("local.write", EffectClass::Unsafe, Behaviour::Echo).tool(
        "local.read",
        EffectClass::Read,
        Behaviour::Echo,
    )
}

fn one_tool(class: EffectClass, behaviour: Behaviour, settings: &str) -> World {
    let agent = format!(
        "[tools]\nallow = [\"*\"]\n{settings}\n[[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = {{ n = 1 }}\n\
         [[steps]]\nrespond = \"it said {{{{steps.it}}}}\"\n"
    );
    World::new(&agent).tool("local.it", class, behaviour)
}

#[tokio::test]
async fn a_plan_runs_to_its_end_and_replays() {
    let world = one_tool(EffectClass::Read, Behaviour::Echo, "");
    let report = world.run("go").await;
    assert_eq!(answer(&report), r#"it said {"n":1}"#);
    let replay = world.engine().await.journal().replay(report.run).await.unwrap();
    assert!(replay.identical, "{replay:?}");
    assert_eq!(world.count("local.it"), 1);
}

#[tokio::test]
async fn a_gated_call_waits_while_its_sibling_runs_and_goes_on_in_another_process() {
    let world = gated();
    let report = world.run("go").await;
    let RunEnd::Suspended { waiting, .. } = &report.end else { panic!("{report:?}") };
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].question, r#"may `local.write` be called with {"n":1}?"#);
    assert_eq!((world.count("local.write"), world.count("local.read")), (0, 1));
    let report = world.resume(report.run, Some(Settlement::Approve { edited: None, reason: None })).await;
    assert_eq!(answer(&report), r#"{"n":1} and 2"#);
    assert_eq!((world.count("local.write"), world.count("local.read")), (1, 1));
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn a_denied_call_is_never_made() {
    let world = gated();
    let run = world.run("go").await.run;
    let report = world.resume(run, Some(Settlement::Deny { reason: Some("too risky".to_owned()) })).await;
    assert_eq!(answer(&report), r#"{"error":{"code":"denied","message":"too risky"}} and 2"#);
    assert_eq!(world.count("local.write"), 0);
}

#[tokio::test]
async fn edited_arguments_are_checked_and_used() {
    let world = gated();
    let run = world.run("go").await.run;
    let wrong = Settlement::Approve { edited: Some(json!({ "n": "many", "m": 1 })), reason: None };
    let input = GateInput { operation: None, seen: None, settlement: wrong, by: None };
    let error = world.engine().await.resume(run, vec![input]).await.unwrap_err();
    let EngineError::Edit { violations, .. } = &error else { panic!("{error:?}") };
    assert!(!violations.is_empty(), "{error}");
    let edited = Settlement::Approve { edited: Some(json!({ "n": 7 })), reason: None };
    assert_eq!(answer(&world.resume(run, Some(edited)).await), r#"{"n":7} and 2"#);
    assert_eq!(world.tools["local.write"].calls.lock().unwrap()[0].arguments, json!({ "n": 7 }));
}

#[tokio::test]
async fn resuming_a_suspended_run_without_an_answer_changes_nothing() {
    let world = gated();
    let run = world.run("go").await.run;
    let before = world.engine().await.journal().inspect(run, None).await.unwrap().records;
    assert!(matches!(world.resume(run, None).await.end, RunEnd::Suspended { .. }));
    assert_eq!(world.engine().await.journal().inspect(run, None).await.unwrap().records, before);
}

#[tokio::test]
async fn an_answer_that_nobody_waits_for_is_refused() {
    let world = gated();
    let run = world.run("go").await.run;
    let input = GateInput { operation: None, seen: None, settlement: Settlement::NotDone, by: None };
    let error = world.engine().await.resume(run, vec![input]).await.unwrap_err();
    assert!(error.to_string().contains("waits for an approval"), "{error}");
    world.resume(run, Some(Settlement::Deny { reason: None })).await;
    let input = GateInput { operation: None, seen: None, settlement: Settlement::NotDone, by: None };
    let error = world.engine().await.resume(run, vec![input]).await.unwrap_err();
    assert!(error.to_string().contains("has ended"), "{error}");
}

#[tokio::test]
async fn an_answer_to_a_question_that_was_answered_meanwhile_does_not_pass_for_one_to_the_next() {
    let world = one_tool(EffectClass::Unsafe, Behaviour::LostFirst(2, Received::Possibly), "");
    let report = world.run("go").await;
    let seen = crate::support::waits(&report)[0].clone();
    let answer_to = |gate: &Gate| GateInput {
        operation: Some(seen.operation),
        seen: Some(gate.clone()),
        settlement: Settlement::NotDone,
        by: None,
    };
    // Two people look. The first one answers, and the second attempt is lost as well.
    let report = world.resume(report.run, Some(Settlement::NotDone)).await;
    assert_eq!(world.count("local.it"), 2);
    for passed_on in [false, true] {
        let (engine, input) = (world.engine().await, vec![answer_to(&seen.gate)]);
        let error = match passed_on {
            false => engine.resume(report.run, input).await.map(drop).unwrap_err(),
            true => engine.pass_on(report.run, input).await.unwrap_err(),
        };
        assert!(error.to_string().contains("look again"), "{error}");
    }
    assert_eq!(world.count("local.it"), 2);
    let now = crate::support::waits(&report)[0].gate.clone();
    let handle = world.engine().await.resume(report.run, vec![answer_to(&now)]).await.unwrap();
    assert_eq!(answer(&handle.finish().await.unwrap()), r#"it said {"calls":3}"#);
}

#[tokio::test]
async fn what_was_certainly_not_received_is_tried_again_whatever_its_class() {
    let world = one_tool(EffectClass::Unsafe, Behaviour::LostFirst(1, Received::No), "");
    assert_eq!(answer(&world.run("go").await), r#"it said {"calls":2}"#);
    let calls = world.tools["local.it"].calls.lock().unwrap().clone();
    assert_eq!(calls[0].operation, calls[1].operation);
    assert_eq!((calls[0].attempt, calls[1].attempt), (1, 2));
}

#[tokio::test]
async fn an_unsafe_call_without_an_answer_is_asked_about_and_never_repeated() {
    let world = one_tool(EffectClass::Unsafe, Behaviour::Lost(Received::Possibly), "");
    let report = world.run("go").await;
    let RunEnd::Suspended { waiting, .. } = &report.end else { panic!("{report:?}") };
    assert_eq!(waiting[0].kind(), "in_doubt");
    assert!(matches!(world.resume(report.run, None).await.end, RunEnd::Suspended { .. }));
    let done = Settlement::Done { result: Some(json!({ "id": 9 })) };
    assert_eq!(answer(&world.resume(report.run, Some(done)).await), r#"it said {"id":9}"#);
    assert_eq!(world.count("local.it"), 1);
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn what_a_person_says_was_not_done_is_done_again_once() {
    let world = one_tool(EffectClass::Unsafe, Behaviour::LostFirst(1, Received::Possibly), "");
    let run = world.run("go").await.run;
    assert_eq!(answer(&world.resume(run, Some(Settlement::NotDone)).await), r#"it said {"calls":2}"#);
}

#[tokio::test]
async fn a_keyed_call_is_repeated_with_its_key_until_its_attempts_are_used_up() {
    let settings = "[tools.settings.\"local.it\"]\nretries = 1\n";
    let world = one_tool(EffectClass::Keyed, Behaviour::Lost(Received::Possibly), settings);
    let report = world.run("go").await;
    assert!(
        matches!(&report.end, RunEnd::Suspended { waiting, .. } if waiting[0].kind() == "in_doubt"),
        "{report:?}"
    );
    let calls = world.tools["local.it"].calls.lock().unwrap().clone();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].operation, calls[1].operation);
}

#[tokio::test]
async fn a_policy_can_report_what_is_in_doubt() {
    let settings = "[tools.settings.\"local.it\"]\non_indeterminate = \"report\"\non_failure = \"report\"\n";
    let world = one_tool(EffectClass::Unsafe, Behaviour::Lost(Received::Possibly), settings);
    assert!(answer(&world.run("go").await).contains("indeterminate"));
}

#[tokio::test]
async fn a_tool_that_hangs_is_cut_off_at_its_timeout() {
    let settings =
        "[tools.settings.\"local.it\"]\ntimeout = \"50ms\"\nretries = 0\non_failure = \"report\"\n";
    let world = one_tool(EffectClass::Read, Behaviour::Hang, settings);
    assert!(answer(&world.run("go").await).contains(r#""code":"timeout""#));
}

#[tokio::test]
async fn a_tool_that_panics_is_an_outcome() {
    let world = one_tool(EffectClass::Unsafe, Behaviour::Panic, "");
    let report = world.run("go").await;
    assert!(
        matches!(&report.end, RunEnd::Suspended { waiting, .. } if waiting[0].kind() == "in_doubt"),
        "{report:?}"
    );
}

#[tokio::test]
async fn a_plan_whose_arguments_do_not_fit_never_asks_or_calls() {
    let world = World::new(
        "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = { n = \"{{request.text}}\" }\n\
         approve = true\non_failure = \"report\"\n[[steps]]\nrespond = \"{{steps.it.error.code}}\"\n",
    )
    .tool("local.it", EffectClass::Unsafe, Behaviour::Echo);
    assert_eq!(answer(&world.run("go").await), "invalid_arguments");
    assert_eq!(world.count("local.it"), 0);
}

#[tokio::test]
async fn the_deadline_ends_a_run_and_waiting_for_a_person_does_not_count() {
    let world = one_tool(EffectClass::Read, Behaviour::Hang, "[limits]\ntimeout = \"80ms\"\n");
    let report = world.run("go").await;
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    assert_eq!(response.status, Status::Failed);
    assert_eq!(response.error.as_ref().unwrap().code, RunErrorCode::Timeout);
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn an_interrupted_run_is_resumed_where_it_was() {
    let world = one_tool(
        EffectClass::Read,
        Behaviour::Hang,
        "[tools.settings.\"local.it\"]\nretries = 0\ntimeout = \"100ms\"\non_failure = \"report\"\n",
    );
    let engine = world.engine().await;
    let handle = engine
        .start(&"a".parse().unwrap(), dalsegno_core::AgentRequest::text("go"), Default::default())
        .await;
    let handle = handle.unwrap();
    while world.count("local.it") == 0 {
        tokio::task::yield_now().await;
    }
    handle.interrupt();
    let report = handle.finish().await.unwrap();
    assert_eq!(report.end, RunEnd::Interrupted);
    let report = world.resume(report.run, None).await;
    assert!(answer(&report).contains("timeout"));
    assert_eq!(world.count("local.it"), 2);
}

/// Starts the agent, and waits until its tool was called once.
async fn started(world: &World) -> dalsegno_runtime::RunHandle {
    let engine = world.engine().await;
    let request = dalsegno_core::AgentRequest::text("go");
    let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    while world.count("local.it") == 0 {
        tokio::task::yield_now().await;
    }
    handle
}

#[tokio::test]
async fn where_a_run_stood_when_it_began_is_known_without_reading_it() {
    let world = one_tool(EffectClass::Unsafe, Behaviour::Slow(50), "");
    let mut handle = started(&world).await;
    let begun = handle.take_begun().unwrap();
    assert!(handle.take_begun().is_none());
    let run = handle.finish().await.unwrap().run;
    let engine = world.engine().await;
    let journal = engine.journal();
    let Inspection { records, summary, .. } = journal.inspect(run, None).await.unwrap();
    let first = journal.begin(run, Arc::clone(&begun.config), &records[..1]).await.unwrap();
    assert_eq!(&begun.state, first.state());
    assert_eq!((begun.second, begun.response, begun.waiting.len()), (None, None, 0));
    assert_eq!((begun.summary.status, begun.summary.records), (RunStatus::Running, 1));
    assert_eq!(begun.summary.updated_at, records[0].at);
    let of_both =
        |one: &RunSummary| (one.run, one.agent.clone(), one.session.clone(), one.config, one.started_at);
    assert_eq!(of_both(&begun.summary), of_both(&summary));
    // Of another one, the journal says where it stands.
    let options = dalsegno_runtime::ForkOptions { at: Some(1), ..Default::default() };
    let mut fork = engine.fork(run, options).await.unwrap();
    assert!(fork.take_begun().is_none());
    fork.finish().await.unwrap();
}

#[tokio::test]
async fn an_unsafe_effect_under_way_finishes_before_an_interruption() {
    let world = one_tool(EffectClass::Unsafe, Behaviour::Slow(50), "");
    let handle = started(&world).await;
    handle.interrupt();
    let report = handle.finish().await.unwrap();
    assert_eq!(report.end, RunEnd::Interrupted);
    assert_eq!(answer(&world.resume(report.run, None).await), r#"it said {"n":1}"#);
    assert_eq!(world.count("local.it"), 1);
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn no_effect_starts_after_an_interruption_and_none_is_doubted_that_was_not_received() {
    let world = one_tool(EffectClass::Unsafe, Behaviour::LostAs(vec![Received::No]), "");
    let handle = started(&world).await;
    handle.interrupt();
    let report = handle.finish().await.unwrap();
    assert_eq!((&report.end, world.count("local.it")), (&RunEnd::Interrupted, 1));
    assert_eq!(answer(&world.resume(report.run, None).await), r#"it said {"calls":2}"#);
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn an_unsafe_effect_under_way_at_the_deadline_is_kept_and_the_run_replays() {
    let world = one_tool(EffectClass::Unsafe, Behaviour::Slow(150), "[limits]\ntimeout = \"50ms\"\n");
    let report = world.run("go").await;
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    assert_eq!(response.error.as_ref().unwrap().code, RunErrorCode::Timeout);
    let records = world.engine().await.journal().inspect(report.run, None).await.unwrap().records;
    let kinds: Vec<&str> = records.iter().map(|record| record.body.kind().as_str()).collect();
    // The end itself says that the effect is under way; what came of it replaces that.
    assert_eq!(kinds, ["started", "requested", "signalled", "failed", "late", "late"]);
    let open = records.iter().filter_map(|record| match &record.body {
        dalsegno_store::Body::Late { open, .. } => Some(*open),
        _ => None,
    });
    assert_eq!(open.collect::<Vec<_>>(), [1, 0]);
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn waiting_for_an_answer_does_not_use_up_a_runs_time() {
    let settings = "[limits]\ntimeout = \"400ms\"\n";
    let world = one_tool(EffectClass::Unsafe, Behaviour::LostAs(vec![Received::Possibly]), settings);
    let run = world.run("go").await.run;
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    let report = world.resume(run, Some(Settlement::NotDone)).await;
    assert_eq!(answer(&report), r#"it said {"calls":2}"#);
    let records = world.engine().await.journal().inspect(run, None).await.unwrap().records;
    let elapsed = records.iter().find_map(|record| match record.body {
        dalsegno_store::Body::Resolved { elapsed_ms, .. } => Some(elapsed_ms),
        _ => None,
    });
    assert!(elapsed.unwrap() < 600, "{elapsed:?}");
}

#[tokio::test]
async fn a_refused_repeat_does_not_undo_the_doubt_of_the_attempt_before() {
    let lost = vec![Received::Possibly, Received::No];
    let settings = "[tools.settings.\"local.it\"]\nretries = 1\n";
    let world = one_tool(EffectClass::Keyed, Behaviour::LostAs(lost), settings);
    let report = world.run("go").await;
    assert!(
        matches!(&report.end, RunEnd::Suspended { waiting, .. } if waiting[0].kind() == "in_doubt"),
        "{report:?}"
    );
}

#[tokio::test]
async fn the_same_start_key_while_the_run_is_under_way_starts_nothing() {
    let world = one_tool(EffectClass::Read, Behaviour::Hang, "");
    let engine = world.engine().await;
    let start = async || {
        let options = StartOptions { key: Some("order-7".to_owned()), ..StartOptions::default() };
        engine.start(&"a".parse().unwrap(), dalsegno_core::AgentRequest::text("go"), options).await
    };
    let handle = start().await.unwrap();
    let error = start().await.unwrap_err();
    assert!(matches!(error, EngineError::AlreadyRunning { run } if run == handle.run()), "{error:?}");
    handle.interrupt();
    handle.finish().await.unwrap();
}

#[tokio::test]
async fn the_same_start_key_returns_the_same_run() {
    let world = one_tool(EffectClass::Unsafe, Behaviour::Echo, "");
    let engine = world.engine().await;
    let start = async |text: &str| {
        let options = StartOptions { key: Some("order-7".to_owned()), ..StartOptions::default() };
        engine.start(&"a".parse().unwrap(), dalsegno_core::AgentRequest::text(text), options).await
    };
    let first = start("go").await.unwrap().finish().await.unwrap();
    let second = start("go").await.unwrap().finish().await.unwrap();
    assert_eq!(first, second);
    assert_eq!(world.count("local.it"), 1);
    assert!(matches!(start("something else").await, Err(EngineError::Create(_))));
}

#[tokio::test]
async fn a_run_belongs_to_one_process_at_a_time() {
    let world = one_tool(EffectClass::Read, Behaviour::Hang, "");
    let engine = world.engine().await;
    let handle = engine
        .start(&"a".parse().unwrap(), dalsegno_core::AgentRequest::text("go"), Default::default())
        .await;
    let handle = handle.unwrap();
    let error = world.engine().await.resume(handle.run(), Vec::new()).await.unwrap_err();
    assert!(matches!(error, EngineError::Acquire(_)), "{error:?}");
    handle.interrupt();
    handle.finish().await.unwrap();
}

#[tokio::test]
async fn secrets_are_scrubbed_from_what_is_recorded() {
    let world =
        one_tool(EffectClass::Read, Behaviour::Answer(json!({ "echo": "Bearer canary-4711-secret" })), "");
    std::fs::write(world.path().join("token"), "canary-4711-secret\n").unwrap();
    let world = world.settings("[secrets]\ntoken = { file = \"token\" }\n");
    assert_eq!(answer(&world.run("go").await), r#"it said {"echo":"Bearer [secret]"}"#);
    for entry in std::fs::read_dir(world.path().join(".dalsegno")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            assert!(!bytes.windows(11).any(|window| window == b"canary-4711"), "{}", path.display());
        }
    }
}

#[tokio::test]
async fn a_model_works_with_two_tools_at_once_and_answers() {
    let world = World::new("prompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\n[tools]\nallow = [\"local.a\", \"local.b\"]\n")
        .script(
            "[[replies]]\ntext = \"Two at once.\"\ncalls = [{ name = \"local.a\", arguments = { n = 1 } }, \
             { name = \"local.b\", arguments = { n = 2 } }, { name = \"local.c\", arguments = { n = 3 } }, \
             { name = \"local.a\", arguments_text = \"{broken\" }]\n[[replies]]\ntext = \"All done.\"\n",
        )
        .tool("local.a", EffectClass::Read, Behaviour::Echo)
        .tool("local.b", EffectClass::Read, Behaviour::Error("no such row"))
        .tool("local.c", EffectClass::Unsafe, Behaviour::Echo);
    let report = world.run("go").await;
    assert_eq!(answer(&report), "All done.");
    assert_eq!((world.count("local.a"), world.count("local.b"), world.count("local.c")), (1, 1, 0));
    let inspection = world.engine().await.journal().inspect(report.run, None).await.unwrap();
    let transcript = format!("{:?}", inspection.state.transcript());
    assert!(transcript.contains("not allowed for this agent"), "{transcript}");
    assert!(transcript.contains("no such row"), "{transcript}");
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}
