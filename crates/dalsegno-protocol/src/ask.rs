//! One request at a time.

use rmcp::model::{ClientRequest, ServerCapabilities, ServerResult};

use crate::failure::Failure;

/// A server that can be asked. Whoever implements it bounds the time and the size of each answer.
pub trait Ask: Sync {
    /// Why there is no answer.
    type Error: Send;

    /// Sends a request and waits for its answer.
    fn ask(&self, request: ClientRequest) -> impl Future<Output = Result<ServerResult, Self::Error>> + Send;

    /// What the server said at the handshake that it can do.
    fn capabilities(&self) -> ServerCapabilities;

    /// The most bytes of a result that is made of several answers.
    fn output_limit(&self) -> usize;

    /// The error for an answer that cannot be used. The server has received what was asked.
    fn unusable(&self, failure: Failure) -> Self::Error;

    /// Whether the server refused a request because it does not know the method.
    fn is_unknown_method(error: &Self::Error) -> bool;
}
