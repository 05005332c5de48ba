//! `POST /runs/{id}/answers`: what a person says to what a run waits for.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use dalsegno_core::OperationId;
use dalsegno_history::WaitingOperation;
use dalsegno_web::Section;
use dalsegno_web::inbox::{InboxPage, Typed, WaitingCard, read_answer};
use dalsegno_wire::{Answer, Answered, Given};
use serde_json::Value;

use super::form::Form;
use super::{local, shell, with_status, wrong};
use crate::answers;
use crate::guard::Client;
use crate::problem::Problem;
use crate::shared::Shared;

pub(super) async fn answer(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let summary = shared.run(&access, &id).await?;
    let help = "Send the form of the page of the run or of the inbox";
    let operation: OperationId = form
        .given("operation")
        .and_then(|operation| operation.parse().ok())
        .ok_or_else(|| wrong("the form does not name an operation", help))?;
    let inspection = shared.journal().inspect(summary.run, None).await?;
    let waits = inspection.waiting.iter().find(|one| one.operation == operation);
    let shown = form.given("shown");
    let given = read(&form, waits);
    let back = local(&form.text("back")).to_owned();
    let (refused, status) = match given {
        Ok(given) => {
            let answer = Answer { operation: Some(operation), shown, answer: given, by: None };
            match answers::give(&shared, &access, summary.run, answer).await {
                Ok(given) => return Ok(done(&back, given.answer)),
                // What was typed is shown again where it can be corrected.
                Err(problem) if waits.is_some() && problem.is_invalid() => {
                    let said = problem.document()["detail"].as_str().unwrap_or_default().to_owned();
                    (said, StatusCode::UNPROCESSABLE_ENTITY)
                }
                Err(problem) => return Err(problem),
            }
        }
        Err(said) => (said, StatusCode::UNPROCESSABLE_ENTITY),
    };
    let Some(waits) = waits else { return Err(wrong(refused, help)) };
    let shell = shell(&access, Section::Inbox);
    let card = WaitingCard {
        problem: Some(refused),
        typed: Typed {
            arguments: Some(form.text("arguments")).filter(|text| !text.is_empty()),
            value: form.text("value"),
            reason: form.text("reason"),
        },
        ..WaitingCard::of(waits, summary.agent.as_str(), shell.may_answer, &back)
    };
    let (cards, tabs, next, done) = (vec![card], Vec::new(), None, None);
    let page = InboxPage {
        shell,
        cards,
        tabs,
        next,
        first: Some("/inbox".to_owned()),
        is_filtered: false,
        done,
        live: None,
    };
    Ok(with_status(status, &page))
}

fn done(back: &str, answer: Answered) -> Response {
    let address = match (back.split(['?', '#']).next() == Some("/inbox"), answer) {
        (true, Answered::Recorded) => "/inbox?done=recorded",
        (true, Answered::PassedOn) => "/inbox?done=passed_on",
        (false, _) => back,
    };
    Redirect::to(address).into_response()
}

/// Reads the answer in a form to what waits.
fn read(form: &Form, waits: Option<&WaitingOperation>) -> Result<Given, String> {
    let reason = form.given("reason");
    let result = |text: Option<String>| {
        text.map(|text| {
            serde_json::from_str(&text).map_err(|error| format!("The result is not JSON: {error}."))
        })
        .transpose()
    };
    Ok(match form.text("do").as_str() {
        "approve" => {
            let edited = form.given("arguments");
            let edited: Option<Value> = edited
                .map(|text| {
                    serde_json::from_str(&text)
                        .map_err(|error| format!("The arguments are not JSON: {error}."))
                })
                .transpose()?;
            // The form holds them in any case: those that are as they were asked for are no edit.
            let original = waits.and_then(|waits| waits.arguments.as_ref());
            Given::Approve { arguments: edited.filter(|edited| Some(edited) != original), reason }
        }
        "deny" => Given::Deny { reason },
        "value" => {
            let schema = waits.and_then(|waits| waits.schema.as_ref());
            Given::Value(read_answer(&form.text("value"), schema)?)
        }
        "happened" => Given::Happened { result: result(form.given("value"))? },
        "not_happened" => Given::NotHappened {},
        "refused" => Given::Refused {
            error: form
                .given("value")
                .ok_or("Say why it was refused: the run continues with these words.")?,
        },
        _ => return Err("The form does not say what to do.".to_owned()),
    })
}
