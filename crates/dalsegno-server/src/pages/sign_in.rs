//! Signing in by a ticket or by a key, and signing out.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Extension, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use dalsegno_access::{NoEntry, Refused, SESSION_LASTS};
use dalsegno_web::Shell;
use dalsegno_web::sign_in::{SignInPage, SignedInPage};
use serde::Deserialize;

use super::form::Form;
use super::{html, local, notice, provider, session, with_status};
use crate::oidc::Oidc;
use crate::params::Params;
use crate::problem::Problem;
use crate::shared::Shared;

/// The seconds for which a browser keeps the cookie.
pub(super) const SECONDS: u64 = SESSION_LASTS / 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    ticket: Option<String>,
}

pub(super) type Client = Option<Extension<ConnectInfo<SocketAddr>>>;

pub(super) fn count(shared: &Shared, client: Client) -> Result<(), Problem> {
    client.map_or(Ok(()), |Extension(ConnectInfo(client))| shared.limits.failure(client.ip()))
}

pub(super) fn told(problem: Problem) -> Response {
    notice(Shell::signed_out(), problem.into_response())
}

/// The page that asks for a key, as the answer to who is not signed in.
pub(super) fn ask(shared: &Shared, next: &str, problem: Option<&str>) -> Response {
    with_status(StatusCode::UNAUTHORIZED, &page(shared, next, problem))
}

fn page(shared: &Shared, next: &str, problem: Option<&str>) -> SignInPage {
    let (shell, next, problem) = (Shell::signed_out(), local(next).to_owned(), problem.map(str::to_owned));
    let has_provider = shared.oidc.as_ref().is_some_and(Oidc::has_sign_in);
    let provider = has_provider.then(|| provider::address(&next));
    SignInPage { shell, next, problem, provider }
}

/// Signs a browser in by a ticket; without one, asks for a key.
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    method: Method,
    headers: HeaderMap,
    client: Client,
    query: Result<Params<Query>, Problem>,
) -> Response {
    let ticket = match query {
        Ok(Params(Query { ticket })) => ticket,
        Err(problem) => return told(problem),
    };
    let Some(ticket) = ticket else {
        return html(&page(&shared, "/runs", None));
    };
    // What looks at a link before a person follows it must not use the ticket up.
    let looks_ahead =
        headers.get("sec-purpose").is_some_and(|purpose| purpose.as_bytes().starts_with(b"prefetch"));
    if method == Method::HEAD || looks_ahead {
        return StatusCode::NO_CONTENT.into_response();
    }
    let (own, now) = (Arc::clone(&shared), shared.now());
    // It writes a key, and may wait for other writers.
    let redeemed =
        tokio::task::spawn_blocking(move || own.pages.tickets.redeem(&ticket, &own.keys, now)).await;
    match redeemed {
        Err(error) => told(Problem::defect(&error)),
        Ok(Err(NoEntry::Over)) => match count(&shared, client) {
            Ok(()) => {
                let help = "The sign-in link was used before, or is older than five minutes. \
                     Restart the server for another one, or sign in with an access key.";
                ask(&shared, "/runs", Some(help))
            }
            Err(problem) => told(problem),
        },
        Ok(Err(error)) => {
            tracing::error!(%error, "a session could not be written");
            told(
                Refused::Unavailable(match error {
                    NoEntry::Keys(error) => error,
                    other => {
                        return ask(&shared, "/runs", Some(&other.to_string()));
                    }
                })
                .into(),
            )
        }
        Ok(Ok((_, key))) => {
            let page = SignedInPage { shell: Shell::signed_out(), next: "/runs".to_owned() };
            let mut response = html(&page);
            if let Some(cookie) = session::cookie(&headers, key.expose(), SECONDS) {
                response.headers_mut().insert(SET_COOKIE, cookie);
            }
            response
        }
    }
}

/// Signs a browser in with an access key. Its cookie is a key of its own, so that the access key stays where it was typed: who revokes
/// that ends the session.
pub(super) async fn by_key(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    client: Client,
    form: Result<Form, Problem>,
) -> Response {
    let form = match form {
        Ok(form) => form,
        Err(problem) => return told(problem),
    };
    let (key, next) = (form.given("key").unwrap_or_default(), form.text("next"));
    let (own, now) = (Arc::clone(&shared), shared.now());
    // It writes a key, and may wait for other writers.
    let added = tokio::task::spawn_blocking(move || {
        let access = own.keys.check(&key, now)?;
        match access.is_session() {
            true => Err(Refused::Unknown),
            false => own.keys.add_session_of_key(&access, now).map_err(Refused::Unavailable),
        }
    });
    let added = match added.await {
        Ok(added) => added,
        Err(error) => return told(Problem::defect(&error)),
    };
    match added {
        Ok((_, key)) => {
            let mut response = Redirect::to(local(&next)).into_response();
            if let Some(cookie) = session::cookie(&headers, key.expose(), SECONDS) {
                response.headers_mut().insert(SET_COOKIE, cookie);
            }
            response
        }
        Err(refused @ Refused::Unavailable(_)) => told(refused.into()),
        Err(refused) => match count(&shared, client) {
            Ok(()) => ask(&shared, &next, Some(&format!("You are not signed in: {refused}."))),
            Err(problem) => told(problem),
        },
    }
}

/// Signs out. The key of the session is good for nothing else, and is revoked.
pub(super) async fn out(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    form: Result<Form, Problem>,
) -> Response {
    if let Err(problem) = form {
        return told(problem);
    }
    let now = shared.now();
    let access = session::shown(&headers, None).and_then(|key| shared.keys.check(key, now).ok());
    if let Some(access) = access.filter(dalsegno_access::Access::is_session) {
        let keys = shared.keys.clone();
        let revoked = tokio::task::spawn_blocking(move || keys.revoke(access.key(), now)).await;
        if !matches!(revoked, Ok(Ok(_))) {
            tracing::warn!("the key of a session that ended was not revoked; it expires by itself");
        }
    }
    let mut response = Redirect::to("/sign-in").into_response();
    if let Some(cookie) = session::cookie(&headers, "", 0) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}
