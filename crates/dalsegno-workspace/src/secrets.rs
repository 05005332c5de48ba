//! Finds secrets that are written in a file instead of being referred to.

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::code::Code;
use crate::report::Report;

/// Reports what looks like a secret by its value and, where `by_key` says so, by the name of its key.
///
/// Goes first: a key that is reported here is not reported again as unknown, and its value is never shown.
pub(crate) fn report_secrets(report: &Report, table: &DeTable<'_>, by_key: bool) {
    for (key, value) in table {
        let is_named_secret = by_key && names_a_secret(key.get_ref());
        visit(report, key, value, is_named_secret, by_key);
    }
}

fn visit(
    report: &Report,
    key: &Spanned<DeString<'_>>,
    value: &Spanned<DeValue<'_>>,
    is_named_secret: bool,
    by_key: bool,
) {
    match value.get_ref() {
        DeValue::String(text) if is_named_secret || looks_like_a_secret(text) => {
            in_clear(report, key, value);
        }
        DeValue::Array(items) => {
            for item in items {
                visit(report, key, item, is_named_secret, by_key);
            }
        }
        DeValue::Table(table) => report_secrets(report, table, by_key),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => {}
    }
}

/// Reports a secret. The value is neither shown nor underlined.
pub(crate) fn in_clear(report: &Report, key: &Spanned<DeString<'_>>, value: &Spanned<DeValue<'_>>) {
    if !report.is_concealed(&key.span()) {
        report
            .error(
                Code::SecretInClear,
                key.span(),
                format!(
                    "`{}` holds a secret in clear text, which version control keeps forever",
                    key.get_ref()
                ),
            )
            .label("expected a reference to the secret")
            .help(
                "write `{ env = \"NAME\" }`, `{ file = \"PATH\" }` or `{ store = \"NAME\" }`, and replace \
                 the secret if it was ever committed",
            );
    }
    report.conceal(key.span(), value.span());
}

fn names_a_secret(key: &str) -> bool {
    let key = key.to_lowercase().replace('-', "_");
    SECRET_KEYS.iter().any(|name| key == *name || key.ends_with(&format!("_{name}")))
}

pub(crate) fn looks_like_a_secret(text: &str) -> bool {
    SECRET_BEGINNINGS.iter().any(|beginning| {
        text.strip_prefix(beginning)
            .is_some_and(|rest| rest.len() >= 12 && !rest.contains(char::is_whitespace))
    }) || text.contains("-----BEGIN") && text.contains("PRIVATE KEY-----")
}

const SECRET_KEYS: &[&str] = &[
    "api_key",
    "apikey",
    "token",
    "password",
    "secret",
    "authorization",
    "credential",
    "credentials",
    "access_key",
    "access_key_id",
];

/// How the keys of widespread services begin.
const SECRET_BEGINNINGS: &[&str] =
    &["sk-", "ghp_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "ASIA", "AIza", "hf_"];
