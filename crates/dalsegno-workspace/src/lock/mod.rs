//! `dalsegno.lock`: what the tool servers offered when somebody last looked, and the short names by which models see the
//! actions of toolkits.
//!
//! It stands beside `dalsegno.toml` under version control, so that a tool which changes its meaning is seen in a review,
//! and so that `dalsegno check` needs no running server. It does not pin the servers themselves: those are built locally.

mod diff;
mod keys;
mod names;
mod read;
mod write;

use std::collections::BTreeMap;

use dalsegno_core::{Digest, EffectClass, JsonSchema, ModelName, ToolKind, ToolName, digest_json};
use serde_json::{Value, json};

pub use self::diff::{LockChange, LockChangeKind};
pub(crate) use self::keys::FILE;
pub(crate) use self::read::FILE_BYTES_MAX;
pub use self::read::LockRead;
use crate::catalogue::{Catalogue, CatalogueTool};
use crate::settings::{ServerBinding, Settings};

/// The catalogues of tool servers and the names of toolkits' actions, as they were pinned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lock {
    /// The servers by name, those without tools included.
    pub servers: BTreeMap<String, LockedServer>,
    /// The names by which models see actions of toolkits, by the tools' own names.
    pub names: BTreeMap<ToolName, ModelName>,
}

/// The catalogue of one server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LockedServer {
    /// Its tools by their own names, without that of the server.
    pub tools: BTreeMap<String, LockedTool>,
}

/// One tool, as its server described it.
#[derive(Debug, Clone, PartialEq)]
pub struct LockedTool {
    /// What it does, for a model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: JsonSchema,
    /// JSON Schema of the structured result.
    pub output_schema: Option<Value>,
    /// The server says that it changes nothing.
    pub read_only: Option<bool>,
    /// The server says that twice is the same as once.
    pub idempotent: Option<bool>,
    /// The server says that it may destroy something.
    pub destructive: Option<bool>,
    /// It is no tool of the server's own: by it the engine reads the server's resources or prompts.
    pub builtin: bool,
}

impl Lock {
    /// The name of the file, beside `dalsegno.toml`.
    pub const FILE: &str = "dalsegno.lock";

    /// Pins what these servers offer. `catalogue` may hold other tools, too.
    pub fn from_catalogue<'s>(catalogue: &Catalogue, servers: impl IntoIterator<Item = &'s str>) -> Self {
        let mut locked: BTreeMap<String, LockedServer> =
            servers.into_iter().map(|server| (server.to_owned(), LockedServer::default())).collect();
        for (name, tool) in catalogue.iter().filter(|(_, tool)| tool.kind == ToolKind::External) {
            // A server's name holds no `.`, a tool's own may.
            let Some((server, own)) = name.as_str().split_once('.') else { continue };
            if let Some(server) = locked.get_mut(server) {
                server.tools.insert(own.to_owned(), LockedTool::from(tool));
            }
        }
        Self { servers: locked, names: BTreeMap::new() }
    }

    /// The pinned tools of the servers that `settings` has and offers.
    pub fn catalogue(&self, settings: &Settings) -> Catalogue {
        let mut catalogue = Catalogue::new();
        for (server, binding) in &settings.servers {
            let Some(locked) = self.servers.get(server) else { continue };
            catalogue.extend(locked.catalogue(server, binding));
        }
        catalogue
    }
}

impl LockedServer {
    /// The pinned tools under their names for agents, narrowed to what the server's section offers.
    pub(crate) fn catalogue(&self, server: &str, binding: &ServerBinding) -> Catalogue {
        let mut catalogue = Catalogue::new();
        for (own, tool) in &self.tools {
            let is_offered = binding.tools.as_ref().is_none_or(|offered| offered.contains(own));
            let name = format!("{server}.{own}").parse::<ToolName>();
            if let (true, Ok(name)) = (is_offered, name) {
                catalogue.insert(name, tool.offered(binding.trust_annotations));
            }
        }
        catalogue
    }

    /// The digest of the catalogue, the same for every order of the tools. The order of the keys of their arguments counts,
    /// since a model is told it.
    pub fn digest(&self) -> Digest {
        let tools: BTreeMap<_, _> = self.tools.iter().map(|(name, tool)| (name, tool.json())).collect();
        digest_json(&json!(tools))
    }
}

impl LockedTool {
    fn json(&self) -> Value {
        let mut json = json!({
            "description": self.description,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "read_only": self.read_only,
            "idempotent": self.idempotent,
            "destructive": self.destructive,
        });
        // Catalogues without such tools keep the digest that they had.
        if self.builtin {
            json["builtin"] = Value::Bool(true);
        }
        json
    }

    fn offered(&self, trusted: bool) -> CatalogueTool {
        CatalogueTool {
            output_schema: self.output_schema.clone(),
            read_only: self.read_only,
            idempotent: self.idempotent,
            destructive: self.destructive,
            declared: self.builtin.then_some(EffectClass::Read),
            trusted,
            ..CatalogueTool::new(self.description.clone(), self.input_schema.clone())
        }
    }
}

impl From<&CatalogueTool> for LockedTool {
    fn from(tool: &CatalogueTool) -> Self {
        Self {
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
            output_schema: tool.output_schema.clone(),
            read_only: tool.read_only,
            idempotent: tool.idempotent,
            destructive: tool.destructive,
            builtin: tool.declared == Some(EffectClass::Read),
        }
    }
}

/// The version of the file's form.
const VERSION: u64 = 1;
