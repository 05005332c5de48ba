//! A workspace folder, read as a whole.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use segno_core::AgentName;

use crate::agent::{self, AgentFile};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::report::Report;
use crate::settings::{self, Settings, SettingsRead};
use crate::source::SourceFile;

/// A workspace without errors.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The folder that holds `segno.toml`.
    pub root: PathBuf,
    /// What `segno.toml` says.
    pub settings: Settings,
    /// The agents of `agents/*.toml` by name.
    pub agents: BTreeMap<AgentName, AgentFile>,
}

/// What came of reading a workspace.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The workspace; `None` if there is an error.
    pub workspace: Option<Workspace>,
    /// What `segno.toml` says, even if there are errors, with defaults in place of what does not fit; `None` if the
    /// place of the store is not known for certain. Enough to read what was recorded, not to run anything.
    pub settings: Option<Settings>,
    /// All problems: those of `segno.toml` first, then those of the agents, each file in its own order.
    pub diagnostics: Vec<Diagnostic>,
    /// The files that were read, for whoever shows the diagnostics.
    pub sources: Vec<SourceFile>,
}

impl Workspace {
    /// Reads the workspace in `root`: `segno.toml` and `agents/*.toml`.
    ///
    /// Nothing else is read or written. Of the other files that it names only the existence is checked.
    pub fn load(root: &Path) -> Loaded {
        let mut loaded =
            Loaded { workspace: None, settings: None, diagnostics: Vec::new(), sources: Vec::new() };
        let read = load_settings(root, &mut loaded);
        let agents = load_agents(root, read.as_ref().map(|read| &read.settings), &mut loaded);
        if let Some(SettingsRead { settings, store_is_known }) = read {
            loaded.settings = store_is_known.then(|| settings.clone());
            if !loaded.has_errors() {
                loaded.workspace = Some(Self { root: root.to_path_buf(), settings, agents });
            }
        }
        loaded
    }

    /// Finds the nearest folder that holds `segno.toml`, from `start` upwards.
    pub fn discover(start: &Path) -> Option<PathBuf> {
        let start = std::path::absolute(start).ok()?;
        start.ancestors().find(|folder| folder.join(SETTINGS_FILE).is_file()).map(Path::to_path_buf)
    }
}

impl Loaded {
    /// Says whether there is an error among the diagnostics.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Finds the text of a diagnostic's file.
    pub fn source(&self, file: &Path) -> Option<&SourceFile> {
        self.sources.iter().find(|source| source.file() == file)
    }

    fn take(&mut self, report: Report) -> SourceFile {
        let (source, diagnostics) = report.finish();
        self.sources.push(source.clone());
        self.diagnostics.extend(diagnostics);
        source
    }
}

fn load_settings(root: &Path, loaded: &mut Loaded) -> Option<SettingsRead> {
    let file = PathBuf::from(SETTINGS_FILE);
    if !root.join(&file).exists() {
        let problem =
            Diagnostic::new(Code::NotAWorkspace, Severity::Error, &file, "this folder has no `segno.toml`");
        loaded
            .diagnostics
            .push(problem.with_help("name the workspace's folder, or write a `segno.toml` here"));
        return None;
    }
    let text = read(root, &file, loaded)?;
    let report = Report::new(SourceFile::new(file, text.as_str()));
    let read = report.parse(&text).map(|root_table| settings::read(&report, &root_table, root));
    loaded.take(report);
    read
}

fn load_agents(
    root: &Path,
    settings: Option<&Settings>,
    loaded: &mut Loaded,
) -> BTreeMap<AgentName, AgentFile> {
    // Which models there are is known only if `segno.toml` could be read without an error.
    let models = settings.filter(|_| !loaded.has_errors()).map(|settings| &settings.models);
    let mut agents = BTreeMap::new();
    let mut names: BTreeMap<AgentName, PathBuf> = BTreeMap::new();
    for file in agent_files(root, loaded) {
        let Some(text) = read(root, &file, loaded) else { continue };
        let report = Report::new(SourceFile::new(file.clone(), text.as_str()));
        let read = report.parse(&text).map(|parsed| agent::read(&report, &parsed, models));
        let (name, agent) = read.map_or((None, None), |read| (read.name, read.file));
        if let Some(name) = name {
            match names.entry(name.value) {
                Entry::Vacant(entry) => {
                    entry.insert(file);
                }
                Entry::Occupied(entry) => {
                    report
                        .error(
                            Code::DuplicateAgent,
                            name.span,
                            format!("there are two agents with the name `{}`", entry.key()),
                        )
                        .label(format!("the other one is `{}`", slashes(entry.get())))
                        .help("rename one of them");
                }
            }
        }
        let source = loaded.take(report);
        if let Some(mut agent) = agent {
            agent.source = source;
            agents.insert(agent.name.clone(), agent);
        }
    }
    agents
}

/// The agent files in the order of their names.
fn agent_files(root: &Path, loaded: &mut Loaded) -> Vec<PathBuf> {
    let folder = PathBuf::from(AGENTS_FOLDER);
    let entries = match root.join(&folder).read_dir() {
        Ok(entries) => entries.collect::<io::Result<Vec<_>>>(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    let entries = entries.unwrap_or_else(|error| {
        let message = format!("the folder cannot be listed: {error}");
        loaded.diagnostics.push(Diagnostic::new(Code::UnreadableFile, Severity::Error, &folder, message));
        Vec::new()
    });
    let mut files: Vec<_> = entries
        .iter()
        .map(|entry| folder.join(entry.file_name()))
        .filter(|file| file.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    if files.is_empty() && !loaded.has_errors() {
        let problem =
            Diagnostic::new(Code::NoAgents, Severity::Warning, &folder, "the workspace has no agents");
        loaded.diagnostics.push(problem.with_help("write one, such as `agents/hello.toml`"));
    }
    files
}

/// Reads a file; reports why it cannot be.
fn read(root: &Path, file: &Path, loaded: &mut Loaded) -> Option<String> {
    let mut bytes = Vec::new();
    let read = File::open(root.join(file))
        .and_then(|opened| opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("the file cannot be read: {error}"));
    let text = read.and_then(|_| {
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(format!("the file is larger than {} KiB", FILE_BYTES_MAX >> 10));
        }
        String::from_utf8(bytes).map_err(|error| {
            format!(
                "the file is not UTF-8: byte {} does not belong to a character",
                error.utf8_error().valid_up_to()
            )
        })
    });
    text.map_err(|message| {
        loaded.diagnostics.push(Diagnostic::new(Code::UnreadableFile, Severity::Error, file, message));
    })
    .ok()
}

fn slashes(file: &Path) -> String {
    file.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

const SETTINGS_FILE: &str = "segno.toml";
const AGENTS_FOLDER: &str = "agents";

/// A hundred times the largest agent file that people write by hand.
const FILE_BYTES_MAX: u64 = 1 << 20;
