//! `POST /v1/runs/{id}/answers`: a person's answer to what a run waits for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::HeaderName;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use dalsegno_access::{Access, Scope};
use dalsegno_core::{Answer as Recorded, OperationId, RunId, Validation};
use dalsegno_history::{Journal, WaitingOperation};
use dalsegno_runtime::{EngineError, GateInput, RunEvent, RunHandle};
use dalsegno_store::{AcquireError, Body, ReadError, RunFilter};
use dalsegno_wire::{Answer, Answered, Given as Said, schema};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::body;
use crate::guard::Client;
use crate::params;
use crate::problem::{Code, Problem};
use crate::routes::Route;
use crate::shared::Shared;

/// How long to wait for the journal to have an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The records of a run that are read at once.
const PAGE: usize = 500;

/// What became of an answer.
#[derive(Serialize, ToSchema)]
#[schema(as = AnswerReceipt)]
struct Receipt {
    /// The run.
    #[schema(value_type = schema::RunId)]
    run_id: RunId,
    /// The operation that was answered.
    #[schema(value_type = Option<schema::OperationId>, required)]
    operation: Option<OperationId>,
    /// Whether the journal has it.
    answer: Answered,
}

pub(crate) fn routes() -> Vec<Route> {
    let problems = [Code::NotFound, Code::Conflict, Code::Invalid, Code::Erased];
    vec![Route::of(Scope::AnswersWrite, routes!(answer)).problems(&problems)]
}

/// Answers what a run waits for.
///
/// An approval has to name `shown`: if the operation has changed since a person looked at it, the answer is refused. The same
/// answer again is 200; another answer to a settled question is a conflict.
#[utoipa::path(
    post,
    path = "/v1/runs/{id}/answers",
    operation_id = "answer_run",
    tag = "answers",
    params(("id" = schema::RunId, Path, description = "The run.")),
    request_body(content = Answer, example = json!({
        "operation": "7e11cd48ed29337d467b9ac4094d91f3",
        "shown": "9f0c2d7be1a84635",
        "answer": { "approve": {} },
        "by": "ada",
    })),
    responses(
        (status = 200, description = "The journal has the answer.", body = Receipt, headers(
            ("Idempotency-Replayed" = String, description = "`true` where it had the answer before."),
        )),
        (status = 202, description = "Another process performs the run, and records the answer next.", body = Receipt),
    ),
)]
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
    let latest = shared.journal().latest(run).await?;
    let Some(waits) = find(&latest.waiting, operation)? else {
        // The same answer again, by a client that did not see the first one arrive.
        let journal = shared.journal().clone();
        let found = shared.costly.perform(access, async move { last_answer(&journal, run, operation).await });
        if let Some((operation, found)) = found.await?
            && is_same(&found, &answer)
        {
            return Ok(Given { operation: Some(operation), answer: Answered::Recorded, is_replay: true });
        }
        let detail = match operation {
            Some(operation) => format!("operation {operation} of this run does not wait for an answer"),
            None => "the run does not wait for an answer".to_owned(),
        };
        return Err(Problem::new(Code::Conflict, detail, "see `waiting_for` in `GET /v1/runs/{id}`"));
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
    let own = Arc::clone(shared);
    let given = async move {
        match own.engine.resume(run, vec![input.clone()]).await {
            // The answer to a child run is passed on to it.
            Ok(handle) => Ok(taken(recorded(&own, handle, operation).await)),
            Err(EngineError::Acquire(AcquireError::Owned { .. })) => {
                if own.engine.pass_on(run, vec![input]).await? {
                    return Ok(Answered::Recorded);
                }
                // The process that had it may just have left it.
                match own.engine.resume(run, Vec::new()).await {
                    Ok(handle) => Ok(taken(recorded(&own, handle, operation).await)),
                    Err(_) => Ok(Answered::PassedOn),
                }
            }
            Err(error) => Err(error.into()),
        }
    };
    let answer = shared.whole(given).await?;
    Ok(Given { operation: Some(operation), answer, is_replay: false })
}

fn told(run: RunId, operation: Option<OperationId>, answer: Answered) -> Response {
    let status = match answer {
        Answered::Recorded => StatusCode::OK,
        Answered::PassedOn => StatusCode::ACCEPTED,
    };
    (status, Json(Receipt { run_id: run, operation, answer })).into_response()
}

/// The operation that is meant; none if it does not wait.
fn find(
    waiting: &[WaitingOperation],
    operation: Option<OperationId>,
) -> Result<Option<WaitingOperation>, Problem> {
    match (operation, waiting) {
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

/// Finds the last answer to an operation of a run or of its child runs, page by page; without a name, the last one of the run.
async fn last_answer(
    journal: &Journal,
    run: RunId,
    operation: Option<OperationId>,
) -> Result<Option<(OperationId, Recorded)>, Problem> {
    let (mut runs, mut read) = (vec![run], BTreeSet::new());
    while let Some(run) = runs.pop() {
        if !read.insert(run) {
            continue;
        }
        let (mut found, mut from) = (None, 0);
        loop {
            let page = match journal.store().page(run, from, PAGE).await {
                // It is gone.
                Err(ReadError::UnknownRun { .. } | ReadError::Erased { .. }) => break,
                page => page?,
            };
            let records = page.into_records()?;
            let Some(last) = records.last() else { break };
            from = last.seq + 1;
            for record in records {
                match record.body {
                    Body::Answered { answer } => {
                        let is_meant = operation.is_none() || record.operation == operation;
                        found = record.operation.filter(|_| is_meant).map(|of| (of, answer)).or(found);
                    }
                    Body::HandedOff { run, .. } => runs.push(run),
                    _ => {}
                }
            }
        }
        if found.is_some() || operation.is_none() {
            return Ok(found);
        }
        let below = RunFilter { parent: Some(run), ..RunFilter::default() };
        runs.extend(journal.runs(&below).await?.into_iter().map(|child| child.run));
    }
    Ok(None)
}

/// Says whether a recorded answer is the one that was given.
fn is_same(recorded: &Recorded, given: &Said) -> bool {
    match (recorded, given) {
        (Recorded::Approved { edited, .. }, Said::Approve { arguments, .. }) => {
            let edited = match edited {
                Some(Validation::Valid { arguments }) => Some(arguments),
                _ => None,
            };
            edited == arguments.as_ref()
        }
        (Recorded::Denied { .. }, Said::Deny { .. }) | (Recorded::NotDone { .. }, Said::NotHappened {}) => {
            true
        }
        (Recorded::Given { value, .. } | Recorded::Supplied { value, .. }, Said::Value(given)) => {
            value == given
        }
        (Recorded::Done { result, error: None, .. }, Said::Happened { result: given }) => result == given,
        (Recorded::Done { error: Some(error), .. }, Said::Refused { error: given }) => error == given,
        _ => false,
    }
}

const fn taken(is_recorded: bool) -> Answered {
    if is_recorded { Answered::Recorded } else { Answered::PassedOn }
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
