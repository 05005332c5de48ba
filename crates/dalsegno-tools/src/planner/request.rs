//! Requests for effects, rendered.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::run::{Notes, Run};
use crate::action::{ApiCallSource, EmailSource};
use crate::document::is_header_text;
use crate::effect::{ApiCall, EffectClass, Email, Transfer};
use crate::json::{self, measure};
use crate::limits::{MAX_VALUE_BYTES, MAX_VALUE_DEPTH};
use crate::outcome::{ErrorCode, ToolError};
use crate::path::Path;
use crate::source::{JsonSource, Parts, ValueSource, Words};
use crate::text::{Encoding, HIDDEN, Payload, SecretString, Text};
use crate::tool::{Auth, KeyPlace};
use crate::url;

/// Attempts after the first unless the document says otherwise.
const RETRIES: u32 = 3;
/// Longest idempotency key that receivers commonly take.
const MAX_KEY: usize = 255;
/// Most recipients of one mail.
const MAX_RECIPIENTS: usize = 100;

impl Run<'_, '_> {
    /// Renders an `api_call`.
    pub(super) fn api_call(&self, source: &ApiCallSource, notes: &mut Notes) -> Result<ApiCall, ToolError> {
        let missing = &mut notes.warnings;
        let names = self.names();
        let rendered = url::render(&source.url, &names, missing)?;
        let method = source.method.or(rendered.method).unwrap_or_default();
        let mut size = 0;
        let mut headers = Vec::with_capacity(source.headers.len() + 1);
        for (name, parts) in &source.headers {
            if is_absent(parts, &names)? {
                continue;
            }
            let text = parts.text(&names, missing)?;
            if !is_header_text(&text.to_owned_literals()) {
                let message = format!("the header `{name}` would hold a line break or a control character");
                return Err(ToolError::new(ErrorCode::EgressDenied, message));
            }
            size += name.len() + text.len();
            headers.push((name.clone(), text));
            check_request(size)?;
        }
        let mut query = Vec::with_capacity(source.query.len());
        for (name, values) in &source.query {
            for parts in values {
                let before = query.len();
                self.query_value(name, parts, &mut query, missing)?;
                size += query[before..].iter().map(|(name, text)| name.len() + text.len()).sum::<usize>();
                check_request(size)?;
            }
        }
        self.prove(&mut headers, &mut query);
        let body = match &source.body {
            Some(body) => Some(self.payload(body, missing)?),
            None => {
                method.has_body().then(|| Payload { value: Value::Object(Map::new()), secrets: Vec::new() })
            }
        };
        let class = source.class.unwrap_or(method.class());
        let call = ApiCall {
            method,
            url: rendered.url,
            headers,
            query,
            body,
            timeout_ms: source.timeout_ms,
            retries: source.retries.unwrap_or(RETRIES),
            retry_delay_ms: source.retry_delay_ms,
            max_elapsed_ms: source.max_elapsed_ms,
            class,
            repeats_tolerated: class == EffectClass::Unsafe
                && source.retries.is_some_and(|retries| retries > 0),
            idempotency_key: self.idempotency_key(source)?,
            max_response_bytes: source.max_response_bytes,
            response_schema: source.response_schema.clone(),
            statuses: source.statuses.clone(),
        };
        Ok(call)
    }

