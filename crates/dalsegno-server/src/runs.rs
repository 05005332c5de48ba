//! `POST /v1/runs`, `GET /v1/runs/{id}` and `POST /v1/runs/{id}/cancel`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::{HeaderName, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use dalsegno_access::{Access, Scope};
use dalsegno_core::{AgentName, AgentRequest, RunId};
use dalsegno_history::Latest;
use dalsegno_runtime::{Cancelled, EngineError, StartOptions, Tailed};
use dalsegno_store::RunStatus;
use dalsegno_wire::{ErasedRun, Lineage, Standing, schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::body;
use crate::guard::Client;
use crate::params::{self, Params};
use crate::problem::{self, Code, Problem};
use crate::routes::Route;
use crate::shared::Shared;
use crate::upload::WithFiles;

/// What a run is started with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    /// The name of the agent.
    #[schema(pattern = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length = 64)]
    agent: String,
    /// What it is asked.
    #[serde(default)]
    text: String,
    /// What it is given besides: any JSON value.
    #[serde(default)]
    data: Value,
    /// Who asks: an object that the agent can read.
    #[serde(default)]
    #[schema(schema_with = person)]
    user: Value,
    /// The session that it belongs to; one of its own without it.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    session: Option<String>,
    /// The run to continue from.
    #[serde(default)]
    #[schema(value_type = Option<schema::RunId>)]
    after: Option<String>,
    /// Another model of `dalsegno.toml` than the agent's.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    model: Option<String>,
    /// The tenant that it belongs to; only for a key of all tenants.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    tenant: Option<String>,
}

/// A start with files, as a form.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the form is read part by part; this is its description")]
struct StartForm {
    /// What the run is started with.
    run: Start,
    /// The files that go with the request, each with its name and its media type: at most 16, and 32 MiB with all else.
    #[schema(value_type = Vec<String>, format = Binary, max_items = 16, required = false)]
    file: Vec<Vec<u8>>,
}

/// What a client learns of a run that it may start and not read.
#[derive(Serialize, ToSchema)]
struct Begun {
    /// The run.
    #[schema(value_type = schema::RunId)]
    run_id: RunId,
    /// The name of its agent.
    agent: String,
    /// The tenant that it belongs to.
    tenant: String,
    /// Its session.
    session: String,
    /// Where it stands.
    #[schema(value_type = schema::RunStatus)]
    status: RunStatus,
}

/// A schema that one of two others describes.
macro_rules! either {
    ($name:ident, $one:ty, $other:ty) => {
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                let any = utoipa::openapi::schema::AnyOfBuilder::new();
                any.item(utoipa::openapi::Ref::from_schema_name(<$one>::name()))
                    .item(utoipa::openapi::Ref::from_schema_name(<$other>::name()))
                    .into()
            }
        }

        impl ToSchema for $name {
            fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
                use utoipa::PartialSchema as _;
                schemas.extend([
                    (<$one>::name().into_owned(), <$one>::schema()),
                    (<$other>::name().into_owned(), <$other>::schema()),
                ]);
                <$one>::schemas(schemas);
                <$other>::schemas(schemas);
            }
        }
    };
}

/// A run as its journal says, or as much of it as a key that may not read runs sees.
pub(crate) struct Beginning;

/// A run as its journal says, or what is kept of one whose content was erased.
struct Shown;

either!(Beginning, Standing, Begun);
either!(Shown, Standing, ErasedRun);

fn person() -> utoipa::openapi::schema::ObjectBuilder {
    use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
        .description(Some("Who asks: an object that the agent can read."))
}

pub(crate) fn routes() -> Vec<Route> {
    let starts = [Code::NotFound, Code::Conflict, Code::KeyConflict, Code::Erased];
    vec![
        Route::of(Scope::RunsWrite, routes!(start)).problems(&starts),
        Route::of(Scope::RunsRead, routes!(show)).problems(&[Code::NotFound]),
        Route::of(Scope::RunsWrite, routes!(cancel)).problems(&[
            Code::NotFound,
            Code::Conflict,
            Code::Erased,
        ]),
    ]
}

