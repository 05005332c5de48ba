//! `GET /v1/inbox`: what waits for people, over all runs.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use dalsegno_access::Access;
use dalsegno_history::WaitingOperation;
use dalsegno_store::{RunFilter, RunStatus, RunSummary, Waiting as Kind};
use dalsegno_wire::Waiting;
use serde::{Deserialize, Serialize};

use crate::cursor::List;
use crate::guard::Client;
use crate::listing::{Page, begin, cut, page, tenant_filter};
use crate::params::Params;
use crate::problem::Problem;
use crate::shared::Shared;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Query {
    /// What is waited for: `approval`, `input`, `in_doubt` or `secret`.
    pub(crate) kind: Option<Kind>,
    pub(crate) agent: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) limit: Option<u32>,
    pub(crate) cursor: Option<String>,
}

/// What a run waits for.
#[derive(Serialize)]
pub(crate) struct Entry {
    agent: String,
    tenant: String,
    #[serde(flatten)]
    waiting: Waiting,
}

/// Lists the operations that wait for a person, those of the newest run first. A page has those of so many runs.
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Params(query): Params<Query>,
) -> Result<Json<Page<Entry>>, Problem> {
    let Page { items, next } = find(&shared, &access, query).await?;
    let entry = |(run, one): &(RunSummary, WaitingOperation)| Entry {
        agent: run.agent.to_string(),
        tenant: run.tenant.clone(),
        waiting: Waiting::of(one),
    };
    Ok(Json(Page { items: items.iter().map(entry).collect(), next }))
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
    let nothing = || Ok(Page { items: Vec::new(), next: None });
    let Some(tenant) = tenant_filter(access, tenant) else { return nothing() };
    let Ok(agent) = agent.map(|agent| agent.parse()).transpose() else { return nothing() };
    let filter = RunFilter {
        agent,
        tenant,
        waiting: kind,
        // Without a kind: all suspended runs, of which those that wait for a time have no entry.
        status: kind.is_none().then_some(RunStatus::Suspended),
        foreign: Some(false),
        after: begin(shared, access, &list, cursor).await?,
        limit: limit + 1,
        ..RunFilter::default()
    };
    let mut found = shared.journal().runs(&filter).await?;
    let next = cut(&list, &mut found, limit);
    let mut items = Vec::new();
    for run in &found {
        // One that cannot be read must not hide the others.
        let Ok(inspection) = shared.journal().inspect(run.run, None).await else { continue };
        let own = inspection.waiting.into_iter().filter(|one| one.run == run.run);
        let meant = own.filter(|one| kind.is_none_or(|kind| one.kind() == kind.as_str()));
        items.extend(meant.map(|one| (run.clone(), one)));
    }
    Ok(Page { items, next })
}