    fn idempotency_key(&self, source: &ApiCallSource) -> Result<String, ToolError> {
        let Some(expr) = &source.idempotency_key else { return Ok(self.key.clone()) };
        let key = match expr.evaluate(&self.names())? {
            Value::String(key) => key,
            Value::Number(number) => format!("{number}"),
            other => {
                let message = format!("the idempotency key is {}, not text", json::kind(&other));
                return Err(ToolError::new(ErrorCode::ActionFailed, message));
            }
        };
        if key.is_empty() || key.len() > MAX_KEY || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = format!("the idempotency key is not 1 to {MAX_KEY} printable ASCII characters");
            return Err(ToolError::new(ErrorCode::ActionFailed, message));
        }
        Ok(key)
    }

    /// Adds one field of the query: a list gives one pair for each item, what is absent gives none.
    fn query_value(
        &self,
        name: &str,
        parts: &Parts,
        query: &mut Vec<(String, Text)>,
        missing: &mut Vec<String>,
    ) -> Result<(), ToolError> {
        let names = self.names();
        let Some(words) = parts.as_whole() else {
            query.push((name.to_owned(), parts.text(&names, missing)?));
            return Ok(());
        };
        match words.value(&names, &mut Vec::new())? {
            Value::Null => {}
            Value::Array(items) => {
                query.extend(items.iter().map(|item| (name.to_owned(), Text::literal(plain(item)))));
            }
            other => query.push((name.to_owned(), Text::literal(plain(&other)))),
        }
        Ok(())
    }

    /// Adds the reference to the secret that proves who calls, unless the document sets the same header itself.
    fn prove(&self, headers: &mut Vec<(String, Text)>, query: &mut Vec<(String, Text)>) {
        let secret = |name: &str, before: &str| {
            let mut text = Text::literal(before);
            text.push_secret(Path::of_names("secrets", [name]), Encoding::Plain);
            text
        };
        let mut header = |name: &str, text: Text| {
            if !headers.iter().any(|(known, _)| known == name) {
                headers.push((name.to_owned(), text));
                headers.sort_by(|(left, _), (right, _)| left.cmp(right));
            }
        };
        match &self.tool.auth {
            Auth::None => {}
            Auth::Bearer { secret: name } => header("authorization", secret(name, "Bearer ")),
            Auth::OAuth2(oauth) => header("authorization", secret(&oauth.access_token, "Bearer ")),
            Auth::ApiKey { secret: name, place: KeyPlace::Header(place) } => header(place, secret(name, "")),
            Auth::ApiKey { secret: name, place: KeyPlace::Query(place) } => {
                if !query.iter().any(|(known, _)| known == place) {
                    query.push((place.clone(), secret(name, "")));
                }
            }
        }
    }

    /// Renders a JSON value whose strings may hold secrets.
    fn payload(&self, source: &JsonSource, missing: &mut Vec<String>) -> Result<Payload, ToolError> {
        let names = self.names();
        let mut value = source.value(&names, missing)?;
        let mut secrets = Vec::with_capacity(source.secrets.len());
        for (pointer, parts) in &source.secrets {
            let text = parts.text(&names, missing)?;
            if let Some(place) = value.pointer_mut(pointer) {
                *place = Value::String(format!("{text}"));
                secrets.push(SecretString { pointer: pointer.clone(), text });
            }
        }
        if measure(&value, MAX_VALUE_BYTES, MAX_VALUE_DEPTH).is_none() {
            return Err(ToolError::limit(format!("the body has more than {MAX_VALUE_BYTES} bytes")));
        }
        Ok(Payload { value, secrets })
    }

    /// Renders an `email.send`.
    pub(super) fn email(&self, source: &EmailSource, notes: &mut Notes) -> Result<Email, ToolError> {
        let missing = &mut notes.warnings;
        let names = self.names();
        let host = format!("{}", source.host.text(&names, missing)?);
        let is_host = !host.is_empty()
            && host.len() <= 253
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
        if !is_host {
            return Err(ToolError::new(ErrorCode::EgressDenied, "the mail server's name is not a host"));
        }
        let port = source.port.value(&names, missing)?;
        let port = match &port {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64().and_then(|port| u16::try_from(port).ok()),
        };
        let Some(port) = port.filter(|port| *port > 0) else {
            return Err(ToolError::new(
                ErrorCode::ActionFailed,
                "the mail server's port is not from 1 to 65535",
            ));
        };
        let mail = Email {
            host,
            port,
            security: source.security,
            username: optional_text(source.username.as_ref(), self, missing)?,
            password: optional_text(source.password.as_ref(), self, missing)?,
            from: self.line(&source.from, "from", missing)?,
            to: self.addresses(Some(&source.to), "to", missing)?,
            cc: self.addresses(source.cc.as_ref(), "cc", missing)?,
            bcc: self.addresses(source.bcc.as_ref(), "bcc", missing)?,
            reply_to: match &source.reply_to {
                Some(words) => Some(self.line(words, "reply_to", missing)?),
                None => None,
            },
            subject: self.line(&source.subject, "subject", missing)?,
            body: source.body.text(&names, missing)?,
            html: match &source.html {
                Some(words) => Some(words.text(&names, missing)?),
                None => None,
            },
            timeout_ms: source.timeout_ms,
        };
        // Without one of them nobody would log in, and the mail might go all the same.
        if mail.username.is_some() != mail.password.is_some() {
            let absent = if mail.username.is_some() { "password" } else { "username" };
            let message = format!("the mail's `{absent}` is empty: a login needs a name and a password");
            return Err(ToolError::new(ErrorCode::ActionFailed, message));
        }
        if mail.to.is_empty() {
            return Err(ToolError::new(ErrorCode::ActionFailed, "the mail has no recipient"));
        }
        if mail.to.len() + mail.cc.len() + mail.bcc.len() > MAX_RECIPIENTS {
            return Err(ToolError::limit(format!("the mail has more than {MAX_RECIPIENTS} recipients")));
        }
        if mail.body.len() + mail.html.as_ref().map_or(0, String::len) > MAX_VALUE_BYTES {
            return Err(ToolError::limit(format!("the mail has more than {MAX_VALUE_BYTES} bytes")));
        }
        Ok(mail)
    }

    /// Renders a `call.transfer`.
    pub(super) fn transfer(&self, target: &Words, notes: &mut Notes) -> Result<Transfer, ToolError> {
        let text = target.text(&self.names(), &mut notes.warnings)?;
        Transfer::to(&text).ok_or_else(|| {
            let message = match text.trim() {
                "" => "the transfer has no target".to_owned(),
                text => format!(
                    "`{}` is no target of a transfer: expected a number, or a `sip:` or `tel:` address",
                    json::excerpt(text)
                ),
            };
            ToolError::new(ErrorCode::ActionFailed, message)
        })
    }

    /// Renders what stands in a header of a mail.
    fn line(&self, words: &Words, name: &str, missing: &mut Vec<String>) -> Result<String, ToolError> {
        let text = words.text(&self.names(), missing)?;
        check_line(&text, name)?;
        Ok(text)
    }

    fn addresses(
        &self,
        source: Option<&ValueSource>,
        name: &str,
        missing: &mut Vec<String>,
    ) -> Result<Vec<String>, ToolError> {
        let Some(source) = source else { return Ok(Vec::new()) };
        let value = source.value(&self.names(), missing)?;
        let mut addresses = Vec::new();
        gather(&value, name, self.context.first_rules, &mut addresses)?;
        Ok(addresses)
    }
}

