//! `POST /triggers/{name}`: a delivery from outside starts a run. It has no access key: its signature is the credential.

pub(crate) mod proof;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderName, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use dalsegno_core::{AgentRequest, RunId};
use dalsegno_history::HistoryError;
use dalsegno_runtime::{Engine, EngineError, StartOptions};
use dalsegno_store::{CreateError, ReadError};
use dalsegno_wire::schema;
use dalsegno_workspace::{Delivery, Signature, Trigger};
use data_encoding::HEXLOWER;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::body::{self, Room};
use crate::problem::{Code, Problem};
use crate::routes::Route;
use crate::shared::Shared;
use crate::{guard, params};

/// Most bytes of bodies at once of which it is not known yet who sent them.
const UNPROVEN: u64 = 64 << 20;
/// The longest id of a delivery.
const ID_MAX: usize = 255;
/// How long a delivery waits after which it may start, in seconds.
const BUSY: u64 = 30;

/// What is shared by all deliveries.
pub(crate) struct Triggers {
    /// By name.
    of: BTreeMap<String, Trigger>,
    /// Room for the bodies of those who have proven nothing yet.
    room: Room,
}

impl Triggers {
    /// The triggers of a workspace, for bodies of at most so many bytes.
    pub(crate) fn new(of: BTreeMap<String, Trigger>, body: u64) -> Self {
        Self { of, room: Room::new(UNPROVEN.max(body.saturating_mul(4))) }
    }

    /// Says in the log which triggers accept no delivery, since their secret cannot be used.
    pub(crate) async fn report(&self, engine: &Engine) {
        for (name, trigger) in &self.of {
            if let Err(error) = key(engine, trigger).await {
                tracing::error!(
                    trigger = name,
                    "the trigger refuses every delivery: its secret cannot be used: {error}"
                );
            }
        }
    }
}

pub(crate) fn routes() -> Vec<Route> {
    let problems = [Code::Unauthenticated, Code::TooMany, Code::Conflict, Code::Unavailable];
    vec![Route::open(routes!(deliver)).problems(&problems)]
}

/// What a sender delivers: any JSON value.
struct Delivered;

impl utoipa::PartialSchema for Delivered {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        let any = utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::SchemaType::AnyValue)
            .additional_properties(Some(utoipa::openapi::schema::AdditionalProperties::FreeForm(true)));
        any.description(Some("What a sender delivers: any JSON value.")).into()
    }
}

impl ToSchema for Delivered {}

/// The run of a delivery.
#[derive(Serialize, ToSchema)]
struct Accepted {
    /// The run.
    #[schema(value_type = schema::RunId)]
    run_id: RunId,
}

/// What came of a delivery that is proven.
enum Taken {
    Started(RunId),
    Again(RunId),
    Skipped,
}

/// Takes a delivery, which starts a run.
///
/// `[triggers.NAME]` of dalsegno.toml says how a delivery is signed, which agent runs, and what it is given. A delivery that is sent
/// again starts nothing and has the same answer. One that is not signed as it says, is too old, or is for a trigger that does not
/// exist is refused: always with the same answer.
#[utoipa::path(
    post,
    path = "/triggers/{name}",
    operation_id = "deliver",
    tag = "runs",
    params(("name" = String, Path, description = "The trigger.", max_length = 64)),
    request_body(content = Delivered, example = json!({ "action": "opened" })),
    responses(
        (status = 202, description = "The run that has started.", body = Accepted, headers(
            ("Location" = String, description = "The address of the run."),
        )),
        (status = 200, description = "The run that this delivery has started before.", body = Accepted, headers(
            ("Location" = String, description = "The address of the run."),
            ("Idempotency-Replayed" = String, description = "`true`."),
        )),
        (status = 204, description = "The trigger starts nothing for such a delivery."),
    ),
)]
async fn deliver(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    if shared.is_stopping() {
        return Err(Problem::stopping());
    }
    let address = guard::address(&request);
    let (parts, sent) = request.into_parts();
    let room = &shared.triggers.room;
    let (body, held) = room.collect(sent, shared.settings.body, &shared.limits, address).await?;
    let known = shared.triggers.of.get(&name);
    // For a name that does not exist the same is done, so that it is not known by the time that takes.
    let proven = match known.or_else(|| shared.triggers.of.values().next()) {
        Some(trigger) => match key(&shared.engine, trigger).await {
            Ok(key) => proof::holds(&trigger.signature, &key, &parts.headers, &body, shared.now()),
            Err(error) => {
                tracing::error!(trigger = name, "the secret of a trigger cannot be used: {error}");
                false
            }
        },
        None => false,
    };
    let metrics = shared.telemetry.metrics();
    let Some(trigger) = known.filter(|_| proven) else {
        metrics.delivery(known.map(|_| name.as_str()), "refused");
        if let Some(address) = address {
            shared.limits.failure(address)?;
        }
        return Err(refused());
    };
    drop(held);
    // No access key has such an id.
    shared.limits.request(&format!("trigger {name}"), "trigger")?;
    let taken = take(&shared, (&name, trigger), &parts.headers, &parts.uri, &body).await;
    let result = match &taken {
        Ok(Taken::Started(_)) => "started",
        Ok(Taken::Again(_)) => "repeated",
        Ok(Taken::Skipped) => "skipped",
        Err(_) => "failed",
    };
    metrics.delivery(Some(&name), result);
    Ok(match taken? {
        Taken::Started(run) => answer(StatusCode::ACCEPTED, run),
        Taken::Again(run) => {
            let mut response = answer(StatusCode::OK, run);
            let replayed = HeaderName::from_static("idempotency-replayed");
            response.headers_mut().insert(replayed, HeaderValue::from_static("true"));
            response
        }
        Taken::Skipped => StatusCode::NO_CONTENT.into_response(),
    })
}

