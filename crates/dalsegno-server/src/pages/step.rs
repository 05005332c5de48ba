//! `GET /runs/{id}/steps/{step}`: a step, or the end of a run.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use dalsegno_access::{Access, Scope};
use dalsegno_core::{OperationId, Request, RunId};
use dalsegno_history::{Scene, Walk};
use dalsegno_store::RunSummary;
use dalsegno_web::Section;
use dalsegno_web::run::{RunHead, Timeline, row_of};
use dalsegno_web::step::{Around, StepBody, StepPage};
use dalsegno_web::text;
use dalsegno_web::why::Why;
use serde::Deserialize;

use super::run::stops;
use super::{html, shell};
use crate::guard::Client;
use crate::params::Params;
use crate::problem::Problem;
use crate::shared::Shared;
use crate::steps::place;

/// Most records of a run whose values are traced without being asked: each look folds the run up to the step.
const TRACED: u64 = 600;
/// Most operations of a step whose values are traced without being asked.
const TRACED_OPERATIONS: usize = 12;

/// Rows that the rail shows before those of the step.
const BEFORE: usize = 40;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    /// The operation whose values are traced.
    why: Option<String>,
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path((id, step)): Path<(String, String)>,
    Params(Query { why }): Params<Query>,
) -> Result<Response, Problem> {
    let summary = shared.run(&access, &id).await?;
    let (own, reader) = (Arc::clone(&shared), access.clone());
    let walked =
        shared.costly.perform(&access, async move { walked(&own, &reader, &summary, &step, why).await });
    Ok(html(&walked.await?))
}

/// The page of a step.
async fn walked(
    shared: &Shared,
    access: &Access,
    summary: &RunSummary,
    step: &str,
    why: Option<String>,
) -> Result<StepPage, Problem> {
    let mut walk = shared.pages.walks.open(shared.journal(), summary.run).await?;
    walk.read_all().await?;
    let place = place(&walk, step)?;
    let scene = walk.scene(place).await?;
    let asked = why.as_deref().map(str::parse).transpose().map_err(|_| {
        Problem::parameter("why", "is not an operation", "follow the links of the page of the step")
    })?;
    let traced = match &scene {
        Some(scene) => trace(shared, summary, scene, asked).await,
        None => Vec::new(),
    };
    Ok(page(shared, access, summary, &walk, (place, scene.as_ref()), &traced))
}

/// Where the values of requests came from: of the operation that is asked about, else of all, if that is quick.
async fn trace(
    shared: &Shared,
    summary: &RunSummary,
    scene: &Scene,
    asked: Option<OperationId>,
) -> Vec<(OperationId, Why)> {
    let operations = scene.view.operations.iter();
    let has_values = |request: &Request| {
        !matches!(request, Request::ModelCompletion(_) | Request::Timer(_) | Request::Input(_))
    };
    let wanted = operations.filter(|one| match asked {
        Some(asked) => one.operation == asked,
        None => summary.records <= TRACED && has_values(&one.request),
    });
    let mut traced = Vec::new();
    for one in wanted.take(TRACED_OPERATIONS) {
        if let Ok(Some(found)) = shared.journal().why(summary.run, one.operation).await {
            traced.push((one.operation, Why::of(summary.run, &found)));
        }
    }
    traced
}

fn page(
    shared: &Shared,
    access: &Access,
    summary: &RunSummary,
    walk: &Walk,
    (place, scene): (usize, Option<&Scene>),
    why: &[(OperationId, Why)],
) -> StepPage {
    let outline = walk.outline();
    let run: RunId = summary.run;
    let number = |place: usize| match outline.steps.get(place) {
        Some(step) => Some(step.step.to_string()),
        None => outline.ending.as_ref().filter(|_| place == outline.steps.len()).map(|_| "end".to_owned()),
    };
    let address = |place: usize| number(place).map(|number| format!("/runs/{run}/steps/{number}"));
    let number_here = number(place).unwrap_or_default();
    let at =
        outline.steps.get(place).map(|step| step.at).or_else(|| outline.ending.as_ref().map(|end| end.at));
    let started = summary.started_at.as_millis();
    let offset = at.map(|at| format!("+{}", text::duration(at.as_millis().saturating_sub(started))));
    let shell = shell(access, Section::Runs);
    let around = Around {
        run,
        started,
        is_over: summary.status.is_end(),
        may_fork: shell.may_write && summary.foreign.is_none(),
        may_edit: access.may(Scope::AnswersWrite),
        why,
    };
    StepPage {
        head: RunHead::of(summary, shared.journal().is_performed(summary)),
        offset: offset.unwrap_or_default(),
        previous: place.checked_sub(1).and_then(address),
        next: address(place + 1),
        rail: Timeline::of(walk, row_of(outline, place).saturating_sub(BEFORE), Some(&number_here)),
        body: scene.map(|scene| StepBody::of(scene, &around)),
        stops: stops(walk),
        number: number_here,
        shell,
    }
}
