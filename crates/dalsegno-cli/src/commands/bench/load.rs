//! The load: a model without latency that asks for one addition a turn, and the tool that performs it.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dalsegno_core::{
    CallRequest, EffectClass, Entry, ModelReply, ReplyPart, StopReason, ToolReturn, Validation,
};
use dalsegno_models::{CompletionRequest, DeltaSink, Model, ModelError, ModelErrorKind};
use dalsegno_runtime::{Invocation, Tool, ToolDescription, ToolError};
use serde_json::json;
use tokio::sync::watch;

/// The name of the agent.
pub(super) const AGENT: &str = "bench";
/// The name of the model in `dalsegno.toml`.
pub(super) const MODEL: &str = "adder";
/// The name of the tool.
pub(super) const TOOL: &str = "math.add";

/// What all runs share.
pub(super) struct Load {
    turns: u64,
    runs: u64,
    clocks: Vec<Mutex<Clock>>,
    done: AtomicU64,
    /// Somebody wished to stop.
    stopped: AtomicBool,
    /// No run gets another reply.
    over: AtomicBool,
    /// The runs that stand at their middle.
    arrived: watch::Sender<u64>,
    /// They may go on.
    open: watch::Sender<bool>,
}

/// The turns of one run.
#[derive(Default)]
struct Clock {
    begun: Option<Instant>,
    turns: Vec<Duration>,
}

impl Load {
    pub(super) fn new(turns: u64, runs: u64) -> Self {
        Self {
            turns,
            runs,
            clocks: (0..runs).map(|_| Mutex::default()).collect(),
            done: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            over: AtomicBool::new(false),
            arrived: watch::Sender::new(0),
            open: watch::Sender::new(false),
        }
    }

    pub(super) fn turns(&self) -> u64 {
        self.turns
    }

    pub(super) fn runs(&self) -> u64 {
        self.runs
    }

    /// The turns that are done, and all of them.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.turns * self.runs)
    }

    /// Ends all runs at their next turn; says whether it was told so before.
    pub(super) fn stop(&self) -> bool {
        let before = self.stopped.swap(true, Ordering::Relaxed);
        self.give_up();
        before
    }

    /// Ends all runs at their next turn, since the figures would be of no use.
    pub(super) fn give_up(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.go_on();
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Waits until all runs stand at their middle, where they rest.
    pub(super) async fn all_arrived(&self) {
        // The sender is ours, so that it cannot be gone.
        let _ = self.arrived.subscribe().wait_for(|arrived| *arrived == self.runs || self.is_over()).await;
    }

    /// Lets the runs go on from their middle.
    pub(super) fn go_on(&self) {
        self.open.send_replace(true);
        // Whoever waits for the others is to look again.
        self.arrived.send_modify(|_| ());
    }

    /// How long each turn of each run took, in their order.
    pub(super) fn times(&self) -> Vec<Vec<Duration>> {
        let times = |clock: &Mutex<Clock>| clock.lock().unwrap_or_else(PoisonError::into_inner).turns.clone();
        self.clocks.iter().map(times).collect()
    }

    /// Takes the time at which a run asks for its next reply, which is when its last turn was over.
    async fn tick(&self, run: usize, turn: u64) {
        let Some(clock) = self.clocks.get(run) else { return };
        let now = Instant::now();
        {
            let mut clock = clock.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(begun) = clock.begun.take() {
                clock.turns.push(now - begun);
                self.done.fetch_add(1, Ordering::Relaxed);
            }
        }
        if turn == self.turns / 2 && !*self.open.borrow() {
            self.arrived.send_modify(|arrived| *arrived += 1);
            let _ = self.open.subscribe().wait_for(|open| *open).await;
        }
        clock.lock().unwrap_or_else(PoisonError::into_inner).begun = Some(Instant::now());
    }
}

/// A model that asks for one addition a turn, and answers after so many.
pub(super) struct Adder(pub(super) Arc<Load>);

#[async_trait]
impl Model for Adder {
    async fn complete(
        &self,
        request: &CompletionRequest,
        _: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelError> {
        let turn = request.transcript.replies();
        // A run is asked with its own number.
        let run = request.transcript.iter().find_map(|entry| match entry {
            Entry::User(text) => text.parse().ok(),
            _ => None,
        });
        self.0.tick(run.unwrap_or_default(), turn).await;
        if self.0.is_over() {
            return Err(ModelError::new(ModelErrorKind::Refused, "the measurement was given up"));
        }
        let (part, stop) = if turn < self.0.turns {
            let call = CallRequest {
                call_id: format!("call_{turn}"),
                name: TOOL.to_owned(),
                arguments: format!(r#"{{"a":{turn},"b":1}}"#),
                validation: Some(Validation::Valid { arguments: json!({ "a": turn, "b": 1 }) }),
            };
            (ReplyPart::Call(call), StopReason::ToolCalls)
        } else {
            (ReplyPart::Text("done".to_owned()), StopReason::End)
        };
        Ok(ModelReply { input_tokens: 10, output_tokens: 5, ..ModelReply::new(vec![part], stop) })
    }
}

/// The tool.
pub(super) struct Add;

#[async_trait]
impl Tool for Add {
    fn describe(&self) -> ToolDescription {
        let number = json!({ "type": "integer" });
        ToolDescription {
            description: "Adds two numbers.".to_owned(),
            input_schema: json!({
                "type": "object", "properties": { "a": number, "b": number }, "required": ["a", "b"],
            })
            .into(),
            output_schema: None,
            class: EffectClass::Read,
        }
    }

    async fn call(&self, invocation: Invocation) -> Result<ToolReturn, ToolError> {
        let number = |key: &str| invocation.arguments[key].as_i64().unwrap_or_default();
        Ok(ToolReturn::structured(json!({ "sum": number("a") + number("b") })))
    }
}

/// Writes the workspace of the load.
pub(super) fn workspace(folder: &Path, turns: u64, runs: u64) -> io::Result<()> {
    // Twice as many steps as turns, and room for the answer. The model waits at its middle for as long as F is measured.
    let limit = turns * 2 + 10;
    let agent = format!(
        "name = \"{AGENT}\"\nversion = \"1.0.0\"\ndescription = \"Adds.\"\nprompt = \"{{{{request.text}}}}\"\n\
         [model]\nuse = \"{MODEL}\"\ntimeout = \"30m\"\n[tools]\nallow = [\"{TOOL}\"]\n\
         [limits]\nmax_steps = {limit}\nmax_tool_calls = {limit}\ntimeout = \"24h\"\n"
    );
    fs::create_dir(folder.join("agents"))?;
    fs::write(folder.join("agents/bench.toml"), agent)?;
    // What this model would say is never asked: the load takes its place.
    fs::write(folder.join("script.toml"), "[[replies]]\ntext = \"unused\"\n")?;
    fs::write(
        folder.join("dalsegno.toml"),
        // All runs rest in a model call at once, so that all must have room there.
        format!(
            "[models.{MODEL}]\nprovider = \"script\"\nfile = \"script.toml\"\n\
             [dispatch]\nconcurrency = {runs}\ntenant_concurrency = {runs}\n"
        ),
    )
}
