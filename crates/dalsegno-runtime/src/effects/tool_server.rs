//! Tool servers of every kind behind one face: modules, child processes, addresses.

use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{ToolName, ToolReturn, Violation};
use dalsegno_mcp::{Command, Endpoint, Limits, Reach};
use dalsegno_net::{Client, Egress, Origin};
use dalsegno_protocol::{Answer, CallContext, CallError, ServerStats, ToolDescription, ToolOutput};
use dalsegno_secrets::MaybeSecret;
use dalsegno_workspace::{RemoteBinding, ServerBinding};
use serde_json::{Map, Value, json};

use crate::effects::access;
use crate::error::OpenError;
use crate::vault::Vault;

/// A server that can be asked. Cheap to clone.
#[derive(Clone)]
pub(crate) enum ToolServer {
    /// A WebAssembly module.
    #[cfg(feature = "wasm")]
    Module(dalsegno_sandbox::ToolServer),
    /// A child process, or a server behind an address.
    Remote(dalsegno_mcp::Server),
}

/// Calls for one tenant, or for one run of it.
pub(crate) enum ServerSession {
    #[cfg(feature = "wasm")]
    Module(dalsegno_sandbox::ServerSession),
    Remote(dalsegno_mcp::ServerSession),
}

impl ToolServer {
    /// How the server is asked for access, where it wants OAuth.
    #[cfg(feature = "oauth")]
    pub(crate) fn oauth(&self) -> Option<&dalsegno_mcp::OAuth> {
        match self {
            #[cfg(feature = "wasm")]
            Self::Module(_) => None,
            Self::Remote(server) => server.oauth(),
        }
    }

    /// What it did in this process, where it is a module.
    pub(crate) fn stats(&self) -> Option<ServerStats> {
        match self {
            #[cfg(feature = "wasm")]
            Self::Module(server) => Some(server.stats()),
            Self::Remote(_) => None,
        }
    }

    /// Whether its compiled code came from the cache.
    pub(crate) fn is_cached(&self) -> bool {
        match self {
            #[cfg(feature = "wasm")]
            Self::Module(server) => server.from_cache(),
            Self::Remote(_) => false,
        }
    }

    /// What the server offers, narrowed to what its configuration offers.
    pub(crate) async fn catalogue(&self, tenant: &str) -> Result<Vec<ToolDescription>, CallError> {
        match self {
            #[cfg(feature = "wasm")]
            Self::Module(server) => server.catalogue().await,
            Self::Remote(server) => server.catalogue(tenant).await,
        }
    }

    /// What tells one version of the server from another. Nobody sees the code of one that is no module, so for these it
    /// is what they offer.
    pub(crate) async fn digest(&self, tenant: &str) -> Result<String, CallError> {
        match self {
            #[cfg(feature = "wasm")]
            Self::Module(server) => Ok(server.digest().to_string()),
            Self::Remote(server) => {
                let mut tools = server.catalogue(tenant).await?;
                tools.sort_by(|one, other| one.name.cmp(&other.name));
                let mut hasher = blake3::Hasher::new();
                for tool in &tools {
                    let tool = json!([tool.name, tool.description, tool.input_schema, tool.output_schema]);
                    hasher.update(tool.to_string().as_bytes());
                    hasher.update(b"\n");
                }
                Ok(format!("blake3:{}", hasher.finalize().to_hex()))
            }
        }
    }

    /// Opens a session. Nothing is started before its first call. `free` says that its calls may be given up and repeated;
    /// they share no instance with those that may not.
    #[cfg_attr(not(feature = "wasm"), expect(unused_variables, reason = "one connection serves every call"))]
    pub(crate) fn open(&self, tenant: &str, free: bool) -> ServerSession {
        match self {
            // No tenant's name holds a line break.
            #[cfg(feature = "wasm")]
            Self::Module(server) if !free => ServerSession::Module(server.open(&format!("{tenant}\nbound"))),
            #[cfg(feature = "wasm")]
            Self::Module(server) => ServerSession::Module(server.open(tenant)),
            Self::Remote(server) => ServerSession::Remote(server.session(tenant)),
        }
    }
}

impl ServerSession {
    /// Calls a tool. Each module in the sandbox is thrown away at any time, and its tasks with it: it has no tasks.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        call: CallContext,
    ) -> Result<Answer, CallError> {
        match self {
            #[cfg(feature = "wasm")]
            Self::Module(session) => session.call(tool, arguments, call).await.map(Answer::Done),
            Self::Remote(session) => session.call(tool, arguments, call).await,
        }
    }

    /// The longest that a call of this patience may take here, once it is begun.
    pub(crate) fn longest(&self, patience: Duration) -> Duration {
        match self {
            #[cfg(feature = "wasm")]
            Self::Module(_) => patience,
            Self::Remote(session) => session.limits().total_timeout.max(patience),
        }
    }

    /// The secret that a person must give before the server can be used, where one is missing.
    pub(crate) async fn missing(&self, server: &str) -> Option<String> {
        let oauth = match self {
            #[cfg(feature = "wasm")]
            Self::Module(_) => None,
            Self::Remote(session) => session.oauth(),
        };
        access::missing(oauth?, server).await
    }

    /// Ends a session of a run. A connection stays for the next run.
    pub(crate) async fn close(self) {
        match self {
            #[cfg(feature = "wasm")]
            Self::Module(session) => session.close().await,
            Self::Remote(_) => {}
        }
    }
}

