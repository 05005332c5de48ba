//! What a durable turn costs, as a ratio to what the disk costs, measured in the same run.
//!
//! A turn is one model call and one tool call: two durable steps. The model and the tool are in process and take no
//! time, so what is left is the engine. F is one SQLite commit of 1 KiB in WAL mode with `synchronous = FULL`.
//!
//! `cargo bench -p segno-runtime --bench durable [-- TURNS]`

use std::path::Path;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use segno_core::{
    AgentRequest, CallRequest, EffectClass, ModelReply, ReplyPart, RunId, StopReason, ToolReturn, Verdict,
};
use segno_models::{CompletionRequest, DeltaSink, Model, ModelError};
use segno_runtime::{Engine, Invocation, RunEvent, StartOptions, Tool, ToolDescription, ToolError};
use segno_store::Body;
use serde_json::json;

/// A model that asks for one addition a turn, and answers after so many.
struct Adder {
    turns: u64,
}

#[async_trait]
impl Model for Adder {
    async fn complete(
        &self,
        request: &CompletionRequest,
        _: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelError> {
        let turn = request.transcript.replies();
        let (part, stop) = if turn < self.turns {
            let call = CallRequest {
                call_id: format!("call_{turn}"),
                name: "math.add".to_owned(),
                arguments: format!(r#"{{"a":{turn},"b":1}}"#),
                verdict: Verdict::Valid { arguments: json!({ "a": turn, "b": 1 }) },
            };
            (ReplyPart::Call(call), StopReason::ToolCalls)
        } else {
            (ReplyPart::Text("done".to_owned()), StopReason::End)
        };
        Ok(ModelReply { input_tokens: 10, output_tokens: 5, ..ModelReply::new(vec![part], stop) })
    }
}

struct Add;

#[async_trait]
impl Tool for Add {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            description: "Adds two numbers.".to_owned(),
            input_schema: json!({ "type": "object" }),
            output_schema: None,
            class: EffectClass::Read,
        }
    }

    async fn call(&self, invocation: Invocation) -> Result<ToolReturn, ToolError> {
        let number = |key: &str| invocation.arguments[key].as_i64().unwrap_or_default();
        Ok(ToolReturn::structured(json!({ "sum": number("a") + number("b") })))
    }
}

const AGENT: &str = r#"
name = "bench"
version = "1.0.0"
description = "Adds."
prompt = "{{request.text}}"
[model]
use = "adder"
[tools]
allow = ["math.add"]
[limits]
max_steps = 100000
max_tool_calls = 100000
timeout = "24h"
"#;

const SETTINGS: &str = "[models.adder]\nprovider = \"script\"\nfile = \"script.toml\"\n";

/// The time of one commit of 1 KiB: the median of so many.
fn floor(dir: &Path, commits: usize) -> Result<Duration, rusqlite::Error> {
    let connection = rusqlite::Connection::open(dir.join("floor.db"))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.execute_batch("CREATE TABLE IF NOT EXISTS t (body BLOB)")?;
    let mut insert = connection.prepare("INSERT INTO t VALUES (?1)")?;
    let mut times = Vec::with_capacity(commits);
    for _ in 0..commits {
        let begin = Instant::now();
        insert.execute([vec![7_u8; 1024]])?;
        times.push(begin.elapsed());
    }
    Ok(median(&mut times))
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Runs the agent, and returns how long each turn took.
async fn run(engine: &Engine) -> Result<(RunId, Vec<Duration>), Box<dyn std::error::Error>> {
    let mut handle =
        engine.start(&"bench".parse()?, AgentRequest::text("add"), StartOptions::default()).await?;
    let mut turns = Vec::new();
    let mut begin = Instant::now();
    let mut resolved = 0_u64;
    while let Some(event) = handle.next_event().await {
        if let RunEvent::Recorded { record, .. } = event
            && matches!(record.body, Body::Resolved { .. })
        {
            resolved += 1;
            if resolved.is_multiple_of(2) {
                turns.push(begin.elapsed());
                begin = Instant::now();
            }
        }
    }
    let report = handle.finish().await?;
    Ok((report.run, turns))
}

#[expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let turns = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(2_000);
    let dir = tempfile::tempdir_in(".")?;
    std::fs::create_dir(dir.path().join("agents"))?;
    std::fs::write(dir.path().join("agents/bench.toml"), AGENT)?;
    std::fs::write(dir.path().join("segno.toml"), SETTINGS)?;
    std::fs::write(dir.path().join("script.toml"), "[[replies]]\ntext = \"unused\"\n")?;
    let engine = Engine::builder()
        .model("adder", Adder { turns })
        .tool("math.add".parse()?, Add)
        .open(dir.path())
        .await?;

    let before = floor(dir.path(), 500)?;
    let (id, mut times) = run(&engine).await?;
    let after = floor(dir.path(), 500)?;
    let f = (before + after) / 2;

    let tenth = times.len() / 10;
    let (first, last) = (median(&mut times[..tenth].to_vec()), median(&mut times[9 * tenth..].to_vec()));
    let all = median(&mut times);
    let ratio = |time: Duration| time.as_secs_f64() / (2.0 * f.as_secs_f64());
    println!(
        "F, one commit of 1 KiB      {:>9.1} µs  (before {before:.1?}, after {after:.1?})",
        f.as_secs_f64() * 1e6
    );
    for (name, time) in [("all", all), ("first tenth", first), ("last tenth", last)] {
        println!(
            "turn, median of {name:<11} {:>9.1} µs  {:>5.2} x 2F",
            time.as_secs_f64() * 1e6,
            ratio(time)
        );
    }

    let begin = Instant::now();
    let report = engine.replay(id).await?;
    let spent = begin.elapsed();
    assert!(report.identical, "a run must replay: {report:?}");
    println!(
        "replay                      {:>9.0} steps/s  ({} steps)",
        report.steps as f64 / spent.as_secs_f64(),
        report.steps
    );

    let path = dir.path().join(".segno/segno.db");
    rusqlite::Connection::open(&path)?.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    println!("journal on disk             {:>9} B a turn", std::fs::metadata(&path)?.len() / turns.max(1));
    Ok(())
}
