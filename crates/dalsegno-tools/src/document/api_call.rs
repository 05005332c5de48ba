//! The `api_call` action, and the `webhook` of older documents.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::reader::{Fields, Reader};
use super::sources::Allowed;
use crate::action::{ActionKind, ApiCallSource};
use crate::effect::{EffectClass, Method, StatusMeaning};
use crate::json;
use crate::limits::{
    MAX_ELAPSED_MS, MAX_RESPONSE_BYTES, MAX_RETRIES, MAX_RETRY_DELAY_MS, MAX_SECRETS_IN_REQUEST,
    MAX_TIMEOUT_MS,
};
use crate::problem::{Problem, item, member};
use crate::source::{Parts, Piece};
use crate::url;

const FIELDS: [&str; 18] = [
    "type",
    "id",
    "url",
    "method",
    "body",
    "headers",
    "query",
    "timeout",
    "retry_count",
    "retry_delay",
    "max_elapsed",
    "on_error",
    "response_path",
    "response_schema",
    "effect",
    "idempotency_key",
    "max_response_bytes",
    "statuses",
];

/// Headers that the shell alone sets.
const RESERVED_HEADERS: [&str; 9] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "keep-alive",
    "expect",
];

/// Seconds for each attempt unless said otherwise.
const TIMEOUT_MS: u64 = 30_000;
/// The first delay unless said otherwise.
const RETRY_DELAY_MS: u64 = 500;
/// The time over all attempts unless said otherwise.
const ELAPSED_MS: u64 = 60_000;

