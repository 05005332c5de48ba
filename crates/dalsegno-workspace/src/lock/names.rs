//! Which names models may see actions of toolkits by, and which of them are pinned.
//!
//! An action's long name, `toolkit__action`, is always right. Its short one is pinned where nothing else in the
//! workspace has it, and then stays: what comes later and has the same gets the long one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use dalsegno_core::{ModelName, ToolName};

use super::read::{PIN_HELP, Pin};
use super::{Lock, LockRead};
use crate::agent::RESERVED;
use crate::catalogue::{Catalogue, builtin_tools};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::toolkit::{ToolkitFile, short};
use crate::workspace::Workspace;

impl Workspace {
    /// Says which names models should see actions of toolkits by, for a lock file that is written anew.
    ///
    /// `before` are the names that were pinned: each stays while its tool is there and nothing else is called so. The
    /// other actions get their short name where it is the only one of its kind among the names of all tools: those of
    /// the servers in `lock`, those that are `registered` in process, the engine's own, and those of the toolkits of
    /// all tenants.
    pub fn pin_names(
        &self,
        lock: &Lock,
        registered: &Catalogue,
        before: &BTreeMap<ToolName, ModelName>,
    ) -> BTreeMap<ToolName, ModelName> {
        let known = Known::new(self, Some(lock), registered);
        let mut pinned = BTreeMap::new();
        let mut used: BTreeSet<&str> = BTreeSet::new();
        for (tool, name) in before {
            let is_right = known.actions.contains(tool) && known.objection(tool, name.as_str()).is_none();
            if is_right && used.insert(name.as_str()) {
                pinned.insert(tool.clone(), name.clone());
            }
        }
        let unpinned = || known.actions.iter().filter(|tool| !pinned.contains_key(*tool));
        let mut alike: BTreeMap<&str, u32> = BTreeMap::new();
        for tool in unpinned() {
            *alike.entry(short(tool.as_str())).or_default() += 1;
        }
        let new: Vec<_> = unpinned()
            .filter(|tool| {
                let name = short(tool.as_str());
                alike.get(name) == Some(&1) && !used.contains(name) && known.objection(tool, name).is_none()
            })
            .filter_map(|tool| Some((tool.clone(), short(tool.as_str()).parse().ok()?)))
            .collect();
        pinned.extend(new);
        pinned
    }

    /// The name by which models see a tool.
    pub fn model_name(&self, tool: &ToolName) -> String {
        self.names.get(tool).map_or_else(|| tool.model_name(), ModelName::to_string)
    }

    /// From now on models see these actions of toolkits under these names, and all others under their long ones.
    pub fn set_names(&mut self, names: BTreeMap<ToolName, ModelName>) {
        self.names = names;
        for agent in self.agents.values_mut() {
            agent.set_names(&self.names);
        }
    }

    /// Takes the pinned names over. One that is another tool's is an error, one of a tool that is not there a warning;
    /// neither is taken.
    ///
    /// Where the other tool is one of a catalogue's document, the document is out of use instead: it must not take the name from
    /// all others. What is wrong with documents is first in the result.
    pub(crate) fn take_names(&mut self, read: &LockRead) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
        let mut yielded = Vec::new();
        let known = loop {
            let known = Known::new(self, read.lock.as_ref(), &Catalogue::new());
            let Some(other) = read.pins.iter().find_map(|pin| {
                let name = pin.name.value.as_str();
                let others =
                    known.actions.contains(&pin.tool.value).then(|| known.tools.get(name)).flatten()?;
                others.iter().find(|other| **other != pin.tool.value && self.is_of_document(other))
            }) else {
                break known;
            };
            let other = other.clone();
            yielded.extend(self.yield_name(&other));
        };
        let mut problems = Vec::new();
        let mut names = BTreeMap::new();
        for pin in &read.pins {
            match known.check(pin, read) {
                Some(problem) => problems.push(problem),
                None => {
                    names.insert(pin.tool.value.clone(), pin.name.value.clone());
                }
            }
        }
        self.set_names(names);
        (yielded, problems)
    }

    fn is_of_document(&self, tool: &ToolName) -> bool {
        self.toolkits_with(tool).any(|(_, file)| file.is_document())
    }

    /// The documents with a tool, each with the tenant that it belongs to.
    fn toolkits_with(&self, tool: &ToolName) -> impl Iterator<Item = (Option<&String>, &ToolkitFile)> {
        let own = self
            .tenants
            .iter()
            .flat_map(|(tenant, own)| own.tools.values().map(move |file| (Some(tenant), file)));
        let all = self.toolkits.values().map(|file| (None, file)).chain(own);
        all.filter(|(_, file)| file.toolkit.tools().iter().any(|found| found.name() == tool.as_str()))
    }

    /// Takes the catalogue's documents with a tool out of use, since models would see it by the name that is pinned for another one.
    fn yield_name(&mut self, tool: &ToolName) -> Vec<Diagnostic> {
        let found = self.toolkits_with(tool).filter(|(_, file)| file.is_document());
        let found: Vec<_> = found
            .map(|(tenant, file)| (tenant.cloned(), file.name().to_owned(), file.source.clone()))
            .collect();
        let mut problems = Vec::new();
        for (tenant, name, source) in found {
            match tenant.as_ref().and_then(|tenant| self.tenants.get_mut(tenant)) {
                Some(tenant) => {
                    tenant.tools.remove(&name);
                    tenant.broken_tools.insert(name);
                }
                None => {
                    self.toolkits.remove(&name);
                    self.broken.tools.insert(name);
                }
            }
            let Some(source) = source else { continue };
            // The other tool may be another tenant's, of which the writer of the document learns nothing.
            let message = format!("`dalsegno.lock` pins the name of `{tool}` for another tool");
            let problem = Diagnostic::new(Code::ToolNameClash, Severity::Error, source.file(), message)
                .with_help("choose another name for the document");
            self.broken.diagnostics.push(problem.clone());
            problems.push(problem);
        }
        problems
    }
}

