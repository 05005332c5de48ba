//! A run is followed by its place in the journal: in its own process and in another, from the beginning and from the middle.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{AgentRequest, ModelReply, ReplyPart, StopReason};
use dalsegno_models::{CompletionRequest, DeltaSink, Model, ModelError};
use dalsegno_runtime::{Engine, GateInput, Settlement, StartOptions, Tail, Tailed};
use dalsegno_store::{Record, RunStatus, Waiting};
use tokio::sync::Semaphore;

fn workspace(root: &Path) {
    std::fs::create_dir_all(root.join("agents")).unwrap();
    std::fs::write(root.join("dalsegno.toml"), "").unwrap();
    std::fs::write(
        root.join("agents/ask.toml"),
        "name = \"ask\"\n[[steps]]\nid = \"n\"\nask = \"How many?\"\n[[steps]]\nrespond = \"{{steps.n}} then\"\n",
    )
    .unwrap();
    std::fs::write(
        root.join("agents/talk.toml"),
        "name = \"talk\"\ninstructions = \"Talk.\"\n[model]\nuse = \"slow\"\n",
    )
    .unwrap();
}

/// Says a word whenever it may.
#[derive(Clone)]
struct Slow(Arc<Semaphore>);

const WORDS: [&str; 3] = ["One, ", "zwölf, ", "three."];

#[async_trait::async_trait]
impl Model for Slow {
    async fn complete(&self, _: &CompletionRequest, sink: &dyn DeltaSink) -> Result<ModelReply, ModelError> {
        for word in WORDS {
            self.0.acquire().await.unwrap().forget();
            sink.text(word);
        }
        self.0.acquire().await.unwrap().forget();
        Ok(ModelReply::new(vec![ReplyPart::Text(WORDS.concat())], StopReason::End))
    }
}

