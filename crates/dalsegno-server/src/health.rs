//! Whether the process lives, whether it takes work, and what it counts.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use dalsegno_access::Scope;
use dalsegno_telemetry::Metrics;
use utoipa_axum::routes;

use crate::guard::Client;
use crate::problem::{Code, Problem};
use crate::routes::Route;
use crate::shared::Shared;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::open(routes!(live)),
        Route::open(routes!(ready)).problems(&[Code::Unavailable]),
        Route::of(Scope::MetricsRead, routes!(metrics)),
    ]
}

/// Says that the process answers.
#[utoipa::path(
    get,
    path = "/livez",
    operation_id = "live",
    tag = "server",
    responses((status = 200, description = "It does.", body = String, content_type = "text/plain")),
)]
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// Says whether the process takes work.
///
/// It does if the journal can be read and the server is not stopping.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "ready",
    tag = "server",
    responses((status = 200, description = "It does.", body = String, content_type = "text/plain")),
)]
pub(crate) async fn ready(State(shared): State<Arc<Shared>>) -> Result<&'static str, Problem> {
    if shared.is_stopping() {
        return Err(Problem::stopping());
    }
    shared.journal().store().version().await?;
    Ok("ok\n")
}

/// Reads what the process counts.
///
/// For Prometheus, in the format of OpenMetrics. It is of all tenants, so it needs a key of all tenants.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    tag = "server",
    responses((status = 200, description = "The metrics.", body = String, content_type = "application/openmetrics-text")),
)]
pub(crate) async fn metrics(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
) -> Result<impl IntoResponse, Problem> {
    if access.tenant().is_some() {
        return Err(Problem::new(
            Code::Forbidden,
            "the metrics are of all tenants, and the access key is of one",
            "use a key that was made without `--tenant`",
        ));
    }
    let metrics = shared.telemetry.metrics();
    metrics.set_load(&shared.engine.load());
    Ok(([(CONTENT_TYPE, Metrics::CONTENT_TYPE)], metrics.encode()))
}
