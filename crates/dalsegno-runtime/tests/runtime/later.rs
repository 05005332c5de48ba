//! Replies that come later: handed over once, asked for by any process, given up where no run wants them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use dalsegno_core::{AgentRequest, ModelReply, ReplyPart, RunId, StopReason, Timestamp};
use dalsegno_models::{CompletionRequest, DeltaSink, Later, LaterError, Model, ModelError, ModelErrorKind};
use dalsegno_runtime::{Clock, Engine, RunEnd, RunReport, StartOptions, WorkerOptions, WorkerReport};
use dalsegno_store::{Body, Record};

use crate::support::{World, answer};

const START: u64 = 3_600_000_000;
const MINUTE: u64 = 60_000;

#[derive(Clone)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(START)))
    }

    /// Minutes since the start.
    fn set(&self, minutes: u64) {
        self.0.store(START + minutes * MINUTE, Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// How the provider's next look ends.
#[derive(Clone)]
enum Looked {
    Working,
    Busy,
    Replied(&'static str),
    Failed,
}

/// A provider that works off batches, and notes what it is asked.
#[derive(Clone, Default)]
struct Batches {
    looks: Arc<Mutex<VecDeque<Looked>>>,
    log: Arc<Mutex<Vec<String>>>,
    /// What happens while a reply is on its way.
    meanwhile: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Batches {
    fn new(looks: impl IntoIterator<Item = Looked>) -> Self {
        let looks = Arc::new(Mutex::new(looks.into_iter().collect()));
        Self { looks, ..Self::default() }
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    fn note(&self, what: String) {
        self.log.lock().unwrap().push(what);
    }
}

#[async_trait]
impl Model for Batches {
    async fn complete(&self, _: &CompletionRequest, _: &dyn DeltaSink) -> Result<ModelReply, ModelError> {
        self.note("complete".to_owned());
        Ok(ModelReply::new(vec![ReplyPart::Text("at once".to_owned())], StopReason::End))
    }

    fn later(&self) -> Option<&dyn Later> {
        Some(self)
    }
}

#[async_trait]
impl Later for Batches {
    async fn submit(&self, request: &CompletionRequest) -> Result<String, ModelError> {
        self.note(format!("submit {}", request.attempt));
        Ok(format!("batch-{}", request.attempt))
    }

    async fn collect(
        &self,
        _request: &CompletionRequest,
        id: &str,
    ) -> Result<Option<ModelReply>, LaterError> {
        self.note(format!("look {id}"));
        let error = |kind| ModelError::new(kind, "said the provider");
        match self.looks.lock().unwrap().pop_front().unwrap_or(Looked::Working) {
            Looked::Working => Ok(None),
            Looked::Busy => Err(LaterError::NotNow(error(ModelErrorKind::Unavailable))),
            Looked::Failed => Err(LaterError::Ended(error(ModelErrorKind::Refused))),
            Looked::Replied(text) => {
                if let Some(meanwhile) = &self.meanwhile {
                    meanwhile();
                }
                let mut reply = ModelReply::new(vec![ReplyPart::Text(text.to_owned())], StopReason::End);
                (reply.input_tokens, reply.output_tokens) = (10, 5);
                Ok(Some(reply))
            }
        }
    }

    async fn cancel(&self, id: &str) -> Result<(), ModelError> {
        self.note(format!("cancel {id}"));
        Ok(())
    }
}

const AGENT: &str = "instructions = \"Answer.\"\n[model]\nuse = \"night\"\nbatch = true\nretries = 0\n";

fn world() -> World {
    World::new(AGENT)
}

async fn open(world: &World, clock: &Hand, model: &Batches) -> Engine {
    world.builder().clock(clock.clone()).model("night", model.clone()).open(world.path()).await.unwrap()
}

async fn start(engine: &Engine) -> RunReport {
    let handle = engine.start(&"a".parse().unwrap(), AgentRequest::text("hi"), StartOptions::default()).await;
    handle.unwrap().finish().await.unwrap()
}

async fn work(engine: &Engine) -> WorkerReport {
    let options = WorkerOptions { until_idle: true, ..WorkerOptions::default() };
    engine.work(&options, std::future::pending(), |_| {}).await.unwrap()
}

async fn records(engine: &Engine, run: RunId) -> Vec<Record> {
    engine.journal().inspect(run, None).await.unwrap().records
}

/// The answer of a run that has ended; a resumption reports it.
async fn ended(engine: &Engine, run: RunId) -> RunReport {
    engine.resume(run, Vec::new()).await.unwrap().finish().await.unwrap()
}

fn wakes(report: &RunReport) -> u64 {
    let RunEnd::Suspended { wake_at: Some(at), .. } = report.end else { panic!("{report:?}") };
    (at.as_millis() - START) / MINUTE
}

#[tokio::test]
async fn a_reply_that_comes_later_is_asked_for_once_and_taken_by_any_process() {
    let (world, clock) = (world(), Hand::new());
    let model = Batches::new([Looked::Working, Looked::Busy, Looked::Replied("later")]);
    let first = open(&world, &clock, &model).await;
    let report = start(&first).await;
    assert_eq!(wakes(&report), 1, "the run holds no process");
    drop(first);
    // Each look is by another process. None comes before its time.
    for (minutes, seen) in [(0, 0), (1, 1), (30, 2), (31, 2), (34, 3)] {
        clock.set(minutes);
        work(&open(&world, &clock, &model).await).await;
        let looks = model.log().iter().filter(|what| what.starts_with("look batch-1")).count();
        assert_eq!(looks, seen, "after {minutes} minutes: {:?}", model.log());
    }
    let engine = open(&world, &clock, &model).await;
    assert_eq!(answer(&ended(&engine, report.run).await), "later");
    assert_eq!(model.log().iter().filter(|what| what.starts_with("submit")).count(), 1);
    let records = records(&engine, report.run).await;
    let noted = records.iter().position(|record| {
        matches!(&record.body, Body::Tasked { task, server, .. } if task == "batch-1" && server == "night")
    });
    let resolved = records.iter().find_map(|record| match &record.body {
        Body::Resolved { elapsed_ms, .. } => Some(*elapsed_ms),
        _ => None,
    });
    assert!(noted.is_some());
    assert_eq!(resolved, Some(0), "no process worked on it");
    assert!(engine.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn a_run_that_is_cancelled_cancels_its_batch() {
    let (world, clock, model) = (world(), Hand::new(), Batches::default());
    let engine = open(&world, &clock, &model).await;
    let run = start(&engine).await.run;
    engine.cancel(run, None, None).await.unwrap();
    work(&engine).await;
    assert!(model.log().contains(&"cancel batch-1".to_owned()), "{:?}", model.log());
    let status = ended(&engine, run).await;
    assert!(matches!(&status.end, RunEnd::Ended(_)), "{status:?}");
}

/// A world in which a reply costs at most two cents, and a tenant has three in a day.
fn priced() -> World {
    let agent = format!("{AGENT}max_output_tokens = 2000\n");
    let model =
        "[models.night]\nprovider = \"script\"\nfile = \"script.toml\"\nprice = { input = 0, output = 10 }\n";
    let world = World::new(&agent).settings(model).tenants(&["acme"]);
    std::fs::write(world.path().join("script.toml"), "[[replies]]\ntext = \"never said\"\n").unwrap();
    let tenant = "name = \"acme\"\n[budget]\nmax_cost_usd_per_day = 0.03\n";
    std::fs::write(world.path().join("tenants/acme.toml"), tenant).unwrap();
    world
}

async fn start_of_acme(engine: &Engine) -> RunReport {
    let request = AgentRequest { tenant: "acme".into(), ..AgentRequest::text("hi") };
    let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await;
    handle.unwrap().finish().await.unwrap()
}

async fn spent(engine: &Engine, day: &str) -> u64 {
    engine.journal().store().spent("acme", day).await.unwrap()
}

/// The day of the start, and the one after it.
const DAYS: [&str; 2] = ["1970-02-11", "1970-02-12"];

#[tokio::test]
async fn what_a_batch_may_cost_is_set_aside_once_until_its_reply_is_known() {
    let (world, clock) = (priced(), Hand::new());
    let model = Batches::new([Looked::Working, Looked::Busy, Looked::Replied("later")]);
    let engine = open(&world, &clock, &model).await;
    let run = start_of_acme(&engine).await.run;
    // The third look comes on the day after.
    for minutes in [1, 10] {
        assert_eq!(spent(&engine, DAYS[0]).await, 20_000_000);
        clock.set(minutes);
        work(&open(&world, &clock, &model).await).await;
    }
    let other = start_of_acme(&engine).await;
    let RunEnd::Ended(refused) = &other.end else { panic!("{other:?}") };
    assert!(refused.error.as_ref().unwrap().message.contains("daily budget"), "{refused:?}");
    assert_eq!(spent(&engine, DAYS[0]).await, 20_000_000);
    clock.set(20 * 60);
    work(&open(&world, &clock, &model).await).await;
    assert_eq!(answer(&ended(&engine, run).await), "later");
    let expected = [50_000, 0];
    assert_eq!([spent(&engine, DAYS[0]).await, spent(&engine, DAYS[1]).await], expected, "five tokens");
}

#[tokio::test]
async fn a_reply_that_two_processes_fetch_is_paid_for_once() {
    let (world, clock) = (priced(), Hand::new());
    let mut model = Batches::new([Looked::Replied("lost"), Looked::Replied("kept")]);
    let engine = open(&world, &clock, &model).await;
    let run = start_of_acme(&engine).await.run;
    drop(engine);
    // The process that fetches the reply cannot write it down, and ends.
    let journal = world.path().join(".dalsegno/dalsegno.db");
    let perform = move |sql: &str| rusqlite::Connection::open(&journal).unwrap().execute_batch(sql).unwrap();
    let broken = perform.clone();
    model.meanwhile = Some(Arc::new(move || {
        broken("CREATE TRIGGER broken BEFORE INSERT ON record BEGIN SELECT RAISE(ABORT, 'broken'); END");
    }));
    clock.set(1);
    let engine = open(&world, &clock, &model).await;
    engine.resume(run, Vec::new()).await.unwrap().finish().await.unwrap_err();
    drop(engine);
    perform("DROP TRIGGER broken");
    assert_eq!(spent(&open(&world, &clock, &model).await, DAYS[0]).await, 20_000_000);
    model.meanwhile = None;
    let engine = open(&world, &clock, &model).await;
    work(&engine).await;
    assert_eq!(answer(&ended(&engine, run).await), "kept");
    assert_eq!(model.log(), ["submit 1", "look batch-1", "look batch-1"]);
    assert_eq!(spent(&engine, DAYS[0]).await, 50_000, "five tokens");
}

#[tokio::test]
async fn a_batch_that_is_cancelled_needs_no_room_in_the_budget() {
    let (world, clock, model) = (priced(), Hand::new(), Batches::default());
    let engine = open(&world, &clock, &model).await;
    let run = start_of_acme(&engine).await.run;
    engine.cancel(run, None, None).await.unwrap();
    work(&engine).await;
    assert_eq!(model.log(), ["submit 1", "cancel batch-1"]);
    assert!(matches!(&ended(&engine, run).await.end, RunEnd::Ended(_)));
    // What the provider has done by then is paid for, and only the provider knows how much that is.
    assert_eq!(spent(&engine, DAYS[0]).await, 20_000_000);
}

#[tokio::test]
async fn a_batch_that_takes_too_long_is_given_up_and_says_so() {
    let (world, clock, model) = (world(), Hand::new(), Batches::default());
    let engine = open(&world, &clock, &model).await;
    let run = start(&engine).await.run;
    clock.set(24 * 60);
    work(&engine).await;
    assert!(!model.log().iter().any(|what| what.starts_with("cancel")));
    clock.set(48 * 60);
    work(&engine).await;
    assert_eq!(model.log().last().unwrap(), "cancel batch-1");
    let failed = records(&engine, run).await.into_iter().find_map(|record| match record.body {
        Body::Failed { response } => Some(format!("{response:?}")),
        _ => None,
    });
    let failed = failed.expect("the run failed");
    assert!(failed.contains("no reply within 90000 s: the provider still works on it"), "{failed}");
}

#[tokio::test]
async fn a_batch_that_fails_is_the_outcome_and_another_attempt_is_another_batch() {
    let (world, clock) = (World::new(&AGENT.replace("retries = 0", "retries = 1")), Hand::new());
    let model = Batches::new([Looked::Failed]);
    let engine = open(&world, &clock, &model).await;
    let run = start(&engine).await.run;
    clock.set(1);
    work(&engine).await;
    // What was refused once is refused again: there is no second attempt.
    assert_eq!(model.log(), ["submit 1", "look batch-1"]);
    assert!(records(&engine, run).await.iter().any(|record| matches!(record.body, Body::Failed { .. })));
}

#[tokio::test]
async fn without_the_setting_the_same_model_replies_at_once() {
    let (world, clock) = (World::new(&AGENT.replace("batch = true\n", "")), Hand::new());
    let model = Batches::default();
    let report = start(&open(&world, &clock, &model).await).await;
    assert_eq!(answer(&report), "at once");
    assert_eq!(model.log(), ["complete"]);
}
