//! The addresses of the server, each with the scope that it needs.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use dalsegno_access::Scope;

use crate::problem::{Code, Problem};
use crate::shared::Shared;
use crate::{agents, answers, documents, events, fork, guard, health, inbox, listing, runs};

/// One address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteInfo {
    /// The method.
    pub method: &'static str,
    /// The path, with `{…}` for what changes.
    pub path: &'static str,
    /// The scope that a key needs; none where no key is needed.
    pub scope: Option<Scope>,
}

type Handler = MethodRouter<Arc<Shared>>;

fn table() -> Vec<(&'static str, &'static str, Option<Scope>, Handler)> {
    let mut table = vec![
        ("GET", "/v1/runs", Some(Scope::RunsList), get(listing::list)),
        ("POST", "/v1/runs", Some(Scope::RunsWrite), post(runs::start)),
        ("GET", "/v1/runs/{id}", Some(Scope::RunsRead), get(runs::show)),
        ("GET", "/v1/runs/{id}/events", Some(Scope::RunsRead), get(events::events)),
        ("POST", "/v1/runs/{id}/answers", Some(Scope::AnswersWrite), post(answers::answer)),
        ("POST", "/v1/runs/{id}/cancel", Some(Scope::RunsWrite), post(runs::cancel)),
        ("POST", "/v1/runs/{id}/fork", Some(Scope::RunsWrite), post(fork::fork)),
        ("GET", "/v1/inbox", Some(Scope::RunsRead), get(inbox::list)),
        ("GET", "/v1/agents", Some(Scope::AgentsRead), get(agents::list)),
        ("GET", "/metrics", Some(Scope::MetricsRead), get(health::metrics)),
        ("GET", "/livez", None, get(health::live)),
        ("GET", "/readyz", None, get(health::ready)),
    ];
    table.extend(documents::table());
    table
}

/// Every address of the server.
pub fn routes() -> Vec<RouteInfo> {
    table().into_iter().map(|(method, path, scope, _)| RouteInfo { method, path, scope }).collect()
}

/// The handlers of all addresses, behind what guards them.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let mut router = Router::new();
    for (_, path, scope, handler) in table() {
        let handler = match scope {
            Some(scope) => {
                handler.route_layer(from_fn_with_state((Arc::clone(&shared), scope), guard::scope))
            }
            None => handler,
        };
        router = router.route(path, handler);
    }
    router
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

async fn unknown() -> Problem {
    Problem::new(Code::NotFound, "there is nothing at this address", "see the addresses in the book")
}

async fn other_method() -> Problem {
    Problem::new(Code::BadRequest, "this address does not take this method", "see the addresses in the book")
        .with_status(StatusCode::METHOD_NOT_ALLOWED)
}
