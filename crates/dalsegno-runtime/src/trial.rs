//! Declarative tools beside the operations of a run: one call, performed or played back from a recording. Nothing of it is
//! journaled.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use dalsegno_core::{
    AgentName, OnIndeterminate, OperationId, Outcome, PartTerms, Request, TOOL_DEPTH_MAX, Terms, ToolCall,
    ToolOwner, ToolReturn,
};
use dalsegno_protocol::Caller;
use dalsegno_tools::{
    Call, CallInfo, Context, Effect, EffectFailure, EffectOutcome, EffectRequest, ErrorCode, Finished, Next,
    SessionContext, ToolRequest, Toolkit,
};

use dalsegno_workspace::NoTenant;

use crate::effects::failure::describe;
use crate::effects::tool::MemoryPlace;
use crate::engine::Engine;
use crate::names::DEFAULT_TENANT;
use crate::run::declared::{Asker, OfUser};
use crate::run::errand::{Errand, TRIAL};
use crate::toolbox::ToolboxError;

/// On whose behalf a declarative tool is tried.
#[derive(Debug, Clone)]
pub struct TrialOptions {
    /// The tenant; `default` by default.
    pub tenant: String,
    /// What the caller says of the user, an object. A secret in it is used and kept nowhere.
    pub user: Value,
    /// Whose the document is, whose secrets it gets; nobody's by default, and then it gets none.
    pub owner: Option<ToolOwner>,
}

impl Default for TrialOptions {
    fn default() -> Self {
        Self { tenant: DEFAULT_TENANT.to_owned(), user: json!({}), owner: None }
    }
}

/// What a call of a declarative tool asked for, and what came of it. Without secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecording {
    /// The tool.
    pub tool: String,
    /// The id of the call, from which the keys of its requests follow.
    pub operation: OperationId,
    /// The time of the call, in milliseconds since the epoch.
    pub now_ms: u64,
    /// The requests in their order, each with what came of it.
    pub exchanges: Vec<Exchanged>,
}

impl TrialRecording {
    /// A recording of a call that asked for nothing.
    pub fn empty(tool: &str) -> Self {
        let operation = OperationId::from_bytes([0; 16]);
        Self { tool: tool.to_owned(), operation, now_ms: 0, exchanges: Vec::new() }
    }
}

/// A request, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchanged {
    /// The request, with references in the place of secrets.
    pub request: EffectRequest,
    /// What came of it.
    pub outcome: EffectOutcome,
}

/// A call that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// How it ended, with what each action did.
    pub finished: Finished,
    /// What it asked for.
    pub recording: TrialRecording,
}

/// Why a call was not tried to its end.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// It is on behalf of a tenant that is none.
    #[error(transparent)]
    Tenant(#[from] NoTenant),
    /// A secret that must not be shown cannot be read, so that nothing is called.
    #[error("{message}")]
    Scrubbing {
        /// What is wrong with it.
        message: String,
    },
    /// The document has no such tool.
    #[error("toolkit `{toolkit}` has no tool `{tool}`, expected one of {}", known.join(", "))]
    UnknownTool {
        /// The document.
        toolkit: String,
        /// The name that was given.
        tool: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// The call asks for something that the recording does not have.
    #[error("the recording has no answer to the request `{request}` of `{action}`: {hint}")]
    NotRecorded {
        /// The request in a few words.
        request: String,
        /// The action that asks for it.
        action: String,
        /// What is there in its place.
        hint: String,
        /// The whole request.
        whole: Box<EffectRequest>,
    },
}

/// On whose behalf a document is called.
pub(crate) struct Behalf<'a> {
    pub(crate) tenant: &'a str,
    /// The document. Its agent is none for a trial.
    pub(crate) asker: Asker,
    /// What the document reads as `config`; by default what it has in the tenant's workspace.
    pub(crate) config: Option<Value>,
}

impl<'a> Behalf<'a> {
    pub(crate) fn of_trial(toolkit: &Toolkit, options: &'a TrialOptions) -> Self {
        let TrialOptions { tenant, user, owner } = options;
        let (toolkit, owner, user) = (toolkit.clone(), owner.clone(), user.clone());
        let asker = Asker { toolkit, owner, agent: None, user, of_user: OfUser::Given };
        Self { tenant, asker, config: None }
    }
}

/// Where outcomes come from.
enum Answers<'r> {
    /// They are asked for.
    World,
    /// They were recorded; each is used once.
    Recording(Vec<Option<&'r Exchanged>>),
}

impl Engine {
    /// Performs one call of a declarative tool: it reaches whom the tenant may reach, with the secrets that its owner may
    /// use. The document need not be one of the workspace.
    ///
    /// # Errors
    /// When there is no such tenant, when the document has no such tool, or when a secret that must not be shown cannot be
    /// read.
    pub async fn try_tool(
        &self,
        toolkit: &Toolkit,
        tool: &str,
        arguments: &Value,
        options: &TrialOptions,
    ) -> Result<Trial, TrialError> {
        self.workspace().check_tenant(&options.tenant)?;
        let known = self.know_secrets(&options.tenant, &options.user).await;
        known.map_err(|error| TrialError::Scrubbing { message: describe(&error) })?;
        self.call_document(tool, arguments, &Behalf::of_trial(toolkit, options), fresh()).await
    }

