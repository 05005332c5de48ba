//! The documents of declarative tools that an agent may use.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use segno_tools::{Toolkit, compile};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, json};

/// A document of declarative tools, with its configuration for this agent and tenant. What is stored is the document as it
/// was written; it is compiled when it is read.
#[derive(Debug, Clone)]
pub struct ToolDocument {
    source: Arc<Value>,
    config: Arc<Value>,
    toolkit: Arc<Toolkit>,
}

impl ToolDocument {
    /// Compiles a document; `config` is laid over the defaults that it declares.
    ///
    /// # Errors
    /// The first problem of the document, in words.
    pub fn new(source: Value, config: Value) -> Result<Self, String> {
        let compiled = compile(&source);
        if let Some(problem) = compiled.problems.first() {
            return Err(problem.to_string());
        }
        let toolkit = compiled.toolkit.ok_or_else(|| "the document holds no tool".to_string())?;
        Ok(Self { source: source.into(), config: config.into(), toolkit: toolkit.into() })
    }

    /// The document as it was written.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// What its tools read as `config`, an object.
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// The tools.
    pub fn toolkit(&self) -> &Toolkit {
        &self.toolkit
    }
}

impl PartialEq for ToolDocument {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.config == other.config
    }
}

impl Serialize for ToolDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({ "document": &*self.source, "config": &*self.config }).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ToolDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Stored {
            document: Value,
            #[serde(default)]
            config: Value,
        }
        let Stored { document, config } = Stored::deserialize(deserializer)?;
        Self::new(document, config).map_err(de::Error::custom)
    }
}

/// Documents by the name of their toolkit.
pub type ToolDocuments = BTreeMap<String, ToolDocument>;
