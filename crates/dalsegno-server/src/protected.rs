//! `GET /.well-known/oauth-protected-resource`: where a client gets a token, as RFC 9728 describes it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::{HOST, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use dalsegno_access::Scope;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::guard::{is_this_machine, without_port};
use crate::params;
use crate::problem::{Code, Problem};
use crate::routes::Route;
use crate::shared::Shared;

/// Where the document is.
const PLACE: &str = "/.well-known/oauth-protected-resource";

/// What a client has to know to get a token for this server.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProtectedResource {
    /// The address of the server, by the name that the client used.
    resource: String,
    /// The issuers whose tokens are accepted: the one of `[serve.oidc]`.
    authorization_servers: Vec<String>,
    /// What the server knows as scopes. Which of its own values a token needs for them is said by `[serve.oidc.scopes]`.
    scopes_supported: Vec<String>,
    /// How a token is shown: in the header `Authorization`.
    bearer_methods_supported: Vec<String>,
    /// The server, for people.
    resource_name: String,
}

pub(crate) fn routes() -> Vec<Route> {
    vec![Route::open(routes!(show)).problems(&[Code::NotFound, Code::BadRequest])]
}

/// Says where a client gets a token.
///
/// As RFC 9728 describes it, for clients that find their identity provider by the server. Without `[serve.oidc]` it does not exist.
#[utoipa::path(
    get,
    path = "/.well-known/oauth-protected-resource",
    operation_id = "describe_resource",
    tag = "server",
    responses((status = 200, description = "The document.", body = ProtectedResource)),
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Json<ProtectedResource>, Problem> {
    let unknown = || {
        let help = "use an access key: no identity provider is set in `[serve.oidc]`";
        Problem::new(Code::NotFound, "the server accepts no tokens", help)
    };
    let oidc = shared.settings.oidc.as_ref().ok_or_else(unknown)?;
    let resource = origin(&shared, &uri, &headers)?.ok_or_else(unknown)?;
    Ok(Json(ProtectedResource {
        resource,
        authorization_servers: vec![oidc.issuer.clone()],
        scopes_supported: Scope::ALL.iter().map(|scope| scope.as_str().to_owned()).collect(),
        bearer_methods_supported: vec!["header".to_owned()],
        resource_name: "Dalsegno".to_owned(),
    }))
}

/// The address of the server by the name that a request used, which was checked before.
fn origin(shared: &Shared, uri: &Uri, headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let header = params::header(headers, HOST.as_str())?;
    let Some(host) = uri.authority().map(|own| own.as_str()).or(header) else { return Ok(None) };
    let host = host.to_ascii_lowercase();
    let is_plain =
        shared.tls.is_none() && (!shared.settings.behind_proxy || is_this_machine(without_port(&host)));
    Ok(Some(format!("{}://{host}", if is_plain { "http" } else { "https" })))
}

/// Adds to an answer without a good credential where one describes how to get a token.
pub(crate) fn challenge(shared: &Shared, (uri, headers): (&Uri, &HeaderMap), response: &mut Response) {
    if response.status() != StatusCode::UNAUTHORIZED || shared.settings.oidc.is_none() {
        return;
    }
    if let Ok(Some(origin)) = origin(shared, uri, headers)
        && let Ok(value) = HeaderValue::try_from(format!("Bearer resource_metadata=\"{origin}{PLACE}\""))
    {
        response.headers_mut().insert(WWW_AUTHENTICATE, value);
    }
}
