//! Reads `[models.*]`.

use std::collections::BTreeMap;

use super::ModelBinding;
use super::paths::Paths;
use crate::code::Code;
use crate::names::{list, nearest};
use crate::section::{Section, string, wrong_type};

pub(crate) fn read(file: &Section<'_>, paths: &Paths<'_>) -> BTreeMap<String, ModelBinding> {
    let mut models = BTreeMap::new();
    for (name, value) in file.tables("models") {
        let what = format!("`[models.{}]`", name.value);
        let Some(table) = value.get_ref().as_table() else {
            wrong_type::<()>(paths.report, &name.value, value, "a table");
            continue;
        };
        let Some(provider) = table.get("provider") else {
            paths
                .report
                .error(Code::MissingKey, value.span(), format!("{what} has no `provider`"))
                .help(format!("expected one of {}", list(PROVIDERS)));
            continue;
        };
        let Some(provider) = string(paths.report, "provider", provider) else { continue };
        match provider.value.as_str() {
            "script" => {
                let Some(model) = Section::of(paths.report, &name.value, value, &what, &["provider", "file"])
                else {
                    continue;
                };
                model.require("file", "add `file = \"tests/scripts/NAME.toml\"`, the replies to give");
                if let Some(file) = paths.file(&model, "file", "write the script, or correct the path") {
                    models.insert(name.value, ModelBinding::Script { file });
                }
            }
            // The other keys belong to that provider, so nothing can be said about them.
            unknown => {
                let added = paths
                    .report
                    .error(Code::UnknownProvider, provider.span, format!("there is no provider `{unknown}`"))
                    .label(format!("expected one of {}", list(PROVIDERS)));
                if let Some(near) = nearest(unknown, PROVIDERS.iter().copied()) {
                    added.help(format!("did you mean `{near}`?"));
                }
            }
        }
    }
    models
}

const PROVIDERS: &[&str] = &["script"];
