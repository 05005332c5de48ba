//! Reads `dalsegno.toml`.

use std::path::Path;

use toml::de::DeTable;

use super::paths::Paths;
use super::{
    FILE, MemoryBinding, SecretStoreBinding, Settings, StoreKey, dispatch, models, secrets, servers,
    telemetry,
};
use crate::report::Report;
use crate::section::Section;

/// What `dalsegno.toml` says, as far as it fits.
pub(crate) struct SettingsRead {
    /// The settings, with defaults in place of what does not fit.
    pub(crate) settings: Settings,
    /// Whether the place of the store is what the file means, not a default in the place of something unreadable.
    pub(crate) store_is_known: bool,
}

/// Reads the settings of a file that was just parsed.
pub(crate) fn read(report: &Report, table: &DeTable<'_>, root: &Path) -> SettingsRead {
    // Where the file is not TOML, a whole section may be lost.
    let is_whole = report.count() == 0;
    crate::secrets::report_secrets(report, table, true);
    let paths = Paths { report, root };
    let before = report.count();
    let file = Section::open(report, table, 0..0, FILE.what, &FILE);
    // Without the key, one that is not known may be it, misspelt.
    let before = if file.get("store").is_some() { report.count() } else { before };
    let store = file
        .section("store")
        .and_then(|store| paths.path(&store, "path"))
        .map_or_else(|| root.join(DEFAULT_STORE), |path| path.value);
    let store_is_known = is_whole && report.count() == before;
    let memory = file.section("memory");
    let models = models::read(&file, &paths);
    let settings = Settings {
        models: models.bindings,
        prices: models.prices,
        servers: servers::read(&file, &paths),
        store,
        memory: MemoryBinding {
            path: memory
                .as_ref()
                .and_then(|memory| paths.path(memory, "path"))
                .map_or_else(|| root.join(DEFAULT_MEMORY), |path| path.value),
            seeds: memory
                .map(|memory| paths.files(&memory, "seeds", "write the file, or take it out of the list"))
                .unwrap_or_default(),
        },
        secrets: secrets::read(&file, "secrets", "the secret", &paths),
        secret_store: secret_store(&file, &paths, root),
        dispatch: dispatch::read(&file),
        telemetry: telemetry::read(&file, &paths),
    };
    SettingsRead { settings, store_is_known }
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

const DEFAULT_STORE: &str = ".dalsegno/dalsegno.db";
const DEFAULT_MEMORY: &str = ".dalsegno/memory.db";
const DEFAULT_SECRETS: &str = ".dalsegno/secrets.db";
const DEFAULT_KEY: &str = ".dalsegno/secrets.key";
