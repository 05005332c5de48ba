//! Reads `[secrets]`: references, never values.

use std::collections::BTreeMap;

use toml::de::DeValue;

use super::SecretRef;
use super::keys::SECRET;
use super::paths::Paths;
use crate::code::Code;
use crate::section::{Section, wrong_type};

pub(crate) fn read(file: &Section<'_>, paths: &Paths<'_>) -> BTreeMap<String, SecretRef> {
    let mut secrets = BTreeMap::new();
    let Some(table) = file.get("secrets").and_then(|value| value.get_ref().as_table()) else {
        // Says so where `secrets` is something else than a table.
        file.tables("secrets");
        return secrets;
    };
    for (name, value) in table {
        match value.get_ref() {
            DeValue::String(_) => crate::secrets::in_clear(paths.report, name, value),
            DeValue::Table(_) => {
                let what = format!("the secret `{}`", name.get_ref());
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
                    "`{ env = \"NAME\" }` or `{ file = \"PATH\" }`",
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

fn reference(section: &Section<'_>, paths: &Paths<'_>, what: &str) -> Option<SecretRef> {
    let (env, file) = (section.get("env").is_some(), section.get("file").is_some());
    if env == file {
        let problem = if env { "both `env` and `file`" } else { "neither `env` nor `file`" };
        paths
            .report
            .error(Code::InvalidValue, section.span.clone(), format!("{what} has {problem}"))
            .help("write `{ env = \"NAME\" }` or `{ file = \"PATH\" }`");
        return None;
    }
    if file {
        return paths.path(section, "file").map(|path| SecretRef::File(path.value));
    }
    let name = section.string("env")?;
    if name.value.is_empty() || name.value.contains(['=', '\0', '$', ' ']) {
        paths
            .report
            .error(Code::InvalidValue, name.span, "`env` is not the name of an environment variable")
            .label("expected a name such as `CRM_TOKEN`, without `$`");
        return None;
    }
    Some(SecretRef::Env(name.value))
}
