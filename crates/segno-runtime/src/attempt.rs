//! One attempt of one operation: where things happen.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;

use segno_core::{
    AgentConfig, Failure, FailureCode, MemoryCreate, MemoryCreated, MemoryHit, MemorySearch, Mind,
    ModelCompletion, OperationId, Outcome, Request, RunId, Terms, ToolCall, ToolReturn, Toolbox, Transcript,
};
use segno_memory::{MemoryError, NewObservation, ScopeSet, SearchQuery, Source};
use segno_models::{CompletionRequest, DeltaSink, Retry};
use segno_sandbox::{CallContext, CallErrorKind, Received};

use crate::bindings::{Bindings, Sessions, describe};
use crate::handle::RunEvent;
use crate::policy::AttemptError;
use crate::tool::Invocation;

/// What the start of a server's instance may add to the time of a call: its own limit bounds it.
const START_ALLOWANCE: Duration = Duration::from_secs(11);

/// What all attempts of a run share.
pub(crate) struct RunContext {
    pub(crate) run: RunId,
    pub(crate) bindings: Arc<Bindings>,
    pub(crate) sessions: Sessions,
    pub(crate) config: Arc<AgentConfig>,
    pub(crate) toolbox: Arc<Toolbox>,
    pub(crate) scopes: ScopeSet,
    pub(crate) events: broadcast::Sender<RunEvent>,
}

/// One attempt, owned, so that it runs as a task of its own.
pub(crate) struct Attempt {
    pub(crate) context: Arc<RunContext>,
    pub(crate) step: u64,
    /// The time of the run, in milliseconds since the epoch.
    pub(crate) at: u64,
    pub(crate) operation: OperationId,
    pub(crate) attempt: u32,
    pub(crate) terms: Terms,
    pub(crate) request: Request,
    /// What the model reads; empty for other operations.
    pub(crate) transcript: Transcript,
}

impl Attempt {
    /// Performs the attempt, within its time.
    pub(crate) async fn perform(self) -> Result<Outcome, AttemptError> {
        let timeout = Duration::from_millis(self.terms.timeout_ms);
        let limit = match &self.request {
            Request::ToolCall(call) if self.context.bindings.tool(&call.tool_name).is_none() => {
                timeout.saturating_add(START_ALLOWANCE)
            }
            Request::ToolCall(_)
            | Request::ModelCompletion(_)
            | Request::MemorySearch(_)
            | Request::MemoryCreate(_) => timeout,
        };
        match tokio::time::timeout(limit, self.dispatch(timeout)).await {
            Ok(result) => result,
            Err(_) => Err(timed_out(limit)),
        }
    }

    async fn dispatch(&self, timeout: Duration) -> Result<Outcome, AttemptError> {
        match &self.request {
            Request::ModelCompletion(completion) => self.complete(completion).await,
            Request::MemorySearch(search) => self.search(search).await,
            Request::MemoryCreate(create) => self.create(create).await,
            Request::ToolCall(call) => self.call(call, timeout).await,
        }
    }

    async fn complete(&self, completion: &ModelCompletion) -> Result<Outcome, AttemptError> {
        let Mind::Model(mind) = &self.context.config.mind else {
            return Err(certain(FailureCode::Internal, "a plan has no model".to_owned()));
        };
        let model = self
            .context
            .bindings
            .model(&mind.model.name)
            .map_err(|error| certain(FailureCode::Unavailable, describe(&error)))?;
        let request = CompletionRequest {
            settings: mind.model.clone(),
            transcript: self.transcript.clone(),
            tools: Arc::clone(&self.context.toolbox),
            tool_choice: completion.tool_choice,
            operation: self.operation,
            attempt: self.attempt,
        };
        let sink = Deltas { events: &self.context.events, operation: self.operation, attempt: self.attempt };
        model.complete(&request, &sink).await.map(Outcome::ModelReplied).map_err(|error| {
            let (transient, after) = match error.retry {
                Retry::Never => (false, None),
                Retry::Now => (true, None),
                Retry::After(pause) => (true, Some(pause)),
            };
            let failure = Failure::new(error.kind.code(), error.message);
            AttemptError { failure, received: Received::Possibly, transient, after }
        })
    }

    async fn search(&self, search: &MemorySearch) -> Result<Outcome, AttemptError> {
        let memory = self
            .context
            .bindings
            .memory()
            .await
            .map_err(|error| certain(FailureCode::Internal, describe(&error)))?;
        let query =
            SearchQuery { text: search.query.clone(), limit: search.limit, min_score: search.min_score };
        let hits = memory.search(&self.context.scopes, &query).await.map_err(memory_error)?;
        let hits = hits.into_iter().map(|hit| MemoryHit {
            entity: hit.entity,
            entity_type: hit.entity_type,
            text: hit.text,
            score: hit.score,
            metadata: hit.metadata,
        });
        Ok(Outcome::MemoryFound(hits.collect()))
    }

