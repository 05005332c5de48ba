//! Reads what only a model of Amazon Bedrock has: its region, and the access key that signs its requests.

use std::collections::BTreeMap;

use super::keys::SECRET;
use super::paths::Paths;
use super::{AwsKeyBinding, TenantKey, secrets};
use crate::code::Code;
use crate::section::Section;
use crate::shape::{Form, Key};

/// The keys of the table that say where an access key is.
pub(super) const PARTS: [&str; 3] = ["access_key_id", "secret_access_key", "session_token"];

/// The same as the tables of keys have them, and the document that holds all three.
pub(super) const KEYS: [Key; 4] = [
    Key::new("access_key_id", Form::Table(&SECRET), "Where to find the id of an access key of AWS."),
    Key::new("secret_access_key", Form::Table(&SECRET), "Where to find the secret of that access key."),
    Key::new(
        "session_token",
        Form::Table(&SECRET),
        "Where to find the token of its session, if it is the key of a session.",
    ),
    Key::new(
        "credentials",
        Form::Table(&SECRET),
        "Where to find all three as JSON: `{ command = [\"aws\", \"configure\", \"export-credentials\"] }`.",
    ),
];

/// Reads the access key of a model.
pub(super) fn key_of_model(model: &Section<'_>, paths: &Paths<'_>, what: &str) -> Option<AwsKeyBinding> {
    let help =
        "write `api_key` for a key of Bedrock, `access_key_id` with `secret_access_key`, or `credentials`";
    access_key(model, paths, what, (&["api_key"], help))
}

/// Reads an access key, and reports one that is there beside another key, or by half. `beside` are the keys of the table that are
/// another one's, with what to do where both are there.
pub(super) fn access_key(
    model: &Section<'_>,
    paths: &Paths<'_>,
    what: &str,
    (beside, help): (&[&str], &str),
) -> Option<AwsKeyBinding> {
    let [access_key_id, secret_access_key, session_token] =
        PARTS.map(|key| secrets::at(model, key, paths, &format!("`{key}` of {what}")));
    let document = secrets::at(model, "credentials", paths, &format!("`credentials` of {what}"));
    let part = PARTS.into_iter().find(|key| model.has(key));
    let others = beside.iter().copied().filter(|key| model.has(key)).take(1);
    let document_key = Some("credentials").filter(|key| model.has(key));
    let given: Vec<&str> = others.chain(document_key).chain(part).collect();
    if let [first, second, ..] = given[..] {
        let span = model.key_span(second).unwrap_or_else(|| model.span.clone());
        model
            .report
            .error(Code::InvalidValue, span, format!("{what} has both `{first}` and `{second}`"))
            .label("a request is sent with one key")
            .help(help);
    }
    if part.is_some() {
        for key in ["access_key_id", "secret_access_key"] {
            model.require(key, &format!("add `{key} = {{ env = \"{}\" }}`", usual(key)));
        }
    }
    match (document, access_key_id, secret_access_key) {
        (Some(document), ..) => Some(AwsKeyBinding::Document(document)),
        (None, Some(access_key_id), Some(secret_access_key)) => {
            Some(AwsKeyBinding::Parts { access_key_id, secret_access_key, session_token })
        }
        _ => None,
    }
}

/// Reads the region, which Bedrock's own address needs and each signature does.
pub(super) fn region(
    model: &Section<'_>,
    keys: Option<&BTreeMap<String, TenantKey>>,
    what: &str,
) -> Option<String> {
    let tenant_signs = keys.is_some_and(|keys| keys.values().any(|key| matches!(key, TenantKey::Aws(_))));
    let signs = tenant_signs || PARTS.into_iter().chain(["credentials"]).any(|key| model.has(key));
    if !model.has("base_url") || signs {
        model.require("region", "add `region = \"…\"`, such as `eu-central-1`");
    }
    let region = model.string("region")?;
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let is_region = region.value.len() <= MAX_REGION
        && region.value.contains('-')
        && region.value.split('-').all(is_word);
    if !is_region {
        model
            .report
            .error(Code::InvalidValue, region.span, format!("`region` of {what} is not a region of AWS"))
            .label("expected letters in lower case and digits, with `-` between")
            .help("write the code of the region, such as `eu-central-1`");
        return None;
    }
    Some(region.value)
}

/// Most letters of a region.
const MAX_REGION: usize = 32;

/// Says that there must be a key, of any kind.
pub(super) fn require_key(model: &Section<'_>) {
    let has_key = PARTS.into_iter().chain(["credentials"]).any(|key| model.has(key));
    if !model.has("base_url") && !model.has("keys") && !has_key {
        model.require(
            "api_key",
            "add `api_key = { env = \"AWS_BEARER_TOKEN_BEDROCK\" }`, or \
             `credentials = { command = [\"aws\", \"configure\", \"export-credentials\"] }`",
        );
    }
}

/// The environment variable that usually holds a part of an access key.
fn usual(key: &str) -> String {
    format!("AWS_{}", key.to_ascii_uppercase())
}
