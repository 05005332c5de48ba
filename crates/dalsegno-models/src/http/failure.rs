//! What an endpoint's failures mean: a kind, words for a person, and whether to ask again.

use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use serde_json::{Value, json};

use super::aws_errors as aws;
use super::client::Failed;
use super::key::Hidden;
use crate::model::{ModelError, ModelErrorKind, Retry};

/// Most characters of an endpoint's own words in an error.
const MAX_WORDS: usize = 500;

/// Longest pause that an endpoint may ask for. Past it the caller's own backoff decides sooner.
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// An answer that cannot be used.
pub(super) fn protocol(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Protocol, message)
}

/// An answer whose status is not 200.
pub(super) fn from_status(
    endpoint: &str,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    hidden: Hidden<'_>,
) -> Failed {
    if status.is_redirection() {
        return redirected(endpoint, status, headers, hidden).into();
    }
    let said = Said::read(body, headers, hidden);
    let of_aws = aws::kind(&said.codes);
    let kind = match status.as_u16() {
        400 | 424 if of_aws.is_some() && !said.is_too_long() => of_aws.unwrap_or(ModelErrorKind::Refused),
        429 if said.out_of_quota() => ModelErrorKind::Refused,
        429 => ModelErrorKind::RateLimited,
        400 | 413 | 422 if said.is_too_long() => ModelErrorKind::LimitExceeded,
        // A gateway gave up waiting, and who is behind it may work on, to be paid for.
        504 | 524 => ModelErrorKind::Protocol,
        408 | 409 | 500..=599 => ModelErrorKind::Unavailable,
        413 => ModelErrorKind::LimitExceeded,
        _ => ModelErrorKind::Refused,
    };
    let advice = match status.as_u16() {
        _ if said.is_wrong_key() => "; check the model's key, and that it may use this model",
        401 | 403 => "; check the model's key, and that it may use this model",
        402 => "; check the account's balance",
        404 => "; check the model's name and its `base_url`",
        400 | 413 | 422 if kind == ModelErrorKind::LimitExceeded => {
            "; send less, or set `[context] max_tokens` of the agent so that older messages are left out"
        }
        429 if kind == ModelErrorKind::Refused => "; check the account's plan and balance",
        400..=499 if kind == ModelErrorKind::Refused => "; check the model's name, its settings and `extra`",
        _ => "",
    };
    let advice = aws::advice(&said.codes, &said.words).unwrap_or(advice);
    let words = if said.words.is_empty() { String::new() } else { format!(": {}", said.words) };
    let error = ModelError::new(kind, format!("`{endpoint}` answered {status}{words}{advice}"));
    let should_retry = headers.get("x-should-retry").map(HeaderValue::as_bytes);
    let error = match (should_retry, error.retry, pause(headers).or(said.pause)) {
        (Some(b"false"), _, _) => error.with_retry(Retry::Never),
        (Some(b"true"), _, Some(pause)) => error.with_retry(Retry::After(pause)),
        (Some(b"true"), _, None) => error.with_retry(Retry::Now),
        (_, Retry::Now | Retry::After(_), Some(pause)) => error.with_retry(Retry::After(pause)),
        _ => error,
    };
    let unauthorized = status == StatusCode::UNAUTHORIZED || said.is_key_refused();
    let unread = match status.as_u16() {
        413 => true,
        400 | 404 | 415 | 422 | 424 => kind == ModelErrorKind::Refused && !unauthorized,
        // llama.cpp and Ollama call it their own failure that their model reads no images.
        500 | 501 => said.is_of_files(),
        _ => false,
    };
    Failed { error, unauthorized, unread }
}

/// An error that an endpoint reports in the middle of its stream.
pub(super) fn from_event(error: &Value, hidden: Hidden<'_>) -> ModelError {
    let said = Said::from_json(error, hidden);
    let kind = match said.kind() {
        _ if said.out_of_quota() => ModelErrorKind::Refused,
        _ if said.is_too_long() => ModelErrorKind::LimitExceeded,
        // It took the request and has begun to reply, which is paid for whatever became of it.
        ModelErrorKind::Unavailable => ModelErrorKind::Protocol,
        kind => kind,
    };
    let code = said.codes.first().map_or(String::new(), |code| format!(" `{code}`"));
    let words = if said.words.is_empty() { String::new() } else { format!(": {}", said.words) };
    let error = ModelError::new(kind, format!("the endpoint reported the error{code} in its stream{words}"));
    match (error.retry, said.pause) {
        (Retry::Now, Some(pause)) => error.with_retry(Retry::After(pause)),
        _ => error,
    }
}

