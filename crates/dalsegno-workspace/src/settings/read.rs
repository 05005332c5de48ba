//! Reads `dalsegno.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::paths::Paths;
use super::{
    FILE, KeysPlace, MemoryBinding, ModelBinding, Reach, SecretStoreBinding, Settings, StoreKey, budget,
    dispatch, models, reach, secrets, serve, servers, telemetry, triggers, voice,
};
use crate::code::Code;
use crate::place::Place;
use crate::report::Report;
use crate::section::Section;

/// What `dalsegno.toml` says, as far as it fits.
pub(crate) struct SettingsRead {
    /// The settings, with defaults in place of what does not fit.
    pub(crate) settings: Settings,
    /// Whether the place of the store is what the file means, not a default in the place of something unreadable.
    pub(crate) store_is_known: bool,
    /// Where the keys of tenants stand.
    pub(crate) keys: Vec<KeysPlace>,
}

/// Reads the settings of a file that was just parsed.
pub(crate) fn read(report: &Report, table: &DeTable<'_>, root: &Path) -> SettingsRead {
    // Where the file is not TOML, a whole section may be lost.
    let is_whole = report.count() == 0;
    crate::secrets::report_secrets(report, table, true);
    let paths = Paths { report, place: Place::on_disk(root), reach: Reach::Workspace };
    let before = report.count();
    let file = Section::open(report, table, 0..0, FILE.what, &FILE);
    // Without the key, one that is not known may be it, misspelt.
    let before = if file.get("store").is_some() { report.count() } else { before };
    let store = file
        .section("store")
        .and_then(|store| paths.path(&store, "path"))
        .map_or_else(|| default_store(root), |path| path.value);
    let store_is_known = is_whole && report.count() == before;
    let memory = file.section("memory");
    let models = models::read(&file, &paths);
    // A reply of a script or a recording costs nothing.
    let paid = models.bindings.iter().filter(|(_, binding)| matches!(binding, ModelBinding::Http(_)));
    let unpriced = paid.map(|(name, _)| name).filter(|name| !models.prices.contains_key(*name));
    budget::check_prices(&file, unpriced);
    let lines = voice::read(&file, &paths);
    budget::check_lines(&file, &lines);
    let settings = Settings {
        models: models.bindings,
        prices: models.prices,
        controls: models.controls,
        servers: servers::read(&file, &paths),
        store,
        memory: MemoryBinding {
            path: memory
                .as_ref()
                .and_then(|memory| paths.path(memory, "path"))
                .map_or_else(|| root.join(DEFAULT_MEMORY), |path| path.value),
            seeds: memory
                .map(|memory| paths.files(&memory, "seeds", "create the file, or remove it from the list"))
                .unwrap_or_default(),
        },
        secrets: secrets::read(&file, "secrets", "the secret", &paths),
        secret_store: secret_store(&file, &paths, root),
        signers: signers(&file),
        tenants: reach::tenants(&file, &paths),
        secret_paths: secret_paths(&file),
        budget: budget::read(&file),
        dispatch: dispatch::read(&file),
        telemetry: telemetry::read(&file, &paths),
        serve: serve::read(&file, &paths),
        triggers: triggers::read(&file, &paths),
        lines,
    };
    SettingsRead { settings, store_is_known, keys: models.keys }
}

/// Where the store is if the file does not say.
pub(crate) fn default_store(root: &Path) -> PathBuf {
    root.join(DEFAULT_STORE)
}

/// Says whether a file that is not TOML may say that the store is elsewhere.
pub(crate) fn may_name_store(text: &str) -> bool {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut lines = lines.peekable();
    while let Some(line) = lines.next() {
        if line == "[store]" && lines.next_if(|next| *next == format!("path = \"{DEFAULT_STORE}\"")).is_some()
        {
            continue;
        }
        // A letter may be written as an escape.
        if ["store", "\\u", "\\U", "\\x"].iter().any(|word| line.contains(word)) {
            return true;
        }
    }
    false
}

