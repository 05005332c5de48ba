//! The agent files of a workspace: which agents there are, and which of them cannot be used.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dalsegno_core::AgentName;

use super::directory::Directory;
use super::{AgentFile, ReadAgent, Surroundings, link, read};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::documents;
use crate::names::list;
use crate::place::Place;
use crate::report::Report;
use crate::section::Located;
use crate::settings::Settings;
use crate::source::SourceFile;
use crate::tenant::ReadTenants;
use crate::toolkit::{ReadToolkits, Shelf};
use crate::workspace::{AGENTS_FOLDER, FILE_BYTES_MAX, Loaded, Workspace, slashes};

/// Why an agent cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct BrokenAgent {
    /// In words.
    pub reason: String,
    /// The files with the errors.
    pub files: BTreeSet<PathBuf>,
}

/// The agents of a workspace.
pub(crate) struct ReadAgents {
    pub(crate) sound: BTreeMap<AgentName, AgentFile>,
    /// Agents by their names, those included that need one of the others.
    pub(crate) broken: BTreeMap<String, BrokenAgent>,
    /// Files of which not even the name of the agent is known.
    pub(crate) unnamed: BTreeSet<PathBuf>,
}

impl BrokenAgent {
    fn own(file: &Path) -> Self {
        Self { reason: "its file has errors".to_owned(), files: BTreeSet::from([file.to_path_buf()]) }
    }

    /// One that names an agent of which nothing is known, beside files that could not be read as a whole.
    fn unsure(files: &BTreeSet<PathBuf>) -> Self {
        let reason =
            format!("it names an agent that may be in {}, which {} errors", quoted(files), have(files));
        Self { reason, files: files.clone() }
    }

    fn needs(name: &AgentName, broken: &Self) -> Self {
        let reason = format!("it calls or hands over to `{name}`, which cannot be used ({})", broken.reason);
        Self { reason, files: broken.files.clone() }
    }
}

impl Workspace {
    /// Says why an agent cannot be used although it is, or may be, in the workspace: its file has errors, or that of an agent
    /// that it needs. None for an agent that can be used, and for one that there is not.
    pub fn broken_agent(&self, name: &AgentName) -> Option<BrokenAgent> {
        if self.agents.contains_key(name) {
            return None;
        }
        self.broken.agents.get(name.as_str()).cloned().or_else(|| {
            let files = &self.broken.unnamed;
            let reason = format!("{} {} errors, and may be the agent's file", quoted(files), have(files));
            (!files.is_empty()).then(|| BrokenAgent { reason, files: files.clone() })
        })
    }
}

fn quoted(files: &BTreeSet<PathBuf>) -> String {
    list(files.iter().map(|file| slashes(file)).collect::<Vec<_>>().iter().map(String::as_str))
}

fn have(files: &BTreeSet<PathBuf>) -> &'static str {
    if files.len() == 1 { "has" } else { "have" }
}

