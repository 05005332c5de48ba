//! The agents that can be started.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use dalsegno_access::Scope;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::guard::Client;
use crate::routes::Route;
use crate::shared::Shared;

/// The agents whose files have no errors.
#[derive(Serialize, ToSchema)]
pub(crate) struct Agents {
    /// In the order of their names.
    agents: Vec<Agent>,
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
    vec![Route::of(Scope::AgentsRead, routes!(list))]
}

/// Lists the agents.
///
/// Those whose files have no errors. They are the same for all tenants.
#[utoipa::path(
    get,
    path = "/v1/agents",
    operation_id = "list_agents",
    tag = "agents",
    responses((status = 200, description = "The agents.", body = Agents)),
)]
pub(crate) async fn list(State(shared): State<Arc<Shared>>, Client(_): Client) -> Json<Agents> {
    shared.engine.look().await;
    let workspace = shared.engine.workspace();
    let agents = workspace.agents.values().map(|agent| Agent {
        name: agent.name.to_string(),
        version: agent.version.clone(),
        description: agent.description.clone(),
        capabilities: agent.capabilities.iter().cloned().collect(),
        layer: if agent.source.is_document() { "catalogue" } else { "file" },
    });
    Json(Agents { agents: agents.collect() })
}
