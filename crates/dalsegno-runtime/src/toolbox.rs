//! What agents use, without an agent: the tools of a workspace, listed and called outside of any run, and its memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use dalsegno_core::{
    AgentName, AgentRequest, EffectClass, Failure, JsonSchema, MemoryScope, OperationId, Outcome, Received,
    Tool, ToolKind, ToolName, ToolReturn, Toolbox, Validation, Violation,
};
use dalsegno_memory::{Memory, Principal, Scope, ScopeResolver, ScopeSet};
use dalsegno_models::Schemas;
use dalsegno_protocol::Caller;
use dalsegno_workspace::{AgentFile, Catalogue, CatalogueTool, Lock, ServerBinding};
use serde_json::Value;

use crate::effects::tool::{MemoryPlace, ToolCallOptions, user_id};
use crate::engine::Engine;
use crate::error::{EngineError, OpenError};
use crate::names::{DEFAULT_TENANT, WORKSPACE};
use crate::run::errand::{Done, Errand};
use crate::trial::{self, Behalf, TrialOptions};

/// A tool of the workspace: what it is, and who may use it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInfo {
    /// Its name, as agents' files write it.
    pub name: ToolName,
    /// The name by which models see it.
    pub model_name: String,
    /// What it does, for a model.
    pub description: String,
    /// Who performs it.
    pub offered_by: OfferedBy,
    /// JSON Schema of the arguments; an object.
    pub input_schema: JsonSchema,
    /// JSON Schema of the structured result, if there is one.
    pub output_schema: Option<Value>,
    /// What may repeat, unless an agent's own setting says otherwise.
    pub class: EffectClass,
    /// Why that class.
    pub class_from: ClassFrom,
    /// What the server that performs it may do, each in words that go on after "it may"; nothing for everybody else.
    pub grants: Vec<String>,
    /// What a declarative tool repeats although it may have taken place, by the word of its document, each in words.
    pub repeats: Vec<String>,
    /// JSON Schema of the configuration that the document of a declarative tool reads, if it reads one.
    pub config_schema: Option<Value>,
    /// The agents that may use it, in the order of their names.
    pub users: Vec<ToolUser>,
}

/// Who performs a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfferedBy {
    /// The engine itself.
    Engine,
    /// The program that the engine is part of.
    Process,
    /// An agent of the workspace: a call is a run of it.
    Agent(AgentName),
    /// A tool server of dalsegno.toml.
    Server(String),
    /// A document of the workspace, `tools/*.json`, by its name: the core performs it.
    Document(String),
}

/// Why a tool has its effect class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassFrom {
    /// Whoever wrote the tool said it in code.
    Declared,
    /// Its server said so, and dalsegno.toml trusts the server's annotations.
    Annotations,
    /// Its server says nothing about it, so that the most careful class holds.
    Unsaid,
    /// Its server says something, and dalsegno.toml does not trust it.
    Untrusted,
    /// Its server contradicts itself.
    Contradiction,
}

/// An agent that may use a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUser {
    /// The agent.
    pub agent: AgentName,
    /// What may repeat when this agent calls it.
    pub class: EffectClass,
    /// Whether a person must agree first.
    pub approve: bool,
}

/// The tools that exist, as far as they could be learned.
#[derive(Debug)]
pub struct ToolListing {
    /// The tools, in the order of their names.
    pub tools: Vec<ToolInfo>,
    /// The servers that did not say what they offer, and why.
    pub unreachable: Vec<(String, EngineError)>,
}

