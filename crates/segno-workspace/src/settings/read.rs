//! Reads `segno.toml`.

use std::path::Path;

use toml::de::DeTable;

use super::paths::Paths;
use super::{MemoryBinding, Settings, models, secrets, servers};
use crate::report::Report;
use crate::section::Section;

/// Reads the settings, with defaults in place of what does not fit.
pub(crate) fn read(report: &Report, table: &DeTable<'_>, root: &Path) -> Settings {
    crate::secrets::report_secrets(report, table, true);
    let paths = Paths { report, root };
    let file = Section::open(report, table, 0..0, "`segno.toml`", FILE_KEYS);
    let store = file.section("store", "`[store]`", &["path"]);
    let memory = file.section("memory", "`[memory]`", &["path", "seeds"]);
    Settings {
        models: models::read(&file, &paths),
        servers: servers::read(&file, &paths),
        store: store
            .and_then(|store| paths.path(&store, "path"))
            .map_or_else(|| root.join(DEFAULT_STORE), |path| path.value),
        memory: MemoryBinding {
            path: memory
                .as_ref()
                .and_then(|memory| paths.path(memory, "path"))
                .map_or_else(|| root.join(DEFAULT_MEMORY), |path| path.value),
            seeds: memory
                .map(|memory| paths.files(&memory, "seeds", "write the file, or take it out of the list"))
                .unwrap_or_default(),
        },
        secrets: secrets::read(&file, &paths),
    }
}

const FILE_KEYS: &[&str] = &["models", "servers", "store", "memory", "secrets"];

const DEFAULT_STORE: &str = ".segno/segno.db";
const DEFAULT_MEMORY: &str = ".segno/memory.db";
