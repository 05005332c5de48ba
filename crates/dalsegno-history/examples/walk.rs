//! What it takes to open a run of 10,000 steps, to step through it and to jump in it, and how much memory: printed.
//!
//! `cargo run --release -p dalsegno-history --example walk [STEPS]`
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for its authors")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use dalsegno_core::RunId;
use dalsegno_history::Journal;
use dalsegno_store::SqliteStore;

#[path = "../tests/support/mod.rs"]
mod support;

const RUN: RunId = RunId::from_bytes([7; 16]);

#[tokio::main]
async fn main() {
    let steps: u64 = std::env::args().nth(1).map_or(10_000, |steps| steps.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let store = SqliteStore::open(&path).unwrap();
    let words = "what a tool has to say. ".repeat(20);
    support::record(&store, RUN, steps | 1, &|step| format!("{step}: {words}")).await;
    drop(store);
    let journal = Journal::open(&path).await.unwrap();
    let before = resident();

    let begun = Instant::now();
    let mut walk = journal.walk(RUN).await.unwrap();
    walk.scene(0).await.unwrap().unwrap();
    say("open, first step shown", begun.elapsed());
    let begun = Instant::now();
    walk.read_all().await.unwrap();
    let places = walk.outline().places();
    say("outline of all steps", begun.elapsed());
    println!("{places} places, {} records", walk.records_read());
    let begun = Instant::now();
    walk.scene(places - 1).await.unwrap().unwrap();
    say("first jump to the end", begun.elapsed());
    let begun = Instant::now();
    walk.scene(places - 1).await.unwrap().unwrap();
    say("jump to the end once more", begun.elapsed());
    let back = longest((0..1_000).map(|step| places - 2 - step), &mut walk).await;
    println!("1,000 steps back: mean {:.2?}, longest {:.2?}", back.0, back.1);
    let forth = longest((0..1_000).map(|step| places / 2 + step), &mut walk).await;
    println!("1,000 steps forwards: mean {:.2?}, longest {:.2?}", forth.0, forth.1);
    let scattered = longest((0..200).map(|one| one * 7_919 % places), &mut walk).await;
    println!("200 jumps: mean {:.2?}, longest {:.2?}", scattered.0, scattered.1);
    println!("memory: {} MiB more than before", resident().saturating_sub(before) >> 20);
    let (config, records) = journal.journal_of(RUN).await.unwrap();
    let begun = Instant::now();
    let fold = journal.fold_all(RUN, Arc::clone(&config), &records).await.unwrap();
    say("for comparison: a fold of all records that were read", begun.elapsed());
    drop(fold);
}

async fn longest(
    places: impl Iterator<Item = usize>,
    walk: &mut dalsegno_history::Walk,
) -> (Duration, Duration) {
    let (mut all, mut most, mut count) = (Duration::ZERO, Duration::ZERO, 0);
    for place in places {
        let begun = Instant::now();
        walk.scene(place).await.unwrap().unwrap();
        let took = begun.elapsed();
        (all, most, count) = (all + took, most.max(took), count + 1);
    }
    (all / count, most)
}

fn say(what: &str, took: Duration) {
    println!("{what}: {took:.2?}");
}

/// Bytes of this process in memory; 0 where the system does not say it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}