fn answer(status: StatusCode, run: RunId) -> Response {
    let mut response = (status, Json(Accepted { run_id: run })).into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/runs/{run}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// What a delivery proves itself with.
async fn key(engine: &Engine, trigger: &Trigger) -> Result<Vec<u8>, String> {
    let secret = engine.trigger_secret(trigger).await.map_err(|error| error.to_string())?;
    proof::key(&trigger.signature, secret.expose()).map_err(|error| error.to_string())
}

/// The one answer to a delivery that proves nothing: it does not say what is wrong.
fn refused() -> Problem {
    Problem::new(
        Code::Unauthenticated,
        "there is no such trigger, or the delivery is not signed as it expects",
        "compare the address, the secret and the clock of the sender with `[triggers.NAME]` of dalsegno.toml",
    )
}

async fn take(
    shared: &Arc<Shared>,
    (name, trigger): (&str, &Trigger),
    headers: &HeaderMap,
    uri: &Uri,
    body: &[u8],
) -> Result<Taken, Problem> {
    let id = delivery_id(&trigger.signature, headers, body)?;
    let delivery =
        Delivery { body: content(headers, body)?, headers: readable(trigger, headers)?, query: query(uri)? };
    let begun = trigger.begin(delivery).map_err(|error| {
        let detail = error.to_string();
        let help = "correct the delivery, or the trigger in dalsegno.toml";
        Problem::new(Code::Invalid, detail.clone(), help).at("", detail)
    })?;
    let Some(begun) = begun else { return Ok(Taken::Skipped) };
    if let Some(session) = &begun.session {
        params::name("/session", session)?;
    }
    let tenant = trigger.tenant.value.clone();
    let request = AgentRequest { data: begun.data, tenant, ..AgentRequest::text(&begun.text) };
    // No client can send this character in a key of its own: a header has ASCII alone, and a form a key that a page was given.
    let start_key = Some(format!("trigger→{name}→{id}"));
    let options = StartOptions { key: start_key, session: begun.session, ..StartOptions::default() };
    let (own, agent) = (Arc::clone(shared), trigger.agent.value.clone());
    shared
        .whole(async move {
            match own.engine.start(&agent, request, options).await {
                Ok(handle) => {
                    let (run, is_new) = (handle.run(), handle.is_new());
                    own.hands.hold(handle);
                    Ok(if is_new { Taken::Started(run) } else { Taken::Again(run) })
                }
                Err(error) => started_before(error).map(Taken::Again),
            }
        })
        .await
}

/// The run of a delivery that was here before: its id names it, also where the trigger says something else of it by now.
fn started_before(error: EngineError) -> Result<RunId, Problem> {
    match error {
        EngineError::AlreadyRunning { run }
        | EngineError::Create(CreateError::KeyConflict { run, .. })
        | EngineError::History(HistoryError::Read(ReadError::Erased { run, .. })) => Ok(run),
        EngineError::Create(CreateError::SessionBusy { .. } | CreateError::Overtaken { .. }) => {
            let detail = "the session of this delivery has a run that is not over";
            Err(Problem::new(Code::Conflict, detail, "send it again later").retry_after(BUSY))
        }
        // The sender is no user of the workspace, and learns nothing of it.
        error => Err(Problem::internal(error.kind(), &error)),
    }
}

/// What names a delivery for its sender.
fn delivery_id(signature: &Signature, headers: &HeaderMap, body: &[u8]) -> Result<String, Problem> {
    let (name, is_required) = match signature {
        Signature::Standard => (Some("webhook-id"), true),
        Signature::Github => (Some("x-github-delivery"), false),
        Signature::Token { id, .. } => (id.as_deref(), id.is_some()),
    };
    let Some(name) = name else { return Ok(digest(body)) };
    match params::header(headers, name)? {
        Some(id) if (1..=ID_MAX).contains(&id.len()) => Ok(id.to_owned()),
        None if !is_required => Ok(digest(body)),
        _ => {
            let message = format!("does not name the delivery: expected 1 to {ID_MAX} characters");
            Err(Problem::parameter(name, message, "send the id of the delivery, the same with each attempt"))
        }
    }
}

fn digest(body: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(body)))
}

/// The body as JSON.
fn content(headers: &HeaderMap, body: &[u8]) -> Result<Value, Problem> {
    if body.is_empty() {
        let detail = "the body is empty, which is no JSON";
        return Err(Problem::new(Code::BadRequest, detail, "send the delivery as JSON").at("", detail));
    }
    let kind = params::header(headers, CONTENT_TYPE.as_str())?.unwrap_or_default().to_ascii_lowercase();
    let kind = body::essence(kind.as_bytes());
    if kind != b"application/json" && !kind.ends_with(b"+json") {
        return Err(body::not_json());
    }
    body::parse(body)
}

/// The headers that the templates of a trigger can read.
fn readable(trigger: &Trigger, headers: &HeaderMap) -> Result<BTreeMap<String, String>, Problem> {
    let mut found = BTreeMap::new();
    for name in &trigger.headers {
        if let Some(value) = params::header(headers, name)? {
            found.insert(name.clone(), value.to_owned());
        }
    }
    Ok(found)
}

/// The parameters of an address, each of which is there once.
fn query(uri: &Uri) -> Result<BTreeMap<String, String>, Problem> {
    let mut found = BTreeMap::new();
    for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        let name = name.into_owned();
        if found.insert(name.clone(), value.into_owned()).is_some() {
            return Err(Problem::parameter(&name, "is there more than once", "send it once"));
        }
    }
    Ok(found)
}
