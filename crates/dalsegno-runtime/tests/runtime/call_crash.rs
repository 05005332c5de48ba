//! A process dies after each record of a call with a tool that reads, a keyed and an unsafe one; the provider's side of the call goes
//! on, and the next process attaches. The tools' own books and the journal agree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{Behaviour, World};
use dalsegno_core::{
    AgentRequest, CallRequest, CommandKind, EffectClass, EndedBy, LiveCommand, LiveNews, OperationId,
    Request, ResponseEnd, RunId, Surface,
};
use dalsegno_runtime::{Conversation, Engine, Observer, RunEnd, Settlement, StartOptions, Watch, Watched};
use dalsegno_store::{Body, NewRecord};
use serde_json::json;
use tokio::sync::Notify;

const AGENT: &str = "[model]\nuse = \"default\"\n[tools]\nallow = [\"t.*\"]\n[voice]\n";

const TOOLS: [&str; 3] = ["t.find", "t.add", "t.send"];

fn world() -> World {
    World::new(AGENT)
        .script("")
        .tool("t.find", EffectClass::Read, Behaviour::Slow(2))
        .tool("t.add", EffectClass::Keyed, Behaviour::Slow(2))
        .tool("t.send", EffectClass::Unsafe, Behaviour::Slow(2))
}

/// Says when so many records are written.
struct Counter {
    records: AtomicUsize,
    at: usize,
    reached: Arc<Notify>,
}

/// Sees records and does nothing.
struct Blind;

impl Watch for Blind {
    fn recorded(&mut self, _: u64, _: &NewRecord, _: Option<&Request>) {}
}

impl Observer for Counter {
    fn watch(&self, _: &Watched) -> Box<dyn Watch> {
        Box::new(Blind)
    }

    fn committed(&self, records: usize, _: Duration) {
        let before = self.records.fetch_add(records, Ordering::SeqCst);
        if before < self.at && before + records >= self.at {
            self.reached.notify_one();
        }
    }
}

/// The provider's side of a call: it outlives the process.
#[derive(Default)]
struct Provider {
    wishes: usize,
    calls: u32,
    responses: u32,
    /// Calls that have no output, each with its wish.
    open: BTreeMap<String, usize>,
    asked: BTreeSet<String>,
    /// The outputs that each call was given.
    outputs: BTreeMap<String, Vec<String>>,
    known: BTreeSet<OperationId>,
    connected: bool,
    over: bool,
}

impl Provider {
    async fn tell(&self, call: &Conversation, news: LiveNews) {
        // A run that has let go hears nothing more.
        let _ = call.news.send(news).await;
    }

    async fn ask(&mut self, call: &Conversation, wishes: Vec<usize>) {
        self.responses += 1;
        let response = format!("r{}", self.responses);
        self.tell(call, LiveNews::ResponseBegan { response: response.clone(), command: None }).await;
        for wish in wishes {
            self.calls += 1;
            let call_id = format!("c{}", self.calls);
            self.open.insert(call_id.clone(), wish);
            self.asked.insert(call_id.clone());
            let request = CallRequest {
                call_id,
                name: TOOLS[wish].to_owned(),
                arguments: json!({ "n": wish }).to_string(),
                validation: None,
            };
            self.tell(call, LiveNews::Asked { response: response.clone(), call: request }).await;
        }
        self.tell(call, LiveNews::ResponseEnded { response, end: ResponseEnd::Completed }).await;
    }

    async fn talk(&mut self, call: &mut Conversation) {
        let greeting = if self.connected { LiveNews::Attached } else { LiveNews::Connected };
        self.connected = true;
        self.tell(call, greeting).await;
        loop {
            if self.open.is_empty() && self.wishes < TOOLS.len() {
                self.wishes += 1;
                self.ask(call, vec![self.wishes - 1]).await;
            } else if self.open.is_empty() {
                self.over = true;
                self.tell(call, LiveNews::Ended { by: EndedBy::Caller, reason: "hung up".into() }).await;
                return;
            }
            let Some(LiveCommand { id, kind }) = call.commands.recv().await else { return };
            self.tell(call, LiveNews::Taken { command: id }).await;
            if !self.known.insert(id) {
                continue;
            }
            match kind {
                CommandKind::Output { call_id, content } => {
                    self.open.remove(&call_id);
                    self.outputs.entry(call_id).or_default().push(content);
                }
                CommandKind::Note { text } if text.contains("ask again") => {
                    // What was asked in the gap has no output: it is asked for again.
                    let again: Vec<usize> = std::mem::take(&mut self.open).into_values().collect();
                    if !again.is_empty() {
                        self.ask(call, again).await;
                    }
                }
                CommandKind::Respond { .. } => {
                    self.responses += 1;
                    let response = format!("r{}", self.responses);
                    let command = Some(id);
                    self.tell(call, LiveNews::ResponseBegan { response: response.clone(), command }).await;
                    let end = ResponseEnd::Completed;
                    self.tell(call, LiveNews::ResponseEnded { response, end }).await;
                }
                CommandKind::Session { .. }
                | CommandKind::Answer { .. }
                | CommandKind::Note { .. }
                | CommandKind::Close { .. } => {}
            }
        }
    }
}

