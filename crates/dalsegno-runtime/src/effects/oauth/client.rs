//! Talks to an authorization server: the protocol is that of the `oauth2` crate, the way there is the tenant's.

use std::time::Duration;

use dalsegno_core::Timestamp;
use dalsegno_net::{Client, NetError, Request};
use dalsegno_secrets::Secret;
use dalsegno_tools::OAuth2;
use oauth2::basic::{BasicClient, BasicErrorResponseType, BasicTokenResponse};
use oauth2::{
    AuthUrl, AuthorizationCode, ClientId, ClientSecret, EndpointNotSet, EndpointSet, HttpRequest,
    HttpResponse, PkceCodeVerifier, RedirectUrl, RefreshToken, RequestTokenError, TokenResponse as _,
    TokenUrl,
};

use super::grant::Grant;

/// Most bytes of an answer: tokens are short, and what is kept is bounded.
const ANSWER_BYTES_MAX: u64 = 32 * 1024;

/// The longest that the server may take: a call waits for it.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A client of the crate that knows both addresses.
pub(super) type Protocol =
    BasicClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointSet>;

/// Who asks for tokens: the client's id, and its secret where it has one.
pub(super) struct Credentials {
    pub(super) id: Secret,
    pub(super) secret: Option<Secret>,
}

/// Why there are no tokens.
#[derive(Debug, thiserror::Error)]
pub(super) enum TokenError {
    /// What was shown is worth nothing any more: a person has to consent anew.
    #[error("the authorization server no longer accepts the token: {0}")]
    Refused(String),
    /// The server does not want this client, or this request.
    #[error("the authorization server refused the request: {0}")]
    Client(String),
    /// The address of the server cannot be used.
    #[error("{0}")]
    Address(String),
    /// The server gave no answer of use; it may later.
    #[error("the authorization server did not answer: {0}")]
    Unanswered(String),
    /// The rules of the tenant do not allow to ask it.
    #[error("{0}")]
    Denied(String),
}

/// What is no answer of the protocol.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    Net(#[from] NetError),
    #[error("the answer has the status {0}")]
    Status(u16),
    #[error("the request cannot be sent")]
    Request,
}

/// The client of a document.
pub(super) fn protocol(oauth: &OAuth2, credentials: &Credentials) -> Result<Protocol, TokenError> {
    let bad =
        |name: &str, error: url::ParseError| TokenError::Address(format!("`{name}` is not a URL: {error}"));
    let auth = AuthUrl::new(oauth.auth_url.clone()).map_err(|error| bad("auth_url", error))?;
    let token = TokenUrl::new(oauth.token_url.clone()).map_err(|error| bad("token_url", error))?;
    let mut client = BasicClient::new(ClientId::new(credentials.id.expose().to_owned()))
        .set_auth_uri(auth)
        .set_token_uri(token);
    if let Some(secret) = &credentials.secret {
        client = client.set_client_secret(ClientSecret::new(secret.expose().to_owned()));
    }
    Ok(client)
}

/// Exchanges what consent brought for tokens.
pub(super) async fn exchange(
    protocol: &Protocol,
    code: String,
    verifier: PkceCodeVerifier,
    redirect: RedirectUrl,
    net: &Client,
) -> Result<BasicTokenResponse, TokenError> {
    let send = |request| send(net.clone(), request);
    let request = protocol.exchange_code(AuthorizationCode::new(code)).set_pkce_verifier(verifier);
    let request = request.set_redirect_uri(std::borrow::Cow::Owned(redirect));
    request.request_async(&send).await.map_err(|error| explain(&error))
}

/// Gets the next tokens.
pub(super) async fn refresh(
    protocol: &Protocol,
    token: String,
    net: &Client,
) -> Result<BasicTokenResponse, TokenError> {
    let send = |request| send(net.clone(), request);
    let token = RefreshToken::new(token);
    protocol.exchange_refresh_token(&token).request_async(&send).await.map_err(|error| explain(&error))
}

/// What is kept of an answer. What it leaves out stays as it was.
pub(super) fn grant(
    response: &BasicTokenResponse,
    before: Option<&Grant>,
    asked: &[String],
    now: Timestamp,
) -> Grant {
    let lifetime = response.expires_in().map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
    let refresh = response.refresh_token().map(|token| token.secret().clone());
    let scopes = response.scopes().map(|scopes| scopes.iter().map(|scope| scope.to_string()).collect());
    Grant {
        access_token: response.access_token().secret().clone(),
        refresh_token: refresh.or_else(|| before.and_then(|before| before.refresh_token.clone())),
        obtained_at: now.as_millis(),
        expires_at: lifetime.map(|lifetime| now.as_millis().saturating_add(lifetime)),
        scopes: scopes
            .unwrap_or_else(|| before.map_or_else(|| asked.to_vec(), |before| before.scopes.clone())),
        claimed_until: None,
    }
}

async fn send(net: Client, request: HttpRequest) -> Result<HttpResponse, Unusable> {
    let (head, body) = request.into_parts();
    let url = url::Url::parse(&head.uri.to_string()).map_err(|_| Unusable::Request)?;
    let mut request = Request::new(head.method, url);
    request.headers = head.headers;
    request.body = Some(body);
    request.timeout = TIMEOUT;
    request.max_bytes = ANSWER_BYTES_MAX;
    let response = net.send(request).await?;
    let status = response.status();
    if status.as_u16() == 429 || status.is_server_error() {
        return Err(Unusable::Status(status.as_u16()));
    }
    let mut answer = http::Response::builder().status(status);
    if let Some(kind) = response.headers().get(http::header::CONTENT_TYPE) {
        answer = answer.header(http::header::CONTENT_TYPE, kind);
    }
    let body = response.bytes().await?;
    answer.body(body).map_err(|_| Unusable::Request)
}

type Failure = RequestTokenError<Unusable, oauth2::basic::BasicErrorResponse>;

/// The error in words that hold nothing of what was sent or of what came: there may be tokens in it.
fn explain(error: &Failure) -> TokenError {
    match error {
        RequestTokenError::ServerResponse(answer) => match answer.error() {
            BasicErrorResponseType::InvalidGrant => TokenError::Refused("invalid_grant".to_owned()),
            BasicErrorResponseType::Extension(other) => {
                let known = other.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                let shown = if known && other.len() <= 64 { other.as_str() } else { "an unknown reason" };
                TokenError::Client(shown.to_owned())
            }
            other => TokenError::Client(other.to_string()),
        },
        RequestTokenError::Request(Unusable::Net(error)) if error.denied().is_some() => {
            TokenError::Denied(error.to_string())
        }
        RequestTokenError::Request(error) => TokenError::Unanswered(error.to_string()),
        RequestTokenError::Parse(..) => {
            TokenError::Client("its answer has not the form of tokens".to_owned())
        }
        RequestTokenError::Other(_) => TokenError::Client("its answer is not JSON".to_owned()),
    }
}