/// Starts a run.
///
/// With an `Idempotency-Key`, the request can be sent again as often as wanted, also to another server after a crash: the run
/// starts once. The same key with another body is a conflict.
///
/// Files go with it in a form, `multipart/form-data`: the JSON in the part `run`, and each file in a part `file`.
#[utoipa::path(
    post,
    path = "/v1/runs",
    operation_id = "start_run",
    tag = "runs",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Names this start; kept as long as the run.", min_length = 1, max_length = 255),
        ("Prefer" = Option<String>, Header, description = "`wait=30` waits up to 30 seconds until the run ends or is suspended; at most 60."),
    ),
    request_body(content(
        (Start = "application/json", example = json!({ "agent": "notes", "text": "disk full" })),
        (StartForm = "multipart/form-data"),
    )),
    responses(
        (status = 201, description = "The run.", body = Beginning, headers(
            ("Location" = String, description = "The address of the run."),
            ("Preference-Applied" = String, description = "The `Prefer` that was followed."),
        )),
        (status = 200, description = "The run that was started with this key before.", body = Beginning, headers(
            ("Location" = String, description = "The address of the run."),
            ("Idempotency-Replayed" = String, description = "`true`."),
            ("Preference-Applied" = String, description = "The `Prefer` that was followed."),
        )),
    ),
)]
pub(crate) async fn start(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    headers: HeaderMap,
    WithFiles { body: start, files, uploading }: WithFiles<Start>,
) -> Result<Response, Problem> {
    if shared.is_stopping() {
        return Err(Problem::stopping());
    }
    let key = params::idempotency_key(&headers)?;
    let wait = params::preferred_wait(&headers)?;
    let Start { agent, text, data, user, session, after, model, tenant } = start;
    let agent: AgentName = agent.parse().map_err(|error| {
        let problem =
            Problem::new(Code::Invalid, format!("`agent` is no name: {error}"), "see `GET /v1/agents`");
        problem.at("/agent", "is no name of an agent")
    })?;
    if !(user.is_null() || user.is_object()) {
        let problem =
            Problem::new(Code::Invalid, "`user` is not an object", "send an object, or leave it out");
        return Err(problem.at("/user", "is not an object"));
    }
    for (pointer, name) in [("/session", &session), ("/model", &model), ("/tenant", &tenant)] {
        if let Some(name) = name {
            params::name(pointer, name)?;
        }
    }
    known_model(&shared, model.as_deref())?;
    let request = AgentRequest { data, user, ..AgentRequest::text(&text) };
    let tenant = match (access.tenant(), tenant) {
        (Some(own), Some(other)) if own != other => {
            let shown = problem::shown(&access);
            let detail = format!("the {shown} starts no runs of another tenant than its own");
            let problem = Problem::new(Code::Forbidden, detail, "leave `tenant` out");
            return Err(problem.at("/tenant", format!("is not the tenant of the {shown}")));
        }
        (Some(own), _) => own.to_owned(),
        (None, named) => named.unwrap_or_else(|| request.tenant.clone()),
    };
    let after = match after {
        Some(after) => {
            Some(shared.run(&access, &after).await.map_err(|problem| problem.at("/after", "is no run"))?.run)
        }
        None => None,
    };
    let options = StartOptions { key, session, model, after, attachments: files };
    let request = AgentRequest { tenant, ..request };
    let launched = launch(&shared, agent, request, options).await?;
    // The journal has the files, or the run was there before.
    drop(uploading);
    let is_new = launched.is_new;
    let mut response = begun(&shared, &access, launched, wait).await?;
    if !is_new {
        *response.status_mut() = StatusCode::OK;
        response
            .headers_mut()
            .insert(HeaderName::from_static("idempotency-replayed"), HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Refuses a model that the workspace does not have, before a run asks it.
pub(crate) fn known_model(shared: &Shared, name: Option<&str>) -> Result<(), Problem> {
    let workspace = shared.engine.workspace();
    match name {
        Some(name) if !workspace.settings.models.contains_key(name) => {
            let help = "name a model of `[models]` in dalsegno.toml, or leave `model` out";
            let detail = format!("there is no model `{name}`");
            Err(Problem::new(Code::Invalid, detail, help).at("/model", "is no model of dalsegno.toml"))
        }
        _ => Ok(()),
    }
}

/// A run that was asked for.
pub(crate) struct Launched {
    pub(crate) run: RunId,
    /// Whether it is a new one: the same key starts one run.
    is_new: bool,
    /// Where it stood when it began, if that is known.
    latest: Option<Latest>,
}

impl Launched {
    /// One of which nothing but its id is known.
    pub(crate) const fn of(run: RunId, is_new: bool) -> Self {
        Self { run, is_new, latest: None }
    }
}

/// Starts a run.
pub(crate) async fn launch(
    shared: &Arc<Shared>,
    agent: AgentName,
    request: AgentRequest,
    options: StartOptions,
) -> Result<Launched, Problem> {
    if shared.is_stopping() {
        return Err(Problem::stopping());
    }
    let own = Arc::clone(shared);
    shared
        .whole(async move {
            match own.engine.start(&agent, request, options).await {
                Ok(mut handle) => {
                    let (run, is_new, latest) = (handle.run(), handle.is_new(), handle.take_begun());
                    own.hands.hold(handle);
                    Ok(Launched { run, is_new, latest })
                }
                Err(EngineError::AlreadyRunning { run }) => Ok(Launched::of(run, false)),
                Err(error) => Err(error.into()),
            }
        })
        .await
}

/// The answer to a request that has begun a run.
pub(crate) async fn begun(
    shared: &Shared,
    access: &Access,
    launched: Launched,
    wait: Option<Duration>,
) -> Result<Response, Problem> {
    let Launched { run, latest, .. } = launched;
    // What was just written down need not be read, unless it is waited for what follows.
    let latest = latest.filter(|_| wait.is_none());
    if let Some(wait) = wait {
        rest(shared, run, wait).await?;
    }
    let mut response = match (access.may(Scope::RunsRead), latest) {
        (true, Some(latest)) => Json(standing_of(shared, &latest).await).into_response(),
        (true, None) => Json(standing(shared, run, None).await?).into_response(),
        (false, latest) => {
            let summary = match latest {
                Some(latest) => latest.summary,
                None => shared.journal().summary(run).await?,
            };
            let (tenant, session, status) = (summary.tenant, summary.session, summary.status);
            Json(Begun { run_id: run, agent: summary.agent.to_string(), tenant, session, status })
                .into_response()
        }
    };
    *response.status_mut() = StatusCode::CREATED;
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/runs/{run}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    if let Some(wait) = wait
        && let Ok(applied) = HeaderValue::from_str(&format!("wait={}", wait.as_secs()))
    {
        response.headers_mut().insert(HeaderName::from_static("preference-applied"), applied);
    }
    Ok(response)
}

/// Waits until a run has ended or is suspended, the time is over, or the server stops.
async fn rest(shared: &Shared, run: RunId, wait: Duration) -> Result<(), Problem> {
    let mut tail = shared.engine.tail(run, u64::MAX).await?;
    let rests = async {
        loop {
            match tail.next().await? {
                Tailed::Suspended(_) | Tailed::Ended(_) => return Ok::<_, Problem>(()),
                Tailed::Records(_) | Tailed::Delta { .. } => {}
            }
        }
    };
    tokio::select! {
        result = rests => result,
        () = tokio::time::sleep(wait) => Ok(()),
        () = shared.stopped() => Ok(()),
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ShowQuery {
    /// Waits so many seconds at most until the run ends or is suspended.
    #[param(value_type = Option<u16>, maximum = 60)]
    wait: Option<String>,
}

/// Shows a run.
#[utoipa::path(
    get,
    path = "/v1/runs/{id}",
    operation_id = "show_run",
    tag = "runs",
    params(("id" = schema::RunId, Path, description = "The run."), ShowQuery),
    responses((status = 200, description = "The run.", body = Shown)),
)]
pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
    Params(ShowQuery { wait }): Params<ShowQuery>,
) -> Result<Response, Problem> {
    let run = id.parse().map_err(|_| Problem::no_run())?;
    if let Some(wait) = wait {
        shared.run(&access, &id).await?;
        rest(&shared, run, params::wait(&wait, "wait")?).await?;
    }
    match standing(&shared, run, access.tenant()).await {
        Ok(standing) => Ok(Json(standing).into_response()),
        // What the journal keeps of a run whose content was erased.
        Err(problem) if problem.is_erased() => {
            Ok(Json(ErasedRun::of(&shared.run(&access, &id).await?)).into_response())
        }
        Err(problem) => Err(problem),
    }
}

/// Where a run stands, if it belongs to the tenant that is named.
async fn standing(shared: &Shared, run: RunId, tenant: Option<&str>) -> Result<Standing, Problem> {
    let latest = shared.journal().latest_of(run, tenant).await?;
    Ok(standing_of(shared, &latest).await)
}

async fn standing_of(shared: &Shared, latest: &Latest) -> Standing {
    let lineage = Lineage::of_latest(latest, shared.journal()).await;
    Standing::of_latest(latest, lineage)
}

/// Why a run is cancelled.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancel {
    /// The reason, which is recorded.
    #[serde(default)]
    reason: Option<String>,
}

/// What became of a cancellation.
#[derive(Serialize, ToSchema)]
struct CancelReceipt {
    /// The run that is cancelled.
    #[schema(value_type = schema::RunId)]
    run_id: RunId,
    /// Whether it has ended.
    cancel: Cancellation,
}

/// How far a cancellation is.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Cancellation {
    /// The run has ended.
    Cancelled,
    /// Another task or process performs the run, and ends it.
    Requested,
}

