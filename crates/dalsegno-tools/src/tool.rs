//! Compiled tools and toolkits.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use dalsegno_expr::{Expression, ValueTemplate};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::action::ToolAction;
use crate::document::{self, Settings};
use crate::effect::EffectClass;
use crate::parameters::Parameter;
use crate::path::Path;
use crate::source::ValueSource;

/// One compiled document: a toolkit with many tools, or a single tool.
///
/// Clones share it. Two are equal if their documents and settings are. It is serialized as these, and compiled when it is
/// read.
#[derive(Debug, Clone)]
pub struct Toolkit(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) source: Value,
    pub(crate) settings: Settings,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) is_single: bool,
    pub(crate) is_enabled: bool,
    pub(crate) config_schema: Option<Value>,
    pub(crate) config_defaults: Map<String, Value>,
    pub(crate) secrets: BTreeMap<String, String>,
    pub(crate) auth: Auth,
    pub(crate) tools: Vec<Tool>,
}

/// How the requests of a toolkit prove who sends them.
///
/// The planner puts the reference to the secret into every `api_call` that does not set the same header itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Auth {
    /// Not at all.
    #[default]
    None,
    /// `Authorization: Bearer <secret>`.
    Bearer {
        /// The secret's name.
        secret: String,
    },
    /// A key in a header or in the query.
    ApiKey {
        /// The secret's name.
        secret: String,
        /// Where the key stands.
        place: KeyPlace,
    },
    /// `Authorization: Bearer <access token>`, where the shell gets and refreshes the token.
    #[serde(rename = "oauth2")]
    OAuth2(OAuth2),
}

/// Where an API key stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyPlace {
    /// In this header, in lower case.
    Header(String),
    /// In this field of the query.
    Query(String),
}

/// Access by OAuth 2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OAuth2 {
    /// Where a person agrees.
    pub auth_url: String,
    /// Where tokens are given out and refreshed.
    pub token_url: String,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// The client's id, where the document has it; else the secret `client_id`.
    pub client_id: Option<String>,
    /// The secret that holds the client's id, where it is none of the document.
    pub client_id_secret: String,
    /// The secret that holds the client's secret.
    pub client_secret: String,
    /// The secret under which the shell keeps the access token.
    pub access_token: String,
    /// The secret under which the shell keeps the refresh token.
    pub refresh_token: String,
    /// More fields for the address where a person agrees, such as `access_type`.
    pub auth_params: BTreeMap<String, String>,
}

/// How the engine finds out whether a call of a tool took place that nothing proves, before it asks a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Verify {
    /// Who is asked: the name of a tool that only reads, with its toolkit or server.
    pub tool: String,
    /// Its arguments; templates in it read `operation`: `id`, `key`, `tool` and `arguments`.
    pub with: ValueTemplate,
    /// What the tool's result says: the text `happened` or `not_happened`, else nobody knows. It reads `result` and
    /// `operation`.
    pub verdict: Expression,
    /// What the call returned, where it took place; read like `verdict`.
    pub result: Option<Expression>,
    /// The pause before each try, in milliseconds: a receiver may learn of its own work late.
    pub delay_ms: u64,
    /// How often the tool is asked at most, until it says that the call took place.
    pub tries: u32,
}

/// One function that a model can call.
#[derive(Debug)]
pub struct Tool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) schema: Value,
    pub(crate) returns: Option<String>,
    pub(crate) is_enabled: bool,
    pub(crate) actions: Vec<ToolAction>,
    pub(crate) on_success: Vec<ToolAction>,
    pub(crate) on_failure: Vec<ToolAction>,
    pub(crate) output: Option<ValueSource>,
    pub(crate) verify: Option<Verify>,
    pub(crate) auth: Auth,
    /// The paths of the context that hold secrets.
    pub(crate) secret_paths: Vec<Path>,
}

impl Toolkit {
    /// Its name; that of the tool where it has a single one.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What it is for.
    pub fn description(&self) -> &str {
        &self.0.description
    }

    /// The tools, in the order of the document.
    pub fn tools(&self) -> &[Tool] {
        &self.0.tools
    }

    /// Returns the tool with this internal name, such as `google_calendar.list_events`.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.0.tools.iter().find(|tool| tool.name == name)
    }

    /// Whether the document is one tool rather than a toolkit.
    pub fn is_single(&self) -> bool {
        self.0.is_single
    }

    /// Whether it is switched on (`is_enabled`).
    pub fn is_enabled(&self) -> bool {
        self.0.is_enabled
    }

    /// JSON Schema of its configuration.
    pub fn config_schema(&self) -> Option<&Value> {
        self.0.config_schema.as_ref()
    }

    /// Returns its configuration: what `given` has, and the schema's defaults for the rest.
    pub fn config_with(&self, given: &Map<String, Value>) -> Map<String, Value> {
        let mut config = self.0.config_defaults.clone();
        config.extend(given.iter().map(|(name, value)| (name.clone(), value.clone())));
        config
    }

    /// The names of its secrets, each with what it is; those that its `auth` brings included.
    pub fn secrets(&self) -> &BTreeMap<String, String> {
        &self.0.secrets
    }

    /// How its requests prove who sends them.
    pub fn auth(&self) -> &Auth {
        &self.0.auth
    }

    /// Returns the settings that it was compiled with.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The document that it was compiled from.
    pub fn source(&self) -> &Value {
        &self.0.source
    }
}

