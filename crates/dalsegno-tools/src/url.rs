//! URLs from templates: who may choose the host, and how values are written into their place.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use serde_json::Value;

use crate::effect::Method;
use crate::json;
use crate::limits::MAX_URL_BYTES;
use crate::outcome::{ErrorCode, ToolError};
use crate::path::Path;
use crate::scope::Names;
use crate::source::{Parts, Piece};
use crate::text::{Encoding, Text, percent_encode};

/// Where the next character of a URL stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Before the path: scheme, host, port.
    Origin,
    Path,
    Query,
    Fragment,
}

fn position(url: &str) -> Position {
    let Some((_, rest)) = url.split_once("://") else { return Position::Origin };
    match (rest.find(['/', '?', '#']), rest.contains('?'), rest.contains('#')) {
        (None, ..) => Position::Origin,
        (_, _, true) => Position::Fragment,
        (_, true, _) => Position::Query,
        _ => Position::Path,
    }
}

const WHO: &str = "only literals, `tenant` and `config` may supply scheme and host";

/// Refuses, when a document is loaded, a URL whose host a value could choose. What depends on tenant settings is known
/// only when the URL is rendered, and checked then.
pub(crate) fn check(parts: &Parts) -> Result<(), (String, String)> {
    let fail = |message: &str, help: &str| Err((message.to_owned(), help.to_owned()));
    let mut known = Some(String::new());
    for (index, part) in parts.0.iter().enumerate() {
        let is_origin = known.as_deref().is_some_and(|known| position(known) == Position::Origin);
        match part {
            Piece::Text(text) if text.contains(is_unclean) => {
                return fail(
                    "the URL holds a character that no URL has",
                    "write it percent-encoded, such as `%20`",
                );
            }
            Piece::Text(text) => {
                if index == 0 && !is_http(text) {
                    return fail("the URL has no scheme that is known", "expected `https://` or `http://`");
                }
                if let Some(known) = &mut known {
                    known.push_str(text);
                }
            }
            Piece::Words { trusted: true, .. } => {
                if is_origin {
                    known = None;
                }
            }
            Piece::Words { trusted: false, .. } if is_origin => {
                return fail("a value could choose where the request goes", WHO);
            }
            Piece::Secret(_) if is_origin => return fail("a secret cannot be a part of the host", WHO),
            Piece::Words { .. } | Piece::Secret(_) => {}
        }
    }
    match known {
        Some(known) => check_whole(&known).or_else(|message| fail(&message, "mend the URL")),
        None => Ok(()),
    }
}

/// What a URL is rendered to.
pub(crate) struct Rendered {
    pub(crate) url: Text,
    /// The method that the tenant's endpoint asks for.
    pub(crate) method: Option<Method>,
}

/// Renders a URL; values are percent-encoded for their position.
pub(crate) fn render(
    parts: &Parts,
    names: &Names<'_>,
    missing: &mut alloc::vec::Vec<String>,
) -> Result<Rendered, ToolError> {
    let mut url = Text::default();
    // The same with a letter for each secret, to know where the next part stands.
    let mut whole = String::new();
    let mut method = None;
    for part in &parts.0 {
        match part {
            Piece::Text(text) => {
                url.push_literal(text);
                whole.push_str(text);
            }
            Piece::Words { words, trusted: true } => {
                let value = match words.bare.first() {
                    Some(path) => names.find(path).map_or(Value::Null, alloc::borrow::Cow::into_owned),
                    None => words.value(names, missing)?,
                };
                if value.is_null() {
                    missing.push(format!("`{}` is missing", words.template));
                }
                let text = match value {
                    Value::Object(_) if whole.is_empty() => {
                        let endpoint = endpoint(&value, names)?;
                        method = endpoint.1;
                        endpoint.0
                    }
                    Value::Object(_) | Value::Array(_) => {
                        let message =
                            format!("`{}` is {}, and no part of a URL", words.template, json::kind(&value));
                        return Err(ToolError::new(ErrorCode::ActionFailed, message));
                    }
                    Value::String(text) => text,
                    Value::Null => String::new(),
                    other => json::print(&other),
                };
                let mut written = String::new();
                match position(&whole) {
                    Position::Origin => written = text,
                    Position::Path => percent_encode(&text, "/", &mut written),
                    Position::Query | Position::Fragment => percent_encode(&text, "", &mut written),
                }
                url.push_literal(&written);
                whole.push_str(&written);
            }
            Piece::Words { words, trusted: false } => {
                let text = words.text(names, missing)?;
                refuse_origin(&whole)?;
                let mut written = String::new();
                percent_encode(&text, "", &mut written);
                url.push_literal(&written);
                whole.push_str(&written);
            }
            Piece::Secret(path) => {
                refuse_origin(&whole)?;
                url.push_secret(path.clone(), Encoding::Percent);
                whole.push('x');
            }
        }
        if whole.len() > MAX_URL_BYTES {
            return Err(ToolError::limit(format!("the URL has more than {MAX_URL_BYTES} bytes")));
        }
    }
    match check_whole(&whole) {
        Ok(()) => Ok(Rendered { url, method }),
        Err(message) => Err(ToolError::new(ErrorCode::EgressDenied, message)),
    }
}

