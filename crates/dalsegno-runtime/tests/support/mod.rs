//! A workspace in a temporary folder, with tools in process.
#![allow(clippy::unwrap_used, dead_code, reason = "tests unwrap, and each test file uses a part of this")]

pub(crate) mod provider;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dalsegno_core::{AgentRequest, EffectClass, RunId, ToolReturn};
use dalsegno_runtime::{
    Engine, EngineBuilder, GateInput, Invocation, Received, RunEnd, RunReport, Settlement, StartOptions,
    Tool, ToolDescription, ToolError, WaitingOperation,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// What a tool does when it is called.
#[derive(Debug, Clone)]
pub(crate) enum Behaviour {
    /// Answers with its arguments.
    Echo,
    /// Answers with this value.
    Answer(Value),
    /// Says that it failed.
    Error(&'static str),
    /// Has no answer, and says whether the call was received.
    Lost(Received),
    /// Has no answer the first so many times, then answers.
    LostFirst(u32, Received),
    /// Has no answer as often as there are words on whether it was received, then answers.
    LostAs(Vec<Received>),
    /// Answers with its arguments after so many milliseconds.
    Slow(u64),
    /// Never answers.
    Hang,
    /// Panics.
    Panic,
}

/// A tool that counts its calls.
#[derive(Clone)]
pub(crate) struct Counted {
    pub(crate) class: EffectClass,
    pub(crate) behaviour: Behaviour,
    pub(crate) calls: Arc<Mutex<Vec<Invocation>>>,
    under_way: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Counted {
    pub(crate) fn new(class: EffectClass, behaviour: Behaviour) -> Self {
        Self { class, behaviour, calls: Arc::default(), under_way: Arc::default(), most: Arc::default() }
    }

    pub(crate) fn count(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    /// The most calls that were under way at once.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Tool for Counted {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            description: "Adds one to what was counted.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": { "n": { "type": "integer" }, "note": { "type": "string" } },
                "additionalProperties": false,
            })
            .into(),
            output_schema: None,
            class: self.class,
        }
    }

    async fn call(&self, invocation: Invocation) -> Result<ToolReturn, ToolError> {
        let calls = {
            let mut calls = self.calls.lock().unwrap();
            calls.push(invocation.clone());
            u32::try_from(calls.len()).unwrap()
        };
        let lost =
            |received| Err(ToolError { message: "the line went dead".to_owned(), received, transient: true });
        match &self.behaviour {
            Behaviour::Echo => Ok(ToolReturn::structured(invocation.arguments)),
            Behaviour::Answer(value) => Ok(ToolReturn::structured(value.clone())),
            Behaviour::Error(text) => {
                Ok(ToolReturn { text: (*text).to_owned(), is_error: true, ..ToolReturn::default() })
            }
            Behaviour::Lost(received) => lost(*received),
            Behaviour::LostFirst(times, received) if calls <= *times => lost(*received),
            Behaviour::LostFirst(..) => Ok(ToolReturn::structured(json!({ "calls": calls }))),
            Behaviour::LostAs(received) => match received.get(calls as usize - 1) {
                Some(received) => lost(*received),
                None => Ok(ToolReturn::structured(json!({ "calls": calls }))),
            },
            Behaviour::Slow(millis) => {
                let under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(under_way, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(*millis)).await;
                self.under_way.fetch_sub(1, Ordering::SeqCst);
                Ok(ToolReturn::structured(invocation.arguments))
            }
            Behaviour::Hang => {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                lost(Received::Possibly)
            }
            Behaviour::Panic => panic!("a tool that panics"),
        }
    }
}

/// A workspace with one agent, `a`.
pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) tools: BTreeMap<&'static str, Counted>,
}

impl World {
    /// A workspace whose agent has this file, after its name.
    pub(crate) fn new(agent: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("agents")).unwrap();
        std::fs::write(dir.path().join("dalsegno.toml"), "").unwrap();
        let agent = format!("name = \"a\"\nversion = \"1.0.0\"\ndescription = \"A test.\"\n{agent}");
        std::fs::write(dir.path().join("agents/a.toml"), agent).unwrap();
        Self { dir, tools: BTreeMap::new() }
    }

    /// Gives `dalsegno.toml` this text.
    pub(crate) fn settings(self, text: &str) -> Self {
        std::fs::write(self.path().join("dalsegno.toml"), text).unwrap();
        self
    }

    /// A script for the model `default`.
    pub(crate) fn script(self, script: &str) -> Self {
        std::fs::write(self.path().join("script.toml"), script).unwrap();
        self.settings("[models.default]\nprovider = \"script\"\nfile = \"script.toml\"\n")
    }

    /// Adds another agent.
    pub(crate) fn agent(self, name: &str, agent: &str) -> Self {
        let text = format!("name = \"{name}\"\nversion = \"1.0.0\"\ndescription = \"A test.\"\n{agent}");
        std::fs::write(self.path().join(format!("agents/{name}.toml")), text).unwrap();
        self
    }

    /// Adds tenants of these names.
    pub(crate) fn tenants(self, names: &[&str]) -> Self {
        std::fs::create_dir_all(self.path().join("tenants")).unwrap();
        for name in names {
            let text = format!("name = \"{name}\"\n");
            std::fs::write(self.path().join(format!("tenants/{name}.toml")), text).unwrap();
        }
        self
    }

    pub(crate) fn tool(mut self, name: &'static str, class: EffectClass, behaviour: Behaviour) -> Self {
        self.tools.insert(name, Counted::new(class, behaviour));
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn count(&self, tool: &str) -> usize {
        self.tools[tool].count()
    }

    pub(crate) fn builder(&self) -> EngineBuilder {
        let tools = self.tools.iter();
        tools.fold(Engine::builder(), |builder, (name, tool)| {
            builder.tool(name.parse().unwrap(), tool.clone())
        })
    }

    /// An engine as another process would have it.
    pub(crate) async fn engine(&self) -> Engine {
        match self.builder().open(self.path()).await {
            Ok(engine) => engine,
            Err(error) => panic!("{error}: {error:#?}"),
        }
    }

    /// Runs the agent until it ends or waits.
    pub(crate) async fn run(&self, text: &str) -> RunReport {
        let engine = self.engine().await;
        let handle =
            engine.start(&"a".parse().unwrap(), AgentRequest::text(text), StartOptions::default()).await;
        match handle {
            Ok(handle) => handle.finish().await.unwrap(),
            Err(error) => panic!("{error}: {error:#?}"),
        }
    }

    /// Goes on with a run in a new engine.
    pub(crate) async fn resume(&self, run: RunId, answer: Option<Settlement>) -> RunReport {
        let answers = answer.map(|settlement| GateInput {
            operation: None,
            seen: None,
            settlement,
            by: Some("eve".to_owned()),
        });
        let handle = self.engine().await.resume(run, answers.into_iter().collect()).await.unwrap();
        handle.finish().await.unwrap()
    }
}

/// The operations that a run waits for.
pub(crate) fn waits(report: &RunReport) -> &[WaitingOperation] {
    match &report.end {
        RunEnd::Suspended { waiting, .. } => waiting,
        end => panic!("the run does not wait: {end:?}"),
    }
}

/// The answer of a run that completed.
pub(crate) fn answer(report: &RunReport) -> &str {
    match &report.end {
        RunEnd::Ended(response) => {
            response.answer.as_deref().unwrap_or_else(|| panic!("no answer: {response:?}"))
        }
        end => panic!("the run has not ended: {end:?}"),
    }
}
