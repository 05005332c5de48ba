//! The documents of declarative tools that an agent may use.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use dalsegno_tools::{Toolkit, compile};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value, json};

/// A document of declarative tools, with its configuration for this agent and tenant. What is stored is the document as it
/// was written; it is compiled when it is read.
#[derive(Debug, Clone)]
pub struct ToolDocument {
    toolkit: Toolkit,
    config: Arc<Value>,
}

impl ToolDocument {
    /// A document that was compiled, with what its tools read as `config`.
    pub fn new(toolkit: Toolkit, config: Map<String, Value>) -> Self {
        Self { toolkit, config: Arc::new(config.into()) }
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
        self.toolkit.source() == other.toolkit.source() && self.config == other.config
    }
}

impl Serialize for ToolDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({ "document": self.toolkit.source(), "config": &*self.config }).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ToolDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Stored {
            document: Value,
            #[serde(default)]
            config: Map<String, Value>,
        }
        let Stored { document, config } = Stored::deserialize(deserializer)?;
        let compiled = compile(&document);
        let problem = compiled.problems.first().map(ToString::to_string).unwrap_or_default();
        let toolkit = compiled.toolkit.ok_or_else(|| de::Error::custom(problem))?;
        Ok(Self::new(toolkit, config))
    }
}

/// Documents by the name of their toolkit.
pub type ToolDocuments = BTreeMap<String, ToolDocument>;