    async fn create(&self, create: &MemoryCreate) -> Result<Outcome, AttemptError> {
        let memory = self
            .context
            .bindings
            .memory()
            .await
            .map_err(|error| certain(FailureCode::Internal, describe(&error)))?;
        let observation = NewObservation {
            operation: *self.operation.as_bytes(),
            entity: create.entity.clone(),
            entity_type: create.entity_type.clone(),
            text: create.content.clone(),
            metadata: serde_json::json!({}),
            source: Source::Run { run: self.context.run.to_string(), step: self.step },
            recorded_at: self.at,
        };
        let created = memory.create(&self.context.scopes, observation).await.map_err(memory_error)?;
        Ok(Outcome::MemoryCreated(MemoryCreated {
            entity: created.entity,
            observation: created.observation.to_string(),
            duplicate: created.duplicate,
        }))
    }

    async fn call(&self, call: &ToolCall, timeout: Duration) -> Result<Outcome, AttemptError> {
        if let Some(tool) = self.context.bindings.tool(&call.tool_name) {
            let invocation = Invocation {
                run: self.context.run,
                operation: self.operation,
                attempt: self.attempt,
                arguments: call.parameters.clone(),
                secrets: self.context.bindings.secrets().clone(),
            };
            return tool.call(invocation).await.map(Outcome::ToolReturned).map_err(|error| AttemptError {
                failure: Failure::new(FailureCode::Unavailable, error.message),
                received: error.received,
                transient: error.transient,
                after: None,
            });
        }
        let Some((server, tool)) = call.tool_name.as_str().split_once('.') else {
            return Err(certain(FailureCode::Unavailable, format!("no server offers `{}`", call.tool_name)));
        };
        let session = self.context.sessions.open(&self.context.bindings, server).await?;
        let arguments = call.parameters.as_object().cloned().unwrap_or_default();
        let context = CallContext { operation: self.operation.to_string(), timeout };
        let output = session.call(tool, arguments, context).await.map_err(|error| {
            let code = match error.kind {
                CallErrorKind::Timeout => FailureCode::Timeout,
                CallErrorKind::OutputTooLarge | CallErrorKind::OutOfMemory => FailureCode::LimitExceeded,
                CallErrorKind::Protocol => FailureCode::Protocol,
                CallErrorKind::Refused { .. } => FailureCode::ToolFailed,
                _ => FailureCode::Unavailable,
            };
            // A refusal is an answer: the server said that it did not process the call. The same call again would be
            // refused again.
            let refused = matches!(error.kind, CallErrorKind::Refused { .. } | CallErrorKind::UnknownTool);
            let received = if refused { Received::No } else { error.received };
            let mut message = error.to_string();
            if !error.stderr.is_empty() {
                message.push_str("; it last wrote: ");
                message.push_str(&error.stderr);
            }
            AttemptError { failure: Failure::new(code, message), received, transient: !refused, after: None }
        })?;
        let text = if output.structured.is_some() { String::new() } else { output.text };
        Ok(Outcome::ToolReturned(ToolReturn {
            structured: output.structured,
            text,
            is_error: output.is_error,
        }))
    }
}

/// Streams a model's text to whoever listens.
struct Deltas<'a> {
    events: &'a broadcast::Sender<RunEvent>,
    operation: OperationId,
    attempt: u32,
}

impl DeltaSink for Deltas<'_> {
    fn text(&self, delta: &str) {
        // Nobody has to listen.
        let _ = self.events.send(RunEvent::Delta {
            operation: self.operation,
            attempt: self.attempt,
            text: delta.to_owned(),
        });
    }
}

/// A failure that certainly had no effect and will not go away.
pub(crate) fn certain(code: FailureCode, message: String) -> AttemptError {
    AttemptError {
        failure: Failure::new(code, message),
        received: Received::No,
        transient: false,
        after: None,
    }
}

fn timed_out(timeout: Duration) -> AttemptError {
    let message = format!("no answer within {} ms", timeout.as_millis());
    AttemptError {
        failure: Failure::new(FailureCode::Timeout, message),
        received: Received::Possibly,
        transient: true,
        after: None,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn memory_error(error: MemoryError) -> AttemptError {
    // The memory writes in one transaction: an error means that nothing was written.
    let transient = matches!(error, MemoryError::Busy { .. });
    AttemptError {
        failure: Failure::new(FailureCode::Internal, describe(&error)),
        received: Received::No,
        transient,
        after: None,
    }
}
