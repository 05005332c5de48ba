//! Who is signed in: a cookie with a key that is made for this session, is good for nothing else, and ends after half a day. A browser
//! sends it to every port of the host, so that it must not be worth more than that.
//!
//! The cookie has the prefix `__Host-`, so that it is `Secure`, of this host alone and of all paths, and no other host can set it.
//! Chromium and Firefox take such a cookie over plain HTTP as well where the host is this machine, which they trust like an
//! encrypted connection; Safari does not, and needs TLS. Cookies do not know ports, so the port is a part of the name: two
//! servers of one machine have a session each.
//!
//! `SameSite=Strict` keeps it from the requests of other sites. Another port of the same host is the same site, so that an unsafe
//! method needs an `Origin` as well, which has to be exactly this server.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use dalsegno_access::{Access, Refused, Scope};
use dalsegno_web::{Section, Shell};

use super::{notice, shell, sign_in};
use crate::guard::{address, is_this_machine, without_port};
use crate::problem::{Code, Problem};
use crate::shared::Shared;

/// How the name of the cookie begins.
const NAME: &str = "__Host-dalsegno";
/// How the name of the cookie begins that a browser has while its user signs in elsewhere.
const ATTEMPT: &str = "__Host-dalsegno-attempt";

/// The name by which a request calls this server, with its port.
pub(super) fn authority<'r>(headers: &'r HeaderMap, request: Option<&'r Request>) -> Option<&'r str> {
    let named = request.and_then(|request| request.uri().authority()).map(axum::http::uri::Authority::as_str);
    named.or_else(|| headers.get(HOST)?.to_str().ok())
}

/// The name of a cookie at this server.
fn name(of: &str, authority: &str) -> String {
    match authority.rsplit_once(':') {
        Some((_, port)) if !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit()) => {
            format!("{of}-{port}")
        }
        _ => of.to_owned(),
    }
}

/// The cookie that signs a browser in with a key, for so many seconds; 0 signs it out.
pub(super) fn cookie(headers: &HeaderMap, key: &str, seconds: u64) -> Option<HeaderValue> {
    let name = name(NAME, authority(headers, None)?);
    let cookie = format!("{name}={key}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict");
    HeaderValue::from_str(&cookie).ok()
}

/// The cookie with an attempt to sign in elsewhere, for so many seconds; 0 takes it away. It has to be there when another site
/// sends the browser back, and signs no one in by itself.
pub(super) fn attempt_cookie(headers: &HeaderMap, attempt: &str, seconds: u64) -> Option<HeaderValue> {
    let name = name(ATTEMPT, authority(headers, None)?);
    let cookie = format!("{name}={attempt}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Lax");
    HeaderValue::from_str(&cookie).ok()
}

/// The attempt in the cookie of a request.
pub(super) fn attempt(headers: &HeaderMap) -> Option<&str> {
    of_cookie(headers, &name(ATTEMPT, authority(headers, None)?))
}

/// The key in the cookie of a request.
pub(super) fn shown<'r>(headers: &'r HeaderMap, request: Option<&'r Request>) -> Option<&'r str> {
    of_cookie(headers, &name(NAME, authority(headers, request)?))
}

fn of_cookie<'r>(headers: &'r HeaderMap, name: &str) -> Option<&'r str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let mut pairs =
        cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(of, _)| *of == name).map(|(_, key)| key)
}

/// Checks the key in a cookie, which is that of a session.
pub(crate) fn check(shared: &Shared, key: &str) -> Result<Access, Refused> {
    let access = shared.keys.check(key, shared.now())?;
    if access.is_session() { Ok(access) } else { Err(Refused::Unknown) }
}

/// The key of the session that a request belongs to; none without one.
pub(crate) fn key_of(request: &Request) -> Result<Option<&str>, Problem> {
    let Some(key) = shown(request.headers(), Some(request)) else { return Ok(None) };
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if is_safe || is_own(request.headers(), Some(request)) { Ok(Some(key)) } else { Err(foreign()) }
}

