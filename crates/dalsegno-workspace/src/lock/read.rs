//! Reads `dalsegno.lock`.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use dalsegno_core::{ModelName, NameError, ToolName};
use toml::de::{DeTable, DeValue};

use super::keys::{FILE, SERVER, TOOL};
use super::{Lock, LockedServer, LockedTool};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::place::Place;
use crate::report::Report;
use crate::section::{Located, Section, string};
use crate::source::SourceFile;

/// What came of reading a lock file.
#[derive(Debug, Clone)]
pub struct LockRead {
    /// What is pinned; `None` if there is no lock file, or if it is damaged.
    pub lock: Option<Lock>,
    /// What is wrong with it.
    pub diagnostics: Vec<Diagnostic>,
    /// The file, for whoever shows the diagnostics; `None` if there is none.
    pub source: Option<SourceFile>,
    /// The names that are right by themselves, each where it stands, whatever else is wrong with the file.
    pub(crate) pins: Vec<Pin>,
    /// Nothing is wrong with the names, nor with what they could not be read without.
    pub(crate) names_are_sound: bool,
}

/// A name by which models see an action of a toolkit, and where it is pinned.
#[derive(Debug, Clone)]
pub(crate) struct Pin {
    pub(crate) tool: Located<ToolName>,
    pub(crate) name: Located<ModelName>,
}

impl LockRead {
    /// The pinned names that are right by themselves, even those of a file that is damaged elsewhere: to write it anew
    /// must not rename tools.
    pub fn names(&self) -> BTreeMap<ToolName, ModelName> {
        self.pins.iter().map(|pin| (pin.tool.value.clone(), pin.name.value.clone())).collect()
    }

    /// Adds what is wrong with the names when they are held against the tools.
    pub(crate) fn take(&mut self, problems: Vec<Diagnostic>) {
        self.names_are_sound &= !problems.iter().any(Diagnostic::is_error);
        self.diagnostics.extend(problems);
    }

    fn without_lock(diagnostics: Vec<Diagnostic>) -> Self {
        let names_are_sound = diagnostics.is_empty();
        Self { lock: None, diagnostics, source: None, pins: Vec::new(), names_are_sound }
    }
}

impl Lock {
    /// Reads the lock file of the workspace in `root`, if it has one.
    pub fn read(root: &Path) -> LockRead {
        Self::read_in(Place::on_disk(root))
    }

    pub(crate) fn read_in(place: Place<'_>) -> LockRead {
        let file = Path::new(Self::FILE);
        let mut diagnostics = Vec::new();
        let text = place.has(file).then(|| place.read(file, FILE_BYTES_MAX, &mut diagnostics));
        let Some(text) = text.flatten() else { return LockRead::without_lock(diagnostics) };
        let report = Report::new(SourceFile::new(file.to_path_buf(), text.as_str()));
        let table = report.parse(&text);
        let is_toml = table.is_some() && report.count() == 0;
        let contents = table.map(|table| contents(&report, &table)).unwrap_or_default();
        let (source, diagnostics) = report.finish();
        let mut read = LockRead {
            lock: None,
            diagnostics,
            source: Some(source),
            pins: contents.pins,
            names_are_sound: is_toml && contents.names_are_sound,
        };
        if read.diagnostics.is_empty() {
            read.lock = Some(Self { servers: contents.servers, names: read.names() });
        }
        read
    }
}

/// What a lock file holds, as far as it is right.
#[derive(Default)]
struct Contents {
    servers: BTreeMap<String, LockedServer>,
    pins: Vec<Pin>,
    names_are_sound: bool,
}

fn contents(report: &Report, root: &DeTable<'_>) -> Contents {
    let file = Section::open(report, root, 0..0, FILE.what, &FILE);
    file.require_all();
    // Its range has said so where this is another version.
    file.integer::<u64>("version");
    let pins = pins(report, &file);
    let names_are_sound = report.count() == 0;
    Contents { servers: servers(report, &file), pins, names_are_sound }
}

