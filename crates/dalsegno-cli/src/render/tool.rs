//! Tools in words, and as documents. The keys are a promise to scripts.

use dalsegno_core::{EffectClass, OrderedJson, ToolReturn};
use dalsegno_runtime::{ClassFrom, OfferedBy, ToolInfo};
use dalsegno_workspace::Workspace;
use serde::Serialize;
use serde_json::Value;

/// What `tools list` and `tools inspect` tell about a tool.
#[derive(Debug, Serialize)]
pub(crate) struct Listed<'t> {
    name: String,
    model_name: &'t str,
    description: &'t str,
    offered_by: String,
    /// The file of a declarative tool, or its document in the catalogue.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    class: &'static str,
    class_from: &'static str,
    grants: &'t [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    repeats: &'t [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    config_schema: Option<&'t Value>,
    agents: Vec<User>,
    input_schema: OrderedJson,
    output_schema: Option<&'t Value>,
}

/// An agent that may use a tool.
#[derive(Debug, Serialize)]
struct User {
    agent: String,
    class: &'static str,
    approve: bool,
}

impl<'t> Listed<'t> {
    /// A tool of the listing.
    pub(crate) fn of(tool: &'t ToolInfo, source: Option<String>) -> Self {
        let user = |user: &dalsegno_runtime::ToolUser| User {
            agent: user.agent.to_string(),
            class: class(user.class),
            approve: user.approve,
        };
        Self {
            name: tool.name.to_string(),
            model_name: &tool.model_name,
            description: &tool.description,
            offered_by: offered_by(&tool.offered_by),
            source,
            class: class(tool.class),
            class_from: match tool.class_from {
                ClassFrom::Declared => "declared",
                ClassFrom::Annotations => "annotations",
                ClassFrom::Unsaid => "unsaid",
                ClassFrom::Untrusted => "untrusted",
                ClassFrom::Contradiction => "contradiction",
            },
            grants: &tool.grants,
            repeats: &tool.repeats,
            config_schema: tool.config_schema.as_ref(),
            agents: tool.users.iter().map(user).collect(),
            input_schema: tool.input_schema.ordered(),
            output_schema: tool.output_schema.as_ref(),
        }
    }
}

/// What `tools call` tells.
#[derive(Debug, Serialize)]
pub(crate) struct Called<'t> {
    tool: String,
    is_error: bool,
    structured: Option<&'t Value>,
    text: &'t str,
}

impl<'t> Called<'t> {
    /// What came of a call.
    pub(crate) fn of(tool: &ToolInfo, returned: &'t ToolReturn) -> Self {
        Self {
            tool: tool.name.to_string(),
            is_error: returned.is_error,
            structured: returned.structured.as_ref(),
            text: &returned.text,
        }
    }
}

/// An effect class, as files write it.
pub(crate) fn class(class: EffectClass) -> &'static str {
    match class {
        EffectClass::Read => "read",
        EffectClass::Idempotent => "idempotent",
        EffectClass::Keyed => "keyed",
        EffectClass::Unsafe => "unsafe",
        EffectClass::Composite => "composite",
    }
}

/// Why a tool has its class, in words.
pub(crate) fn class_from(from: ClassFrom) -> &'static str {
    match from {
        ClassFrom::Declared => "built in",
        ClassFrom::Annotations => "its server says so, and dalsegno.toml trusts it",
        ClassFrom::Unsaid => "its server says nothing about repeating it",
        ClassFrom::Untrusted => {
            "its server claims more, but dalsegno.toml does not trust it (`trust_annotations`)"
        }
        ClassFrom::Contradiction => "its server contradicts itself: read-only and destructive",
    }
}

/// Who performs a tool, in words.
pub(crate) fn offered_by(offered_by: &OfferedBy) -> String {
    match offered_by {
        OfferedBy::Engine => "dalsegno".to_owned(),
        OfferedBy::Process => "this process".to_owned(),
        OfferedBy::Agent(agent) => format!("agent {agent}"),
        OfferedBy::Server(server) => format!("server {server}"),
        OfferedBy::Document(document) => format!("document {document}"),
    }
}

/// Where the document of a tenant's declarative tool comes from: a file, or `catalogue/…` for one that was changed by API.
pub(crate) fn source(tool: &ToolInfo, workspace: &Workspace, tenant: &str) -> Option<String> {
    let OfferedBy::Document(document) = &tool.offered_by else { return None };
    let source = workspace.toolkits_for(tenant).get(document.as_str())?.source.clone()?;
    Some(source.file().iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/"))
}

/// Who may use a tool, each in words; what differs from the tool's own class is told.
pub(crate) fn users(tool: &ToolInfo) -> Vec<String> {
    if tool.users.is_empty() {
        return vec!["no agent: none allows it".to_owned()];
    }
    let user = |user: &dalsegno_runtime::ToolUser| {
        let mut words = user.agent.to_string();
        if user.approve {
            words.push_str(", once a person agrees");
        }
        if user.class != tool.class {
            words.push_str(&format!(", as `{}`", class(user.class)));
        }
        words
    };
    tool.users.iter().map(user).collect()
}

/// The values of the configuration that a tool reads, each in words: those that must be set before the others.
pub(crate) fn config(tool: &ToolInfo) -> Vec<String> {
    let schema = tool.config_schema.as_ref();
    let required = schema.and_then(|schema| schema["required"].as_array());
    let is_required = |name: &str| required.is_some_and(|required| required.iter().any(|one| one == name));
    let values = schema.and_then(|schema| schema["properties"].as_object()).into_iter().flatten();
    let mut values: Vec<(bool, String)> = values
        .map(|(name, value)| {
            let default = value.get("default");
            let mut words = match (default, is_required(name)) {
                (Some(default), _) => format!("`{name}`, {default} by default"),
                (None, true) => format!("`{name}`, which must be set"),
                (None, false) => format!("`{name}`"),
            };
            if let Some(description) = value["description"].as_str() {
                words = format!("{words}: {description}");
            }
            (is_required(name) && default.is_none(), words)
        })
        .collect();
    values.sort_by_key(|(is_needed, _)| !is_needed);
    values.into_iter().map(|(_, words)| words).collect()
}
