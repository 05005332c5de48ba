//! `GET /v1/runs/{id}/events`: the records of a run, as pages or as a stream.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::response::{IntoResponse as _, Response};
use dalsegno_history::Journal;
use dalsegno_store::Record;
use dalsegno_wire::{Event, Events};
use serde::{Deserialize, Serialize};

use crate::guard::Client;
use crate::listing::page;
use crate::params::{self, Params};
use crate::problem::Problem;
use crate::shared::Shared;
use crate::sse;

/// The records that are read at once to look back.
const BACK: u32 = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Query {
    /// The sequence number after which to begin.
    after: Option<String>,
    limit: Option<u32>,
    /// For a stream: `suspended` ends it when the run waits for a person, a time or another run.
    until: Option<Until>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Until {
    Suspended,
}

#[derive(Serialize)]
struct EventPage {
    items: Vec<Event>,
    /// The sequence number to give as `after`; none when there is nothing further now.
    next: Option<u64>,
}

pub(crate) async fn events(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
    headers: HeaderMap,
    Params(query): Params<Query>,
) -> Result<Response, Problem> {
    let run = shared.run(&access, &id).await?;
    let after = query.after.as_deref().map(|after| position("after", after, run.records)).transpose()?;
    let wants_stream = params::header(&headers, ACCEPT.as_str())?
        .is_some_and(|accept| accept.split(',').any(|kind| kind.trim().starts_with("text/event-stream")));
    if wants_stream {
        // It stands above the parameter: a browser that comes back sends the same address, and the last id that it has.
        let last = params::header(&headers, "last-event-id")?;
        let last = last.map(|last| position("last-event-id", last, run.records)).transpose()?;
        return sse::stream(shared, &access, &run, last.or(after), query.until).await;
    }
    let from = after.map_or(0, |after| after + 1);
    let limit = page(query.limit)?;
    let records = shared.journal().store().page(run.run, from, limit as usize).await?.into_records()?;
    let mut events = Events::from(run.run, from);
    let items = told(shared.journal(), &mut events, &records).await?;
    let next = records.last().map(|last| last.seq).filter(|last| last + 1 < run.records);
    Ok(Json(EventPage { items, next }).into_response())
}

/// The place of a record that a client has.
fn position(name: &str, text: &str, records: u64) -> Result<u64, Problem> {
    let help = "send the `seq` of the last record that you have, or leave it out to begin with the first one";
    let place: u64 = text.parse().map_err(|_| {
        Problem::parameter(name, "is not a sequence number: expected a whole number from 0", help)
    })?;
    if place < records {
        return Ok(place);
    }
    let message = format!("is beyond the end: the last record of the run is {}", records.saturating_sub(1));
    Err(Problem::parameter(name, message, help))
}

/// The events of records that follow those which `events` has had. What the step of one follows from may stand far before it.
pub(crate) async fn told(
    journal: &Journal,
    events: &mut Events,
    records: &[Record],
) -> Result<Vec<Event>, Problem> {
    let Some(first) = records.first() else { return Ok(Vec::new()) };
    let mut told = Vec::with_capacity(records.len());
    let mut looked = first.seq;
    for record in records {
        while looked > 0 && !events.is_ready_for(record) {
            let from = looked.saturating_sub(u64::from(BACK));
            let mut earlier: Vec<Record> = Vec::new();
            // A page can end before that at its bytes, and each record is needed.
            while from + (earlier.len() as u64) < looked {
                let (at, most) = (from + earlier.len() as u64, looked - from - earlier.len() as u64);
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                let page = journal.store().page(events.run(), at, most).await?.into_records()?;
                if page.is_empty() {
                    break;
                }
                earlier.extend(page);
            }
            earlier.iter().rev().for_each(|earlier| events.recall(earlier));
            looked = from;
        }
        told.push(events.event(record.into()));
    }
    Ok(told)
}
