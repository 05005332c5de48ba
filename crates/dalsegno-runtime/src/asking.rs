//! A model is asked, outside of any run, what a run asked it or would ask it.

use dalsegno_core::{
    EffectClass, Failure, FailureCode, ModelCompletion, ModelReply, ModelSettings, OnIndeterminate,
    Operation, OperationId, Outcome, Purpose, Reading, Request, Reserved, Terms, ToolChoice, Toolbox,
    Transcript,
};
use dalsegno_history::Sent;
use dalsegno_protocol::Caller;
use serde_json::Value;
use tokio::sync::broadcast;

use crate::effects::failure::describe;
use crate::effects::tool::MemoryPlace;
use crate::engine::Engine;
use crate::names::DEFAULT_TENANT;
use crate::run::errand::Errand;
use crate::run::handle::RunEvent;

/// What a model is asked that plays the live model of a call.
#[derive(Debug)]
pub struct SpokenRequest {
    /// Whose call it is.
    pub tenant: String,
    /// Which model, and how it is asked.
    pub settings: ModelSettings,
    /// The tools that it is told of, and by which its calls are judged.
    pub toolbox: Toolbox,
    /// What it reads.
    pub transcript: Transcript,
    /// Whether it may call tools.
    pub tools: bool,
    /// Where its words go while they arrive, as [`RunEvent::Delta`].
    pub words: broadcast::Sender<RunEvent>,
}

fn reply_of(outcome: Outcome) -> Result<ModelReply, Failure> {
    match outcome {
        Outcome::ModelReplied(reply) => Ok(reply),
        Outcome::Failed(failure) => Err(failure),
        _ => Err(Failure::new(FailureCode::Internal, "a model does not answer so")),
    }
}

impl Engine {
    /// Sends a request of a run to its model once more, and returns the reply. Nothing is journaled, and no tool is called. The model
    /// is the one that the workspace has under this name now, with the key of the tenant; what it costs counts in the tenant's
    /// budgets.
    ///
    /// # Errors
    /// When there is no such tenant or model, a file that the model reads is no longer in the store, or the model gives no usable
    /// reply after the attempts that the request is allowed.
    pub async fn ask(&self, tenant: &str, sent: &Sent) -> Result<ModelReply, Failure> {
        let refused = |message: String| Failure::new(FailureCode::Unavailable, message);
        self.workspace().check_tenant(tenant).map_err(|error| refused(error.to_string()))?;
        let known = self.know_secrets(tenant, &Value::Null).await;
        known.map_err(|error| refused(describe(&error)))?;
        let place = MemoryPlace { tenant: Some(tenant.to_owned()), ..MemoryPlace::default() };
        let scopes = self.memory_scopes(&place).map_err(|error| refused(describe(&error)))?;
        let errand = Errand {
            operation: OperationId::from_bytes(*uuid::Uuid::new_v4().as_bytes()),
            request: Request::ModelCompletion(sent.request.clone()),
            terms: sent.terms,
            asker: None,
            caller: Caller::default(),
            tool: None,
            reading: Some((sent.reading.clone(), sent.config.tools.clone())),
            events: None,
            scopes,
        };
        reply_of(Box::pin(self.perform_errand(tenant, errand)).await.outcome)
    }

    /// Asks the model of an agent for what it says next in a call in which it plays the live model. Nothing is journaled: what
    /// it says and asks for is news of the call. The model is the one that the workspace has under this name now, with the key of
    /// the tenant; what it costs counts in the tenant's budgets. If this is dropped, the request is broken off.
    ///
    /// # Errors
    /// When there is no such tenant or model, or the model gives no usable reply after the attempts that its settings allow.
    pub async fn ask_to_speak(&self, asked: SpokenRequest) -> Result<ModelReply, Failure> {
        let SpokenRequest { tenant, settings, toolbox, transcript, tools, words } = asked;
        let refused = |message: String| Failure::new(FailureCode::Unavailable, message);
        self.workspace().check_tenant(&tenant).map_err(|error| refused(error.to_string()))?;
        let known = self.know_secrets(&tenant, &Value::Null).await;
        known.map_err(|error| refused(describe(&error)))?;
        let place = MemoryPlace { tenant: Some(tenant.clone()), ..MemoryPlace::default() };
        let completion = ModelCompletion {
            new_from: 0,
            entries: transcript.len(),
            chain: transcript.chain(),
            tool_choice: if tools { ToolChoice::Auto } else { ToolChoice::None },
            fallback: 0,
            max_output_tokens: None,
            reserved: Reserved::default(),
            purpose: Purpose::Reply,
        };
        let terms = Terms {
            class: EffectClass::Read,
            timeout_ms: settings.timeout_ms,
            retries: settings.retries,
            on_indeterminate: OnIndeterminate::Retry,
            pace: None,
        };
        let errand = Errand {
            operation: OperationId::from_bytes(*uuid::Uuid::new_v4().as_bytes()),
            request: Request::ModelCompletion(completion.into()),
            terms,
            asker: None,
            caller: Caller::default(),
            tool: None,
            reading: Some((Reading { settings, transcript, schema: None, tools: true }, toolbox)),
            events: Some(words),
            scopes: self.memory_scopes(&place).map_err(|error| refused(describe(&error)))?,
        };
        reply_of(Box::pin(self.perform_errand(&tenant, errand)).await.outcome)
    }

    /// Performs a request of a run that only reads, outside of the run: a search or a walk in the memory of this place, or a call of a tool
    /// that the workspace has with the class `read` now; what the run says of it does not count. Nothing is journaled.
    ///
    /// # Errors
    /// When it is another request, when there is no such tenant or tool, or when there is no answer.
    pub async fn read(
        &self,
        operation: &Operation,
        user: &Value,
        place: &MemoryPlace,
    ) -> Result<Outcome, Failure> {
        let refused = |message: String| Failure::new(FailureCode::NotPermitted, message);
        let tenant = place.tenant.as_deref().unwrap_or(DEFAULT_TENANT);
        let fresh = OperationId::from_bytes(*uuid::Uuid::new_v4().as_bytes());
        let errand = match &operation.request {
            Request::MemorySearch(_) | Request::MemoryTraverse(_) => Errand {
                operation: fresh,
                request: operation.request.clone(),
                terms: operation.terms,
                asker: None,
                caller: Caller::default(),
                tool: None,
                reading: None,
                events: None,
                scopes: self.memory_scopes(place).map_err(|error| refused(describe(&error)))?,
            },
            Request::ToolCall(call) => {
                let info = self.tool(&call.tool_name, tenant).await;
                let info = info.map_err(|error| refused(describe(&error)))?;
                if info.class != EffectClass::Read {
                    return Err(refused(format!("`{}` is not of the class `read`", info.name)));
                }
                let arguments = info.check_arguments(call.parameters.clone());
                let arguments = arguments.map_err(|error| refused(describe(&error)))?;
                let errand = self.errand(&info, &arguments, fresh, user, place);
                errand.map_err(|error| refused(describe(&error)))?
            }
            other => return Err(refused(format!("{} may change something", other.label()))),
        };
        let known = self.know_secrets(tenant, user).await;
        known.map_err(|error| refused(describe(&error)))?;
        Ok(Box::pin(self.perform_errand(tenant, errand)).await.outcome)
    }
}
