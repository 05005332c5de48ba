//! What documents there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use dalsegno_catalogue::Version;
use dalsegno_workspace::{SourceFile, ToolkitFile, Workspace};
use serde::Serialize;

use super::target::no_document;
use crate::guard::Client;
use crate::problem::Problem;
use crate::shared::Shared;

#[derive(Serialize)]
pub(crate) struct Listed<T> {
    items: Vec<T>,
}

/// A tool or toolkit.
#[derive(Serialize)]
pub(crate) struct Tool {
    name: String,
    /// Whose the document is: `workspace` or `tenant`.
    of: &'static str,
    /// Where it comes from: `file`, `catalogue`, or `features` of the tenant's document.
    layer: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// The names of its tools, as agents allow them.
    tools: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct Tenant {
    name: String,
    description: String,
    layer: &'static str,
    version: String,
}

/// Lists the tools that all tenants have, but for those that stand in for them. With the key of a tenant, the tools of the tenant.
pub(crate) async fn tools(State(shared): State<Arc<Shared>>, Client(access): Client) -> Json<Listed<Tool>> {
    shared.engine.look().await;
    let workspace = shared.engine.workspace();
    Json(Listed {
        items: match access.tenant() {
            Some(tenant) => of_tenant(&workspace, tenant),
            None => {
                listed(workspace.toolkits.iter().map(|(name, file)| (name.as_str(), file)).collect(), None)
            }
        },
    })
}

/// Lists the tools that a tenant has, its own and those of the workspace.
pub(crate) async fn tools_of(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(tenant): Path<String>,
) -> Result<Json<Listed<Tool>>, Problem> {
    if !access.sees(&tenant) {
        return Err(no_document());
    }
    shared.engine.look().await;
    let workspace = shared.engine.workspace();
    workspace.check_tenant(&tenant).map_err(|_| no_document())?;
    Ok(Json(Listed { items: of_tenant(&workspace, &tenant) }))
}

/// Lists the tenants that the key reaches and whose documents have no errors.
pub(crate) async fn tenants(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
) -> Json<Listed<Tenant>> {
    shared.engine.look().await;
    let workspace = shared.engine.workspace();
    let seen = workspace.tenants.values().filter(|tenant| access.sees(&tenant.name));
    let tenant = |tenant: &dalsegno_workspace::Tenant| Tenant {
        name: tenant.name.clone(),
        description: tenant.description.clone(),
        layer: layer(Some(&tenant.source)),
        version: Version::of(tenant.source.text()).to_string(),
    };
    Json(Listed { items: seen.map(tenant).collect() })
}

fn of_tenant(workspace: &Workspace, tenant: &str) -> Vec<Tool> {
    listed(workspace.toolkits_for(tenant), workspace.tenants.get(tenant))
}

fn listed(files: BTreeMap<&str, &ToolkitFile>, tenant: Option<&dalsegno_workspace::Tenant>) -> Vec<Tool> {
    let tool = |(name, file): (&str, &ToolkitFile)| Tool {
        name: name.to_owned(),
        of: match tenant {
            Some(tenant) if tenant.tools.contains_key(name) => "tenant",
            _ => "workspace",
        },
        layer: layer(file.source.as_ref()),
        version: file.source.as_ref().map(|source| Version::of(source.text()).to_string()),
        tools: file.toolkit.tools().iter().map(|tool| tool.name().to_owned()).collect(),
    };
    files.into_iter().map(tool).collect()
}

fn layer(source: Option<&SourceFile>) -> &'static str {
    match source {
        Some(source) if source.is_document() => "catalogue",
        Some(_) => "file",
        None => "features",
    }
}
