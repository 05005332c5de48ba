//! The agents that can be started.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::guard::Client;
use crate::shared::Shared;

#[derive(Serialize)]
pub(crate) struct Agents {
    agents: Vec<Agent>,
}

#[derive(Serialize)]
struct Agent {
    name: String,
    version: String,
    description: String,
    capabilities: Vec<String>,
    /// Where its document comes from: `file` or `catalogue`.
    layer: &'static str,
}

/// Lists the agents whose files have no errors. They are the same for all tenants.
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
