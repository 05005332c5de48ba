//! Whether the process lives, whether it takes work, and what it counts.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use dalsegno_telemetry::Metrics;

use crate::guard::Client;
use crate::problem::{Code, Problem};
use crate::shared::Shared;

/// The process answers.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// The process takes work: the journal can be read, and the server is not stopping.
pub(crate) async fn ready(State(shared): State<Arc<Shared>>) -> Result<&'static str, Problem> {
    if shared.is_stopping() {
        return Err(Problem::stopping());
    }
    shared.journal().store().version().await?;
    Ok("ok\n")
}

/// What the process counts, for Prometheus. It is of all tenants.
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
