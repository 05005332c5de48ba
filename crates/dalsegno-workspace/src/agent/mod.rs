//! An agent file: what one agent is, before it is known which tools exist.

mod arguments;
mod callees;
mod directory;
mod expressions;
mod keys;
mod limits;
mod link;
mod load;
mod mind;
mod origins;
mod output;
mod provider_tools;
mod read;
mod resolve;
mod rules;
mod steps;
mod tools;
mod verify;
mod voice;
mod wishes;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use dalsegno_core::{
    AgentName, Callee, EffectClass, Limits, MemoryScope, Mind, ModelName, ModelSettings, OnFailure,
    OnIndeterminate, ProviderTool, ToolKind, ToolName, ToolPattern, Verify,
};

pub(crate) use self::callees::RESERVED;
pub(crate) use self::expressions::{invalid, json, parse as expression};
pub(crate) use self::keys::FILE;
use self::link::link;
pub use self::load::BrokenAgent;
pub(crate) use self::load::{ReadAgents, load};
pub use self::origins::SourceRule;
pub(crate) use self::read::Surroundings;
use self::read::{ReadAgent, read};
pub use self::rules::CallRule;
use crate::section::Located;
use crate::settings::Settings;
use crate::source::SourceFile;
use crate::tenant::{ToolkitSettings, ToolkitUse};

/// One agent of the workspace.
#[derive(Debug, Clone)]
pub struct AgentFile {
    /// The agent's name.
    pub name: AgentName,
    /// The author's version; `0.0.0` if the file does not say.
    pub version: String,
    /// What the agent does, in a sentence; may be empty.
    pub description: String,
    /// What the agent can be asked for. `_` is read as `-`.
    pub capabilities: BTreeSet<String>,
    /// How it decides: with a model, or by a list of steps. All templates and expressions are parsed and checked.
    pub mind: Mind,
    /// Which tools it may use, and how.
    pub tools: AgentTools,
    /// The agents of the workspace that it may start as child runs or hand over to.
    pub agents: BTreeMap<AgentName, Callee>,
    /// Where its memory reads and writes.
    pub memory_scope: MemoryScope,
    /// The bounds of one run.
    pub limits: Limits,
    /// How it behaves in a call.
    voice: voice::Voice,
    /// The file itself.
    pub source: SourceFile,
    /// The tools that steps call, and those that stand in for others, each where it stands.
    called: Vec<Located<ToolName>>,
    /// What steps call tools with.
    calls: Vec<arguments::Call>,
    /// The agents that a model sees as tools.
    agent_tools: BTreeMap<ToolName, AgentTool>,
    /// The tools that only some tenants have: naming one of them is no mistake.
    of_tenants: BTreeSet<ToolName>,
    /// The names by which models see actions of toolkits.
    names: BTreeMap<ToolName, ModelName>,
    /// What its `[model]` itself says; none for a plan.
    wishes: Option<wishes::Wishes>,
    /// What only the whole workspace can tell is right.
    open: Open,
}

/// An agent as a tool of another.
#[derive(Debug, Clone)]
struct AgentTool {
    /// A child run or a handoff.
    kind: ToolKind,
    /// What the agent says that it does.
    description: Arc<str>,
    /// The agent's own limit.
    timeout_ms: Option<u64>,
}

/// What is looked at when all agents are known.
#[derive(Debug, Clone, Default)]
struct Open {
    /// The agents that may run as children, whose cost counts as this one's.
    children: BTreeSet<AgentName>,
    /// A model that the agent may use and whose cost is not known.
    unpriced: Option<Unpriced>,
    /// A model that may search the web, which has a price for tokens alone.
    searches: Option<Unpriced>,
    /// Where the agent says which models it asks.
    asks: Range<usize>,
    /// Where the bound on the cost stands.
    cost: Option<Range<usize>>,
}

/// Which tools an agent may use, and how: `[tools]`.
#[derive(Debug, Clone, Default)]
pub struct AgentTools {
    /// What it may use; nothing by default.
    pub allow: Vec<Located<ToolPattern>>,
    /// What a person must agree to before each call.
    pub approve: Vec<Located<ToolPattern>>,
    /// What it may not use, though `allow` covers it.
    pub deny: Vec<Located<ToolPattern>>,
    /// The calls that a person must agree to first, by their arguments.
    pub approve_rules: Vec<CallRule>,
    /// Rules by which a person must approve a call unless its arguments come from certain sources.
    pub source_rules: Vec<SourceRule>,
    /// The calls that are refused, by their arguments.
    pub deny_rules: Vec<CallRule>,
    /// Settings of single tools, each with the place of the tool's name.
    pub settings: BTreeMap<ToolName, Located<ToolSettings>>,
    /// What it says of the tools that a model's provider runs by itself.
    of_provider: provider_tools::OfProvider,
    /// What it sets of declarative tools, by the name of their document. What a tenant sets stands above it.
    pub toolkits: BTreeMap<String, ToolkitSettings>,
    /// The tools that stand in for others which fail, each where it is named.
    stand_ins: Vec<Located<ToolName>>,
    /// Where the names in `toolkits` stand.
    pub(crate) toolkit_uses: Vec<ToolkitUse>,
}

