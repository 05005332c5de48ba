//! A run as a stream of server-sent events. A stream is a position and not a queue.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{ACCEPT, CACHE_CONTROL, HeaderName};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use dalsegno_access::Access;
use dalsegno_runtime::{Tail, Tailed};
use dalsegno_store::RunSummary;
use dalsegno_wire::Events;
use futures::{Stream, StreamExt as _, stream};
use serde_json::json;

use crate::events::{Until, told};
use crate::limits::OpenStream;
use crate::params;
use crate::problem::Problem;
use crate::shared::Shared;

/// How often a silent stream shows that it lives.
const COMMENT: Duration = Duration::from_secs(15);
/// The pause that a client makes before it comes back.
const RETRY: Duration = Duration::from_secs(1);

/// The stream of a run after the record that a client has.
pub(crate) async fn stream(
    shared: Arc<Shared>,
    access: &Access,
    run: &RunSummary,
    last: Option<u64>,
    until: Option<Until>,
) -> Result<Response, Problem> {
    let from = last.map_or(0, |last| last + 1);
    // Nothing is left to come: a browser that gets this stops to come back.
    if last.is_some() && run.status.is_end() && from == run.records {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let open = shared.limits.stream(access, shared.now())?;
    let tail = shared.engine.tail(run.run, from).await?;
    let events = Events::from(run.run, from);
    let position = Position { shared, tail, events, until, ready: VecDeque::new(), is_over: false, open };
    Ok(response(stream::unfold(position, async |mut position| {
        let event = position.next().await?;
        Some((event, position))
    })))
}

/// An answer that is a stream of events.
pub(crate) fn response(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let sse =
        Sse::new(events.map(Ok::<_, Infallible>)).keep_alive(KeepAlive::new().interval(COMMENT).text(""));
    let mut response = sse.into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// Says that the client has to come back, to another server or later.
pub(crate) fn stopping() -> Event {
    Event::default().retry(RETRY).comment("the server is stopping")
}

/// Says why a stream ends early.
pub(crate) fn failed(problem: &Problem) -> Event {
    Event::default().event("error").data(problem.document().to_string())
}

/// Says whether a client wants a stream.
pub(crate) fn is_wanted(headers: &HeaderMap) -> Result<bool, Problem> {
    let accept = params::header(headers, ACCEPT.as_str())?;
    Ok(accept
        .is_some_and(|accept| accept.split(',').any(|kind| kind.trim().starts_with("text/event-stream"))))
}

struct Position {
    shared: Arc<Shared>,
    tail: Tail,
    events: Events,
    until: Option<Until>,
    /// What was read and not yet taken.
    ready: VecDeque<Event>,
    is_over: bool,
    /// Counts it, and ends it when its key is no longer good.
    open: OpenStream,
}

impl Position {
    /// What the client gets next; none at the end. It is read when the client has taken what was before.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            let next = tokio::select! {
                biased;
                () = self.shared.stopped() => None,
                // Before what comes next: a busy stream ends as well.
                () = self.open.over() => return None,
                next = self.tail.next() => Some(next),
            };
            match next {
                None => {
                    self.is_over = true;
                    return Some(stopping());
                }
                Some(Ok(next)) => self.take(next).await,
                Some(Err(error)) => self.fail(&error.into()),
            }
        }
    }

    async fn take(&mut self, next: Tailed) {
        match next {
            Tailed::Records(records) => match told(self.shared.journal(), &mut self.events, &records).await {
                Ok(told) => {
                    let event = |(seq, event): (u64, &dalsegno_wire::Event)| {
                        Event::default().id(seq.to_string()).event("record").data(text(event))
                    };
                    self.ready.extend(records.iter().map(|record| record.seq).zip(&told).map(event));
                }
                Err(problem) => self.fail(&problem),
            },
            Tailed::Delta { operation, attempt, offset, text: said } => {
                let data =
                    json!({ "operation": operation, "attempt": attempt, "offset": offset, "text": said });
                self.ready.push_back(Event::default().event("delta").data(data.to_string()));
            }
            Tailed::Suspended(summary) => {
                if self.until == Some(Until::Suspended) {
                    self.end(&summary);
                }
            }
            Tailed::Ended(summary) => self.end(&summary),
        }
    }

    fn end(&mut self, summary: &RunSummary) {
        let mut data = json!({ "run_id": summary.run, "status": summary.status });
        if summary.status == dalsegno_store::RunStatus::HandedOff {
            data["successor"] = json!(dalsegno_history::successor_run(summary.run));
        }
        self.ready.push_back(Event::default().event("end").data(data.to_string()));
        self.is_over = true;
    }

    fn fail(&mut self, problem: &Problem) {
        self.ready.push_back(failed(problem));
        self.is_over = true;
    }
}

fn text(event: &dalsegno_wire::Event) -> String {
    serde_json::to_string(event).unwrap_or_default()
}
