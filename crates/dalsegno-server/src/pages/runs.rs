//! `GET /runs`: the list of runs.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use dalsegno_access::Scope;
use dalsegno_store::RunStatus;
use dalsegno_web::Section;
use dalsegno_web::runs::{Filter, RunRow, RunsPage, encoded};
use serde::Deserialize;

use super::{html, live, shell};
use crate::guard::Client;
use crate::listing;
use crate::params::Params;
use crate::problem::Problem;
use crate::shared::Shared;

/// Runs on a page.
const PAGE: u32 = 50;

/// The filters, as a form sends them: an empty one is none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    #[serde(default)]
    agent: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    tenant: String,
    #[serde(default)]
    session: String,
    #[serde(default)]
    root: bool,
    cursor: Option<String>,
}

pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Params(query): Params<Query>,
) -> Result<Response, Problem> {
    let Query { agent, status, tenant, session, root, cursor } = query;
    let filter = Filter { agent, status, tenant, session, root };
    let known = RunStatus::ALL.iter().copied().find(|status| status.as_str() == filter.status);
    let mut problem = None;
    if known.is_none() && !filter.status.is_empty() {
        problem = Some(format!("“{}” is not a status.", dalsegno_web::text::line(&filter.status, 60)));
    }
    let given = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
    let is_first = cursor.is_none();
    let asked = listing::Query {
        agent: given(&filter.agent),
        status: known,
        tenant: given(&filter.tenant),
        session: given(&filter.session),
        root: filter.root.then_some(true),
        limit: Some(PAGE),
        cursor,
        ..listing::Query::default()
    };
    let live = match is_first {
        true => live(&shared, &access, filter.stream()).await,
        false => None,
    };
    let found = listing::find(&shared, &access, asked).await?;
    let now = shared.now();
    let mut rows = Vec::with_capacity(found.items.len());
    for run in found.items.iter().filter(|_| problem.is_none()) {
        let (asked, usage) = listing::content(&shared, &access, run).await;
        let is_performed = shared.journal().is_performed(run);
        rows.push(RunRow::of(run, asked.as_deref(), usage.as_ref(), is_performed, now));
    }
    let address = filter.address();
    let mark = if address.contains('?') { '&' } else { '?' };
    let agents = match access.may(Scope::AgentsRead) {
        true => shared.engine.workspace().agents.keys().map(ToString::to_string).collect(),
        false => Vec::new(),
    };
    Ok(html(&RunsPage {
        shell: shell(&access, Section::Runs),
        tabs: filter.tabs(),
        rows,
        next: found.next.map(|next| format!("{address}{mark}cursor={}", encoded(&next))),
        first: (!is_first).then_some(address),
        agents,
        problem,
        live,
        filter,
    }))
}
