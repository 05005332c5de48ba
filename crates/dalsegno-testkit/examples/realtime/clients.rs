//! The same call, held by what others wrote and by the command, at the provider of the testkit.
//!
//! In each turn the caller asks, the live model calls a tool that returns at once, and tells what came of it. The provider measures
//! how long it waits: for the output of the tool, and until it is asked to speak again.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use dalsegno_testkit::{LiveAnswer, LiveModel, LiveWait};
use serde_json::json;

use crate::Arguments;
use crate::process::{self, Ended};
use crate::workspace::Workspace;

/// The turns of a call.
const TURNS: usize = 200;

/// Turns at the beginning that are not measured.
const WARM: usize = 20;

/// What runs a client.
enum Runtime {
    Node,
    Python,
}

/// The clients of others: the name, what runs it, and the program.
const CLIENTS: [(&str, Runtime, &str); 5] = [
    ("`openai` for Python", Runtime::Python, include_str!("openai.py")),
    ("`openai` for Node", Runtime::Node, include_str!("openai.mjs")),
    ("`@openai/agents-realtime`", Runtime::Node, include_str!("agents.mjs")),
    ("Pipecat", Runtime::Python, include_str!("pipecat.py")),
    ("LiveKit Agents", Runtime::Python, include_str!("livekit.py")),
];

/// Holds the calls, and prints a table of them.
///
/// # Errors
/// A call could not be held, or the provider refused something.
pub(crate) fn hold(arguments: &Arguments) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "\na call of {TURNS} turns with a tool; the last {} are measured:\n", TURNS - WARM)?;
    let columns = ["to the output: p50", "p99", "to the next response: p50", "p99", "processor", "memory"];
    writeln!(out, "{:<36} {}", "", columns.join(" | "))?;
    for (name, runtime, program) in &CLIENTS {
        let (ended, waits) = at_provider(name, "book__find", &json!({}), |base_url| {
            let mut client = match runtime {
                Runtime::Node => node(arguments, program),
                Runtime::Python => python(&arguments.voices.join("python"), program),
            };
            client.args([base_url, &TURNS.to_string()]);
            process::run(client, "")
        })?;
        let version = ended.printed.trim();
        writeln!(out, "{}", line(&format!("{name} {version}"), &ended, &waits))?;
    }
    // The tool of the command is a real one, and all that happens is written before it has an effect.
    let (ended, waits) =
        at_provider("dalsegno", "memory__search", &json!({ "query": "a table" }), |base_url| {
            let workspace = Workspace::new(base_url)?;
            process::run(workspace.call(&arguments.dalsegno), &"A table?\n".repeat(TURNS))
        })?;
    let said = ended.printed.matches("agent: There is one at eight.").count();
    ensure!(said == TURNS, "the command heard {said} answers, not {TURNS}");
    writeln!(out, "{}", line(&format!("dalsegno {}", env!("CARGO_PKG_VERSION")), &ended, &waits))?;
    Ok(())
}

/// Holds a call at a provider of its own; what became of the process, and how long the live model waited in each turn.
fn at_provider(
    name: &str,
    tool: &str,
    tool_arguments: &serde_json::Value,
    call: impl FnOnce(&str) -> anyhow::Result<Ended>,
) -> anyhow::Result<(Ended, Vec<LiveWait>)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let turn = [LiveAnswer::asks(tool, tool_arguments), LiveAnswer::says("There is one at eight.")];
    let live = runtime.block_on(LiveModel::start(std::iter::repeat_n(turn, TURNS).flatten()))?;
    let ended = call(&live.base_url()).with_context(|| format!("{name} could not hold a call"))?;
    let book = live.book();
    ensure!(book.errors.is_empty(), "the provider refused {name}: {:?}", book.errors);
    ensure!(book.waits.len() == TURNS, "{name} had {} tools called, not {TURNS}", book.waits.len());
    // A refusal is told faster than a result, and is another output.
    let outputs: BTreeSet<&str> = book.items.iter().filter_map(|item| item["output"].as_str()).collect();
    ensure!(outputs.len() == 1, "{name} did not send the same output each time: {outputs:?}");
    Ok((ended, book.waits))
}

/// A program for Python with these packages.
pub(crate) fn python(packages: &Path, program: &str) -> Command {
    let mut python = Command::new("python3");
    // Of some libraries, what they log is shown.
    python.args(["-c", program]).env("PYTHONPATH", packages).env("LOGURU_LEVEL", "WARNING");
    python
}

/// A module for Node, which finds its packages from the folder in which it runs.
fn node(arguments: &Arguments, program: &str) -> Command {
    let mut node = Command::new(&arguments.node);
    node.args(["--input-type=module", "--eval", program]).current_dir(&arguments.voices);
    node
}

fn line(name: &str, ended: &Ended, waits: &[LiveWait]) -> String {
    let waits = &waits[WARM..];
    let processor = ended.processor.map_or("-".to_owned(), |used| format!("{:.2} s", used.as_secs_f64()));
    let memory = ended.memory.map_or("-".to_owned(), |most| format!("{} MiB", most >> 20));
    let (output, response) = spreads(waits);
    format!("{name:<36} {output} | {response} | {processor} | {memory}")
}

/// How long the live model waited for outputs, and until it was asked to speak.
pub(crate) fn spreads(waits: &[LiveWait]) -> (String, String) {
    let of = |time: fn(&LiveWait) -> Duration| spread(&waits.iter().map(time).collect::<Vec<_>>());
    (of(|wait| wait.output), of(|wait| wait.response))
}

/// How long half of them took at most, and how long 99 of 100.
pub(crate) fn spread(times: &[Duration]) -> String {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = |part: usize| match times.get(times.len().saturating_sub(1) * part / 100) {
        Some(time) => format!("{:.2}", time.as_secs_f64() * 1e3),
        None => "-".to_owned(),
    };
    format!("{} | {} ms", at(50), at(99))
}
