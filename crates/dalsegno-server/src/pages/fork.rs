//! `/runs/{id}/fork`: the form that forks a run, and what it sends.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use dalsegno_access::{Access, Scope};
use dalsegno_core::OperationId;
use dalsegno_store::RunSummary;
use dalsegno_web::Section;
use dalsegno_web::fork::{Edited, ForkPage};
use dalsegno_web::run::RunHead;
use serde::Deserialize;
use serde_json::json;

use super::form::Form;
use super::{shell, with_status, wrong};
use crate::fork::{self, ForkBody};
use crate::guard::Client;
use crate::params::Params;
use crate::problem::{Code, Problem};
use crate::shared::Shared;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    /// The operation whose outcome is edited.
    op: Option<String>,
    /// The step that is asked for anew.
    #[serde(default)]
    at: String,
}

pub(super) async fn ask(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
    Params(Query { op, at }): Params<Query>,
) -> Result<Response, Problem> {
    let summary = shared.run(&access, &id).await?;
    let edited = edited(&shared, &access, &summary, op.as_deref()).await?;
    Ok(with_status(StatusCode::OK, &page(&shared, &access, &summary, edited, at)))
}

fn page(
    shared: &Shared,
    access: &Access,
    summary: &RunSummary,
    edited: Option<Edited>,
    at: String,
) -> ForkPage {
    ForkPage {
        shell: shell(access, Section::Runs),
        head: RunHead::of(summary, shared.journal().is_performed(summary)),
        edited,
        at,
        model: String::new(),
        problem: None,
    }
}

/// The outcome of an operation, to be edited.
async fn edited(
    shared: &Arc<Shared>,
    access: &Access,
    summary: &RunSummary,
    op: Option<&str>,
) -> Result<Option<Edited>, Problem> {
    let Some(op) = op else { return Ok(None) };
    if !access.may(Scope::AnswersWrite) {
        return Err(Problem::forbidden(access, Scope::AnswersWrite));
    }
    let none = || {
        Problem::new(Code::NotFound, "the run has no such operation of its own", "follow the links of a step")
    };
    let operation: OperationId = op.parse().map_err(|_| none())?;
    let (own, run) = (Arc::clone(shared), summary.run);
    let scene = shared.costly.perform(access, async move {
        let mut walk = own.pages.walks.open(own.journal(), run).await?;
        walk.read_all().await?;
        let (place, _) = walk.outline().find(operation).ok_or_else(none)?;
        walk.scene(place).await?.ok_or_else(|| {
            wrong(
                "the state of this step cannot be computed",
                "see the page of the run: it says from which record on",
            )
        })
    });
    let scene = scene.await?;
    let view = scene.view.operations.iter().find(|view| view.operation == operation).ok_or_else(none)?;
    let outcome = format!("{:#}", json!({ "outcome": view.outcome }));
    Ok(Some(Edited {
        operation: operation.to_string(),
        label: dalsegno_web::text::line(&view.label.replace('`', ""), 120),
        step: scene.view.step,
        recorded: dalsegno_web::text::shown(&outcome, usize::MAX),
        outcome,
    }))
}

pub(super) async fn fork(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let summary = shared.run(&access, &id).await?;
    let (op, at, model) = (form.given("op"), form.text("at"), form.given("model"));
    let refused = match read(&form, op.as_deref(), at.trim(), model.clone()) {
        Ok(body) => match fork::perform(&shared, &access, &id, body).await {
            Ok(run) => return Ok(Redirect::to(&format!("/runs/{run}")).into_response()),
            // A step or an outcome that does not fit the run can be corrected as well.
            Err(problem) if problem.is_invalid() || problem.is_conflict() => {
                problem.document()["detail"].as_str().unwrap_or_default().to_owned()
            }
            Err(problem) => return Err(problem),
        },
        Err(said) => said,
    };
    // What was typed is shown again, to be corrected.
    let edited = edited(&shared, &access, &summary, op.as_deref()).await?;
    let edited = edited.map(|edited| Edited { outcome: form.text("outcome"), ..edited });
    let page = ForkPage {
        model: model.unwrap_or_default(),
        problem: Some(refused),
        ..page(&shared, &access, &summary, edited, at)
    };
    Ok(with_status(StatusCode::UNPROCESSABLE_ENTITY, &page))
}

fn read(form: &Form, op: Option<&str>, at: &str, model: Option<String>) -> Result<ForkBody, String> {
    let mut body = ForkBody { model, ..ForkBody::default() };
    match op {
        Some(op) => {
            let operation = op.parse().map_err(|_| "The form does not name an operation.".to_owned())?;
            let outcome = form.text("outcome");
            let outcome = serde_json::from_str(&outcome)
                .map_err(|error| format!("The outcome is not JSON: {error}."))?;
            body.set.insert(operation, outcome);
        }
        None => {
            let step = at.parse().map_err(|_| "The step is not a number: steps count from 1.".to_owned())?;
            body.at = Some(step);
        }
    }
    Ok(body)
}
