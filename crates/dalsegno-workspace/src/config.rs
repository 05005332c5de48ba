//! The configuration of a run, as far as the files of the workspace tell it.

use dalsegno_core::{AgentConfig, AgentName, Callee, ToolName};

use crate::agent::AgentFile;
use crate::catalogue::{Catalogue, builtin_tools};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::names::list;
use crate::workspace::{SETTINGS_FILE, Workspace};

impl Workspace {
    /// The configuration with which a run of an agent begins, from the pinned catalogues alone: no tool server is asked.
    ///
    /// # Errors
    /// What is wrong with the agent beside its tools, or that a server which it reaches is not pinned.
    pub fn pinned_config(&self, agent: &AgentFile, tenant: &str) -> Result<AgentConfig, Vec<Diagnostic>> {
        self.config_with(agent, tenant, &Catalogue::new())
    }

    /// The same with tools that a program brings itself.
    pub(crate) fn config_with(
        &self,
        agent: &AgentFile,
        tenant: &str,
        registered: &Catalogue,
    ) -> Result<AgentConfig, Vec<Diagnostic>> {
        let mut catalogue = builtin_tools();
        catalogue.extend(registered.clone());
        let (mut unpinned, mut servers) = (Vec::new(), agent.servers(&self.settings));
        servers.retain(|server| match self.pinned_tools(server) {
            Some(tools) => {
                catalogue.extend(tools);
                true
            }
            None => {
                unpinned.push(server.clone());
                false
            }
        });
        if !unpinned.is_empty() {
            let (file, name) = (std::path::Path::new(SETTINGS_FILE), &agent.name);
            let message = format!(
                "the tools of {} are not pinned, and the agent `{name}` reaches them",
                list(unpinned)
            );
            let problem = Diagnostic::new(Code::NotPinned, Severity::Error, file, message);
            return Err(vec![problem.with_help(
                "run `dalsegno check --connect`, which asks the server and writes `dalsegno.lock`",
            )]);
        }
        catalogue.extend(self.declared_tools(tenant));
        let mut config = agent.resolve(&catalogue)?;
        self.admit_handoffs(&mut config);
        Ok(config)
    }

    /// Lets an agent hand over to those whom its declarative tools name; returns these names, with `_` for `-`.
    pub fn admit_handoffs(&self, config: &mut AgentConfig) -> Vec<String> {
        let plain = |name: &str| name.replace('-', "_");
        let documents = config.toolkits.values();
        let named = documents.flat_map(|document| document.toolkit().tools()).filter(|tool| {
            tool.name().parse::<ToolName>().is_ok_and(|name| config.tools.tools.contains_key(&name))
        });
        let named: Vec<String> = named.flat_map(|tool| tool.mentions().agents).map(plain).collect();
        let is_named = |name: &AgentName| named.contains(&plain(name.as_str()));
        for (name, file) in self.agents.iter().filter(|(name, _)| is_named(name)) {
            let callee = Callee { budget: file.limits.budget() };
            config.agents.entry(name.clone()).or_insert(callee);
        }
        named
    }

    /// The settings of a tenant as a run of today has them: `tenant.settings` in declarative tools.
    pub fn settings_of(&self, tenant: &str) -> serde_json::Value {
        let Some(tenant) = self.tenants.get(tenant) else { return serde_json::Value::Null };
        let mut settings: serde_json::Value = tenant.settings.clone().into();
        if let Some(zone) = &tenant.time_zone {
            settings["time_zone"] = zone.clone().into();
        }
        settings
    }
}
