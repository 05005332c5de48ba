//! `POST /v1/runs/{id}/answers`: a person's answer to what a run waits for.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::HeaderName;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use dalsegno_access::Access;
use dalsegno_core::{Answer as Recorded, OperationId, RunId};
use dalsegno_history::{Inspection, WaitingOperation};
use dalsegno_runtime::{EngineError, GateInput, RunEvent, RunHandle};
use dalsegno_store::{AcquireError, Body};
use dalsegno_wire::{Answer, Answered, Given as Said};
use serde_json::json;

use crate::body;
use crate::guard::Client;
use crate::params;
use crate::problem::{Code, Problem};
use crate::shared::Shared;

/// How long to wait for the journal to have an answer.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn answer(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
    body::Json(answer): body::Json<Answer>,
) -> Result<Response, Problem> {
    let run = shared.run(&access, &id).await?.run;
    let Given { operation, answer, is_replay } = give(&shared, &access, run, answer).await?;
    let mut response = told(run, operation, answer);
    if is_replay {
        let replayed = HeaderName::from_static("idempotency-replayed");
        response.headers_mut().insert(replayed, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// What came of an answer.
pub(crate) struct Given {
    operation: Option<OperationId>,
    pub(crate) answer: Answered,
    /// The same answer was there before.
    is_replay: bool,
}

/// Gives an answer to a run that is in reach.
pub(crate) async fn give(
    shared: &Arc<Shared>,
    access: &Access,
    run: RunId,
    answer: Answer,
) -> Result<Given, Problem> {
    let Answer { operation, shown, answer, by } = answer;
    if let Some(by) = &by {
        params::name("/by", by)?;
    }
    let inspection = shared.journal().inspect(run, None).await?;
    let waits = match find(&inspection, operation)? {
        Some(waits) => waits,
        // The same answer again, by a client that did not see the first one arrive.
        None if operation.is_some_and(|operation| has_answer(&inspection, operation, &answer)) => {
            return Ok(Given { operation, answer: Answered::Recorded, is_replay: true });
        }
        None => {
            let detail = match operation {
                Some(operation) => format!("operation {operation} of this run does not wait for an answer"),
                None => "the run does not wait for an answer".to_owned(),
            };
            return Err(Problem::new(Code::Conflict, detail, "see `waiting_for` in `GET /v1/runs/{id}`"));
        }
    };
    match shown {
        Some(shown) if shown != waits.shown() => {
            let detail = "the operation is not the one that was shown: it waits for something else by now";
            let problem = Problem::new(Code::Conflict, detail, "look at it again in `GET /v1/runs/{id}`");
            return Err(problem.at("/shown", "does not match"));
        }
        None if answer.is_approval() => {
            let detail = "an approval names what was shown to the person who gives it";
            let help = "send `shown` as `waiting_for` in `GET /v1/runs/{id}` has it";
            return Err(Problem::new(Code::Invalid, detail, help).at("/shown", "is missing"));
        }
        _ => {}
    }
    let by = match by {
        Some(person) => format!("{person}, by {}", access.actor()),
        None => access.actor(),
    };
    let operation = waits.operation;
    let input = GateInput::to(&waits, answer.into()).by(by);
    let shared = Arc::clone(shared);
    let given = async move {
        match shared.engine.resume(run, vec![input.clone()]).await {
            // The answer to a child run is passed on to it.
            Ok(handle) => Ok(match recorded(&shared, handle, operation).await {
                true => Answered::Recorded,
                false => Answered::PassedOn,
            }),
            Err(EngineError::Acquire(AcquireError::Owned { .. })) => {
                shared.engine.pass_on(run, vec![input]).await?;
                Ok(Answered::PassedOn)
            }
            Err(error) => Err(error.into()),
        }
    };
    let answer = Shared::whole(given).await?;
    Ok(Given { operation: Some(operation), answer, is_replay: false })
}

fn told(run: RunId, operation: Option<OperationId>, answer: Answered) -> Response {
    let status = match answer {
        Answered::Recorded => StatusCode::OK,
        Answered::PassedOn => StatusCode::ACCEPTED,
    };
    (status, Json(json!({ "run_id": run, "operation": operation, "answer": answer }))).into_response()
}

/// The operation that is meant; none if it does not wait.
fn find(
    inspection: &Inspection,
    operation: Option<OperationId>,
) -> Result<Option<WaitingOperation>, Problem> {
    match (operation, inspection.waiting.as_slice()) {
        (Some(operation), all) => Ok(all.iter().find(|one| one.operation == operation).cloned()),
        (None, []) => Ok(None),
        (None, [one]) => Ok(Some(one.clone())),
        (None, _) => {
            let detail = "the run waits for several answers, and none is named";
            let help = "send `operation` as `waiting_for` in `GET /v1/runs/{id}` has it";
            Err(Problem::new(Code::Invalid, detail, help).at("/operation", "is missing"))
        }
    }
}

/// Says whether an operation has this very answer.
fn has_answer(inspection: &Inspection, operation: OperationId, given: &Said) -> bool {
    let records = inspection.records.iter().rev().filter(|record| record.operation == Some(operation));
    let answer = records.filter_map(|record| match &record.body {
        Body::Answered { answer } => Some(answer),
        _ => None,
    });
    answer.take(1).any(|answer| match (answer, given) {
        (Recorded::Approved { edited: None, .. }, Said::Approve { arguments: None, .. })
        | (Recorded::Denied { .. }, Said::Deny { .. })
        | (Recorded::NotDone { .. }, Said::NotHappened {}) => true,
        (Recorded::Given { value, .. } | Recorded::Supplied { value, .. }, Said::Value(given)) => {
            value == given
        }
        (Recorded::Done { result, error: None, .. }, Said::Happened { result: given }) => result == given,
        (Recorded::Done { error: Some(error), .. }, Said::Refused { error: given }) => error == given,
        _ => false,
    })
}

/// Waits until the journal has the answer, and performs the run from there on.
async fn recorded(shared: &Shared, mut handle: RunHandle, operation: OperationId) -> bool {
    let answered = async {
        while let Some(event) = handle.next_event().await {
            if let RunEvent::Recorded { record, .. } = event
                && record.operation == Some(operation)
                && matches!(record.body, Body::Answered { .. })
            {
                return true;
            }
        }
        false
    };
    let is_recorded = tokio::time::timeout(PATIENCE, answered).await.unwrap_or(false);
    shared.hands.hold(handle);
    is_recorded
}
