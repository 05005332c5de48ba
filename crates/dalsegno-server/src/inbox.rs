//! `GET /v1/inbox`: what waits for people, over all runs.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use dalsegno_access::{Access, Scope};
use dalsegno_history::{Journal, WaitingOperation};
use dalsegno_store::{RunFilter, RunSummary, Waiting as Kind};
use dalsegno_wire::Waiting;
use dalsegno_wire::schema;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::cursor::List;
use crate::guard::Client;
use crate::link;
use crate::listing::{Page, begin, cut, formed, page, tenant_filter};
use crate::params::Params;
use crate::problem::{Code, Problem};
use crate::routes::Route;
use crate::shared::Shared;

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Query {
    /// Only what waits for this.
    #[param(value_type = Option<schema::WaitingKind>)]
    pub(crate) kind: Option<Kind>,
    /// Only runs of this agent.
    pub(crate) agent: Option<String>,
    /// Only runs of this tenant.
    pub(crate) tenant: Option<String>,
    /// The most runs of a page; 50 without it.
    #[param(minimum = 1, maximum = 200)]
    pub(crate) limit: Option<u32>,
    /// The `next` of the page before.
    #[param(pattern = "^[A-Za-z0-9_-]{32}$")]
    pub(crate) cursor: Option<String>,
}

/// What a run waits for.
#[derive(Serialize, ToSchema)]
#[schema(as = InboxEntry)]
pub(crate) struct Entry {
    /// The agent of the run.
    agent: String,
    /// The tenant of the run.
    tenant: String,
    #[serde(flatten)]
    waiting: Waiting,
}

pub(crate) fn routes() -> Vec<Route> {
    vec![Route::of(Scope::RunsRead, routes!(list)).problems(&[Code::NotFound])]
}

/// Lists what waits for people, over all runs.
///
/// That of the newest run first, also of runs that are performed meanwhile, such as calls with a caller on the line, and of ended runs
/// of which an effect is in doubt. A page has what so many runs wait for.
#[utoipa::path(
    get,
    path = "/v1/inbox",
    operation_id = "list_inbox",
    tag = "answers",
    params(Query),
    responses((status = 200, description = "A page.", body = Page<Entry>, headers(
            ("Link" = String, description = "The address of the next page, with `rel=\"next\"`."),
        ))),
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    uri: Uri,
    Params(query): Params<Query>,
) -> Result<Response, Problem> {
    let Page { items, next } = find(&shared, &access, query).await?;
    let entry = |(run, one): &(RunSummary, WaitingOperation)| Entry {
        agent: run.agent.to_string(),
        tenant: run.tenant.clone(),
        waiting: Waiting::of(one),
    };
    let page = Page { items: items.iter().map(entry).collect(), next };
    Ok(link::page(&uri, &page, page.next.as_deref().map(|next| ("cursor", next))))
}

/// Finds the operations that wait for a person, in the runs that are in reach.
pub(crate) async fn find(
    shared: &Shared,
    access: &Access,
    query: Query,
) -> Result<Page<(RunSummary, WaitingOperation)>, Problem> {
    let Query { kind, agent, tenant, limit, cursor } = query;
    let list = List::of("inbox", &serde_json::json!([access.tenant(), kind, agent, tenant]));
    let limit = page(limit)?;
    formed(cursor.as_deref())?;
    let nothing = || Ok(Page { items: Vec::new(), next: None });
    let Some(tenant) = tenant_filter(access, tenant) else { return nothing() };
    let Ok(agent) = agent.map(|agent| agent.parse()).transpose() else { return nothing() };
    let filter = RunFilter {
        agent,
        tenant,
        waiting: kind,
        // Without a kind: of those that wait for a time or another run there is no entry.
        waits: kind.is_none(),
        foreign: Some(false),
        after: begin(shared, access, &list, cursor).await?,
        limit: limit + 1,
        ..RunFilter::default()
    };
    let mut found = shared.journal().runs(&filter).await?;
    let next = cut(&list, &mut found, limit);
    if found.is_empty() {
        return nothing();
    }
    let journal = shared.journal().clone();
    let items = shared.costly.perform(access, async move { Ok(waiting(&journal, found, kind).await) });
    Ok(Page { items: items.await?, next })
}

/// What these runs wait for, as far as they can be read: one that cannot must not hide the others.
async fn waiting(
    journal: &Journal,
    runs: Vec<RunSummary>,
    kind: Option<Kind>,
) -> Vec<(RunSummary, WaitingOperation)> {
    let mut items = Vec::new();
    for run in runs {
        let Ok(latest) = journal.latest(run.run).await else { continue };
        let own = latest.waiting.into_iter().filter(|one| one.run == run.run);
        let meant = own.filter(|one| kind.is_none_or(|kind| one.kind() == kind.as_str()));
        items.extend(meant.map(|one| (run.clone(), one)));
    }
    items
}
