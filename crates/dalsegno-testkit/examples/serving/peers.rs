//! Servers of others, asked for the same by the same clients: starts, whole runs, reads, and events of a run that is performed.
//!
//! What they promise differs. `langgraph dev` keeps all in memory, and looks for new runs every half second once it has none. aegra
//! answers a start when PostgreSQL has the run; while a run is performed, LangGraph writes its state beside the next node, so that
//! an event may arrive before what it tells is on the disk. Here it arrives after that.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::arguments::Arguments;
use crate::client::{Connection, Sent, Stream, TEXT, ask, complete, get, load, post, start, start_and_wait};
use crate::line::{Line, Unit, ratio};
use crate::peer::Peer;
use crate::rings::Rings;
use crate::stream::{WARM, follow};
use crate::times::Times;
use crate::workspace::{CALLS, Workspace};

/// Requests of each kind that are not measured.
const WARMING: usize = 3;

/// Starts and reads over one connection.
const STARTS: usize = 200;

/// Runs over one connection that are waited for. `langgraph dev` takes a second for each.
const RUNS: usize = 30;

/// Reads of the state of a run. They are slow where there are many runs.
const STATES: usize = 50;

/// How many requests there are for each run that is started over all connections, as in `start`.
const PART: usize = 20;

/// How long a server has until all runs have ended, and how often it is asked.
const PATIENCE: Duration = Duration::from_mins(5);
const LOOK: Duration = Duration::from_millis(200);

/// How often a history of Temporal is read.
const WHOLE: usize = 20;

/// The most events that a history of Temporal may have, with some to spare.
const HISTORY: usize = 50_000;

/// Jobs at once of `langgraph dev`: as many as its help names as usual.
const JOBS: usize = 10;

/// No server of others asks for a key here.
const KEY: &str = "none";

/// Measures the row. A server that cannot be measured is a line that says why.
///
/// # Errors
/// No folder of packages is named.
pub(crate) async fn measure(arguments: &Arguments) -> anyhow::Result<Vec<Line>> {
    let packages = arguments.peers.as_deref().context("`--peers` names no folder of packages")?;
    let langgraph = "`langgraph dev`, in memory and not durable";
    let all = [
        ("dalsegno", ours(arguments).await),
        (langgraph, theirs(langgraph, packages, "peer_langgraph.py", &[JOBS.to_string()], arguments).await),
        ("aegra, PostgreSQL", theirs("aegra, PostgreSQL", packages, "peer_aegra.py", &[], arguments).await),
        ("Temporal", temporal(packages, arguments).await),
    ];
    let lines = all.into_iter().flat_map(|(name, measured)| {
        measured.unwrap_or_else(|error| vec![Line::unknown(name, format!("{error:#}"))])
    });
    Ok(lines.collect())
}

/// Makes requests for so many runs. Where there are fewer, they may be sent again.
type Requests<'a> = &'a dyn Fn(usize) -> anyhow::Result<Vec<Sent>>;

/// How a server is asked for runs of one step.
struct Asked<'a> {
    address: SocketAddr,
    /// The status of the answer to a start.
    started: StatusCode,
    /// Starts runs.
    starts: Requests<'a>,
    /// The same, answered when the run has ended.
    runs: Requests<'a>,
    /// Asks which runs have not ended.
    busy: Sent,
}

/// The same of `dalsegno serve`, with a tool that rings for the stream.
async fn ours(arguments: &Arguments) -> anyhow::Result<Vec<Line>> {
    let rings = Rings::start().await?;
    let workspace = Workspace::with_rings(&arguments.dalsegno, rings.address)?;
    let server = workspace.serve()?;
    let keys = workspace.keys.as_slice();
    let starts = |_: usize| keys.iter().map(|key| start("echo", key)).collect::<anyhow::Result<Vec<_>>>();
    let runs =
        |_: usize| keys.iter().map(|key| start_and_wait("echo", key)).collect::<anyhow::Result<Vec<_>>>();
    let asked = Asked {
        address: server.address,
        started: StatusCode::CREATED,
        starts: &starts,
        runs: &runs,
        busy: get("/v1/runs?status=running&limit=1", workspace.key()?)?,
    };
    let mut lines = perform(&format!("dalsegno {}", env!("CARGO_PKG_VERSION")), &asked, arguments).await?;
    let run = complete(server.address, workspace.key()?, "echo").await?;
    let path = format!("/v1/runs/{run}");
    let requests = keys.iter().map(|key| get(&path, key)).collect::<anyhow::Result<Vec<_>>>()?;
    lines.extend(reads(server.address, &requests, arguments).await?);
    let followed = follow(&rings, &workspace, server.address, server.address).await?;
    lines.push(late("  from a tool's answer to the client, p99", &followed.answered));
    lines.push(memory(server.memory()?));
    Ok(lines)
}

