//! What a model is asked, and what it may answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dalsegno_core::{
    Digest, FailureCode, JsonSchema, ModelReply, ModelSettings, OperationId, ToolChoice, Toolbox, Transcript,
};

/// What a model is asked.
#[derive(Debug, Clone)]
pub struct CompletionRequest {
    /// Which model, and how it is asked.
    pub settings: ModelSettings,
    /// All that the model reads, as [`Transcript::view`] gives it. A clone shares the entries.
    pub transcript: Transcript,
    /// The bytes of the attachments that the transcript names.
    pub attachments: Arc<BTreeMap<Digest, Arc<[u8]>>>,
    /// The tools that the model is told of, and the schemas by which its calls are judged.
    pub tools: Arc<Toolbox>,
    /// Whether the model may call tools.
    pub tool_choice: ToolChoice,
    /// JSON Schema of the answer, where a structured one is wanted. The reply's text is judged by it.
    pub output_schema: Option<Arc<JsonSchema>>,
    /// The operation that this request performs; the same for all its attempts.
    pub operation: OperationId,
    /// The number of this attempt, counted from 1.
    pub attempt: u32,
}

/// Takes the text of a reply while it arrives.
///
/// Deltas are ephemeral: a failed attempt may have sent some, and the reply stands on its own. `()` ignores them.
pub trait DeltaSink: Send + Sync {
    /// Takes the next piece of text.
    fn text(&self, delta: &str);
}

impl DeltaSink for () {
    fn text(&self, _delta: &str) {}
}

/// A model of some provider.
///
/// One call is one attempt: repeats, backoff and the time limit of an attempt belong to the caller, which may drop
/// the future at any await point.
#[async_trait]
pub trait Model: Send + Sync {
    /// Asks for a reply and judges it: each call, and the text where an `output_schema` is given. Text goes to `sink` while it arrives.
    ///
    /// # Errors
    /// Fails if there is no usable reply; [`ModelError::retry`] says whether asking again makes sense.
    async fn complete(
        &self,
        request: &CompletionRequest,
        sink: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelError>;

    /// The same model where its provider replies later, at a lower price; none if it only replies at once.
    fn later(&self) -> Option<&dyn Later> {
        None
    }
}

/// A model whose provider works requests off when it has room for them: within a day as a rule.
#[async_trait]
pub trait Later: Send + Sync {
    /// Hands a request over. Returns the provider's id for it, by which the reply is asked for, by any process.
    ///
    /// Where the provider can be asked for it, a request of the same operation that it still works on is found again instead.
    ///
    /// # Errors
    /// Fails if the provider did not take the request.
    async fn submit(&self, request: &CompletionRequest) -> Result<String, ModelError>;

    /// Asks for the reply, and judges it like [`Model::complete`]; none while the provider works on it.
    ///
    /// # Errors
    /// Says whether the provider cannot tell now, so that the reply may still come, or there will be no usable one.
    async fn collect(&self, request: &CompletionRequest, id: &str) -> Result<Option<ModelReply>, LaterError>;

    /// Tells the provider that the reply is not wanted any more. It may have worked on it, and is paid for that.
    ///
    /// # Errors
    /// Fails if the provider does not answer.
    async fn cancel(&self, id: &str) -> Result<(), ModelError>;
}

/// Why there is no reply of a model that replies later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaterError {
    /// The provider does not say how it stands: ask it again.
    #[error("it is not known how the request stands: {0}")]
    NotNow(ModelError),
    /// There will be none.
    #[error(transparent)]
    Ended(ModelError),
}

/// Why a model gave no usable reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// The kind of failure.
    pub kind: ModelErrorKind,
    /// What went wrong and what to do next, in words for whoever reads the trace.
    pub message: String,
    /// Whether asking again makes sense.
    pub retry: Retry,
    /// The name in the secret store of the key that is missing, if that is why: a person can put it there.
    pub missing_secret: Option<String>,
}

impl ModelError {
    /// An error of a kind, with what usually follows from that kind.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry: kind.retry(), missing_secret: None }
    }

    /// The same error with another answer to whether asking again makes sense.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }
}

/// The kinds of failure of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// It could not be reached, or it said at once that it cannot reply now: nothing was worked on.
    Unavailable,
    /// It was asked too often.
    RateLimited,
    /// It refused the request as such: wrong credentials, an unknown model, a request that it does not understand.
    Refused,
    /// It took the request, and what came of it cannot be used: no reply at all, half of one, or an error in its middle.
    /// It may have worked on it, so the attempt counts as paid for.
    Protocol,
    /// The request or the reply is larger than allowed.
    LimitExceeded,
}

impl ModelErrorKind {
    /// What usually follows: a condition that passes is worth another attempt, a wrong request is not.
    pub const fn retry(self) -> Retry {
        match self {
            Self::Unavailable | Self::RateLimited | Self::Protocol => Retry::Now,
            Self::Refused | Self::LimitExceeded => Retry::Never,
        }
    }

    /// The code under which a run records the failure.
    pub const fn code(self) -> FailureCode {
        match self {
            Self::Unavailable | Self::RateLimited => FailureCode::Unavailable,
            Self::Refused | Self::Protocol => FailureCode::Protocol,
            Self::LimitExceeded => FailureCode::LimitExceeded,
        }
    }
}

/// Whether asking again makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The same request fails again.
    Never,
    /// Yes, after the caller's own backoff.
    Now,
    /// Yes, but not before this time has passed: the provider asked for it.
    After(Duration),
}