fn refuse_origin(whole: &str) -> Result<(), ToolError> {
    if position(whole) != Position::Origin {
        return Ok(());
    }
    let message = format!("a value would choose where the request goes: {WHO}");
    Err(ToolError::new(ErrorCode::EgressDenied, message))
}

/// Joins `{path, method}` of the tenant's settings to its `base_url`.
fn endpoint(value: &Value, names: &Names<'_>) -> Result<(String, Option<Method>), ToolError> {
    let fail = |message: &str| Err(ToolError::new(ErrorCode::ActionFailed, message));
    let Some(path) = value.get("path").and_then(Value::as_str) else {
        return fail("the endpoint in the tenant's settings is neither a URL nor an object with `path`");
    };
    let base_path = Path::of_names("tenant", ["settings", "base_url"]);
    let base = names.find(&base_path);
    let Some(base) = base.as_deref().and_then(Value::as_str) else {
        return fail("the endpoint has a `path`, and the tenant's settings have no `base_url`");
    };
    let method = match value.get("method") {
        None | Some(Value::Null) => None,
        Some(method) => {
            let name = method.as_str().unwrap_or_default().to_ascii_uppercase();
            match Method::ALL.iter().find(|(known, _)| *known == name) {
                Some((_, method)) => Some(*method),
                None => return fail("the endpoint's `method` in the tenant's settings is not known"),
            }
        }
    };
    Ok((format!("{}/{}", base.trim_end_matches('/'), path.trim_start_matches('/')), method))
}

/// Checks what is known of a URL as a whole.
fn check_whole(url: &str) -> Result<(), String> {
    if url.contains(is_unclean) {
        return Err("the URL holds a character that no URL has".into());
    }
    if !is_http(url) {
        return Err("the URL has no scheme that is known: expected `https://` or `http://`".into());
    }
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (origin, rest) = rest.split_at(end);
    if origin.is_empty() || origin.starts_with(':') {
        return Err("the URL has no host".into());
    }
    if origin.contains('@') {
        return Err("the URL holds a user name: a login belongs in a header".into());
    }
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    // Servers and clients take these out, so that another place is reached than the one that is written.
    let steps_out = path.split('/').any(|segment| {
        let segment = segment.to_ascii_lowercase().replace("%2e", ".");
        segment == "." || segment == ".."
    });
    if steps_out {
        return Err("the path of the URL holds `.` or `..`".into());
    }
    Ok(())
}

fn is_http(url: &str) -> bool {
    let starts =
        |scheme: &str| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    starts("https://") || starts("http://")
}

fn is_unclean(char: char) -> bool {
    char.is_control()
        || char.is_whitespace()
        || matches!(char, '\\' | '"' | '<' | '>' | '^' | '`' | '{' | '|' | '}')
}