/// The names that tools have.
struct Known {
    /// The tools by the names that models see where none is pinned.
    tools: BTreeMap<String, BTreeSet<ToolName>>,
    /// The actions of all toolkits, whoever they belong to, those that are switched off included.
    actions: BTreeSet<ToolName>,
    /// The tool servers, of whose tools not all may be known.
    servers: BTreeSet<String>,
}

/// Why a tool must not be seen under a name.
enum Objection<'k> {
    /// The engine's own tools have such names.
    Engine(&'static str),
    /// The tools of a server have such names.
    Server(&'k str),
    /// Another tool has it.
    Tool(&'k ToolName),
}

impl Known {
    fn new(workspace: &Workspace, lock: Option<&Lock>, registered: &Catalogue) -> Self {
        let of_tenants = workspace.tenants.values().flat_map(|tenant| tenant.tools.values());
        let files: Vec<_> = workspace.toolkits.values().chain(of_tenants).collect();
        let declared = files.iter().flat_map(|file| file.toolkit.tools());
        let declared = declared.filter_map(|tool| tool.name().parse::<ToolName>().ok());
        let pinned = lock.into_iter().flat_map(|lock| &lock.servers).flat_map(|(server, locked)| {
            locked.tools.keys().filter_map(move |own| format!("{server}.{own}").parse().ok())
        });
        let mut tools: BTreeMap<String, BTreeSet<ToolName>> = BTreeMap::new();
        for tool in
            builtin_tools().into_keys().chain(registered.keys().cloned()).chain(declared).chain(pinned)
        {
            tools.entry(tool.model_name()).or_default().insert(tool);
        }
        let toolkits = files.iter().filter(|file| !file.toolkit.is_single());
        let actions = toolkits.flat_map(|file| file.toolkit.tools());
        Self {
            tools,
            actions: actions.filter_map(|tool| tool.name().parse().ok()).collect(),
            servers: workspace.settings.servers.keys().cloned().collect(),
        }
    }

    fn objection(&self, tool: &ToolName, name: &str) -> Option<Objection<'_>> {
        if let Some(other) = self.tools.get(name).and_then(|tools| tools.iter().find(|other| *other != tool))
        {
            return Some(Objection::Tool(other));
        }
        if name == tool.model_name() {
            return None;
        }
        let is_below = |first: &str| name.strip_prefix(first).is_some_and(|rest| rest.starts_with("__"));
        let mut engines = RESERVED.iter().copied().chain(["memory"]);
        if let Some(engines) = engines.find(|first| name == *first || is_below(first)) {
            return Some(Objection::Engine(engines));
        }
        self.servers.iter().find(|server| is_below(server)).map(|server| Objection::Server(server))
    }

    fn check(&self, pin: &Pin, read: &LockRead) -> Option<Diagnostic> {
        let (tool, name) = (&pin.tool.value, &pin.name.value);
        let problem = |code, severity, span: &std::ops::Range<usize>, message: String| {
            let problem = Diagnostic::new(code, severity, Lock::FILE.as_ref(), message);
            match &read.source {
                Some(source) => problem.at(source, span.clone()),
                None => problem,
            }
        };
        if !self.actions.contains(tool) {
            let message = format!("no toolkit has an action `{tool}`, so its name has no effect");
            let problem = problem(Code::NoEffect, Severity::Warning, &pin.tool.span, message);
            return Some(problem.with_help("run `dalsegno check --connect`, which removes it"));
        }
        let objection = self.objection(tool, name.as_str())?;
        let message = format!("models cannot see `{tool}` as `{name}`");
        let problem = problem(Code::ToolNameClash, Severity::Error, &pin.name.span, message);
        Some(problem.with_label(objection.to_string()).with_help(PIN_HELP))
    }
}

impl fmt::Display for Objection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(first) => write!(f, "the engine's own tools are called `{first}__…`"),
            Self::Server(server) => write!(f, "the tools of the server `{server}` are called `{server}__…`"),
            Self::Tool(other) => write!(f, "models see the tool `{other}` by this name"),
        }
    }
}
