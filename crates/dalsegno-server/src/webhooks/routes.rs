//! `/v1/webhooks`: who receives how runs stand.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::LOCATION;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use dalsegno_access::{Access, Scope};
use dalsegno_core::AgentName;
use dalsegno_webhooks::{Endpoint, Event, NewEndpoint, Secret, SendOutcome, WebhookError};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::{Webhook, test_message};
use crate::body;
use crate::cursor::List;
use crate::guard::Client;
use crate::link;
use crate::listing::{Page, after_name, page, tenant_filter};
use crate::params::{self, Params};
use crate::problem::{self, Code, Problem};
use crate::routes::Route;
use crate::shared::Shared;

pub(crate) fn routes() -> Vec<Route> {
    let one = [Code::NotFound];
    vec![
        Route::of(Scope::WebhooksRead, routes!(list)).problems(&one),
        Route::of(Scope::WebhooksWrite, routes!(add)).problems(&one),
        Route::of(Scope::WebhooksRead, routes!(show)).problems(&one),
        Route::of(Scope::WebhooksWrite, routes!(remove)).problems(&one),
        Route::of(Scope::WebhooksWrite, routes!(rotate)).problems(&one),
        Route::of(Scope::WebhooksWrite, routes!(enable)).problems(&one),
        Route::of(Scope::WebhooksWrite, routes!(test)).problems(&one),
    ]
}

/// The webhook that is to be added.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewWebhook)]
pub(crate) struct New {
    /// Where deliveries go: `https`, at a public address, or one of `webhooks` in `[serve]` of dalsegno.toml.
    #[schema(max_length = 2048)]
    url: String,
    /// The events that it wants; all without it.
    #[serde(default)]
    #[schema(schema_with = events)]
    events: Option<Vec<String>>,
    /// The tenant whose runs it is about; only for a key of all tenants, whose webhooks are about all tenants without it.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    tenant: Option<String>,
    /// Only runs of this agent.
    #[serde(default)]
    #[schema(pattern = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length = 64)]
    agent: Option<String>,
    /// Only runs that no other run started.
    #[serde(default)]
    root: Option<bool>,
    /// Whether what a run says is sent along, as `GET /v1/runs/{id}` shows it; only for a key with `runs:read`.
    #[serde(default)]
    content: Option<bool>,
    /// A name for people.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    name: Option<String>,
}

/// A list of events.
fn events() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
    use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, SchemaType, Type};
    let event = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(Event::ALL.iter().map(|event| event.as_str())));
    let types = SchemaType::from_iter([Type::Array, Type::Null]);
    let list = ArrayBuilder::new().schema_type(types).items(event).min_items(Some(1));
    list.description(Some("The events that it wants; all without it.")).into()
}

/// A webhook with its secret, which is shown this once.
#[derive(Serialize, ToSchema)]
pub(crate) struct WebhookWithSecret {
    #[serde(flatten)]
    webhook: Webhook,
    /// What its deliveries are signed with: `whsec_` and base64.
    secret: String,
}

