//! Clients that read a byte a second, and a quick one beside them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use hyper::StatusCode;
use tokio::io::AsyncReadExt as _;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::arguments::Arguments;
use crate::client::{Connection, Sent, complete, events, get, socket};
use crate::line::{Line, Unit, ratio};
use crate::process::Running;
use crate::times::Times;
use crate::workspace::Workspace;

/// The slow clients.
const CLIENTS: u32 = 100;

/// The steps of the run that they read.
const STEPS: usize = 2_000;

/// How long the quick client is watched each time. It is longer than the server waits for a client that takes nothing.
const WATCHED: Duration = Duration::from_secs(40);

/// From one request of the quick client to the next.
const PACE: Duration = Duration::from_millis(4);

/// What the system keeps for a slow client that it has not read yet, about, in bytes.
const BUFFER: u32 = 4_096;

/// From one byte that a slow client reads to the next, and from one look at the memory of the server to the next.
const SECOND: Duration = Duration::from_secs(1);

/// What slow clients did to a server.
struct Beside {
    /// The quick client.
    quick: Times,
    /// The memory of the server, every second, in bytes.
    memory: Vec<u64>,
    /// Connections that the server has cut.
    cut: usize,
}

/// Measures the row.
///
/// # Errors
/// A client could not connect, or a request was not answered.
pub(crate) async fn measure(arguments: &Arguments) -> anyhow::Result<Vec<Line>> {
    let workspace = Workspace::with_steps(&arguments.dalsegno, STEPS)?;
    let server = workspace.serve()?;
    let key = workspace.key()?;
    let (long, _) = workspace.walk(server.address).await?;
    let short = complete(server.address, key, "echo").await?;
    let request = get(&format!("/v1/runs/{short}"), key)?;
    let page = format!("{}?limit=200", events(&long));
    let bytes = Connection::open(server.address).await?.ask(get(&page, key)?, StatusCode::OK).await?.len();
    let mut alone = tokio::spawn(quick(server.address, request.clone())).await??;
    let memory = server.memory()?;
    let pages = beside(&server, &request, &page, "application/json", key).await?;
    let streams = beside(&server, &request, &events(&long), "text/event-stream", key).await?;
    alone.extend(&tokio::spawn(quick(server.address, request)).await??);
    let note = format!("p50 {}, {} requests", Unit::Millis.show(alone.p50()), alone.count());
    let first =
        Line::told("a quick client alone, `GET` of a run, p99", alone.p99(), Unit::Millis).noted(note);
    let mut lines = vec![first];
    let kibibytes = format!("a page of {}", Unit::Kibibytes.show(bytes as f64 / 1_024.0));
    for (what, beside) in [(kibibytes.as_str(), pages), ("the stream of a long run", streams)] {
        let Beside { quick, memory: samples, cut } = beside;
        let peak = samples.iter().copied().max().unwrap_or(memory);
        let each = peak.saturating_sub(memory) as f64 / 1_024.0 / f64::from(CLIENTS);
        lines.extend([
            Line::at_most(
                format!("beside {CLIENTS} that read {what} by bytes, its p99"),
                ratio(quick.p99(), alone.p99()),
                1.1,
                Unit::Times,
            )
            .noted(Unit::Millis.show(quick.p99())),
            Line::told("  memory of each of them", each, Unit::Kibibytes)
                .noted(format!("{cut} were cut off in {} s, and came back", WATCHED.as_secs())),
            Line::at_most("  memory of the server, late beside early", growth(&samples), 1.1, Unit::Times)
                .noted(Unit::Mebibytes.show(peak as f64 / 1_048_576.0)),
        ]);
    }
    Ok(lines)
}

/// The most memory in the last quarter beside the most in the second. The first is left out: there all of them begin.
fn growth(samples: &[u64]) -> f64 {
    let quarter = samples.len() / 4;
    let most = |part: Option<&[u64]>| part.and_then(|part| part.iter().copied().max()).unwrap_or(0) as f64;
    ratio(most(samples.get(3 * quarter..)), most(samples.get(quarter..2 * quarter)))
}

/// Has slow clients read something, and a quick client something else beside them.
async fn beside(
    server: &Running,
    request: &Sent,
    path: &str,
    accept: &'static str,
    key: &str,
) -> anyhow::Result<Beside> {
    let cut = Arc::new(AtomicUsize::new(0));
    let mut slow = JoinSet::new();
    for number in 0..CLIENTS {
        let (path, key, cut) = (path.to_owned(), key.to_owned(), Arc::clone(&cut));
        let address = server.address;
        slow.spawn(async move {
            // Spread over the second: a hundred that read in the same moment would hold up the quick one themselves.
            tokio::time::sleep(SECOND * number / CLIENTS).await;
            read_slowly(address, path, key, accept, cut).await
        });
    }
    // All of them have their first byte by then.
    tokio::time::sleep(2 * SECOND).await;
    let watching = tokio::spawn(quick(server.address, request.clone()));
    let mut memory = Vec::new();
    while !watching.is_finished() {
        memory.push(server.memory()?);
        tokio::time::sleep(SECOND).await;
    }
    let quick = watching.await??;
    if let Some(ended) = slow.try_join_next() {
        bail!("a slow client cannot connect: {:#}", ended?);
    }
    Ok(Beside { quick, memory, cut: cut.load(Ordering::Relaxed) })
}

/// Reads a byte a second, and begins anew when the server closes the connection. Returns why it cannot.
async fn read_slowly(
    address: SocketAddr,
    path: String,
    key: String,
    accept: &'static str,
    cut: Arc<AtomicUsize>,
) -> anyhow::Error {
    loop {
        let mut stream = match socket(address, &path, &key, accept, Some(BUFFER)).await {
            Ok(stream) => stream,
            Err(error) => return error,
        };
        let mut byte = [0];
        // A connection that was cut ends in an error as well.
        while matches!(stream.read(&mut byte).await, Ok(1)) {
            tokio::time::sleep(SECOND).await;
        }
        cut.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads a run at an even pace; how long each answer took.
async fn quick(address: SocketAddr, request: Sent) -> anyhow::Result<Times> {
    let mut connection = Connection::open(address).await?;
    let mut ticks = tokio::time::interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut times = Times::default();
    let begun = Instant::now();
    while begun.elapsed() < WATCHED {
        ticks.tick().await;
        let sent = Instant::now();
        connection.ask(request.clone(), StatusCode::OK).await?;
        times.add(sent.elapsed());
    }
    Ok(times)
}