    /// Performs one call of a declarative tool, for a tenant and under an id. All secrets are known that the tenant
    /// may meet.
    pub(crate) async fn call_document(
        &self,
        tool: &str,
        arguments: &Value,
        behalf: &Behalf<'_>,
        operation: OperationId,
    ) -> Result<Trial, TrialError> {
        let recording = self.recording(tool, operation);
        self.trial(arguments, behalf, recording, Answers::World, 1).await
    }

    fn recording(&self, tool: &str, operation: OperationId) -> TrialRecording {
        let now_ms = self.now().as_millis();
        TrialRecording { tool: tool.to_owned(), operation, now_ms, exchanges: Vec::new() }
    }

    /// Plays one call of a declarative tool back: every request that it makes is looked for in the recording, and nothing
    /// is performed.
    ///
    /// # Errors
    /// When the document has no such tool, or the call asks for something that the recording does not have.
    pub async fn play_tool(
        &self,
        toolkit: &Toolkit,
        arguments: &Value,
        options: &TrialOptions,
        recording: &TrialRecording,
    ) -> Result<Trial, TrialError> {
        let empty = TrialRecording { exchanges: Vec::new(), ..recording.clone() };
        let recorded = Answers::Recording(recording.exchanges.iter().map(Some).collect());
        self.trial(arguments, &Behalf::of_trial(toolkit, options), empty, recorded, 1).await
    }

    async fn trial(
        &self,
        arguments: &Value,
        behalf: &Behalf<'_>,
        mut recording: TrialRecording,
        mut answers: Answers<'_>,
        depth: usize,
    ) -> Result<Trial, TrialError> {
        let Asker { toolkit, agent, user, .. } = &behalf.asker;
        let unknown = || TrialError::UnknownTool {
            toolkit: toolkit.name().to_owned(),
            tool: recording.tool.clone(),
            known: toolkit.tools().iter().map(|tool| tool.name().to_owned()).collect(),
        };
        let tool = toolkit.tool(&recording.tool).ok_or_else(unknown)?;
        let workspace = self.workspace();
        workspace.check_tenant(behalf.tenant)?;
        let tenant = workspace.tenants.get(behalf.tenant);
        let own = tenant.and_then(|tenant| tenant.toolkits.get(toolkit.name()));
        let config = behalf.config.clone().unwrap_or_else(|| {
            toolkit.config_with(&own.map(|own| own.config.clone()).unwrap_or_default()).into()
        });
        let settings: Value = tenant.map(|tenant| tenant.settings.clone()).unwrap_or_default().into();
        let info = CallInfo {
            id: recording.operation.to_string(),
            session: recording.operation.to_string(),
            operation: recording.operation.to_string(),
            turn: Some(0),
        };
        let context = Context {
            user,
            tenant: &json!({ "name": behalf.tenant, "settings": settings }),
            config: &config,
            session: &SessionContext::default(),
            agent: agent.as_ref().map_or(TRIAL, AgentName::as_str),
            call: &info,
            now_ms: recording.now_ms,
            zone: tenant.and_then(|tenant| tenant.time_zone.as_deref()),
            first_rules: false,
        };
        let mut call = Call::begin(tool, arguments, &context);
        loop {
            let effect = match call.advance(tool, &context) {
                Next::Done(finished) => return Ok(Trial { finished: *finished, recording }),
                Next::Effect(effect) => effect,
            };
            let outcome = match &mut answers {
                Answers::Recording(left) => played(left, &effect)?,
                Answers::World => self.performed(behalf, &effect, depth).await,
            };
            recording.exchanges.push(Exchanged { request: effect.request.clone(), outcome: outcome.clone() });
            if call.resume(outcome).is_err() {
                // A recording can hold an answer of another kind.
                let failure =
                    failure(ErrorCode::Internal, "what came of it does not answer what was asked for");
                let _ = call.resume(EffectOutcome::Failed(failure));
            }
        }
    }

    /// Performs one request of a document, by the rules of runs. Who would be asked in a run is not asked here.
    async fn performed(&self, behalf: &Behalf<'_>, effect: &Effect, depth: usize) -> EffectOutcome {
        let (parts, report) = (PartTerms::default(), OnIndeterminate::Report);
        let (request, terms) = match &effect.request {
            EffectRequest::ApiCall(call) => {
                (Request::ApiCall(Arc::new(call.clone())), Terms::of_api_call(call, report, parts))
            }
            EffectRequest::Email(mail) => {
                (Request::Email(Arc::new(mail.clone())), Terms::of_email(mail, report, parts))
            }
            EffectRequest::Transfer(_) => {
                let message = "there is no call that could be transferred";
                return EffectOutcome::Failed(failure(ErrorCode::NotPermitted, message));
            }
            EffectRequest::Tool(tool) => {
                let called = Box::pin(self.called(tool, behalf, part_of(effect), depth)).await;
                return called.unwrap_or_else(EffectOutcome::Failed);
            }
        };
        let scopes = match self.memory_scopes(&place(behalf.tenant)) {
            Ok(scopes) => scopes,
            Err(error) => return EffectOutcome::Failed(failure(ErrorCode::Internal, &describe(&error))),
        };
        let errand = Errand {
            operation: part_of(effect),
            request: request.clone(),
            terms,
            asker: Some(behalf.asker.clone()),
            caller: Caller::default(),
            tool: None,
            reading: None,
            events: None,
            scopes,
        };
        Box::pin(self.perform_errand(behalf.tenant, errand)).await.outcome.into_effect_outcome(&request)
    }

