//! Comes back to a run of many steps, as a client does whose connection was lost.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::arguments::Arguments;
use crate::client::Stream;
use crate::line::{Line, Unit, ratio};
use crate::times::Times;
use crate::workspace::Workspace;

/// How often each place is measured.
const TRIES: usize = 50;

/// How often the whole run is read.
const WHOLE: usize = 3;

/// How far before the end of the run a client is that comes back near it.
const BEFORE_END: u64 = 10;

/// The most until the first event, in milliseconds.
const FIRST: f64 = 20.0;

/// What a client has read of a run, from when it began to connect.
struct Reading {
    /// Until the first record.
    first: Duration,
    /// Until the last one.
    last: Duration,
    /// How many there were.
    records: u64,
    /// The id of the last one.
    id: u64,
}

/// Measures the row.
///
/// # Errors
/// The run could not be made, or not be read.
pub(crate) async fn measure(arguments: &Arguments) -> anyhow::Result<Vec<Line>> {
    let workspace = Workspace::with_steps(&arguments.dalsegno, arguments.steps)?;
    let server = workspace.serve()?;
    let key = workspace.key()?;
    let (run, steps) = workspace.walk(server.address).await?;
    let mut whole = Times::default();
    let (mut end, mut records) = (0, 0);
    for _ in 0..WHOLE {
        let reading = read(server.address, &run, key, None, u64::MAX).await?;
        whole.add(reading.last);
        (end, records) = (reading.id, reading.records);
    }
    let near = end.saturating_sub(BEFORE_END);
    let mut lines = Vec::new();
    for (what, after) in [
        (format!("back near the end of {steps} steps, first event, p99"), Some(near)),
        ("  in the middle, first event, p99".to_owned(), Some(end / 2)),
        ("  at the beginning, first event, p99".to_owned(), None),
    ] {
        let mut times = Times::default();
        for _ in 0..TRIES {
            times.add(read(server.address, &run, key, after, 1).await?.first);
        }
        let note = format!("p50 {}", Unit::Millis.show(times.p50()));
        lines.push(Line::at_most(what, times.p99(), FIRST, Unit::Millis).noted(note));
    }
    let mut times = Times::default();
    for _ in 0..TRIES {
        times.add(read(server.address, &run, key, Some(near), u64::MAX).await?.last);
    }
    lines.push(
        Line::told("  near the end, last event, p50", times.p50(), Unit::Millis)
            .noted(format!("{BEFORE_END} records")),
    );
    let rate = ratio(records as f64, whole.p50() / 1e3);
    lines.push(
        Line::told("  from the beginning, last event, p50", whole.p50(), Unit::Millis)
            .noted(format!("{records} records, {}", Unit::ASecond.show(rate))),
    );
    Ok(lines)
}

/// Connects and reads a run after the record with this number, up to its end or to so many records.
async fn read(
    address: SocketAddr,
    run: &str,
    key: &str,
    after: Option<u64>,
    most: u64,
) -> anyhow::Result<Reading> {
    let begun = Instant::now();
    let mut stream = Stream::open(address, run, key, after).await?.context("nothing is left of the run")?;
    let mut reading = None;
    while reading.as_ref().is_none_or(|reading: &Reading| reading.records < most) {
        let event = stream.next().await?.context("a stream was cut")?;
        match event.name.as_str() {
            "record" => {
                let (id, took) = (event.id.context("a record has no id")?, event.at.duration_since(begun));
                let reading = reading.get_or_insert(Reading { first: took, last: took, records: 0, id });
                (reading.last, reading.id) = (took, id);
                reading.records += 1;
            }
            "end" => break,
            _ => bail!("a stream has a `{}`: {}", event.name, event.data),
        }
    }
    reading.context("a stream had no record")
}
