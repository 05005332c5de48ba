//! `GET /openapi.json`: what the server offers, as OpenAPI 3.1.
//!
//! Each handler says what it takes and returns. What is the same for many of them is added here: the problems that a guard
//! or the reading of a body leads to, and the key with its scope.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use dalsegno_access::Scope;
use serde_json::{Map, Value, json};
use utoipa::{OpenApi, ToSchema};
use utoipa_axum::routes;

use crate::problem::{Code, Document};
use crate::routes::{Route, RouteInfo, table};
use crate::webhooks::Envelope;

/// How the document names the way in which a client shows its key.
const SECURITY: &str = "key";

/// What is said of the whole.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Dalsegno",
        description = "Runs of durable agents: start them, follow them, answer what they wait for.\n\nUnknown parameters and keys are refused, never dropped. Errors are problems as RFC 9457 describes them; each `code` has a page in the book.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    components(schemas(Document, Envelope)),
    tags(
        (name = "runs", description = "Runs: start, list, read, follow, cancel, fork."),
        (name = "answers", description = "What runs wait for, and answers to it."),
        (name = "agents", description = "The agents that can be started."),
        (name = "webhooks", description = "Who receives how runs stand, as requests of their own."),
        (name = "server", description = "The server itself."),
    ),
)]
struct Base;

pub(crate) fn routes() -> Vec<Route> {
    vec![Route::open(routes!(show))]
}

/// Describes the interface.
///
/// The document that you read, as OpenAPI 3.1. It is the same for all clients and says nothing of a tenant, so it needs no
/// key: a generator of clients can fetch it as it is.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "describe",
    tag = "server",
    responses((status = 200, description = "The document.", body = Object)),
)]
async fn show() -> impl IntoResponse {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| document().to_string());
    ([(CONTENT_TYPE, "application/json")], text.as_str())
}

/// The OpenAPI document of all routes.
pub fn document() -> Value {
    let mut api = Base::openapi();
    let mut told = BTreeMap::new();
    for route in table() {
        let Route { info, problems, documented: (schemas, paths, _) } = route;
        api.components.get_or_insert_default().schemas.extend(schemas);
        for (path, item) in paths.paths {
            match api.paths.paths.get_mut(&path) {
                Some(known) => known.merge_operations(item),
                None => drop(api.paths.paths.insert(path, item)),
            }
        }
        told.insert((info.path.clone(), info.method.to_lowercase()), (info, problems));
    }
    // A schema without a JSON form does not exist, and an empty document would fail the tests.
    let mut document = serde_json::to_value(api).unwrap_or_default();
    for ((path, method), (info, problems)) in told {
        if let Some(operation) = document["paths"][path.as_str()].get_mut(method) {
            complete(operation, &info, &problems);
        }
    }
    may_be_empty(&mut document);
    document["webhooks"] = json!({ "run": { "post": {
        "summary": "Tells how a run stands.",
        "description": "What the server sends to each webhook that wants the event, signed as Standard Webhooks describes.",
        "operationId": "receive_event",
        "requestBody": { "content": { "application/json": {
            "schema": { "$ref": format!("#/components/schemas/{}", Envelope::name()) },
        } } },
        "responses": {
            "2XX": { "description": "The receiver has accepted it." },
            "410": { "description": "The receiver wants nothing further: the webhook is off." },
        },
    } } });
    document["components"]["securitySchemes"] = json!({ SECURITY: {
        "type": "http",
        "scheme": "bearer",
        "description": "An access key that `dalsegno key add` made or, where `[serve.oidc]` names an identity provider, a token of it. The scopes of an operation are listed with it.",
    } });
    document
}

/// An empty body is an empty object: it may be left out where each key of the body may be, and a delivery may have none.
fn may_be_empty(document: &mut Value) {
    let schemas = document["components"]["schemas"].take();
    for (path, item) in document["paths"].as_object_mut().into_iter().flatten() {
        for operation in item.as_object_mut().into_iter().flatten().map(|(_, operation)| operation) {
            let body = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
            let name = body.as_str().and_then(|name| name.rsplit('/').next());
            let schema = name.map_or(&Value::Null, |name| &schemas[name]);
            let is_optional = schema.get("properties").is_some() && schema.get("required").is_none();
            if is_optional || path.starts_with("/triggers/") {
                operation["requestBody"]["required"] = json!(false);
            }
        }
    }
    document["components"]["schemas"] = schemas;
}

