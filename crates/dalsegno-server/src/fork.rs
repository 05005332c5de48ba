//! `POST /v1/runs/{id}/fork`: a new run from any step of another.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use dalsegno_access::{Access, Scope};
use dalsegno_core::{OperationId, RunId};
use dalsegno_runtime::ForkOptions;
use dalsegno_wire::schema;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::body;
use crate::guard::Client;
use crate::params;
use crate::problem::{Code, Problem};
use crate::routes::Route;
use crate::runs::{Beginning, Launched, begun, known_model};
use crate::shared::Shared;

/// Where a run is forked, and what differs.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Fork)]
pub(crate) struct ForkBody {
    /// The step that is asked for anew; without it, the one after the replaced outcomes, or else the last one.
    #[serde(default, deserialize_with = "body::whole")]
    #[schema(minimum = 1)]
    pub(crate) at: Option<u64>,
    /// Outcomes by operation, in place of those that the run had.
    #[serde(default)]
    #[schema(schema_with = outcomes)]
    pub(crate) set: BTreeMap<OperationId, Value>,
    /// Another model of `dalsegno.toml`.
    #[serde(default)]
    pub(crate) model: Option<String>,
    /// Effects that may not be repeated happen without a question. It needs the scope `answers:write`.
    #[serde(default)]
    pub(crate) live_effects: bool,
}

fn outcomes() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
    schema::by_operation(
        "Outcomes by operation, in place of those that the run had. It needs the scope `answers:write`.",
    )
}

pub(crate) fn routes() -> Vec<Route> {
    let problems = [Code::NotFound, Code::Conflict, Code::Erased];
    vec![Route::of(Scope::RunsWrite, routes!(fork)).problems(&problems)]
}

/// Starts a run from a step of another one.
///
/// The new run shares the records before that step. A fork that is sent twice is two forks.
#[utoipa::path(
    post,
    path = "/v1/runs/{id}/fork",
    operation_id = "fork_run",
    tag = "runs",
    params(
        ("id" = schema::RunId, Path, description = "The run."),
        ("Prefer" = Option<String>, Header, description = "`wait=30` waits up to 30 seconds until the new run ends or is suspended; at most 60."),
    ),
    request_body(content = ForkBody, example = json!({ "at": 2 })),
    responses((status = 201, description = "The new run.", body = Beginning, headers(
        ("Location" = String, description = "The address of the new run."),
        ("Preference-Applied" = String, description = "The `Prefer` that was followed."),
    ))),
)]
pub(crate) async fn fork(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
    headers: HeaderMap,
    body::Json(fork): body::Json<ForkBody>,
) -> Result<Response, Problem> {
    if params::idempotency_key(&headers)?.is_some() {
        let help = "leave it out; a fork that is sent twice is two forks";
        return Err(Problem::parameter("idempotency-key", "is not taken for forks", help));
    }
    let wait = params::preferred_wait(&headers)?;
    let run = perform(&shared, &access, &id, fork).await?;
    begun(&shared, &access, Launched::of(run, true), wait).await
}

/// Forks a run that is in reach, and performs the fork.
pub(crate) async fn perform(
    shared: &Arc<Shared>,
    access: &Access,
    id: &str,
    fork: ForkBody,
) -> Result<RunId, Problem> {
    if shared.is_stopping() {
        return Err(Problem::stopping());
    }
    let run = shared.run(access, id).await?.run;
    let ForkBody { at, set, model, live_effects } = fork;
    // An outcome may be a person's answer, and effects that do not ask are agreed to in advance.
    if (live_effects || !set.is_empty()) && !access.may(Scope::AnswersWrite) {
        return Err(Problem::forbidden(access, Scope::AnswersWrite));
    }
    known_model(shared, model.as_deref())?;
    let own = Arc::clone(shared);
    // To the end: a run that was begun half-way would be performed by no process.
    let beginning = shared.hands.begin();
    let forked = shared.costly.complete(access, async move {
        let _beginning = beginning;
        let at = match at {
            None if set.is_empty() => Some(own.journal().latest(run).await?.state.step().max(1)),
            at => at,
        };
        let options = ForkOptions { at, set: set.into_iter().collect(), config: None, model, live_effects };
        let handle = own.engine.fork(run, options).await?;
        let run = handle.run();
        own.hands.hold(handle);
        Ok(run)
    });
    forked.await
}
