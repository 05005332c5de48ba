//! The tools of an agent: what they take, what they may repeat, who must agree.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use dalsegno_expr::{Expression, ValueTemplate};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::origin::OriginRule;
use super::toolkits::ToolDocuments;
use crate::canonical::{Canonical, print_json};
use crate::id::{AgentName, ModelName, ToolName};
use crate::operation::{EffectClass, Terms};
use crate::schema::JsonSchema;
use crate::tokens::estimate_tokens;

/// The tools that an agent may use, and the names of those that it knows of but may not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Toolbox {
    /// What may be called. The order of names is the order in which a model sees them.
    pub tools: BTreeMap<ToolName, Tool>,
    /// Known, but not allowed: a call gets a refusal that says so.
    pub forbidden: BTreeSet<ToolName>,
    /// The names that were pinned for models when the configuration was made, those of forbidden tools included. Every
    /// other tool is seen under [`ToolName::model_name`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<ToolName, ModelName>,
}

impl Toolbox {
    /// Finds an allowed tool by a name that a model wrote: the tool's own, else the one that models see, else the long
    /// one that they would see if none were pinned. What is both allowed and forbidden is forbidden.
    pub fn find(&self, name: &str) -> Option<(&ToolName, &Tool)> {
        let found = self.first(|tool| tool.as_str() == name);
        let found = found.or_else(|| self.first(|tool| self.shows(tool, name)));
        let found = found.or_else(|| self.first(|tool| tool.model_name() == name));
        found.filter(|(tool, _)| !self.forbidden.contains(*tool))
    }

    /// Finds an allowed tool by a name that an author wrote. A pinned one means nothing there: what it stands for may
    /// change with the lock file.
    pub(crate) fn find_unpinned(&self, name: &str) -> Option<(&ToolName, &Tool)> {
        let found = self.first(|tool| tool.as_str() == name);
        let found = found.or_else(|| self.first(|tool| tool.model_name() == name));
        found.filter(|(tool, _)| !self.forbidden.contains(*tool))
    }

    fn first(&self, is_meant: impl Fn(&ToolName) -> bool) -> Option<(&ToolName, &Tool)> {
        self.tools.iter().find(|(tool, _)| is_meant(tool))
    }

    /// Says whether a name that a model wrote belongs to a tool that is known but not allowed.
    pub fn is_forbidden(&self, name: &str) -> bool {
        let mut forbidden = self.forbidden.iter();
        forbidden.any(|tool| tool.as_str() == name || self.shows(tool, name) || tool.model_name() == name)
    }

    /// The name by which models see a tool.
    pub fn model_name(&self, tool: &ToolName) -> String {
        self.names.get(tool).map_or_else(|| tool.model_name(), ModelName::to_string)
    }

    fn shows(&self, tool: &ToolName, name: &str) -> bool {
        self.names.get(tool).map_or_else(|| tool.model_name() == name, |pinned| pinned.as_str() == name)
    }

