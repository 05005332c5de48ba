//! What documents there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use dalsegno_catalogue::Version;
use dalsegno_workspace::{SourceFile, ToolkitFile, Workspace};
use serde::Serialize;
use utoipa::ToSchema;

use super::target::no_document;
use crate::cursor::List;
use crate::guard::Client;
use crate::link;
use crate::listing::{self, Page, Paging};
use crate::params::Params;
use crate::problem::Problem;
use crate::shared::Shared;

/// A page of tools and toolkits.
#[derive(Serialize, ToSchema)]
pub(crate) struct ToolListing {
    /// In the order of their names.
    items: Vec<ListedTool>,
    /// The cursor of the next page; none on the last one.
    #[schema(required)]
    next: Option<String>,
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

/// A page of tenants.
#[derive(Serialize, ToSchema)]
pub(crate) struct TenantListing {
    /// In the order of their names.
    items: Vec<ListedTenant>,
    /// The cursor of the next page; none on the last one.
    #[schema(required)]
    next: Option<String>,
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
pub(crate) async fn tools(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    uri: Uri,
    Params(paging): Params<Paging>,
) -> Result<Response, Problem> {
    shared.engine.look().await;
    let workspace = shared.engine.workspace();
    let tools = match access.tenant() {
        Some(tenant) => of_tenant(&workspace, tenant),
        None => listed(workspace.toolkits.iter().map(|(name, file)| (name.as_str(), file)).collect(), None),
    };
    sent(&uri, &paging, access.tenant(), tools)
}

fn sent(
    uri: &Uri,
    paging: &Paging,
    tenant: Option<&str>,
    tools: Vec<ListedTool>,
) -> Result<Response, Problem> {
    let list = List::of("tools", &tenant);
    let Page { items, next } =
        listing::named(&list, paging, tools.into_iter().map(|tool| (tool.name.clone(), tool)))?;
    let page = ToolListing { items, next };
    Ok(link::page(uri, &page, page.next.as_deref().map(|next| ("cursor", next))))
}

/// Lists the tools that a tenant has, its own and those of the workspace.
pub(crate) async fn tools_of(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(tenant): Path<String>,
    uri: Uri,
    Params(paging): Params<Paging>,
) -> Result<Response, Problem> {
    if !access.sees(&tenant) {
        return Err(no_document());
    }
    shared.engine.look().await;
    let workspace = shared.engine.workspace();
    workspace.check_tenant(&tenant).map_err(|_| no_document())?;
    sent(&uri, &paging, Some(&tenant), of_tenant(&workspace, &tenant))
}

/// Lists the tenants that the key reaches and whose documents have no errors.
pub(crate) async fn tenants(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    uri: Uri,
    Params(paging): Params<Paging>,
) -> Result<Response, Problem> {
    shared.engine.look().await;
    let workspace = shared.engine.workspace();
    let seen = workspace.tenants.values().filter(|tenant| access.sees(&tenant.name));
    let tenant = |tenant: &dalsegno_workspace::Tenant| ListedTenant {
        name: tenant.name.clone(),
        description: tenant.description.clone(),
        layer: layer(Some(&tenant.source)),
        version: Version::of(tenant.source.text()).to_string(),
    };
    let list = List::of("tenants", &access.tenant());
    let seen = seen.map(|one| (one.name.clone(), one));
    let Page { items, next } = listing::named(&list, &paging, seen)?;
    let page = TenantListing { items: items.into_iter().map(tenant).collect(), next };
    Ok(link::page(&uri, &page, page.next.as_deref().map(|next| ("cursor", next))))
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
