//! Runs that a person pauses: what is under way finishes, nothing new starts, and nothing is lost.

use std::time::Duration;

use dalsegno_core::{AgentRequest, EffectClass, RunId, Status};
use dalsegno_runtime::{
    EngineError, ForkOptions, Pausing, RunEnd, RunReport, Settlement, StartOptions, WorkerOptions,
};
use dalsegno_store::{Body, Record, RunFilter, RunStatus, Waiting};

use crate::support::{Behaviour, World, answer};

const TWO_STEPS: &str = r#"
[tools]
allow = ["*"]
[[steps]]
id = "first"
tool = "local.slow"
with = { n = 1 }
[[steps]]
id = "second"
tool = "local.write"
with = { n = 2 }
[[steps]]
respond = "{{steps.first.n}} and {{steps.second.n}}"
"#;

fn two_steps(class: EffectClass) -> World {
    World::new(TWO_STEPS).tool("local.slow", class, Behaviour::Slow(400)).tool(
        "local.write",
        EffectClass::Unsafe,
        Behaviour::Echo,
    )
}

async fn records(world: &World, run: RunId) -> Vec<Record> {
    world.engine().await.journal().inspect(run, None).await.unwrap().records
}

fn is_paused(report: &RunReport, by: &str, reason: &str) -> bool {
    matches!(&report.end, RunEnd::Paused { pause, .. }
        if pause.by.as_deref() == Some(by) && pause.reason.as_deref() == Some(reason))
}

/// Pauses a run that no process performs.
async fn pause(world: &World, run: RunId) {
    let paused = world.engine().await.pause(run, Some("ada".into()), Some("an audit".into())).await.unwrap();
    assert_eq!(paused, Pausing::Paused { run });
}

#[tokio::test]
async fn what_is_under_way_finishes_and_nothing_new_starts_until_the_run_continues() {
    paused_in_the_middle(EffectClass::Unsafe).await;
    // What may be repeated is not, either.
    paused_in_the_middle(EffectClass::Read).await;
}

async fn paused_in_the_middle(class: EffectClass) {
    let world = two_steps(class);
    let engine = world.engine().await;
    let options = StartOptions::default();
    let handle = engine.start(&"a".parse().unwrap(), AgentRequest::text("go"), options).await.unwrap();
    let run = handle.run();
    while world.count("local.slow") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let told = engine.pause(run, Some("ada".into()), Some("an audit".into())).await.unwrap();
    assert_eq!(told, Pausing::Requested { run });
    assert!(engine.is_paused(run).await.unwrap(), "it is to stand still");
    let report = handle.finish().await.unwrap();
    assert!(is_paused(&report, "ada", "an audit"), "{report:?}");
    assert_eq!((world.count("local.slow"), world.count("local.write")), (1, 0));
    let summary = engine.journal().summary(run).await.unwrap();
    assert_eq!((summary.status, &*summary.waiting), (RunStatus::Suspended, &[Waiting::Paused][..]));
    // Whoever takes it up finds it as it is: a person who resumes it without a word, a worker, another pause.
    let before = records(&world, run).await;
    assert!(is_paused(&world.resume(run, None).await, "ada", "an audit"));
    let options = WorkerOptions { until_idle: true, ..WorkerOptions::default() };
    world.engine().await.work(&options, std::future::pending(), |_| {}).await.unwrap();
    let again = world.engine().await.pause(run, Some("eve".into()), None).await.unwrap();
    assert_eq!(again, Pausing::Paused { run });
    assert_eq!(records(&world, run).await, before);
    let latest = engine.journal().latest(run).await.unwrap();
    assert_eq!(latest.paused.unwrap().by.as_deref(), Some("ada"));
    // It continues where it stood.
    engine.unpause(run, Some("eve".into())).await.unwrap();
    assert_eq!(answer(&world.resume(run, None).await), "1 and 2");
    assert_eq!((world.count("local.slow"), world.count("local.write")), (1, 1));
    let continued = records(&world, run).await.into_iter().find_map(|record| match record.body {
        Body::Continued { by } => by,
        _ => None,
    });
    assert_eq!(continued.as_deref(), Some("eve"));
    assert!(engine.journal().replay(run).await.unwrap().identical);
}

