//! Parameters and headers of requests.

use std::time::Duration;

use axum::extract::{FromRequestParts, Query};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::problem::{Code, Problem};

/// The longest that a request may wait, in seconds.
const WAIT_MAX: u64 = 60;
/// The longest name of a session, an agent, or a person, in characters.
const NAME_MAX: usize = 256;

/// The parameters after `?`. One that is not known is refused.
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let read = Query::<T>::try_from_uri(&parts.uri);
        read.map(|Query(params)| Self(params)).map_err(|rejected| {
            let detail = format!("the parameters cannot be read: {}", rejected.body_text());
            Problem::new(Code::BadRequest, detail, "see the parameters of this address in the book")
        })
    }
}

/// A header as text; none if it is not there.
pub(crate) fn header<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::parameter(name, "is there more than once", "send it once"));
    }
    let text = value.to_str();
    text.map(Some)
        .map_err(|_| Problem::parameter(name, "is not plain ASCII", "send printable ASCII characters"))
}

/// The key under which a client sends the same start again.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(key) = header(headers, "idempotency-key")? else { return Ok(None) };
    if (1..=255).contains(&key.len()) {
        return Ok(Some(key.to_owned()));
    }
    Err(Problem::parameter(
        "idempotency-key",
        "is empty or longer than 255 characters",
        "send a UUID, for example",
    ))
}

/// How long to wait, from `Prefer: wait=N`; none if the client does not say. Other preferences are ignored, as RFC 7240 has it.
pub(crate) fn preferred_wait(headers: &HeaderMap) -> Result<Option<Duration>, Problem> {
    let Some(prefer) = header(headers, "prefer")? else { return Ok(None) };
    let waits = prefer.split([',', ';']).find_map(|part| part.trim().strip_prefix("wait="));
    waits.map(|seconds| wait(seconds.trim().trim_matches('"'), "prefer")).transpose()
}

/// Seconds to wait.
pub(crate) fn wait(text: &str, name: &str) -> Result<Duration, Problem> {
    let seconds = text.parse::<u64>().ok().filter(|seconds| *seconds <= WAIT_MAX);
    seconds.map(Duration::from_secs).ok_or_else(|| {
        let message = format!("does not say how long to wait: expected 0 to {WAIT_MAX} seconds");
        Problem::parameter(name, message, "send a whole number of seconds")
    })
}

/// Says whether a text may be the name of a session, or another name that is written down: 1 to 256 characters, none of them a
/// control character.
pub fn is_name(text: &str) -> bool {
    (1..=NAME_MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

/// Checks a name that is written down.
pub(crate) fn name(pointer: &str, name: &str) -> Result<(), Problem> {
    if is_name(name) {
        return Ok(());
    }
    let message = format!("is no name: expected 1 to {NAME_MAX} characters without control characters");
    let problem = Problem::new(Code::Invalid, format!("`{pointer}` {message}"), "choose another name");
    Err(problem.at(pointer, message))
}