fn complete(operation: &mut Value, info: &RouteInfo, problems: &[Code]) {
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    let has_query =
        parameters.as_ref().is_some_and(|parameters| parameters.iter().any(|one| one["in"] != "path"));
    for parameter in parameters.into_iter().flatten() {
        // What is left out is not sent, and nothing is not the text `null`.
        without_null(&mut parameter["schema"]);
    }
    let has_body = operation.get("requestBody").is_some();
    let mut codes = problems.to_vec();
    codes.push(Code::ServerError);
    if has_query || has_body {
        codes.push(Code::BadRequest);
    }
    if has_body {
        codes.extend([Code::Invalid, Code::TooLarge, Code::TooSlow]);
    }
    if let Some(scope) = info.scope {
        operation["security"] = json!([{ SECURITY: [scope.as_str()] }]);
        codes.extend([Code::Unauthenticated, Code::Forbidden, Code::TooMany, Code::Unavailable]);
    }
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in codes {
        let of_status = by_status.entry(code.status().as_u16()).or_default();
        if !of_status.contains(&code) {
            of_status.push(code);
        }
    }
    for (status, codes) in by_status {
        let of_code = |code: &Code| format!("`{}`: {}.", code.as_str(), code.title());
        let description = codes.iter().map(of_code).collect::<Vec<_>>().join(" ");
        operation["responses"][status.to_string()] = problem(&description, &codes[0], info.scope);
    }
    operation["responses"]["421"] =
        problem("`bad_request`: The request is for a host that is not this server.", &Code::BadRequest, None);
    let kinds = operation["requestBody"]["content"].as_object();
    let kinds: Vec<String> = kinds.into_iter().flatten().map(|(kind, _)| format!("`{kind}`")).collect();
    if !kinds.is_empty() {
        let description = format!("`bad_request`: The body is not {}.", kinds.join(" or "));
        operation["responses"]["415"] = problem(&description, &Code::BadRequest, None);
    }
}

fn problem(description: &str, code: &Code, scope: Option<Scope>) -> Value {
    let mut response = json!({
        "description": description,
        "content": { "application/problem+json": {
            "schema": { "$ref": format!("#/components/schemas/{}", Document::name()) },
        } },
    });
    let header = |text: &str, of: &str| json!({ "description": text, "schema": { "type": of } });
    match code {
        Code::TooMany | Code::Unavailable => {
            response["headers"] =
                json!({ "Retry-After": header("Seconds after which to try again.", "integer") });
        }
        Code::Unauthenticated => {
            response["headers"] = json!({ "WWW-Authenticate": header("`Bearer`.", "string") });
        }
        Code::Forbidden => {
            if let Some(scope) = scope {
                response["description"] = json!(format!("{description} It needs `{scope}`."));
            }
        }
        _ => {}
    }
    response
}

/// Takes `null` out of what a schema allows.
fn without_null(schema: &mut Value) {
    if let Some(types) = schema["type"].as_array() {
        let types: Vec<Value> = types.iter().filter(|one| **one != "null").cloned().collect();
        schema["type"] = if let [one] = types.as_slice() { one.clone() } else { Value::Array(types) };
    }
    if let Some(forms) = schema["oneOf"].as_array() {
        let forms: Vec<Value> = forms.iter().filter(|form| form["type"] != "null").cloned().collect();
        if let [Value::Object(form)] = forms.as_slice() {
            let mut form: Map<String, Value> = form.clone();
            if let Some(fields) = schema.as_object() {
                form.extend(
                    fields
                        .iter()
                        .filter(|(name, _)| *name != "oneOf")
                        .map(|(name, value)| (name.clone(), value.clone())),
                );
            }
            *schema = Value::Object(form);
        }
    }
}