#[tokio::test]
async fn a_paused_run_takes_answers_and_acts_on_them_when_it_continues() {
    let world = World::new(
        "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"it\"\ntool = \"local.write\"\nwith = { n = 1 }\napprove = true\n\
         [[steps]]\nrespond = \"{{steps.it.n}}\"\n",
    )
    .tool("local.write", EffectClass::Unsafe, Behaviour::Echo);
    let run = world.run("go").await.run;
    pause(&world, run).await;
    let listed = |kind| RunFilter { waiting: Some(kind), ..RunFilter::default() };
    let journal = world.engine().await.journal().clone();
    for kind in [Waiting::Paused, Waiting::Approval] {
        assert_eq!(journal.runs(&listed(kind)).await.unwrap().len(), 1, "{kind}");
    }
    let pauses =
        |records: &[Record]| records.iter().filter(|one| matches!(one.body, Body::Paused { .. })).count();
    assert_eq!(pauses(&records(&world, run).await), 1);
    let report = world.resume(run, Some(Settlement::approve())).await;
    let RunEnd::Paused { waiting, .. } = &report.end else { panic!("{report:?}") };
    assert!(waiting.is_empty(), "{waiting:?}");
    assert_eq!(world.count("local.write"), 0);
    world.engine().await.unpause(run, None).await.unwrap();
    assert_eq!(answer(&world.resume(run, None).await), "1");
    assert_eq!(world.count("local.write"), 1);
    assert!(journal.replay(run).await.unwrap().identical);
}

#[tokio::test]
async fn an_answer_to_a_child_of_a_paused_run_is_kept_until_it_continues() {
    let world = World::new(
        "[[steps]]\nid = \"child\"\nagent = \"child\"\n[[steps]]\nrespond = \"{{steps.child}}\"\n",
    )
    .agent(
        "child",
        "[[steps]]\nid = \"it\"\nask = \"how many?\"\n[[steps]]\nrespond = \"{{steps.it}} then\"\n",
    );
    let run = world.run("go").await.run;
    pause(&world, run).await;
    let report = world.resume(run, Some(Settlement::Give { value: "3".into() })).await;
    assert!(is_paused(&report, "ada", "an audit"), "{report:?}");
    world.engine().await.unpause(run, None).await.unwrap();
    assert_eq!(answer(&world.resume(run, None).await), "3 then");
}

#[tokio::test]
async fn what_is_waited_for_after_a_pause_is_waited_for_from_its_end() {
    let world = World::new(
        "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"it\"\nask = \"how many?\"\n[[steps]]\nwait = \"60s\"\n[[steps]]\nrespond = \"late\"\n",
    );
    let run = world.run("go").await.run;
    pause(&world, run).await;
    world.resume(run, Some(Settlement::Give { value: "3".into() })).await;
    let answered = records(&world, run).await.pop().unwrap().at.as_millis();
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    world.engine().await.unpause(run, None).await.unwrap();
    let report = world.resume(run, None).await;
    let RunEnd::Suspended { wake_at: Some(at), .. } = report.end else { panic!("{report:?}") };
    assert!(at.as_millis() >= answered + 61_000, "{at:?}");
    assert!(world.engine().await.journal().replay(run).await.unwrap().identical);
}

#[tokio::test]
async fn a_timer_of_a_paused_run_fires_when_it_continues() {
    let world = World::new("[[steps]]\nwait = \"40s\"\n[[steps]]\nrespond = \"late\"\n");
    let run = world.run("go").await.run;
    assert!(world.engine().await.journal().summary(run).await.unwrap().wake_at.is_some());
    pause(&world, run).await;
    let summary = world.engine().await.journal().summary(run).await.unwrap();
    assert_eq!((summary.wake_at, &*summary.waiting), (None, &[Waiting::Paused][..]));
    let before = records(&world, run).await;
    assert!(is_paused(&world.resume(run, None).await, "ada", "an audit"));
    assert_eq!(records(&world, run).await, before, "a look at it is nothing to write down");
    world.engine().await.unpause(run, None).await.unwrap();
    let report = world.resume(run, None).await;
    assert!(matches!(report.end, RunEnd::Suspended { wake_at: Some(_), .. }), "{report:?}");
}

#[tokio::test]
async fn a_question_of_a_paused_run_expires_when_it_continues() {
    let world = World::new(
        "[limits]\nanswer_timeout = \"1s\"\n[[steps]]\nid = \"it\"\nask = \"how many?\"\non_failure = \"report\"\n\
         [[steps]]\nrespond = \"{{steps.it.error.code}}\"\n",
    );
    let run = world.run("go").await.run;
    pause(&world, run).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let report = world.resume(run, None).await;
    assert!(matches!(&report.end, RunEnd::Paused { waiting, .. } if waiting.len() == 1), "{report:?}");
    world.engine().await.unpause(run, None).await.unwrap();
    assert_eq!(answer(&world.resume(run, None).await), "denied");
}