impl WebhookWithSecret {
    fn of((endpoint, secret): &(Endpoint, Secret)) -> Self {
        Self { webhook: Webhook::of(endpoint), secret: secret.expose() }
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Query {
    /// Only webhooks of this tenant.
    tenant: Option<String>,
    /// The most entries of a page; 50 without it.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
    /// The `next` of the page before.
    #[param(pattern = "^([0-9a-f]{2}){9,72}$")]
    cursor: Option<String>,
}

/// Lists webhooks, and how they are going.
///
/// In the order of their ids. A key of one tenant sees those of its tenant.
#[utoipa::path(
    get,
    path = "/v1/webhooks",
    operation_id = "list_webhooks",
    tag = "webhooks",
    params(Query),
    responses((status = 200, description = "A page.", body = Page<Webhook>, headers(
        ("Link" = String, description = "The address of the next page, with `rel=\"next\"`."),
    ))),
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    uri: Uri,
    Params(Query { tenant, limit, cursor }): Params<Query>,
) -> Result<Response, Problem> {
    let list = List::of("webhooks", &serde_json::json!([access.tenant(), tenant]));
    let (limit, after) = (page(limit)?, after_name(&list, cursor.as_deref())?);
    let mut found = match tenant_filter(&access, tenant) {
        None => Vec::new(),
        Some(tenant) => {
            let find = move |store: &dalsegno_webhooks::WebhookStore| {
                store.list(tenant.as_deref(), after.as_deref(), limit + 1)
            };
            shared.webhooks.call(find).await?
        }
    };
    let has_more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next = found.last().filter(|_| has_more).map(|last| list.after_name(&last.id));
    let page = Page { items: found.iter().map(Webhook::of).collect::<Vec<_>>(), next };
    Ok(link::page(&uri, &page, page.next.as_deref().map(|next| ("cursor", next))))
}

/// Adds a webhook.
///
/// What happens from now on is delivered to it: at least once, each event with an id of its own as `webhook-id`. The secret is shown in
/// this answer and never again.
#[utoipa::path(
    post,
    path = "/v1/webhooks",
    operation_id = "add_webhook",
    tag = "webhooks",
    request_body(content = New, example = json!({ "url": "https://hooks.example.com/dalsegno", "events": ["run.completed", "run.failed"] })),
    responses((status = 201, description = "The webhook.", body = WebhookWithSecret, headers(
        ("Location" = String, description = "The address of the webhook."),
    ))),
)]
pub(crate) async fn add(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    body::Json(new): body::Json<New>,
) -> Result<Response, Problem> {
    let New { url, events, tenant, agent, root, content, name } = new;
    let content = content.unwrap_or(false);
    // A webhook says no more than its maker may read.
    if content && !access.may(Scope::RunsRead) {
        return Err(Problem::forbidden(&access, Scope::RunsRead)
            .at("/content", "sends what only `runs:read` may read"));
    }
    let wrong = |pointer: &str, message: String, help: &str| {
        Problem::new(Code::Invalid, message.clone(), help).at(pointer, message)
    };
    let url = shared.webhooks.sender.destinations().check(&url).map_err(|bad| {
        wrong("/url", bad.to_string(), "name a public receiver, such as `https://hooks.example.com/dalsegno`")
    })?;
    let events: BTreeSet<Event> = match events {
        None => Event::ALL.iter().copied().collect(),
        Some(names) => {
            let read =
                names.iter().map(|name| name.parse()).collect::<Result<_, dalsegno_webhooks::UnknownEvent>>();
            read.map_err(|error| wrong("/events", error.to_string(), "leave `events` out for all of them"))?
        }
    };
    let agent = match agent {
        None => None,
        Some(name) => {
            let read: Result<AgentName, _> = name.parse();
            let bad =
                |_| wrong("/agent", "`agent` is no name of an agent".to_owned(), "see `GET /v1/agents`");
            Some(read.map_err(bad)?.to_string())
        }
    };
    let tenant = owner(&shared, &access, tenant)?;
    let position = shared.journal().store().last_change().await?;
    let new =
        NewEndpoint { name, url, tenant, events, agent, root: root.unwrap_or(false), content, position };
    let now = shared.now();
    let made = shared.webhooks.call(move |store| store.add(&new, now)).await?;
    shared.webhooks.changed.notify_one();
    tracing::info!(webhook = %made.0.id, by = access.actor(), "a webhook was added");
    let location = format!("/v1/webhooks/{}", made.0.id);
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(WebhookWithSecret::of(&made))).into_response())
}

/// The tenant of a new webhook; none for all tenants.
fn owner(shared: &Shared, access: &Access, named: Option<String>) -> Result<Option<String>, Problem> {
    if let Some(named) = &named {
        params::name("/tenant", named)?;
    }
    match (access.tenant(), named) {
        (Some(own), Some(other)) if own != other => {
            let shown = problem::shown(access);
            let detail = format!("the {shown} makes no webhooks for another tenant than its own");
            let problem = Problem::new(Code::Forbidden, detail, "leave `tenant` out");
            Err(problem.at("/tenant", format!("is not the tenant of the {shown}")))
        }
        (Some(own), _) => Ok(Some(own.to_owned())),
        (None, Some(named)) => {
            shared.engine.workspace().check_tenant(&named).map_err(|_| {
                let detail = "there is no tenant of this name that can be used";
                Problem::new(Code::NotFound, detail, "see `GET /v1/tenants`")
            })?;
            Ok(Some(named))
        }
        (None, None) => Ok(None),
    }
}

/// Shows a webhook, and how it is going.
#[utoipa::path(
    get,
    path = "/v1/webhooks/{id}",
    operation_id = "show_webhook",
    tag = "webhooks",
    params(("id" = String, Path, description = "The webhook.")),
    responses((status = 200, description = "The webhook.", body = Webhook)),
)]
pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
) -> Result<Json<Webhook>, Problem> {
    Ok(Json(Webhook::of(&reached(&shared, &access, id).await?)))
}

/// Removes a webhook, with all that waits for it.
#[utoipa::path(
    delete,
    path = "/v1/webhooks/{id}",
    operation_id = "remove_webhook",
    tag = "webhooks",
    params(("id" = String, Path, description = "The webhook.")),
    responses((status = 200, description = "The webhook as it was.", body = Webhook)),
)]
pub(crate) async fn remove(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
) -> Result<Json<Webhook>, Problem> {
    let id = reached(&shared, &access, id).await?.id;
    let removed = shared.webhooks.call(move |store| store.remove(&id)).await?;
    tracing::info!(webhook = %removed.id, by = access.actor(), "a webhook was removed");
    Ok(Json(Webhook::of(&removed)))
}