/// Reads `agents/*.toml`.
pub(crate) fn load(
    place: Place<'_>,
    settings: Option<&Settings>,
    (toolkits, tenants): (&ReadToolkits, &ReadTenants),
    loaded: &mut Loaded,
) -> ReadAgents {
    let shelf = Shelf::new(toolkits, &tenants.sound, &tenants.lost);
    let mut directory = Directory::default();
    let mut texts = Vec::new();
    let (mut broken, mut unnamed, mut unsure) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    // A file with the name of a document of the catalogue is not read.
    let documents = place.agents();
    let covers: BTreeSet<String> = documents.iter().map(|document| document.name.clone()).collect();
    texts.extend(documents.into_iter().map(|document| (document.source, document.text)));
    for file in agent_files(place, loaded) {
        if file.file_stem().is_some_and(|stem| covers.contains(&*stem.to_string_lossy())) {
            loaded.diagnostics.push(documents::covered(&file));
            continue;
        }
        match place.read(&file, FILE_BYTES_MAX, &mut loaded.diagnostics) {
            Some(text) => texts.push((file, text)),
            None => {
                directory.add(&file, None);
                lose(&file, None, &mut broken, &mut unnamed);
                unsure.insert(file);
            }
        }
    }
    let files: Vec<_> = texts
        .iter()
        .filter_map(|(file, text)| {
            let report = Report::new(SourceFile::new(file.clone(), text.as_str()));
            let table = report.parse(text);
            let name = table.as_ref().and_then(|table| table.get("name")?.get_ref().as_str());
            if !documents::is_document(file) && name.is_some_and(|name| covers.contains(name)) {
                loaded.diagnostics.push(documents::covered(file));
                return None;
            }
            directory.add(file, table.as_ref());
            if report.count() > 0 {
                directory.set_partial();
                unsure.insert(file.clone());
            }
            Some((report, table))
        })
        .collect();

    // Agents refer to each other, so they are read when it is known who there is, and linked when all are read.
    let around = Surroundings { place, settings, directory: &directory, shelf: &shelf };
    let mut agents = BTreeMap::new();
    let mut names: BTreeMap<AgentName, &Path> = BTreeMap::new();
    let mut known = Vec::new();
    for (report, table) in &files {
        let none = ReadAgent { name: None, file: None };
        let ReadAgent { name, file: agent } =
            table.as_ref().map_or(none, |table| read(report, table, &around));
        let (name, agent) = own(report, name, agent);
        // Where it names one that is not known, nobody can say what it may do.
        let has_missed = directory.has_missed();
        known.push(name.as_ref().map(|name| name.value.clone()));
        if name.is_none() {
            unsure.insert(report.source().file().to_path_buf());
        }
        if let Some(name) = &name {
            if has_missed {
                broken.insert(name.value.to_string(), None);
            }
            check_name(report, name.clone(), &mut names);
        }
        if let Some(agent) = agent {
            agents.entry(agent.name.clone()).or_insert((agent, report));
        }
    }
    let of_workspace = settings.map(|settings| &settings.budget);
    let is_bounded = of_workspace.is_some_and(|budget| {
        budget.max_cost_nano_usd.is_some() || budget.tenant_max_cost_nano_usd.is_some()
    }) || tenants.sound.values().any(|tenant| tenant.max_cost_nano_usd_per_day.is_some());
    link(&mut agents, is_bounded);
    for ((report, _), name) in files.iter().zip(&known) {
        if report.has_errors() || name.is_none() {
            lose(report.source().file(), name.as_ref(), &mut broken, &mut unnamed);
        }
    }
    let mut agents: BTreeMap<_, _> = agents.into_iter().map(|(name, (agent, _))| (name, agent)).collect();
    let sources: BTreeMap<_, _> = files
        .into_iter()
        .map(|(report, _)| loaded.take(report))
        .map(|source| (source.file().to_path_buf(), source))
        .collect();
    let of_tenants = shelf.of_tenants();
    for agent in agents.values_mut() {
        agent.set_of_tenants(&of_tenants);
        if let Some(source) = sources.get(agent.source.file()) {
            agent.source = source.clone();
        }
    }
    let unsure = BrokenAgent::unsure(&unsure);
    let mut broken: BTreeMap<_, _> =
        broken.into_iter().map(|(name, broken)| (name, broken.unwrap_or_else(|| unsure.clone()))).collect();
    agents.retain(|name, _| !broken.contains_key(name.as_str()));
    lose_callers(&mut agents, &mut broken);
    ReadAgents { sound: agents, broken, unnamed }
}

/// An agent under the name that it is known by: a document with another name in its text is not that other agent.
fn own(
    report: &Report,
    name: Option<Located<AgentName>>,
    agent: Option<AgentFile>,
) -> (Option<Located<AgentName>>, Option<AgentFile>) {
    if !report.source().is_document() {
        return (name, agent);
    }
    let stem = report.source().file().file_stem().and_then(|stem| stem.to_str()?.parse::<AgentName>().ok());
    let span = name.map(|name| name.span).unwrap_or_default();
    let agent = agent.filter(|agent| Some(&agent.name) == stem.as_ref());
    (stem.map(|value| Located { value, span }), agent)
}

/// Takes note of a file with errors.
fn lose(
    file: &Path,
    name: Option<&AgentName>,
    broken: &mut BTreeMap<String, Option<BrokenAgent>>,
    unnamed: &mut BTreeSet<PathBuf>,
) {
    let stem = || file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let Some(called) = name.map(ToString::to_string).or_else(stem) else { return };
    broken.insert(called, Some(BrokenAgent::own(file)));
    // A document is the agent of its name, even if its text has another one.
    if name.is_none() && !documents::is_document(file) {
        unnamed.insert(file.to_path_buf());
    }
}

/// Takes out those that need an agent which is not there: with fewer agents than their files say they are not what their
/// authors meant.
fn lose_callers(agents: &mut BTreeMap<AgentName, AgentFile>, broken: &mut BTreeMap<String, BrokenAgent>) {
    loop {
        let lost = agents.iter().find_map(|(name, agent)| {
            let mut callees = agent.agents.keys();
            callees.find_map(|callee| {
                Some((name.clone(), BrokenAgent::needs(callee, broken.get(callee.as_str())?)))
            })
        });
        let Some((name, why)) = lost else { return };
        agents.remove(&name);
        broken.insert(name.to_string(), why);
    }
}

fn check_name<'f>(report: &'f Report, name: Located<AgentName>, names: &mut BTreeMap<AgentName, &'f Path>) {
    match names.entry(name.value) {
        Entry::Vacant(entry) => {
            entry.insert(report.source().file());
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

/// The agent files in the order of their names.
fn agent_files(place: Place<'_>, loaded: &mut Loaded) -> Vec<PathBuf> {
    let files = place.files(Path::new(AGENTS_FOLDER), "toml", &mut loaded.diagnostics);
    if files.is_empty() && place.agents().is_empty() && !loaded.has_errors() {
        let folder = Path::new(AGENTS_FOLDER);
        let problem =
            Diagnostic::new(Code::NoAgents, Severity::Warning, folder, "the workspace has no agents");
        loaded.diagnostics.push(problem.with_help("create one, such as `agents/hello.toml`"));
    }
    files
}
