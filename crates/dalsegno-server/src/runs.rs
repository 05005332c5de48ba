//! `POST /v1/runs`, `GET /v1/runs/{id}` and `POST /v1/runs/{id}/cancel`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::{HeaderName, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use dalsegno_access::{Access, Scope};
use dalsegno_core::{AgentName, AgentRequest, RunId};
use dalsegno_runtime::{Cancelled, EngineError, StartOptions, Tailed};
use dalsegno_store::RunStatus;
use dalsegno_wire::{ErasedRun, Lineage, Standing};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::body;
use crate::guard::Client;
use crate::params::{self, Params};
use crate::problem::{Code, Problem};
use crate::shared::Shared;

/// What a run is started with.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    agent: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    data: Value,
    #[serde(default)]
    user: Value,
    #[serde(default)]
    session: Option<String>,
    /// The run to continue from.
    #[serde(default)]
    after: Option<String>,
    #[serde(default)]
    model: Option<String>,
    /// Only for a key of all tenants.
    #[serde(default)]
    tenant: Option<String>,
}

/// What a client learns of a run that it may start and not read.
#[derive(Serialize)]
struct Begun {
    run_id: RunId,
    agent: String,
    tenant: String,
    session: String,
    status: RunStatus,
}

pub(crate) async fn start(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    headers: HeaderMap,
    body::Json(start): body::Json<Start>,
) -> Result<Response, Problem> {
    if shared.is_stopping() {
        return Err(Problem::stopping());
    }
    let key = params::idempotency_key(&headers)?;
    let wait = params::preferred_wait(&headers)?;
    let Start { agent, text, data, user, session, after, model, tenant } = start;
    let agent: AgentName = agent.parse().map_err(|error| {
        let problem =
            Problem::new(Code::Invalid, format!("`agent` is no name: {error}"), "see `GET /v1/agents`");
        problem.at("/agent", "is no name of an agent")
    })?;
    if !(user.is_null() || user.is_object()) {
        let problem =
            Problem::new(Code::Invalid, "`user` is not an object", "send an object, or leave it out");
        return Err(problem.at("/user", "is not an object"));
    }
    for (pointer, name) in [("/session", &session), ("/model", &model), ("/tenant", &tenant)] {
        if let Some(name) = name {
            params::name(pointer, name)?;
        }
    }
    let request = AgentRequest { data, user, ..AgentRequest::text(&text) };
    let tenant = match (access.tenant(), tenant) {
        (Some(own), Some(other)) if own != other => {
            let detail = "the access key starts no runs of another tenant than its own";
            let problem = Problem::new(Code::Forbidden, detail, "leave `tenant` out");
            return Err(problem.at("/tenant", "is not the tenant of the access key"));
        }
        (Some(own), _) => own.to_owned(),
        (None, named) => named.unwrap_or_else(|| request.tenant.clone()),
    };
    let after = match after {
        Some(after) => {
            Some(shared.run(&access, &after).await.map_err(|problem| problem.at("/after", "is no run"))?.run)
        }
        None => None,
    };
    let options = StartOptions { key, session, model, after, ..StartOptions::default() };
    let request = AgentRequest { tenant, ..request };
    let own = Arc::clone(&shared);
    let started = async move {
        match own.engine.start(&agent, request, options).await {
            Ok(handle) => {
                let (run, is_new) = (handle.run(), handle.is_new());
                own.hands.hold(handle);
                Ok((run, is_new))
            }
            Err(EngineError::AlreadyRunning { run }) => Ok((run, false)),
            Err(error) => Err(error.into()),
        }
    };
    let (run, is_new) = Shared::whole(started).await?;
    let mut response = begun(&shared, &access, run, wait).await?;
    if !is_new {
        *response.status_mut() = StatusCode::OK;
        response
            .headers_mut()
            .insert(HeaderName::from_static("idempotency-replayed"), HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// The answer to a request that has begun a run.
pub(crate) async fn begun(
    shared: &Shared,
    access: &Access,
    run: RunId,
    wait: Option<Duration>,
) -> Result<Response, Problem> {
    if let Some(wait) = wait {
        rest(shared, run, wait).await?;
    }
    let mut response = match access.may(Scope::RunsRead) {
        true => Json(standing(shared, run).await?).into_response(),
        false => {
            let summary = shared.journal().summary(run).await?;
            let (tenant, session, status) = (summary.tenant, summary.session, summary.status);
            Json(Begun { run_id: run, agent: summary.agent.to_string(), tenant, session, status })
                .into_response()
        }
    };
    *response.status_mut() = StatusCode::CREATED;
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/runs/{run}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    if let Some(wait) = wait
        && let Ok(applied) = HeaderValue::from_str(&format!("wait={}", wait.as_secs()))
    {
        response.headers_mut().insert(HeaderName::from_static("preference-applied"), applied);
    }
    Ok(response)
}

/// Waits until a run has ended or is suspended, the time is over, or the server stops.
async fn rest(shared: &Shared, run: RunId, wait: Duration) -> Result<(), Problem> {
    let mut tail = shared.engine.tail(run, u64::MAX).await?;
    let rests = async {
        loop {
            match tail.next().await? {
                Tailed::Suspended(_) | Tailed::Ended(_) => return Ok::<_, Problem>(()),
                Tailed::Records(_) | Tailed::Delta { .. } => {}
            }
        }
    };
    tokio::select! {
        result = rests => result,
        () = tokio::time::sleep(wait) => Ok(()),
        () = shared.stopped() => Ok(()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShowQuery {
    wait: Option<String>,
}

pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
    Params(ShowQuery { wait }): Params<ShowQuery>,
) -> Result<Response, Problem> {
    let run = shared.run(&access, &id).await?;
    if let Some(wait) = wait {
        rest(&shared, run.run, params::wait(&wait, "wait")?).await?;
    }
    match standing(&shared, run.run).await {
        Ok(standing) => Ok(Json(standing).into_response()),
        // What the journal keeps of a run whose content was erased.
        Err(problem) if problem.is_erased() => Ok(Json(ErasedRun::of(&run)).into_response()),
        Err(problem) => Err(problem),
    }
}

async fn standing(shared: &Shared, run: RunId) -> Result<Standing, Problem> {
    let inspection = shared.journal().inspect(run, None).await?;
    let lineage = Lineage::of(&inspection, shared.journal()).await;
    Ok(Standing::of(&inspection, lineage))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancel {
    #[serde(default)]
    reason: Option<String>,
}

pub(crate) async fn cancel(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
    body::Json(Cancel { reason }): body::Json<Cancel>,
) -> Result<Response, Problem> {
    match end(&shared, &access, &id, reason).await? {
        Cancelled::Ended(report) => {
            Ok(Json(json!({ "run_id": report.run, "cancel": "cancelled" })).into_response())
        }
        // Another task or process performs it, and ends it.
        Cancelled::Requested { run } => {
            let told = Json(json!({ "run_id": run, "cancel": "requested" }));
            Ok((StatusCode::ACCEPTED, told).into_response())
        }
    }
}

/// Cancels a run that is in reach.
pub(crate) async fn end(
    shared: &Arc<Shared>,
    access: &Access,
    id: &str,
    reason: Option<String>,
) -> Result<Cancelled, Problem> {
    let run = shared.run(access, id).await?.run;
    let (actor, own) = (access.actor(), Arc::clone(shared));
    Shared::whole(async move { Ok(own.engine.cancel(run, Some(actor), reason).await?) }).await
}