/// Why a tool was not listed or called.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolboxError {
    /// The tool does not exist.
    #[error("the tool `{name}` does not exist")]
    UnknownTool {
        /// The name.
        name: ToolName,
        /// The names that there are, as far as they are known without starting every server.
        known: Vec<String>,
        /// The tenants that have a declarative tool of this name.
        tenants: Vec<String>,
    },
    /// The arguments do not fit the tool's schema; nothing was called.
    #[error("the arguments do not fit the schema of `{tool}`")]
    Arguments {
        /// The tool.
        tool: ToolName,
        /// Each place that does not fit.
        violations: Vec<Violation>,
    },
    /// The tool is an agent: to call it is a run.
    #[error("`{tool}` is an agent, not a tool: start it with `dalsegno run {agent}`")]
    IsAgent {
        /// The tool.
        tool: ToolName,
        /// The agent.
        agent: AgentName,
    },
    /// There was no answer.
    #[error("`{tool}` did not answer: {message}")]
    NoAnswer {
        /// The tool.
        tool: ToolName,
        /// What happened.
        message: String,
        /// Whether it may have acted.
        received: Received,
    },
    /// Something that the call needs could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The tool's server did not say what it offers, or the memory's place is not one.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ToolInfo {
    /// Says whether a call must have this argument, by the tool's schema.
    pub(crate) fn requires(&self, argument: &str) -> bool {
        let required = self.input_schema["required"].as_array();
        required.is_some_and(|names| names.iter().any(|name| name == argument))
    }

    /// Checks arguments against the tool's schema; text that stands for a number or the like is taken as one.
    ///
    /// # Errors
    /// All places that do not fit.
    pub fn check_arguments(&self, arguments: Value) -> Result<Value, ToolboxError> {
        let tool = Tool::new(self.description.clone(), self.input_schema.clone());
        let tools = BTreeMap::from([(self.name.clone(), tool)]);
        let toolbox = Toolbox { tools, ..Toolbox::default() };
        let problem = |message: String| vec![Violation { path: String::new(), message }];
        let violations = match Schemas::compile(&toolbox).judge_arguments(&self.name, arguments) {
            Validation::Valid { arguments } => return Ok(arguments),
            Validation::Invalid { violations } => violations,
            Validation::Malformed { message } => problem(message),
            Validation::Truncated => problem("is incomplete".to_owned()),
        };
        Err(ToolboxError::Arguments { tool: self.name.clone(), violations })
    }
}

impl Engine {
    /// Asks every tool server what it offers, to be pinned; the servers that did not say are named, with the reason, and
    /// keep what `before` has of them. Names by which models see actions of toolkits stay as `before` has them, and
    /// those that have become possible are added.
    pub async fn pin(&self, before: &Lock) -> (Lock, Vec<(String, EngineError)>) {
        let mut lock = Lock::default();
        let mut unreachable = Vec::new();
        for server in self.workspace().settings.servers.keys() {
            match self.bindings().catalogue([server.clone()]).await {
                Ok(offered) => lock.servers.extend(Lock::from_catalogue(&offered, [server.as_str()]).servers),
                Err(error) => {
                    let pinned = before.servers.get(server).map(|pinned| (server.clone(), pinned.clone()));
                    lock.servers.extend(pinned);
                    unreachable.push((server.clone(), error));
                }
            }
        }
        match self.bindings().catalogue([]).await {
            Ok(own) => lock.names = self.workspace().pin_names(&lock, &own, &before.names),
            Err(error) => unreachable.push(("dalsegno".to_owned(), error)),
        }
        (lock, unreachable)
    }

    /// Lists every tool that exists for a tenant: it opens all tool servers. A server that fails hides no other.
    ///
    /// # Errors
    /// When there is no such tenant.
    pub async fn tools(&self, tenant: &str) -> Result<ToolListing, EngineError> {
        self.workspace().check_tenant(tenant)?;
        let mut listing = ToolListing { tools: Vec::new(), unreachable: Vec::new() };
        let mut catalogue = Catalogue::new();
        match self.bindings().catalogue([]).await {
            Ok(own) => catalogue.extend(own),
            Err(error) => listing.unreachable.push(("dalsegno".to_owned(), error)),
        }
        catalogue.extend(self.workspace().declared_tools(tenant));
        for server in self.workspace().settings.servers.keys() {
            match self.bindings().catalogue([server.clone()]).await {
                Ok(offered) => catalogue.extend(offered),
                Err(error) => listing.unreachable.push((server.clone(), error)),
            }
        }
        let mut tools: BTreeMap<ToolName, ToolInfo> = BTreeMap::new();
        for file in self.workspace().agents.values() {
            // An agent whose tools are not all there is what `check` tells about.
            let Ok(config) = file.resolve(&catalogue) else { continue };
            for (name, tool) in config.tools.tools.into_iter().filter(|(_, tool)| is_agent(&tool.kind)) {
                let info = self.agent_info(name.clone(), tool);
                tools.entry(name).or_insert(info);
            }
        }
        tools.extend(catalogue.into_iter().map(|(name, tool)| (name.clone(), self.info(name, tool))));
        listing.tools = tools.into_values().collect();
        Ok(listing)
    }

