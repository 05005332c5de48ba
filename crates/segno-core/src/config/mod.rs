//! What an agent is: parsed once, never validated later.
//!
//! An [`AgentConfig`] is the agent file, the model's parameters and the tool catalogue in one value. Its digest pins a
//! run. URLs, paths and secrets are bindings that stay outside it.

mod limits;
mod plan;
mod tools;

use alloc::string::{String, ToString};

use segno_expr::Template;
use serde::{Deserialize, Serialize};

pub use self::limits::{Limits, OnExceeded};
pub use self::plan::{Approve, Branch, Plan, PlanCall, PlanOperation, PlanStep, StepAction};
pub use self::tools::{OnFailure, OnIndeterminate, Tool, ToolKind, Toolbox};
use crate::canonical::{Canonical, Digest, digest_json};
use crate::id::AgentName;

/// The number of the rules by which a step is computed. A release that changes them raises it and keeps the old ones.
pub const SEMANTICS: u32 = 1;

/// Everything that decides how an agent behaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentConfig {
    /// The agent's name.
    pub name: AgentName,
    /// The author's version of the agent; informative.
    pub version: String,
    /// The rules by which steps are computed; see [`SEMANTICS`].
    pub semantics: u32,
    /// How the agent decides.
    pub mind: Mind,
    /// The tools it may use, and those it knows of but may not.
    #[serde(default)]
    pub tools: Toolbox,
    /// Where its memory reads and writes.
    #[serde(default)]
    pub memory_scope: MemoryScope,
    /// The bounds of one run.
    #[serde(default)]
    pub limits: Limits,
}

impl AgentConfig {
    /// An agent without tools, with default limits.
    pub fn new(name: AgentName, mind: Mind) -> Self {
        Self {
            name,
            version: "0.0.0".to_string(),
            semantics: SEMANTICS,
            mind,
            tools: Toolbox::default(),
            memory_scope: MemoryScope::default(),
            limits: Limits::default(),
        }
    }

    /// The digest that pins a run to this configuration: the same for equal configurations, on every machine.
    pub fn digest(&self) -> Digest {
        // Every part of a configuration is plain data with text keys, which always has a JSON form.
        let json = serde_json::to_value(self).expect("a configuration has a JSON form");
        digest_json(&json)
    }
}

/// How an agent decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mind {
    /// A model reads the transcript and asks for tools until it answers.
    Model(ModelMind),
    /// A list of steps; needs no model.
    Plan(Plan),
}

/// A mind that asks a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelMind {
    /// Which model, and how it is asked.
    pub model: ModelSettings,
    /// The system prompt. Renders once, when the run starts.
    pub instructions: Option<Template>,
    /// The first user message. Renders once, when the run starts.
    pub prompt: Template,
    /// What to look up in memory before the model is first asked.
    pub recall: Option<Recall>,
}

/// Which model, and how it is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelSettings {
    /// The workspace's name of the model.
    pub name: String,
    /// Sampling temperature; the provider's default when absent.
    pub temperature: Option<f64>,
    /// Most tokens of one reply; the provider's default when absent.
    pub max_output_tokens: Option<u32>,
    /// Longest time for one attempt, in milliseconds.
    #[serde(default = "default_model_timeout_ms")]
    pub timeout_ms: u64,
    /// Attempts after the first.
    #[serde(default = "default_model_retries")]
    pub retries: u32,
}

impl ModelSettings {
    /// The settings of a model by its workspace name, all else by default.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_string(),
            temperature: None,
            max_output_tokens: None,
            timeout_ms: default_model_timeout_ms(),
            retries: default_model_retries(),
        }
    }

    pub(crate) fn feed(&self, canonical: &mut Canonical) {
        canonical.text(&self.name);
        canonical.number(self.temperature.map_or(u64::MAX, f64::to_bits));
        canonical.number(self.max_output_tokens.map_or(u64::MAX, u64::from));
    }
}

/// A long reply streams for a minute or more.
fn default_model_timeout_ms() -> u64 {
    120_000
}

fn default_model_retries() -> u32 {
    2
}

/// A memory search before the first model call. Its hits are read as `memory.hits`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recall {
    /// What to search for.
    pub query: Template,
    /// Most hits.
    pub limit: u32,
    /// Hits below this score, from 0 to 1, are left out.
    pub min_score: f64,
}

/// How far a memory is shared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryScope {
    /// Only this session.
    Session,
    /// All sessions of this agent.
    Agent,
    /// All agents of the workspace.
    #[default]
    Workspace,
    /// All workspaces of the tenant.
    Tenant,
}