    /// Calls the tool that a document names, which may be a document, too.
    async fn called(
        &self,
        request: &ToolRequest,
        behalf: &Behalf<'_>,
        operation: OperationId,
        depth: usize,
    ) -> Result<EffectOutcome, EffectFailure> {
        if depth >= TOOL_DEPTH_MAX {
            let message = format!("tools call tools more than {TOOL_DEPTH_MAX} deep");
            return Err(failure(ErrorCode::LimitExceeded, &message));
        }
        let not_found = |message: String| failure(ErrorCode::ToolNotFound, &message);
        let workspace = self.workspace();
        let plain = request.name.replace('-', "_");
        let toolkits = workspace.toolkits_for(behalf.tenant);
        if let Some(file) = toolkits.values().find(|file| file.toolkit.tool(&plain).is_some()) {
            // What the document of a stranger calls gets no secret either.
            let owner = behalf.asker.owner.as_ref();
            let owner = owner.map(|_| workspace.owner_of(behalf.tenant, file.name()));
            let asker = Asker { toolkit: file.toolkit.clone(), owner, ..behalf.asker.clone() };
            let inner = Behalf { tenant: behalf.tenant, asker, config: None };
            let recording = self.recording(&plain, operation);
            let trial = self.trial(&request.arguments, &inner, recording, Answers::World, depth + 1);
            let trial = Box::pin(trial).await.map_err(|error| not_found(error.to_string()))?;
            let returned = Outcome::ToolReturned(ToolReturn::from(&trial.finished.outcome));
            let name = plain.parse().map_err(|_| not_found(no_such_tool(&plain)))?;
            let call = ToolCall { tool_name: name, parameters: request.arguments.clone(), input: None };
            return Ok(returned.into_effect_outcome(&Request::ToolCall(Arc::new(call))));
        }
        let name = request.name.parse().map_err(|_| not_found(no_such_tool(&request.name)))?;
        let info = self.tool(&name, behalf.tenant).await.map_err(|error| match error {
            ToolboxError::UnknownTool { .. } => not_found(error.to_string()),
            error => failure(ErrorCode::ActionFailed, &describe(&error)),
        })?;
        let mut request = request.clone();
        request.leave_out(|argument| info.requires(argument));
        let place = place(behalf.tenant);
        let errand = self.errand(&info, &request.arguments, operation, &behalf.asker.user, &place);
        let errand = errand.map_err(|error| failure(ErrorCode::NotPermitted, &error.to_string()))?;
        let asked = errand.request.clone();
        Ok(self.perform_errand(behalf.tenant, errand).await.outcome.into_effect_outcome(&asked))
    }
}

/// The memory that the tools of a document use outside of a run.
fn place(tenant: &str) -> MemoryPlace {
    MemoryPlace { tenant: Some(tenant.to_owned()), ..MemoryPlace::default() }
}

/// The id of a part, which is that of its call with the part's number.
fn part_of(effect: &Effect) -> OperationId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"errand").update(effect.key.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    OperationId::from_bytes(bytes)
}

/// An id that nothing else has.
pub(crate) fn fresh() -> OperationId {
    OperationId::from_bytes(*uuid::Uuid::new_v4().as_bytes())
}

fn no_such_tool(name: &str) -> String {
    format!("there is no tool `{name}`")
}

/// The recorded outcome of a request: the first one of the same request that was not used yet.
fn played(left: &mut [Option<&Exchanged>], effect: &Effect) -> Result<EffectOutcome, TrialError> {
    let same = |one: &&mut Option<&Exchanged>| one.is_some_and(|one| one.request == effect.request);
    if let Some(found) = left.iter_mut().find(same).and_then(Option::take) {
        return Ok(found.outcome.clone());
    }
    let hint = match left.iter().flatten().next() {
        Some(next) if next.request.label() == effect.request.label() => {
            "it has one to the same address, with other content".to_owned()
        }
        Some(next) => format!("the next one that it has is to `{}`", next.request.label()),
        None => "it has no more of them".to_owned(),
    };
    Err(TrialError::NotRecorded {
        request: effect.request.label(),
        action: effect.place.action.clone(),
        hint,
        whole: Box::new(effect.request.clone()),
    })
}

fn failure(code: ErrorCode, message: &str) -> EffectFailure {
    EffectFailure::new(code, message)
}