/// Gives a webhook another secret.
///
/// For 24 hours deliveries have two signatures: one of the new secret and one of the secret before.
#[utoipa::path(
    post,
    path = "/v1/webhooks/{id}/rotate",
    operation_id = "rotate_webhook",
    tag = "webhooks",
    params(("id" = String, Path, description = "The webhook.")),
    responses((status = 200, description = "The webhook with its new secret.", body = WebhookWithSecret)),
)]
pub(crate) async fn rotate(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
) -> Result<Json<WebhookWithSecret>, Problem> {
    let (id, now) = (reached(&shared, &access, id).await?.id, shared.now());
    let made = shared.webhooks.call(move |store| store.rotate(&id, now)).await?;
    tracing::info!(webhook = %made.0.id, by = access.actor(), "a webhook has another secret");
    Ok(Json(WebhookWithSecret::of(&made)))
}

/// Turns a webhook on again.
///
/// What waited is tried at once, and what happened while it was off is delivered, too.
#[utoipa::path(
    post,
    path = "/v1/webhooks/{id}/enable",
    operation_id = "enable_webhook",
    tag = "webhooks",
    params(("id" = String, Path, description = "The webhook.")),
    responses((status = 200, description = "The webhook.", body = Webhook)),
)]
pub(crate) async fn enable(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
) -> Result<Json<Webhook>, Problem> {
    let (id, now) = (reached(&shared, &access, id).await?.id, shared.now());
    let enabled = shared.webhooks.call(move |store| store.enable(&id, now)).await?;
    shared.webhooks.changed.notify_one();
    tracing::info!(webhook = %enabled.id, by = access.actor(), "a webhook was turned on");
    Ok(Json(Webhook::of(&enabled)))
}

/// What came of a test.
#[derive(Serialize, ToSchema)]
pub(crate) struct WebhookTest {
    /// Whether the receiver has accepted it.
    delivered: bool,
    /// The status of the answer.
    #[schema(required)]
    status: Option<u16>,
    /// Why it was not accepted.
    #[schema(required)]
    failure: Option<String>,
}

/// Sends a test to a webhook, once, and says what came of it.
///
/// Its `type` is `webhook.test`. It is sent to a webhook that is off, too, and changes nothing of it.
#[utoipa::path(
    post,
    path = "/v1/webhooks/{id}/test",
    operation_id = "test_webhook",
    tag = "webhooks",
    params(("id" = String, Path, description = "The webhook.")),
    responses((status = 200, description = "What came of it.", body = WebhookTest)),
)]
pub(crate) async fn test(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
) -> Result<Json<WebhookTest>, Problem> {
    let endpoint = reached(&shared, &access, id).await?;
    let _permit = shared.webhooks.tests.try_acquire().map_err(|_| {
        let detail = "as many tests of webhooks as may be are under way";
        Problem::new(Code::TooMany, detail, "wait until they have ended").retry_after(1)
    })?;
    let now = shared.now();
    let secrets = shared.webhooks.store.secrets(&endpoint, now);
    let sent = shared.webhooks.sender.send(&endpoint.url, &secrets, test_message(&endpoint, now)).await;
    let delivered = sent.outcome == SendOutcome::Delivered;
    Ok(Json(WebhookTest { delivered, status: sent.status, failure: (!delivered).then(|| sent.failure()) }))
}

/// A webhook that is in reach. One that is not is answered as one that does not exist.
async fn reached(shared: &Shared, access: &Access, id: String) -> Result<Endpoint, Problem> {
    let found = shared.webhooks.call(move |store| store.find(&id)).await?;
    let is_seen = |one: &Endpoint| {
        access.tenant().is_none() || one.tenant.as_deref().is_some_and(|own| access.sees(own))
    };
    found.filter(is_seen).ok_or_else(unknown)
}

fn unknown() -> Problem {
    Problem::new(Code::NotFound, "there is no such webhook", "list the webhooks with `GET /v1/webhooks`")
}

impl From<WebhookError> for Problem {
    fn from(error: WebhookError) -> Self {
        let invalid = |pointer: &str, help: &str| {
            Self::new(Code::Invalid, error.to_string(), help).at(pointer, error.to_string())
        };
        match &error {
            WebhookError::Unknown { .. } | WebhookError::Ambiguous { .. } => unknown(),
            WebhookError::NoEvent => invalid("/events", "leave `events` out for all of them"),
            WebhookError::Name => invalid("/name", "choose another name"),
            WebhookError::TooMany { .. } => invalid("", "remove one with `DELETE /v1/webhooks/{id}`"),
            _ => Self::internal(dalsegno_history::ErrorKind::Unavailable, &error),
        }
    }
}
