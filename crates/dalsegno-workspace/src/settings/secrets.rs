//! Reads references to secrets, never values.

use std::collections::BTreeMap;
use std::str::FromStr;

use toml::Spanned;
use toml::de::DeValue;

use super::keys::SECRET;
use super::paths::Paths;
use super::{SecretRef, StoreKey};
use crate::code::Code;
use crate::report::Report;
use crate::section::{Section, wrong_type};

/// Reads a table of references by name; `what` goes before a name, such as `the secret`.
pub(crate) fn read(
    section: &Section<'_>,
    key: &str,
    what: &str,
    paths: &Paths<'_>,
) -> BTreeMap<String, SecretRef> {
    let mut secrets = BTreeMap::new();
    let Some(table) = section.get(key).and_then(|value| value.get_ref().as_table()) else {
        // Says so where something else than a table is there.
        section.tables(key);
        return secrets;
    };
    for (name, value) in table {
        match value.get_ref() {
            DeValue::String(_) => crate::secrets::in_clear(paths.report, name, value),
            DeValue::Table(_) => {
                let what = format!("{what} `{}`", name.get_ref());
                let reference = Section::of(paths.report, name.get_ref(), value, &what, &SECRET);
                if let Some(secret) =
                    reference.and_then(|reference| self::reference(&reference, paths, &what))
                {
                    secrets.insert(name.get_ref().to_string(), secret);
                }
            }
            _ => {
                wrong_type::<()>(
                    paths.report,
                    name.get_ref(),
                    value,
                    "`{ env = \"NAME\" }`, `{ file = \"PATH\" }` or `{ store = \"NAME\" }`",
                );
            }
        }
    }
    secrets
}

/// Reads a reference to a secret; a secret in clear has been reported.
pub(super) fn at(section: &Section<'_>, key: &str, paths: &Paths<'_>, what: &str) -> Option<SecretRef> {
    match section.get(key)?.get_ref() {
        DeValue::String(_) => None,
        _ => reference(&section.section_as(key, what)?, paths, what),
    }
}

/// Reads a reference that stands in a table of its own.
pub(super) fn one(
    report: &Report,
    key: &str,
    value: &Spanned<DeValue<'_>>,
    what: &str,
    paths: &Paths<'_>,
) -> Option<SecretRef> {
    reference(&Section::of(report, key, value, what, &SECRET)?, paths, what)
}

/// Reads a reference whose table is open already.
pub(super) fn reference(section: &Section<'_>, paths: &Paths<'_>, what: &str) -> Option<SecretRef> {
    let places = ["env", "file", "store", "command"];
    let given: Vec<&str> = places.into_iter().filter(|place| section.get(place).is_some()).collect();
    match given[..] {
        ["env"] => paths.variable(variable(section)?, section.string("env")?.span),
        ["file"] => paths.secret_file(paths.path(section, "file")?),
        ["store"] => paths.stored(section.parsed::<StoredName>("store")?.map(|name| name.0)),
        ["command"] => paths.secret_command(section),
        _ => {
            let help = "write `{ env = \"NAME\" }`, `{ file = \"PATH\" }` or `{ store = \"NAME\" }`";
            one_place(section, &given, &places, what, help);
            None
        }
    }
}

/// Reads where the key of the secret store is found.
pub(super) fn key(section: &Section<'_>, paths: &Paths<'_>) -> Option<StoreKey> {
    let what = "the key of the secret store";
    let key = section.section_as("key", what)?;
    let places = ["env", "file"];
    let given: Vec<&str> = places.into_iter().filter(|place| key.get(place).is_some()).collect();
    match given[..] {
        ["env"] => variable(&key).map(StoreKey::Env),
        ["file"] => paths.path(&key, "file").map(|path| StoreKey::File(path.value)),
        _ => {
            one_place(&key, &given, &places, what, "write `{ env = \"NAME\" }` or `{ file = \"PATH\" }`");
            None
        }
    }
}

/// Reports a secret that is in no place or in several.
fn one_place(section: &Section<'_>, given: &[&str], places: &[&str], what: &str, help: &str) {
    let quoted = |names: &[&str], last: &str| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        names.join(last)
    };
    let problem = match (given, places) {
        ([], [first, second]) => format!("neither `{first}` nor `{second}`"),
        ([], _) => format!("none of {}", quoted(places, ", ")),
        ([_, _], _) => format!("both {}", quoted(given, " and ")),
        _ => format!("all of {}", quoted(given, ", ")),
    };
    section
        .report
        .error(Code::InvalidValue, section.span.clone(), format!("{what} has {problem}"))
        .help(help);
}

fn variable(section: &Section<'_>) -> Option<String> {
    let name = section.string("env")?;
    if name.value.is_empty() || name.value.contains(['=', '\0', '$', ' ']) {
        section
            .report
            .error(Code::InvalidValue, name.span, "`env` is not the name of an environment variable")
            .label("expected a name such as `CRM_TOKEN`, without `$`");
        return None;
    }
    Some(name.value)
}

/// The name of a secret in the store.
struct StoredName(String);

impl FromStr for StoredName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let fits = text.len() <= 128
            && text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
            && text.bytes().all(inside);
        if fits {
            return Ok(Self(text.to_owned()));
        }
        Err(
            "not the name of a stored secret: expected 1 to 128 letters, digits, `_`, `-` and `.`, a letter first",
        )
    }
}