    /// Describes one tool as a tenant has it; opens no server but its own.
    ///
    /// # Errors
    /// When there is no such tenant or no such tool, or when its server cannot be opened.
    pub async fn tool(&self, name: &ToolName, tenant: &str) -> Result<ToolInfo, ToolboxError> {
        self.workspace().check_tenant(tenant).map_err(EngineError::from)?;
        let server = self.server_of(name);
        let mut catalogue = self.bindings().catalogue(server.clone()).await?;
        catalogue.extend(self.workspace().declared_tools(tenant));
        if let Some(tool) = catalogue.remove(name) {
            return Ok(self.info(name.clone(), tool));
        }
        match self.agent_tool(name, tenant).await? {
            Some(tool) => Ok(self.agent_info(name.clone(), tool)),
            None => {
                let mut known: Vec<String> = catalogue.keys().map(ToString::to_string).collect();
                if let Some(server) = server {
                    // Whoever names a server means a tool of that server.
                    let prefix = format!("{server}.");
                    known.retain(|name| name.starts_with(&prefix));
                }
                let workspace = self.workspace();
                let has = |tenant: &&String| workspace.declared_tools(tenant).contains_key(name);
                let tenants = workspace.tenants.keys().filter(has).cloned().collect();
                Err(ToolboxError::UnknownTool { name: name.clone(), known, tenants })
            }
        }
    }

    /// Calls a tool once, outside of any run, by the rules of runs: attempts are repeated as the tool's class allows.
    /// Nothing is journaled. A tool that reports its own failure has answered.
    ///
    /// # Errors
    /// When there is no such tenant or no such tool, the arguments do not fit its schema, or there is no answer.
    pub async fn call_tool(
        &self,
        name: &ToolName,
        arguments: Value,
        options: &ToolCallOptions,
    ) -> Result<ToolReturn, ToolboxError> {
        let tenant = options.place.tenant.as_deref().unwrap_or(DEFAULT_TENANT);
        let info = self.tool(name, tenant).await?;
        self.know_secrets(tenant, &options.user).await?;
        let arguments = info.check_arguments(arguments)?;
        let answered = Box::pin(self.answer_of(&info, &arguments, tenant, options));
        tokio::time::timeout(options.timeout, answered).await.unwrap_or_else(|_| {
            Err(ToolboxError::NoAnswer {
                tool: name.clone(),
                message: format!("it took longer than {} s", options.timeout.as_secs_f64()),
                received: Received::Possibly,
            })
        })
    }

    async fn answer_of(
        &self,
        info: &ToolInfo,
        arguments: &Value,
        tenant: &str,
        options: &ToolCallOptions,
    ) -> Result<ToolReturn, ToolboxError> {
        let name = &info.name;
        match &info.offered_by {
            OfferedBy::Document(toolkit) => {
                let returned = self.returned_by(toolkit, name, arguments, tenant, options).await?;
                let mut outcome = Outcome::ToolReturned(returned).bounded();
                self.bindings().secrets().scrub(&mut outcome);
                return outcome
                    .into_tool_return()
                    .map_err(|failure| no_answer(name, failure, Received::Possibly));
            }
            // What keeps it from being opened is not the tool's answer.
            OfferedBy::Engine => drop(self.memory(&options.place).await?),
            OfferedBy::Process | OfferedBy::Server(_) | OfferedBy::Agent(_) => {}
        }
        let mut errand = self.errand(info, arguments, trial::fresh(), &options.user, &options.place)?;
        if let Some((_, tool)) = &mut errand.tool {
            tool.timeout_ms = u64::try_from(options.timeout.as_millis()).unwrap_or(u64::MAX);
            errand.terms = tool.terms_of(&errand.request);
        }
        let Done { outcome, received } = self.perform_errand(tenant, errand).await;
        outcome.into_tool_return().map_err(|failure| no_answer(name, failure, received))
    }