/// An exception of AWS in the middle of its stream.
pub(super) fn from_exception(code: Option<&str>, said: &Value, hidden: Hidden<'_>) -> ModelError {
    let mut error = json!({ "message": said.as_str().or_else(|| said["message"].as_str()) });
    if error["message"].is_null() {
        error["message"] = said.to_string().into();
    }
    error["type"] = code.into();
    from_event(&error, hidden)
}

/// An event that is not what its wire has.
pub(super) fn garbage(
    provider: &str,
    data: &str,
    error: &serde_json::Error,
    hidden: Hidden<'_>,
) -> ModelError {
    // The error quotes what it stumbled over, whole.
    let (error, event) = (quote(&error.to_string(), hidden), quote(data, hidden));
    protocol(format!(
        "the endpoint sent an event that the wire `{provider}` does not have: {error}, in `{event}`"
    ))
}

/// Text of the endpoint: without the key, on one line and bounded.
pub(super) fn quote(text: &str, hidden: Hidden<'_>) -> String {
    excerpt(&hidden.scrub(text))
}

/// Text on one line and bounded.
pub(super) fn excerpt(text: &str) -> String {
    let mut words: String =
        text.chars().take(MAX_WORDS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(MAX_WORDS).is_some() {
        words.push('…');
    }
    words.trim().to_owned()
}

fn redirected(endpoint: &str, status: StatusCode, headers: &HeaderMap, hidden: Hidden<'_>) -> ModelError {
    let target = headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or("another address");
    let target = quote(target.split(['?', '#']).next().unwrap_or(target), hidden);
    let message = format!(
        "`{endpoint}` answered {status} and points to `{target}`, which is not followed: the key belongs to the \
         configured address alone; set `base_url` to the final address"
    );
    ModelError::new(ModelErrorKind::Refused, message)
}

/// What the headers ask for: `retry-after-ms` in milliseconds, else `retry-after` in seconds or as a date.
fn pause(headers: &HeaderMap) -> Option<Duration> {
    let text = |value: &HeaderValue| value.to_str().ok().map(|text| text.trim().to_owned());
    let millis = headers.get("retry-after-ms").and_then(text).and_then(|text| text.parse::<f64>().ok());
    if let Some(pause) = millis.and_then(|millis| Duration::try_from_secs_f64(millis / 1_000.0).ok()) {
        return Some(pause.min(MAX_PAUSE));
    }
    let value = headers.get(RETRY_AFTER).and_then(text)?;
    if value.parse::<f64>().is_ok() {
        return seconds(&value);
    }
    let date = httpdate::parse_http_date(&value).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default().min(MAX_PAUSE))
}

/// A pause in seconds.
fn seconds(text: &str) -> Option<Duration> {
    let pause = Duration::try_from_secs_f64(text.parse().ok()?).ok()?;
    Some(pause.min(MAX_PAUSE))
}

/// What an endpoint says about its error, in any of the usual forms.
struct Said {
    words: String,
    /// Its `type`, `code` and the reasons of its details, as far as they are there.
    codes: Vec<String>,
    /// How long to wait, as Google says it.
    pause: Option<Duration>,
    /// Whether a quota of a whole day is used up, as Google says it.
    out_of_day: bool,
}

/// Most details of an error that are read.
const MAX_DETAILS: usize = 32;

impl Said {
    fn read(body: &[u8], headers: &HeaderMap, hidden: Hidden<'_>) -> Self {
        let mut said = match serde_json::from_slice::<Value>(body) {
            Ok(json) => {
                // Google answers a stream with a list.
                let json = json.get(0).unwrap_or(&json);
                Self::from_json(json.get("error").unwrap_or(json), hidden)
            }
            Err(_) => Self::from_json(&Value::String(String::from_utf8_lossy(body).into_owned()), hidden),
        };
        let code = headers.get(aws::CODE).and_then(|value| value.to_str().ok());
        said.codes.extend(code.map(|code| quote(aws::name(code), hidden)));
        said
    }