/// Takes the addresses of a text or of lists of texts. A text is one address: whoever fills in a single one cannot name
/// more. Under the first rules its commas divide it.
fn gather(
    value: &Value,
    name: &str,
    first_rules: bool,
    addresses: &mut Vec<String>,
) -> Result<(), ToolError> {
    match value {
        Value::Null => Ok(()),
        Value::String(text) if !first_rules => {
            check_line(text, name)?;
            let text = text.trim();
            if is_several(text) {
                let message = format!(
                    "`{name}` holds several addresses in one text: expected one address, or a list with a text for each"
                );
                return Err(ToolError::new(ErrorCode::ActionFailed, message));
            }
            addresses.extend((!text.is_empty()).then(|| text.to_owned()));
            Ok(())
        }
        Value::String(text) => {
            check_line(text, name)?;
            let listed = text.split(',').map(str::trim).filter(|address| !address.is_empty());
            addresses.extend(listed.map(ToOwned::to_owned));
            Ok(())
        }
        Value::Array(items) => items.iter().try_for_each(|item| gather(item, name, first_rules, addresses)),
        other => {
            let message = format!("`{name}` holds {}, not an address", json::kind(other));
            Err(ToolError::new(ErrorCode::ActionFailed, message))
        }
    }
}

/// Says whether a text has a comma or a semicolon outside of quotes, as in `a@b.co, c@d.co`. That of `"Doe, Jane" <jane@b.co>` is part
/// of a name.
fn is_several(text: &str) -> bool {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.chars().any(|letter| {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            ',' | ';' => return !is_quoted,
            _ => {}
        }
        false
    })
}

fn check_request(size: usize) -> Result<(), ToolError> {
    match size > MAX_VALUE_BYTES {
        true => Err(ToolError::limit(format!("the request has more than {MAX_VALUE_BYTES} bytes"))),
        false => Ok(()),
    }
}

fn check_line(text: &str, name: &str) -> Result<(), ToolError> {
    const LONGEST_LINE: usize = 998;
    if text.chars().any(char::is_control) {
        let message = format!("`{name}` would hold a line break or a control character");
        return Err(ToolError::new(ErrorCode::EgressDenied, message));
    }
    if text.len() > LONGEST_LINE {
        return Err(ToolError::limit(format!("`{name}` has more than {LONGEST_LINE} bytes")));
    }
    Ok(())
}

fn optional_text(
    parts: Option<&Parts>,
    run: &Run<'_, '_>,
    missing: &mut Vec<String>,
) -> Result<Option<Text>, ToolError> {
    let Some(parts) = parts else { return Ok(None) };
    if is_absent(parts, &run.names())? {
        return Ok(None);
    }
    Ok(Some(parts.text(&run.names(), missing)?))
}

/// Says whether a template is one expression that gives nothing.
fn is_absent(parts: &Parts, names: &crate::scope::Names<'_>) -> Result<bool, ToolError> {
    Ok(match parts.as_whole() {
        Some(words) => words.value(names, &mut Vec::new())?.is_null(),
        None => false,
    })
}

/// A value as text: strings as they are, the rest as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => json::print(other),
    }
}

impl Text {
    /// The text with `[secret]` for secrets, which hold no control characters.
    fn to_owned_literals(&self) -> String {
        debug_assert!(is_header_text(HIDDEN), "what is shown for a secret is plain");
        format!("{self}")
    }
}
