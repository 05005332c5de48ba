//! `POST /v1/runs/{id}/pause` and `POST /v1/runs/{id}/resume`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use dalsegno_access::{Access, Scope};
use dalsegno_core::RunId;
use dalsegno_runtime::{EngineError, Pausing};
use dalsegno_store::AcquireError;
use dalsegno_wire::schema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::body;
use crate::guard::Client;
use crate::problem::{Code, Problem};
use crate::routes::Route;
use crate::shared::Shared;

pub(crate) fn routes() -> Vec<Route> {
    let problems = [Code::NotFound, Code::Conflict, Code::Erased];
    vec![
        Route::of(Scope::RunsWrite, routes!(pause)).problems(&problems),
        Route::of(Scope::RunsWrite, routes!(resume)).problems(&problems),
    ]
}

/// Why a run is paused.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Pause {
    /// The reason, which is recorded.
    #[serde(default)]
    reason: Option<String>,
}

/// What became of a pause.
#[derive(Serialize, ToSchema)]
struct PauseReceipt {
    /// The run.
    #[schema(value_type = schema::RunId)]
    run_id: RunId,
    /// Whether it is paused.
    pause: PauseState,
}

/// How far a pause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum PauseState {
    /// The run stands still.
    Paused,
    /// What is under way finishes first.
    Requested,
}

/// Pauses a run and its child runs.
///
/// Nothing new starts, and what is under way finishes and is recorded. The run stays paused until it is resumed, and no process resumes
/// it by itself. Meanwhile it takes answers, and it can be cancelled. To pause a call, or a run that has ended, is a conflict.
#[utoipa::path(
    post,
    path = "/v1/runs/{id}/pause",
    operation_id = "pause_run",
    tag = "runs",
    params(("id" = schema::RunId, Path, description = "The run.")),
    request_body(content = Pause, example = json!({ "reason": "the warehouse is closed" })),
    responses(
        (status = 200, description = "The run is paused.", body = PauseReceipt),
        (status = 202, description = "The process that performs the run pauses it when what is under way has finished.", body = PauseReceipt),
    ),
)]
async fn pause(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
    body::Json(Pause { reason }): body::Json<Pause>,
) -> Result<Response, Problem> {
    let (run_id, pause) = match hold(&shared, &access, &id, reason).await? {
        Pausing::Paused { run } => (run, PauseState::Paused),
        Pausing::Requested { run } => (run, PauseState::Requested),
        Pausing::Ended(report) => {
            let detail = format!("run {} ended before it was paused", report.run);
            return Err(Problem::new(Code::Conflict, detail, "see `GET /v1/runs/{id}`"));
        }
    };
    let status = if pause == PauseState::Paused { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(PauseReceipt { run_id, pause })).into_response())
}

/// Pauses a run that is in reach.
pub(crate) async fn hold(
    shared: &Arc<Shared>,
    access: &Access,
    id: &str,
    reason: Option<String>,
) -> Result<Pausing, Problem> {
    let run = shared.run(access, id).await?.run;
    let (actor, own) = (access.actor(), Arc::clone(shared));
    shared
        .whole(async move {
            let paused = own.engine.pause(run, Some(actor), reason).await?;
            // Who had it continue meanwhile may have found it owned by this request.
            if let Pausing::Requested { run } = &paused
                && let Ok(handle) = own.engine.resume(*run, Vec::new()).await
            {
                own.hands.hold(handle);
            }
            Ok(paused)
        })
        .await
}

/// What became of a run that was to be resumed.
#[derive(Serialize, ToSchema)]
struct ResumeReceipt {
    /// The run.
    #[schema(value_type = schema::RunId)]
    run_id: RunId,
    /// Who performs it.
    resume: ResumeState,
}

/// How a run is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResumeState {
    /// This server performs it.
    Resumed,
    /// Another task or process performs it, and was told.
    Requested,
}

/// Resumes a run that was paused, with its child runs, or one that no process performs.
///
/// A run that waits for a person still waits: send its answer. A run that has ended is a conflict.
#[utoipa::path(
    post,
    path = "/v1/runs/{id}/resume",
    operation_id = "resume_run",
    tag = "runs",
    params(("id" = schema::RunId, Path, description = "The run.")),
    responses(
        (status = 200, description = "This server performs the run.", body = ResumeReceipt),
        (status = 202, description = "Another task or process performs the run, and was told.", body = ResumeReceipt),
    ),
)]
async fn resume(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let (run_id, resume) = release(&shared, &access, &id).await?;
    let status = if resume == ResumeState::Resumed { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(ResumeReceipt { run_id, resume })).into_response())
}

/// Resumes a run that is in reach.
pub(crate) async fn release(
    shared: &Arc<Shared>,
    access: &Access,
    id: &str,
) -> Result<(RunId, ResumeState), Problem> {
    let summary = shared.run(access, id).await?;
    let (run, actor, own) = (summary.run, access.actor(), Arc::clone(shared));
    shared
        .whole(async move {
            let run = match own.engine.unpause(run, Some(actor)).await {
                Ok(run) => run,
                Err(EngineError::NotPaused { run }) => run,
                Err(error) => return Err(error.into()),
            };
            match own.engine.resume(run, Vec::new()).await {
                Ok(handle) => {
                    own.hands.hold(handle);
                    Ok((run, ResumeState::Resumed))
                }
                Err(EngineError::Acquire(AcquireError::Owned { .. })) => Ok((run, ResumeState::Requested)),
                Err(error) => Err(error.into()),
            }
        })
        .await
}
