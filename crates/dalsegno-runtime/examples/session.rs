//! Measures what a message of a long session costs, from its start to its answer, on a journal in a file:
//!
//! ```text
//! cargo run --release -p dalsegno-runtime --example session -- 10000
//! ```
//!
//! It prints the time of message 10 and of the last one, each as the median of its neighbours, and their ratio: for an
//! agent that is a plan, and for a model agent whose transcript is compacted.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "it is a measurement, and stops where it cannot go on"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use dalsegno_core::AgentRequest;
use dalsegno_runtime::{Engine, RunEnd, StartOptions};

const PLAN: &str = "[[steps]]\nrespond = \"{{request.text}}\"\n";
const MODEL: &str =
    "prompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\n[context]\nmax_tokens = 4000\n";

/// How many messages beside the one that is measured have a say in its time.
const NEIGHBOURS: usize = 9;

#[tokio::main]
async fn main() {
    let messages = std::env::args().nth(1).map_or(10_000, |messages| messages.parse().unwrap());
    for (name, agent) in [("plan", PLAN), ("model", MODEL)] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), agent);
        let engine = Engine::open(folder.path()).await.unwrap();
        let mut took = Vec::with_capacity(messages);
        for number in 0..messages {
            took.push(say(&engine, number).await);
        }
        let (first, last) =
            (median(&took[..10 + NEIGHBOURS]), median(&took[messages - 2 * NEIGHBOURS - 1..]));
        let ratio = last.as_secs_f64() / first.as_secs_f64();
        println!(
            "{name}: message 10 took {first:?}, message {messages} took {last:?}: {ratio:.2} times as long"
        );
    }
}

fn write(folder: &Path, agent: &str) {
    std::fs::create_dir(folder.join("agents")).unwrap();
    let settings = "[models.default]\nprovider = \"script\"\nfile = \"script.toml\"\n";
    std::fs::write(folder.join("dalsegno.toml"), settings).unwrap();
    let script = "repeat = true\n[[replies]]\ntext = \"I have heard every word of that.\"\n";
    std::fs::write(folder.join("script.toml"), script).unwrap();
    let agent = format!("name = \"a\"\nversion = \"1.0.0\"\ndescription = \"Answers.\"\n{agent}");
    std::fs::write(folder.join("agents/a.toml"), agent).unwrap();
}

/// Says something in the session, and returns how long the answer took.
async fn say(engine: &Engine, number: usize) -> Duration {
    let options = StartOptions { session: Some("s".to_owned()), ..StartOptions::default() };
    let request = AgentRequest::text(&format!("message {number}: {}", "some words and more ".repeat(5)));
    let began = Instant::now();
    let report = engine.start(&"a".parse().unwrap(), request, options).await.unwrap().finish().await.unwrap();
    let took = began.elapsed();
    assert!(matches!(&report.end, RunEnd::Ended(response) if response.error.is_none()), "{report:?}");
    took
}

fn median(took: &[Duration]) -> Duration {
    let mut sorted = took.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}