/// The same of a server with the API of LangGraph.
async fn theirs(
    name: &str,
    packages: &Path,
    program: &str,
    words: &[String],
    arguments: &Arguments,
) -> anyhow::Result<Vec<Line>> {
    let peer = Peer::start(packages, program, words)?;
    let address = peer.address;
    let body = body("echo", &json!({ "text": TEXT }));
    // Each has a thread of its own: the runs of a thread are performed one after the other.
    let request = |what: &str| post(&format!("/threads/{}/runs{what}", Uuid::new_v4()), KEY, &body);
    let requests = |what: &str, number: usize| {
        std::iter::repeat_with(|| request(what)).take(number).collect::<anyhow::Result<Vec<_>>>()
    };
    let starts = |number: usize| requests("", number);
    let runs = |number: usize| requests("/wait", number);
    let asked = Asked {
        address,
        started: StatusCode::OK,
        starts: &starts,
        runs: &runs,
        busy: post("/threads/search", KEY, &json!({ "status": "busy", "limit": 1 }))?,
    };
    let mut lines = perform(&format!("{name}, {}", peer.version()), &asked, arguments).await?;
    let run = ask(address, request("")?, StatusCode::OK).await?;
    let (run, of) = (run["run_id"].as_str(), run["thread_id"].as_str());
    let (run, of) = run.zip(of).context("the answer names no run")?;
    settle(&asked).await?;
    let path = format!("/threads/{of}/runs/{run}");
    lines.extend(reads(address, &[get(&path, KEY)?], arguments).await?);
    let state = [get(&format!("/threads/{of}/state"), KEY)?];
    let (states, _) = load(address, &state, StatusCode::OK, 1, STATES).await?;
    lines.push(
        Line::told("  read of its state, one connection, p99", states.p99(), Unit::Millis)
            .noted(format!("p50 {}", Unit::Millis.show(states.p50()))),
    );
    lines.push(late("  from a node's answer to the client, p99", &updates(address).await?));
    lines.push(memory(peer.memory()?));
    Ok(lines)
}

/// How many runs are started over all connections.
fn number(arguments: &Arguments) -> usize {
    (arguments.requests / PART).max(arguments.connections)
}

/// Starts runs and waits for runs: over one connection, and over all.
async fn perform(name: &str, asked: &Asked<'_>, arguments: &Arguments) -> anyhow::Result<Vec<Line>> {
    let Asked { address, started, starts, runs, .. } = asked;
    let (connections, number) = (arguments.connections, number(arguments));
    let all = format!("{connections} connections");
    let mut lines = Vec::new();
    for (requests, one, each, rate) in [
        (starts, STARTS, format!("{name}: a start, p99"), format!("  starts a second, {all}")),
        (runs, RUNS, "  a run from its start to its end, p99".to_owned(), format!("  runs a second, {all}")),
    ] {
        // The first ones load what is loaded once.
        load(*address, &requests(WARMING)?, *started, 1, WARMING).await?;
        settle(asked).await?;
        let (times, _) = load(*address, &requests(one)?, *started, 1, one).await?;
        lines.push(
            Line::told(each, times.p99(), Unit::Millis)
                .noted(format!("p50 {}, {one} over one connection", Unit::Millis.show(times.p50()))),
        );
        settle(asked).await?;
        let (times, took) = load(*address, &requests(number)?, *started, connections, number).await?;
        settle(asked).await?;
        lines.push(
            Line::told(rate, ratio(times.count() as f64, took.as_secs_f64()), Unit::ASecond).noted(format!(
                "{}; {} in all",
                spread(&times),
                times.count()
            )),
        );
    }
    Ok(lines)
}

/// Waits until no run is performed.
async fn settle(asked: &Asked<'_>) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let listed = ask(asked.address, asked.busy.clone(), StatusCode::OK).await?;
        let listed = listed.get("items").unwrap_or(&listed);
        if listed.as_array().context("a listing is no list")?.is_empty() {
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "runs do not end within {} s", PATIENCE.as_secs());
        tokio::time::sleep(LOOK).await;
    }
}

/// Reads a run: over one connection, and over all.
async fn reads(address: SocketAddr, requests: &[Sent], arguments: &Arguments) -> anyhow::Result<Vec<Line>> {
    let (connections, number) = (arguments.connections, number(arguments));
    load(address, requests, StatusCode::OK, connections, connections).await?;
    let (alone, _) = load(address, requests, StatusCode::OK, 1, STARTS).await?;
    let (times, took) = load(address, requests, StatusCode::OK, connections, number).await?;
    Ok(vec![
        Line::told("  read of a run, one connection, p99", alone.p99(), Unit::Millis)
            .noted(format!("p50 {}", Unit::Millis.show(alone.p50()))),
        Line::told(
            format!("  reads a second, {connections} connections"),
            ratio(times.count() as f64, took.as_secs_f64()),
            Unit::ASecond,
        )
        .noted(spread(&times)),
    ])
}

