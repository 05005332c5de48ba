//! Many calls at once, held by one process of each client.
//!
//! The callers speak at the provider, all at the same pace, and the live model answers them by itself, as one does that detects
//! turns. So all clients have the same to do: in each turn they perform a tool, send its output and ask for the next response.

use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use dalsegno_testkit::{LiveAnswer, LiveCaller, processor_of};
use serde_json::{Value, json};

use crate::Arguments;
use crate::clients::{python, spreads};
use crate::process::Running;
use crate::provider::{LOOK, PATIENCE, Provider, QUIET};
use crate::workspace::Workspace;

/// How many calls there are at once.
const CALLS: [u32; 3] = [1, 100, 500];

/// The turns of each call that are measured. One before them is not.
const TURNS: u32 = 8;

/// From the beginning of a turn to that of the next one.
const EVERY: Duration = Duration::from_secs(4);

/// How long a caller speaks in a turn.
const SPEAKS: Duration = Duration::from_millis(300);

/// How long the live model thinks then.
const THINKS: Duration = Duration::from_millis(300);

/// How long a caller waits for an answer before it speaks again.
const WAITS: Duration = Duration::from_secs(8);

/// The clients of others, of which one process holds all calls in one event loop.
pub(crate) const CLIENTS: [(&str, &str); 2] =
    [("Pipecat", include_str!("many_pipecat.py")), ("LiveKit Agents", include_str!("many_livekit.py"))];

/// How long something took, in seconds; none where there was no end of it.
type Took = Option<f64>;

/// Holds the calls, and prints a table of them.
///
/// # Errors
/// A client failed, or the provider refused something.
pub(crate) fn hold(arguments: &Arguments) -> anyhow::Result<()> {
    let files = rustix::process::Resource::Nofile;
    let limits = rustix::process::getrlimit(files);
    // Each call has a socket here and one in the client, which has the same limits.
    rustix::process::setrlimit(files, rustix::process::Rlimit { current: limits.maximum, ..limits })?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "\nmany calls in one process, each with {TURNS} turns, one every {} s, and a tool in each:\n",
        EVERY.as_secs()
    )?;
    let columns = [
        "calls",
        "begun in",
        "turns in",
        "to the output: p50",
        "p99",
        "to the next response: p50",
        "p99",
        "processor",
        "memory",
        "processor of the provider",
    ];
    writeln!(out, "{:<26} {}", "", columns.join(" | "))?;
    for (name, program) in CLIENTS {
        for calls in CALLS {
            let provider = Provider::new()?;
            let mut client = python(&arguments.voices.join("python"), program);
            client.args([&provider.live.base_url(), &calls.to_string(), "text"]);
            let begun = Instant::now();
            let running = Running::start(client)?;
            let version = running.line().with_context(|| format!("{name} could not hold {calls} calls"))?;
            writeln!(out, "{}", provider.measure(&format!("{name} {version}"), running, calls, begun)?)?;
        }
    }
    for calls in CALLS {
        let provider = Provider::new()?;
        let workspace = Workspace::with_number(&provider.live.base_url(), calls)?;
        let begun = Instant::now();
        let running = Running::start(workspace.serve(&arguments.dalsegno))?;
        let first: Value = serde_json::from_str(&running.line()?)?;
        let address = first["address"].as_str().context("the server tells no address")?;
        for call in 0..calls {
            provider.ring(address, &format!("call_{call}"))?;
        }
        let name = format!("dalsegno {}", env!("CARGO_PKG_VERSION"));
        writeln!(out, "{}", provider.measure(&name, running, calls, begun)?)?;
    }
    Ok(())
}

impl Provider {
    /// Waits until the live model has waited for so many tools, or twice as long as that takes; how long it took.
    fn waited(&self, running: &mut Running, tools: usize, turns: u32) -> anyhow::Result<Took> {
        let begun = Instant::now();
        while self.look(|book| book.waits.len())? < tools {
            if begun.elapsed() > 2 * turns * EVERY {
                return Ok(None);
            }
            ensure!(!running.has_ended()?, "a client ended while its calls were under way");
            thread::sleep(LOOK);
        }
        Ok(Some(begun.elapsed().as_secs_f64()))
    }

    /// Has the callers of a client speak; a line of the table.
    fn measure(
        &self,
        name: &str,
        mut running: Running,
        calls: u32,
        started: Instant,
    ) -> anyhow::Result<String> {
        let there = self.begun(&mut running, calls)?;
        if there < calls {
            let patience = PATIENCE.as_secs();
            return Ok(format!("{name:<26} {calls} | only {there} of them had begun after {patience} s"));
        }
        let begun = started.elapsed().saturating_sub(QUIET).as_secs_f64();
        let asks = match name.starts_with("dalsegno") {
            true => LiveAnswer::asks("memory__search", &json!({ "query": "a table" })),
            false => LiveAnswer::asks("book__find", &json!({})),
        };
        let answers = vec![asks, LiveAnswer::says("There is one at eight.")];
        let caller = |turns| LiveCaller {
            says: "A table?".to_owned(),
            lasts: SPEAKS,
            thinks: THINKS,
            answers: answers.clone(),
            every: EVERY,
            patience: WAITS,
            turns,
        };
        self.live.callers(caller(1));
        let warm = calls as usize;
        self.waited(&mut running, warm, 2)?;
        let warm = self.look(|book| book.waits.len())?;
        let (used, own) = (running.processor(), processor_of("self"));
        self.live.callers(caller(1 + TURNS));
        let wanted = warm + (calls * TURNS) as usize;
        let took = self.waited(&mut running, wanted, TURNS)?;
        let since = |before: Option<Duration>, after: Option<Duration>| {
            let used = before.zip(after).map(|(before, after)| after.saturating_sub(before));
            used.map_or("-".to_owned(), |used| format!("{:.2} s", used.as_secs_f64()))
        };
        let (used, own) = (since(used, running.processor()), since(own, processor_of("self")));
        let memory = running.memory().map_or("-".to_owned(), |most| format!("{} MiB", most >> 20));
        let book = self.live.book();
        let refused = match book.errors.as_slice() {
            [] => String::new(),
            [first, ..] => format!(" | {} refused, first {first}", book.errors.len()),
        };
        let waits = book.waits.get(warm..).unwrap_or_default();
        let turns = match took {
            Some(took) => format!("{took:.1} s"),
            None => {
                format!("{} of {} came in {} s", waits.len(), wanted - warm, (2 * TURNS * EVERY).as_secs())
            }
        };
        let (output, response) = spreads(waits);
        Ok(format!(
            "{name:<26} {calls} | {begun:.1} s | {turns} | {output} | {response} | {used} | {memory} | {own}{refused}"
        ))
    }
}