/// What a tool answered, as it is recorded, but for its files. A result that breaks what the tool promised is marked, and
/// kept.
pub(crate) fn returned(tool: &ToolName, schema: Option<&Value>, output: ToolOutput) -> ToolReturn {
    let violations = match (schema.filter(|_| !output.is_error), &output.structured) {
        (Some(schema), Some(structured)) => dalsegno_models::judge_result(schema, structured),
        (Some(_), None) => {
            let message = "the tool promised a structured result and gave none".to_owned();
            vec![Violation { path: String::new(), message }]
        }
        (None, _) => Vec::new(),
    };
    if let Some(first) = violations.first() {
        let (path, message) = (&first.path, &first.message);
        tracing::warn!(%tool, count = violations.len(), path, message, "the result is not what was promised");
    }
    let text = if output.structured.is_some() { String::new() } else { output.text };
    ToolReturn {
        structured: output.structured,
        text,
        is_error: output.is_error,
        violations,
        ..ToolReturn::default()
    }
}

/// A server that is no module, as dalsegno.toml says.
pub(crate) fn remote(
    name: &str,
    binding: &ServerBinding,
    remote: &RemoteBinding,
    vault: &Arc<Vault>,
) -> Result<ToolServer, OpenError> {
    let reach = match remote {
        RemoteBinding::Command(command) => Reach::Stdio(Command {
            program: command.program.clone(),
            arguments: command.arguments.clone(),
            environment: vault.values(&command.env),
            directory: Some(command.directory.clone()),
        }),
        RemoteBinding::Endpoint(endpoint) => {
            let refused = |message: String| OpenError::Grant { server: name.to_owned(), message };
            let url: dalsegno_net::Url =
                endpoint.url.parse().map_err(|_| refused(format!("`{}` is not an address", endpoint.url)))?;
            let origin = Origin::of(&url).map_err(|error| refused(error.to_string()))?;
            let headers = endpoint.headers.iter();
            let headers =
                headers.map(|(name, value)| (name.clone(), MaybeSecret::Secret(vault.handle(value))));
            let oauth = match &endpoint.oauth {
                Some(oauth) => Some(access::access(name, &url, &origin, oauth, vault).map_err(refused)?),
                None => None,
            };
            // The server may be reached, and nobody whom it points to.
            let client = Client::new(Egress::new([origin]));
            Reach::Http(Endpoint { url, headers: headers.collect(), client, oauth })
        }
    };
    let (limits, defaults) = (&binding.limits, Limits::default());
    let bytes = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    Ok(ToolServer::Remote(dalsegno_mcp::Server::new(dalsegno_mcp::ServerConfig {
        name: name.to_owned(),
        reach,
        tools: binding.tools.clone(),
        limits: Limits {
            call_timeout: limits.call_timeout,
            total_timeout: limits.total_timeout,
            output: bytes(limits.output),
            stderr: bytes(limits.stderr),
            concurrency: limits.concurrency.unwrap_or(defaults.concurrency),
            // Less than the engine allows for it, so that the server itself says that nothing was sent.
            start_timeout: START_TIMEOUT,
        },
        answers: None,
        asks: true,
    })))
}

/// The longest that a start may take in the middle of a run.
const START_TIMEOUT: Duration = Duration::from_secs(25);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn output(structured: Option<Value>, is_error: bool) -> ToolOutput {
        ToolOutput { structured, text: "said".to_owned(), is_error, ..ToolOutput::default() }
    }

    #[test]
    fn a_result_that_breaks_what_was_promised_is_marked_and_kept() {
        let tool: ToolName = "crm.look".parse().unwrap();
        let schema = json!({ "type": "object", "required": ["count"], "properties": { "count": { "type": "integer" } } });
        let judged = |structured, is_error| returned(&tool, Some(&schema), output(structured, is_error));

        let good = judged(Some(json!({ "count": 3 })), false);
        assert!(good.violations.is_empty() && good.text.is_empty());

        let broken = judged(Some(json!({ "count": "three" })), false);
        assert_eq!(broken.structured, Some(json!({ "count": "three" })));
        let paths: Vec<&str> = broken.violations.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths.len(), 1, "{paths:?}");
        assert!(paths[0].contains("count"), "{paths:?}");

        let absent = judged(None, false);
        assert_eq!((absent.violations.len(), absent.text.as_str()), (1, "said"));
        assert!(judged(None, true).violations.is_empty(), "a failure promises nothing");
        assert!(returned(&tool, None, output(None, false)).violations.is_empty());
    }
}
