//! Callers who interrupt: how long it takes until the live model is told how much of its words was heard.
//!
//! The sound of the live model comes through the client and is made faster than it is played. When the caller begins to speak, the
//! provider tells the client, which gives up what was not played, and has it cut at the provider. All clients do the latter at once,
//! with a frame of the same kind. The players of the clients of others are clocks; behind the command is a carrier.

use std::io::Write as _;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use dalsegno_testkit::{Carrier, LiveAnswer, LiveCaller};
use serde_json::Value;

use crate::Arguments;
use crate::clients::{python, spread};
use crate::many::CLIENTS;
use crate::process::Running;
use crate::provider::Provider;
use crate::workspace::{NUMBER, TOKEN, Workspace};

/// How many calls there are at once.
const CALLS: u32 = 10;

/// How often each caller interrupts. The first time is not measured.
const TIMES: u32 = 20;

/// From one time to the next one: a part of the words was played then.
const EVERY: Duration = Duration::from_millis(1_500);

/// How long a caller speaks, and how long the live model thinks then.
const SPEAKS: Duration = Duration::from_millis(300);

/// Holds the calls, and prints a table of them.
///
/// # Errors
/// A client failed, or the provider or the carrier refused something.
pub(crate) fn hold(arguments: &Arguments) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "\n{CALLS} calls in one process, whose callers interrupt {TIMES} times:\n")?;
    writeln!(out, "{:<26} from speech to the cut: p50 | p99", "")?;
    for (name, program) in CLIENTS {
        let provider = Provider::new()?;
        let mut client = python(&arguments.voices.join("python"), program);
        client.args([&provider.live.base_url(), &CALLS.to_string(), "audio"]);
        let running = Running::start(client)?;
        let version = running.line().with_context(|| format!("{name} could not hold calls"))?;
        writeln!(out, "{}", provider.interrupted(&format!("{name} {version}"), running)?)?;
    }
    let provider = Provider::new()?;
    let workspace = Workspace::with_carrier(&provider.live.base_url(), CALLS)?;
    let running = Running::start(workspace.serve(&arguments.dalsegno))?;
    let first: Value = serde_json::from_str(&running.line()?)?;
    let address = first["address"].as_str().context("the server tells no address")?.parse()?;
    let carrier = Carrier::new(TOKEN, "front", address);
    let calls: Vec<String> = (0..CALLS).map(|call| format!("CA{call}")).collect();
    {
        let _there = provider.there.enter();
        calls.iter().for_each(|call| carrier.calls(call, "+4915112345678", NUMBER));
    }
    let line = provider.interrupted(&format!("dalsegno {}", env!("CARGO_PKG_VERSION")), running)?;
    for call in calls.iter().map(|call| carrier.call(call)) {
        ensure!(call.wrong.is_empty(), "the carrier refused something: {:?}", call.wrong);
        ensure!(call.cleared >= TIMES, "the carrier was told only {} times to be silent", call.cleared);
    }
    writeln!(out, "{line}")?;
    Ok(())
}

impl Provider {
    /// Has the callers of a client interrupt; a line of the table.
    fn interrupted(&self, name: &str, mut running: Running) -> anyhow::Result<String> {
        let there = self.begun(&mut running, CALLS)?;
        ensure!(there == CALLS, "only {there} of {CALLS} calls of {name} have begun");
        let caller = |turns| LiveCaller {
            says: "A table?".to_owned(),
            lasts: SPEAKS,
            thinks: SPEAKS,
            answers: vec![LiveAnswer::says(&"There is one at eight. ".repeat(20))],
            every: EVERY,
            patience: EVERY,
            turns,
        };
        // What is said before is not interrupted by all clients.
        self.live.callers(caller(1));
        thread::sleep(2 * EVERY);
        let before = self.look(|book| book.cuts.len())?;
        self.live.callers(caller(1 + TIMES));
        thread::sleep((1 + TIMES) * EVERY);
        ensure!(!running.has_ended()?, "{name} ended while its calls were under way");
        let book = self.live.book();
        ensure!(book.errors.is_empty(), "the provider refused {name}: {:?}", book.errors);
        let cuts = &book.cuts[before..];
        let wanted = (CALLS * TIMES) as usize;
        let short = match cuts.len() == wanted {
            true => String::new(),
            false => format!(" ({} of {wanted} came)", cuts.len()),
        };
        Ok(format!("{name:<26} {}{short}", spread(cuts)))
    }
}
