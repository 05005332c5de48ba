//! Reads folders of tool files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use dalsegno_tools::compile_with;
use serde_json::Value;

use super::ToolkitFile;
use super::diagnose;
use crate::agent::RESERVED;
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::documents;
use crate::json::JsonFile;
use crate::place::Place;
use crate::report::Report;
use crate::settings::{Settings, secret_settings};
use crate::source::SourceFile;
use crate::workspace::{FILE_BYTES_MAX, Loaded, Workspace, slashes};

/// Documents by the name of their toolkit.
pub(crate) type Toolkits = BTreeMap<String, ToolkitFile>;

/// The documents of a folder, and the names of those with errors, which are not among them. Such a name is that of the
/// document, as far as it could be read, and that of its file.
pub(crate) struct ReadToolkits {
    pub(crate) sound: Toolkits,
    pub(crate) broken: BTreeSet<String>,
}

/// Reads `tools/*.json`.
pub(crate) fn load(place: Place<'_>, settings: Option<&Settings>, loaded: &mut Loaded) -> ReadToolkits {
    folder(place, Path::new(TOOLS_FOLDER), place.tools(None), settings, loaded)
}

/// Reads the tools of a tenant, which stand in for those of the workspace with the same name.
pub(crate) fn load_of_tenant(
    place: Place<'_>,
    tenant: &Path,
    settings: Option<&Settings>,
    loaded: &mut Loaded,
) -> ReadToolkits {
    let name = tenant.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    folder(place, &tenant.join(TOOLS_FOLDER), place.tools(Some(&name)), settings, loaded)
}

impl ToolkitFile {
    /// Reads one document, be it part of the workspace or not, as the workspace reads its own.
    ///
    /// # Errors
    /// Everything that is wrong with it, with its text where it could be read; warnings do not count.
    pub fn open(root: &Path, file: &Path) -> Result<Self, (Vec<Diagnostic>, Option<SourceFile>)> {
        let mut diagnostics = Vec::new();
        let Some(text) = Place::on_disk(root).read(file, FILE_BYTES_MAX, &mut diagnostics) else {
            return Err((diagnostics, None));
        };
        Self::parse(Workspace::load(root).settings.as_ref(), file, &text)
    }

    /// Reads the text of one document, which this path names.
    ///
    /// # Errors
    /// As [`open`](Self::open) has them.
    pub fn parse(
        settings: Option<&Settings>,
        file: &Path,
        text: &str,
    ) -> Result<Self, (Vec<Diagnostic>, Option<SourceFile>)> {
        let report = Report::new(SourceFile::new(file.to_path_buf(), text));
        let toolkit = read(&report, text, settings, &Toolkits::new());
        let (source, diagnostics) = report.finish();
        match toolkit.filter(|_| !diagnostics.iter().any(Diagnostic::is_error)) {
            Some(toolkit) => Ok(Self { toolkit, source: Some(source) }),
            None => Err((diagnostics, Some(source))),
        }
    }
}

fn folder(
    place: Place<'_>,
    folder: &Path,
    documents: Vec<documents::Read>,
    settings: Option<&Settings>,
    loaded: &mut Loaded,
) -> ReadToolkits {
    let (mut sound, mut broken) = (Toolkits::new(), BTreeSet::new());
    for file in place.files(folder, "json", &mut loaded.diagnostics) {
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().replace('-', "_"));
        // What the catalogue has under a name stands in for the file, which is not read.
        if stem.as_ref().is_some_and(|stem| documents.iter().any(|document| document.name == *stem)) {
            loaded.diagnostics.push(documents::covered(&file));
            continue;
        }
        let Some(text) = place.read(&file, FILE_BYTES_MAX, &mut loaded.diagnostics) else {
            broken.extend(stem);
            continue;
        };
        let report = Report::new(SourceFile::new(file, text.as_str()));
        let toolkit = read(&report, &text, settings, &sound);
        let is_broken = report.has_errors();
        let source = loaded.take(report);
        match toolkit {
            Some(toolkit) if !is_broken => {
                let file = ToolkitFile { toolkit, source: Some(source) };
                sound.insert(file.name().to_owned(), file);
            }
            toolkit => {
                broken.extend(stem);
                broken.extend(toolkit.map(|toolkit| toolkit.name().to_owned()));
            }
        }
    }
    // Of two documents with one name nobody knows which is meant.
    sound.retain(|name, _| !broken.contains(name));
    // A file of another name may describe a tool of a document's name.
    for documents::Read { name, source, text } in documents {
        if let Some(file) = sound.remove(&name) {
            loaded.diagnostics.extend(file.source.map(|source| documents::covered(source.file())));
        }
        broken.remove(&name);
        let report = Report::new(SourceFile::new(source, text.as_str()));
        let toolkit = read(&report, &text, settings, &sound);
        let is_named = |toolkit: &dalsegno_tools::Toolkit| toolkit.name() == name;
        if toolkit.as_ref().is_some_and(|toolkit| !is_named(toolkit)) {
            report
                .error(Code::FileName, 0..0, format!("the document `{name}` has another `name`"))
                .help(format!("write `{name}` as its `name`, or send it to the address of its name"));
        }
        let is_broken = report.has_errors();
        let source = loaded.take(report);
        match toolkit.filter(|_| !is_broken) {
            Some(toolkit) => {
                sound.insert(name, ToolkitFile { toolkit, source: Some(source) });
            }
            None => {
                broken.insert(name);
            }
        }
    }
    ReadToolkits { sound, broken }
}

