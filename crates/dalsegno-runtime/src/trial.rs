//! Declarative tools beside the operations of a run: one call, performed or played back from a recording. Nothing of it is
//! journaled.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use dalsegno_core::{
    AgentName, Failure, FailureCode, Gate, OnIndeterminate, OperationId, Outcome, PartTerms, Request, Terms,
    ToolOwner, ToolReturn,
};
use dalsegno_history::Situation;
use dalsegno_tools::{
    Call, CallInfo, Context, Effect, EffectFailure, EffectOutcome, EffectRequest, ErrorCode, Finished, Next,
    SessionContext, ToolRequest, Toolkit,
};

use dalsegno_workspace::NoTenant;

use crate::effects::dispatch;
use crate::effects::failure::AttemptError;
use crate::effects::failure::certain;
use crate::effects::policy::{self, RetryDecision};
use crate::effects::tool::{MemoryPlace, ToolCallOptions};
use crate::engine::Engine;
use crate::names::DEFAULT_TENANT;
use crate::run::declared::{OfUser, Part};

/// How deep tools may call tools, as in a run.
const DEPTH_MAX: usize = 8;

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

/// On whose behalf a call is made.
#[derive(Clone)]
pub(crate) struct Behalf<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) user: &'a Value,
    pub(crate) of_user: OfUser,
    /// Whose the document is.
    pub(crate) owner: Option<ToolOwner>,
    /// The agent that makes it; none for a trial.
    pub(crate) agent: Option<&'a AgentName>,
    /// What the document reads as `config`; by default what it has in the tenant's workspace.
    pub(crate) config: Option<Value>,
}

impl<'a> Behalf<'a> {
    fn of_trial(options: &'a TrialOptions) -> Self {
        Self {
            tenant: &options.tenant,
            user: &options.user,
            of_user: OfUser::Given,
            owner: options.owner.clone(),
            agent: None,
            config: None,
        }
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
    /// When the document has no such tool.
    pub async fn try_tool(
        &self,
        toolkit: &Toolkit,
        tool: &str,
        arguments: &Value,
        options: &TrialOptions,
    ) -> Result<Trial, TrialError> {
        let operation = OperationId::from_bytes(*uuid::Uuid::new_v4().as_bytes());
        self.call_document(toolkit, tool, arguments, &Behalf::of_trial(options), operation).await
    }

    /// Performs one call of a declarative tool, on somebody's behalf and under an id.
    pub(crate) async fn call_document(
        &self,
        toolkit: &Toolkit,
        tool: &str,
        arguments: &Value,
        behalf: &Behalf<'_>,
        operation: OperationId,
    ) -> Result<Trial, TrialError> {
        let recording = TrialRecording {
            tool: tool.to_owned(),
            operation,
            now_ms: self.now().as_millis(),
            exchanges: Vec::new(),
        };
        self.trial(toolkit, arguments, behalf, recording, Answers::World, 1).await
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
        self.trial(toolkit, arguments, &Behalf::of_trial(options), empty, recorded, 1).await
    }

    async fn trial(
        &self,
        toolkit: &Toolkit,
        arguments: &Value,
        behalf: &Behalf<'_>,
        mut recording: TrialRecording,
        mut answers: Answers<'_>,
        depth: usize,
    ) -> Result<Trial, TrialError> {
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
            user: behalf.user,
            tenant: &json!({ "name": behalf.tenant, "settings": settings }),
            config: &config,
            session: &SessionContext::default(),
            agent: behalf.agent.map_or(TRIAL, AgentName::as_str),
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
                Answers::World => self.performed(toolkit, behalf, &effect, recording.operation, depth).await,
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

    /// Performs one request with its attempts, by the rules of runs. Who would be asked in a run is not asked here.
    async fn performed(
        &self,
        toolkit: &Toolkit,
        behalf: &Behalf<'_>,
        effect: &Effect,
        operation: OperationId,
        depth: usize,
    ) -> EffectOutcome {
        let parts = PartTerms::default();
        let (terms, request) = match &effect.request {
            EffectRequest::ApiCall(call) => (
                Terms::of_api_call(call, OnIndeterminate::Report, parts),
                Request::ApiCall(Arc::new(call.clone())),
            ),
            EffectRequest::Email(mail) => (
                Terms::of_email(mail, OnIndeterminate::Report, parts),
                Request::Email(Arc::new(mail.clone())),
            ),
            EffectRequest::Tool(tool) => {
                return self.called(tool, behalf, depth).await;
            }
        };
        let began = Instant::now();
        let (mut attempt, mut doubtful) = (1, false);
        loop {
            let part = Part {
                ports: self.ports(),
                tenant: behalf.tenant,
                agent: behalf.agent,
                toolkit: Some(toolkit),
                owner: behalf.owner.clone(),
                user: behalf.user,
                of_user: behalf.of_user,
                terms: &terms,
                attempt,
                operation: effect.key.clone(),
            };
            let target = dispatch::target(&request, None, false);
            let answer = match self.ports().dispatcher.room(target.as_ref(), behalf.tenant).await {
                Err(error) => Err(error),
                Ok(permit) => {
                    let answer = match &effect.request {
                        EffectRequest::ApiCall(call) => within(&terms, part.call_endpoint(call)).await,
                        EffectRequest::Email(mail) => within(&terms, part.send_mail(mail)).await,
                        EffectRequest::Tool(_) => unreachable!("it is called above"),
                    };
                    if let Some(permit) = permit {
                        permit.settle(&answer);
                    }
                    answer
                }
            };
            let now = Situation {
                attempt,
                doubtful,
                age: began.elapsed(),
                key_age: began.elapsed(),
                recoveries: 0,
                at: self.now(),
            };
            let asked = policy::Effect { id: operation, terms: &terms, request: &request };
            let mut outcome = match policy::judge(asked, now, answer) {
                RetryDecision::Again { pause, possibly_received, .. } => {
                    doubtful |= possibly_received;
                    tokio::time::sleep(pause).await;
                    attempt += 1;
                    continue;
                }
                RetryDecision::Take(outcome) => outcome,
                RetryDecision::Gate(gate) => Outcome::Failed(unsettled(&gate)),
                RetryDecision::Ask(reason) => Outcome::Failed(policy::indeterminate(&reason)),
            };
            self.bindings().secrets().scrub(&mut outcome);
            return told(outcome);
        }
    }

    /// Calls the tool that a document names, which may be a document, too.
    fn called<'a>(
        &'a self,
        request: &'a ToolRequest,
        behalf: &'a Behalf<'a>,
        depth: usize,
    ) -> Pin<Box<dyn Future<Output = EffectOutcome> + Send + 'a>> {
        Box::pin(async move {
            let ToolRequest { name, arguments, .. } = request;
            let failed = |code, message: String| EffectOutcome::Failed(failure(code, &message));
            if depth >= DEPTH_MAX {
                let message = format!("tools call tools more than {DEPTH_MAX} deep");
                return failed(ErrorCode::LimitExceeded, message);
            }
            let workspace = self.workspace();
            let toolkits = workspace.toolkits_for(behalf.tenant);
            let plain = name.replace('-', "_");
            let declared = toolkits.values().find(|file| file.toolkit.tool(&plain).is_some());
            if let Some(file) = declared {
                let recording = TrialRecording {
                    tool: plain,
                    operation: OperationId::from_bytes(*uuid::Uuid::new_v4().as_bytes()),
                    now_ms: self.now().as_millis(),
                    exchanges: Vec::new(),
                };
                let trial =
                    self.trial(&file.toolkit, arguments, behalf, recording, Answers::World, depth + 1).await;
                return match trial.map(|trial| trial.finished.outcome) {
                    Ok(outcome) => match outcome.error {
                        None => EffectOutcome::Returned { output: outcome.output },
                        Some(error) => EffectOutcome::Failed(error.into()),
                    },
                    Err(error) => failed(ErrorCode::ToolNotFound, error.to_string()),
                };
            }
            let Ok(parsed) = name.parse() else {
                return failed(ErrorCode::ToolNotFound, format!("there is no tool `{name}`"));
            };
            let place = MemoryPlace { tenant: Some(behalf.tenant.to_owned()), ..MemoryPlace::default() };
            let call = ToolCallOptions { place, ..ToolCallOptions::default() };
            let mut request = request.clone();
            // A tool that is not known is reported by the call.
            if let Ok(info) = self.tool(&parsed, behalf.tenant).await {
                request.leave_out(|argument| info.requires(argument));
            }
            match self.call_tool(&parsed, request.arguments, &call).await {
                Ok(ToolReturn { is_error: true, text, .. }) => failed(ErrorCode::ActionFailed, text),
                Ok(ToolReturn { structured, text, .. }) => {
                    let output = structured.unwrap_or_else(|| {
                        serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.clone()))
                    });
                    EffectOutcome::Returned { output }
                }
                Err(error) => failed(ErrorCode::ActionFailed, error.to_string()),
            }
        })
    }
}

