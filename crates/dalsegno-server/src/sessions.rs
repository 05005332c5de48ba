//! `GET /v1/sessions/{name}`: a conversation, run by run.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use dalsegno_access::Scope;
use dalsegno_store::RunFilter;
use dalsegno_wire::Listed;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::cursor::List;
use crate::guard::Client;
use crate::link;
use crate::listing::{Page, begin, cut, formed, listed, page, tenant_filter};
use crate::params::Params;
use crate::problem::{Code, Problem};
use crate::routes::Route;
use crate::shared::Shared;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Query {
    /// The tenant of the session; all of them without it, for a key of all tenants.
    tenant: Option<String>,
    /// The most runs of a page; 50 without it.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
    /// The `next` of the page before.
    #[param(pattern = "^[A-Za-z0-9_-]{32}$")]
    cursor: Option<String>,
}

/// A run of a session: a message, and what came of it.
#[derive(Serialize, ToSchema)]
pub(crate) struct Turn {
    #[serde(flatten)]
    run: Listed,
    /// What it answered, if it has ended with an answer and that can be read.
    #[schema(required)]
    answer: Option<String>,
}

pub(crate) fn routes() -> Vec<Route> {
    vec![Route::of(Scope::RunsRead, routes!(show)).problems(&[Code::NotFound])]
}

/// Shows a session.
///
/// Its runs, the newest first, each with the message that began it (`text`) and its answer. The child runs of these are not among
/// them.
#[utoipa::path(
    get,
    path = "/v1/sessions/{name}",
    operation_id = "show_session",
    tag = "runs",
    params(("name" = String, Path, description = "The session.", max_length = 256), Query),
    responses((status = 200, description = "A page of its runs.", body = Page<Turn>, headers(
        ("Link" = String, description = "The address of the next page, with `rel=\"next\"`."),
    ))),
)]
pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(name): Path<String>,
    uri: Uri,
    Params(query): Params<Query>,
) -> Result<Response, Problem> {
    let Query { tenant, limit, cursor } = query;
    let unknown = || {
        let help = "see the sessions of runs in `GET /v1/runs`";
        Problem::new(Code::NotFound, "there is no such session", help)
    };
    let list = List::of("session", &serde_json::json!([access.tenant(), name, tenant]));
    let limit = page(limit)?;
    formed(cursor.as_deref())?;
    let tenant = tenant_filter(&access, tenant).ok_or_else(unknown)?;
    let filter = RunFilter {
        tenant,
        session: Some(name),
        roots_only: true,
        after: begin(&shared, &access, &list, cursor).await?,
        limit: limit + 1,
        ..RunFilter::default()
    };
    let mut found = shared.journal().runs(&filter).await?;
    if found.is_empty() && filter.after.is_none() {
        return Err(unknown());
    }
    let next = cut(&list, &mut found, limit);
    let mut items = Vec::with_capacity(found.len());
    for run in &found {
        // That of an erased or damaged run cannot be read, and the rest of its line can.
        let response = shared.journal().recorded_response(run).await.ok().flatten();
        items.push(Turn {
            run: listed(&shared, &access, run).await,
            answer: response.and_then(|end| end.answer),
        });
    }
    let page = Page { items, next };
    Ok(link::page(&uri, &page, page.next.as_deref().map(|next| ("cursor", next))))
}