    /// About how many tokens it takes to tell a model about the tools.
    pub(crate) fn tokens(&self) -> u64 {
        let tools = self.tools.iter().map(|(name, tool)| {
            let shown = self.names.get(name).map_or_else(|| name.as_str(), ModelName::as_str);
            let bytes = shown.len() + tool.description.len() + print_json(&tool.input_schema).len();
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
        // Requests of a configuration without pinned names keep the digests that they had.
        let pinned: Vec<_> = self.names.iter().filter(|(tool, _)| self.tools.contains_key(*tool)).collect();
        if !pinned.is_empty() {
            canonical.number(pinned.len() as u64);
            for (tool, name) in pinned {
                canonical.text(tool.as_str()).text(name.as_str());
            }
        }
        // As do those of a configuration in which no schema has an order of its own.
        let ordered =
            self.tools.iter().filter_map(|(name, tool)| Some((name, tool.input_schema.unsorted()?)));
        for (index, (name, text)) in ordered.enumerate() {
            if index == 0 {
                canonical.number(u64::MAX);
            }
            canonical.text(name.as_str()).text(text);
        }
    }
}

/// One tool, as its server describes it and as the agent's settings bind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// What the tool does, for the model.
    pub description: String,
    /// JSON Schema of the arguments; an object.
    pub input_schema: JsonSchema,
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
    /// What the agent's file says of the parts of a declarative tool. It stands above the tool's document.
    #[serde(default, skip_serializing_if = "PartTerms::is_empty")]
    pub parts: PartTerms,
    /// How to find out whether a call of it, or a part of it, took place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// The calls, by their arguments, to which a person must agree first; besides all of them if `approve` says so. Each
    /// condition reads `args`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approve_when: Vec<Expression>,
    /// The calls to which a person must agree first unless their arguments come from certain sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approve_from: Vec<OriginRule>,
    /// The calls, by their arguments, that are refused. Each condition reads `args`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny_when: Vec<Expression>,
}

/// How the engine finds out by itself whether a call in doubt took place, before it asks a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verify {
    /// Who is asked: a tool of the agent that only reads.
    pub tool: ToolName,
    /// Its arguments; templates in it read `operation`: `id`, `key`, `tool` and `arguments`.
    pub with: ValueTemplate,
    /// What the tool's result says: the text `happened` or `not_happened`, else nobody knows. It reads `result` and
    /// `operation`.
    pub verdict: Expression,
    /// What the call returned, where it took place; read like `verdict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Expression>,
    /// The pause before each try, in milliseconds: a receiver may learn of its own work late.
    pub delay_ms: u64,
    /// How often the tool is asked at most, until it says that the call took place.
    pub tries: u32,
}

/// What an agent's file says of the parts of a declarative tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartTerms {
    /// Longest time for one attempt, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Attempts after the first, where the class allows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// What happens when nobody knows whether the effect took place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_indeterminate: Option<OnIndeterminate>,
}

impl PartTerms {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Tool {
    /// Says whether a call must have this argument, by the tool's schema.
    pub(crate) fn requires(&self, argument: &str) -> bool {
        let required = self.input_schema.get("required").and_then(Value::as_array);
        required.is_some_and(|names| names.iter().any(|name| name == argument))
    }

    /// A tool of a server, by the defaults: `unsafe`, 30 seconds, two retries where nothing was sent.
    pub fn new(description: String, input_schema: impl Into<JsonSchema>) -> Self {
        Self {
            description,
            input_schema: input_schema.into(),
            output_schema: None,
            kind: ToolKind::External,
            class: EffectClass::Unsafe,
            timeout_ms: 30_000,
            retries: 2,
            approve: false,
            on_failure: None,
            on_indeterminate: OnIndeterminate::Ask,
            cache_ms: None,
            parts: PartTerms::default(),
            verify: None,
            approve_when: Vec::new(),
            approve_from: Vec::new(),
            deny_when: Vec::new(),
        }
    }