    fn from_json(error: &Value, hidden: Hidden<'_>) -> Self {
        let text = |name: &str| match error.get(name) {
            Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let words = ["message", "detail", "Message"].into_iter().find_map(text);
        let words = words.or_else(|| error.as_str().map(str::to_owned)).unwrap_or_else(|| error.to_string());
        let details = || error["details"].as_array().into_iter().flatten().take(MAX_DETAILS);
        let reasons = details().filter_map(|detail| detail["reason"].as_str().map(str::to_owned));
        let codes = ["type", "code", "__type"].into_iter().filter_map(text).chain(reasons);
        let violations =
            || details().flat_map(|detail| detail["violations"].as_array().into_iter().flatten());
        Self {
            words: quote(&words, hidden),
            codes: codes.map(|code| quote(aws::name(&code), hidden)).collect(),
            pause: details().find_map(|detail| seconds(detail["retryDelay"].as_str()?.strip_suffix('s')?)),
            out_of_day: violations()
                .take(MAX_DETAILS)
                .any(|quota| quota["quotaId"].as_str().is_some_and(|id| id.contains("PerDay"))),
        }
    }

    fn out_of_quota(&self) -> bool {
        self.out_of_day
            || self.codes.iter().any(|code| matches!(code.as_str(), "insufficient_quota" | "billing_error"))
    }

    /// Whether the request was refused for its key alone, as the body says it: AWS and Google do not use the status for that.
    fn is_key_refused(&self) -> bool {
        self.is_wrong_key() || aws::is_key_refused(&self.codes, &self.words)
    }

    /// Whether Google refused the key: it does so with the status of a bad request.
    fn is_wrong_key(&self) -> bool {
        self.codes.iter().any(|code| code == "API_KEY_INVALID")
    }

    /// Whether the request does not fit into the model's window.
    fn is_too_long(&self) -> bool {
        let is_code = |code: &String| {
            matches!(
                code.as_str(),
                "context_length_exceeded" | "exceed_context_size_error" | "request_too_large"
            )
        };
        // Anthropic and vLLM have words only; the others' are known besides their codes, which gateways leave out.
        const WORDS: [&str; 7] = [
            "prompt is too long",
            "exceed context limit",
            "maximum context length",
            "context window",
            "available context size",
            "input is too long",
            "exceeds the maximum number of tokens",
        ];
        let words = self.words.to_lowercase();
        self.codes.iter().any(is_code) || WORDS.iter().any(|known| words.contains(known))
    }

    /// Whether it speaks of files that the model does not read.
    fn is_of_files(&self) -> bool {
        let words = self.words.to_lowercase();
        ["image", "audio", "multimodal", "mmproj", "vision"].iter().any(|known| words.contains(known))
    }

    fn kind(&self) -> ModelErrorKind {
        if let Some(kind) = aws::kind(&self.codes) {
            return kind;
        }
        self.codes.iter().find_map(|code| kind_of(code)).unwrap_or(ModelErrorKind::Protocol)
    }
}

fn kind_of(code: &str) -> Option<ModelErrorKind> {
    Some(match code {
        "overloaded_error" | "api_error" | "timeout_error" | "server_error" | "internal_server_error" => {
            ModelErrorKind::Unavailable
        }
        "rate_limit_error" | "rate_limit_exceeded" | "too_many_requests" => ModelErrorKind::RateLimited,
        "invalid_request_error"
        | "authentication_error"
        | "permission_error"
        | "not_found_error"
        | "invalid_api_key"
        | "invalid_prompt"
        | "model_not_found" => ModelErrorKind::Refused,
        "request_too_large" | "context_length_exceeded" => ModelErrorKind::LimitExceeded,
        // Some compatible servers put a status where the others have a word.
        _ => match code.parse::<u16>().ok()? {
            429 => ModelErrorKind::RateLimited,
            408 | 409 | 500..=599 => ModelErrorKind::Unavailable,
            413 => ModelErrorKind::LimitExceeded,
            400..=499 => ModelErrorKind::Refused,
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause_of(value: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, value.parse().unwrap());
        pause(&headers)
    }

    #[test]
    fn a_pause_is_read_in_both_forms_and_capped() {
        assert_eq!(pause_of("7"), Some(Duration::from_secs(7)));
        assert_eq!(pause_of("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(pause_of("86400"), Some(MAX_PAUSE));
        assert_eq!(pause_of("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(pause_of("Fri, 31 Dec 9999 23:59:59 GMT"), Some(MAX_PAUSE));
        for nonsense in ["-1", "NaN", "inf", "soon", ""] {
            assert_eq!(pause_of(nonsense), None, "{nonsense}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
        headers.insert("retry-after-ms", HeaderValue::from_static("250"));
        assert_eq!(pause(&headers), Some(Duration::from_millis(250)));
        headers.insert("retry-after-ms", HeaderValue::from_static("soon"));
        assert_eq!(pause(&headers), Some(Duration::from_secs(7)));
    }

    #[test]
    fn words_of_another_party_are_bounded_and_on_one_line() {
        assert_eq!(excerpt("a\r\nb\u{1b}[31m"), "a  b [31m");
        assert_eq!(excerpt(&"é".repeat(600)).chars().count(), MAX_WORDS + 1);
    }
}
