//! Many streams of runs that wait, and nothing happens: what they take of memory and of the processor.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::ensure;
use futures::future::try_join_all;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::arguments::Arguments;
use crate::client::{complete, events, socket};
use crate::line::{Line, Unit, ratio};
use crate::process::{Running, files};
use crate::workspace::Workspace;

/// The runs that the streams are of, which take turns.
const RUNS: usize = 1_000;

/// Streams that are opened at once.
const AT_ONCE: usize = 64;

/// Streams that are opened and closed before the memory is read first: so few that what they leave behind is none of the others.
const WARM: usize = 10;

/// The few streams with which the many are compared.
const FEW: usize = 1_000;

/// Files that a process needs besides its connections.
const SPARE: usize = 500;

/// How long the server has after streams were opened.
const SETTLES: Duration = Duration::from_secs(3);

/// How long the processor is watched: without streams, and with them. A stream shows every 15 seconds that it lives.
const BEFORE: Duration = Duration::from_secs(10);
const WATCHED: Duration = Duration::from_secs(30);

/// Measures the row.
///
/// # Errors
/// A stream could not be opened, or the system does not tell what a process takes.
pub(crate) async fn measure(arguments: &Arguments) -> anyhow::Result<Vec<Line>> {
    let allowed = files();
    let most = arguments.streams.min(allowed.saturating_sub(SPARE));
    ensure!(most > 0, "the system allows only {allowed} open files");
    let workspace = Workspace::new(&arguments.dalsegno)?;
    let server = workspace.serve()?;
    let key = workspace.key()?;
    let mut runs = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        runs.push(complete(server.address, key, "asker").await?);
    }
    // What is there once for all streams is not counted.
    drop(open(server.address, key, &runs, 0..WARM.min(most)).await?);
    tokio::time::sleep(SETTLES).await;
    let (memory, idle) = (server.memory()?, processor(&server, BEFORE).await?);
    let mut lines = vec![
        Line::told("memory without streams", memory as f64 / 1_048_576.0, Unit::Mebibytes),
        Line::told("  of a core", idle, Unit::Percent),
    ];
    let mut streams: Vec<TcpStream> = Vec::with_capacity(most);
    for number in BTreeSet::from([FEW.min(most), most]) {
        let more = open(server.address, key, &runs, streams.len()..number).await?;
        streams.extend(more);
        tokio::time::sleep(SETTLES).await;
        let now = server.memory()?;
        let each = now.saturating_sub(memory) as f64 / 1_024.0 / number as f64;
        let what = format!("{number} idle streams, memory of each");
        let mut note = format!("{} in all", Unit::Mebibytes.show(now as f64 / 1_048_576.0));
        if number < most {
            lines.push(Line::told(what, each, Unit::Kibibytes).noted(note));
            continue;
        }
        if most < arguments.streams {
            note = format!("{note}; no more, since the system allows {allowed} open files");
        }
        lines.push(Line::at_most(what, each, 20.0, Unit::Kibibytes).noted(note));
    }
    // What the streams began with is no sign of life.
    drain(&streams);
    let busy = processor(&server, WATCHED).await?;
    let Drained { closed, silent } = drain(&streams);
    lines.push(Line::at_most("  of a core", busy, 2.0, Unit::Percent));
    lines.push(Line::at_most("  closed by the server", closed as f64, 0.0, Unit::Whole));
    let what = format!("  without a sign of life in {} s", WATCHED.as_secs());
    lines.push(Line::at_most(what, silent as f64, 0.0, Unit::Whole));
    Ok(lines)
}

/// What a process uses of a core meanwhile, in parts of a hundred.
async fn processor(server: &Running, watched: Duration) -> anyhow::Result<f64> {
    let (before, begun) = (server.processor()?, Instant::now());
    tokio::time::sleep(watched).await;
    let used = server.processor()?.saturating_sub(before);
    Ok(100.0 * ratio(used.as_secs_f64(), begun.elapsed().as_secs_f64()))
}

/// Opens the streams with these numbers, which take turns with the runs.
async fn open(
    address: SocketAddr,
    key: &str,
    runs: &[String],
    numbers: Range<usize>,
) -> anyhow::Result<Vec<TcpStream>> {
    let mut streams = Vec::with_capacity(numbers.len());
    for first in numbers.clone().step_by(AT_ONCE) {
        let numbers = first..numbers.end.min(first + AT_ONCE);
        let opened = numbers.map(|number| follow(address, key, &runs[number % runs.len()]));
        streams.extend(try_join_all(opened).await?);
    }
    Ok(streams)
}

/// Opens the stream of a run, and reads the head of the answer.
async fn follow(address: SocketAddr, key: &str, run: &str) -> anyhow::Result<TcpStream> {
    let mut stream = socket(address, &events(run), key, "text/event-stream", None).await?;
    let mut read = Vec::new();
    while !read.windows(4).any(|four| four == b"\r\n\r\n") {
        ensure!(stream.read_buf(&mut read).await? > 0, "the server closed a stream before it answered");
    }
    let head = String::from_utf8_lossy(&read);
    ensure!(head.starts_with("HTTP/1.1 200 "), "a stream is refused: {}", head.replace("\r\n", "; "));
    Ok(stream)
}

/// What became of streams since they were read last.
struct Drained {
    closed: usize,
    /// Those on which nothing came.
    silent: usize,
}

/// Reads what has come on streams.
fn drain(streams: &[TcpStream]) -> Drained {
    let mut drained = Drained { closed: 0, silent: 0 };
    let mut bytes = [0; 4_096];
    for stream in streams {
        let mut came = 0;
        loop {
            match stream.try_read(&mut bytes) {
                Ok(read) if read > 0 => came += read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Ok(_) | Err(_) => {
                    drained.closed += 1;
                    break;
                }
            }
        }
        drained.silent += usize::from(came == 0);
    }
    drained
}
