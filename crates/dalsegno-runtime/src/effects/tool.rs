//! Tools written in Rust, registered in process.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dalsegno_core::{
    AgentName, EffectClass, FailureCode, JsonSchema, OperationId, Received, RunId, ToolReturn,
};
use dalsegno_memory::Scope;
use dalsegno_protocol::ResultFiles;
use serde_json::{Value, json};

use crate::effects::failure::describe;
use crate::run::start::NewAttachment;
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
    pub input_schema: JsonSchema,
    /// JSON Schema of its structured result, if it has one.
    pub output_schema: Option<Value>,
    /// Whether the engine may repeat a call: see [`EffectClass`].
    pub class: EffectClass,
}

impl ToolDescription {
    /// Describes a tool that takes no arguments.
    pub fn new(description: impl Into<String>, class: EffectClass) -> Self {
        let input_schema = json!({ "type": "object", "properties": {}, "additionalProperties": false });
        Self {
            description: description.into(),
            input_schema: input_schema.into(),
            output_schema: None,
            class,
        }
    }

    /// The same with the JSON Schema of its arguments, which is that of an object.
    ///
    /// Models write arguments in the order of the schema. A `Value` counts as sorted; a [`JsonSchema`] that is parsed from text
    /// keeps the order of its keys.
    #[must_use]
    pub fn with_input(self, schema: impl Into<JsonSchema>) -> Self {
        Self { input_schema: schema.into(), ..self }
    }

    /// The same with the JSON Schema of its structured result.
    #[must_use]
    pub fn with_output(self, schema: Value) -> Self {
        Self { output_schema: Some(schema), ..self }
    }
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
    /// Files that the model reads with the result; see [`attach`](Self::attach).
    pub files: CallFiles,
}

impl Invocation {
    /// Gives the model a file with the result: an image, a PDF, sound or a video. At most 16 files go with a result, and 20 MiB
    /// in all; what is more, or is not what its media type says, is left out, and the result says so in words. A plan and a
    /// document read no files, and a failure has none.
    pub fn attach(&self, file: NewAttachment) {
        self.files.0.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    }
}

/// The files of one call. Clones share them.
#[derive(Clone, Default)]
pub struct CallFiles(Arc<Mutex<Vec<NewAttachment>>>);

impl CallFiles {
    /// Takes the files out.
    pub(crate) fn take(&self) -> ResultFiles {
        let mut files = ResultFiles::default();
        for file in std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)) {
            files.add(Some(&file.name), Some(&file.media_type), file.bytes);
        }
        files
    }
}

impl fmt::Debug for CallFiles {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.debug_list().entries(files.iter().map(|file| &file.name)).finish()
    }
}

/// Why a call has no result.
///
/// The engine decides by [`received`](Self::received) whether it may try again. Any error converts into one of a call that
/// may have been received, which is the safe assumption: the engine repeats it only if the tool's class allows that, and asks
/// a person otherwise. (So that `?` works in a tool, this type is not an error of the standard library itself.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    /// What went wrong.
    pub message: String,
    /// Whether the receiver may have acted.
    pub received: Received,
    /// Whether another attempt could help.
    pub transient: bool,
}

impl ToolError {
    /// The receiver declined the call, or the arguments make no sense to it: nothing happened, and another attempt would not
    /// help. The run sees the failure `tool_failed` with this message.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { message: message.into(), received: Received::No, transient: false }
    }

    /// The receiver was not reached: nothing happened, and the engine may try again.
    pub fn not_received(message: impl Into<String>) -> Self {
        Self { message: message.into(), received: Received::No, transient: true }
    }

    /// The call may have been received, as after a lost connection. The engine tries again only if the tool's class
    /// allows it.
    pub fn possibly_received(message: impl Into<String>) -> Self {
        Self { message: message.into(), received: Received::Possibly, transient: true }
    }

    /// The code of the failure that the run sees.
    pub(crate) const fn code(&self) -> FailureCode {
        match (self.received, self.transient) {
            (Received::No, false) => FailureCode::ToolFailed,
            _ => FailureCode::Unavailable,
        }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl<E: Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::possibly_received(describe(&error))
    }
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

/// How a tool is called outside of a run.
#[derive(Debug, Clone)]
pub struct ToolCallOptions {
    /// The longest that the call may take. 30 seconds by default, as in a run; a server's own limit counts as well.
    pub timeout: Duration,
    /// Whose memory the memory tools use, and for which tenant the call is.
    pub place: MemoryPlace,
    /// What a declarative tool reads as `user`, an object; empty by default.
    pub user: Value,
}

impl Default for ToolCallOptions {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), place: MemoryPlace::default(), user: json!({}) }
    }
}

/// Whose memory is meant. By default that of the workspace, for the tenant of a run that names none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryPlace {
    /// How far it is shared; as the agent's file says when absent, else within the workspace.
    pub scope: Option<Scope>,
    /// The tenant.
    pub tenant: Option<String>,
    /// The agent; the scopes `agent` and `session` need it.
    pub agent: Option<AgentName>,
    /// The session; the scope `session` needs it.
    pub session: Option<String>,
}
