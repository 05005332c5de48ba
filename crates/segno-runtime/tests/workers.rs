//! Workers: runs that nobody performs go on, each in one process at a time; and observers, who see what is written down.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use segno_core::{AgentRequest, EffectClass, RunId, Timestamp};
use segno_runtime::{
    Clock, Engine, Observer, RunEnd, Settlement, StartOptions, WorkerEvent, WorkerOptions, WorkerReport,
};
use segno_store::{NewRecord, RunFilter, RunStatus};

use support::{Behaviour, World, answer, waits};

/// A clock that a test moves.
#[derive(Clone)]
struct Watch(Arc<AtomicU64>);

impl Clock for Watch {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

const HOUR: u64 = 3_600_000;

/// Waits for an hour, then does something that may not be repeated.
const SLEEPER: &str = "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"later\"\nwait = \"1h\"\n\
    [[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = { note = \"{{request.text}}\" }\n\
    [[steps]]\nrespond = \"{{steps.it.note}}\"\n";

fn until_idle() -> WorkerOptions {
    WorkerOptions { until_idle: true, ..WorkerOptions::default() }
}

async fn work(engine: &Engine) -> WorkerReport {
    engine.work(&until_idle(), std::future::pending(), |_| {}).await.unwrap()
}

async fn start(engine: &Engine, text: &str) -> segno_runtime::RunReport {
    let handle = engine.start(&"a".parse().unwrap(), AgentRequest::text(text), StartOptions::default()).await;
    handle.unwrap().finish().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_wake_each_run_once_and_no_sooner_than_its_time() {
    let world = World::new(SLEEPER).tool("local.it", EffectClass::Unsafe, Behaviour::Echo);
    let watch = Watch(Arc::new(AtomicU64::new(1_000 * HOUR)));
    let open = async || world.builder().clock(watch.clone()).open(world.path()).await.unwrap();
    let one = open().await;
    let texts: Vec<String> = (0..30).map(|number| format!("run {number}")).collect();
    for text in &texts {
        let report = start(&one, text).await;
        let RunEnd::Suspended { wake_at, .. } = report.end else { panic!("{report:?}") };
        assert_eq!(wake_at, Some(Timestamp::from_millis(1_001 * HOUR)));
    }
    assert_eq!(work(&one).await, WorkerReport::default());
    watch.0.store(1_001 * HOUR, Ordering::SeqCst);
    let other = open().await;
    let (left, right) = tokio::join!(work(&one), work(&other));
    assert_eq!(left.ended + right.ended, 30, "{left:?} {right:?}");
    assert_eq!(left.failed + right.failed, 0, "{left:?} {right:?}");
    // Each effect took place once.
    let mut done: Vec<String> = world.tools["local.it"]
        .calls
        .lock()
        .unwrap()
        .iter()
        .map(|call| call.arguments["note"].as_str().unwrap().to_owned())
        .collect();
    done.sort_by_key(|text| texts.iter().position(|known| known == text));
    assert_eq!(done, texts);
    let filter = RunFilter { status: Some(RunStatus::Completed), ..RunFilter::default() };
    assert_eq!(one.runs(&filter).await.unwrap().len(), 30);
}

#[tokio::test]
async fn what_an_engine_leaves_behind_another_goes_on_with() {
    let agent = "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = { n = 1 }\n\
                 [[steps]]\nrespond = \"{{steps.it.n}}\"\n";
    let world = World::new(agent).tool("local.it", EffectClass::Read, Behaviour::Slow(200));
    let engine = world.engine().await;
    let request = AgentRequest::text("go");
    let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    while world.tools["local.it"].count() == 0 {
        tokio::task::yield_now().await;
    }
    handle.interrupt();
    let report = handle.finish().await.unwrap();
    assert_eq!(report.end, RunEnd::Interrupted);
    let mut told = Vec::new();
    let other = world.engine().await;
    let tell = |event: WorkerEvent<'_>| match event {
        WorkerEvent::Taken { run } => told.push((run, "taken")),
        WorkerEvent::Left { report } => {
            assert_eq!(answer(report), "1");
            told.push((report.run, "left"));
        }
        WorkerEvent::Failed { .. } | WorkerEvent::Blind { .. } => panic!("{event:?}"),
    };
    other.work(&until_idle(), std::future::pending(), tell).await.unwrap();
    assert_eq!(told, [(report.run, "taken"), (report.run, "left")]);
}

#[tokio::test]
async fn a_worker_that_is_told_to_stop_leaves_its_runs_as_they_are() {
    let world = World::new(SLEEPER).tool("local.it", EffectClass::Read, Behaviour::Slow(3_600_000));
    let watch = Watch(Arc::new(AtomicU64::new(1_000 * HOUR)));
    let engine = world.builder().clock(watch.clone()).open(world.path()).await.unwrap();
    let run = start(&engine, "go").await.run;
    watch.0.store(1_001 * HOUR, Ordering::SeqCst);
    let called = async {
        while world.count("local.it") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let report = engine.work(&WorkerOptions::default(), called, |_| {}).await.unwrap();
    assert_eq!(report, WorkerReport { taken: 1, interrupted: 1, ..WorkerReport::default() });
    let filter = RunFilter { status: Some(RunStatus::Running), ..RunFilter::default() };
    assert_eq!(engine.runs(&filter).await.unwrap()[0].run, run);
}

#[tokio::test]
async fn an_answer_that_is_passed_on_is_found_by_a_worker() {
    let agent = "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = { n = 1 }\n\
                 approve = true\n[[steps]]\nrespond = \"{{steps.it.n}}\"\n";
    let world = World::new(agent).tool("local.it", EffectClass::Unsafe, Behaviour::Echo);
    let engine = world.engine().await;
    let report = start(&engine, "go").await;
    let operation = waits(&report)[0].operation;
    assert_eq!(work(&engine).await, WorkerReport::default());
    let yes = segno_runtime::GateInput {
        operation: Some(operation),
        settlement: Settlement::Approve { edited: None, reason: None },
        by: Some("eve".to_owned()),
    };
    engine.pass_on(report.run, vec![yes]).await.unwrap();
    assert_eq!(work(&engine).await.ended, 1);
    assert_eq!(world.count("local.it"), 1);
    assert!(engine.replay(report.run).await.unwrap().identical);
}

/// What an observer saw.
#[derive(Default)]
struct Seen {
    records: Mutex<BTreeMap<RunId, Vec<(u64, NewRecord)>>>,
    committed: AtomicU64,
}

impl Observer for Seen {
    fn recorded(&self, run: RunId, seq: u64, record: &NewRecord) {
        self.records.lock().unwrap().entry(run).or_default().push((seq, record.clone()));
    }

    fn committed(&self, records: usize, _took: Duration) {
        self.committed.fetch_add(records as u64, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn an_observer_sees_every_record_once_in_its_order_and_none_of_a_replay() {
    let agent = "[[steps]]\nid = \"sub\"\nagent = \"b\"\ninput = \"go\"\n[[steps]]\nrespond = \"done\"\n";
    let world = World::new(agent)
        .agent("b", "[[steps]]\nhandoff = \"c\"\n")
        .agent("c", "[[steps]]\nrespond = \"{{request.text}}\"\n");
    let seen = Arc::new(Seen::default());
    let engine = world.builder().observer(Arc::clone(&seen) as Arc<dyn Observer>).open(world.path());
    let engine = engine.await.unwrap();
    assert_eq!(answer(&start(&engine, "go").await), "done");
    let runs = engine.runs(&RunFilter::default()).await.unwrap();
    assert_eq!(runs.len(), 3);
    let before = seen.records.lock().unwrap().clone();
    for run in runs {
        let journal = engine.inspect(run.run, None).await.unwrap().records;
        let shown: Vec<_> = before[&run.run].iter().map(|(seq, record)| (*seq, &record.body)).collect();
        let written: Vec<_> = journal.iter().map(|record| (record.seq, &record.body)).collect();
        assert_eq!(shown, written, "{run:?}");
        assert!(engine.replay(run.run).await.unwrap().identical);
    }
    assert_eq!(*seen.records.lock().unwrap(), before);
    assert!(seen.committed.load(Ordering::SeqCst) > 0);
}
