//! Calls over real sockets, at a provider that is strict and keeps a book.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod crash;
mod faults;
mod talk;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use dalsegno_core::{AgentRequest, EffectClass, LiveNews, RunId, ToolReturn};
use dalsegno_models::CallerTurn;
use dalsegno_runtime::{
    Engine, EngineError, Invocation, RunReport, StartOptions, Tool, ToolDescription, ToolError,
};
use dalsegno_store::Body;
use dalsegno_testkit::{LiveBook, LiveModel};
use dalsegno_voice::{Call, Caller, Line, LineError};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Semaphore;

const AGENT: &str = "name = \"desk\"\nversion = \"1.0.0\"\ndescription = \"Takes calls.\"\ninstructions = \"You are the desk.\"\n\
    [model]\nuse = \"default\"\n[tools]\nallow = [\"t.*\"]\n[voice]\nfiller = false\n";

/// What was done, by tool and key.
type Done = Arc<Mutex<Vec<(&'static str, String)>>>;

/// A tool that notes that it was called. One that waits continues when it may.
struct Noted {
    name: &'static str,
    class: EffectClass,
    done: Done,
    may: Option<Arc<Semaphore>>,
}

#[async_trait]
impl Tool for Noted {
    fn describe(&self) -> ToolDescription {
        let schema = json!({ "type": "object", "properties": { "q": { "type": "string" } } });
        ToolDescription::new("A tool.", self.class).with_input(schema)
    }

    async fn call(&self, invocation: Invocation) -> Result<ToolReturn, ToolError> {
        self.done.lock().unwrap().push((self.name, invocation.operation.to_string()));
        if let Some(may) = &self.may {
            may.acquire().await.unwrap().forget();
        }
        Ok(ToolReturn::structured(json!({ "done": self.name })))
    }
}

struct World {
    folder: TempDir,
    done: Done,
    may: Arc<Semaphore>,
}

impl World {
    fn new(live: &LiveModel, of_line: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("model.toml", "[[replies]]\ntext = \"Hello.\"\n");
        write("key", "sk-of-the-line-0123456789");
        write("agents/desk.toml", AGENT);
        write(
            "dalsegno.toml",
            &format!(
                "[models.default]\nprovider = \"script\"\nfile = \"model.toml\"\n[voice.lines.front]\nsurface = \"realtime\"\n\
                 transport = \"text\"\nmodel = \"gpt-realtime-2.1\"\nbase_url = \"{}\"\n{of_line}",
                live.base_url()
            ),
        );
        Self { folder, done: Done::default(), may: Arc::new(Semaphore::new(0)) }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    async fn engine(&self) -> Engine {
        let tool = |name, class| Noted { name, class, done: Arc::clone(&self.done), may: None };
        let slow = Noted { may: Some(Arc::clone(&self.may)), ..tool("slow", EffectClass::Read) };
        Engine::builder()
            .tool("t.find".parse().unwrap(), tool("find", EffectClass::Read))
            .tool("t.book".parse().unwrap(), tool("book", EffectClass::Keyed))
            .tool("t.slow".parse().unwrap(), slow)
            .open(self.path())
            .await
            .unwrap_or_else(|error| panic!("{error}: {error:?}"))
    }

    /// How often a tool was called.
    fn count(&self, tool: &str) -> usize {
        self.done.lock().unwrap().iter().filter(|(name, _)| *name == tool).count()
    }
}

async fn call(engine: &Engine) -> Call {
    let line = Line::open(engine, "front").unwrap();
    let options = StartOptions { key: Some("call".to_owned()), ..StartOptions::default() };
    loop {
        let request = AgentRequest::text("");
        match line.call(engine, &"desk".parse().unwrap(), request, options.clone()).await {
            Ok(call) => return call,
            // The process that died is seen to be dead a little later.
            Err(LineError::Engine(EngineError::AlreadyRunning { .. })) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}: {error:?}"),
        }
    }
}

async fn says(call: &Call, text: &str) {
    call.caller.send(Caller::Says(text.to_owned())).await.unwrap();
}

/// Says this in the next silence in which nothing is awaited.
async fn says_in_turn(call: &Call, text: &str) {
    let turn = CallerTurn::Says { text: text.to_owned(), after: None };
    call.caller.send(Caller::Turn(turn)).await.unwrap();
}

async fn hang_up_in_turn(call: Call) -> RunReport {
    call.caller.send(Caller::Turn(CallerTurn::HangsUp { after: None })).await.unwrap();
    call.handle.finish().await.unwrap()
}

async fn news(engine: &Engine, run: RunId) -> Vec<LiveNews> {
    let records = engine.journal().inspect(run, None).await.unwrap().records;
    let news = records.into_iter().filter_map(|record| match record.body {
        Body::Conversed { news } => Some(news),
        _ => None,
    });
    news.flatten().collect()
}

/// What must hold of every call: it replays, the provider refused nothing, each call of a tool that the last session knows has
/// one output, and each command that the journal calls taken is in the provider's book.
async fn holds(engine: &Engine, run: RunId, book: &LiveBook) {
    let report = engine.journal().replay(run).await.unwrap();
    assert!(report.identical, "{report:?}");
    // A cancel may come when its response has just ended; nothing else is refused.
    let refused = book.errors.iter().filter(|code| *code != "response_cancel_not_active");
    assert_eq!(refused.count(), 0, "{:?}: {:#?}", book.errors, book.frames);
    for call_id in book.calls() {
        assert_eq!(book.outputs(call_id).len(), 1, "{call_id}: {:#?}", book.items);
    }
    let sent: BTreeSet<&str> =
        book.frames.iter().filter_map(|(_, frame)| frame["event_id"].as_str()).collect();
    for one in news(engine, run).await {
        if let LiveNews::Taken { command } = one {
            assert!(sent.contains(command.to_string().as_str()), "{command} was never sent");
        }
    }
}

fn said(book: &LiveBook) -> Vec<String> {
    let text = |item: &Value| Some(item["content"][0]["text"].as_str()?.to_owned());
    book.items.iter().filter_map(text).collect()
}