    /// Calls a tool that is a document of the workspace.
    async fn returned_by(
        &self,
        toolkit: &str,
        name: &ToolName,
        arguments: &Value,
        tenant: &str,
        options: &ToolCallOptions,
    ) -> Result<ToolReturn, ToolboxError> {
        let workspace = self.workspace();
        let file = workspace.toolkits_for(tenant).get(toolkit).copied().ok_or_else(|| unknown(name))?;
        let owner = Some(workspace.owner_of(tenant, file.name()));
        let trial = TrialOptions { tenant: tenant.to_owned(), user: options.user.clone(), owner };
        let behalf = Behalf::of_trial(&file.toolkit, &trial);
        let tried = self.call_document(name.as_str(), arguments, &behalf, trial::fresh()).await;
        Ok(ToolReturn::from(&tried.map_err(|_| unknown(name))?.finished.outcome))
    }

    /// The call of a tool as an errand. Its user says on whose behalf it is, and the place whose memory is meant.
    ///
    /// # Errors
    /// When the tool is an agent, or the place is not one.
    pub(crate) fn errand(
        &self,
        info: &ToolInfo,
        arguments: &Value,
        operation: OperationId,
        user: &Value,
        place: &MemoryPlace,
    ) -> Result<Errand, ToolboxError> {
        let name = &info.name;
        if let OfferedBy::Agent(agent) = &info.offered_by {
            return Err(ToolboxError::IsAgent { tool: name.clone(), agent: agent.clone() });
        }
        let tool = Tool {
            output_schema: info.output_schema.clone(),
            kind: self.kind(name, info),
            class: info.class,
            ..Tool::new(info.description.clone(), info.input_schema.clone())
        };
        let request = tool.request(name, arguments);
        let request = request.map_err(|failure| no_answer(name, failure, Received::No))?;
        let caller = Caller {
            tenant: Some(place.tenant.clone().unwrap_or_else(|| DEFAULT_TENANT.to_owned())),
            user: user_id(user),
            session: place.session.clone(),
            call: None,
        };
        Ok(Errand {
            operation,
            terms: tool.terms_of(&request),
            request,
            asker: None,
            caller,
            tool: Some((name.clone(), tool)),
            reading: None,
            events: None,
            scopes: self.memory_scopes(place)?,
        })
    }

    /// The memory, for callers that read or write it without an agent. The tenant of the place has its seeds from then on; which
    /// scopes the place reads and writes, [`memory_scopes`](Self::memory_scopes) says.
    ///
    /// # Errors
    /// When its file cannot be opened, or a seed file cannot be read.
    pub async fn memory(&self, place: &MemoryPlace) -> Result<Arc<dyn Memory>, OpenError> {
        self.bindings().memory(place.tenant.as_deref().unwrap_or(DEFAULT_TENANT)).await
    }

    /// The scopes that a place reads and writes.
    ///
    /// # Errors
    /// When there is no such agent, a scope lacks its agent or session, or a part is not a name.
    pub fn memory_scopes(&self, place: &MemoryPlace) -> Result<ScopeSet, EngineError> {
        let principal = |message: String| EngineError::Principal { message };
        let scope = match (place.scope, &place.agent) {
            (Some(scope), _) => scope,
            (None, None) => Scope::Workspace,
            (None, Some(name)) => match self.agent(name)?.memory_scope {
                MemoryScope::Session => Scope::Session,
                MemoryScope::Agent => Scope::Agent,
                MemoryScope::Workspace => Scope::Workspace,
                MemoryScope::Tenant => Scope::Tenant,
            },
        };
        if scope <= Scope::Agent && place.agent.is_none() {
            return Err(principal(format!("the scope `{scope}` belongs to an agent: say which")));
        }
        if scope == Scope::Session && place.session.is_none() {
            return Err(principal(format!("the scope `{scope}` belongs to a session: say which")));
        }
        let tenant = place.tenant.clone().unwrap_or_else(|| AgentRequest::text("").tenant);
        self.workspace().check_tenant(&tenant)?;
        let agent = place.agent.as_ref().map_or(NOBODY, AgentName::as_str);
        let session = place.session.as_deref().unwrap_or(NOBODY);
        let who = Principal::new(&tenant, WORKSPACE, agent, session);
        let who = who.map_err(|error| principal(error.to_string()))?;
        Ok(ScopeResolver.resolve(&who, scope))
    }

