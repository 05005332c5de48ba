//! Whether the process lives, whether it takes work, and what it counts.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use dalsegno_access::Scope;
use dalsegno_history::Journal;
use dalsegno_telemetry::Metrics;
use tokio::sync::Mutex;
use tokio::time::Instant;
use utoipa_axum::routes;

use crate::guard::Client;
use crate::problem::{self, Code, Problem};
use crate::routes::Route;
use crate::shared::Shared;

/// How long what was found stands: those who ask have no key, and a write is a flush of the disk.
const FRESH: Duration = Duration::from_secs(1);

/// The longest that a write may take: those who ask wait for it, and have no key.
const PROBED_WITHIN: Duration = Duration::from_secs(2);

/// Whether the journal could be written, and when that was found out.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, bool)>>);

impl Readiness {
    async fn check(&self, journal: &Journal) -> Result<(), Problem> {
        let mut found = self.0.lock().await;
        let is_ready = match *found {
            Some((at, is_ready)) if at.elapsed() < FRESH => is_ready,
            _ => {
                let is_ready = match tokio::time::timeout(PROBED_WITHIN, journal.store().probe()).await {
                    Ok(Ok(())) => true,
                    Ok(Err(error)) => {
                        tracing::error!(%error, "the journal cannot be written");
                        false
                    }
                    Err(_) => {
                        tracing::error!("the journal takes no write within {PROBED_WITHIN:?}");
                        false
                    }
                };
                *found = Some((Instant::now(), is_ready));
                is_ready
            }
        };
        match is_ready {
            true => Ok(()),
            false => {
                let help = "see the log of the server, and whether its disk is full or read-only";
                Err(Problem::new(Code::Unavailable, "the journal cannot be written", help).retry_after(2))
            }
        }
    }
}

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
/// It does if the journal can be written and the server is not stopping. What a second ago was found stands.
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
    shared.readiness.check(shared.journal()).await?;
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
            format!("the metrics are of all tenants, and the {} is of one", problem::shown(&access)),
            "use a key that was made with `dalsegno key add --all-tenants`",
        ));
    }
    let metrics = shared.telemetry.metrics();
    metrics.set_load(&shared.engine.load());
    let load = shared.webhooks.call(dalsegno_webhooks::WebhookStore::load).await?;
    metrics.set_webhooks(load.waiting, load.off);
    Ok(([(CONTENT_TYPE, Metrics::CONTENT_TYPE)], metrics.encode()))
}
