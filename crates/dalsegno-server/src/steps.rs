//! `GET /v1/runs/{id}/steps/{step}` and `GET /v1/diff`: a step of a run, and two runs side by side.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use dalsegno_history::{RunDiff, Walk};
use dalsegno_wire::Step;
use serde::Deserialize;

use crate::guard::Client;
use crate::params::Params;
use crate::problem::{Code, Problem};
use crate::shared::Shared;

/// Shows a step with its state, or the end of a run.
pub(crate) async fn step(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path((id, step)): Path<(String, String)>,
) -> Result<Json<Step>, Problem> {
    let run = shared.run(&access, &id).await?.run;
    let mut walk = shared.pages.walks().open(shared.journal(), run).await?;
    walk.read_all().await?;
    let place = place(&walk, &step)?;
    let scene = walk.scene(place).await?.ok_or_else(|| {
        let why = walk.unfolded().or(walk.unread()).map(ToString::to_string).unwrap_or_default();
        let detail = format!("the state of this step cannot be computed: {why}");
        Problem::new(Code::Conflict, detail, "see the records with `GET /v1/runs/{id}/events`")
    })?;
    Ok(Json(Step::of(run, &scene)))
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sides {
    left: String,
    right: String,
}

/// Shows how two runs differ.
pub(crate) async fn diff(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Params(Sides { left, right }): Params<Sides>,
) -> Result<Json<RunDiff>, Problem> {
    let left = shared.run(&access, &left).await?.run;
    let right = shared.run(&access, &right).await?.run;
    Ok(Json(shared.journal().diff(left, right).await?))
}