async fn engine(world: &World, observer: Option<Arc<Counter>>) -> Engine {
    let builder = match observer {
        Some(observer) => world.builder().observer(observer),
        None => world.builder(),
    };
    builder.open(world.path()).await.unwrap()
}

async fn converse(engine: &Engine) -> Conversation {
    let options = StartOptions { key: Some("call".to_owned()), ..StartOptions::default() };
    let request = AgentRequest::text("");
    loop {
        match engine.converse(&"a".parse().unwrap(), Surface::Script, request.clone(), options.clone()).await
        {
            Ok(call) => return call,
            // The process that died is seen to be dead a little later.
            Err(dalsegno_runtime::EngineError::AlreadyRunning { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}: {error:#?}"),
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A process that dies after so many records and turns of its tasks; whether it came so far.
fn dies(world: &World, provider: &mut Provider, at: usize, turns: usize) -> bool {
    let reached = Arc::new(Notify::new());
    let counter = Arc::new(Counter { records: AtomicUsize::new(0), at, reached: Arc::clone(&reached) });
    let runtime = runtime();
    let died = runtime.block_on(async {
        let engine = engine(world, Some(counter)).await;
        let mut call = converse(&engine).await;
        tokio::select! {
            biased;
            () = async {
                reached.notified().await;
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
            } => true,
            () = provider.talk(&mut call) => {
                drop(call.handle.finish().await);
                false
            }
        }
    });
    drop(runtime);
    died
}

/// Another process, which takes the call to its end.
fn ends(world: &World, provider: &mut Provider) -> RunId {
    runtime().block_on(async {
        let engine = engine(world, None).await;
        let mut call = converse(&engine).await;
        let run = call.handle.run();
        if !provider.over {
            provider.talk(&mut call).await;
        }
        let mut report = call.handle.finish().await.unwrap();
        // People say of what is in doubt that it took place.
        while let RunEnd::Suspended { waiting, .. } = &report.end {
            let settled = Settlement::Done { result: None };
            let answers = vec![dalsegno_runtime::GateInput::to(&waiting[0], settled)];
            report = engine.resume(run, answers).await.unwrap().finish().await.unwrap();
        }
        assert!(matches!(report.end, RunEnd::Ended(_)), "{report:?}");
        let replayed = engine.journal().replay(run).await.unwrap();
        assert!(replayed.identical, "{replayed:?}");
        let records = engine.journal().inspect(run, None).await.unwrap().records;
        let news = records.iter().filter_map(|record| match &record.body {
            Body::Conversed { news } => Some(news),
            _ => None,
        });
        let known: BTreeSet<&str> = news
            .flatten()
            .filter_map(|one| match one {
                LiveNews::Asked { call, .. } => Some(call.call_id.as_str()),
                _ => None,
            })
            .collect();
        for (call_id, outputs) in &provider.outputs {
            assert!(known.contains(call_id.as_str()), "an output of a call that was never recorded");
            assert_eq!(outputs.len(), 1, "{call_id}: {outputs:?}");
        }
        run
    })
}

#[test]
fn nothing_is_doubled_and_every_call_is_answered_once_wherever_the_process_dies() {
    let (mut places, mut doubts) = (0, 0);
    'places: for at in 1.. {
        for turns in [0, 1, 3] {
            let world = world();
            let mut provider = Provider::default();
            let died = dies(&world, &mut provider, at, turns);
            if !died && turns == 0 {
                break 'places;
            }
            places += 1;
            ends(&world, &mut provider);
            let sent = world.count("t.send");
            assert!(sent <= 1, "record {at}, turn {turns}: sent {sent} times");
            let keys: BTreeSet<String> = world.tools["t.add"]
                .calls
                .lock()
                .unwrap()
                .iter()
                .map(|one| one.operation.to_string())
                .collect();
            assert!(keys.len() <= 1, "record {at}, turn {turns}: {keys:?}");
            let all = provider.outputs.values().flatten();
            let in_doubt = all.filter(|content| content.contains("in_doubt")).count();
            doubts += usize::from(in_doubt > 0);
            if in_doubt == 0 && provider.wishes == TOOLS.len() && provider.open.is_empty() {
                assert_eq!(sent, 1, "record {at}, turn {turns}: {:?}", provider.outputs);
            }
        }
    }
    assert!(places >= 30, "a call has many records: {places}");
    assert!(doubts > 0, "some process died while the unsafe tool was at work");
}
