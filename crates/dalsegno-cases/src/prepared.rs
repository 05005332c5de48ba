//! What the cases of one agent share, made once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dalsegno_core::{AgentConfig, AgentName, Toolbox};
use dalsegno_models::{Schemas, ScriptModel};

/// What the cases of one agent share.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) config: Arc<AgentConfig>,
    pub(crate) schemas: Schemas,
    pub(crate) toolbox: Arc<Toolbox>,
    /// The agents whose runs are part of some case.
    pub(crate) agents: BTreeMap<AgentName, Self>,
    scripts: Arc<Scripts>,
}

/// The scripts of all cases, each read once.
pub(crate) type Scripts = BTreeMap<PathBuf, Result<ScriptModel, String>>;

impl Prepared {
    pub(crate) fn new(config: &Arc<AgentConfig>, scripts: &Arc<Scripts>) -> Self {
        Self {
            schemas: Schemas::compile(&config.tools),
            toolbox: Arc::new(config.tools.clone()),
            config: Arc::clone(config),
            agents: BTreeMap::new(),
            scripts: Arc::clone(scripts),
        }
    }

    /// Adds the agents whose runs are part of a case.
    pub(crate) fn add(&mut self, agents: &BTreeMap<AgentName, Arc<AgentConfig>>) {
        for (name, config) in agents {
            if !self.agents.contains_key(name) {
                self.agents.insert(name.clone(), Self::new(config, &self.scripts));
            }
        }
    }

    /// The script of a file.
    pub(crate) fn script(&self, file: &Path) -> Result<&ScriptModel, String> {
        match self.scripts.get(file) {
            Some(Ok(script)) => Ok(script),
            Some(Err(message)) => Err(message.clone()),
            None => Err(format!("the script `{}` was not read", file.display())),
        }
    }
}
