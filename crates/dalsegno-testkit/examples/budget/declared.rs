//! A durable call of a declarative tool with ten actions that each ask for something, against the floor of the disk.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dalsegno_core::{AgentRequest, Status};
use dalsegno_runtime::{Engine, RunEnd, StartOptions};
use serde_json::json;

use crate::engine::Add;
use crate::figures;
use crate::line::{Fault, Line, times};
use crate::process::median;

/// Actions of the tool, each a call of a tool that only adds.
const ACTIONS: u64 = 10;

/// Calls of the tool in one run.
const CALLS: u64 = 20;

/// How often such a run is measured.
const TIMES: usize = 5;

fn workspace(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder.join("agents"))?;
    std::fs::create_dir_all(folder.join("tools"))?;
    std::fs::write(folder.join("dalsegno.toml"), "")?;
    let actions = (0..ACTIONS).map(|number| {
        json!({ "type": "tool", "name": "math.add", "arguments": { "a": number, "b": "{{params.b}}" } })
    });
    let document = json!({
        "name": "ten",
        "description": "Adds ten times.",
        "parameters": [{ "name": "b", "type": "integer", "required": true }],
        "actions": actions.collect::<Vec<_>>(),
    });
    std::fs::write(folder.join("tools/ten.json"), document.to_string())?;
    let steps = "[[steps]]\ntool = \"ten\"\nwith = { b = 1 }\n".repeat(usize::try_from(CALLS).unwrap_or(1));
    std::fs::write(
        folder.join("agents/adder.toml"),
        format!(
            "name = \"adder\"\nversion = \"1.0.0\"\ndescription = \"Measured.\"\n\
             [tools]\nallow = [\"math.add\", \"ten\"]\n[limits]\nmax_tool_calls = 100000\n{steps}\
             [[steps]]\nrespond = \"done\"\n"
        ),
    )
}

async fn run(folder: &Path) -> Result<Duration, Fault> {
    let add = Add { stand_at: u64::MAX, say: Arc::new(|| {}) };
    let engine = Engine::builder().tool("math.add".parse()?, add).open(folder).await?;
    let begin = Instant::now();
    let handle = engine.start(&"adder".parse()?, AgentRequest::text("add"), StartOptions::default()).await?;
    let report = handle.finish().await?;
    let took = begin.elapsed();
    match report.end {
        RunEnd::Ended(response) if response.status == Status::Completed => Ok(took),
        end => Err(format!("the run has not completed: {end:?}").into()),
    }
}

/// Each action has one commit, its outcome with the request of the next one, and the call one more.
pub(crate) fn call(dalsegno: &Path) -> Result<Vec<Line>, Fault> {
    let floor = figures::figure(&figures::bench(dalsegno, 500, 1)?, "floor_ms.all")?;
    let folder = tempfile::tempdir()?;
    workspace(folder.path())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut took = Vec::new();
    for _ in 0..TIMES {
        took.push(runtime.block_on(run(folder.path()))?);
    }
    let call = median(took).as_secs_f64() * 1e3 / CALLS as f64;
    let commits = (ACTIONS + 1) as f64;
    let what = format!("a declarative tool of {ACTIONS} actions, in {commits}F");
    let note = format!("{call:.2} ms a call, F {floor:.2} ms");
    Ok(vec![Line::at_most(&what, call / (commits * floor), 1.5, times).noted(&note)])
}
