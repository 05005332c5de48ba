//! The tool servers of a workspace: what they may do, and how they are.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use dalsegno_models::Schema;
use dalsegno_protocol::{ServerStats, ToolDescription};
use dalsegno_workspace::{Lifetime, RemoteBinding, ServerBinding};
use serde_json::Value;

use crate::engine::Engine;
use crate::error::{EngineError, OpenError};
use crate::names::DEFAULT_TENANT;

/// A tool server of the workspace.
#[derive(Debug)]
pub struct ServerInfo {
    /// Its name in dalsegno.toml.
    pub name: String,
    /// What it is: a module, a program or an address.
    pub reach: ServerReach,
    /// What it may do, each in words that go on after "it may".
    pub grants: Vec<String>,
    /// Whether its digest is pinned in dalsegno.toml.
    pub pinned: bool,
    /// How it is, or why it cannot be used.
    pub health: Result<ServerHealth, EngineError>,
}

/// What a tool server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerReach {
    /// A WebAssembly module, in the sandbox.
    Module {
        /// The file.
        path: PathBuf,
        /// How long an instance lives.
        lifetime: Lifetime,
    },
    /// A program, as a child process without a sandbox.
    Program {
        /// The program.
        program: PathBuf,
        /// Its arguments.
        args: Vec<String>,
    },
    /// A server behind an address.
    Address(String),
}

/// How a tool server is.
#[derive(Debug, Clone)]
pub struct ServerHealth {
    /// The SHA-256 digest of its module, as `digest` in dalsegno.toml takes it; of what it offers where it is no module.
    pub digest: String,
    /// Whether the compiled module came from the cache.
    pub from_cache: bool,
    /// How long it took to have the module ready; next to nothing if it was.
    pub load: Duration,
    /// How long it took to start an instance and to list its tools.
    pub start: Duration,
    /// Its tools, as far as dalsegno.toml offers them.
    pub tools: Vec<ToolHealth>,
    /// What it did in this process, and what it was refused; of modules only.
    pub stats: Option<ServerStats>,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolHealth {
    /// Its name at the server.
    pub name: String,
    /// What is wrong with its schemas; nothing if they can be used.
    pub problems: Vec<String>,
}

impl Engine {
    /// Opens every tool server, starts an instance of each, and lists its tools. One that fails hides no other.
    pub async fn servers(&self) -> Vec<ServerInfo> {
        let mut servers = Vec::new();
        for (name, binding) in &self.workspace().settings.servers {
            servers.push(self.server_info(name, binding).await);
        }
        servers
    }

    /// The same for one server.
    ///
    /// # Errors
    /// When dalsegno.toml does not have it.
    pub async fn server(&self, name: &str) -> Result<ServerInfo, OpenError> {
        let servers = &self.workspace().settings.servers;
        let binding = servers.get(name).ok_or_else(|| OpenError::UnknownServer {
            server: name.to_owned(),
            known: servers.keys().cloned().collect(),
        })?;
        Ok(self.server_info(name, binding).await)
    }

    async fn server_info(&self, name: &str, binding: &ServerBinding) -> ServerInfo {
        ServerInfo {
            name: name.to_owned(),
            reach: match &binding.remote {
                None => ServerReach::Module { path: binding.module.clone(), lifetime: binding.lifetime },
                Some(RemoteBinding::Command(command)) => {
                    ServerReach::Program { program: command.program.clone(), args: command.arguments.clone() }
                }
                Some(RemoteBinding::Endpoint(endpoint)) => ServerReach::Address(endpoint.url.clone()),
            },
            grants: binding.grants(),
            pinned: binding.digest.is_some(),
            health: self.health(name, binding).await,
        }
    }

    async fn health(&self, name: &str, binding: &ServerBinding) -> Result<ServerHealth, EngineError> {
        let begin = Instant::now();
        let server = self.bindings().server(name).await?;
        let load = begin.elapsed();
        let begin = Instant::now();
        let tools = server.catalogue(DEFAULT_TENANT).await?;
        let start = begin.elapsed();
        let missing =
            binding.tools.iter().flatten().filter(|name| !tools.iter().any(|tool| tool.name == **name));
        let missing = missing.map(|name| ToolHealth {
            name: name.clone(),
            problems: vec!["`tools` in dalsegno.toml names it, and the server does not offer it".to_owned()],
        });
        Ok(ServerHealth {
            digest: server.digest(DEFAULT_TENANT).await?,
            from_cache: server.is_cached(),
            load,
            start,
            tools: tools.iter().map(tool_health).chain(missing).collect(),
            stats: server.stats(),
        })
    }
}

fn tool_health(tool: &ToolDescription) -> ToolHealth {
    let mut problems = Vec::new();
    let mut check = |what: &str, schema: &Value| {
        if let Err(error) = Schema::compile(schema) {
            problems.push(format!("its {what} schema cannot be used: {error}"));
        }
    };
    check("input", &tool.input_schema);
    if let Some(schema) = &tool.output_schema {
        check("output", schema);
    }
    if tool.description.as_deref().is_none_or(|text| text.trim().is_empty()) {
        problems.push("it has no description, by which a model could choose it".to_owned());
    }
    ToolHealth { name: tool.name.clone(), problems }
}
