//! The tools of an agent: what they take, what they may repeat, who must agree.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canonical::{Canonical, print_json};
use crate::id::{AgentName, ToolName};
use crate::operation::{EffectClass, Terms};
use crate::tokens::estimate_tokens;

/// The tools that an agent may use, and the names of those that it knows of but may not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Toolbox {
    /// What may be called. The order of names is the order in which a model sees them.
    pub tools: BTreeMap<ToolName, Tool>,
    /// Known, but not allowed: a call gets a refusal that says so.
    pub forbidden: BTreeSet<ToolName>,
}

impl Toolbox {
    /// Finds an allowed tool by its own name or by the name that models see. What is both allowed and forbidden is
    /// forbidden.
    pub fn find(&self, name: &str) -> Option<(&ToolName, &Tool)> {
        let by_name = self.tools.iter().find(|(tool, _)| tool.as_str() == name);
        let found = by_name.or_else(|| self.tools.iter().find(|(tool, _)| tool.model_name() == name));
        found.filter(|(tool, _)| !self.forbidden.contains(*tool))
    }

    /// Says whether a name belongs to a tool that is known but not allowed.
    pub fn is_forbidden(&self, name: &str) -> bool {
        self.forbidden.iter().any(|tool| tool.as_str() == name || tool.model_name() == name)
    }

    /// About how many tokens it takes to tell a model about the tools.
    pub(crate) fn tokens(&self) -> u64 {
        let tools = self.tools.iter().map(|(name, tool)| {
            let bytes = name.as_str().len() + tool.description.len() + print_json(&tool.input_schema).len();
            estimate_tokens(bytes as u64)
        });
        tools.sum()
    }

    /// Feeds what a model is told about the tools.
    pub(crate) fn feed(&self, canonical: &mut Canonical) {
        canonical.number(self.tools.len() as u64);
        for (name, tool) in &self.tools {
            canonical.text(name.as_str()).text(&tool.description).json(&tool.input_schema);
        }
    }
}

/// One tool, as its server describes it and as the agent's settings bind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// What the tool does, for the model.
    pub description: String,
    /// JSON Schema of the arguments; an object.
    pub input_schema: Value,
    /// JSON Schema of the structured result, if the server gives one; `null` is the same as none.
    pub output_schema: Option<Value>,
    /// Who performs it.
    pub kind: ToolKind,
    /// What may repeat.
    pub class: EffectClass,
    /// Longest time for one attempt, in milliseconds.
    pub timeout_ms: u64,
    /// Attempts after the first, where the class allows them.
    pub retries: u32,
    /// Whether a person must agree before each call.
    pub approve: bool,
    /// What a failed call does to the run; the mind's default when absent: a model is told, a plan fails.
    pub on_failure: Option<OnFailure>,
    /// What happens when nobody knows whether the effect took place.
    pub on_indeterminate: OnIndeterminate,
    /// How long a result stands for further calls with the same arguments, in milliseconds; only where nothing changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_ms: Option<u64>,
}

impl Tool {
    /// A tool of a server, by the defaults: `unsafe`, 30 seconds, two retries where nothing was sent.
    pub fn new(description: String, input_schema: Value) -> Self {
        Self {
            description,
            input_schema,
            output_schema: None,
            kind: ToolKind::External,
            class: EffectClass::Unsafe,
            timeout_ms: 30_000,
            retries: 2,
            approve: false,
            on_failure: None,
            on_indeterminate: OnIndeterminate::Ask,
            cache_ms: None,
        }
    }

    /// The terms on which an operation of this tool runs.
    pub fn terms(&self) -> Terms {
        Terms {
            class: self.class,
            timeout_ms: self.timeout_ms,
            retries: self.retries,
            on_indeterminate: self.on_indeterminate,
            pace: None,
        }
    }
}

/// Who performs a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// A tool server, or a tool registered in process.
    #[default]
    External,
    /// The built-in `memory.search`; the core turns the call into a memory request.
    MemorySearch,
    /// The built-in `memory.create`; the core turns the call into a memory request.
    MemoryCreate,
    /// The built-in `memory.traverse`; the core turns the call into a memory request.
    MemoryTraverse,
    /// A tool that is a document: the core performs it, and asks for what it needs part by part.
    Declarative {
        /// The document, one of [`AgentConfig::toolkits`](crate::AgentConfig::toolkits).
        toolkit: String,
        /// The tool's name within it.
        tool: String,
    },
    /// `agents.<name>`: a child run of that agent, whose answer is the result.
    Agent {
        /// The agent, one of [`AgentConfig::agents`](crate::AgentConfig::agents).
        agent: AgentName,
    },
    /// `handoff.<name>`: that agent goes on in the same session, and this run ends.
    Handoff {
        /// The agent, one of [`AgentConfig::agents`](crate::AgentConfig::agents).
        agent: AgentName,
    },
}

/// What a failed operation does to the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The run ends as failed.
    Fail,
    /// The failure is the result: a model reads it, a plan finds it as `steps.<id>.error`.
    Report,
    /// This value stands in for the result. A person's no ends the run all the same: a value that was written before
    /// must not pass for what was refused.
    Default(Value),
    /// This tool, one of the agent's own, is called with the same arguments; what a failure of that one does, its own
    /// settings say, and it falls back no further. The run ends where another tool would not help or would do harm: a
    /// person said no, the arguments do not fit, or the effect may have taken place.
    Fallback(ToolName),
}

/// What happens when nobody knows whether an effect took place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnIndeterminate {
    /// A person is asked.
    #[default]
    Ask,
    /// The operation fails with the code `indeterminate`.
    Report,
    /// The author's word that the receiver tolerates a repeat: it is tried again.
    Retry,
}
