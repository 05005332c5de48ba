//! Workers: runs that nobody performs go on, each in one process at a time; and observers, who see what is written down.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dalsegno_core::{AgentRequest, EffectClass, Request, RunId, Timestamp};
use dalsegno_runtime::{
    Clock, Engine, GateInput, Observer, Received, RunEnd, RunEvent, Settlement, StartOptions, Watch, Watched,
    WorkerEvent, WorkerOptions, WorkerReport,
};
use dalsegno_store::{Body, NewRecord, Record, RunFilter, RunStatus};
use serde_json::json;

use crate::support::{Behaviour, World, answer, waits};

/// A clock that a test moves.
#[derive(Clone)]
struct Hand(Arc<AtomicU64>);

impl Clock for Hand {
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

async fn start(engine: &Engine, text: &str) -> dalsegno_runtime::RunReport {
    let handle = engine.start(&"a".parse().unwrap(), AgentRequest::text(text), StartOptions::default()).await;
    handle.unwrap().finish().await.unwrap()
}

/// A clock on which a time comes right after somebody has looked at it for the first time.
struct Jump {
    hand: Hand,
    /// The time that it shows from its second look on, once there is one.
    then: Arc<AtomicU64>,
    looks: AtomicU64,
}

impl Clock for Jump {
    fn now(&self) -> Timestamp {
        let then = self.then.load(Ordering::SeqCst);
        if then > 0 && self.looks.fetch_add(1, Ordering::SeqCst) > 0 {
            return Timestamp::from_millis(then);
        }
        self.hand.now()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_time_comes_while_a_worker_looks_for_runs_wakes_at_once() {
    let world = World::new(SLEEPER).tool("local.it", EffectClass::Unsafe, Behaviour::Echo);
    let (hand, then) = (Hand(Arc::new(AtomicU64::new(1_000 * HOUR))), Arc::new(AtomicU64::new(0)));
    let clock = Jump { hand: hand.clone(), then: Arc::clone(&then), looks: AtomicU64::new(0) };
    let engine = world.builder().clock(clock).open(world.path()).await.unwrap();
    start(&engine, "x").await;
    hand.0.store(1_001 * HOUR - 1, Ordering::SeqCst);
    then.store(1_001 * HOUR, Ordering::SeqCst);
    // It looks for runs once an hour, but for times that it knows of.
    let seldom = WorkerOptions { poll: Duration::from_secs(3_600), ..WorkerOptions::default() };
    let ended = Arc::new(tokio::sync::Notify::new());
    let (stop, tell) = (Arc::clone(&ended), Arc::clone(&ended));
    let working = engine.work(&seldom, async move { stop.notified().await }, move |event| {
        if let WorkerEvent::Left { .. } = event {
            tell.notify_one();
        }
    });
    let report = tokio::time::timeout(Duration::from_secs(60), working).await.expect("it sleeps on").unwrap();
    assert_eq!(report.ended, 1, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_wake_each_run_once_and_no_sooner_than_its_time() {
    let world = World::new(SLEEPER).tool("local.it", EffectClass::Unsafe, Behaviour::Echo);
    let watch = Hand(Arc::new(AtomicU64::new(1_000 * HOUR)));
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
    assert_eq!(one.journal().runs(&filter).await.unwrap().len(), 30);
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
        WorkerEvent::Failed { .. }
        | WorkerEvent::Blind { .. }
        | WorkerEvent::Changed { .. }
        | WorkerEvent::Stopping => panic!("{event:?}"),
    };
    other.work(&until_idle(), std::future::pending(), tell).await.unwrap();
    assert_eq!(told, [(report.run, "taken"), (report.run, "left")]);
}

#[tokio::test]
async fn a_worker_that_is_told_to_stop_leaves_its_runs_as_they_are() {
    let world = World::new(SLEEPER).tool("local.it", EffectClass::Read, Behaviour::Slow(3_600_000));
    let watch = Hand(Arc::new(AtomicU64::new(1_000 * HOUR)));
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
    assert_eq!(engine.journal().runs(&filter).await.unwrap()[0].run, run);
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
    let yes = GateInput {
        operation: Some(operation),
        seen: None,
        settlement: Settlement::Approve { edited: None, reason: None },
        by: Some("eve".to_owned()),
    };
    engine.pass_on(report.run, vec![yes]).await.unwrap();
    assert_eq!(work(&engine).await.ended, 1);
    assert_eq!(world.count("local.it"), 1);
    assert!(engine.journal().replay(report.run).await.unwrap().identical);
}

/// Lets one worker after the other work until nothing can go on; how often runs were taken up.
async fn work_off(world: &World, watch: &Hand) -> u64 {
    let engine = world.builder().clock(watch.clone()).open(world.path()).await.unwrap();
    let mut taken = 0;
    for _ in 0..3 {
        taken += work(&engine).await.taken;
    }
    taken
}

#[tokio::test]
async fn a_parent_wakes_when_its_child_wakes_as_often_as_that_is() {
    let parent = "[[steps]]\nid = \"sub\"\nagent = \"b\"\ninput = \"go\"\n[[steps]]\nrespond = \"{{steps.sub.answer}}\"\n";
    let child = "[[steps]]\nwait = \"1h\"\n[[steps]]\nwait = \"1h\"\n[[steps]]\nrespond = \"slept\"\n";
    let world = World::new(parent).agent("b", child);
    let watch = Hand(Arc::new(AtomicU64::new(1_000 * HOUR)));
    let engine = world.builder().clock(watch.clone()).open(world.path()).await.unwrap();
    let run = start(&engine, "go").await.run;
    let stands = async || {
        let all = engine.journal().runs(&RunFilter::default()).await.unwrap();
        all.into_iter().find(|summary| summary.run == run).unwrap()
    };
    assert_eq!(stands().await.wake_at, Some(Timestamp::from_millis(1_001 * HOUR)));
    watch.0.store(1_001 * HOUR, Ordering::SeqCst);
    // It does not go round and round: what it waits for now is written down.
    let taken = work_off(&world, &watch).await;
    assert!((1..20).contains(&taken), "{taken}");
    assert_eq!(stands().await.wake_at, Some(Timestamp::from_millis(1_002 * HOUR)));
    watch.0.store(1_002 * HOUR, Ordering::SeqCst);
    let taken = work_off(&world, &watch).await;
    assert!((1..20).contains(&taken), "{taken}");
    assert_eq!(stands().await.status, RunStatus::Completed);
    assert!(engine.journal().replay(run).await.unwrap().identical);
}

/// A parent whose child asks before it acts.
fn asking_child() -> World {
    let parent = "[[steps]]\nid = \"sub\"\nagent = \"b\"\ninput = \"go\"\non_failure = \"report\"\n\
                  [[steps]]\nrespond = \"{{steps.sub}}\"\n";
    let child = "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = { n = 1 }\n\
                 approve = true\n[[steps]]\nrespond = \"{{steps.it.n}}\"\n";
    World::new(parent).agent("b", child).tool("local.it", EffectClass::Unsafe, Behaviour::Echo)
}

#[tokio::test]
async fn an_answer_to_a_child_run_that_is_passed_on_wakes_its_parent_as_well() {
    let world = asking_child();
    let watch = Hand(Arc::new(AtomicU64::new(1_000 * HOUR)));
    let engine = world.builder().clock(watch.clone()).open(world.path()).await.unwrap();
    let report = start(&engine, "go").await;
    let waiting = waits(&report)[0].clone();
    assert_ne!(waiting.run, report.run);
    let yes = GateInput {
        operation: Some(waiting.operation),
        seen: None,
        settlement: Settlement::Approve { edited: None, reason: None },
        by: None,
    };
    engine.pass_on(report.run, vec![yes]).await.unwrap();
    let taken = work_off(&world, &watch).await;
    assert!((1..20).contains(&taken), "{taken}");
    let filter = RunFilter { status: Some(RunStatus::Completed), ..RunFilter::default() };
    assert_eq!(engine.journal().runs(&filter).await.unwrap().len(), 2);
    assert_eq!(world.count("local.it"), 1);
}

#[tokio::test]
async fn an_answer_that_is_passed_on_to_a_child_run_reaches_the_process_that_performs_its_parent() {
    let parent = "[tools]\nallow = [\"*\"]\n[[steps]]\nparallel = [\n{ id = \"sub\", agent = \"b\", input = \"go\" },\n\
                  { id = \"slow\", tool = \"local.slow\", with = { n = 2 } },\n]\n\
                  [[steps]]\nrespond = \"{{steps.sub}} {{steps.slow.n}}\"\n";
    let child = "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = { n = 1 }\n\
                 approve = true\n[[steps]]\nrespond = \"{{steps.it.n}}\"\n";
    let world = World::new(parent)
        .agent("b", child)
        .tool("local.it", EffectClass::Unsafe, Behaviour::Echo)
        .tool("local.slow", EffectClass::Unsafe, Behaviour::Slow(2_000));
    let (here, elsewhere) = (world.engine().await, world.engine().await);
    let request = AgentRequest::text("go");
    let handle = here.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    let waiting = loop {
        let filter = RunFilter { status: Some(RunStatus::Suspended), ..RunFilter::default() };
        if let [child] = &elsewhere.journal().runs(&filter).await.unwrap()[..] {
            break elsewhere.journal().inspect(child.run, None).await.unwrap().waiting.remove(0);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let yes = GateInput {
        operation: Some(waiting.operation),
        seen: None,
        settlement: Settlement::Approve { edited: None, reason: None },
        by: None,
    };
    elsewhere.pass_on(handle.run(), vec![yes]).await.unwrap();
    // There is no worker: the process that performs the parent resumes the child.
    assert_eq!(answer(&handle.finish().await.unwrap()), "1 2");
}

#[tokio::test]
async fn a_child_run_that_somebody_resumes_to_its_end_wakes_its_parent() {
    let world = asking_child();
    let watch = Hand(Arc::new(AtomicU64::new(1_000 * HOUR)));
    let engine = world.builder().clock(watch.clone()).open(world.path()).await.unwrap();
    let report = start(&engine, "go").await;
    let child = waits(&report)[0].run;
    let yes = GateInput {
        operation: None,
        seen: None,
        settlement: Settlement::Approve { edited: None, reason: None },
        by: None,
    };
    assert_eq!(answer(&engine.resume(child, vec![yes]).await.unwrap().finish().await.unwrap()), "1");
    work_off(&world, &watch).await;
    let filter = RunFilter { status: Some(RunStatus::Completed), ..RunFilter::default() };
    assert_eq!(engine.journal().runs(&filter).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_child_run_that_is_given_up_is_ended_and_its_parent_goes_on() {
    let world = asking_child();
    let engine = world.engine().await;
    let report = start(&engine, "go").await;
    let inspection = engine.journal().inspect(report.run, None).await.unwrap();
    let operation = inspection.state.pending()[0].operation.id;
    let handle = engine.give_up(report.run, vec![operation], None, None).await.unwrap().unwrap();
    let report = handle.finish().await.unwrap();
    assert!(answer(&report).contains("cancelled"), "{report:?}");
    assert_eq!(world.count("local.it"), 0);
    assert!(engine.journal().replay(report.run).await.unwrap().identical);
}

/// What an observer saw of a record: its number, what it says, and what is asked for.
type Shown = (u64, Body, Option<Request>);

/// What an observer saw.
#[derive(Default)]
struct Seen {
    watched: Mutex<Vec<(RunId, RunId)>>,
    found: Mutex<BTreeMap<RunId, Vec<Shown>>>,
    records: Mutex<BTreeMap<RunId, Vec<Shown>>>,
    committed: AtomicU64,
}

struct SeenOf {
    run: RunId,
    seen: Arc<Seen>,
}

/// An observer is shared by whoever asks it afterwards.
struct Watching(Arc<Seen>);

impl Observer for Watching {
    fn watch(&self, run: &Watched) -> Box<dyn Watch> {
        self.0.watched.lock().unwrap().push((run.run, run.root));
        Box::new(SeenOf { run: run.run, seen: Arc::clone(&self.0) })
    }

    fn committed(&self, records: usize, _took: Duration) {
        self.0.committed.fetch_add(records as u64, Ordering::SeqCst);
    }
}

impl Watch for SeenOf {
    fn recorded(&mut self, seq: u64, record: &NewRecord, request: Option<&Request>) {
        let shown = (seq, record.body.clone(), request.cloned());
        self.seen.records.lock().unwrap().entry(self.run).or_default().push(shown);
    }

    fn found(&mut self, record: &Record, request: Option<&Request>) {
        let shown = (record.seq, record.body.clone(), request.cloned());
        self.seen.found.lock().unwrap().entry(self.run).or_default().push(shown);
    }
}

#[tokio::test]
async fn an_observer_sees_every_record_once_in_its_order_and_none_of_a_replay() {
    let agent = "[[steps]]\nid = \"sub\"\nagent = \"b\"\ninput = \"go\"\n[[steps]]\nrespond = \"done\"\n";
    let world = World::new(agent)
        .agent("b", "[[steps]]\nhandoff = \"c\"\n")
        .agent("c", "[[steps]]\nrespond = \"{{request.text}}\"\n");
    let seen = Arc::new(Seen::default());
    let engine = world.builder().observer(Arc::new(Watching(Arc::clone(&seen)))).open(world.path());
    let engine = engine.await.unwrap();
    assert_eq!(answer(&start(&engine, "go").await), "done");
    let runs = engine.journal().runs(&RunFilter::default()).await.unwrap();
    assert_eq!(runs.len(), 3);
    let before = seen.records.lock().unwrap().clone();
    for run in runs {
        let journal = engine.journal().inspect(run.run, None).await.unwrap().records;
        let shown: Vec<_> = before[&run.run].iter().map(|(seq, body, _)| (*seq, body)).collect();
        let written: Vec<_> = journal.iter().map(|record| (record.seq, &record.body)).collect();
        assert_eq!(shown, written, "{run:?}");
        for (_, body, request) in &before[&run.run] {
            let asks = matches!(body, Body::Requested { .. });
            assert_eq!(matches!(request, Some(Request::AgentCall(_))), asks, "{body:?}: {request:?}");
        }
        assert!(engine.journal().replay(run.run).await.unwrap().identical);
    }
    assert_eq!(*seen.records.lock().unwrap(), before);
    assert!(seen.committed.load(Ordering::SeqCst) > 0);
    let watched = seen.watched.lock().unwrap();
    let root = watched[0].0;
    assert_eq!(watched.iter().map(|(_, root)| *root).collect::<Vec<_>>(), [root; 3]);
    assert!(seen.found.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_observer_finds_what_is_open_in_a_run_that_is_taken_over() {
    let world = World::new("[[steps]]\nid = \"q\"\nask = \"go on?\"\n[[steps]]\nrespond = \"done\"\n");
    let report = start(&world.engine().await, "go").await;
    let seen = Arc::new(Seen::default());
    let engine = world.builder().observer(Arc::new(Watching(Arc::clone(&seen)))).open(world.path());
    let engine = engine.await.unwrap();
    let settlement = Settlement::Give { value: json!("yes") };
    let input = GateInput { operation: None, seen: None, settlement, by: None };
    let handle = engine.resume(report.run, vec![input]).await.unwrap();
    assert_eq!(answer(&handle.finish().await.unwrap()), "done");
    let found = seen.found.lock().unwrap()[&report.run].clone();
    let records = seen.records.lock().unwrap()[&report.run].clone();
    let all: Vec<u64> = found.iter().chain(&records).map(|(seq, ..)| *seq).collect();
    assert_eq!(all, (0..all.len() as u64).collect::<Vec<_>>());
    let asked: Vec<_> = found.iter().filter_map(|(_, _, request)| request.as_ref()).collect();
    assert!(matches!(asked[..], [Request::Input(_)]), "{asked:?}");
}

#[test]
fn a_parent_wakes_although_the_process_of_its_child_died_right_after_the_child_ended() {
    let parent =
        "[[steps]]\nid = \"sub\"\nagent = \"b\"\ninput = \"go\"\n[[steps]]\nrespond = \"{{steps.sub}}\"\n";
    let child = "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = { n = 1 }\n\
                 approve = true\n[[steps]]\nrespond = \"{{steps.it.n}}\"\n";
    let world = World::new(parent).agent("b", child).tool("local.it", EffectClass::Unsafe, Behaviour::Echo);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    first.block_on(async {
        let engine = world.engine().await;
        let report = start(&engine, "go").await;
        let settlement = Settlement::Approve { edited: None, reason: None };
        let yes = GateInput { operation: None, seen: None, settlement, by: None };
        let mut handle = engine.resume(waits(&report)[0].run, vec![yes]).await.unwrap();
        while let Some(event) = handle.next_event().await {
            if let RunEvent::Recorded { record, .. } = event
                && matches!(record.body, Body::Completed { .. })
            {
                break;
            }
        }
    });
    // The process dies here.
    drop(first);
    runtime().block_on(async {
        let engine = world.engine().await;
        work(&engine).await;
        let done = RunFilter { status: Some(RunStatus::Completed), ..RunFilter::default() };
        assert_eq!(engine.journal().runs(&done).await.unwrap().len(), 2, "the parent sleeps for ever");
    });
}

#[tokio::test]
async fn an_answer_to_an_earlier_doubt_is_none_to_a_later_one() {
    let agent = "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = { n = 1 }\n\
                 [[steps]]\nrespond = \"{{steps.it.calls}}\"\n";
    let lost = Behaviour::LostAs(vec![Received::Possibly, Received::Possibly]);
    let world = World::new(agent).tool("local.it", EffectClass::Unsafe, lost);
    let report = world.run("go").await;
    let operation = waits(&report)[0].operation;
    let not_done = |by: &str| GateInput {
        operation: Some(operation),
        seen: None,
        settlement: Settlement::NotDone,
        by: Some(by.to_owned()),
    };
    // Two people see that it was not done. The answer of one is taken; that of the other is under way meanwhile.
    let engine = world.engine().await;
    engine.pass_on(report.run, vec![not_done("ada")]).await.unwrap();
    engine.pass_on(report.run, vec![not_done("bob")]).await.unwrap();
    work(&engine).await;
    assert_eq!(world.count("local.it"), 2, "nobody knows whether the second call took place");
    engine.pass_on(report.run, vec![not_done("eve")]).await.unwrap();
    work(&engine).await;
    assert_eq!(world.count("local.it"), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_beside_a_child_that_is_under_way_waits_and_is_no_failure() {
    let parent =
        "[[steps]]\nid = \"sub\"\nagent = \"b\"\ninput = \"go\"\n[[steps]]\nrespond = \"{{steps.sub}}\"\n";
    let child = "[tools]\nallow = [\"*\"]\n[[steps]]\nwait = \"1h\"\n[[steps]]\nid = \"it\"\ntool = \"local.it\"\n\
                 with = { n = 1 }\n[[steps]]\nrespond = \"{{steps.it.n}}\"\n";
    let world =
        World::new(parent).agent("b", child).tool("local.it", EffectClass::Unsafe, Behaviour::Slow(1_500));
    let watch = Hand(Arc::new(AtomicU64::new(1_000 * HOUR)));
    let engine = world.builder().clock(watch.clone()).open(world.path()).await.unwrap();
    let runs: Vec<RunId> = [start(&engine, "go").await.run, start(&engine, "go").await.run].into();
    watch.0.store(1_001 * HOUR, Ordering::SeqCst);
    let mut failed = Vec::new();
    let tell = |event: WorkerEvent<'_>| {
        if let WorkerEvent::Failed { run, error } = event {
            failed.push((run, error.to_string()));
        }
    };
    // One worker that ends when nothing is left to do is enough, whichever of the two it acquires first.
    let report = engine.work(&until_idle(), std::future::pending(), tell).await.unwrap();
    assert_eq!(failed, []);
    assert_eq!((report.ended, report.failed), (4, 0), "{report:?}");
    for run in runs {
        assert_eq!(engine.journal().inspect(run, None).await.unwrap().summary.status, RunStatus::Completed);
    }
    assert_eq!(world.count("local.it"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_cannot_be_resumed_is_told_once_and_tried_for_a_while() {
    let world = World::new("[[steps]]\nask = \"go?\"\n[[steps]]\nrespond = \"done\"\n");
    let (bad, good) = (world.run("one").await.run, world.run("two").await.run);
    let engine = world.engine().await;
    let operation = async |run| engine.journal().inspect(run, None).await.unwrap().waiting[0].operation;
    for run in [bad, good] {
        let settlement = Settlement::Give { value: json!("yes") };
        let input = GateInput { operation: Some(operation(run).await), seen: None, settlement, by: None };
        engine.pass_on(run, vec![input]).await.unwrap();
    }
    // The journal of one is damaged: no worker can resume it.
    let journal = rusqlite::Connection::open(world.path().join(".dalsegno/dalsegno.db")).unwrap();
    let bytes: &[u8] = bad.as_bytes();
    journal.execute("UPDATE run SET head = zeroblob(16) WHERE run = ?1", [bytes]).unwrap();
    let mut told = Vec::new();
    let tell = |event: WorkerEvent<'_>| {
        if let WorkerEvent::Failed { run, .. } = event {
            told.push(run);
        }
    };
    let began = std::time::Instant::now();
    let report = engine.work(&until_idle(), std::future::pending(), tell).await.unwrap();
    assert_eq!((report.ended, report.failed), (1, 1), "{report:?}");
    assert_eq!(told, [bad], "the same reason is told once");
    assert!(began.elapsed() > Duration::from_secs(4), "what is away for a moment is not waited for");
}
