//! Reads the tenants of a workspace.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::read::{ReadTenant, read};
use super::{Tenant, transfer};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::documents;
use crate::names::nearest;
use crate::place::Place;
use crate::report::Report;
use crate::section::Located;
use crate::settings::Settings;
use crate::source::SourceFile;
use crate::toolkit::{self, ReadToolkits, Shelf, ToolkitFile};
use crate::workspace::{FILE_BYTES_MAX, Loaded, is_kept_aside, slashes};

/// The tenants of a workspace, and the names of those whose file has errors, which are not among them. Such a name is that
/// in the file, as far as it could be read, and that of the file.
pub(crate) struct ReadTenants {
    pub(crate) sound: BTreeMap<String, Tenant>,
    pub(crate) broken: BTreeSet<String>,
    /// The documents of those with errors, as far as they are known: agents may name their tools.
    pub(crate) lost: Vec<ToolkitFile>,
}

/// Reads `tenants/*.toml`, and the tools of each.
pub(crate) fn load(
    place: Place<'_>,
    settings: Option<&Settings>,
    toolkits: &ReadToolkits,
    loaded: &mut Loaded,
) -> ReadTenants {
    let (mut broken, mut lost) = (BTreeSet::new(), Vec::new());
    let mut lose = |stem: Option<String>, loaded: &mut Loaded| {
        let Some(stem) = stem else { return };
        let folder = Path::new(TENANTS_FOLDER).join(&stem);
        lost.extend(toolkit::load_of_tenant(place, &folder, settings, loaded).sound.into_values());
        broken.insert(stem);
    };
    let mut names: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut tenants = BTreeMap::new();
    let (mut spoilt, mut built) = (BTreeSet::new(), Vec::new());
    // Documents of the catalogue come first: a file with the name of one is not read.
    let documents = place.tenants();
    let covers: BTreeSet<String> = documents.iter().map(|document| document.name.clone()).collect();
    let given = documents.into_iter().map(|document| (document.source, Some(document.text)));
    let files = place.files(Path::new(TENANTS_FOLDER), "toml", &mut loaded.diagnostics);
    for (file, text) in given.chain(files.into_iter().map(|file| (file, None))) {
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        if text.is_none() && stem.is_some_and(|stem| covers.contains(&stem)) {
            loaded.diagnostics.push(documents::covered(&file));
            continue;
        }
        let text = text.or_else(|| place.read(&file, FILE_BYTES_MAX, &mut loaded.diagnostics));
        let Some(text) = text else {
            // What is not readable has a folder all the same.
            let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            lose(stem.clone(), loaded);
            names.extend(stem.map(|stem| (stem, file)));
            continue;
        };
        let report = Report::new(SourceFile::new(file.clone(), text.as_str()));
        let read = report.parse(&text).map(|table| read(&report, &table, place.root, settings));
        // A document with another name in its text is not that other tenant.
        let stem = file.file_stem().map(|stem| stem.to_string_lossy());
        let is_own = |name: &Located<String>| {
            !report.source().is_document() || stem == Some(name.value.as_str().into())
        };
        let read = read.filter(|read| read.name.as_ref().is_none_or(is_own));
        let Some(ReadTenant { name: Some(name), tenant: Some(mut tenant) }) = read else {
            loaded.take(report);
            let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            lose(stem.clone(), loaded);
            names.extend(stem.map(|stem| (stem, file)));
            continue;
        };
        if !report.source().is_document() && covers.contains(&name.value) {
            loaded.diagnostics.push(documents::covered(&file));
            continue;
        }
        check_name(&report, &name, &mut names);
        tenant.tools = transfer::tools(&report, &name, tenant.features.refer.as_ref(), settings);
        let folder = Path::new(TENANTS_FOLDER).join(&name.value);
        let ReadToolkits { sound, broken: broken_tools } =
            toolkit::load_of_tenant(place, &folder, settings, loaded);
        tenant.tools.extend(sound);
        tenant.broken_tools = broken_tools;
        let one = BTreeMap::from([(name.value.clone(), tenant)]);
        Shelf::new(toolkits, &one, &[]).check_tenant(&report);
        let is_broken = report.has_errors();
        let source = loaded.take(report);
        for (name, tenant) in one {
            if is_broken {
                spoilt.extend(file.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
                spoilt.insert(name);
                built.extend(tenant.tools.into_values());
            } else {
                tenants.insert(name, Tenant { source: source.clone(), ..tenant });
            }
        }
    }
    check_folders(place.root, &names, loaded);
    check_documents(place, &names, loaded);
    // Of two files with one name nobody knows which is meant.
    broken.extend(spoilt);
    lost.extend(built);
    tenants.retain(|name, _| !broken.contains(name));
    ReadTenants { sound: tenants, broken, lost }
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
        .filter(|entry| entry.path().is_dir() && !is_kept_aside(&entry.file_name()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !names.contains_key(name))
        .collect();
    folders.sort();
    for name in folders {
        let help = match nearest(&name, names.keys().map(String::as_str)) {
            Some(near) => format!("did you mean `{TENANTS_FOLDER}/{near}`?"),
            None => {
                format!("add `{TENANTS_FOLDER}/{name}.toml` with `name = \"{name}\"`, or remove the folder")
            }
        };
        let folder = Path::new(TENANTS_FOLDER).join(&name);
        let problem = format!("there is no tenant `{name}`, so nothing reads this folder");
        loaded
            .diagnostics
            .push(Diagnostic::new(Code::UnknownTenant, Severity::Error, &folder, problem).with_help(help));
    }
}

/// Reports documents of the catalogue that belong to no tenant, so that nothing reads them.
fn check_documents(place: Place<'_>, names: &BTreeMap<String, PathBuf>, loaded: &mut Loaded) {
    for (tenant, document) in place.owners().filter(|(tenant, _)| !names.contains_key(*tenant)) {
        let problem = format!("there is no tenant `{tenant}`, so nothing reads this document");
        let found = Diagnostic::new(Code::UnknownTenant, Severity::Error, &document, problem);
        loaded.diagnostics.push(found.with_help("add the tenant again, or delete the document"));
    }
}

/// The folder of the tenants' files.
const TENANTS_FOLDER: &str = "tenants";