/// The settings of one tool, `[tools.settings."server.tool"]`. What is absent is as the tool's own default says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolSettings {
    /// Longest time for one attempt, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Attempts after the first, where the effect class allows them.
    pub retries: Option<u32>,
    /// What a failed call does to the run.
    pub on_failure: Option<OnFailure>,
    /// What may repeat. The author's word; it stands above what the tool's server says.
    pub effect: Option<EffectClass>,
    /// What happens when nobody knows whether the effect took place.
    pub on_indeterminate: Option<OnIndeterminate>,
    /// How long a result stands for further calls with the same arguments, in milliseconds, and where the file says so.
    pub cache_ms: Option<Located<u64>>,
    /// How to find out whether a call in doubt took place, and where the file says so.
    pub verify: Option<Located<Verify>>,
}

impl AgentTools {
    /// Says whether the agent may use a tool. `*` covers the tools of servers and those of the engine, but no agent:
    /// whoever may go on with the work is named.
    pub fn allows(&self, tool: &ToolName) -> bool {
        let is_agent = callees::is_agent_tool(tool);
        let is_denied = self.deny.iter().any(|pattern| pattern.value.matches(tool));
        !is_denied
            && self
                .allow
                .iter()
                .any(|pattern| pattern.value.matches(tool) && !(is_agent && pattern.value.as_str() == "*"))
    }

    /// Says whether the agent lets its model's provider run a tool by itself. Only `provider.NAME` and `provider.*` allow it: the
    /// tool gets what the model has read, and nothing that Dalsegno keeps from other tools stands in its way.
    pub fn allows_of_provider(&self, tool: ProviderTool) -> bool {
        self.of_provider.allows(tool, &self.deny)
    }

    /// Says whether the agent may end a run by handing over to another agent.
    fn hands_over(&self) -> bool {
        self.allow.iter().any(|pattern| pattern.value.as_str().starts_with("handoff."))
    }
}

/// A model whose cost is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unpriced {
    /// The workspace's name of the model.
    pub(crate) model: String,
    /// Its tokens have a price, and the searches of the web that it may ask its provider for have none.
    of_searches: bool,
}

impl Unpriced {
    pub(crate) fn of(model: &ModelSettings) -> Option<Self> {
        let searches = model.control.provider_tools.contains(&ProviderTool::WebSearch);
        let of_searches = match &model.price {
            None => false,
            Some(price) if searches && price.web_search.is_none() => true,
            Some(_) => return None,
        };
        Some(Self { model: model.name.clone(), of_searches })
    }

    /// Says whether only the searches of the web have no price.
    pub(crate) const fn is_of_searches(&self) -> bool {
        self.of_searches
    }

    /// What is missing, in words behind the name of the model.
    pub(crate) const fn lack(&self) -> &'static str {
        match self.of_searches {
            false => "has no `price`",
            true => "may search the web, and its `price` has no `web_search`",
        }
    }

    /// What to add.
    pub(crate) fn help(&self) -> String {
        let model = &self.model;
        match self.of_searches {
            false => format!(
                "add `price = {{ input = …, output = … }}` to `[models.{model}]` in `dalsegno.toml`, in US dollars for a million tokens"
            ),
            true => format!(
                "add `web_search = …` to the `price` of `[models.{model}]` in `dalsegno.toml`, in US dollars for a thousand searches"
            ),
        }
    }
}

impl AgentFile {
    /// The agent that does the work of its calls, where it names one.
    pub fn delegate(&self) -> Option<&AgentName> {
        self.voice.settings.as_ref()?.delegate.as_ref()
    }

    /// Says whether the agent takes calls: its file has `[voice]`.
    pub fn takes_calls(&self) -> bool {
        self.voice.settings.is_some()
    }

    /// A model that the agent may ask and whose cost is not known, if there is one: a bound on the cost would not hold.
    pub(crate) const fn unpriced(&self) -> Option<&Unpriced> {
        self.open.unpriced.as_ref()
    }

    /// Notes which tools only some tenants have.
    pub(crate) fn set_of_tenants(&mut self, tools: &BTreeSet<ToolName>) {
        self.of_tenants.clone_from(tools);
    }

    /// Notes by which names models see actions of toolkits.
    pub(crate) fn set_names(&mut self, names: &BTreeMap<ToolName, ModelName>) {
        self.names.clone_from(names);
    }

    /// Says which tool servers the agent can reach, so that only those are started.
    pub fn servers(&self, settings: &Settings) -> BTreeSet<String> {
        settings.servers.keys().filter(|server| self.reaches(server)).cloned().collect()
    }

    fn reaches(&self, server: &str) -> bool {
        let prefix = format!("{server}.");
        self.tools.allow.iter().any(|pattern| match pattern_parts(&pattern.value) {
            (before, true) => before.starts_with(&prefix) || prefix.starts_with(before),
            (name, false) => name.starts_with(&prefix),
        })
    }
}

/// The text before a pattern's `*`, or the whole name, and whether there is a `*`.
fn pattern_parts(pattern: &ToolPattern) -> (&str, bool) {
    let text = pattern.as_str();
    text.strip_suffix('*').map_or((text, false), |before| (before, true))
}