    /// Says whether a call of it only reads, by its class or by its document, so that it can be asked about another one.
    pub fn only_reads(&self, documents: &ToolDocuments) -> bool {
        match &self.kind {
            ToolKind::External => self.class == EffectClass::Read,
            ToolKind::Declarative { toolkit, tool } => {
                let document = documents.get(toolkit);
                document
                    .and_then(|document| document.toolkit().tool(tool))
                    .is_some_and(|tool| tool.only_reads())
            }
            ToolKind::MemorySearch
            | ToolKind::MemoryCreate
            | ToolKind::MemoryTraverse
            | ToolKind::Agent { .. }
            | ToolKind::Handoff { .. }
            | ToolKind::HangUp => false,
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
    /// The built-in `call.hang_up`: the core ends the call once the last words were played.
    HangUp,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name(text: &str) -> ToolName {
        text.parse().unwrap()
    }

    /// `mail.send`, seen as `send`, and `find` may be called; `crm.find`, seen as `lookup`, may not.
    fn toolbox() -> Toolbox {
        let tool = |text| (name(text), Tool::new(text.into(), json!({})));
        let names = [("mail.send", "send"), ("crm.find", "lookup")];
        Toolbox {
            tools: BTreeMap::from(["mail.send", "find"].map(tool)),
            forbidden: BTreeSet::from([name("crm.find")]),
            names: names.iter().map(|(tool, shown)| (name(tool), shown.parse().unwrap())).collect(),
        }
    }

    fn found(toolbox: &Toolbox, called: &str) -> Option<String> {
        toolbox.find(called).map(|(tool, _)| tool.to_string())
    }

    #[test]
    fn a_tool_is_found_by_its_own_name_by_the_pinned_one_and_by_the_long_one() {
        for called in ["mail.send", "send", "mail__send"] {
            assert_eq!(found(&toolbox(), called).as_deref(), Some("mail.send"), "{called}");
        }
        assert_eq!(toolbox().model_name(&name("mail.send")), "send");
        assert_eq!(toolbox().model_name(&name("find")), "find");
        assert_eq!(found(&toolbox(), "sent"), None);
    }

    #[test]
    fn a_forbidden_tool_is_forbidden_by_each_of_its_names() {
        for called in ["crm.find", "lookup", "crm__find"] {
            assert!(toolbox().is_forbidden(called) && found(&toolbox(), called).is_none(), "{called}");
        }
        assert!(!toolbox().is_forbidden("find") && !toolbox().is_forbidden("never_heard"));
        let mut both = toolbox();
        both.forbidden.insert(name("mail.send"));
        for called in ["mail.send", "send", "mail__send"] {
            assert!(both.is_forbidden(called) && found(&both, called).is_none(), "{called}");
        }
    }

    #[test]
    fn what_a_model_sees_stands_above_what_it_would_see_if_nothing_were_pinned() {
        let mut toolbox = toolbox();
        toolbox.tools.insert(name("mail__send"), Tool::new("another".into(), json!({})));
        toolbox.names.insert(name("find"), "own".parse().unwrap());
        toolbox.tools.insert(name("own"), Tool::new("called so".into(), json!({})));
        assert_eq!(found(&toolbox, "mail__send").as_deref(), Some("mail__send"));
        assert_eq!(found(&toolbox, "own").as_deref(), Some("own"));
    }

    #[test]
    fn an_author_never_means_a_pinned_name() {
        let toolbox = toolbox();
        assert!(toolbox.find_unpinned("send").is_none());
        for written in ["mail.send", "mail__send"] {
            assert_eq!(toolbox.find_unpinned(written).unwrap().0.as_str(), "mail.send");
        }
        assert!(toolbox.find_unpinned("crm.find").is_none());
    }

    #[test]
    fn a_toolbox_without_pinned_names_is_written_and_fed_as_it_always_was() {
        let plain = Toolbox { names: BTreeMap::new(), ..toolbox() };
        let json = serde_json::to_value(&plain).unwrap();
        // In whatever order the program's JSON keeps its keys.
        let keys: BTreeSet<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, BTreeSet::from(["forbidden", "tools"]));
        assert_eq!(serde_json::from_value::<Toolbox>(json).unwrap(), plain);
        let digest = |toolbox: &Toolbox| {
            let mut canonical = Canonical::new("test");
            toolbox.feed(&mut canonical);
            canonical.finish()
        };
        let mut by_hand = Canonical::new("test");
        by_hand.number(2);
        for (tool, described) in &plain.tools {
            by_hand.text(tool.as_str()).text(&described.description).json(&described.input_schema);
        }
        assert_eq!(digest(&plain), by_hand.finish());
        // What the model is told is another thing where a tool of its own has another name; no other name matters.
        assert_ne!(digest(&toolbox()), digest(&plain));
        let forbidden_alone = BTreeMap::from([(name("crm.find"), "lookup".parse().unwrap())]);
        assert_eq!(digest(&Toolbox { names: forbidden_alone, ..toolbox() }), digest(&plain));
    }
}