fn read(
    report: &Report,
    text: &str,
    settings: Option<&Settings>,
    others: &Toolkits,
) -> Option<dalsegno_tools::Toolkit> {
    let file = JsonFile::parse(report, text)?;
    secrets_in_clear(report, &file, file.value(), &mut String::new(), false);
    let compiled = compile_with(file.value(), &secret_settings(settings));
    diagnose::tell(report, &file, &compiled);
    let toolkit = compiled.toolkit.filter(|_| compiled.mistakes.is_empty())?;
    diagnose::config_schema(report, &file, &toolkit);
    check_name(report, &file, toolkit.name(), settings, others);
    Some(toolkit)
}

/// A toolkit's name is the first part of its tools' names, as that of a server is.
fn check_name(
    report: &Report,
    file: &JsonFile<'_>,
    name: &str,
    settings: Option<&Settings>,
    others: &Toolkits,
) {
    let span = file.span("/name");
    let is_server = settings
        .is_some_and(|settings| settings.servers.keys().any(|server| server.replace('-', "_") == name));
    if let Some(other) = others.get(name).and_then(|other| other.source.as_ref()) {
        report
            .error(Code::DuplicateTool, span, format!("there are two documents with the name `{name}`"))
            .label(format!("the other one is `{}`", slashes(other.file())))
            .help("rename one of them");
    } else if is_server {
        report
            .error(Code::DuplicateTool, span, format!("`{name}` is also the name of a tool server"))
            .label(format!("`[servers.{name}]` is in `dalsegno.toml`"))
            .help("rename one of them");
    } else if name == "memory" || RESERVED.contains(&name) {
        report
            .error(Code::InvalidValue, span, format!("a tool cannot be called `{name}`"))
            .label(format!("the built-in tools `{name}.*` have this name"));
    } else {
        let stem = report.source().file().file_stem().map(|stem| stem.to_string_lossy().replace('-', "_"));
        if let Some(stem) = stem.filter(|stem| stem != name) {
            report
                .warning(Code::FileName, span, format!("`{name}` is in the file `{stem}.json`"))
                .help(format!("rename the file to `{name}.json`"));
        }
    }
}

/// Reports what looks like a secret; its value is never shown. In headers a text without a template is one, too, where
/// the header is there for secrets.
fn secrets_in_clear(
    report: &Report,
    file: &JsonFile<'_>,
    value: &Value,
    pointer: &mut String,
    in_headers: bool,
) {
    match value {
        Value::String(text) => {
            let key = pointer.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
            let is_named = in_headers && SECRET_HEADERS.contains(&key.as_str()) && !text.contains("{{");
            if is_named || text.split_whitespace().any(crate::secrets::looks_like_a_secret) {
                diagnose::secret(report, file, pointer);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                below(pointer, &index.to_string(), |pointer| {
                    secrets_in_clear(report, file, item, pointer, in_headers);
                });
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let in_headers = name.eq_ignore_ascii_case("headers") && field.is_object()
                    || in_headers && field.is_string();
                below(pointer, name, |pointer| secrets_in_clear(report, file, field, pointer, in_headers));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Works below a member of a JSON pointer, and takes the pointer back.
pub(super) fn below(pointer: &mut String, name: &str, work: impl FnOnce(&mut String)) {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    work(pointer);
    pointer.truncate(length);
}

/// The folder of tool files, in the workspace and in a tenant's folder.
const TOOLS_FOLDER: &str = "tools";

/// Headers whose values prove who sends a request.
const SECRET_HEADERS: &[&str] = &["authorization", "proxy-authorization", "x-api-key", "api-key", "cookie"];
