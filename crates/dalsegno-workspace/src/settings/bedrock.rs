//! Reads what only a model of Amazon Bedrock has: its region, and the access key that signs its requests.

use super::paths::Paths;
use super::{AwsKeyBinding, HttpBinding, SecretRef, secrets};
use crate::code::Code;
use crate::section::Section;

impl HttpBinding {
    /// The secrets that requests need, each with the key of the table that refers to it.
    pub fn secrets(&self) -> impl Iterator<Item = (&'static str, &SecretRef)> {
        let aws = match &self.aws_key {
            None => [None, None, None],
            Some(AwsKeyBinding::Parts { access_key_id, secret_access_key, session_token }) => [
                Some(("access_key_id", access_key_id)),
                Some(("secret_access_key", secret_access_key)),
                session_token.as_ref().map(|token| ("session_token", token)),
            ],
            Some(AwsKeyBinding::Document(document)) => [Some(("credentials", document)), None, None],
        };
        self.api_key.iter().map(|key| ("api_key", key)).chain(aws.into_iter().flatten())
    }
}

/// The keys of the table that say where an access key is.
const PARTS: [&str; 3] = ["access_key_id", "secret_access_key", "session_token"];

/// Reads the access key, and reports one that is there beside another key, or by half.
pub(super) fn access_key(model: &Section<'_>, paths: &Paths<'_>, what: &str) -> Option<AwsKeyBinding> {
    let [access_key_id, secret_access_key, session_token] =
        PARTS.map(|key| secrets::at(model, key, paths, &format!("`{key}` of {what}")));
    let document = secrets::at(model, "credentials", paths, &format!("`credentials` of {what}"));
    let part = PARTS.into_iter().find(|key| model.has(key));
    let given: Vec<&str> =
        ["api_key", "credentials"].into_iter().filter(|key| model.has(key)).chain(part).collect();
    if let [first, second, ..] = given[..] {
        let span = model.key_span(second).unwrap_or_else(|| model.span.clone());
        model
            .report
            .error(Code::InvalidValue, span, format!("{what} has both `{first}` and `{second}`"))
            .label("a request is sent with one key")
            .help(
                "write `api_key` for a key of Bedrock, `access_key_id` with `secret_access_key`, or `credentials`",
            );
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
pub(super) fn region(model: &Section<'_>, what: &str) -> Option<String> {
    if !model.has("base_url") || PARTS.into_iter().chain(["credentials"]).any(|key| model.has(key)) {
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
    if !model.has("base_url") && !has_key {
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
