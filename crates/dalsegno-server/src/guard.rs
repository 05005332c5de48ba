//! What stands before every handler: the name of the host, the key or token, its scope, its rate.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, HOST};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use dalsegno_access::{Access, Refused, Scope};
use percent_encoding::percent_decode_str;

use crate::pages::session;
use crate::problem::{self, Code, Problem};
use crate::shared::Shared;
use crate::{oidc, params, protected};

/// The access of the client, which the guard has checked.
pub(crate) struct Client(pub(crate) Access);

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // A route without a guard would have none, and refuses everybody.
        let access = parts.extensions.get::<Access>().cloned();
        access.map(Self).ok_or_else(|| Refused::Unknown.into())
    }
}

/// Lets a request through whose key or token is good and has the scope.
pub(crate) async fn scope(
    State((shared, scope)): State<(Arc<Shared>, Scope)>,
    mut request: Request,
    next: Next,
) -> Response {
    let access = match admit(&shared, &request, scope).await {
        Ok(access) => access,
        Err(problem) => {
            let mut response = problem.into_response();
            protected::challenge(&shared, (request.uri(), request.headers()), &mut response);
            return response;
        }
    };
    let now = shared.now();
    if access.token_ends().is_none() && shared.keys.is_use_news(&access, now) {
        let (keys, access) = (shared.keys.clone(), access.clone());
        // It waits for other writers, and no client waits for it.
        tokio::task::spawn_blocking(move || {
            if let Err(error) = keys.used(&access, now) {
                tracing::warn!(%error, "the last use of an access key was not written down");
            }
        });
    }
    request.extensions_mut().insert(access);
    let mut response = next.run(request).await;
    // What a key may see is for its holder alone.
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn admit<'r>(
    shared: &'r Shared,
    request: &Request,
    scope: Scope,
) -> impl Future<Output = Result<Access, Problem>> + Send + use<'r> {
    // The body of a request cannot be shared among threads, so what is needed of it is taken out.
    let (address, shown) = (address(request), shown(request));
    async move {
        let shown = shown?;
        let access = match check(shared, shown.as_ref()).await {
            Ok(access) => access,
            Err(refused) => {
                let is_wrong = !matches!(refused, Refused::Unavailable(_) | Refused::Issuer);
                if let Some(address) = address.filter(|_| is_wrong) {
                    shared.limits.failure(address)?;
                }
                return Err(match (shown, refused) {
                    (None, Refused::Unknown) => Problem::new(
                        Code::Unauthenticated,
                        "the request has no access key",
                        "send `Authorization: Bearer KEY` with a key that `dalsegno key add` made",
                    ),
                    (_, refused) => refused.into(),
                });
            }
        };
        shared.limits.request(access.key(), problem::shown(&access))?;
        if access.may(scope) { Ok(access) } else { Err(Problem::forbidden(&access, scope)) }
    }
}

/// What a client shows.
enum Shown {
    /// A key or a token.
    Bearer(String),
    /// The key of the session that a page belongs to.
    Session(String),
}

fn shown(request: &Request) -> Result<Option<Shown>, Problem> {
    let Some(header) = params::header(request.headers(), AUTHORIZATION.as_str())? else {
        // The pages ask for streams with the cookie of their session.
        return Ok(session::key_of(request)?.map(|key| Shown::Session(key.to_owned())));
    };
    let bearer = header.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    Ok(bearer.map(|(_, shown)| Shown::Bearer(shown.trim().to_owned())))
}

async fn check(shared: &Shared, shown: Option<&Shown>) -> Result<Access, Refused> {
    let key = match shown {
        None => "",
        Some(Shown::Session(key)) => return session::check(shared, key),
        Some(Shown::Bearer(shown)) => match oidc::check(shared, shown).await {
            Some(checked) => return checked,
            None => shown,
        },
    };
    // A cookie is the key of a browser, and of nothing else.
    shared.keys.check(key, shared.now()).and_then(|access| match access.is_session() {
        true => Err(Refused::Unknown),
        false => Ok(access),
    })
}

pub(crate) fn address(request: &Request) -> Option<IpAddr> {
    request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(address)| address.ip())
}

/// Refuses a request for a host that is not this one: a page of another site that a browser was led here by.
pub(crate) async fn host(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let header = match params::header(request.headers(), HOST.as_str()) {
        Ok(header) => header,
        Err(problem) => return problem.into_response(),
    };
    if percent_decode_str(request.uri().path()).decode_utf8().is_err() {
        let problem = Problem::parameter(
            "path",
            "is no UTF-8",
            "encode its parts as UTF-8, each byte as `%` and two digits",
        );
        return problem.into_response();
    }
    let host = request.uri().host().or_else(|| header.map(without_port));
    let is_known = host.is_some_and(|host| {
        let host = host.to_ascii_lowercase();
        is_this_machine(&host) || shared.settings.hosts.contains(&host)
    });
    if is_known {
        return next.run(request).await;
    }
    let problem = Problem::parameter(
        "host",
        "is not a name of this server",
        "list its names as `hosts` in `[serve]` of dalsegno.toml",
    );
    problem.with_status(StatusCode::MISDIRECTED_REQUEST).into_response()
}

/// Says whether a name of a host, in small letters, means this machine in a browser.
pub(crate) fn is_this_machine(host: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].contains(&host)
}

pub(crate) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) && !name.ends_with(':') => {
            name
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::without_port;

    #[test]
    fn a_host_is_known_with_its_port_and_without() {
        for (given, expected) in [
            ("localhost", "localhost"),
            ("localhost:8080", "localhost"),
            ("[::1]:8080", "[::1]"),
            ("[::1]", "[::1]"),
            ("a.example:x", "a.example:x"),
        ] {
            assert_eq!(without_port(given), expected);
        }
    }
}
