//! An engine whose model asks for one addition a turn, for processes that are killed and for runs that wait.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dalsegno_core::{
    CallRequest, EffectClass, ModelReply, ReplyPart, StopReason, Timestamp, ToolReturn, Validation,
};
use dalsegno_models::{CompletionRequest, DeltaSink, Model, ModelError};
use dalsegno_runtime::{Clock, Engine, EngineBuilder, Invocation, Tool, ToolDescription, ToolError};
use serde_json::json;

use crate::line::Fault;

/// The folders that several measurements need: agents that add, that wait for an approval, that wait for a time.
pub(crate) fn workspace(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder.join("agents"))?;
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text);
    write("script.toml", "[[replies]]\ntext = \"unused\"\n".to_owned())?;
    write(
        "dalsegno.toml",
        "[models.adder]\nprovider = \"script\"\nfile = \"script.toml\"\n\
         [dispatch]\nconcurrency = 1000\ntenant_concurrency = 1000\n"
            .to_owned(),
    )?;
    let head = |name: &str| format!("name = \"{name}\"\nversion = \"1.0.0\"\ndescription = \"Measured.\"\n");
    write(
        "agents/adder.toml",
        head("adder")
            + "[model]\nuse = \"adder\"\ntimeout = \"30m\"\n[tools]\nallow = [\"math.add\"]\n\
               [tools.settings.\"math.add\"]\ntimeout = \"30m\"\n\
               [limits]\nmax_steps = 100000\nmax_tool_calls = 100000\ntimeout = \"24h\"\n",
    )?;
    write(
        "agents/asker.toml",
        head("asker")
            + "[tools]\nallow = [\"math.add\"]\n[[steps]]\ntool = \"math.add\"\nwith = { a = 1, b = 1 }\napprove = true\n\
               [[steps]]\nrespond = \"done\"\n",
    )?;
    write(
        "agents/sleeper.toml",
        head("sleeper")
            + "[tools]\nallow = [\"math.add\"]\n[[steps]]\nwait = \"1h\"\n[[steps]]\ntool = \"math.add\"\nwith = { a = 1, b = 1 }\n\
               [[steps]]\nrespond = \"done\"\n",
    )
}

/// Says something to the process that started this one.
pub(crate) fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{what}");
    let _ = out.flush();
}

/// An engine on the workspace.
pub(crate) fn builder(stand_at: u64) -> Result<EngineBuilder, Fault> {
    let add = Add { stand_at, say: Arc::new(|| say("stands")) };
    Ok(Engine::builder().model("adder", Adder).tool("math.add".parse()?, add))
}

/// A model that asks for one addition a turn.
struct Adder;

#[async_trait]
impl Model for Adder {
    async fn complete(
        &self,
        request: &CompletionRequest,
        _: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelError> {
        let turn = request.transcript.replies();
        say_once();
        let call = CallRequest {
            call_id: format!("call_{turn}"),
            name: "math.add".to_owned(),
            arguments: format!(r#"{{"a":{turn},"b":1}}"#),
            validation: Some(Validation::Valid { arguments: json!({ "a": turn, "b": 1 }) }),
        };
        let reply = ModelReply::new(vec![ReplyPart::Call(call)], StopReason::ToolCalls);
        Ok(ModelReply { input_tokens: 10, output_tokens: 5, ..reply })
    }
}

/// Says that the next step is there, when that is the first one of this process.
pub(crate) fn say_once() {
    static FIRST: std::sync::Once = std::sync::Once::new();
    FIRST.call_once(|| say("next"));
}

/// A tool that adds, and stands still at one of its calls.
pub(crate) struct Add {
    pub(crate) stand_at: u64,
    /// What it does when it stands.
    pub(crate) say: Arc<dyn Fn() + Send + Sync>,
}

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
        let number = |key: &str| invocation.arguments[key].as_u64().unwrap_or_default();
        if number("a") == self.stand_at {
            (self.say)();
            std::future::pending::<()>().await;
        }
        Ok(ToolReturn::structured(json!({ "sum": number("a") + number("b") })))
    }
}

/// A clock that shows a time of its own, and goes on from there.
#[derive(Clone, Copy)]
pub(crate) struct SetClock {
    began: Instant,
    shows: u64,
}

impl SetClock {
    /// Shows this time now, in milliseconds since 1970.
    pub(crate) fn at(millis: u64) -> Self {
        Self { began: Instant::now(), shows: millis }
    }

    /// The time since a moment by this clock, in microseconds; zero before it.
    pub(crate) fn micros_since(self, millis: u64) -> u128 {
        let until = Duration::from_millis(millis.saturating_sub(self.shows));
        self.began.elapsed().saturating_sub(until).as_micros()
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        let since = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_millis(self.shows.saturating_add(since))
    }
}
