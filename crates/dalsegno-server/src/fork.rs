//! `POST /v1/runs/{id}/fork`: a new run from any step of another.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use dalsegno_access::{Access, Scope};
use dalsegno_core::{OperationId, RunId};
use dalsegno_runtime::ForkOptions;
use serde::Deserialize;
use serde_json::Value;

use crate::body;
use crate::guard::Client;
use crate::params;
use crate::problem::Problem;
use crate::runs::begun;
use crate::shared::Shared;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkBody {
    /// The step that is asked for anew.
    #[serde(default)]
    pub(crate) at: Option<u64>,
    /// Outcomes by operation, in place of those that the run had.
    #[serde(default)]
    pub(crate) set: BTreeMap<OperationId, Value>,
    #[serde(default)]
    pub(crate) model: Option<String>,
    /// Effects that may not be repeated happen without a question.
    #[serde(default)]
    pub(crate) live_effects: bool,
}

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
    begun(&shared, &access, run, wait).await
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
        return Err(Problem::forbidden(Scope::AnswersWrite));
    }
    if at.is_none() && set.is_empty() {
        let message = "is missing: name the step that is asked for anew";
        return Err(Problem::parameter("at", message, "send `at` with a step, or `set` with outcomes"));
    }
    let options = ForkOptions { at, set: set.into_iter().collect(), config: None, model, live_effects };
    let own = Arc::clone(shared);
    let forked = async move {
        let handle = own.engine.fork(run, options).await?;
        let run = handle.run();
        own.hands.hold(handle);
        Ok(run)
    };
    Shared::whole(forked).await
}
