//! Tools written in Rust, registered in process.

use async_trait::async_trait;
use serde_json::Value;

use dalsegno_core::Received;
use dalsegno_core::{EffectClass, OperationId, RunId, ToolReturn};

use crate::secret::Secrets;

/// A tool written in Rust.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// What the tool does, takes and may repeat. Read once, when the engine is built.
    fn describe(&self) -> ToolDescription;

    /// Performs one attempt of a call. The arguments fit the schema.
    ///
    /// # Errors
    /// When there is no answer. The error says whether the receiver may have acted: the engine's care for the effect
    /// depends on that.
    async fn call(&self, invocation: Invocation) -> Result<ToolReturn, ToolError>;
}

/// What a tool does, takes and may repeat.
#[derive(Debug, Clone)]
pub struct ToolDescription {
    /// What it does, for a model.
    pub description: String,
    /// JSON Schema of its arguments; an object.
    pub input_schema: Value,
    /// JSON Schema of its structured result, if it has one.
    pub output_schema: Option<Value>,
    /// What may repeat.
    pub class: EffectClass,
}

/// One attempt of a call.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The run.
    pub run: RunId,
    /// The operation: the same for all attempts, so it can serve the receiver as an idempotency key.
    pub operation: OperationId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The tenant on whose behalf the run works.
    pub tenant: String,
    /// The id of the user, `user.id` of the request, where the caller gave one.
    pub user: Option<String>,
    /// The session of the run; the run's own id where it was started without one.
    pub session: String,
    /// The model's own id of the call; none where a plan or a person calls.
    pub call_id: Option<String>,
    /// The arguments.
    pub arguments: Value,
    /// The workspace's secrets, by name.
    pub secrets: Secrets,
}

/// Why a call has no answer.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// What went wrong.
    pub message: String,
    /// Whether the receiver may have acted.
    pub received: Received,
    /// Whether another attempt could help.
    pub transient: bool,
}

/// The id of the user, as the caller of the run gave it: a text or a number.
pub(crate) fn user_id(user: &Value) -> Option<String> {
    match user.get("id")? {
        Value::String(id) if !id.is_empty() && id.len() <= USER_BYTES_MAX => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

/// Longer ids are text in the wrong place, and would travel with every call.
const USER_BYTES_MAX: usize = 256;
