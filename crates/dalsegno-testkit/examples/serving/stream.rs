//! Follows runs while they are performed: how long it takes until the client has a record.
//!
//! The tool of the run asks this program, which knows when it answered. Its answer is committed after that and before the next call,
//! so that the time from the commit to the client lies between two times that are measured here: from the answer, which includes the
//! commit, and from the next call.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use anyhow::Context as _;

use crate::arguments::Arguments;
use crate::client::{Stream, begin};
use crate::line::{Line, Unit};
use crate::rings::{Rings, answer_in};
use crate::times::Times;
use crate::workspace::{CALLS, Workspace};

/// The calls at the beginning of a run that are not measured: the stream is opened meanwhile.
pub(crate) const WARM: u64 = 40;

/// The most between a record and the client, in milliseconds: in the process that performs the run, and in another.
const HERE: f64 = 5.0;
const ELSEWHERE: f64 = 150.0;

/// Measures the row.
///
/// # Errors
/// A run could not be followed.
pub(crate) async fn measure(arguments: &Arguments) -> anyhow::Result<Vec<Line>> {
    let rings = Rings::start().await?;
    let workspace = Workspace::with_rings(&arguments.dalsegno, rings.address)?;
    let floor = workspace.floor()?;
    let server = workspace.serve()?;
    let here = follow(&rings, &workspace, server.address, server.address).await?;
    let other = workspace.serve()?;
    let elsewhere = follow(&rings, &workspace, other.address, server.address).await?;
    let mut lines = Vec::new();
    for (what, followed, most) in [
        ("from a tool's answer to the client, p99, in F + 5 ms", here, HERE),
        ("from a tool's answer in another process, p99, in F + 150 ms", elsewhere, ELSEWHERE),
    ] {
        let Followed { answered, committed } = followed;
        let note = format!("p50 {}, F {}", Unit::Millis.show(answered.p50()), Unit::Millis.show(floor));
        lines.push(Line::at_most(what, answered.p99(), floor + most, Unit::Millis).noted(note));
        lines.push(
            Line::told("  from the next call, which follows the commit, p99", committed.p99(), Unit::Millis)
                .noted(format!("p50 {}", Unit::Millis.show(committed.p50()))),
        );
    }
    Ok(lines)
}

/// How late a client was.
pub(crate) struct Followed {
    /// From the answer of the tool to its event.
    pub(crate) answered: Times,
    /// From the next call to that event; nothing where the event came first.
    committed: Times,
}

/// Starts a run at a server, and follows it at one.
///
/// # Errors
/// The run could not be started or followed, or an event is missing.
pub(crate) async fn follow(
    rings: &Rings,
    workspace: &Workspace,
    performs: SocketAddr,
    streams: SocketAddr,
) -> anyhow::Result<Followed> {
    rings.take();
    let key = workspace.key()?;
    let run = begin(performs, key, "ringer").await?;
    let stream =
        Stream::open(streams, &run, key, None).await?.context("a run ended before it was followed")?;
    let seen = tokio::spawn(answers(stream)).await??;
    let calls = rings.take();
    let mut followed = Followed { answered: Times::default(), committed: Times::default() };
    for number in WARM..CALLS {
        let event =
            *seen.get(&number).with_context(|| format!("no event has the answer to call {number}"))?;
        let call = calls.get(&number).with_context(|| format!("the tool was not called for {number}"))?;
        followed.answered.add(event.saturating_duration_since(call.answered));
        if let Some(next) = calls.get(&(number + 1)) {
            followed.committed.add(event.saturating_duration_since(next.asked));
        }
    }
    Ok(followed)
}

/// When the answer to each call arrived.
async fn answers(mut stream: Stream) -> anyhow::Result<BTreeMap<u64, Instant>> {
    let mut seen = BTreeMap::new();
    while let Some(event) = stream.next().await? {
        if event.name == "end" {
            break;
        }
        if let Some(number) = answer_in(&event.data) {
            seen.entry(number).or_insert(event.at);
        }
    }
    Ok(seen)
}