/// Says whether a page of this very server sent a request.
pub(super) fn is_own(headers: &HeaderMap, request: Option<&Request>) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter();
    let (Some(origin), None) = (origins.next().and_then(|origin| origin.to_str().ok()), origins.next())
    else {
        return false;
    };
    let Some(own) = authority(headers, request) else { return false };
    match origin.split_once("://") {
        Some(("https", from)) => from.eq_ignore_ascii_case(own),
        Some(("http", from)) => {
            from.eq_ignore_ascii_case(own) && is_this_machine(&without_port(own).to_ascii_lowercase())
        }
        _ => false,
    }
}

/// The answer to what another site sent.
pub(super) fn foreign() -> Problem {
    let detail = "the request does not come from a page of this server";
    Problem::new(Code::Forbidden, detail, "open the page on this server, and send the form from there")
}

/// Lets a request through whose session is good and has the scope, and answers all others with a page.
pub(super) async fn signed_in(
    State((shared, scope)): State<(Arc<Shared>, Scope)>,
    mut request: Request,
    next: Next,
) -> Response {
    let access = match admit(&shared, &request) {
        Ok(access) => access,
        Err(refused) => return *refused,
    };
    let around = shell(&access, Section::None);
    let checked = shared.limits.request(access.key(), "session");
    let checked = checked
        .and_then(|()| if access.may(scope) { Ok(()) } else { Err(Problem::forbidden(&access, scope)) });
    if let Err(problem) = checked {
        return notice(around, problem.into_response());
    }
    request.extensions_mut().insert(access);
    notice(around, next.run(request).await)
}

fn admit(shared: &Shared, request: &Request) -> Result<Access, Box<Response>> {
    let back = request.uri().path_and_query().map_or("/runs", |address| address.as_str());
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let back = if is_read { back } else { "/runs" };
    let told = |problem: Problem| Box::new(notice(Shell::signed_out(), problem.into_response()));
    let Some(key) = key_of(request).map_err(told)? else {
        return Err(Box::new(sign_in::ask(shared, back, None)));
    };
    match check(shared, key) {
        Ok(access) => Ok(access),
        Err(refused @ Refused::Unavailable(_)) => Err(told(refused.into())),
        Err(refused) => {
            let counted = address(request).map_or(Ok(()), |address| shared.limits.failure(address));
            counted.map_err(told)?;
            Err(Box::new(sign_in::ask(shared, back, Some(&format!("You are signed out: {refused}.")))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_exactly_this_server_is_its_own_origin() {
        for (origin, host, expected) in [
            ("http://127.0.0.1:8700", "127.0.0.1:8700", true),
            ("http://LOCALHOST:8700", "localhost:8700", true),
            ("https://agents.example.com", "agents.example.com", true),
            ("http://agents.example.com", "agents.example.com", false),
            ("http://127.0.0.1:9000", "127.0.0.1:8700", false),
            ("http://localhost:8700", "127.0.0.1:8700", false),
            ("http://127.0.0.1:8700.evil.example", "127.0.0.1:8700", false),
            ("https://evil.example", "127.0.0.1:8700", false),
            ("null", "127.0.0.1:8700", false),
            ("127.0.0.1:8700", "127.0.0.1:8700", false),
        ] {
            assert_eq!(
                is_own(&headers(&[("origin", origin), ("host", host)]), None),
                expected,
                "{origin} {host}"
            );
        }
        assert!(!is_own(&headers(&[("host", "127.0.0.1:8700")]), None), "without an origin");
        let two =
            headers(&[("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://localhost")]);
        assert!(!is_own(&two, None));
    }

    #[test]
    fn each_port_has_a_cookie_of_its_own() {
        let jar = "a=b; __Host-dalsegno-8700=one;__Host-dalsegno-9000=two; __Host-dalsegno=three";
        for (host, expected) in
            [("127.0.0.1:8700", "one"), ("localhost:9000", "two"), ("agents.example.com", "three")]
        {
            assert_eq!(shown(&headers(&[("host", host), ("cookie", jar)]), None), Some(expected));
        }
        assert_eq!(shown(&headers(&[("host", "localhost:1"), ("cookie", jar)]), None), None);
        let set = cookie(&headers(&[("host", "[::1]:8700")]), "key", 60).unwrap();
        assert_eq!(set, "__Host-dalsegno-8700=key; Path=/; Max-Age=60; Secure; HttpOnly; SameSite=Strict");
    }
}
