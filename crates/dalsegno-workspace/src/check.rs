//! Holds the agents against what is pinned, without starting anything.

use std::collections::BTreeSet;
use std::path::Path;

use crate::agent::AgentFile;
use crate::catalogue::{Catalogue, builtin_tools};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::lock::Lock;
use crate::names::list;
use crate::report::Report;
use crate::toolkit::{self, Around};
use crate::workspace::{SETTINGS_FILE, Workspace};

impl Workspace {
    /// Checks every agent against the catalogues of a lock file and the declarative tools of each tenant. `registered` holds the tools in process.
    ///
    /// A server that an agent reaches and that is not pinned gets a note; about its tools nothing is said.
    pub fn check(&self, lock: &Lock, registered: &Catalogue) -> Vec<Diagnostic> {
        let mut catalogue = builtin_tools();
        catalogue.extend(registered.iter().map(|(name, tool)| (name.clone(), tool.clone())));
        catalogue.extend(lock.catalogue(&self.settings));
        let common = catalogue.clone();
        catalogue.extend(self.declared_tools(NOBODY));
        let unpinned: BTreeSet<_> = self
            .settings
            .servers
            .keys()
            .filter(|server| !lock.servers.contains_key(*server))
            .cloned()
            .collect();

        let mut reached = BTreeSet::new();
        let mut found = Vec::new();
        for agent in self.agents.values() {
            reached.extend(agent.servers(&self.settings));
            found.extend(problems(agent, &catalogue, &unpinned));
        }
        let agents = self.agents.keys().cloned().collect();
        let capabilities = self.agents.values().flat_map(|agent| &agent.capabilities).cloned().collect();
        let around = Around {
            catalogue: &catalogue,
            unknown: &unpinned,
            agents: &agents,
            capabilities: &capabilities,
        };
        found.extend(self.toolkits.values().flat_map(|file| toolkit::check_mentions(file, &around)));
        for (name, tenant) in self.tenants.iter().filter(|(_, tenant)| !tenant.is_plain()) {
            let mut catalogue = common.clone();
            catalogue.extend(self.declared_tools(name));
            let around = Around { catalogue: &catalogue, ..around };
            let mut more: Vec<_> =
                tenant.tools.values().flat_map(|file| toolkit::check_mentions(file, &around)).collect();
            for agent in self.agents.values() {
                more.extend(problems(agent, &catalogue, &unpinned));
            }
            // What is wrong for everybody has been told.
            found.extend(more.into_iter().filter(|more| !found.contains(more)).collect::<Vec<_>>());
        }
        found.extend(self.agents.values().flat_map(|agent| self.check_config(agent, &common, &unpinned)));
        let notes = unpinned.intersection(&reached).map(|server| {
            let message = format!("the tools of `{server}` are not pinned, so they were not checked");
            Diagnostic::new(Code::NotPinned, Severity::Note, Path::new(SETTINGS_FILE), message)
                .with_help("run `dalsegno check --connect`, which asks the server and writes `dalsegno.lock`")
        });
        let narrowed = self.settings.servers.iter().filter_map(|(server, binding)| {
            let pinned = lock.servers.get(server)?;
            let named = binding.tools.iter().flatten().map(String::as_str);
            let missing: Vec<&str> = named.filter(|name| !pinned.tools.contains_key(*name)).collect();
            if missing.is_empty() {
                return None;
            }
            let message = format!(
                "`tools` of `[servers.{server}]` names {}, which the server does not offer",
                list(missing)
            );
            let offers = match pinned.tools.is_empty() {
                true => format!("`{server}` offers no tool"),
                false => format!("`{server}` offers {}", list(pinned.tools.keys().map(String::as_str))),
            };
            let file = Path::new(SETTINGS_FILE);
            Some(Diagnostic::new(Code::UnknownTool, Severity::Warning, file, message).with_help(offers))
        });
        notes.chain(narrowed).chain(found).collect()
    }
}

impl Workspace {
    /// Reports the values of configurations that no tenant has, and that the agent does not set either: no run of it can start. A
    /// value that some tenants have is theirs: the agent runs for them.
    fn check_config(
        &self,
        agent: &AgentFile,
        common: &Catalogue,
        unpinned: &BTreeSet<String>,
    ) -> Vec<Diagnostic> {
        let tenants = self.tenants.keys().map(String::as_str).chain([Self::DEFAULT_TENANT]);
        let mut missing: Option<BTreeSet<(String, String)>> = None;
        for tenant in tenants {
            let mut catalogue = common.clone();
            catalogue.extend(self.declared_tools(tenant));
            let Ok(config) = agent.resolve_known(&catalogue, unpinned) else { continue };
            let documents = config.toolkits.iter();
            let lacks = documents.flat_map(|(toolkit, document)| {
                document
                    .missing()
                    .into_iter()
                    .map(|name| (toolkit.clone(), name.to_owned()))
                    .collect::<Vec<_>>()
            });
            let lacks: BTreeSet<_> = lacks.collect();
            missing = Some(match missing {
                Some(missing) => missing.intersection(&lacks).cloned().collect(),
                None => lacks,
            });
        }
        let report = Report::new(agent.source.clone());
        for (toolkit, name) in missing.unwrap_or_default() {
            let tools = agent.tools.allow.iter();
            let named =
                tools.filter(|pattern| pattern.value.as_str().split('.').next() == Some(toolkit.as_str()));
            let span = named.map(|pattern| pattern.span.clone()).next().unwrap_or_default();
            report
                .error(
                    Code::MissingKey,
                    span,
                    format!("`{name}` is missing from the configuration of `{toolkit}`"),
                )
                .label("no run of this agent can start")
                .help(format!(
                    "add `{name}` to `[tools.{toolkit}.config]` in a tenant's file, or to \
                     `[tools.toolkits.{toolkit}.config]` in this file"
                ));
        }
        report.finish().1
    }
}

/// No tenant has this name.
const NOBODY: &str = "";

/// What is wrong with an agent beside the tools that exist, of which those of `unpinned` servers are not known.
fn problems(agent: &AgentFile, catalogue: &Catalogue, unpinned: &BTreeSet<String>) -> Vec<Diagnostic> {
    let mut found = match agent.resolve_known(catalogue, unpinned) {
        Ok(config) => agent.check_verify_of_documents(&config, unpinned),
        Err(problems) => problems,
    };
    found.extend(agent.check_arguments(catalogue));
    found
}