/// What a plan and a model would read of the end of a call.
pub(crate) fn returned(finished: &Finished) -> ToolReturn {
    let outcome = &finished.outcome;
    ToolReturn {
        structured: outcome.ok.then(|| outcome.output.clone()),
        text: outcome.model_text(),
        is_error: !outcome.ok,
        code: None,
        error: outcome.error.clone().map(Box::new),
        actions: outcome.actions.clone(),
        violations: Vec::new(),
    }
}

/// The name of the agent that a tool reads in a trial.
const TRIAL: &str = "trial";

/// Cuts an attempt off at its time.
async fn within(
    terms: &Terms,
    work: impl Future<Output = Result<Outcome, AttemptError>>,
) -> Result<Outcome, AttemptError> {
    let limit = Duration::from_millis(terms.timeout_ms);
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let message = format!("no answer within {} ms", terms.timeout_ms);
        let received = dalsegno_core::Received::Possibly;
        Err(AttemptError { received, transient: true, ..certain(FailureCode::Timeout, message) })
    })
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

fn told(outcome: Outcome) -> EffectOutcome {
    match outcome {
        Outcome::ApiAnswered(response) => EffectOutcome::Response(response),
        Outcome::EmailSent(receipt) => EffectOutcome::Sent { message_id: receipt.message_id },
        Outcome::Failed(failure) => EffectOutcome::Failed(failure.into()),
        _ => {
            let failure = Failure::new(FailureCode::Internal, "the answer does not fit a part of a tool");
            EffectOutcome::Failed(failure.into())
        }
    }
}

fn failure(code: ErrorCode, message: &str) -> EffectFailure {
    EffectFailure::new(code, message)
}

/// What a run would wait for is missing here.
fn unsettled(gate: &Gate) -> Failure {
    let message = match gate {
        Gate::Secret { name } => format!("the secret `{name}` is not in the secret store"),
        _ => "a person has to answer a question first".to_owned(),
    };
    Failure::new(FailureCode::Unavailable, message)
}
