//! Calls of HTTP endpoints for declarative tools: one attempt, under the tenant's rules.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dalsegno_core::Received;
use dalsegno_core::{EffectClass, Failure, FailureCode, Outcome, Terms, Timestamp, Validation};
use dalsegno_net::{Client, NetError, Request};
use dalsegno_tools::{ApiCall, ApiResponse, Path, Violation, can_hold};
use serde_json::Value;

use crate::effects::failure::AttemptError;
use crate::effects::failure::certain;

/// Most redirects of a call. Each is checked like the call itself.
const REDIRECTS_MAX: u32 = 5;

/// The headers of an answer that a document can read and that a journal keeps. Others say nothing to a tool, and may hold
/// what nobody should keep.
const KEPT_HEADERS: [&str; 8] = [
    "content-type",
    "etag",
    "last-modified",
    "link",
    "location",
    "retry-after",
    "x-request-id",
    "x-total-count",
];

/// The longest that a receiver's own wish for a pause is listened to.
const LONGEST_WISH: Duration = Duration::from_secs(3600);

/// One attempt at a call.
pub(crate) struct Exchange<'a> {
    pub(crate) call: &'a ApiCall,
    pub(crate) terms: &'a Terms,
    pub(crate) attempt: u32,
    /// The secrets that the call refers to.
    pub(crate) secrets: &'a BTreeMap<Path, String>,
}

impl Exchange<'_> {
    /// Sends the call, and takes the answer, whatever its status. What it proves is not judged here.
    pub(crate) async fn perform(&self, client: &Client) -> Result<Outcome, AttemptError> {
        let request = self.request()?;
        let response = client.send(request).await.map_err(|error| unanswered(&error))?;
        let status = response.status().as_u16();
        let headers = BTreeMap::from_iter(KEPT_HEADERS.iter().filter_map(|name| {
            let value = response.headers().get(*name)?.to_str().ok()?;
            Some(((*name).to_owned(), value.to_owned()))
        }));
        let answered = |body: Value, violations| {
            let headers = headers.clone();
            Ok(Outcome::ApiAnswered(ApiResponse {
                status,
                headers,
                body,
                attempts: self.attempt,
                violations,
            }))
        };
        let is_performed = self.call.is_performed(status);
        let bytes = match response.bytes().await {
            Ok(bytes) => bytes,
            Err(error) if is_performed => return self.unreadable(status, unanswered(&error)),
            // What the status says is known without the body.
            Err(_) => return answered(Value::Null, Vec::new()),
        };
        let is_json = headers.get("content-type").is_some_and(|kind| is_json(kind));
        let body = match serde_json::from_slice(&bytes) {
            Ok(body) if is_json => body,
            _ if bytes.is_empty() => Value::Null,
            Err(error) if is_json && is_performed && self.terms.class != EffectClass::Read => {
                let message = format!("the body is not JSON: {error}");
                return self.unreadable(status, certain(FailureCode::Protocol, message));
            }
            _ => match String::from_utf8(bytes) {
                Ok(text) => Value::String(text),
                Err(error) if is_performed && self.terms.class != EffectClass::Read => {
                    let message = format!("the body is not UTF-8: {error}");
                    return self.unreadable(status, certain(FailureCode::Protocol, message));
                }
                Err(error) => Value::String(String::from_utf8_lossy(error.as_bytes()).into_owned()),
            },
        };
        if is_performed && !can_hold(&body) {
            let message = "response_too_large: the body is nested too deeply, or has too much in it";
            return self.unreadable(status, certain(FailureCode::LimitExceeded, message.to_owned()));
        }
        let violations = match &self.call.response_schema {
            Some(schema) if is_performed => violations(schema, &body),
            Some(_) | None => Vec::new(),
        };
        if let Some(first) = violations.first().filter(|_| self.terms.class != EffectClass::Read) {
            let Violation { pointer, message } = first;
            let message = format!("the body does not fit `response_schema`: `{pointer}` {message}");
            return self.unreadable(status, certain(FailureCode::Protocol, message));
        }
        answered(body, violations)
    }

    /// The answer of a receiver that did what it was asked to do and whose words are of no use. What was only read can be
    /// read again; anything else has taken place.
    fn unreadable(&self, status: u16, error: AttemptError) -> Result<Outcome, AttemptError> {
        if self.terms.class == EffectClass::Read {
            return Err(error);
        }
        let message = format!(
            "the endpoint answered with the status {status}, and the rest of its answer cannot be read: {}",
            error.failure.message
        );
        Ok(Outcome::Failed(Failure::new(FailureCode::ResultUnreadable, message)))
    }

    /// The request with its secrets.
    fn request(&self) -> Result<Request, AttemptError> {
        let call = self.call;
        let bad = |message: String| certain(FailureCode::InvalidArguments, message);
        let resolve = |path: &Path| self.secrets.get(path).cloned();
        let lost =
            |error: dalsegno_tools::MissingSecret| certain(FailureCode::Unavailable, error.to_string());
        let url = call.url.resolve(resolve).map_err(lost)?;
        // What the URL says may hold a secret: only the document's own words are shown.
        let mut url =
            url::Url::parse(&url).map_err(|error| bad(format!("`{}` is not a URL: {error}", call.url)))?;
        if !call.query.is_empty() {
            let mut pairs = url.query_pairs_mut();
            for (name, value) in &call.query {
                pairs.append_pair(name, &value.resolve(resolve).map_err(lost)?);
            }
        }
        let method = call.method.as_str().parse().map_err(|_| bad("the method is unknown".to_owned()))?;
        let mut request = Request::new(method, url);
        for (name, value) in &call.headers {
            let unfit = |_| bad(format!("the header `{name}` cannot be sent"));
            let value = value.resolve(resolve).map_err(lost)?;
            let value = value.parse::<http::HeaderValue>().map_err(|_| unfit(()))?;
            let name = name.parse::<http::HeaderName>().map_err(|_| unfit(()))?;
            request.headers.append(name, value);
        }
        if let Some(body) = &call.body {
            let body = body.resolve(resolve).map_err(lost)?;
            let kind = request.headers.get(http::header::CONTENT_TYPE);
            let is_json = kind.is_none_or(|kind| kind.to_str().is_ok_and(is_json));
            request.body = Some(match body {
                Value::String(text) if !is_json => text.into_bytes(),
                value => value.to_string().into_bytes(),
            });
            let json = http::HeaderValue::from_static("application/json");
            request.headers.entry(http::header::CONTENT_TYPE).or_insert(json);
        }
        if !request.headers.contains_key(IDEMPOTENCY_KEY)
            && self.terms.class != EffectClass::Read
            && let Ok(key) = call.idempotency_key.parse::<http::HeaderValue>()
        {
            request.headers.insert(IDEMPOTENCY_KEY, key);
        }
        request.timeout = Duration::from_millis(self.terms.timeout_ms);
        request.max_bytes = call.max_response_bytes;
        request.redirects = REDIRECTS_MAX;
        Ok(request)
    }
}

