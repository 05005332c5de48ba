//! What is done with the records of a run: they are exported, replayed, and their content is erased.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::Response;
use dalsegno_access::Scope;
use dalsegno_core::RunId;
use dalsegno_wire::{Replayed, schema};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::body;
use crate::costly;
use crate::guard::Client;
use crate::params::Params;
use crate::problem::{Code, Problem};
use crate::routes::Route;
use crate::shared::Shared;

/// The content type of an archive.
const ARCHIVE: &str = "application/octet-stream";

pub(crate) fn routes() -> Vec<Route> {
    let reads = [Code::NotFound, Code::Erased];
    vec![
        Route::of(Scope::RunsRead, routes!(export)).problems(&reads),
        Route::of(Scope::RunsRead, routes!(replay)).problems(&reads),
        Route::of(Scope::RunsErase, routes!(erase)).problems(&[Code::NotFound, Code::Conflict]),
    ]
}

/// Exports a run as a portable file.
///
/// The file is what `dalsegno export` writes: the run with all that a replay of it reads, signed with the key of the workspace.
/// `dalsegno import` reads it.
#[utoipa::path(
    get,
    path = "/v1/runs/{id}/export",
    operation_id = "export_run",
    tag = "runs",
    params(("id" = schema::RunId, Path, description = "The run.")),
    responses((status = 200, description = "The archive.", body = Vec<u8>, content_type = "application/octet-stream", headers(
        ("Content-Disposition" = String, description = "A name for the file."),
    ))),
)]
pub(crate) async fn export(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let run = shared.run(&access, &id).await?.run;
    // It is held until its client has taken it, however slow that is.
    let taking = shared.costly.taking(&access).await?;
    let (own, reader) = (Arc::clone(&shared), access.clone());
    let signed = shared.costly.perform(&access, async move {
        let archive = own.journal().export(run).await?;
        for other in archive.runs() {
            // It brings along the runs that a replay of this one reads: those of its tenant.
            if !reader.sees(&own.journal().summary(other).await?.tenant) {
                return Err(Problem::no_run());
            }
        }
        Ok(own.engine.archives().sign(&archive)?)
    });
    let bytes = signed.await?;
    let length = bytes.len();
    let mut response = Response::new(costly::taken(bytes, taking));
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(ARCHIVE));
    if let Ok(name) = HeaderValue::from_str(&format!("attachment; filename=\"{run}.dalsegno\"")) {
        headers.insert(CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

/// How far a run is replayed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Replay {
    /// Replays until this step was asked for, and no further; the whole run without it.
    #[serde(default, deserialize_with = "body::whole")]
    until: Option<u64>,
}

/// Computes a run again from its journal, and compares.
///
/// Nothing is performed: no model, no tool and no memory is asked. A difference is no problem but the finding.
#[utoipa::path(
    post,
    path = "/v1/runs/{id}/replay",
    operation_id = "replay_run",
    tag = "runs",
    params(("id" = schema::RunId, Path, description = "The run.")),
    request_body(content = Replay, example = json!({})),
    responses((status = 200, description = "What came of it.", body = Replayed)),
)]
pub(crate) async fn replay(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
    body::Json(Replay { until }): body::Json<Replay>,
) -> Result<Json<Replayed>, Problem> {
    let run = shared.run(&access, &id).await?.run;
    let journal = shared.journal().clone();
    let replayed = shared.costly.perform(&access, async move {
        Ok(Replayed::of(&journal.replay_until(run, until.unwrap_or(u64::MAX)).await?))
    });
    replayed.await.map(Json)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EraseQuery {
    /// Also in the runs that hold what this one said: those that continue it in its session, forks, and child runs.
    everywhere: Option<bool>,
}

/// What was erased.
#[derive(Serialize, ToSchema)]
pub(crate) struct EraseReceipt {
    /// The run.
    #[schema(value_type = schema::RunId)]
    run_id: RunId,
    /// The records whose content was erased.
    records: u64,
    /// The files that were deleted.
    files: u64,
    /// The files that stay, since other runs use them.
    shared_files: u64,
    /// The other runs in which it was erased as well.
    #[schema(value_type = Vec<schema::RunId>)]
    erased_in: Vec<RunId>,
    /// The other runs that hold content of this one still: `everywhere` erases that, too.
    #[schema(value_type = Vec<schema::RunId>)]
    held_by: Vec<RunId>,
}

/// Erases the content of a run, for ever.
///
/// The run must have ended. Its records stay as the proof that they were there, and its entry stays in the listing; what it was
/// asked, what it answered and all that its records said is gone when the answer comes. Erasing again is no error.
#[utoipa::path(
    delete,
    path = "/v1/runs/{id}",
    operation_id = "erase_run",
    tag = "runs",
    params(("id" = schema::RunId, Path, description = "The run."), EraseQuery),
    responses((status = 200, description = "It is gone.", body = EraseReceipt)),
)]
pub(crate) async fn erase(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
    Params(EraseQuery { everywhere }): Params<EraseQuery>,
) -> Result<Json<EraseReceipt>, Problem> {
    let run = shared.run(&access, &id).await?.run;
    let is_everywhere = everywhere.unwrap_or(false);
    let own = Arc::clone(&shared);
    let erased = async move {
        let journal = own.journal();
        // Before anything is erased: the run itself says who continues it.
        let heirs = journal.heirs(run).await?;
        let mut seen = Vec::new();
        for heir in &heirs {
            if access.sees(&journal.summary(*heir).await?.tenant) {
                seen.push(*heir);
            } else if is_everywhere {
                let detail = "other tenants have runs with what this one said";
                return Err(Problem::new(Code::Conflict, detail, "erase them with a key of all tenants"));
            }
        }
        let (erased, erased_in, held_by) = match is_everywhere {
            true => {
                let (erased, everywhere) = journal.erase_everywhere(run).await?;
                (erased, everywhere, Vec::new())
            }
            false => (journal.erase(run, None).await?, Vec::new(), seen),
        };
        tracing::info!(%run, by = access.actor(), "the content of a run was erased");
        let (records, files, shared_files) = (erased.records, erased.files, erased.shared_files);
        Ok(EraseReceipt { run_id: run, records, files, shared_files, erased_in, held_by })
    };
    Ok(Json(shared.whole(erased).await?))
}
