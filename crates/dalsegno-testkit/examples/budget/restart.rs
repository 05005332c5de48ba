//! From a kill to the next step, and from the start of a process to its first tool call.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use dalsegno_core::AgentRequest;
use dalsegno_runtime::StartOptions;
use dalsegno_store::RunFilter;

use crate::engine::{builder, workspace};
use crate::line::{Fault, Line, megabytes, millis};
use crate::process::{Role, Spoken, median};

/// How often it is measured.
const TIMES: u64 = 7;

/// A process that begins a run. It is killed.
pub(crate) async fn begin(folder: &Path, turn: u64) -> Result<(), Fault> {
    let engine = builder(turn)?.open(folder).await?;
    let handle = engine.start(&"adder".parse()?, AgentRequest::text("add"), StartOptions::default()).await?;
    handle.finish().await?;
    Ok(())
}

/// A process that goes on with it. It is killed, too.
pub(crate) async fn go_on(folder: &Path, turn: u64) -> Result<(), Fault> {
    let engine = builder(turn)?.open(folder).await?;
    let runs = engine.journal().runs(&RunFilter::default()).await?;
    let run = runs.first().ok_or("there is no run")?.run;
    engine.resume(run, Vec::new()).await?.finish().await?;
    Ok(())
}

/// Kills a process of a run that has so many turns, and measures how long after the start of the next one its next
/// step is there.
pub(crate) fn after(turns: u64) -> Result<Vec<Line>, Fault> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().to_owned();
    workspace(&place)?;
    let mut process = Role::Begin { folder: place.clone(), turn: turns }.spawn()?;
    process.hear("stands")?;
    process.kill()?;
    let mut took = Vec::new();
    for time in 1..=TIMES {
        let mut process = Role::GoOn { folder: place.clone(), turn: turns + time }.spawn()?;
        took.push(process.hear("next")?.1);
        process.hear("stands")?;
        process.kill()?;
    }
    let what = format!("restart after SIGKILL at turn {turns}");
    Ok(vec![Line::at_most(&what, in_millis(median(took)), 50.0, millis)])
}

/// A workspace with a tool server of WebAssembly.
fn scorer(folder: &Path, guest: &Path) -> Result<(), Fault> {
    std::fs::create_dir_all(folder.join("agents"))?;
    std::fs::copy(guest, folder.join("risk.wasm"))
        .map_err(|error| format!("{}: {error}: `cargo xtask guests` builds it", guest.display()))?;
    std::fs::write(
        folder.join("dalsegno.toml"),
        "[servers.risk]\nwasm = \"risk.wasm\"\ntrust_annotations = true\n\
         [servers.risk.permissions]\nfiles = [{ host = \"incidents\", guest = \"/incidents\", access = \"write\", create = true }]\n",
    )?;
    // It stays for a while, so that its memory can be read.
    std::fs::write(
        folder.join("agents/scorer.toml"),
        "name = \"scorer\"\nversion = \"1.0.0\"\ndescription = \"Measured.\"\n[tools]\nallow = [\"risk.*\"]\n\
         [[steps]]\ntool = \"risk.score\"\nwith = { text = \"{{request.text}}\", similar = [] }\n[[steps]]\nwait = \"20s\"\n\
         [[steps]]\nrespond = \"done\"\n",
    )?;
    Ok(())
}

/// Starts the command on an agent that calls a tool of WebAssembly; the first time is left out, which compiles it.
pub(crate) fn first_call(dalsegno: &Path, guest: &Path) -> Result<Vec<Line>, Fault> {
    let folder = tempfile::tempdir()?;
    scorer(folder.path(), guest)?;
    let (mut took, mut memory) = (Vec::new(), 0);
    for time in 0..=TIMES {
        let mut command = Command::new(dalsegno);
        command.args(["run", "scorer", "disk full", "--format", "jsonl"]).current_dir(folder.path());
        let mut process = Spoken::of(command)?;
        let answered = |line: &str| line.contains("\"kind\":\"resolved\"").then(|| line.to_owned());
        let (line, after) = process.hear_that(answered)?;
        if line.contains("failed") {
            return Err(format!("the tool failed: {line}").into());
        }
        if time > 0 {
            took.push(after);
            memory = memory.max(process.peak_memory().unwrap_or_default());
        }
        process.kill()?;
    }
    let mut lines = vec![
        Line::at_most("process start to the first tool's answer", in_millis(median(took)), 50.0, millis)
            .noted("WebAssembly, compiled before"),
    ];
    let what = "memory, one run with a WebAssembly instance";
    lines.push(if memory > 0 {
        Line::told(what, megabytes(memory as f64))
    } else {
        Line::unknown(what, "this machine does not say it")
    });
    Ok(lines)
}

fn in_millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
