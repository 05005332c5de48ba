//! `GET /v1/runs/{id}/steps/{step}` and `GET /v1/diff`: a step of a run, and two runs side by side.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use dalsegno_access::Scope;
use dalsegno_history::{RunDiff, Walk};
use dalsegno_wire::{ShownStep, schema};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use crate::guard::Client;
use crate::params::Params;
use crate::problem::{Code, Problem};
use crate::routes::Route;
use crate::shared::Shared;

pub(crate) fn routes() -> Vec<Route> {
    let problems = [Code::NotFound, Code::Conflict, Code::Erased];
    vec![
        Route::of(Scope::RunsRead, routes!(step)).problems(&problems),
        Route::of(Scope::RunsRead, routes!(diff)).problems(&problems),
    ]
}

/// Shows a step of a run.
///
/// What was asked for and why, what came of it, the state when it was asked for, and what changed since the step before.
#[utoipa::path(
    get,
    path = "/v1/runs/{id}/steps/{step}",
    operation_id = "show_step",
    tag = "runs",
    params(
        ("id" = schema::RunId, Path, description = "The run."),
        ("step" = String, Path, description = "The number of a step of the run's own, or `end` for how it ended."),
    ),
    responses((status = 200, description = "The step.", body = ShownStep)),
)]
pub(crate) async fn step(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path((id, step)): Path<(String, String)>,
) -> Result<Json<ShownStep>, Problem> {
    let run = shared.run(&access, &id).await?.run;
    let own = Arc::clone(&shared);
    let shown = shared.costly.perform(&access, async move {
        let mut walk = own.pages.walks().open(own.journal(), run).await?;
        walk.read_all().await?;
        let place = place(&walk, &step)?;
        let scene = walk.scene(place).await?.ok_or_else(|| {
            let why = walk.unfolded().or(walk.unread()).map(ToString::to_string).unwrap_or_default();
            let detail = format!("the state of this step cannot be computed: {why}");
            Problem::new(Code::Conflict, detail, "see the records with `GET /v1/runs/{id}/events`")
        })?;
        Ok(ShownStep::of(run, &scene))
    });
    shown.await.map(Json)
}

/// The place of a step by its number, or of the end.
pub(crate) fn place(walk: &Walk, step: &str) -> Result<usize, Problem> {
    let outline = walk.outline();
    let found = match (step, step.parse::<u64>()) {
        ("end", _) => outline.ending.as_ref().map(|_| outline.steps.len()),
        (_, Ok(number)) => {
            let place = outline.place_of(number);
            outline.steps.get(place).filter(|one| one.step == number).map(|_| place)
        }
        (_, Err(_)) => None,
    };
    found.ok_or_else(|| {
        let help = match outline.shares {
            Some((run, first)) => format!("the steps before step {first} are those of run {run}"),
            None => "see the timeline of the run".to_owned(),
        };
        Problem::new(Code::NotFound, "the run has no such step of its own", help)
    })
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Sides {
    /// A run.
    #[param(value_type = schema::RunId)]
    left: String,
    /// Another run.
    #[param(value_type = schema::RunId)]
    right: String,
}

/// Compares two runs.
///
/// The first place at which they differ, and how their states, prompts and arguments differ there.
#[utoipa::path(
    get,
    path = "/v1/diff",
    operation_id = "compare_runs",
    tag = "runs",
    params(Sides),
    responses((status = 200, description = "The differences.", body = schema::RunDiff)),
)]
pub(crate) async fn diff(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Params(Sides { left, right }): Params<Sides>,
) -> Result<Json<RunDiff>, Problem> {
    let left = shared.run(&access, &left).await?.run;
    let right = shared.run(&access, &right).await?.run;
    let journal = shared.journal().clone();
    let found = shared.costly.perform(&access, async move { Ok(journal.diff(left, right).await?) });
    found.await.map(Json)
}
