//! What documents there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use dalsegno_catalogue::Version;
use dalsegno_workspace::{SourceFile, ToolkitFile, Workspace};
use serde::Serialize;
use utoipa::ToSchema;

use super::target::no_document;
use crate::guard::Client;
use crate::problem::Problem;
use crate::shared::Shared;

/// Tools and toolkits.
#[derive(Serialize, ToSchema)]
pub(crate) struct ToolListing {
    /// In the order of their names.
    items: Vec<ListedTool>,
}

/// A tool or toolkit.
#[derive(Serialize, ToSchema)]
pub(crate) struct ListedTool {
    /// Its name.
    pub(crate) name: String,
    /// Whose the document is: `workspace` or `tenant`.
    pub(crate) of: &'static str,
    /// Where it comes from: `file`, `catalogue`, or `features` of the tenant's document.
    pub(crate) layer: &'static str,
    /// The version: the hash of the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// The names of its tools, as agents allow them.
    pub(crate) tools: Vec<String>,
}

/// Tenants.
#[derive(Serialize, ToSchema)]
pub(crate) struct TenantListing {
    /// In the order of their names.
    items: Vec<ListedTenant>,
}

/// A tenant.
#[derive(Serialize, ToSchema)]
pub(crate) struct ListedTenant {
    /// Its name.
    name: String,
    /// What the tenant's document says of it.
    description: String,
    /// Where the document comes from: `file` or `catalogue`.
    layer: &'static str,
    /// The version: the hash of the text.
    version: String,
}

/// Lists the tools that all tenants have, but for those that stand in for them. With the key of a tenant, the tools of the tenant.
pub(crate) async fn tools(State(shared): State<Arc<Shared>>, Client(access): Client) -> Json<ToolListing> {
    shared.engine.look().await;
    let workspace = shared.engine.workspace();
    Json(ToolListing {
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
) -> Result<Json<ToolListing>, Problem> {
    if !access.sees(&tenant) {
        return Err(no_document());
    }
    shared.engine.look().await;
    let workspace = shared.engine.workspace();
    workspace.check_tenant(&tenant).map_err(|_| no_document())?;
    Ok(Json(ToolListing { items: of_tenant(&workspace, &tenant) }))
}

/// Lists the tenants that the key reaches and whose documents have no errors.
pub(crate) async fn tenants(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
) -> Json<TenantListing> {
    shared.engine.look().await;
    let workspace = shared.engine.workspace();
    let seen = workspace.tenants.values().filter(|tenant| access.sees(&tenant.name));
    let tenant = |tenant: &dalsegno_workspace::Tenant| ListedTenant {
        name: tenant.name.clone(),
        description: tenant.description.clone(),
        layer: layer(Some(&tenant.source)),
        version: Version::of(tenant.source.text()).to_string(),
    };
    Json(TenantListing { items: seen.map(tenant).collect() })
}

pub(crate) fn of_tenant(workspace: &Workspace, tenant: &str) -> Vec<ListedTool> {
    listed(workspace.toolkits_for(tenant), workspace.tenants.get(tenant))
}

pub(crate) fn listed(
    files: BTreeMap<&str, &ToolkitFile>,
    tenant: Option<&dalsegno_workspace::Tenant>,
) -> Vec<ListedTool> {
    let tool = |(name, file): (&str, &ToolkitFile)| ListedTool {
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