impl Tool {
    /// Its internal name: `toolkit.action`, or the name of a single tool.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name that a model sees unless a shorter one is pinned: `toolkit__action`.
    pub fn model_name(&self) -> String {
        self.name.replace('.', "__")
    }

    /// What it does, with what it gives back, in words for the model.
    pub fn description(&self) -> String {
        match &self.returns {
            Some(returns) => {
                let end = if self.description.ends_with(['.', '!', '?']) { "" } else { "." };
                format!("{}{end} Returns: {returns}", self.description)
            }
            None => self.description.clone(),
        }
    }

    /// Its parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// JSON Schema of its arguments, draft 2020-12.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Words on what it gives back.
    pub fn returns(&self) -> Option<&str> {
        self.returns.as_deref()
    }

    /// Whether it is switched on, and its toolkit too.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// How to find out whether an HTTP call or a mail of it took place, where its document says so.
    pub fn verify(&self) -> Option<&Verify> {
        self.verify.as_ref()
    }

    /// Says whether a call of it changes nothing beyond the call: its requests only read, and it sends no mail, calls no tool,
    /// hands over to no agent, says nothing to the user and keeps nothing in the context of the session.
    pub fn only_reads(&self) -> bool {
        [&self.actions, &self.on_success, &self.on_failure].into_iter().all(|list| all_read(list))
    }

    /// Returns the names of the tools that it may call, and the agents that it may hand over to, for checks across
    /// documents.
    pub fn mentions(&self) -> Mentions<'_> {
        let mut mentions = Mentions::default();
        for list in [&self.actions, &self.on_success, &self.on_failure] {
            mentions.gather(list);
        }
        mentions
    }
}

/// Says whether actions change nothing beyond the call that performs them.
fn all_read(actions: &[ToolAction]) -> bool {
    use crate::action::ActionKind;
    actions.iter().all(|action| match &action.kind {
        ActionKind::ApiCall(call) => {
            call.class.unwrap_or(call.method.unwrap_or_default().class()) == EffectClass::Read
        }
        ActionKind::Set { persist, .. }
        | ActionKind::Delete { persist, .. }
        | ActionKind::Flag { persist, .. } => !persist,
        ActionKind::Conditional { then_actions, else_actions, .. } => {
            all_read(then_actions) && all_read(else_actions)
        }
        ActionKind::Get { .. }
        | ActionKind::Validate { .. }
        | ActionKind::Transform(_)
        | ActionKind::Log { .. } => true,
        ActionKind::Respond { .. }
        | ActionKind::Handoff { .. }
        | ActionKind::Email(_)
        | ActionKind::Tool(_)
        | ActionKind::Transfer { .. } => false,
    })
}

/// What a tool names beyond its document.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mentions<'t> {
    /// Internal names of tools.
    pub tools: Vec<&'t str>,
    /// Names of agents, as the document has them.
    pub agents: Vec<&'t str>,
    /// Calls that are repeated although they may have taken place, by the document's `retry_count`: the method, the `id`
    /// where there is one, and how often.
    pub repeats: Vec<(&'static str, Option<&'t str>, u32)>,
}

impl<'t> Mentions<'t> {
    fn gather(&mut self, actions: &'t [ToolAction]) {
        use crate::action::ActionKind;
        for action in actions {
            match &action.kind {
                ActionKind::Tool(tool) => self.tools.push(&tool.name),
                ActionKind::Handoff { target, .. } => self.agents.push(target),
                ActionKind::ApiCall(call) => {
                    let method = call.method.unwrap_or_default();
                    let class = call.class.unwrap_or(method.class());
                    if let Some(retries) = call.retries.filter(|retries| *retries > 0)
                        && class == EffectClass::Unsafe
                    {
                        self.repeats.push((method.as_str(), action.id.as_deref(), retries));
                    }
                }
                ActionKind::Conditional { then_actions, else_actions, .. } => {
                    self.gather(then_actions);
                    self.gather(else_actions);
                }
                _ => {}
            }
        }
    }
}

impl PartialEq for Toolkit {
    fn eq(&self, other: &Self) -> bool {
        self.0.source == other.0.source && self.0.settings == other.0.settings
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    document: Value,
    #[serde(default)]
    settings: Settings,
}

impl Serialize for Toolkit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Stored { document: self.0.source.clone(), settings: self.0.settings.clone() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Toolkit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = Stored::deserialize(deserializer)?;
        let compiled = document::compile_with(&stored.document, &stored.settings);
        compiled.toolkit.ok_or_else(|| {
            let first = compiled.problems.first().map(ToString::to_string).unwrap_or_default();
            serde::de::Error::custom(format!("the tool does not compile: {first}"))
        })
    }
}
