//! `GET /v1/runs/{id}/events`: the records of a run, as pages or as a stream.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use dalsegno_access::Scope;
use dalsegno_history::Journal;
use dalsegno_store::Record;
use dalsegno_wire::{Event, Events, schema};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::guard::Client;
use crate::link;
use crate::listing::page;
use crate::params::{self, Params};
use crate::problem::{Code, Problem};
use crate::routes::Route;
use crate::shared::Shared;
use crate::sse;

/// The records that are read at once to look back.
const BACK: u32 = 64;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Query {
    /// The sequence number after which to begin.
    #[param(value_type = Option<u64>)]
    after: Option<String>,
    /// For a page: its most entries; 50 without it.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
    /// For a stream: `suspended` ends it when the run waits for a person, a time or another run.
    #[param(inline)]
    until: Option<Until>,
}

/// What ends a stream besides the end of its run.
#[derive(Deserialize, ToSchema, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Until {
    /// The run waits.
    Suspended,
}

/// A page of records.
#[derive(Serialize, ToSchema)]
pub(crate) struct EventPage {
    /// The records, in the order of the journal.
    items: Vec<Event>,
    /// The sequence number to give as `after`; none when there is nothing further now.
    #[schema(required)]
    next: Option<u64>,
}

pub(crate) fn routes() -> Vec<Route> {
    vec![Route::of(Scope::RunsRead, routes!(events)).problems(&[
        Code::NotFound,
        Code::Conflict,
        Code::Erased,
    ])]
}

/// Reads the records of a run, as pages or as a stream.
///
/// With `Accept: text/event-stream` it is a stream of server-sent events. Each `record` has the sequence number of its record
/// as the id and an `Event` as the data. `delta` is a part of a model's reply and has no id. `end` closes the stream.
/// `error` closes it when the journal cannot be read further; its data is a `Problem`.
#[utoipa::path(
    get,
    path = "/v1/runs/{id}/events",
    operation_id = "list_events",
    tag = "runs",
    params(
        ("id" = schema::RunId, Path, description = "The run."),
        Query,
        ("Last-Event-ID" = Option<u64>, Header, description = "For a stream: the id of the last record that the client has. It stands above `after`."),
    ),
    responses(
        (status = 200, description = "A page, or the stream.", content((EventPage = "application/json"), (String = "text/event-stream")), headers(
            ("Link" = String, description = "The address of the next page, with `rel=\"next\"`."),
        )),
        (status = 204, description = "For a stream: the run has ended, and the client has all of it."),
    ),
)]
pub(crate) async fn events(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    Params(query): Params<Query>,
) -> Result<Response, Problem> {
    let run = shared.run(&access, &id).await?;
    let after = query.after.as_deref().map(|after| position("after", after, run.records)).transpose()?;
    // A page has no use for it, and refuses what is no position all the same.
    let last = params::header(&headers, "last-event-id")?;
    let last = last.map(|last| position("last-event-id", last, run.records)).transpose()?;
    if sse::is_wanted(&headers)? {
        // It stands above the parameter: a browser that comes back sends the same address, and the last id that it has.
        return sse::stream(shared, &access, &run, last.or(after), query.until).await;
    }
    let from = after.map_or(0, |after| after + 1);
    let limit = page(query.limit)?;
    let records = shared.journal().store().page(run.run, from, limit as usize).await?.into_records()?;
    let mut events = Events::from(run.run, from);
    let items = told(shared.journal(), &mut events, &records).await?;
    let next = records.last().map(|last| last.seq).filter(|last| last + 1 < run.records);
    let next_place = next.map(|next| next.to_string());
    let next_place = next_place.as_deref().map(|next| ("after", next));
    Ok(link::page(&uri, &EventPage { items, next }, next_place))
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
    // Another run's place, or another journal's.
    let message = format!("is beyond the end: the last record of the run is {}", records.saturating_sub(1));
    Err(Problem::new(Code::Conflict, format!("`{name}` {message}"), help).at(name, message))
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
