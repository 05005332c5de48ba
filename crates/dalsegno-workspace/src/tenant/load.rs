//! Reads the tenants of a workspace.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use super::read::{ReadTenant, read};
use super::{Tenant, transfer};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::names::nearest;
use crate::report::Report;
use crate::section::Located;
use crate::settings::Settings;
use crate::source::SourceFile;
use crate::toolkit::{self, Shelf, Toolkits};
use crate::workspace::{self, FILE_BYTES_MAX, Loaded, slashes};

/// Reads `tenants/*.toml`, and the tools of each.
pub(crate) fn load(
    root: &Path,
    settings: Option<&Settings>,
    toolkits: &Toolkits,
    loaded: &mut Loaded,
) -> BTreeMap<String, Tenant> {
    let mut names: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut tenants = BTreeMap::new();
    for file in workspace::files(root, Path::new(TENANTS_FOLDER), "toml", &mut loaded.diagnostics) {
        let Some(text) = workspace::read(root, &file, FILE_BYTES_MAX, &mut loaded.diagnostics) else {
            // What is not readable has a folder all the same.
            let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            names.extend(stem.map(|stem| (stem, file)));
            continue;
        };
        let report = Report::new(SourceFile::new(file.clone(), text.as_str()));
        let read = report.parse(&text).map(|table| read(&report, &table, root));
        let Some(ReadTenant { name: Some(name), tenant: Some(mut tenant) }) = read else {
            loaded.take(report);
            let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            names.extend(stem.map(|stem| (stem, file)));
            continue;
        };
        check_name(&report, &name, &mut names);
        tenant.tools = transfer::tools(&report, &name, tenant.features.refer.as_ref());
        let folder = Path::new(TENANTS_FOLDER).join(&name.value);
        tenant.tools.extend(toolkit::load_of_tenant(root, &folder, settings, loaded));
        let one = BTreeMap::from([(name.value.clone(), tenant)]);
        Shelf::new(toolkits, &one, &loaded.diagnostics).check_tenant(&report);
        let source = loaded.take(report);
        for (name, tenant) in one {
            tenants.entry(name).or_insert(Tenant { source: source.clone(), ..tenant });
        }
    }
    check_folders(root, &names, loaded);
    tenants
}

fn check_name(report: &Report, name: &Located<String>, names: &mut BTreeMap<String, PathBuf>) {
    match names.entry(name.value.clone()) {
        Entry::Vacant(entry) => {
            entry.insert(report.source().file().to_path_buf());
        }
        Entry::Occupied(entry) => {
            report
                .error(
                    Code::DuplicateTenant,
                    name.span.clone(),
                    format!("there are two tenants with the name `{}`", name.value),
                )
                .label(format!("the other one is `{}`", slashes(entry.get())))
                .help("rename one of them");
        }
    }
}

/// Reports folders with tools that belong to no tenant, so that nothing reads them.
fn check_folders(root: &Path, names: &BTreeMap<String, PathBuf>, loaded: &mut Loaded) {
    let entries = root.join(TENANTS_FOLDER).read_dir().into_iter().flatten().flatten();
    let mut folders: Vec<String> = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !names.contains_key(name))
        .collect();
    folders.sort();
    for name in folders {
        let help = match nearest(&name, names.keys().map(String::as_str)) {
            Some(near) => format!("did you mean `{TENANTS_FOLDER}/{near}`?"),
            None => {
                format!("write `{TENANTS_FOLDER}/{name}.toml` with `name = \"{name}\"`, or remove the folder")
            }
        };
        let folder = Path::new(TENANTS_FOLDER).join(&name);
        let problem = format!("there is no tenant `{name}`, so nothing reads this folder");
        loaded
            .diagnostics
            .push(Diagnostic::new(Code::UnknownTenant, Severity::Error, &folder, problem).with_help(help));
    }
}

/// The folder of the tenants' files.
const TENANTS_FOLDER: &str = "tenants";
