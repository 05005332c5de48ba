//! A model is asked, outside of any run, what a run asked it or would ask it.

use dalsegno_core::{
    EffectClass, Failure, FailureCode, ModelReply, Operation, OperationId, Outcome, Request,
};
use dalsegno_history::Sent;
use dalsegno_protocol::Caller;
use serde_json::Value;

use crate::effects::failure::describe;
use crate::effects::tool::MemoryPlace;
use crate::engine::Engine;
use crate::names::DEFAULT_TENANT;
use crate::run::errand::Errand;

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
            scopes,
        };
        match Box::pin(self.perform_errand(tenant, errand)).await.outcome {
            Outcome::ModelReplied(reply) => Ok(reply),
            Outcome::Failed(failure) => Err(failure),
            _ => Err(Failure::new(FailureCode::Internal, "a model does not answer so")),
        }
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
