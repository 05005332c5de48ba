//! Writes a report of a run of so many steps (10,000 by default), and says what it takes:
//! `cargo run --release -p dalsegno-report --example long -- 10000 report.html`. Open the file, and the attribute `data-took` of its
//! first element says how many milliseconds the browser took: to unpack and compile the core, and to read and fold the run.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "an example, whose output is a table")]

use std::time::Instant;

use dalsegno_report::page::{CORE, Facts, page};
use dalsegno_report::{Report, Seal};
use serde_json::json;

#[path = "../tests/long/mod.rs"]
mod long;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let steps = arguments.next().map_or(10_000, |steps| steps.parse().unwrap());
    let journal = long::journal(steps).await;
    let archive = journal.export(long::RUN).await.unwrap().encode();
    let begin = Instant::now();
    let seal = Seal::of(&journal, long::RUN).await.unwrap();
    println!("{:>8.1} ms  digests of {} steps", begin.elapsed().as_secs_f64() * 1e3, seal.steps);
    let facts = Facts {
        version: env!("CARGO_PKG_VERSION").into(),
        root: long::RUN,
        with: None,
        seals: vec![seal],
        notes: vec![],
    };
    let begin = Instant::now();
    let text = page(&facts, &archive);
    println!("{:>8.1} ms  page", begin.elapsed().as_secs_f64() * 1e3);
    let begin = Instant::now();
    let mut report = Report::new();
    report.add(&archive).unwrap();
    println!("{:>8.1} ms  archive read and verified", begin.elapsed().as_secs_f64() * 1e3);
    let begin = Instant::now();
    report.ask(json!({ "ask": "outline", "run": long::RUN }).to_string().as_bytes());
    println!("{:>8.1} ms  folded", begin.elapsed().as_secs_f64() * 1e3);
    let begin = Instant::now();
    report.ask(json!({ "ask": "step", "run": long::RUN, "row": steps / 2 }).to_string().as_bytes());
    println!("{:>8.1} ms  one step shown", begin.elapsed().as_secs_f64() * 1e3);
    println!("{:>8} kB  core, in base64", CORE.len() * 4 / 3 / 1000);
    println!("{:>8} kB  archive, as it is", archive.len() / 1000);
    println!("{:>8} kB  page", text.len() / 1000);
    if let Some(path) = arguments.next() {
        std::fs::write(path, text).unwrap();
    }
}
