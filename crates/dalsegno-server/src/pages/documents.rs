//! `/agents`, `/tools` and `/tenants`: the lists of documents.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use dalsegno_access::{Access, Scope};
use dalsegno_catalogue::{DocumentId, DocumentKind};
use dalsegno_web::document::{DocumentRow, DocumentsPage};
use dalsegno_web::{Section, text};
use serde::Deserialize;

use super::{html, shell};
use crate::documents::list::{ListedTool, listed, of_tenant};
use crate::documents::target::no_document;
use crate::guard::Client;
use crate::params::Params;
use crate::problem::Problem;
use crate::shared::Shared;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    /// The name of a document to open, whether it is there or not.
    open: Option<String>,
    /// What has just happened.
    done: Option<Done>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Done {
    Deleted,
}

/// What lists have in common.
struct List {
    title: String,
    word: &'static str,
    kind: DocumentKind,
    address: String,
    rows: Vec<DocumentRow>,
    may_add: bool,
    links: Vec<(String, String)>,
}

fn answer(access: &Access, section: Section, query: &Query, list: List) -> Response {
    let List { title, word, kind, address, rows, may_add, links } = list;
    let mut problem = None;
    if let Some(name) = query.open.as_deref().map(str::trim).filter(|_| may_add) {
        match DocumentId::new(None, kind, name) {
            Ok(id) => return Redirect::to(&format!("{address}/{}", id.name())).into_response(),
            Err(error) => problem = Some(format!("“{}” is no name: {error}.", text::line(name, 60))),
        }
    }
    let done = query.done.map(|Done::Deleted| "The document is deleted.");
    let shell = shell(access, section);
    html(&DocumentsPage { shell, title, word, address, rows, may_add, links, done, problem })
}

pub(super) async fn agents(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Params(query): Params<Query>,
) -> Response {
    shared.engine.look().await;
    let workspace = shared.engine.workspace();
    let is_operator = access.tenant().is_none();
    let href = |name: &str| is_operator.then(|| format!("/agents/{name}"));
    let may_chat = super::may_chat(&access);
    let mut rows: Vec<DocumentRow> = workspace
        .agents
        .values()
        .map(|agent| DocumentRow {
            name: agent.name.to_string(),
            href: href(agent.name.as_str()),
            layer: if agent.source.is_document() { "catalogue" } else { "file" }.to_owned(),
            words: text::line(&agent.description, 240),
            tools: Vec::new(),
            broken: None,
            chat: may_chat.then(|| format!("/chat?agent={}", agent.name)),
        })
        .collect();
    // Why an agent cannot be used may quote what is not a tenant's.
    let broken = workspace.broken.agents.iter().filter(|_| is_operator);
    rows.extend(broken.map(|(name, broken)| DocumentRow {
        href: DocumentId::new(None, DocumentKind::Agent, name).ok().and_then(|id| href(id.name())),
        name: text::line(name, 64),
        layer: String::new(),
        words: String::new(),
        tools: Vec::new(),
        broken: Some(text::line(&broken.reason, 240)),
        chat: None,
    }));
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    let list = List {
        title: "Agents".to_owned(),
        word: "agent",
        kind: DocumentKind::Agent,
        address: "/agents".to_owned(),
        rows,
        may_add: is_operator && access.may(Scope::AgentsWrite),
        links: Vec::new(),
    };
    answer(&access, Section::Agents, &query, list)
}

fn rows(listed: Vec<ListedTool>, of_workspace: Option<&str>, of_tenant: Option<&str>) -> Vec<DocumentRow> {
    let row = |tool: ListedTool| {
        let is_own = tool.of == "tenant";
        let place = if is_own { of_tenant } else { of_workspace };
        DocumentRow {
            href: place.filter(|_| tool.version.is_some()).map(|place| format!("{place}/{}", tool.name)),
            layer: if is_own { format!("tenant's {}", tool.layer) } else { tool.layer.to_owned() },
            name: tool.name,
            words: String::new(),
            tools: tool.tools,
            broken: None,
            chat: None,
        }
    };
    listed.into_iter().map(row).collect()
}

pub(super) async fn tools(
    state: State<Arc<Shared>>,
    Client(access): Client,
    query: Params<Query>,
) -> Result<Response, Problem> {
    if let Some(tenant) = access.tenant().map(str::to_owned) {
        return tools_of(state, Client(access), Path(tenant), query).await;
    }
    let (State(shared), Params(query)) = (state, query);
    shared.engine.look().await;
    let workspace = shared.engine.workspace();
    let all = listed(workspace.toolkits.iter().map(|(name, file)| (name.as_str(), file)).collect(), None);
    let list = List {
        title: "Tools".to_owned(),
        word: "tool",
        kind: DocumentKind::Tool,
        address: "/tools".to_owned(),
        rows: rows(all, Some("/tools"), None),
        may_add: access.may(Scope::ToolsWrite),
        links: vec![("Tenants and their tools".to_owned(), "/tenants".to_owned())],
    };
    Ok(answer(&access, Section::Tools, &query, list))
}

pub(super) async fn tools_of(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(tenant): Path<String>,
    Params(query): Params<Query>,
) -> Result<Response, Problem> {
    if !access.sees(&tenant) {
        return Err(no_document());
    }
    shared.engine.look().await;
    let workspace = shared.engine.workspace();
    workspace.check_tenant(&tenant).map_err(|_| no_document())?;
    let has_document = workspace.tenants.contains_key(&tenant);
    let address = format!("/tenants/{tenant}/tools");
    let of_workspace = access.tenant().is_none().then_some("/tools");
    let list = List {
        title: format!("Tools of {}", text::line(&tenant, 64)),
        word: "tool",
        kind: DocumentKind::Tool,
        rows: rows(of_tenant(&workspace, &tenant), of_workspace, Some(&address)),
        address,
        // The tenant of runs without one has no document, and no tools of its own.
        may_add: has_document && access.may(Scope::ToolsWrite),
        links: has_document
            .then(|| ("Document of the tenant".to_owned(), format!("/tenants/{tenant}")))
            .into_iter()
            .collect(),
    };
    Ok(answer(&access, Section::Tools, &query, list))
}

pub(super) async fn tenants(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Params(query): Params<Query>,
) -> Response {
    shared.engine.look().await;
    let workspace = shared.engine.workspace();
    let seen = workspace.tenants.values().filter(|tenant| access.sees(&tenant.name));
    let row = |tenant: &dalsegno_workspace::Tenant| DocumentRow {
        name: tenant.name.clone(),
        href: Some(format!("/tenants/{}/tools", tenant.name)),
        layer: if tenant.source.is_document() { "catalogue" } else { "file" }.to_owned(),
        words: text::line(&tenant.description, 240),
        tools: Vec::new(),
        broken: None,
        chat: None,
    };
    let list = List {
        title: "Tenants".to_owned(),
        word: "tenant",
        kind: DocumentKind::Tenant,
        address: "/tenants".to_owned(),
        rows: seen.map(row).collect(),
        may_add: access.tenant().is_none()
            && access.may(Scope::ToolsWrite)
            && access.may(Scope::TenantsAdmin),
        links: Vec::new(),
    };
    answer(&access, Section::Tools, &query, list)
}
