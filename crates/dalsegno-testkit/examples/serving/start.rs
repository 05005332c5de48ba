//! Starts runs of a plan of one step, beside the engine without a server on the same disk.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use dalsegno_core::{AgentName, AgentRequest};
use dalsegno_runtime::{Engine, StartOptions};
use hyper::StatusCode;
use tokio::task::JoinSet;

use crate::arguments::Arguments;
use crate::client::{load, start};
use crate::line::{Line, Unit, ratio};
use crate::times::Times;
use crate::workspace::Workspace;

/// The rounds in which both are measured, one after the other. One more before them warms both.
const ROUNDS: usize = 10;

/// How many requests of `read` there are for each run that is started: a run waits for the disk.
const PART: usize = 20;

/// After a round, its runs end before the next one begins.
const QUIET: Duration = Duration::from_millis(250);

/// Measures the row.
///
/// # Errors
/// A run could not be started.
pub(crate) async fn measure(arguments: &Arguments) -> anyhow::Result<Vec<Line>> {
    let (workspace, other) = (Workspace::new(&arguments.dalsegno)?, Workspace::new(&arguments.dalsegno)?);
    let floor = workspace.floor()?;
    let server = workspace.serve()?;
    let engine = Engine::open(other.path()).await.context("the engine does not open the workspace")?;
    let requests = workspace.keys.iter().map(|key| start("echo", key)).collect::<anyhow::Result<Vec<_>>>()?;
    let each = (arguments.requests / PART / ROUNDS).max(10);
    let (mut served, mut direct) = (Times::default(), Times::default());
    for round in 0..=ROUNDS {
        let (times, _) = load(server.address, &requests, StatusCode::CREATED, 1, each).await?;
        tokio::time::sleep(QUIET).await;
        // As a task, like the handler of a request.
        let beside = tokio::spawn(directly(engine.clone(), each)).await??;
        if round > 0 {
            served.extend(&times);
            direct.extend(&beside);
        }
    }
    let connections = arguments.connections;
    let number = (each * ROUNDS).max(connections);
    let (times, took) = load(server.address, &requests, StatusCode::CREATED, connections, number).await?;
    let show = |figure| Unit::Millis.show(figure);
    let beside = |ours, other| format!("{}, engine {}", show(ours), show(other));
    Ok(vec![
        Line::at_most(
            "`POST` of a plan of one step, p50 beside `Engine::start`",
            ratio(served.p50(), direct.p50()),
            1.3,
            Unit::Times,
        )
        .noted(format!("{}; {} starts", beside(served.p50(), direct.p50()), served.count())),
        Line::at_most("  p99, in 3 F + 5 ms", served.p99(), 3.0 * floor + 5.0, Unit::Millis).noted(format!(
            "F {}, engine {}",
            show(floor),
            show(direct.p99())
        )),
        Line::told(
            format!("  starts a second, {connections} connections"),
            ratio(times.count() as f64, took.as_secs_f64()),
            Unit::ASecond,
        )
        .noted(format!("p50 {}, p99 {}", show(times.p50()), show(times.p99()))),
    ])
}

/// Starts so many runs in this process, one after the other; how long each start took. They are performed meanwhile, as they are in
/// the server.
async fn directly(engine: Engine, number: usize) -> anyhow::Result<Times> {
    let agent: AgentName = "echo".parse()?;
    let mut runs = JoinSet::new();
    let mut times = Times::default();
    for _ in 0..number {
        let request = AgentRequest::text("disk full on db-1");
        let begun = Instant::now();
        let handle = engine.start(&agent, request, StartOptions::default()).await?;
        times.add(begun.elapsed());
        runs.spawn(handle.finish());
    }
    while let Some(report) = runs.join_next().await {
        report??;
    }
    Ok(times)
}
