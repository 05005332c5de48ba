//! Tool servers of every kind behind one face: modules, child processes, addresses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dalsegno_core::{ToolInput, ToolName, ToolReturn, Violation};
use dalsegno_mcp::{
    Answer, Command, Endpoint, Grant, Input, InputRequired, Limits, OAuth, Reach, TaskOwner, Values,
};
use dalsegno_net::{Client, Egress, Origin};
use dalsegno_sandbox::{CallContext, CallError, ToolDescription, ToolOutput};
use dalsegno_secrets::Secret;
use dalsegno_workspace::{EnvValue, RemoteBinding, SecretRef, ServerBinding};
use serde_json::{Map, Value, json};

use crate::access;
use crate::clock::{Clock, SystemClock};
use crate::error::OpenError;
use crate::hidden::Hidden;
use crate::secret_source::{SecretSource, of_tenant};

/// A server that can be asked. Cheap to clone.
#[derive(Clone)]
pub(crate) enum ToolServer {
    /// A WebAssembly module.
    Module(dalsegno_sandbox::ToolServer),
    /// A child process, or a server behind an address.
    Remote(dalsegno_mcp::Server),
}

/// How a call ended.
pub(crate) enum Answered {
    /// With a result.
    Done(dalsegno_sandbox::Answer),
    /// With questions, and nothing was done.
    Asks(InputRequired),
}

/// Calls for one tenant, or for one run of it.
pub(crate) enum Session {
    Module(dalsegno_sandbox::Session),
    Remote(dalsegno_mcp::Session),
}

/// What a call has to do with a task of its server. An instance of a module is thrown away at any time, and its tasks
/// with it: modules are not told that tasks are taken.
#[derive(Default)]
pub(crate) struct Following {
    /// The task that the call goes on with; without one the tool is called.
    pub(crate) task: Option<String>,
    /// Who is told of a task.
    pub(crate) owner: Option<Arc<dyn TaskOwner>>,
}

impl ToolServer {
    /// How the server is asked for access, where it wants OAuth.
    pub(crate) fn oauth(&self) -> Option<&OAuth> {
        match self {
            Self::Module(_) => None,
            Self::Remote(server) => server.oauth(),
        }
    }

    /// The module, where the server is one.
    pub(crate) fn module(&self) -> Option<&dalsegno_sandbox::ToolServer> {
        match self {
            Self::Module(server) => Some(server),
            Self::Remote(_) => None,
        }
    }

    /// What the server offers, narrowed to what its configuration offers.
    pub(crate) async fn catalogue(&self, tenant: &str) -> Result<Vec<ToolDescription>, CallError> {
        match self {
            Self::Module(server) => server.catalogue().await,
            Self::Remote(server) => server.catalogue(tenant).await.map_err(call_error),
        }
    }

