//! `GET /v1/runs`: runs, the newest first, page by page.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use dalsegno_access::{Access, Scope};
use dalsegno_core::{RunId, Usage};
use dalsegno_store::{RunFilter, RunStatus, RunSummary, Waiting};
use dalsegno_wire::Listed;
use serde::{Deserialize, Serialize};

use crate::cursor::List;
use crate::guard::Client;
use crate::params::Params;
use crate::problem::Problem;
use crate::shared::Shared;

/// Most entries of a page.
const PAGE_MAX: u32 = 200;
/// The entries of a page, unless a client says otherwise.
const PAGE: u32 = 50;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Query {
    pub(crate) agent: Option<String>,
    pub(crate) status: Option<RunStatus>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) session: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) parent: Option<String>,
    /// Only runs that no other run started.
    pub(crate) root: Option<bool>,
    pub(crate) limit: Option<u32>,
    pub(crate) cursor: Option<String>,
}

/// A page of a listing.
#[derive(Serialize)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// The cursor of the next page; none on the last one.
    pub(crate) next: Option<String>,
}

pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Params(query): Params<Query>,
) -> Result<Json<Page<Listed>>, Problem> {
    let Page { items: found, next } = find(&shared, &access, query).await?;
    let mut items = Vec::with_capacity(found.len());
    for run in &found {
        let is_interrupted =
            run.status == RunStatus::Running && run.foreign.is_none() && !shared.journal().is_performed(run);
        let (asked, usage) = content(&shared, &access, run).await;
        items.push(Listed::of(run, asked.as_deref(), is_interrupted, usage));
    }
    Ok(Json(Page { items, next }))
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

/// Finds the runs that are in reach and fit a query.
pub(crate) async fn find(
    shared: &Shared,
    access: &Access,
    query: Query,
) -> Result<Page<RunSummary>, Problem> {
    let Query { agent, status, waiting, session, tenant, parent, root, limit, cursor } = query;
    let facts = serde_json::json!([access.tenant(), agent, status, waiting, session, tenant, parent, root]);
    let list = List::of("runs", &facts);
    let limit = page(limit)?;
    let nothing = || Ok(Page { items: Vec::new(), next: None });
    let Some(tenant) = tenant_filter(access, tenant) else { return nothing() };
    let Ok(agent) = agent.map(|agent| agent.parse()).transpose() else { return nothing() };
    let parent = match parent {
        Some(parent) => Some(shared.run(access, &parent).await?.run),
        None => None,
    };
    let filter = RunFilter {
        agent,
        status,
        waiting,
        tenant,
        session,
        parent,
        roots_only: root.unwrap_or(false),
        // What a foreign run waits for cannot be answered here.
        foreign: waiting.map(|_| false),
        after: begin(shared, access, &list, cursor).await?,
        limit: limit + 1,
        ..RunFilter::default()
    };
    let mut found = shared.journal().runs(&filter).await?;
    let next = cut(&list, &mut found, limit);
    Ok(Page { items: found, next })
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
    let help = "begin the listing again, without a cursor, and keep its other parameters from page to page";
    let wrong = || Problem::parameter("cursor", "is of another listing, or of none", help);
    let run = list.read(&cursor).ok_or_else(wrong)?;
    // It says nothing of runs that are out of reach: neither that they are there nor when they began.
    shared.run(access, &run.to_string()).await.map_err(|_| wrong())?;
    Ok(Some(run))
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