    /// The tool of this name that is an agent, as the first agent that may call it sees it.
    async fn agent_tool(&self, name: &ToolName, tenant: &str) -> Result<Option<Tool>, EngineError> {
        for file in self.workspace().agents.values().filter(|file| file.tools.allows(name)) {
            let (mut config, _) = self.resolve(file, tenant).await?;
            let tool = config.tools.tools.remove(name).filter(|tool| is_agent(&tool.kind));
            if tool.is_some() {
                return Ok(tool);
            }
        }
        Ok(None)
    }

    /// The tool server that a name belongs to, if there is one of that name.
    fn server_of(&self, name: &ToolName) -> Option<String> {
        let (server, _) = name.as_str().split_once('.')?;
        (self.bindings().tool(name).is_none() && self.workspace().settings.servers.contains_key(server))
            .then(|| server.to_owned())
    }

    /// Who performs a tool, in the words of the core.
    fn kind(&self, name: &ToolName, info: &ToolInfo) -> ToolKind {
        match &info.offered_by {
            OfferedBy::Process | OfferedBy::Server(_) => ToolKind::External,
            OfferedBy::Document(toolkit) => {
                ToolKind::Declarative { toolkit: toolkit.clone(), tool: name.as_str().to_owned() }
            }
            OfferedBy::Agent(agent) => ToolKind::Agent { agent: agent.clone() },
            OfferedBy::Engine => match name.as_str() {
                "memory.create" => ToolKind::MemoryCreate,
                "memory.traverse" => ToolKind::MemoryTraverse,
                "call.hang_up" => ToolKind::HangUp,
                _ => ToolKind::MemorySearch,
            },
        }
    }

    /// An agent as a tool.
    fn agent_info(&self, name: ToolName, tool: Tool) -> ToolInfo {
        let offered = CatalogueTool {
            output_schema: tool.output_schema,
            kind: tool.kind,
            declared: Some(tool.class),
            ..CatalogueTool::new(tool.description, tool.input_schema)
        };
        self.info(name, offered)
    }

    fn info(&self, name: ToolName, tool: CatalogueTool) -> ToolInfo {
        let server = self.server_of(&name);
        let offered_by = match &tool.kind {
            ToolKind::MemorySearch | ToolKind::MemoryCreate | ToolKind::MemoryTraverse | ToolKind::HangUp => {
                OfferedBy::Engine
            }
            ToolKind::Agent { agent } | ToolKind::Handoff { agent } => OfferedBy::Agent(agent.clone()),
            ToolKind::Declarative { toolkit, .. } => OfferedBy::Document(toolkit.clone()),
            ToolKind::External => server.clone().map_or(OfferedBy::Process, OfferedBy::Server),
        };
        let workspace = self.workspace();
        let binding = server.and_then(|server| workspace.settings.servers.get(&server));
        let grants = binding.map(ServerBinding::grants).unwrap_or_default();
        let (class, class_from) = class(&tool);
        let users = workspace.agents.values().filter_map(|file| user(file, &name, class));
        let declared = tool.document.as_ref().and_then(|document| document.toolkit.tool(name.as_str()));
        let repeats = declared.map(|tool| tool.mentions().repeats).unwrap_or_default();
        let repeats = repeats.into_iter().map(|(method, id, times)| match id {
            Some(id) => format!("the {method} `{id}`, up to {times} times (`retry_count`)"),
            None => format!("a {method}, up to {times} times (`retry_count`)"),
        });
        let config_schema =
            tool.document.as_ref().and_then(|document| document.toolkit.config_schema().cloned());
        ToolInfo {
            config_schema,
            offered_by,
            class,
            class_from,
            grants,
            repeats: repeats.collect(),
            users: users.collect(),
            model_name: self.workspace().model_name(&name),
            name,
            description: tool.description,
            input_schema: tool.input_schema,
            output_schema: tool.output_schema,
        }
    }
}

