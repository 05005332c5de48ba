//! A run as a stream of server-sent events. A stream is a position and not a queue.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::http::header::{ACCEPT, CACHE_CONTROL, HeaderName};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use dalsegno_access::Access;
use dalsegno_runtime::{Tail, Tailed};
use dalsegno_store::RunSummary;
use dalsegno_wire::Events;
use futures::{Stream, StreamExt as _, stream};
use serde_json::json;
use tokio::time::Instant;

use crate::events::{Until, told};
use crate::limits::OpenStream;
use crate::params;
use crate::problem::Problem;
use crate::shared::Shared;

/// The longest that a stream is silent: then it shows that it lives.
const SILENT: Duration = Duration::from_secs(15);
/// From one moment at which silent streams show that they live to the next. Those of one moment have one timer, which wakes the process
/// once for all of them.
const MOMENT: Duration = Duration::from_millis(100);
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
    let mut response = Sse::new(with_signs_of_life(events).map(Ok::<_, Infallible>)).into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// The same events, with a comment wherever nothing comes for long.
fn with_signs_of_life(events: impl Stream<Item = Event> + Send + 'static) -> impl Stream<Item = Event> {
    stream::unfold(Box::pin(events), async |mut events| {
        tokio::select! {
            biased;
            event = events.next() => event.map(|event| (event, events)),
            () = tokio::time::sleep_until(sign_after(Instant::now())) => {
                Some((Event::default().comment(""), events))
            }
        }
    })
}

/// The moment at which a stream that says nothing from now on shows that it lives.
fn sign_after(now: Instant) -> Instant {
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    let latest = now + SILENT;
    let beyond = latest.saturating_duration_since(*FIRST).as_micros() % MOMENT.as_micros();
    latest - Duration::from_micros(u64::try_from(beyond).unwrap_or(0))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_stream_shows_that_it_lives_at_a_moment_of_all_streams() {
        let mut signs = Vec::new();
        for millis in [0, 1, 99, 100, 12_345] {
            tokio::time::advance(Duration::from_millis(millis)).await;
            let now = Instant::now();
            let sign = sign_after(now);
            assert!(sign <= now + SILENT && sign > now + SILENT - MOMENT);
            signs.push(sign);
        }
        let first = signs[0];
        assert!(signs.iter().all(|sign| (*sign - first).as_micros() % MOMENT.as_micros() == 0), "{signs:?}");
        let began = Instant::now();
        let events = stream::iter([Event::default().data("one")]).chain(stream::pending());
        let mut events = Box::pin(with_signs_of_life(events));
        assert!(events.next().await.is_some());
        assert_eq!(began, Instant::now(), "what there is comes at once");
        for number in 1..4 {
            assert!(events.next().await.is_some());
            let silent = began.elapsed();
            assert!(silent <= number * SILENT && silent > number * (SILENT - MOMENT), "{silent:?}");
        }
        let ended = with_signs_of_life(stream::iter([Event::default()]));
        assert_eq!(ended.count().await, 1);
    }
}
