//! What a run of an agent would begin with in a version of the workspace.

use std::sync::Arc;

use dalsegno_core::{AgentConfig, AgentName, Digest};
use dalsegno_history::{ConfigReport, HistoryError, RecordedRun};
use dalsegno_workspace::{Diagnostic, Workspace};
use serde_json::Value;

/// An agent of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Subject {
    pub(crate) agent: AgentName,
    pub(crate) tenant: String,
}

/// What a run would begin with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) config: Arc<AgentConfig>,
    pub(crate) digest: Digest,
    /// The settings of its tenant; `None` for a tenant that the workspace does not have, whose runs keep what they had.
    pub(crate) settings: Option<Value>,
}

impl Candidate {
    /// What a run would begin with in this workspace; `None` where there is no such agent.
    ///
    /// # Errors
    /// What is wrong with the agent.
    pub(crate) fn of(workspace: &Workspace, subject: &Subject) -> Option<Result<Self, Vec<Diagnostic>>> {
        let agent = workspace.agents.get(&subject.agent)?;
        let settings = workspace.tenants.contains_key(&subject.tenant);
        let settings = settings.then(|| workspace.settings_of(&subject.tenant));
        let config = workspace.pinned_config(agent, &subject.tenant);
        Some(config.map(|config| Self::new(config, settings)))
    }

    pub(crate) fn new(config: AgentConfig, settings: Option<Value>) -> Self {
        Self { digest: config.digest(), config: Arc::new(config), settings }
    }

    /// Folds a run under this: whether and where it would differ.
    pub(crate) fn outline(&self, run: &RecordedRun) -> Result<ConfigReport, HistoryError> {
        run.outline_under(Arc::clone(&self.config), self.settings.as_ref())
    }

    /// The same, with what would differ.
    pub(crate) fn fold(&self, run: &RecordedRun) -> Result<ConfigReport, HistoryError> {
        run.under(Arc::clone(&self.config), self.settings.as_ref())
    }

    /// Says whether a run began with the same; the rules of the release by which steps are computed do not count.
    pub(crate) fn is_what_began(&self, run: &RecordedRun) -> bool {
        let own = run.config();
        let settings =
            self.settings.as_ref().is_none_or(|settings| *settings == run.request().tenant_settings);
        settings
            && match own.semantics == self.config.semantics {
                true => **own == *self.config,
                false => **own == AgentConfig { semantics: own.semantics, ..(*self.config).clone() },
            }
    }

    /// The configuration as a document, to tell what differs.
    pub(crate) fn json(&self) -> Value {
        serde_json::to_value(&*self.config).expect("a configuration has a JSON form")
    }
}
