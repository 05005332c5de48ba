//! The addresses of the server, each with the scope that it needs. Each file of handlers lists its own.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use dalsegno_access::Scope;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter, UtoipaMethodRouterExt as _};

use crate::problem::{Code, Problem};
use crate::shared::Shared;
use crate::{
    agents, answers, documents, events, fork, guard, health, inbox, listing, openapi, pages, pausing,
    protected, runs, sessions, steps, telephone, triggers, upkeep, webhooks,
};

/// One address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteInfo {
    /// The method.
    pub method: String,
    /// The path, with `{…}` for what changes.
    pub path: String,
    /// The scope that a key needs; none where no key is needed.
    pub scope: Option<Scope>,
}

/// A handler with its documentation, which has its method and path.
pub(crate) struct Route {
    pub(crate) info: RouteInfo,
    /// The problems that it answers with, besides those of the guards and of the reading of bodies.
    pub(crate) problems: Vec<Code>,
    pub(crate) documented: UtoipaMethodRouter<Arc<Shared>>,
}

impl Route {
    /// A route for keys with a scope: `Route::of(Scope::RunsRead, routes!(handler))`.
    pub(crate) fn of(scope: Scope, documented: UtoipaMethodRouter<Arc<Shared>>) -> Self {
        let open = Self::open(documented);
        Self { info: RouteInfo { scope: Some(scope), ..open.info }, ..open }
    }

    /// A route that needs no key.
    pub(crate) fn open(documented: UtoipaMethodRouter<Arc<Shared>>) -> Self {
        let (path, method) = place(&documented);
        Self { info: RouteInfo { method, path, scope: None }, problems: Vec::new(), documented }
    }

    /// The same with problems of its own.
    pub(crate) fn problems(self, problems: &[Code]) -> Self {
        Self { problems: problems.to_vec(), ..self }
    }
}

/// The path and the method of the one operation of a handler.
fn place(documented: &UtoipaMethodRouter<Arc<Shared>>) -> (String, String) {
    let Some((path, item)) = documented.1.paths.iter().next() else { return Default::default() };
    let methods = [
        ("GET", &item.get),
        ("PUT", &item.put),
        ("POST", &item.post),
        ("PATCH", &item.patch),
        ("DELETE", &item.delete),
    ];
    let method = methods.into_iter().find(|(_, operation)| operation.is_some()).map_or("", |(name, _)| name);
    (path.clone(), method.to_owned())
}

/// Every route, in the order of the documentation.
pub(crate) fn table() -> Vec<Route> {
    [
        listing::routes(),
        runs::routes(),
        pausing::routes(),
        events::routes(),
        answers::routes(),
        fork::routes(),
        steps::routes(),
        upkeep::routes(),
        sessions::routes(),
        inbox::routes(),
        triggers::routes(),
        telephone::routes(),
        agents::routes(),
        webhooks::routes(),
        documents::routes(),
        health::routes(),
        protected::routes(),
        openapi::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Every address of the server.
pub fn routes() -> Vec<RouteInfo> {
    table().into_iter().map(|route| route.info).collect()
}

/// The handlers of all addresses, behind what guards them.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let mut all = OpenApiRouter::default();
    for Route { info, documented, .. } in table() {
        let documented = match info.scope {
            Some(scope) => {
                let guard = from_fn_with_state((Arc::clone(&shared), scope), guard::scope);
                documented.map(|handler| handler.route_layer(guard))
            }
            None => documented,
        };
        all = all.routes(documented);
    }
    Router::from(all)
        .merge(pages::router(&shared))
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .layer(from_fn_with_state(Arc::clone(&shared), guard::host))
        .layer(from_fn(plain))
        .with_state(shared)
}

/// Says on every answer that browsers are to take it as what it says it is.
async fn plain(request: Request, next: axum::middleware::Next) -> Response {
    use axum::http::header::{HeaderValue, X_CONTENT_TYPE_OPTIONS};
    let mut response = next.run(request).await;
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn unknown(request: Request) -> Response {
    let problem =
        Problem::new(Code::NotFound, "there is nothing at this address", "see the addresses in the book");
    pages::dressed(&request, problem.into_response())
}

async fn other_method() -> Problem {
    Problem::new(Code::BadRequest, "this address does not take this method", "see the addresses in the book")
        .with_status(StatusCode::METHOD_NOT_ALLOWED)
}
