//! The documents of declarative tools that an agent may use.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use dalsegno_tools::{Path, Settings, Toolkit, compile_with};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value, json};

/// A document of declarative tools, with its configuration for this agent and tenant. What is stored is the document as it
/// was written; it is compiled when it is read.
#[derive(Debug, Clone)]
pub struct ToolDocument {
    toolkit: Toolkit,
    config: Arc<Value>,
    owner: Option<ToolOwner>,
}

/// Whose a document of declarative tools is: it gets the secrets of that owner and of no other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOwner {
    /// The workspace's.
    Workspace,
    /// The tenant's of this name.
    Tenant(String),
}

impl ToolDocument {
    /// Returns the values of the configuration that the document requires and that nobody has set.
    pub fn missing(&self) -> Vec<&str> {
        let schema = self.toolkit().config_schema();
        let required = schema.and_then(|schema| schema.get("required")?.as_array());
        let names = required.into_iter().flatten().filter_map(Value::as_str);
        names.filter(|name| self.config().get(*name).is_none_or(Value::is_null)).collect()
    }

    /// A document that was compiled, with what its tools read as `config`.
    pub fn new(toolkit: Toolkit, config: Map<String, Value>) -> Self {
        Self { toolkit, config: Arc::new(config.into()), owner: None }
    }

    /// The same document of this owner.
    #[must_use]
    pub fn owned_by(self, owner: ToolOwner) -> Self {
        Self { owner: Some(owner), ..self }
    }

    /// Whose it was when the configuration was made; none in a configuration of a release that did not write it.
    pub fn owner(&self) -> Option<&ToolOwner> {
        self.owner.as_ref()
    }

    /// The tools.
    pub fn toolkit(&self) -> &Toolkit {
        &self.toolkit
    }

    /// What the tools read as `config`, an object.
    pub fn config(&self) -> &Value {
        &self.config
    }
}

impl PartialEq for ToolDocument {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (&self.toolkit, &other.toolkit);
        one.source() == two.source()
            && one.settings() == two.settings()
            && self.config == other.config
            && self.owner == other.owner
    }
}

impl Serialize for ToolDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut stored = json!({ "document": self.toolkit.source(), "config": &*self.config });
        if let (Some(owner), Some(fields)) = (&self.owner, stored.as_object_mut()) {
            fields.insert("owner".to_string(), json!(owner));
        }
        let settings = self.toolkit.settings();
        if *settings != Settings::default() {
            stored["secret_paths"] = json!(settings.secret_paths);
        }
        stored.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ToolDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Stored {
            document: Value,
            #[serde(default)]
            config: Map<String, Value>,
            #[serde(default)]
            owner: Option<ToolOwner>,
            #[serde(default)]
            secret_paths: Option<Vec<Path>>,
        }
        let Stored { document, config, owner, secret_paths } = Stored::deserialize(deserializer)?;
        let settings = secret_paths.map_or_else(Settings::default, |secret_paths| Settings { secret_paths });
        let compiled = compile_with(&document, &settings);
        let problem = compiled.problems.first().map(ToString::to_string).unwrap_or_default();
        let toolkit = compiled.toolkit.ok_or_else(|| de::Error::custom(problem))?;
        Ok(Self { owner, ..Self::new(toolkit, config) })
    }
}

/// Documents by the name of their toolkit.
pub type ToolDocuments = BTreeMap<String, ToolDocument>;
