//! Calls of HTTP endpoints for declarative tools: one attempt, under the tenant's rules.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dalsegno_core::{EffectClass, Failure, FailureCode, Outcome, Terms, Timestamp, Verdict};
use dalsegno_net::{Client, NetError, Request};
use dalsegno_sandbox::Received;
use dalsegno_tools::{ApiCall, ApiResponse, Path, Violation};
use serde_json::Value;

use crate::attempt::certain;
use crate::policy::AttemptError;

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
    pub(crate) now: Timestamp,
    /// The secrets that the call refers to.
    pub(crate) secrets: &'a BTreeMap<Path, String>,
}

impl Exchange<'_> {
    /// Sends the call, and takes the answer or says what is to be made of there being none.
    pub(crate) async fn perform(&self, client: &Client) -> Result<Outcome, AttemptError> {
        let request = self.request()?;
        let response = client.send(request).await.map_err(|error| unanswered(&error))?;
        let status = response.status().as_u16();
        let headers = BTreeMap::from_iter(KEPT_HEADERS.iter().filter_map(|name| {
            let value = response.headers().get(*name)?.to_str().ok()?;
            Some(((*name).to_owned(), value.to_owned()))
        }));
        let after = headers.get("retry-after").and_then(|wish| pause(wish, self.now));
        if let Some(received) = self.repeats(status, after.is_some()) {
            let message = format!("the endpoint answered with the status {status}");
            let failure = Failure::new(FailureCode::Unavailable, message);
            return Err(AttemptError { failure, received, transient: true, after, gate: None });
        }
        let is_json = headers.get("content-type").is_some_and(|kind| is_json(kind));
        let bytes = response.bytes().await.map_err(|error| unanswered(&error))?;
        let body = match serde_json::from_slice(&bytes) {
            Ok(body) if is_json => body,
            _ if bytes.is_empty() => Value::Null,
            _ => Value::String(String::from_utf8_lossy(&bytes).into_owned()),
        };
        let violations = match &self.call.response_schema {
            Some(schema) if (200..300).contains(&status) => violations(schema, &body),
            Some(_) | None => Vec::new(),
        };
        Ok(Outcome::ApiAnswered(ApiResponse { status, headers, body, attempts: self.attempt, violations }))
    }

    /// Says whether an answer of this status is reason for another attempt, and whether the receiver may have acted.
    ///
    /// 408, 425 and 429, and a 503 with the wish to come again, say that the request was not worked on. After another
    /// error of the server nobody knows, so that only what may be repeated is.
    fn repeats(&self, status: u16, wishes: bool) -> Option<Received> {
        if self.attempt > self.terms.retries {
            return None;
        }
        let tolerated = match self.terms.class {
            EffectClass::Read | EffectClass::Idempotent | EffectClass::Keyed => true,
            EffectClass::Unsafe | EffectClass::Composite => self.call.repeats_tolerated,
        };
        match status {
            408 | 425 | 429 => Some(Received::No),
            503 if wishes => Some(Received::No),
            500..=599 if tolerated => Some(Received::Possibly),
            _ => None,
        }
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
            url::Url::parse(&url).map_err(|error| bad(format!("`{}` is no URL: {error}", call.url)))?;
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
        Verdict::Valid { .. } => Vec::new(),
        Verdict::Invalid { violations } => {
            let of = |violation: dalsegno_core::Violation| Violation {
                pointer: violation.path,
                message: violation.message,
            };
            violations.into_iter().map(of).collect()
        }
        Verdict::Malformed { message } => vec![Violation { pointer: String::new(), message }],
        Verdict::Truncated => Vec::new(),
    }
}

fn unanswered(error: &NetError) -> AttemptError {
    let received = if error.is_possibly_received() { Received::Possibly } else { Received::No };
    let (code, transient) = match error {
        _ if error.denied().is_some() => (FailureCode::NotPermitted, false),
        NetError::Timeout { .. } => (FailureCode::Timeout, true),
        NetError::Unreachable { .. } | NetError::Broken { .. } => (FailureCode::Unavailable, true),
        // Somebody has answered, in a way that is of no use: whether it took place is not in doubt.
        NetError::TooLarge { .. } => {
            let message = format!("response_too_large: {error}");
            return certain(FailureCode::LimitExceeded, message);
        }
        _ => (FailureCode::Protocol, false),
    };
    let failure = Failure::new(code, error.to_string());
    AttemptError { failure, received, transient, after: None, gate: None }
}
