//! What a process lets start, and when: limits, queues, circuit breakers, kept results, answers that never come,
//! operations that are given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dalsegno_core::{AgentRequest, EffectClass, RunId, Status, Timestamp, ToolReturn};
use dalsegno_runtime::{
    Clock, EngineError, ForkOptions, GateInput, Inspection, Invocation, Received, RunEnd, RunEvent,
    RunReport, Settlement, StartOptions, SystemClock, Tool, ToolDescription, ToolError, WorkerEvent,
    WorkerOptions,
};
use dalsegno_store::{AttemptCause, Body, Evidence, Start};
use tokio::sync::Notify;

use crate::support::{Behaviour, World, answer, waits};

/// Three calls at once, in a process that performs so many.
fn three(settings: &str, class: EffectClass) -> World {
    let call =
        |id: &str| format!(r#"{{ id = "{id}", tool = "local.it", with = {{ n = 1, note = "{id}" }} }}"#);
    let agent = format!(
        "[tools]\nallow = [\"*\"]\nsettings = {{ \"local.it\" = {{ retries = 0 }} }}\n[[steps]]\nparallel = [{}, {}, {}]\n\
         [[steps]]\nrespond = \"{{{{steps.a.n}}}}{{{{steps.b.n}}}}{{{{steps.c.n}}}}\"\n",
        call("a"),
        call("b"),
        call("c"),
    );
    World::new(&agent).settings(settings).tool("local.it", class, Behaviour::Slow(20))
}

async fn inspected(world: &World, run: RunId) -> Inspection {
    world.engine().await.journal().inspect(run, None).await.unwrap()
}

#[tokio::test]
async fn effects_beyond_a_limit_wait_and_say_so_in_the_journal_before_they_start() {
    let world = three("[dispatch]\nconcurrency = 1\n", EffectClass::Unsafe);
    let report = world.run("go").await;
    assert_eq!(answer(&report), "111");
    assert_eq!((world.count("local.it"), world.tools["local.it"].most()), (3, 1));
    let journal = inspected(&world, report.run).await.records;
    let now = |start: &Start| *start == Start::Now;
    let requested: Vec<bool> = journal
        .iter()
        .filter_map(|record| match &record.body {
            Body::Requested { start, .. } => Some(now(start)),
            _ => None,
        })
        .collect();
    assert_eq!(requested, [true, false, false]);
    let queued = journal.iter().filter(|record| {
        matches!(&record.body, Body::Attempted { attempt: 1, cause: AttemptCause::Queued, start, .. } if now(start))
    });
    assert_eq!(queued.count(), 2);
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn runs_of_one_process_share_its_limits() {
    let world = three("[dispatch]\ntenant_concurrency = 2\n", EffectClass::Read).tenants(&["acme", "other"]);
    let engine = world.engine().await;
    let mut runs = Vec::new();
    for tenant in ["acme", "acme", "other"] {
        let request = AgentRequest { tenant: tenant.to_owned(), ..AgentRequest::text("go") };
        runs.push(engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap());
    }
    for run in runs {
        assert_eq!(answer(&run.finish().await.unwrap()), "111");
    }
    assert_eq!(world.count("local.it"), 9);
    // Two of the one tenant, two of the other.
    let most = world.tools["local.it"].most();
    assert!((2..=4).contains(&most), "{most}");
    assert_eq!(engine.load(), dalsegno_runtime::Load::default());
}

#[tokio::test]
async fn a_full_queue_is_an_outcome_and_nothing_is_sent() {
    let world = three("[dispatch]\nconcurrency = 1\nqueue = 1\n", EffectClass::Unsafe);
    let report = world.run("go").await;
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    assert_eq!(response.status, Status::Failed);
    let error = response.error.as_ref().unwrap();
    assert!(
        error
            .message
            .contains("overloaded: the tool `local.it` is overloaded: 1 effects wait for it already"),
        "{}",
        error.message
    );
    // The third was never sent; whether the second was depends on whether it waited when the run ended.
    assert!((1..=2).contains(&world.count("local.it")));
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn a_tool_that_fails_in_a_row_is_left_alone_and_the_next_run_fails_fast() {
    let agent = "[tools]\nallow = [\"*\"]\nsettings = { \"local.it\" = { retries = 0 } }\n\
                 [[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = { n = 1 }\n[[steps]]\nrespond = \"{{steps.it.n}}\"\n";
    let world = World::new(agent)
        .settings("[dispatch]\nbreaker_failures = 3\nbreaker_cool_down = \"200ms\"\n")
        .tool("local.it", EffectClass::Read, Behaviour::LostFirst(3, Received::No));
    let engine = world.engine().await;
    let run = async || {
        let handle =
            engine.start(&"a".parse().unwrap(), AgentRequest::text("go"), StartOptions::default()).await;
        let report = handle.unwrap().finish().await.unwrap();
        match report.end {
            RunEnd::Ended(response) => response,
            end => panic!("{end:?}"),
        }
    };
    for _ in 0..3 {
        assert!(run().await.error.unwrap().message.contains("the line went dead"));
    }
    assert_eq!(engine.load().open, ["the tool `local.it`"]);
    let refused = run().await.error.unwrap().message;
    assert!(refused.contains("it failed 3 times in a row"), "{refused}");
    assert_eq!(world.count("local.it"), 3);
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(run().await.status, Status::Completed);
    assert!(engine.load().open.is_empty());
}

#[tokio::test]
async fn a_result_stands_for_the_same_call_of_a_later_run_and_is_recorded_like_any_other() {
    let agent = "[tools]\nallow = [\"*\"]\nsettings = { \"local.it\" = { effect = \"read\", cache = \"1h\" } }\n\
                 [[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = { note = \"{{request.text}}\" }\n\
                 [[steps]]\nrespond = \"{{steps.it.note}}\"\n";
    let world =
        World::new(agent).tool("local.it", EffectClass::Unsafe, Behaviour::Echo).tenants(&["acme", "other"]);
    let engine = world.engine().await;
    let mut runs = Vec::new();
    for (text, tenant) in [("one", "acme"), ("one", "acme"), ("two", "acme"), ("one", "other")] {
        let request = AgentRequest { tenant: tenant.to_owned(), ..AgentRequest::text(text) };
        let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
        let report = handle.finish().await.unwrap();
        assert_eq!(answer(&report), text);
        runs.push(report.run);
    }
    assert_eq!(world.count("local.it"), 3);
    let journal = inspected(&world, runs[1]).await.records;
    assert!(journal.iter().any(|record| matches!(record.body, Body::Resolved { attempts: 0, .. })));
    for run in runs {
        assert!(engine.journal().replay(run).await.unwrap().identical);
    }
}

/// A clock that a test moves.
#[derive(Clone)]
struct Watch(Arc<AtomicU64>);

impl Clock for Watch {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

const APPROVED: &str = "[tools]\nallow = [\"*\"]\n[limits]\nanswer_timeout = \"1h\"\n\
    [[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = { n = 1 }\napprove = true\non_failure = \"report\"\n\
    [[steps]]\nrespond = \"{{steps.it}}\"\n";

#[tokio::test]
async fn a_question_that_nobody_answers_in_time_is_answered_with_a_no() {
    let world = World::new(APPROVED).tool("local.it", EffectClass::Unsafe, Behaviour::Echo);
    let hour = 3_600_000;
    let watch = Watch(Arc::new(AtomicU64::new(1_000 * hour)));
    let open = async || world.builder().clock(watch.clone()).open(world.path()).await.unwrap();
    let request = AgentRequest::text("go");
    let handle = open().await.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    let report = handle.finish().await.unwrap();
    let RunEnd::Suspended { wake_at, .. } = report.end else { panic!("{report:?}") };
    assert_eq!(wake_at, Some(Timestamp::from_millis(1_001 * hour)));
    // Too early: it still waits. A clock that went back does not matter either.
    for time in [1_001 * hour - 1, 999 * hour] {
        watch.0.store(time, Ordering::SeqCst);
        let report = open().await.resume(report.run, Vec::new()).await.unwrap().finish().await.unwrap();
        assert_eq!(waits(&report).len(), 1);
    }
    watch.0.store(1_001 * hour, Ordering::SeqCst);
    let report = open().await.resume(report.run, Vec::new()).await.unwrap().finish().await.unwrap();
    assert_eq!(answer(&report), r#"{"error":{"code":"denied","message":"no answer within 3600 s"}}"#);
    assert_eq!(world.count("local.it"), 0);
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

/// The system's clock, which shows so many milliseconds more than it is.
#[derive(Clone, Default)]
struct Ahead(Arc<AtomicU64>);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        let now = SystemClock.now().as_millis();
        Timestamp::from_millis(now + self.0.load(Ordering::SeqCst))
    }
}

#[tokio::test]
async fn a_clock_that_jumps_forward_takes_no_time_from_a_person() {
    let agent = APPROVED.replace("1h", "3s");
    let world = World::new(&agent).tool("local.it", EffectClass::Unsafe, Behaviour::Echo);
    let watch = Ahead::default();
    let engine = world.builder().clock(watch.clone()).open(world.path()).await.unwrap();
    let began = Instant::now();
    let request = AgentRequest::text("go");
    let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    let RunReport { run, end: RunEnd::Suspended { wake_at: Some(before), .. }, .. } =
        handle.finish().await.unwrap()
    else {
        panic!("nobody is asked")
    };
    // The lid was closed for two days, and the worker finds what came due meanwhile.
    let jump = 48 * 3_600_000;
    watch.0.store(jump, Ordering::SeqCst);
    let report = engine.resume(run, Vec::new()).await.unwrap().finish().await.unwrap();
    assert_eq!(waits(&report).len(), 1);
    let RunEnd::Suspended { wake_at: Some(after), .. } = report.end else { panic!("{report:?}") };
    let shift = after.as_millis() - before.as_millis();
    assert!(shift.abs_diff(jump) < 1_000, "{shift}");
    // It asks as long as it would have asked, and the worker does not take the run up for nothing.
    let options = WorkerOptions { until_idle: false, ..WorkerOptions::default() };
    let mut ended = None;
    let taken = tokio::time::timeout(Duration::from_secs(10), async {
        let (over, stop) = tokio::sync::oneshot::channel::<()>();
        let mut over = Some(over);
        let stop = async { drop(stop.await) };
        let tell = |event: WorkerEvent<'_>| {
            if let WorkerEvent::Left { report: RunReport { end: RunEnd::Ended(_), .. } } = event {
                ended = Some(began.elapsed());
                over = None;
            }
        };
        engine.work(&options, stop, tell).await.unwrap().taken
    });
    assert_eq!(taken.await.unwrap(), 1);
    assert!(ended.unwrap() >= Duration::from_secs(3), "{ended:?}");
    assert_eq!(world.count("local.it"), 0);
    assert!(engine.journal().replay(run).await.unwrap().identical);
}

#[tokio::test]
async fn the_question_of_a_fork_is_as_old_as_the_fork_also_from_a_snapshot() {
    let world = World::new(APPROVED).tool("local.it", EffectClass::Unsafe, Behaviour::Echo);
    let hour = 3_600_000;
    let watch = Watch(Arc::new(AtomicU64::new(1_000 * hour)));
    let open =
        async || world.builder().clock(watch.clone()).snapshot_every(1).open(world.path()).await.unwrap();
    let request = AgentRequest::text("go");
    let handle = open().await.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    let run = handle.finish().await.unwrap().run;
    watch.0.store(1_050 * hour, Ordering::SeqCst);
    let options = ForkOptions { at: Some(1), ..ForkOptions::default() };
    let fork = open().await.fork(run, options).await.unwrap().finish().await.unwrap();
    assert_eq!(waits(&fork).len(), 1);
    watch.0.store(1_050 * hour + hour / 2, Ordering::SeqCst);
    let fork = open().await.resume(fork.run, Vec::new()).await.unwrap().finish().await.unwrap();
    let RunEnd::Suspended { wake_at, .. } = fork.end else { panic!("{fork:?}") };
    assert_eq!(wake_at, Some(Timestamp::from_millis(1_051 * hour)));
}

#[tokio::test]
async fn an_answer_in_time_counts() {
    let world = World::new(APPROVED).tool("local.it", EffectClass::Unsafe, Behaviour::Echo);
    let run = world.run("go").await.run;
    let report = world.resume(run, Some(Settlement::Approve { edited: None, reason: None })).await;
    assert_eq!(answer(&report), r#"{"n":1}"#);
}

fn given_up(class: EffectClass, behaviour: Behaviour) -> World {
    let agent = "[tools]\nallow = [\"*\"]\n[[steps]]\n\
                 parallel = [\n  { id = \"it\", tool = \"local.it\", with = { n = 1 }, on_failure = \"report\" },\n\
                 { id = \"other\", tool = \"local.other\", with = { n = 2 } },\n]\n\
                 [[steps]]\nrespond = \"{{steps.it}} and {{steps.other.n}}\"\n";
    World::new(agent).tool("local.it", class, behaviour).tool(
        "local.other",
        EffectClass::Read,
        Behaviour::Slow(400),
    )
}

/// Starts a run, and gives its first operation up from another engine on the same store as soon as it is called.
async fn give_up_from_elsewhere(world: &World) -> RunReport {
    let engine = world.engine().await;
    let mut handle =
        engine.start(&"a".parse().unwrap(), AgentRequest::text("go"), StartOptions::default()).await.unwrap();
    let operation = loop {
        match handle.next_event().await.unwrap() {
            RunEvent::Recorded { record, .. } if matches!(record.body, Body::Requested { .. }) => {
                break record.operation.unwrap();
            }
            _ => {}
        }
    };
    while world.count("local.it") == 0 {
        tokio::task::yield_now().await;
    }
    let (by, reason) = (Some("eve".to_owned()), Some("not needed any more".to_owned()));
    let other = world.engine().await;
    let told = other.give_up(handle.run(), vec![operation], by, reason).await.unwrap();
    assert!(told.is_none());
    handle.finish().await.unwrap()
}

#[tokio::test]
async fn one_operation_of_a_step_can_be_given_up_from_another_process() {
    let world = given_up(EffectClass::Read, Behaviour::Hang);
    let report = give_up_from_elsewhere(&world).await;
    assert_eq!(
        answer(&report),
        r#"{"error":{"code":"cancelled","message":"it was given up: not needed any more"}} and 2"#
    );
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn an_effect_that_has_started_and_may_not_be_repeated_finishes_and_is_kept() {
    let world = given_up(EffectClass::Unsafe, Behaviour::Slow(600));
    let report = give_up_from_elsewhere(&world).await;
    assert_eq!(answer(&report), r#"{"n":1} and 2"#);
}

#[tokio::test]
async fn a_question_can_be_given_up_and_what_may_have_taken_place_cannot() {
    let world = World::new(APPROVED).tool("local.it", EffectClass::Unsafe, Behaviour::Echo);
    let report = world.run("go").await;
    let operation = waits(&report)[0].operation;
    let engine = world.engine().await;
    let handle = engine.give_up(report.run, vec![operation], None, None).await.unwrap().unwrap();
    let report = handle.finish().await.unwrap();
    assert_eq!(answer(&report), r#"{"error":{"code":"denied","message":"it was given up"}}"#);
    let error = engine.give_up(report.run, vec![operation], None, None).await.unwrap_err();
    assert!(matches!(error, EngineError::Ended { .. }), "{error}");

    let doubt = World::new(&APPROVED.replace("approve = true\n", "")).tool(
        "local.it",
        EffectClass::Unsafe,
        Behaviour::Lost(Received::Possibly),
    );
    let report = doubt.run("go").await;
    let operation = waits(&report)[0].operation;
    let error = doubt.engine().await.give_up(report.run, vec![operation], None, None).await.unwrap_err();
    assert!(error.to_string().contains("may have taken place"), "{error}");
}

#[tokio::test]
async fn what_a_circuit_breaker_refuses_uses_up_no_attempt() {
    let agent = "[tools]\nallow = [\"*\"]\nsettings = { \"local.it\" = { retries = 1 } }\n\
                 [[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = { n = 1 }\n[[steps]]\nrespond = \"{{steps.it.calls}}\"\n";
    let world = World::new(agent)
        .settings("[dispatch]\nbreaker_failures = 1\nbreaker_cool_down = \"1s\"\n")
        .tool("local.it", EffectClass::Read, Behaviour::LostFirst(1, Received::Possibly));
    // The breaker refuses the second attempt, which is the last one, until the tool may be asked again.
    let report = world.run("go").await;
    assert_eq!(answer(&report), "2");
    let inspection = inspected(&world, report.run).await;
    let attempts = inspection.records.iter().filter_map(|record| match record.body {
        Body::Attempted { attempt, cause, start: Start::Now, .. } => Some((attempt, cause)),
        _ => None,
    });
    let attempts: Vec<_> = attempts.collect();
    let [(2, AttemptCause::Failed { possibly_received: true, .. })] = attempts[..] else {
        panic!("{attempts:?}")
    };
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

/// Makes a keyed call at the hour 1,000 that has no answer, and sets the clock during the pause before the second attempt.
/// Returns how the run ends, and how often the tool was called.
async fn keyed_at(hour: u64) -> (RunReport, usize) {
    let agent = "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = { n = 1 }\n\
                 [[steps]]\nrespond = \"{{steps.it}}\"\n";
    let world =
        World::new(agent).tool("local.it", EffectClass::Keyed, Behaviour::LostFirst(1, Received::Possibly));
    let watch = Watch(Arc::new(AtomicU64::new(1_000 * 3_600_000)));
    let engine = world.builder().clock(watch.clone()).open(world.path()).await.unwrap();
    let handle =
        engine.start(&"a".parse().unwrap(), AgentRequest::text("go"), StartOptions::default()).await.unwrap();
    while world.count("local.it") == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    watch.0.store(hour * 3_600_000, Ordering::SeqCst);
    let report = handle.finish().await.unwrap();
    (report, world.count("local.it"))
}

#[tokio::test]
async fn an_attempt_in_doubt_that_waited_for_longer_than_its_key_counts_asks_first() {
    // The lid of the laptop is closed during the pause before the second attempt.
    let (report, calls) = keyed_at(1_025).await;
    assert_eq!(waits(&report)[0].kind(), "in_doubt");
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn a_key_of_which_the_clock_says_nothing_any_more_asks_first() {
    // The clock had been ahead by nobody knows how long, and is set right during the pause.
    let (report, calls) = keyed_at(952).await;
    assert_eq!(waits(&report)[0].kind(), "in_doubt");
    assert_eq!(calls, 1);
    // A clock that is left alone.
    let (report, calls) = keyed_at(1_000).await;
    assert!(matches!(report.end, RunEnd::Ended(_)), "{report:?}");
    assert_eq!(calls, 2);
}

#[test]
fn a_tool_that_brings_its_process_down_is_not_called_for_ever() {
    is_not_called_for_ever("local.it");
}

#[test]
fn a_document_keeps_the_code_of_a_part_that_brings_its_process_down() {
    is_not_called_for_ever("by_way");
}

fn is_not_called_for_ever(tool: &str) {
    let agent = format!(
        "[tools]\nallow = [\"*\"]\nsettings = {{ \"local.it\" = {{ retries = 0 }} }}\n\
         [[steps]]\nid = \"it\"\ntool = \"{tool}\"\nwith = {{ n = 1 }}\non_failure = \"report\"\n\
         [[steps]]\nrespond = \"{{{{steps.it.error.code}}}}\"\n"
    );
    let world = World::new(&agent).tool("local.it", EffectClass::Read, Behaviour::Hang);
    if tool == "by_way" {
        std::fs::create_dir_all(world.path().join("tools")).unwrap();
        let document = r#"{ "name": "by_way", "description": "Asks it.",
            "parameters": [{ "name": "n", "type": "integer", "required": true }],
            "actions": [{ "type": "tool", "name": "local.it", "with": { "n": "{{params.n}}" } }] }"#;
        std::fs::write(world.path().join("tools/by_way.json"), document).unwrap();
    }
    let life = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut run = None;
    // The first start, and three more after a crash.
    for calls in 1..=4 {
        let runtime = life();
        run = runtime.block_on(async {
            let engine = world.engine().await;
            let handle = match run {
                None => {
                    let request = AgentRequest::text("go");
                    engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap()
                }
                Some(run) => engine.resume(run, Vec::new()).await.unwrap(),
            };
            while world.count("local.it") < calls {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Some(handle.run())
        });
        // It dies with all that it does.
        drop(runtime);
    }
    let run = run.unwrap();
    let report = life().block_on(world.resume(run, None));
    assert_eq!(answer(&report), "crash_loop");
    assert_eq!(world.count("local.it"), 4);
    let identical =
        life().block_on(async { world.engine().await.journal().replay(run).await.unwrap().identical });
    assert!(identical);
}

/// A call that is in doubt, and whom to ask about it.
fn verified(verdict: &str, retries: u32, asked: Behaviour) -> World {
    let agent = format!(
        "[tools]\nallow = [\"*\"]\n[tools.settings.\"local.it\"]\nretries = {retries}\n\
         verify = {{ tool = \"local.find\", with = {{ note = \"{{{{operation.id}}}}\", n = \"{{{{operation.arguments.n}}}}\" }}, \
         verdict = \"{verdict}\", result = \"result\", delay = \"1ms\", tries = 2 }}\n\
         [[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = {{ n = 7 }}\n[[steps]]\nrespond = \"{{{{steps.it}}}}\"\n"
    );
    World::new(&agent)
        .tool("local.it", EffectClass::Unsafe, Behaviour::LostFirst(2, Received::Possibly))
        .tool("local.find", EffectClass::Read, asked)
}

async fn evidence(world: &World, run: RunId) -> Vec<(Evidence, u32)> {
    let inspection = inspected(world, run).await;
    let records = inspection.records.iter().filter_map(|record| match &record.body {
        Body::Verified { evidence, tries, .. } if *tries > 0 => Some((*evidence, *tries)),
        _ => None,
    });
    records.collect()
}

#[tokio::test]
async fn a_call_in_doubt_that_took_place_is_found_out_without_a_person() {
    let world = verified("result.n === 7 ? 'happened' : 'unknown'", 0, Behaviour::Echo);
    let report = world.run("go").await;
    // What was asked about is the operation itself.
    let inspection = inspected(&world, report.run).await;
    let operation = inspection.records.iter().find_map(|record| record.operation).unwrap();
    assert_eq!(answer(&report), format!("{{\"n\":7,\"note\":\"{operation}\"}}"));
    assert_eq!((world.count("local.it"), world.count("local.find")), (1, 1));
    assert_eq!(evidence(&world, report.run).await, [(Evidence::Happened, 1)]);
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn a_call_in_doubt_that_did_not_take_place_starts_again_and_not_for_ever() {
    // It is lost twice; each time it is asked as often as is allowed, since the receiver may learn of it late.
    let world = verified("'not_happened'", 1, Behaviour::Echo);
    let report = world.run("go").await;
    assert_eq!(answer(&report), "{\"calls\":3}");
    assert_eq!((world.count("local.it"), world.count("local.find")), (3, 4));
    assert_eq!(evidence(&world, report.run).await, [(Evidence::NotHappened, 2); 2]);
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
    // One that always denies is not believed for ever.
    let world = verified("'not_happened'", 0, Behaviour::Echo);
    let report = world.run("go").await;
    assert_eq!(waits(&report)[0].kind(), "in_doubt");
    assert_eq!(world.count("local.it"), 2);
}

#[tokio::test]
async fn whoever_does_not_know_leaves_the_question_to_a_person() {
    for (verdict, asked) in [
        ("result.status", Behaviour::Echo),
        ("result.n.deep.nothing", Behaviour::Answer(serde_json::json!({}))),
        ("[1] === [1]", Behaviour::Echo),
        ("'happened'", Behaviour::Error("no such order")),
        ("'happened'", Behaviour::Lost(Received::Possibly)),
        ("'happened'", Behaviour::Panic),
    ] {
        let world = verified(verdict, 0, asked.clone());
        let report = world.run("go").await;
        assert_eq!(waits(&report)[0].kind(), "in_doubt", "{verdict} {asked:?}");
        if !matches!(asked, Behaviour::Panic) {
            assert_eq!(evidence(&world, report.run).await, [(Evidence::Unknown, 2)], "{verdict} {asked:?}");
        }
        let calls = world.count("local.find");
        let done = Settlement::Done { result: None };
        let report = world.resume(report.run, Some(done)).await;
        assert_eq!(answer(&report), "{\"settled\":\"done\"}");
        assert!(matches!(asked, Behaviour::Panic) || world.count("local.find") == calls, "it is asked once");
    }
}

#[test]
fn a_tool_that_brings_its_process_down_is_not_asked_for_ever() {
    let world = verified("'unknown'", 5, Behaviour::Hang);
    let life = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut run = None;
    for asked in 1..=3 {
        let runtime = life();
        run = runtime.block_on(async {
            let engine = world.engine().await;
            let handle = match run {
                None => {
                    let request = AgentRequest::text("go");
                    engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap()
                }
                Some(run) => engine.resume(run, Vec::new()).await.unwrap(),
            };
            while world.count("local.find") < asked {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Some(handle.run())
        });
        // It dies with all that it does.
        drop(runtime);
    }
    let run = run.unwrap();
    let report = life().block_on(world.resume(run, None));
    assert_eq!(waits(&report)[0].kind(), "in_doubt", "a person is asked then");
    assert_eq!((world.count("local.it"), world.count("local.find")), (1, 3));
    let done = Settlement::Done { result: None };
    assert_eq!(answer(&life().block_on(world.resume(run, Some(done)))), "{\"settled\":\"done\"}");
    assert!(life().block_on(async { world.engine().await.journal().replay(run).await.unwrap().identical }));
}

/// Says that it took place, when it is let; asked again, it does not know.
#[derive(Clone)]
struct Slow {
    told: Arc<Notify>,
    asked: Arc<AtomicU64>,
}

#[async_trait]
impl Tool for Slow {
    fn describe(&self) -> ToolDescription {
        let (input_schema, class) = (serde_json::json!({ "type": "object" }), EffectClass::Read);
        ToolDescription {
            description: "Knows late.".to_owned(),
            input_schema: input_schema.into(),
            output_schema: None,
            class,
        }
    }

    async fn call(&self, _: Invocation) -> Result<ToolReturn, ToolError> {
        let verdict = match self.asked.fetch_add(1, Ordering::SeqCst) {
            0 => {
                self.told.notified().await;
                "happened"
            }
            _ => "unknown",
        };
        Ok(ToolReturn::structured(serde_json::json!({ "verdict": verdict })))
    }
}

#[tokio::test]
async fn what_a_tool_says_late_of_one_attempt_says_nothing_of_the_next() {
    let agent = "[tools]\nallow = [\"*\"]\n[tools.settings.\"local.it\"]\nretries = 3\n\
        verify = { tool = \"local.find\", with = {}, verdict = \"result.verdict\", delay = \"1ms\", tries = 1 }\n\
        [[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = { n = 7 }\n[[steps]]\nrespond = \"{{steps.it}}\"\n";
    let world =
        World::new(agent).tool("local.it", EffectClass::Unsafe, Behaviour::LostFirst(2, Received::Possibly));
    let slow = Slow { told: Arc::default(), asked: Arc::default() };
    let open = async || {
        let builder = world.builder().tool("local.find".parse().unwrap(), slow.clone());
        builder.open(world.path()).await.unwrap()
    };
    let (here, elsewhere) = (open().await, open().await);
    let request = AgentRequest::text("go");
    let handle = here.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    while slow.asked.load(Ordering::SeqCst) < 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // A person is faster than the tool; the next attempt is in doubt as well, and the tool is asked again.
    let not_done = GateInput { operation: None, seen: None, settlement: Settlement::NotDone, by: None };
    elsewhere.pass_on(handle.run(), vec![not_done]).await.unwrap();
    let said = async || {
        let records = elsewhere.journal().inspect(handle.run(), None).await.unwrap().records;
        records.iter().any(|record| matches!(record.body, Body::Verified { tries: 1, .. }))
    };
    while !said().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    slow.told.notify_one();
    let report = handle.finish().await.unwrap();
    assert_eq!(waits(&report)[0].kind(), "in_doubt", "it spoke of the attempt before");
    assert_eq!((world.count("local.it"), slow.asked.load(Ordering::SeqCst)), (2, 2));
}

#[tokio::test]
async fn only_a_tool_that_reads_can_be_asked() {
    let mut world = verified("'happened'", 0, Behaviour::Echo);
    world.tools.get_mut("local.find").unwrap().class = EffectClass::Unsafe;
    let engine = world.engine().await;
    let request = AgentRequest::text("go");
    let started = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await;
    let error = format!("{:?}", started.err().unwrap());
    assert!(error.contains("which does not only read"), "{error}");
}

#[tokio::test]
async fn a_model_call_that_was_never_sent_costs_nothing_and_the_fallback_replies() {
    let agent =
        "[model]\nuse = \"default\"\nfallback = [\"local\"]\nretries = 0\n[limits]\nmax_tokens = 6000\n";
    let keyless = "provider = \"openai\"\nmodel = \"m\"\napi_key = { env = \"DALSEGNO_TEST_NO_SUCH_KEY\" }\n";
    for first in [keyless, "provider = \"script\"\nfile = \"refused.toml\"\n"] {
        let world = World::new(agent).script("[[replies]]\ntext = \"hello\"\n").settings(&format!(
            "[models.default]\n{first}[models.local]\nprovider = \"script\"\nfile = \"script.toml\"\n",
        ));
        let refused = "[[replies]]\nerror = { kind = \"refused\", message = \"no such model\" }\n";
        std::fs::write(world.path().join("refused.toml"), refused).unwrap();
        let report = world.run("hi").await;
        assert_eq!(answer(&report), "hello");
        // The reply has no count, so it takes what was set aside for it; a second such sum would not have fitted.
        let used = (report.usage.model_calls, report.usage.output_tokens);
        assert_eq!(used, (1, 4_096), "{:?}", report.usage);
    }
}