    /// What tells one version of the server from another. Nobody sees the code of one that is no module, so for these it
    /// is what they offer.
    pub(crate) async fn digest(&self, tenant: &str) -> Result<String, CallError> {
        match self {
            Self::Module(server) => Ok(server.digest().to_string()),
            Self::Remote(server) => {
                let mut tools = server.catalogue(tenant).await.map_err(call_error)?;
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
    pub(crate) fn open(&self, tenant: &str, free: bool) -> Session {
        match self {
            // No tenant's name holds a line break.
            Self::Module(server) if !free => Session::Module(server.open(&format!("{tenant}\nbound"))),
            Self::Module(server) => Session::Module(server.open(tenant)),
            Self::Remote(server) => Session::Remote(server.session(tenant)),
        }
    }
}

impl Session {
    /// Calls a tool, with the answers to what its server asked before; or goes on with the task of such a call.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        input: Option<ToolInput>,
        call: CallContext,
        following: Following,
    ) -> Result<Answered, CallError> {
        match self {
            Self::Module(session) => session.call(tool, arguments, call).await.map(Answered::Done),
            Self::Remote(session) => {
                let mut context = dalsegno_mcp::CallContext::new(call.operation, call.timeout);
                if let Some(input) = input {
                    context.input = Input { answers: input.responses, request_state: input.request_state };
                }
                (context.caller, context.traceparent) = (call.caller, call.traceparent);
                (context.task, context.owner) = (following.task, following.owner);
                match session.call(tool, arguments, context).await.map_err(call_error)? {
                    Answer::Done(output) => {
                        Ok(Answered::Done(dalsegno_sandbox::Answer { output, denials: Vec::new() }))
                    }
                    Answer::InputRequired(input) => Ok(Answered::Asks(input)),
                }
            }
        }
    }

    /// The longest that a call of this patience may take here, once it is begun.
    pub(crate) fn longest(&self, patience: Duration) -> Duration {
        match self {
            Self::Module(_) => patience,
            Self::Remote(session) => session.limits().total_timeout.max(patience),
        }
    }

    /// The secret that a person must give before the server can be used, where one is missing.
    pub(crate) async fn missing(&self, server: &str) -> Option<String> {
        let Self::Remote(session) = self else { return None };
        let oauth = session.oauth().filter(|oauth| oauth.grant() == Grant::Consent)?;
        let is_given = oauth.is_given().await.unwrap_or(true);
        (!is_given).then(|| access::secret_name(server))
    }

    /// Ends a session of a run. A connection stays for the next run.
    pub(crate) async fn close(self) {
        match self {
            Self::Module(session) => session.close().await,
            Self::Remote(_) => {}
        }
    }
}

/// What a tool answered, as it is recorded. A result that breaks what the tool promised is marked, and kept.
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
    revealed: &Revealed,
) -> Result<ToolServer, OpenError> {
    let reach = match remote {
        RemoteBinding::Command(command) => {
            let environment = command.env.iter().map(|(name, value)| (name.clone(), value.clone()));
            Reach::Stdio(Command {
                program: command.program.clone(),
                arguments: command.arguments.clone(),
                environment: revealed.values(environment),
                directory: Some(command.directory.clone()),
            })
        }
        RemoteBinding::Endpoint(endpoint) => {
            let refused = |message: String| OpenError::Grant { server: name.to_owned(), message };
            let url: dalsegno_net::Url =
                endpoint.url.parse().map_err(|_| refused(format!("`{}` is not an address", endpoint.url)))?;
            let origin = Origin::of(&url).map_err(|error| refused(error.to_string()))?;
            let headers = endpoint.headers.iter();
            let headers = headers.map(|(name, value)| (name.clone(), EnvValue::Secret(value.clone())));
            let oauth = match &endpoint.oauth {
                Some(oauth) => Some(access::access(name, &url, &origin, oauth, revealed).map_err(refused)?),
                None => None,
            };
            // The server may be reached, and nobody whom it points to.
            let client = Client::new(Egress::new([origin]));
            Reach::Http(Endpoint { url, headers: revealed.values(headers), client, oauth })
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

/// Reads secrets whenever they are needed, and has them scrubbed from then on.
pub(crate) struct Revealed {
    pub(crate) source: Arc<SecretSource>,
    pub(crate) hidden: Arc<Hidden>,
}

impl Revealed {
    pub(crate) fn new(source: Arc<SecretSource>, hidden: Arc<Hidden>) -> Self {
        Self { source, hidden }
    }

    /// Values by name that are read whenever they are needed.
    pub(crate) fn values(&self, values: impl Iterator<Item = (String, EnvValue)>) -> Arc<dyn Values> {
        let (source, hidden) = (Arc::clone(&self.source), Arc::clone(&self.hidden));
        Arc::new(Named { values: values.collect(), source, hidden })
    }
}

/// Values by name, some of them secrets.
struct Named {
    values: BTreeMap<String, EnvValue>,
    source: Arc<SecretSource>,
    hidden: Arc<Hidden>,
}

#[async_trait]
impl Values for Named {
    async fn values(&self) -> Result<BTreeMap<String, String>, String> {
        let mut values = BTreeMap::new();
        for (name, value) in &self.values {
            let value = match value {
                EnvValue::Text(text) => text.clone(),
                EnvValue::Secret(reference) => {
                    let secret = self.source.read(reference, SystemClock.now()).await;
                    let secret = secret.map_err(|error| format!("`{name}` cannot be read: {error}"))?;
                    // Without the space around it, so that it is known wherever it comes back.
                    let secret = Secret::new(secret.expose().trim());
                    let value = secret.expose().to_owned();
                    if let Some(place) = place(reference) {
                        self.hidden.hide(&place, secret);
                    }
                    value
                }
            };
            values.insert(name.clone(), value);
        }
        Ok(values)
    }
}

/// Under what name a secret is scrubbed; none for the search path, which is in every other message.
pub(crate) fn place(reference: &SecretRef) -> Option<String> {
    // No name in the secret store holds a colon.
    match reference {
        SecretRef::Env(name) if name == "PATH" || name == "HOME" => None,
        SecretRef::Env(name) => Some(format!("env:{name}")),
        SecretRef::File(path) | SecretRef::Below { path, .. } => Some(format!("file:{}", path.display())),
        SecretRef::Store(name) => Some(name.clone()),
        SecretRef::OfTenant { tenant, name } => Some(of_tenant(tenant, name)),
    }
}

/// The error of the sandbox for what went wrong: the engine reacts to both alike.
fn call_error(error: dalsegno_mcp::CallError) -> CallError {
    let dalsegno_mcp::CallError { kind, received, server, message, stderr } = error;
    CallError { kind, received, server, message, stderr, denials: Vec::new() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn output(structured: Option<Value>, is_error: bool) -> ToolOutput {
        ToolOutput { structured, text: "said".to_owned(), is_error, content: Vec::new() }
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