/// Cancels a run.
///
/// A run that has ended is a conflict.
#[utoipa::path(
    post,
    path = "/v1/runs/{id}/cancel",
    operation_id = "cancel_run",
    tag = "runs",
    params(("id" = schema::RunId, Path, description = "The run.")),
    request_body(content = Cancel, example = json!({ "reason": "no longer needed" })),
    responses(
        (status = 200, description = "The run has ended.", body = CancelReceipt),
        (status = 202, description = "The process that performs the run ends it next.", body = CancelReceipt),
    ),
)]
pub(crate) async fn cancel(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
    body::Json(Cancel { reason }): body::Json<Cancel>,
) -> Result<Response, Problem> {
    match end(&shared, &access, &id, reason).await? {
        Cancelled::Ended(report) => {
            let cancel = Cancellation::Cancelled;
            Ok(Json(CancelReceipt { run_id: report.run, cancel }).into_response())
        }
        // Another task or process performs it, and ends it.
        Cancelled::Requested { run } => {
            let told = Json(CancelReceipt { run_id: run, cancel: Cancellation::Requested });
            Ok((StatusCode::ACCEPTED, told).into_response())
        }
    }
}

/// Cancels a run that is in reach.
pub(crate) async fn end(
    shared: &Arc<Shared>,
    access: &Access,
    id: &str,
    reason: Option<String>,
) -> Result<Cancelled, Problem> {
    let run = shared.run(access, id).await?.run;
    let (actor, own) = (access.actor(), Arc::clone(shared));
    shared.whole(async move { Ok(own.engine.cancel(run, Some(actor), reason).await?) }).await
}