/// The secrets that a call refers to.
pub(crate) fn references(call: &ApiCall) -> BTreeSet<&Path> {
    let texts = call.headers.iter().chain(&call.query).map(|(_, text)| text);
    let body = call.body.iter().flat_map(|body| &body.secrets).map(|secret| &secret.text);
    let texts = std::iter::once(&call.url).chain(texts).chain(body);
    texts.flat_map(dalsegno_tools::Text::secrets).map(|secret| &secret.path).collect()
}

/// The header by which a receiver knows a request again.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}

/// How long a receiver asks to be left alone.
pub(crate) fn wish(response: &ApiResponse, now: Timestamp) -> Option<Duration> {
    pause(response.headers.get("retry-after")?, now)
}

/// How long the receiver asks to be left alone: seconds, or a date.
fn pause(wish: &str, now: Timestamp) -> Option<Duration> {
    let pause = match wish.trim().parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = httpdate::parse_http_date(wish.trim()).ok()?;
            let at = at.duration_since(std::time::UNIX_EPOCH).ok()?;
            at.saturating_sub(Duration::from_millis(now.as_millis()))
        }
    };
    Some(pause.min(LONGEST_WISH))
}

fn violations(schema: &Value, body: &Value) -> Vec<Violation> {
    match dalsegno_models::judge_output(schema, &body.to_string()) {
        Validation::Valid { .. } => Vec::new(),
        Validation::Invalid { violations } => {
            let of = |violation: dalsegno_core::Violation| Violation {
                pointer: violation.path,
                message: violation.message,
            };
            violations.into_iter().map(of).collect()
        }
        Validation::Malformed { message } => vec![Violation { pointer: String::new(), message }],
        Validation::Truncated => Vec::new(),
    }
}

fn unanswered(error: &NetError) -> AttemptError {
    let received = if error.is_possibly_received() { Received::Possibly } else { Received::No };
    let (code, transient) = match error {
        _ if error.denied().is_some() => (FailureCode::NotPermitted, false),
        NetError::Timeout { .. } => (FailureCode::Timeout, true),
        NetError::Unreachable { .. } | NetError::Broken { .. } => (FailureCode::Unavailable, true),
        // It would be too large again.
        NetError::TooLarge { .. } => {
            let failure = Failure::new(FailureCode::LimitExceeded, format!("response_too_large: {error}"));
            return AttemptError {
                failure,
                received,
                transient: false,
                after: None,
                gate: None,
                is_under_way: false,
            };
        }
        _ => (FailureCode::Protocol, false),
    };
    let failure = Failure::new(code, error.to_string());
    AttemptError { failure, received, transient, after: None, gate: None, is_under_way: false }
}
