//! Measures what a message of a long session costs, from its start to its answer, on a journal in a file:
//!
//! ```text
//! cargo run --release -p dalsegno-runtime --example session -- 10000
//! ```
//!
//! It prints the time of an early message of a session and of message 10,000, and their ratio: for an agent that is a plan, and
//! for a model agent whose transcript is compacted. The two are measured in turns at the end, the early one in a new session
//! each time, so that what else the machine and the disk do counts for both; each is the median of all turns. Message 10 of a
//! model agent has a shorter transcript than message 10,000, messages 200 to 250 have one that was compacted as well.
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

/// How often each of the two messages is measured.
const TURNS: usize = 51;

/// The message of a new session that is measured, and how many more it is with each turn.
const EARLY: [(usize, usize); 2] = [(10, 0), (200, 1)];

#[tokio::main]
async fn main() {
    let messages = std::env::args().nth(1).map_or(10_000, |messages| messages.parse().unwrap());
    for (name, agent) in [("plan", PLAN), ("model", MODEL)] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), agent);
        let engine = Engine::open(folder.path()).await.unwrap();
        for number in 1..messages {
            say(&engine, "long", number).await;
        }
        let mut next = messages;
        for (first, more) in EARLY {
            let (mut early, mut late) = (Vec::with_capacity(TURNS), Vec::with_capacity(TURNS));
            for turn in 0..TURNS {
                let (session, measured) = (format!("short {first} {turn}"), first + more * turn);
                for number in 1..measured {
                    say(&engine, &session, number).await;
                }
                early.push(say(&engine, &session, measured).await);
                late.push(say(&engine, "long", next).await);
                next += 1;
            }
            let (early, late) = (median(early), median(late));
            let ratio = late.as_secs_f64() / early.as_secs_f64();
            println!(
                "{name}: message {first} took {early:?}, message {messages} took {late:?}: {ratio:.2} times as long"
            );
        }
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
async fn say(engine: &Engine, session: &str, number: usize) -> Duration {
    let options = StartOptions { session: Some(session.to_owned()), ..StartOptions::default() };
    let request = AgentRequest::text(&format!("message {number}: {}", "some words and more ".repeat(5)));
    let began = Instant::now();
    let report = engine.start(&"a".parse().unwrap(), request, options).await.unwrap().finish().await.unwrap();
    let took = began.elapsed();
    assert!(matches!(&report.end, RunEnd::Ended(response) if response.error.is_none()), "{report:?}");
    took
}

fn median(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took[took.len() / 2]
}