/// Follows a run whose node tells when it answered; how late each answer came.
async fn updates(address: SocketAddr) -> anyhow::Result<Times> {
    let mut body = body("ringer", &json!({ "left": CALLS }));
    body["stream_mode"] = json!(["updates"]);
    body["config"] = json!({ "recursion_limit": 2 * CALLS });
    let request = post(&format!("/threads/{}/runs/stream", Uuid::new_v4()), KEY, &body)?;
    let mut stream = Stream::answer(address, request).await?.context("the answer is no stream")?;
    // The node knows the time of day, an event how long this process has run.
    let (clock, day) = (Instant::now(), SystemTime::now());
    let (mut times, mut seen) = (Times::default(), 0);
    while let Some(event) = stream.next().await? {
        match event.name.as_str() {
            "updates" => {}
            "error" => bail!("a stream ends with {}", event.data),
            _ => continue,
        }
        let update: Value = serde_json::from_str(&event.data)?;
        let at = update["ring"]["at"].as_str().and_then(|at| at.parse::<u64>().ok());
        let at = Duration::from_nanos(at.context("an event does not tell when the node answered")?);
        seen += 1;
        if seen > WARM {
            let came = day + event.at.saturating_duration_since(clock);
            times.add(came.duration_since(UNIX_EPOCH + at).unwrap_or_default());
        }
    }
    ensure!(seen == CALLS, "a stream had {seen} answers, not {CALLS}");
    Ok(times)
}

/// Reads a long history of Temporal's development server, page by page, as its own pages do.
async fn temporal(packages: &Path, arguments: &Arguments) -> anyhow::Result<Vec<Line>> {
    let events = arguments.steps.min(HISTORY);
    let peer = Peer::start(packages, "peer_temporal.py", &[events.to_string()])?;
    let path = peer.told["path"].as_str().context("the program of Temporal names no history")?;
    let events = peer.told["events"].as_u64().context("the program of Temporal names no number of events")?;
    let (mut first, mut last) = (Times::default(), Times::default());
    let (mut pages, mut ids) = (0, BTreeSet::new());
    for _ in 0..WHOLE {
        (pages, ids) = (0, BTreeSet::new());
        let begun = Instant::now();
        let mut connection = Connection::open(peer.address).await?;
        let mut next = Some(path.to_owned());
        while let Some(address) = next {
            let page: Page =
                serde_json::from_slice(&connection.ask(get(&address, KEY)?, StatusCode::OK).await?)?;
            pages += 1;
            if pages == 1 {
                first.add(begun.elapsed());
            }
            ids.extend(page.history.events.into_iter().map(|event| event.event_id));
            let token = page.next_page_token.filter(|token| !token.is_empty());
            next = token.map(|token| {
                let token = token.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
                format!("{path}?nextPageToken={token}")
            });
        }
        last.add(begun.elapsed());
    }
    ensure!(ids.len() as u64 == events, "the pages have {} events, not {events}", ids.len());
    let rate = ratio(events as f64, last.p50() / 1e3);
    Ok(vec![
        Line::told(
            format!("Temporal's development server, {}: a history, last event, p50", peer.version()),
            last.p50(),
            Unit::Millis,
        )
        .noted(format!("{events} events in {pages} pages, {}", Unit::ASecond.show(rate))),
        Line::told("  its first page, p99", first.p99(), Unit::Millis)
            .noted(format!("p50 {}", Unit::Millis.show(first.p50()))),
        memory(peer.memory()?),
    ])
}

/// A page of a history; what else it has is not looked at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    /// Where the next page begins, in base64; none in the last page.
    next_page_token: Option<String>,
    history: History,
}

#[derive(Deserialize)]
struct History {
    events: Vec<HistoryEvent>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HistoryEvent {
    event_id: String,
}

/// What a run of a graph begins with. Its thread is made with it.
fn body(graph: &str, input: &Value) -> Value {
    json!({ "assistant_id": graph, "input": input, "if_not_exists": "create" })
}

/// How late answers came.
fn late(what: &str, times: &Times) -> Line {
    Line::told(what, times.p99(), Unit::Millis).noted(format!(
        "p50 {}, {} answers",
        Unit::Millis.show(times.p50()),
        times.count()
    ))
}

fn memory(bytes: u64) -> Line {
    Line::told("  memory afterwards", bytes as f64 / 1_048_576.0, Unit::Mebibytes)
}

fn spread(times: &Times) -> String {
    format!("p50 {}, p99 {}", Unit::Millis.show(times.p50()), Unit::Millis.show(times.p99()))
}
