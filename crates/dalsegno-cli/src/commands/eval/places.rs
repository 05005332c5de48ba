//! The versions of the workspace that an eval runs, as they were when it began: a file that changes meanwhile changes no trial.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use dalsegno_core::{AgentConfig, AgentName, Mind};
use dalsegno_eval::{Place, Way};
use dalsegno_gate::Version;
use dalsegno_runtime::OpenError;
use dalsegno_workspace::{Against, Eval, ModelBinding, Workspace};

use super::super::gate::git::Repository;
use super::super::gate::version;
use super::digest;
use crate::commands::Context;
use crate::error::Error;

/// The versions of the workspace.
pub(super) struct Places {
    pub(super) now: Workspace,
    pub(super) base: Option<Workspace>,
}

impl Places {
    pub(super) fn read(eval: &Eval, context: &Context<'_>) -> Result<Self, Error> {
        let unreadable = |source| Error::Input { place: context.root.display().to_string(), source };
        let now = Version::on_disk(&context.root, "now").map_err(unreadable)?;
        let load = |version: &Version| {
            let failed = |diagnostics| OpenError::Workspace { root: context.root.clone(), diagnostics };
            Workspace::load_with(&context.root, &version.in_code(&now)).sound().map_err(failed)
        };
        let base = match &eval.against {
            Some(Against::Base(given)) => {
                Some(load(&version(given, &now, Repository::around(&context.root))?)?)
            }
            _ => None,
        };
        Ok(Self { now: load(&now)?, base })
    }

    fn workspace(&self, place: Place) -> &Workspace {
        match (place, &self.base) {
            (Place::Base, Some(base)) => base,
            _ => &self.now,
        }
    }

    /// The configurations of an agent and of all agents that it can start or hand over to.
    fn configs(
        &self,
        place: Place,
        agent: &AgentName,
        tenant: &str,
    ) -> Result<BTreeMap<AgentName, Arc<AgentConfig>>, Error> {
        let workspace = self.workspace(place);
        let mut found = BTreeMap::new();
        let mut open = vec![agent.clone()];
        while let Some(name) = open.pop() {
            if found.contains_key(&name) {
                continue;
            }
            let Some(file) = workspace.agents.get(&name) else {
                if name == *agent {
                    return Err(Error::Eval {
                        message: format!("that version of the workspace has no sound agent `{name}`"),
                        help: "name another version, or compare with another agent",
                    });
                }
                continue;
            };
            let failed = |diagnostics| OpenError::Workspace { root: workspace.root.clone(), diagnostics };
            let config = workspace.pinned_config(file, tenant).map_err(failed)?;
            open.extend(config.agents.keys().cloned());
            found.insert(name, Arc::new(config));
        }
        Ok(found)
    }

    /// What decides how an agent runs, as a digest: its configuration and those of the agents that it starts, the models that they ask,
    /// the tool servers, and what the memory begins with.
    pub(super) fn fingerprint(
        &self,
        place: Place,
        agent: &AgentName,
        model: Option<&str>,
        tenant: &str,
    ) -> Result<String, Error> {
        let workspace = self.workspace(place);
        let configs = self.configs(place, agent, tenant)?;
        let mut texts =
            vec![model.unwrap_or_default().to_owned(), format!("{:?}", workspace.settings_of(tenant))];
        let mut models: BTreeSet<&str> = model.into_iter().collect();
        for config in configs.values() {
            texts.push(config.digest().to_string());
            if let Mind::Model(mind) = &config.mind {
                models.insert(&mind.model.name);
                models.extend(mind.fallback.iter().map(|one| one.name.as_str()));
            }
        }
        for name in models {
            let binding = workspace.settings.models.get(name);
            texts.push(format!("{name}: {binding:?}"));
            if let Some(ModelBinding::Script { file } | ModelBinding::Cassette { file }) = binding {
                texts.push(content(file));
            }
        }
        texts.push(format!("{:?}", workspace.settings.servers));
        texts.extend(workspace.settings.servers.values().map(|server| content(&server.module)));
        texts.push(self.seeds(place));
        Ok(digest(&texts))
    }

    /// What the memory of a version begins with, as a digest.
    pub(super) fn seeds(&self, place: Place) -> String {
        let seeds: Vec<String> =
            self.workspace(place).settings.memory.seeds.iter().map(|file| content(file)).collect();
        digest(&seeds)
    }

    /// All agents that take part.
    pub(super) fn reachable(&self, eval: &Eval, ways: &[Way]) -> Vec<Arc<AgentConfig>> {
        let judges = eval.judges.iter().map(|judge| (Place::Now, &judge.agent.name));
        let all = ways.iter().map(|way| (way.place, &way.agent)).chain(judges);
        let configs = all.filter_map(|(place, agent)| self.configs(place, agent, &eval.tenant).ok());
        configs.flat_map(BTreeMap::into_values).collect()
    }
}

/// The content of a file as a digest; empty for one that cannot be read, which the engine reports.
fn content(file: &Path) -> String {
    std::fs::read(file).map(|bytes| dalsegno_store::digest_bytes(&bytes).to_string()).unwrap_or_default()
}