/// Reads `[signers]`: keys of 64 hexadecimal digits by name.
fn signers(file: &Section<'_>) -> BTreeMap<String, String> {
    let mut signers = BTreeMap::new();
    for (name, value) in file.tables("signers") {
        let Some(key) = crate::section::string(file.report, &name.value, value) else { continue };
        if key.value.len() == 64 && key.value.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            signers.insert(name.value, key.value.to_ascii_lowercase());
        } else {
            file.report
                .error(
                    Code::InvalidValue,
                    key.span,
                    format!("the key of the signer `{}` is invalid", name.value),
                )
                .label("expected 64 hexadecimal digits, as `dalsegno import` shows them");
        }
    }
    signers
}

/// Reads where a caller's context holds secrets.
fn secret_paths(file: &Section<'_>) -> BTreeSet<String> {
    let mut paths = BTreeSet::from([AUTH_TOKEN.to_owned()]);
    for path in file.list::<String>("secret_paths") {
        let is_name = |name: &str| {
            name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && name.chars().all(|inside| inside.is_ascii_alphanumeric() || inside == '_')
        };
        let names = path.value.strip_prefix("user.");
        if names.is_some_and(|names| names.split('.').all(is_name)) {
            paths.insert(path.value);
        } else {
            file.report
                .error(Code::InvalidValue, path.span, format!("`{}` is not a path in `user`", path.value))
                .label("expected names below `user`, such as `user.crm.token`");
        }
    }
    paths
}

/// The settings that documents of declarative tools are compiled with.
pub(crate) fn secret_settings(settings: Option<&Settings>) -> dalsegno_tools::Settings {
    let Some(settings) = settings else { return dalsegno_tools::Settings::default() };
    let paths = settings.secret_paths.iter().filter_map(|path| path.parse().ok());
    // `user.auth_token` stays the first, so that a document that knows no other is what it was.
    let mut paths: Vec<dalsegno_tools::Path> = paths.collect();
    paths.sort_by_key(|path| path.to_string() != AUTH_TOKEN);
    dalsegno_tools::Settings { secret_paths: paths }
}

fn secret_store(file: &Section<'_>, paths: &Paths<'_>, root: &Path) -> SecretStoreBinding {
    let section = file.section("secret_store");
    let path = section.as_ref().and_then(|section| paths.path(section, "path"));
    let key = section.as_ref().filter(|section| section.has("key"));
    SecretStoreBinding {
        path: path.map_or_else(|| root.join(DEFAULT_SECRETS), |path| path.value),
        key: key
            .and_then(|section| secrets::key(section, paths))
            .unwrap_or_else(|| StoreKey::File(root.join(DEFAULT_KEY))),
    }
}

/// The secret that every caller may bring.
const AUTH_TOKEN: &str = "user.auth_token";

const DEFAULT_STORE: &str = ".dalsegno/dalsegno.db";
const DEFAULT_MEMORY: &str = ".dalsegno/memory.db";
const DEFAULT_SECRETS: &str = ".dalsegno/secrets.db";
const DEFAULT_KEY: &str = ".dalsegno/secrets.key";

#[cfg(test)]
mod tests {
    use super::may_name_store;

    #[test]
    fn a_file_names_another_store_unless_it_is_certain_that_it_does_not() {
        for text in [
            "[[[",
            "# the store\n[memory]\npath = \"m.db\"\n",
            "[store]\n# here\npath = \".dalsegno/dalsegno.db\"\n",
        ] {
            assert!(!may_name_store(text), "{text}");
        }
        for text in [
            "[store]\npath = \"s.db\"\n",
            "[store]\n",
            "store.path = \"s.db\"\n",
            "[[[ store = { path = \"s.db\" }",
            "[\"st\\u006fre\"]\n",
            "[secret_store]\npath = \"s.db\"\n",
        ] {
            assert!(may_name_store(text), "{text}");
        }
    }
}