#[tokio::test]
async fn child_runs_are_paused_and_continue_with_the_run_above_them() {
    let world = World::new(
        "[[steps]]\nid = \"sub\"\nagent = \"b\"\ninput = \"x\"\n[[steps]]\nrespond = \"{{steps.sub}}\"\n",
    )
    .agent("b", TWO_STEPS)
    .tool("local.slow", EffectClass::Unsafe, Behaviour::Slow(400))
    .tool("local.write", EffectClass::Unsafe, Behaviour::Echo);
    let engine = world.engine().await;
    let options = StartOptions::default();
    let handle = engine.start(&"a".parse().unwrap(), AgentRequest::text("go"), options).await.unwrap();
    let run = handle.run();
    while world.count("local.slow") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(engine.pause(run, None, None).await.unwrap(), Pausing::Requested { run });
    assert!(matches!(handle.finish().await.unwrap().end, RunEnd::Paused { .. }));
    let paused = RunFilter { waiting: Some(Waiting::Paused), ..RunFilter::default() };
    assert_eq!(engine.journal().runs(&paused).await.unwrap().len(), 2);
    assert_eq!((world.count("local.slow"), world.count("local.write")), (1, 0));
    // Somebody continues the child run alone: it ends, and the run above it stands still.
    let child = RunFilter { parent: Some(run), ..RunFilter::default() };
    let child = engine.journal().runs(&child).await.unwrap()[0].run;
    engine.unpause(child, None).await.unwrap();
    assert_eq!(answer(&world.resume(child, None).await), "1 and 2");
    let above = engine.journal().runs(&paused).await.unwrap();
    assert_eq!(above.iter().map(|run| run.run).collect::<Vec<_>>(), [run]);
    engine.unpause(run, None).await.unwrap();
    assert_eq!(answer(&world.resume(run, None).await), "1 and 2");
    assert_eq!((world.count("local.slow"), world.count("local.write")), (1, 1));
}

#[tokio::test]
async fn a_child_run_of_a_paused_run_continues_with_it() {
    let world = World::new(
        "[[steps]]\nid = \"sub\"\nagent = \"b\"\ninput = \"x\"\n[[steps]]\nrespond = \"{{steps.sub}}\"\n",
    )
    .agent("b", "[[steps]]\nid = \"said\"\nask = \"how many?\"\n[[steps]]\nrespond = \"{{steps.said}}\"\n");
    let run = world.run("go").await.run;
    let engine = world.engine().await;
    assert_eq!(engine.pause(run, None, None).await.unwrap(), Pausing::Paused { run });
    // No process performed the child run, so that the word waits for it.
    let child = RunFilter { parent: Some(run), ..RunFilter::default() };
    let child = engine.journal().runs(&child).await.unwrap()[0].run;
    assert!(engine.is_paused(child).await.unwrap());
    engine.unpause(run, None).await.unwrap();
    let options = WorkerOptions { until_idle: true, ..WorkerOptions::default() };
    engine.work(&options, std::future::pending(), |_| {}).await.unwrap();
    for run in [run, child] {
        assert!(!engine.is_paused(run).await.unwrap());
    }
    let give = Settlement::Give { value: "3".into() };
    assert_eq!(answer(&world.resume(run, Some(give)).await), "3");
}

#[tokio::test]
async fn a_paused_run_can_be_cancelled_and_forked() {
    let world =
        World::new("[[steps]]\nid = \"it\"\nask = \"how many?\"\n[[steps]]\nrespond = \"{{steps.it}}\"\n");
    let run = world.run("go").await.run;
    pause(&world, run).await;
    let engine = world.engine().await;
    let fork = engine
        .fork(run, ForkOptions { at: Some(1), ..ForkOptions::default() })
        .await
        .unwrap()
        .finish()
        .await
        .unwrap();
    assert!(matches!(fork.end, RunEnd::Suspended { .. }), "a fork is another run: {fork:?}");
    engine.cancel(run, None, None).await.unwrap();
    let latest = engine.journal().latest(run).await.unwrap();
    assert_eq!((latest.response.unwrap().status, latest.paused), (Status::Cancelled, None));
    assert!(engine.journal().replay(run).await.unwrap().identical);
    for error in
        [engine.pause(run, None, None).await.unwrap_err(), engine.unpause(run, None).await.unwrap_err()]
    {
        assert!(matches!(error, EngineError::Ended { .. }), "{error:?}");
    }
    let error = engine.unpause(fork.run, None).await.unwrap_err();
    assert!(matches!(error, EngineError::NotPaused { .. }), "{error:?}");
}

#[tokio::test]
async fn the_last_word_counts_however_many_there_were() {
    let world =
        World::new("[[steps]]\nid = \"it\"\nask = \"how many?\"\n[[steps]]\nrespond = \"{{steps.it}}\"\n");
    let run = world.run("go").await.run;
    let engine = world.engine().await;
    let store = engine.journal().store();
    let pause = |reason: &str| dalsegno_store::Message::Pause { by: None, reason: Some(reason.into()) };
    let go = || dalsegno_store::Message::Continue { by: None };
    for message in [pause("one"), go(), pause("two")] {
        store.post(run, message).await.unwrap();
    }
    let report = world.resume(run, None).await;
    assert!(
        matches!(&report.end, RunEnd::Paused { pause, .. } if pause.reason.as_deref() == Some("two")),
        "{report:?}"
    );
    assert_eq!(store.inbox(run).await.unwrap(), []);
    for message in [go(), pause("three"), go()] {
        store.post(run, message).await.unwrap();
    }
    assert!(matches!(world.resume(run, None).await.end, RunEnd::Suspended { .. }));
    assert_eq!(store.inbox(run).await.unwrap(), []);
}
