//! `GET /v1/runs`: runs, the newest first, page by page.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use dalsegno_access::{Access, Scope};
use dalsegno_core::{RunId, Usage};
use dalsegno_store::{RunFilter, RunStatus, RunSummary, Waiting};
use dalsegno_wire::{Listed, schema};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::changes;
use crate::cursor::{self, List};
use crate::guard::Client;
use crate::link;
use crate::params::Params;
use crate::problem::{Code, Problem};
use crate::routes::Route;
use crate::shared::Shared;
use crate::sse;

/// Most entries of a page.
const PAGE_MAX: u32 = 200;
/// The entries of a page, unless a client says otherwise.
const PAGE: u32 = 50;

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Query {
    /// Only runs of this agent.
    pub(crate) agent: Option<String>,
    /// Only runs that stand so.
    #[param(value_type = Option<schema::RunStatus>)]
    pub(crate) status: Option<RunStatus>,
    /// Only runs that wait for this.
    #[param(value_type = Option<schema::WaitingKind>)]
    pub(crate) waiting: Option<Waiting>,
    /// Only runs of this session.
    pub(crate) session: Option<String>,
    /// Only runs of this tenant.
    pub(crate) tenant: Option<String>,
    /// Only runs that this run started.
    #[param(value_type = Option<schema::RunId>)]
    pub(crate) parent: Option<String>,
    /// Only runs that no other run started.
    pub(crate) root: Option<bool>,
    /// The most entries of a page; 50 without it.
    #[param(minimum = 1, maximum = 200)]
    pub(crate) limit: Option<u32>,
    /// The `next` of the page before.
    #[param(pattern = "^[A-Za-z0-9_-]{32}$")]
    pub(crate) cursor: Option<String>,
    /// For a stream: the `changes` of a page or the id of an event, after which to begin; without it, it begins now.
    #[param(pattern = "^[A-Za-z0-9_-]{64}$")]
    pub(crate) after: Option<String>,
}

/// A page of a listing.
#[derive(Serialize, ToSchema)]
pub(crate) struct Page<T> {
    /// The entries.
    pub(crate) items: Vec<T>,
    /// The cursor of the next page; none on the last one.
    #[schema(required)]
    pub(crate) next: Option<String>,
}

/// A page of runs.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunPage {
    #[serde(flatten)]
    page: Page<Listed>,
    /// The place among all changes at which the page was read: what to give a stream as `after`.
    changes: String,
}

pub(crate) fn routes() -> Vec<Route> {
    // The run that `parent` names may not be there.
    vec![Route::of(Scope::RunsList, routes!(list)).problems(&[Code::NotFound])]
}

/// Lists runs, as pages or as a stream of those that change.
///
/// The newest first. Runs that are added meanwhile change no page. What a run was asked and what it used is shown to keys that
/// may also read runs.
///
/// With `Accept: text/event-stream` it is a stream of server-sent events: a `run` with the entry of each run whose status
/// changes and which matches, as it is then. Its id says how far the stream is and means nothing else; a client that sends it as
/// `Last-Event-ID` misses no change. `error` closes the stream when the journal cannot be read; its data is a `Problem`.
#[utoipa::path(
    get,
    path = "/v1/runs",
    operation_id = "list_runs",
    tag = "runs",
    params(
        Query,
        ("Last-Event-ID" = Option<String>, Header, description = "For a stream: the id of the last event that the client has. It stands above `after`."),
    ),
    responses(
        (status = 200, description = "A page, or the stream.", content((RunPage = "application/json"), (String = "text/event-stream")), headers(
            ("Link" = String, description = "The address of the next page, with `rel=\"next\"`."),
        )),
    ),
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    uri: Uri,
    headers: HeaderMap,
    Params(query): Params<Query>,
) -> Result<Response, Problem> {
    // A stream has no pages, and refuses what is no page all the same.
    page(query.limit)?;
    formed(query.cursor.as_deref())?;
    if let Some(after) = &query.after {
        changes::form("after", after)?;
    }
    if sse::is_wanted(&headers)? {
        let after = changes::place(&shared, &headers, query.after.as_deref())?;
        let wanted = wanted(&shared, &access, query).await?;
        let matches = move |run: &RunSummary| wanted.as_ref().is_some_and(|wanted| wanted.matches(run));
        return changes::stream(shared, access, after, matches).await;
    }
    // Before the page: a change in between is in both.
    let changes = changes::now(&shared).await?;
    let Page { items: found, next } = find(&shared, &access, query).await?;
    let mut items = Vec::with_capacity(found.len());
    for run in &found {
        items.push(listed(&shared, &access, run).await);
    }
    let page = RunPage { page: Page { items, next }, changes };
    let next = page.page.next.as_deref().map(|next| ("cursor", next));
    Ok(link::page(&uri, &page, next))
}

/// The runs that a query is about, without its place and number; none where nothing matches, and nothing will.
async fn wanted(shared: &Shared, access: &Access, query: Query) -> Result<Option<RunFilter>, Problem> {
    let Query { agent, status, waiting, session, tenant, parent, root, .. } = query;
    let known = tenant_filter(access, tenant).zip(agent.map(|agent| agent.parse()).transpose().ok());
    let Some((tenant, agent)) = known else { return Ok(None) };
    let parent = match parent {
        Some(parent) => Some(shared.run(access, &parent).await?.run),
        None => None,
    };
    Ok(Some(RunFilter {
        agent,
        status,
        waiting,
        tenant,
        session,
        parent,
        roots_only: root.unwrap_or(false),
        // What a foreign run waits for cannot be answered here.
        foreign: waiting.map(|_| false),
        ..RunFilter::default()
    }))
}