fn servers(report: &Report, file: &Section<'_>) -> BTreeMap<String, LockedServer> {
    let mut servers = BTreeMap::new();
    for (name, value) in file.tables("servers") {
        let what = format!("`[servers.{}]`", name.value);
        let Some(section) = Section::of(report, &name.value, value, &what, &SERVER) else { continue };
        let before = report.count();
        let mut server = LockedServer::default();
        for item in section.items("tools", "a list of tools") {
            let Some(section) = Section::of(report, "tools", item, TOOL.what, &TOOL) else { continue };
            let Some((name, tool)) = tool(&section) else { continue };
            if server.tools.insert(name.clone(), tool).is_some() {
                damaged(
                    report,
                    section.key_span("name").unwrap_or_default(),
                    format!("`{name}` is pinned twice"),
                );
            }
        }
        let digest = section.string("digest");
        // A tool that cannot be read has been reported; the digest would only say the same.
        if let Some(digest) = digest.filter(|_| report.count() == before)
            && digest.value != server.digest().to_string()
        {
            let problem = format!("the digest of `{}` does not match the listed tools", name.value);
            damaged(report, digest.span, problem);
        }
        servers.insert(name.value, server);
    }
    servers
}

/// Reads `[names]`. What is wrong is left out.
fn pins(report: &Report, file: &Section<'_>) -> Vec<Pin> {
    let mut entries = file.tables("names");
    // Of two the later one is too much.
    entries.sort_by_key(|(tool, _)| tool.span.start);
    let mut pins: Vec<Pin> = Vec::new();
    for (tool, value) in entries {
        if matches!(value.get_ref(), DeValue::Table(_)) {
            report
                .error(Code::WrongType, tool.span, format!("`{}` is a table", tool.value))
                .label("expected a name for models")
                .help("put the full name of the tool in quotes: `\"crm.find_case\" = \"find_case\"`");
            continue;
        }
        let Some(name) = string(report, &tool.value, value) else { continue };
        let (tool, name) = match (tool.value.parse::<ToolName>(), name.value.parse::<ModelName>()) {
            (Ok(own), Ok(shown)) => (tool.map(|_| own), name.map(|_| shown)),
            (Err(error), _) => {
                not_a_name(report, tool.span, &error);
                continue;
            }
            (Ok(_), Err(error)) => {
                not_a_name(report, name.span, &error);
                continue;
            }
        };
        if let Some(other) = pins.iter().find(|pin| pin.name.value == name.value) {
            report
                .error(
                    Code::ToolNameClash,
                    name.span,
                    format!(
                        "`{}` and `{}` are both pinned as `{}`",
                        other.tool.value, tool.value, name.value
                    ),
                )
                .label("a model could not tell them apart")
                .help(PIN_HELP);
            continue;
        }
        pins.push(Pin { tool, name });
    }
    pins
}

fn not_a_name(report: &Report, span: std::ops::Range<usize>, error: &NameError) {
    report.error(Code::InvalidValue, span, error.to_string()).help(PIN_HELP);
}

/// What to do about a pin that is wrong.
pub(super) const PIN_HELP: &str =
    "write another name, or run `dalsegno check --connect`, which removes this one";

fn tool(section: &Section<'_>) -> Option<(String, LockedTool)> {
    let name = section.string("name");
    let description = section.string("description");
    let input_schema = schema(section, "input_schema");
    let output_schema = schema(section, "output_schema");
    let tool = LockedTool {
        description: description?.value,
        input_schema: input_schema?,
        output_schema,
        read_only: section.boolean("read_only"),
        idempotent: section.boolean("idempotent"),
        destructive: section.boolean("destructive"),
        builtin: section.boolean("builtin").unwrap_or(false),
    };
    Some((name?.value, tool))
}

fn schema<T: FromStr<Err = serde_json::Error>>(section: &Section<'_>, key: &str) -> Option<T> {
    let text = section.string(key)?;
    let read = text.value.parse();
    read.map_err(|error| {
        damaged(section.report, text.span, format!("`{key}` is not JSON: {error}"));
    })
    .ok()
}

fn damaged(report: &Report, span: std::ops::Range<usize>, problem: String) {
    report
        .error(Code::DamagedLock, span, problem)
        .label("the file was edited by hand, or merged")
        .help("run `dalsegno check --connect`, which rewrites it and shows the changes");
}

/// A hundred servers of a hundred tools.
pub(crate) const FILE_BYTES_MAX: u64 = 16 << 20;
