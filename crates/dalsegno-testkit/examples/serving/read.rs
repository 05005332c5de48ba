//! Reads a run, beside a bare route that answers the same bytes.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::StatusCode;

use crate::arguments::Arguments;
use crate::bare;
use crate::client::{Connection, Sent, complete, get, load};
use crate::line::{Line, Unit, ratio};
use crate::times::Times;
use crate::workspace::Workspace;

/// The rounds in which both are measured, one after the other. One more before them warms both.
const ROUNDS: usize = 5;

/// What came of the requests to one of the two.
#[derive(Default)]
struct Side {
    times: Times,
    took: Duration,
}

impl Side {
    /// Requests in a second.
    fn rate(&self) -> f64 {
        ratio(self.times.count() as f64, self.took.as_secs_f64())
    }
}

/// Measures the row.
///
/// # Errors
/// A process could not be started, or a request was not answered.
pub(crate) async fn measure(arguments: &Arguments) -> anyhow::Result<Vec<Line>> {
    let workspace = Workspace::new(&arguments.dalsegno)?;
    let server = workspace.serve()?;
    let run = complete(server.address, workspace.key()?, "echo").await?;
    let path = format!("/v1/runs/{run}");
    let requests = workspace.keys.iter().map(|key| get(&path, key)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut connection = Connection::open(server.address).await?;
    let body = connection.ask(get(&path, workspace.key()?)?, StatusCode::OK).await?;
    let body = String::from_utf8(body.to_vec())?;
    let bare = bare::start(&body, workspace.path())?;
    let both = [server.address, bare.address];
    let connections = arguments.connections;
    let [ours, other] = sides(both, &requests, connections, arguments.requests).await?;
    let [alone, other_alone] = sides(both, &requests, 1, arguments.requests / 4).await?;
    let beside =
        |ours: f64, other: f64, unit: Unit| format!("{}, bare {}", unit.show(ours), unit.show(other));
    let at_once = format!("{connections} connections");
    Ok(vec![
        Line::at_most(
            format!("`GET` of a run, {at_once}, p50 beside a bare route"),
            ratio(ours.times.p50(), other.times.p50()),
            2.0,
            Unit::Times,
        )
        .noted(format!(
            "{}, {} bytes",
            beside(ours.times.p50(), other.times.p50(), Unit::Millis),
            body.len()
        )),
        Line::at_most(
            "  requests a second of a bare route beside it",
            ratio(other.rate(), ours.rate()),
            2.0,
            Unit::Times,
        )
        .noted(beside(ours.rate(), other.rate(), Unit::ASecond)),
        Line::told("  p99", ours.times.p99(), Unit::Millis)
            .noted(format!("bare {}", Unit::Millis.show(other.times.p99()))),
        Line::told(
            "  over one connection, p50 beside a bare route",
            ratio(alone.times.p50(), other_alone.times.p50()),
            Unit::Times,
        )
        .noted(beside(alone.times.p50(), other_alone.times.p50(), Unit::Millis)),
    ])
}

/// Sends so many requests to each of the two, in turns.
async fn sides(
    both: [SocketAddr; 2],
    requests: &[Sent],
    connections: usize,
    number: usize,
) -> anyhow::Result<[Side; 2]> {
    let mut sides: [Side; 2] = Default::default();
    let each = (number / ROUNDS).max(connections);
    for round in 0..=ROUNDS {
        for (address, side) in both.into_iter().zip(&mut sides) {
            let (times, took) = load(address, requests, StatusCode::OK, connections, each).await?;
            if round > 0 {
                side.times.extend(&times);
                side.took += took;
            }
        }
    }
    Ok(sides)
}