fn unknown(name: &ToolName) -> ToolboxError {
    ToolboxError::UnknownTool { name: name.clone(), known: Vec::new(), tenants: Vec::new() }
}

/// The failure of a call, with all that a person should know of it.
fn no_answer(tool: &ToolName, failure: Failure, received: Received) -> ToolboxError {
    let message = match failure.detail {
        Some(detail) => format!("{}; {detail}", failure.message),
        None => failure.message,
    };
    ToolboxError::NoAnswer { tool: tool.clone(), message, received }
}

fn is_agent(kind: &ToolKind) -> bool {
    match kind {
        ToolKind::Agent { .. } | ToolKind::Handoff { .. } => true,
        ToolKind::External
        | ToolKind::Declarative { .. }
        | ToolKind::MemorySearch
        | ToolKind::MemoryCreate
        | ToolKind::MemoryTraverse
        | ToolKind::HangUp => false,
    }
}

/// The agent as a user of the tool, if it may use it.
fn user(file: &AgentFile, name: &ToolName, class: EffectClass) -> Option<ToolUser> {
    file.tools.allows(name).then(|| ToolUser {
        agent: file.name.clone(),
        class: file.tools.settings.get(name).and_then(|settings| settings.value.effect).unwrap_or(class),
        approve: file.tools.always_asks(name),
    })
}

/// What may repeat before an agent's own setting, and why: the same rule by which an agent's tools get their class.
fn class(tool: &CatalogueTool) -> (EffectClass, ClassFrom) {
    if let Some(declared) = tool.declared {
        return (declared, ClassFrom::Declared);
    }
    let says = |word: Option<bool>| word == Some(true);
    let from = if tool.read_only.is_none() && tool.idempotent.is_none() {
        ClassFrom::Unsaid
    } else if !tool.trusted {
        ClassFrom::Untrusted
    } else if says(tool.read_only) && says(tool.destructive) {
        ClassFrom::Contradiction
    } else {
        ClassFrom::Annotations
    };
    let class = match from {
        ClassFrom::Annotations if says(tool.read_only) => EffectClass::Read,
        ClassFrom::Annotations if says(tool.idempotent) => EffectClass::Idempotent,
        ClassFrom::Annotations
        | ClassFrom::Declared
        | ClassFrom::Unsaid
        | ClassFrom::Untrusted
        | ClassFrom::Contradiction => EffectClass::Unsafe,
    };
    (class, from)
}

/// The part of a principal that nobody named. No agent can have this name, so that nobody's memory is read by it.
const NOBODY: &str = "(nobody)";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn annotated(trusted: bool, read_only: Option<bool>, idempotent: Option<bool>) -> CatalogueTool {
        CatalogueTool {
            trusted,
            read_only,
            idempotent,
            ..CatalogueTool::new("", json!({ "type": "object" }))
        }
    }

    #[test]
    fn a_tool_says_why_it_has_its_class() {
        let contradiction = CatalogueTool { destructive: Some(true), ..annotated(true, Some(true), None) };
        let declared = CatalogueTool { declared: Some(EffectClass::Keyed), ..annotated(true, None, None) };
        let cases = [
            (annotated(false, Some(true), None), EffectClass::Unsafe, ClassFrom::Untrusted),
            (annotated(true, Some(true), None), EffectClass::Read, ClassFrom::Annotations),
            (annotated(true, Some(false), Some(true)), EffectClass::Idempotent, ClassFrom::Annotations),
            (annotated(true, Some(false), Some(false)), EffectClass::Unsafe, ClassFrom::Annotations),
            (annotated(true, None, None), EffectClass::Unsafe, ClassFrom::Unsaid),
            (contradiction, EffectClass::Unsafe, ClassFrom::Contradiction),
            (declared, EffectClass::Keyed, ClassFrom::Declared),
        ];
        for (tool, expected, from) in cases {
            assert_eq!(class(&tool), (expected, from), "{tool:?}");
        }
    }
}
