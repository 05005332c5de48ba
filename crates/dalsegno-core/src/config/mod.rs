//! What an agent is: parsed once, never validated later.
//!
//! An [`AgentConfig`] is the agent file, the model's parameters and the tool catalogue in one value. Its digest pins a
//! run. URLs, paths and secrets are bindings that stay outside it.

mod control;
mod limits;
mod origin;
mod plan;
mod price;
mod rules;
mod toolkits;
mod tools;
mod voice;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub use self::control::{ModelControl, ProviderTool, Reasoning, UnknownProviderTool, Verbosity};
pub use self::limits::{Budget, Limits, OnExceeded};
pub use self::origin::{Origin, OriginRule};
pub use self::plan::{
    Approve, Branch, ForEach, Plan, PlanCall, PlanHandoff, PlanOperation, PlanStep, RelationTemplate,
    StepAction, Wait,
};
pub(crate) use self::price::Cost;
pub use self::price::{LivePrice, LongContext, Price, Rates};
pub use self::rules::first_rule_met;
pub use self::toolkits::{ToolDocument, ToolDocuments, ToolOwner};
pub use self::tools::{OnFailure, OnIndeterminate, PartTerms, Tool, ToolKind, Toolbox, Verify};
pub use self::voice::{AfterHangup, VoiceSettings, VoiceTool};
use crate::canonical::{Canonical, Digest, digest_json};
use crate::id::AgentName;
use crate::schema::JsonSchema;
use dalsegno_expr::Template;
use serde::{Deserialize, Serialize};

/// The number of the rules by which a step is computed. A release that changes them raises it and keeps the old ones.
///
/// Under the rules of number 2 what is in doubt and what a person refused keep their codes inside declarative tools, no
/// default stands for what is in doubt, and what a declarative tool lets an agent use is what the other
/// operations of its step and the call itself leave of the run's limits. What tools say is part of every answer, also across
/// handoffs; a handoff leaves the text of the request as it is; and of the calls of a reply that have one id only the first
/// is performed.
///
/// Under the rules of number 3 a plan and a document read the error of a declarative tool in the tool's own words, an argument
/// that comes to nothing is left out where the tool does not require it, and the end of a run names the reason of every model
/// that gave no usable reply, and the reply that a limit has no room for.
pub const SEMANTICS: u32 = 3;

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
    /// The documents of its declarative tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub toolkits: ToolDocuments,
    /// The agents that it may start as child runs or hand over to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<AgentName, Callee>,
    /// Where its memory reads and writes.
    #[serde(default)]
    pub memory_scope: MemoryScope,
    /// The bounds of one run.
    #[serde(default)]
    pub limits: Limits,
    /// How it behaves in a call; an agent without has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voice: Option<Box<VoiceSettings>>,
}

impl AgentConfig {
    /// Says whether the configuration has the second rules or later ones: see [`SEMANTICS`].
    pub(crate) fn has_second_rules(&self) -> bool {
        self.semantics >= 2
    }

    /// Says whether the configuration has the third rules or later ones: see [`SEMANTICS`].
    pub(crate) fn has_third_rules(&self) -> bool {
        self.semantics >= 3
    }

    /// An agent without tools, with default limits.
    pub fn new(name: AgentName, mind: Mind) -> Self {
        Self {
            name,
            version: "0.0.0".to_string(),
            semantics: SEMANTICS,
            mind,
            tools: Toolbox::default(),
            toolkits: ToolDocuments::new(),
            agents: BTreeMap::new(),
            memory_scope: MemoryScope::default(),
            limits: Limits::default(),
            voice: None,
        }
    }

    /// The models that the agent itself may ask, each with how it is asked. One may be there several times.
    pub fn models(&self) -> impl Iterator<Item = &ModelSettings> {
        let (mind, plan) = match &self.mind {
            Mind::Model(mind) => (Some(mind), None),
            Mind::Plan(plan) => (None, Some(plan)),
        };
        let of_mind = mind.into_iter().flat_map(|mind| core::iter::once(&mind.model).chain(&mind.fallback));
        of_mind.chain(plan.into_iter().flat_map(Plan::models))
    }

    /// The digest that pins a run to this configuration: the same for equal configurations, on every machine.
    pub fn digest(&self) -> Digest {
        // Every part of a configuration is plain data with text keys, which always has a JSON form.
        let json = serde_json::to_value(self).expect("a configuration has a JSON form");
        digest_json(&json)
    }
}

/// An agent that another one may start or hand over to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Callee {
    /// What its own limits let it use; a child run gets the smaller of this and its fair share of what its parent has left.
    pub budget: Budget,
}

/// How an agent decides.
#[expect(clippy::large_enum_variant, reason = "a configuration has one, and runs share their configuration")]
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
    /// The models to go on with, in order, when one gives no usable reply. The run stays with the one that replied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<ModelSettings>,
    /// The form of a structured answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputSettings>,
    /// How much of the transcript the model is sent; all of it when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextSettings>,
}

impl ModelMind {
    /// The settings of the agent's own model for 0, else of its fallbacks in order.
    pub fn settings(&self, fallback: u32) -> Option<&ModelSettings> {
        match fallback.checked_sub(1) {
            None => Some(&self.model),
            Some(index) => self.fallback.get(usize::try_from(index).ok()?),
        }
    }
}

/// The form of a structured answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputSettings {
    /// JSON Schema of the answer.
    pub schema: JsonSchema,
    /// How often the model is asked again when its answer does not fit.
    pub retries: u32,
}

/// How much of the transcript a model is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextSettings {
    /// Most tokens of a request, estimated by [`estimate_tokens`](crate::estimate_tokens), without the reply.
    pub max_tokens: u64,
    /// What happens to the oldest part when the rest would not fit.
    pub compact: Compact,
}

/// What happens to the oldest part of a transcript that has grown too long for the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compact {
    /// The oldest tool results are left out first, then the oldest turns.
    #[default]
    Drop,
    /// The oldest turns are replaced by a summary, for which the model is asked.
    Summarise,
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
    /// What its tokens cost, where that is known. Where the cost of a run is limited, no model without a price is asked;
    /// one that is free has a price of zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// How it is asked besides.
    #[serde(default, skip_serializing_if = "ModelControl::is_empty")]
    pub control: Box<ModelControl>,
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
            price: None,
            control: Box::default(),
        }
    }

    pub(crate) fn feed(&self, canonical: &mut Canonical) {
        canonical.text(&self.name);
        canonical.number(self.temperature.map_or(u64::MAX, f64::to_bits));
        canonical.number(self.max_output_tokens.map_or(u64::MAX, u64::from));
        // Requests of a configuration without it keep the digests that they had.
        if !self.control.is_empty() {
            let control =
                serde_json::to_value(&self.control).expect("settings are plain data with text keys");
            canonical.number(u64::MAX).json(&control);
        }
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
