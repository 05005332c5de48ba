//! The agents that can be started.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use dalsegno_access::Scope;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::cursor::List;
use crate::guard::Client;
use crate::link;
use crate::listing::{self, Page, Paging};
use crate::params::Params;
use crate::problem::{Code, Problem};
use crate::routes::Route;
use crate::shared::Shared;

/// A page of the agents whose files have no errors.
#[derive(Serialize, ToSchema)]
pub(crate) struct Agents {
    /// In the order of their names.
    agents: Vec<Agent>,
    /// The cursor of the next page; none on the last one.
    #[schema(required)]
    next: Option<String>,
}

/// An agent that can be started.
#[derive(Serialize, ToSchema)]
struct Agent {
    /// The name by which it is started.
    name: String,
    /// The version that its file has.
    version: String,
    /// What it does.
    description: String,
    /// What other agents find it by.
    capabilities: Vec<String>,
    /// Where its document comes from: `file` or `catalogue`.
    layer: &'static str,
}

pub(crate) fn routes() -> Vec<Route> {
    vec![Route::of(Scope::AgentsRead, routes!(list)).problems(&[Code::NotFound])]
}

/// Lists the agents.
///
/// Those whose files have no errors. They are the same for all tenants.
#[utoipa::path(
    get,
    path = "/v1/agents",
    operation_id = "list_agents",
    tag = "agents",
    params(Paging),
    responses((status = 200, description = "A page.", body = Agents, headers(
        ("Link" = String, description = "The address of the next page, with `rel=\"next\"`."),
    ))),
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    Client(_): Client,
    uri: Uri,
    Params(paging): Params<Paging>,
) -> Result<Response, Problem> {
    shared.engine.look().await;
    let workspace = shared.engine.workspace();
    let mut agents: Vec<_> = workspace.agents.values().map(|agent| (agent.name.to_string(), agent)).collect();
    agents.sort_by(|(one, _), (other, _)| one.cmp(other));
    let list = List::of("agents", &());
    let Page { items, next } = listing::named(&list, &paging, agents.into_iter())?;
    let agents = items.into_iter().map(|agent| Agent {
        name: agent.name.to_string(),
        version: agent.version.clone(),
        description: agent.description.clone(),
        capabilities: agent.capabilities.iter().cloned().collect(),
        layer: if agent.source.is_document() { "catalogue" } else { "file" },
    });
    let page = Agents { agents: agents.collect(), next };
    Ok(link::page(&uri, &page, page.next.as_deref().map(|next| ("cursor", next))))
}