impl Reader<'_> {
    pub(super) fn api_call(&mut self, value: &Value, pointer: &str) -> Option<ActionKind> {
        let fields = self.object(value, pointer, "`api_call`", &FIELDS)?;
        let url = match self.required_text(&fields, "url", "a URL such as `https://api.example.com/meals`") {
            Some(text) => self.url(&fields.at("url"), text),
            None => None,
        };
        let method = match self.text(&fields, "method") {
            Some(text) => self.method(&fields, text),
            None => None,
        };
        let headers = self.headers(&fields);
        let query = self.query(&fields);
        let body = match fields.get("body") {
            Some(_) if method == Some(Method::Get) => {
                self.problem(fields.at("body"), "a GET has no body", "use `query`, or another method");
                None
            }
            Some(body) => Some(self.json(&fields.at("body"), body, true, true)),
            None => None,
        };
        let class = self.choice(&fields, "effect", &EffectClass::ALL);
        let retries = self.whole(&fields, "retry_count", u64::from(MAX_RETRIES));
        let idempotency_key = self
            .text(&fields, "idempotency_key")
            .map(|text| self.expr(&fields.at("idempotency_key"), text, Allowed::default()));
        if idempotency_key.is_some() && class.is_some_and(|class| class != EffectClass::Keyed) {
            self.warning(
                fields.at("idempotency_key"),
                "the key decides nothing for this effect",
                "a receiver that knows keys has `\"effect\": \"keyed\"`",
            );
        }
        self.check_repeats(&fields, class, method, retries);
        let statuses = self.statuses(&fields);
        let schema = fields.get("response_schema").cloned();
        if schema.as_ref().is_some_and(|schema| !schema.is_object()) {
            self.problem(fields.at("response_schema"), "this is no JSON Schema", "expected an object");
        }
        let on_error = self.on_error(&fields);
        let response = self.optional_write(&fields, "response_path");
        let timeout_ms = self.seconds(&fields, "timeout", 1, MAX_TIMEOUT_MS).unwrap_or(TIMEOUT_MS);
        let retry_delay_ms =
            self.seconds(&fields, "retry_delay", 0, MAX_RETRY_DELAY_MS).unwrap_or(RETRY_DELAY_MS);
        let max_elapsed_ms = self.seconds(&fields, "max_elapsed", 1, MAX_ELAPSED_MS).unwrap_or(ELAPSED_MS);
        let max_response_bytes = self
            .whole(&fields, "max_response_bytes", MAX_RESPONSE_BYTES as u64)
            .unwrap_or(MAX_RESPONSE_BYTES as u64);
        let source = ApiCallSource {
            url: url?,
            method,
            headers: headers?,
            query: query?,
            body: super::actions::transpose(body)?,
            timeout_ms,
            retries: retries.and_then(|retries| u32::try_from(retries).ok()),
            retry_delay_ms,
            max_elapsed_ms,
            on_error,
            response: response?,
            response_schema: schema,
            max_response_bytes,
            class,
            idempotency_key: super::actions::transpose(idempotency_key)?,
            statuses: statuses?,
        };
        self.count_secrets(&source, &fields)?;
        Some(ActionKind::ApiCall(Box::new(source)))
    }

    /// A `retry_count` is the author's word that the receiver tolerates repeats, which `unsafe` denies.
    fn check_repeats(
        &mut self,
        fields: &Fields<'_>,
        class: Option<EffectClass>,
        method: Option<Method>,
        retries: Option<u64>,
    ) {
        let Some(retries) = retries.filter(|retries| *retries > 0) else { return };
        let told = |message: &str, help: &str| Problem {
            pointer: fields.at("retry_count"),
            message: message.to_owned(),
            help: Some(help.to_owned()),
            suggestion: None,
        };
        match class {
            Some(EffectClass::Unsafe) => self.report.mistake(told(
                "`retry_count` repeats a call that `\"effect\": \"unsafe\"` says must not be repeated",
                "take `retry_count` out; or, if the receiver knows a repeat by its key, write `\"effect\": \"keyed\"`",
            )),
            // The URL of a setting can bring its own method.
            None if method.is_none_or(|method| method.class() == EffectClass::Unsafe) => {
                let message = format!(
                    "with `retry_count` a call that may have taken place is repeated up to {retries} times"
                );
                self.report.note(told(
                    &message,
                    "this is your word that the receiver tolerates repeats; write `\"effect\": \"keyed\"` if it knows them by the header `Idempotency-Key`, or take `retry_count` out",
                ));
            }
            Some(EffectClass::Read | EffectClass::Idempotent | EffectClass::Keyed) | None => {}
        }
    }

    /// Reads what statuses say of the effect.
    fn statuses(&mut self, fields: &Fields<'_>) -> Option<BTreeMap<u16, StatusMeaning>> {
        let Some(value) = fields.get("statuses") else { return Some(BTreeMap::new()) };
        let pointer = fields.at("statuses");
        let Value::Object(map) = value else {
            self.problem(
                pointer,
                format!("this is {}", json::kind(value)),
                "expected an object such as `{ \"409\": \"performed\" }`",
            );
            return None;
        };
        self.few(&pointer, map.len(), "statuses")?;
        let own = Fields { map, pointer };
        let mut statuses = BTreeMap::new();
        let mut is_whole = true;
        for (name, value) in json::sorted(map) {
            let status =
                name.parse::<u16>().ok().filter(|status| name.len() == 3 && (200..600).contains(status));
            let Some(status) = status else {
                self.problem(
                    own.at(name),
                    format!("`{}` is no status of an answer", json::excerpt(name)),
                    "expected three digits from 200 to 599, such as `409`",
                );
                is_whole = false;
                continue;
            };
            if !value.is_string() {
                let message = format!("this is {}", json::kind(value));
                self.problem(own.at(name), message, "expected `performed` or `not_performed`");
                is_whole = false;
                continue;
            }
            let Some(meaning) = self.choice(&own, name, &StatusMeaning::ALL) else {
                is_whole = false;
                continue;
            };
            if (200..300).contains(&status) && meaning == StatusMeaning::Performed {
                let help = "take it out: every status from 200 to 299 says so";
                self.warning(own.at(name), format!("`{status}` means `performed` anyway"), help);
            }
            if (200..300).contains(&status) && meaning == StatusMeaning::NotPerformed {
                let message =
                    format!("`{status}` cannot mean `not_performed`: it says that the request was performed");
                self.problem(
                    own.at(name),
                    message,
                    "take it out; check the body with `response_schema` or `validate`",
                );
                is_whole = false;
                continue;
            }
            if matches!(status, 301 | 302 | 303 | 307 | 308) {
                let message =
                    format!("a redirect (`{status}`) is followed, so its status is never the answer");
                self.problem(
                    own.at(name),
                    message,
                    "take it out, and give the status of the answer behind it",
                );
                is_whole = false;
                continue;
            }
            statuses.insert(status, meaning);
        }
        is_whole.then_some(statuses)
    }

    fn count_secrets(&mut self, source: &ApiCallSource, fields: &Fields<'_>) -> Option<()> {
        let lists = source.query.iter().flat_map(|(_, values)| values);
        let parts =
            core::iter::once(&source.url).chain(source.headers.iter().map(|(_, parts)| parts)).chain(lists);
        let body = source.body.iter().flat_map(|body| body.secrets.iter().map(|(_, parts)| parts));
        let count: usize = parts.chain(body).map(Parts::secrets).sum();
        if count <= MAX_SECRETS_IN_REQUEST {
            return Some(());
        }
        let help = format!("expected at most {MAX_SECRETS_IN_REQUEST}");
        self.problem(fields.pointer.as_str(), format!("the request holds {count} secrets"), help);
        None
    }

    fn method(&mut self, fields: &Fields<'_>, text: &str) -> Option<Method> {
        let upper = text.to_ascii_uppercase();
        let found = Method::ALL.iter().find(|(name, _)| *name == upper).map(|(_, method)| *method);
        if found.is_none() {
            self.unknown(&fields.at("method"), "method", text, &["GET", "POST", "PUT", "PATCH", "DELETE"]);
        }
        found
    }

    /// Reads a URL, and refuses one whose host a value could choose.
    fn url(&mut self, pointer: &str, text: &str) -> Option<Parts> {
        let parts = self.parts(pointer, text)?;
        match url::check(&parts) {
            Ok(()) => Some(parts),
            Err((message, help)) => {
                self.problem(pointer, message, help);
                None
            }
        }
    }

    fn headers(&mut self, fields: &Fields<'_>) -> Option<Vec<(String, Parts)>> {
        let Some(value) = fields.get("headers") else { return Some(Vec::new()) };
        let pointer = fields.at("headers");
        let Value::Object(map) = value else {
            self.problem(
                pointer,
                format!("this is {}", json::kind(value)),
                "expected an object of names and values",
            );
            return None;
        };
        self.few(&pointer, map.len(), "headers")?;
        let mut headers: Vec<(String, Parts)> = Vec::new();
        let mut is_whole = true;
        for (name, value) in json::sorted(map) {
            let at = member(&pointer, name);
            let lower = name.to_ascii_lowercase();
            if !is_header_name(&lower) {
                self.problem(
                    at,
                    format!("`{}` is not the name of a header", json::excerpt(name)),
                    "expected letters, digits and `-`",
                );
                is_whole = false;
                continue;
            }
            if RESERVED_HEADERS.contains(&lower.as_str()) || lower.starts_with("proxy-") {
                self.problem(at, format!("the header `{lower}` belongs to the engine"), "leave it out");
                is_whole = false;
                continue;
            }
            if headers.iter().any(|(known, _)| *known == lower) {
                self.problem(at, format!("the header `{lower}` is given twice"), "give it once");
                is_whole = false;
                continue;
            }
            match self.scalar_parts(&at, value) {
                Some(parts) => {
                    let breaks =
                        parts.0.iter().any(|part| matches!(part, Piece::Text(text) if !is_header_text(text)));
                    if breaks {
                        self.problem(
                            at,
                            "a header holds no line breaks and no control characters",
                            "leave them out",
                        );
                        is_whole = false;
                    }
                    headers.push((lower, parts));
                }
                None => is_whole = false,
            }
        }
        is_whole.then_some(headers)
    }

    fn query(&mut self, fields: &Fields<'_>) -> Option<Vec<(String, Vec<Parts>)>> {
        let Some(value) = fields.get("query") else { return Some(Vec::new()) };
        let pointer = fields.at("query");
        let Value::Object(map) = value else {
            self.problem(
                pointer,
                format!("this is {}", json::kind(value)),
                "expected an object of names and values",
            );
            return None;
        };
        self.few(&pointer, map.len(), "fields")?;
        let mut query = Vec::new();
        let mut is_whole = true;
        for (name, value) in json::sorted(map) {
            let at = member(&pointer, name);
            let parts: Option<Vec<Parts>> = match value {
                Value::Array(items) => {
                    let items: Vec<_> = items
                        .iter()
                        .enumerate()
                        .map(|(index, value)| self.scalar_parts(&item(&at, index), value))
                        .collect();
                    items.into_iter().collect()
                }
                value => self.scalar_parts(&at, value).map(|parts| alloc::vec![parts]),
            };
            match parts {
                Some(parts) => query.push((name.clone(), parts)),
                None => is_whole = false,
            }
        }
        is_whole.then_some(query)
    }

    /// Reads a template, or a number or boolean as its text.
    pub(super) fn scalar_parts(&mut self, pointer: &str, value: &Value) -> Option<Parts> {
        match value {
            Value::String(text) => self.parts(pointer, text),
            Value::Bool(_) | Value::Number(_) => Some(Parts(alloc::vec![Piece::Text(json::print(value))])),
            other => {
                self.problem(
                    pointer,
                    format!("this is {}", json::kind(other)),
                    "expected a string, a number or a boolean",
                );
                None
            }
        }
    }

    /// Reads `{"type": "webhook", "endpoint": …, "payload": …}` as an `api_call`.
    pub(super) fn webhook(&mut self, value: &Value, pointer: &str) -> Option<ActionKind> {
        let Value::Object(map) = value else { return None };
        self.warning(
            member(pointer, "type"),
            "`webhook` is an older name",
            "write `api_call` with `url` for `endpoint` and `body` for `payload`",
        );
        let mut renamed = Map::new();
        for (name, field) in map {
            let name = match name.as_str() {
                "type" => continue,
                "endpoint" => "url",
                "payload" => "body",
                other => other,
            };
            if renamed.insert(name.to_owned(), field.clone()).is_some() {
                self.problem(pointer, format!("`{name}` is given under both of its names"), "give it once");
            }
        }
        let (problems, warnings) = (self.report.problems.len(), self.report.warnings.len());
        let action = self.api_call(&Value::Object(renamed), pointer);
        // What was found is told where it stands in the document.
        let told = self.report.problems.iter_mut().skip(problems);
        for problem in told.chain(self.report.warnings.iter_mut().skip(warnings)) {
            for (name, written) in [("url", "endpoint"), ("body", "payload")] {
                let place = member(pointer, name);
                let rest = problem.pointer.strip_prefix(&place).filter(|_| map.contains_key(written));
                if let Some(rest) = rest {
                    problem.pointer = format!("{}{rest}", member(pointer, written));
                }
            }
        }
        action
    }
}

pub(super) fn is_header_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 100
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Says whether a text can be the value of a header: no line breaks and no other control characters but a tab.
pub(crate) fn is_header_text(text: &str) -> bool {
    !text.chars().any(|char| char.is_control() && char != '\t')
}