/// Reads to the next rest or end; the records on the way.
async fn records(tail: &mut Tail) -> (Vec<Record>, RunStatus) {
    let mut all = Vec::new();
    loop {
        match tail.next().await.unwrap() {
            Tailed::Records(records) => all.extend(records.iter().cloned()),
            Tailed::Suspended(summary) | Tailed::Ended(summary) => return (all, summary.status),
            Tailed::Delta { .. } => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_followed_in_its_process_and_in_another_from_any_place() {
    let folder = tempfile::tempdir().unwrap();
    workspace(folder.path());
    let (engine, other) =
        (Engine::open(folder.path()).await.unwrap(), Engine::open(folder.path()).await.unwrap());
    let agent = "ask".parse().unwrap();
    let handle = engine.start(&agent, AgentRequest::text("x"), StartOptions::default()).await.unwrap();
    let run = handle.run();
    assert!(handle.is_new());
    let (mut here, mut there) = (engine.tail(run, 0).await.unwrap(), other.tail(run, 0).await.unwrap());
    let (first, status) = records(&mut here).await;
    assert_eq!(status, RunStatus::Suspended);
    assert_eq!(records(&mut there).await.0, first);
    handle.finish().await.unwrap();
    let handle = engine.resume(run, vec![three()]).await.unwrap();
    assert!(!handle.is_new());
    // Both learn of what follows; the rest is told once only.
    let (rest, status) = records(&mut here).await;
    assert_eq!(status, RunStatus::Completed);
    assert_eq!(records(&mut there).await, (rest.clone(), status));
    handle.finish().await.unwrap();
    let all = engine.journal().store().read(run, 0).await.unwrap();
    assert_eq!([first, rest].concat(), all);
    for from in 0..=all.len() {
        let mut tail = other.tail(run, from as u64).await.unwrap();
        assert_eq!(records(&mut tail).await, (all[from..].to_vec(), RunStatus::Completed));
        assert_eq!(tail.position(), all.len() as u64);
    }
    let unknown = dalsegno_core::RunId::from_bytes([9; 16]);
    assert!(engine.tail(unknown, 0).await.is_err());
}

/// The next text of a reply, with the number of bytes before it.
async fn delta(tail: &mut Tail) -> (usize, String) {
    loop {
        match tail.next().await.unwrap() {
            Tailed::Records(_) => {}
            Tailed::Delta { offset, text, attempt, .. } => {
                assert_eq!(attempt, 1);
                return (offset, text);
            }
            rest => panic!("{rest:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_streams_begins_anew_for_who_comes_back_and_has_no_gap() {
    let folder = tempfile::tempdir().unwrap();
    workspace(folder.path());
    let pace = Arc::new(Semaphore::new(0));
    let engine = Engine::builder().model("slow", Slow(Arc::clone(&pace))).open(folder.path()).await.unwrap();
    // What a model says is kept from the first run on that was followed.
    let before = engine
        .start(&"ask".parse().unwrap(), AgentRequest::text("x"), StartOptions::default())
        .await
        .unwrap();
    drop(engine.tail(before.run(), 0).await.unwrap());
    let handle = engine
        .start(&"talk".parse().unwrap(), AgentRequest::text("x"), StartOptions::default())
        .await
        .unwrap();
    let mut tail = engine.tail(handle.run(), 0).await.unwrap();
    pace.add_permits(1);
    assert_eq!(delta(&mut tail).await, (0, WORDS[0].to_owned()));
    pace.add_permits(1);
    assert_eq!(delta(&mut tail).await, (WORDS[0].len(), WORDS[1].to_owned()));
    let place = tail.position();
    drop(tail);
    let mut tail = engine.tail(handle.run(), place).await.unwrap();
    assert_eq!(delta(&mut tail).await, (0, WORDS[..2].concat()));
    pace.add_permits(1);
    assert_eq!(delta(&mut tail).await, (WORDS[..2].concat().len(), WORDS[2].to_owned()));
    pace.add_permits(1);
    let (_, status) = records(&mut tail).await;
    assert_eq!(status, RunStatus::Completed);
    // Nothing is left of it for who comes later.
    let mut late = engine.tail(handle.run(), 0).await.unwrap();
    while let next @ (Tailed::Records(_) | Tailed::Delta { .. }) = late.next().await.unwrap() {
        assert!(matches!(next, Tailed::Records(_)), "{next:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_follow_a_run_see_the_same_records_from_pages_that_were_read_once() {
    const MANY: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    workspace(folder.path());
    let engine = Engine::open(folder.path()).await.unwrap();
    let agent = "ask".parse().unwrap();
    let handle = engine.start(&agent, AgentRequest::text("x"), StartOptions::default()).await.unwrap();
    let run = handle.run();
    handle.finish().await.unwrap();
    let all = engine.journal().store().read(run, 0).await.unwrap();
    let mut tails = Vec::new();
    for _ in 0..MANY {
        tails.push(engine.tail(run, 0).await.unwrap());
    }
    // One asks and is not asked on: it keeps the page from no other.
    let mut idle = engine.tail(run, 0).await.unwrap();
    {
        let mut asked = Box::pin(idle.next());
        let told = futures::poll!(&mut asked);
        let read = futures::future::join_all(tails.iter_mut().map(|tail| tail.next())).await;
        let (mut pages, mut kept) = (std::collections::BTreeSet::new(), Vec::new());
        for tailed in read {
            let Tailed::Records(records) = tailed.unwrap() else { panic!("records stand first") };
            assert_eq!(records[..], all[..]);
            pages.insert(records.as_ptr() as usize);
            // It is kept, so that no other page can have its place in memory.
            kept.push(records);
        }
        // A page is read anew after a second, however slow the machine is.
        assert!(pages.len() < MANY / 4, "{} pages were read for {MANY} streams", pages.len());
        // The first question may have been enough.
        let told = match told {
            std::task::Poll::Ready(told) => told,
            std::task::Poll::Pending => asked.await,
        };
        assert!(matches!(told.unwrap(), Tailed::Records(records) if records[..] == all[..]));
    }
    let handle = engine.resume(run, vec![three()]).await.unwrap();
    handle.finish().await.unwrap();
    let whole = engine.journal().store().read(run, 0).await.unwrap();
    for mut tail in tails {
        let (rest, status) = records(&mut tail).await;
        // It may have been told of the rest at the question before.
        let rest = if status == RunStatus::Suspended { records(&mut tail).await.0 } else { rest };
        assert_eq!(rest, whole[all.len()..]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_run_that_was_told_to_move_on_is_not_at_rest() {
    let folder = tempfile::tempdir().unwrap();
    workspace(folder.path());
    let engine = Engine::open(folder.path()).await.unwrap();
    let agent = "ask".parse().unwrap();
    let handle = engine.start(&agent, AgentRequest::text("x"), StartOptions::default()).await.unwrap();
    let run = handle.run();
    handle.finish().await.unwrap();
    engine.pause(run, None, None).await.unwrap();
    let rest = async || engine.tail(run, u64::MAX).await.unwrap().next().await.unwrap();
    assert!(matches!(rest().await, Tailed::Suspended(_)));
    // What it was told is in its inbox, and no process has taken it yet.
    engine.unpause(run, None).await.unwrap();
    let mut told = Box::pin(rest());
    still(&mut told).await;
    engine.resume(run, Vec::new()).await.unwrap().finish().await.unwrap();
    let Tailed::Suspended(summary) = told.await else { panic!("the question stands") };
    assert_eq!(summary.waiting, [Waiting::Input]);
    engine.pass_on(run, vec![three()]).await.unwrap();
    let mut told = Box::pin(rest());
    still(&mut told).await;
    engine.resume(run, Vec::new()).await.unwrap().finish().await.unwrap();
    assert!(matches!(told.await, Tailed::Ended(_)));
}

fn three() -> GateInput {
    GateInput { operation: None, seen: None, settlement: Settlement::Give { value: "3".into() }, by: None }
}

/// It waits, and has had the time to say that it does not.
async fn still(told: &mut (impl Future<Output = Tailed> + Unpin)) {
    let early = tokio::time::timeout(Duration::from_millis(300), told).await;
    assert!(early.is_err(), "{early:?}");
}