/// Finds the runs that are in reach and fit a query.
pub(crate) async fn find(
    shared: &Shared,
    access: &Access,
    query: Query,
) -> Result<Page<RunSummary>, Problem> {
    let Query { agent, status, waiting, session, tenant, parent, root, .. } = &query;
    let facts = serde_json::json!([access.tenant(), agent, status, waiting, session, tenant, parent, root]);
    let list = List::of("runs", &facts);
    let (limit, cursor) = (page(query.limit)?, query.cursor.clone());
    formed(cursor.as_deref())?;
    let Some(wanted) = wanted(shared, access, query).await? else {
        return Ok(Page { items: Vec::new(), next: None });
    };
    let after = begin(shared, access, &list, cursor).await?;
    let mut found = shared.journal().runs(&RunFilter { after, limit: limit + 1, ..wanted }).await?;
    let next = cut(&list, &mut found, limit);
    Ok(Page { items: found, next })
}

/// The line of a run as far as a client may see it.
pub(crate) async fn listed(shared: &Shared, access: &Access, run: &RunSummary) -> Listed {
    let is_interrupted =
        run.status == RunStatus::Running && run.foreign.is_none() && !shared.journal().is_performed(run);
    let (asked, usage) = content(shared, access, run).await;
    Listed::of(run, asked.as_deref(), is_interrupted, usage)
}

/// What a run was asked and what it used. What it was asked is content: that of an erased or damaged run cannot be read, and the
/// rest of its line can.
pub(crate) async fn content(
    shared: &Shared,
    access: &Access,
    run: &RunSummary,
) -> (Option<String>, Option<Usage>) {
    match access.may(Scope::RunsRead) {
        true => (
            shared.journal().asked(run.run).await.ok().map(|request| request.text),
            shared.journal().recorded_usage(run).await.ok().flatten(),
        ),
        false => (None, None),
    }
}

/// The number of entries of a page.
pub(crate) fn page(limit: Option<u32>) -> Result<u32, Problem> {
    let limit = limit.unwrap_or(PAGE);
    if (1..=PAGE_MAX).contains(&limit) {
        return Ok(limit);
    }
    let message = format!("is {limit}: expected 1 to {PAGE_MAX}");
    Err(Problem::parameter("limit", message, "follow `next` for further entries"))
}

/// The tenant whose runs are listed: the only one that is in reach. None where a client asks for another one's, of which there
/// is nothing to see.
pub(crate) fn tenant_filter(access: &Access, asked: Option<String>) -> Option<Option<String>> {
    match (access.tenant(), asked) {
        (Some(own), Some(asked)) if own != asked => None,
        (Some(own), _) => Some(Some(own.to_owned())),
        (None, asked) => Some(asked),
    }
}

/// The run after which a page begins.
pub(crate) async fn begin(
    shared: &Shared,
    access: &Access,
    list: &List,
    cursor: Option<String>,
) -> Result<Option<RunId>, Problem> {
    let Some(cursor) = cursor else { return Ok(None) };
    let run = list.read(&cursor).ok_or_else(foreign)?;
    // It says nothing of runs that are out of reach: neither that they are there nor when they began.
    shared.run(access, &run.to_string()).await.map_err(|_| foreign())?;
    Ok(Some(run))
}

/// Which page of a list of names is meant.
#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Paging {
    /// The most entries of a page; 50 without it.
    #[param(minimum = 1, maximum = 200)]
    pub(crate) limit: Option<u32>,
    /// The `next` of the page before.
    #[param(pattern = "^([0-9a-f]{2}){9,72}$")]
    pub(crate) cursor: Option<String>,
}

/// A page of entries, which are in the order of their names. What is added or removed meanwhile changes nothing else.
pub(crate) fn named<T>(
    list: &List,
    paging: &Paging,
    entries: impl Iterator<Item = (String, T)>,
) -> Result<Page<T>, Problem> {
    let (limit, after) = (page(paging.limit)? as usize, after_name(list, paging.cursor.as_deref())?);
    let mut rest = entries.filter(|(name, _)| after.as_ref().is_none_or(|after| name > after));
    let found: Vec<(String, T)> = rest.by_ref().take(limit).collect();
    let last = found.last().filter(|_| rest.next().is_some());
    let next = last.map(|(name, _)| list.after_name(name));
    Ok(Page { items: found.into_iter().map(|(_, entry)| entry).collect(), next })
}

/// The name after which a page begins.
pub(crate) fn after_name(list: &List, cursor: Option<&str>) -> Result<Option<String>, Problem> {
    let Some(cursor) = cursor else { return Ok(None) };
    if !cursor::is_named(cursor) {
        return Err(Problem::parameter("cursor", "is no cursor", HELP));
    }
    list.read_name(cursor).map(Some).ok_or_else(foreign)
}

fn foreign() -> Problem {
    let message = "is of another listing, or of none";
    Problem::new(Code::NotFound, format!("`cursor` {message}"), HELP).at("cursor", message)
}

const HELP: &str =
    "begin the listing again, without a cursor, and keep its other parameters from page to page";

/// Refuses what has not the form of a cursor.
pub(crate) fn formed(cursor: Option<&str>) -> Result<(), Problem> {
    match cursor {
        Some(cursor) if !cursor::is_one(cursor) => Err(Problem::parameter("cursor", "is no cursor", HELP)),
        _ => Ok(()),
    }
}

/// Cuts what was read one entry too far, and says where the next page begins.
pub(crate) fn cut(list: &List, found: &mut Vec<RunSummary>, limit: u32) -> Option<String> {
    let limit = limit as usize;
    if found.len() <= limit {
        return None;
    }
    found.truncate(limit);
    found.last().map(|last| list.after(last.run))
}
