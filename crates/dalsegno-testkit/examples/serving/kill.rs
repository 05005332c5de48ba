//! Kills the server while a client follows a run, again and again: what the client has seen is compared with the journal.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use hyper::StatusCode;
use serde_json::Value;

use crate::arguments::Arguments;
use crate::client::{Connection, Stream, begin, get};
use crate::line::{Line, Unit};
use crate::rings::Rings;
use crate::times::Times;
use crate::workspace::Workspace;

/// The numbers of further records after which the server is killed are drawn from this seed.
const SEED: u64 = 1;

/// The fewest and the most records that a client sees between two kills.
const RECORDS: std::ops::RangeInclusive<usize> = 4..=20;

/// How long is waited until a server is ready.
const PATIENCE: Duration = Duration::from_secs(30);

/// From one question whether the server is ready to the next.
const LOOK: Duration = Duration::from_millis(5);

/// What a client has seen of a run: the ids of the records, and their events.
type Seen = Vec<(u64, Value)>;

/// What was found.
#[derive(Default)]
struct Found {
    kills: usize,
    records: usize,
    /// Records that the client has not seen.
    missed: usize,
    /// Records that it has seen again.
    twice: usize,
    /// Records that the journal has otherwise.
    different: usize,
    /// From a kill until the next process was ready.
    ready: Times,
}

/// Why a client reads no further.
enum Stop {
    /// The run has ended.
    Ended,
    /// It has seen as many records as it was to see.
    Enough,
    /// The connection is lost.
    Cut,
}

/// Measures the row.
///
/// # Errors
/// A run could not be started, a server did not come back, or a stream was cut without a kill.
pub(crate) async fn measure(arguments: &Arguments) -> anyhow::Result<Vec<Line>> {
    let rings = Rings::start().await?;
    let workspace = Workspace::with_rings(&arguments.dalsegno, rings.address)?;
    let mut server = workspace.serve()?;
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut found = Found::default();
    let key = workspace.key()?;
    while found.kills < arguments.kills {
        let run = begin(server.address, key, "ringer").await?;
        let mut seen = Seen::new();
        loop {
            let last = seen.last().map(|(id, _)| *id);
            let Some(mut stream) = Stream::open(server.address, &run, key, last).await? else { break };
            let enough = match found.kills < arguments.kills {
                true => seen.len() + random.usize(RECORDS),
                false => usize::MAX,
            };
            match follow(&mut stream, &mut seen, enough).await? {
                Stop::Ended => break,
                Stop::Cut => bail!("a stream was cut, and the server was not killed"),
                Stop::Enough => {}
            }
            let begun = Instant::now();
            server.kill()?;
            found.kills += 1;
            server = workspace.serve()?;
            ready(server.address, key, begun).await?;
            found.ready.add(begun.elapsed());
            // What was under way to the client has come all the same.
            if let Stop::Ended = follow(&mut stream, &mut seen, usize::MAX).await? {
                break;
            }
        }
        let shown = workspace.json(&["show", &run])?;
        found.compare(&seen, shown["events"].as_array().context("`dalsegno show` has no events")?);
    }
    let Found { kills, records, missed, twice, different, ready } = found;
    Ok(vec![
        Line::at_most(
            format!("{kills} kills while a client follows, until the server is ready, the longest"),
            ready.longest() / 1e3,
            1.0,
            Unit::Seconds,
        )
        .noted(format!("p50 {}", Unit::Seconds.show(ready.p50() / 1e3))),
        Line::at_most("  records that the client has not seen", missed as f64, 0.0, Unit::Whole)
            .noted(format!("of {records}")),
        Line::at_most("  records that it has seen twice", twice as f64, 0.0, Unit::Whole),
        Line::at_most("  events that differ from the journal", different as f64, 0.0, Unit::Whole),
    ])
}

/// Reads events until there are so many records, or no further ones.
async fn follow(stream: &mut Stream, seen: &mut Seen, enough: usize) -> anyhow::Result<Stop> {
    while seen.len() < enough {
        // A connection to a process that was killed ends in an error as well.
        let Ok(Some(event)) = stream.next().await else { return Ok(Stop::Cut) };
        match event.name.as_str() {
            "record" => {
                seen.push((event.id.context("a record has no id")?, serde_json::from_str(&event.data)?));
            }
            "end" => return Ok(Stop::Ended),
            "error" => bail!("a stream ends with {}", event.data),
            _ => {}
        }
    }
    Ok(Stop::Enough)
}

/// Waits until a server says that it is ready.
async fn ready(address: SocketAddr, key: &str, begun: Instant) -> anyhow::Result<()> {
    loop {
        let asked = async {
            Connection::open(address).await?.ask(get("/readyz", key)?, StatusCode::OK).await?;
            anyhow::Ok(())
        };
        match asked.await {
            Ok(()) => return Ok(()),
            Err(error) => ensure!(begun.elapsed() < PATIENCE, "a server does not get ready: {error:#}"),
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl Found {
    /// Compares what a client has seen of a run with its journal.
    fn compare(&mut self, seen: &[(u64, Value)], journal: &[Value]) {
        let ids: BTreeSet<u64> = seen.iter().map(|(id, _)| *id).collect();
        let of = |id: u64| usize::try_from(id).ok().and_then(|id| journal.get(id));
        self.records += journal.len();
        self.missed += (0_u64..).zip(journal).filter(|(id, _)| !ids.contains(id)).count();
        self.twice += seen.len() - ids.len();
        self.different += seen.iter().filter(|(id, event)| of(*id) != Some(event)).count();
    }
}
