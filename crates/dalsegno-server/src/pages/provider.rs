//! Signing in by the identity provider: to it, and back.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use dalsegno_access::{KeyError, Refused, SignInSecret};
use dalsegno_web::Shell;
use dalsegno_web::sign_in::SignedInPage;
use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;

use super::sign_in::{Client, SECONDS, ask, count, told};
use super::{html, local, session};
use crate::oidc::{self, Returned};
use crate::params::Params;
use crate::problem::{Code, Problem};
use crate::shared::Shared;

/// How long a person may take to sign in elsewhere, in seconds.
const WITHIN: u64 = 10 * 60;

/// Where a person begins to sign in, to go to an address of this server afterwards.
pub(super) fn address(next: &str) -> String {
    let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
    format!("/sign-in/oidc?next={next}")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Begin {
    next: Option<String>,
}

/// What an identity provider sends a browser back with. Some add parameters of their own.
#[derive(Deserialize)]
pub(super) struct End {
    state: Option<String>,
    code: Option<String>,
    iss: Option<String>,
    error: Option<String>,
}

/// Sends a browser to the identity provider.
pub(super) async fn begin(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    query: Result<Params<Begin>, Problem>,
) -> Response {
    let next = match query {
        Ok(Params(Begin { next })) => next.unwrap_or_default(),
        Err(problem) => return told(problem),
    };
    let attempt = match SignInSecret::begin() {
        Ok(attempt) => attempt,
        Err(error) => return told(Refused::Unavailable(error).into()),
    };
    let Some(redirect) = redirect(&shared, &headers) else { return told(none()) };
    let address = match oidc::authorize(&shared, &attempt, &redirect).await {
        None => return told(none()),
        Some(Err(refused)) => return told(refused.into()),
        Some(Ok(address)) => address,
    };
    let kept = format!("{}.{}", attempt.expose(), BASE64URL_NOPAD.encode(local(&next).as_bytes()));
    let mut response = Redirect::to(&address).into_response();
    set(&mut response, session::attempt_cookie(&headers, &kept, WITHIN));
    response
}

/// Signs a browser in that the identity provider sent back.
pub(super) async fn end(
    State(shared): State<Arc<Shared>>,
    method: Method,
    headers: HeaderMap,
    client: Client,
    query: Result<Params<End>, Problem>,
) -> Response {
    let End { state, code, iss, error } = match query {
        Ok(Params(query)) => query,
        Err(problem) => return told(problem),
    };
    // A code is good once, and nothing is to use it up before the browser itself.
    if method == Method::HEAD {
        return StatusCode::NO_CONTENT.into_response();
    }
    let kept = session::attempt(&headers).and_then(|kept| {
        let (attempt, next) = kept.split_once('.')?;
        let next = String::from_utf8(BASE64URL_NOPAD.decode(next.as_bytes()).ok()?).ok()?;
        Some((SignInSecret::kept(attempt)?, next))
    });
    let Some((attempt, next)) = kept else {
        let help = "This browser did not begin to sign in here, or more than ten minutes ago. Try again.";
        return ask(&shared, "/runs", Some(help));
    };
    let Some(redirect) = redirect(&shared, &headers) else { return told(none()) };
    if let Some(error) = &error {
        let error: String = error.chars().take(64).flat_map(char::escape_default).collect();
        tracing::warn!(target: "dalsegno::oidc", error, "the identity provider did not sign a person in");
    }
    let code = code.as_deref().filter(|_| error.is_none());
    let state = state.as_deref().unwrap_or_default();
    let returned = Returned { state, issuer: iss.as_deref(), code };
    let mut response = match oidc::redeem(&shared, &attempt, returned, &redirect).await {
        None => return told(none()),
        Some(Err(refused @ (Refused::Unavailable(_) | Refused::Issuer))) => told(refused.into()),
        Some(Err(_)) => match count(&shared, client) {
            Ok(()) => {
                let help = "You are not signed in: the identity provider did not say who you are, or your account is not \
                     for this server. Its log says why.";
                ask(&shared, &next, Some(help))
            }
            Err(problem) => told(problem),
        },
        Some(Ok(access)) => {
            let (own, now) = (Arc::clone(&shared), shared.now());
            // It writes a key, and may wait for other writers.
            let added = tokio::task::spawn_blocking(move || own.keys.add_session(&access, now)).await;
            match added {
                Err(error) => told(Problem::defect(&error)),
                Ok(Err(KeyError::NoScope)) => {
                    let help = "Your account may do nothing on this server. Ask who operates it.";
                    ask(&shared, &next, Some(help))
                }
                Ok(Err(error)) => {
                    tracing::error!(%error, "a session could not be written");
                    told(Refused::Unavailable(error).into())
                }
                Ok(Ok((_, key))) => {
                    let page = SignedInPage { shell: Shell::signed_out(), next: local(&next).to_owned() };
                    let mut response = html(&page);
                    set(&mut response, session::cookie(&headers, key.expose(), SECONDS));
                    response
                }
            }
        }
    };
    // An attempt is good once.
    set(&mut response, session::attempt_cookie(&headers, "", 0));
    response
}

fn set(response: &mut Response, cookie: Option<HeaderValue>) {
    if let Some(cookie) = cookie {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}

/// The address to which the identity provider sends a browser back: at the name by which the browser calls this server, which is
/// one that the settings list.
fn redirect(shared: &Shared, headers: &HeaderMap) -> Option<String> {
    let is_encrypted = shared.tls.is_some() || shared.settings.behind_proxy;
    let scheme = if is_encrypted { "https" } else { "http" };
    Some(format!("{scheme}://{}{}", session::authority(headers, None)?, oidc::RETURN))
}

fn none() -> Problem {
    let help = "sign in with an access key, or set `[serve.oidc.sign_in]` in dalsegno.toml";
    Problem::new(Code::NotFound, "no identity provider signs people in here", help)
}
