//! The ways in which asking a server goes wrong.

use rmcp::model::ErrorData;

/// The ways in which a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallErrorKind {
    /// The server could not be started or reached, or the handshake failed.
    Start,
    /// The address may not be reached: it is not public, or not what it was. Of servers behind an address only.
    Denied,
    /// The server wants to know who asks, or does not allow it. Of servers behind an address only.
    Unauthorized,
    /// No answer came in time. A guest's instance was ended.
    Timeout,
    /// The guest trapped: unreachable code, a bad memory access, its stack used up.
    Trap,
    /// The guest or the process exited before it answered.
    Exited,
    /// The guest wanted more memory than its limit.
    OutOfMemory,
    /// The server's answer is longer than its limit.
    OutputTooLarge,
    /// The server said something that is not the protocol.
    Protocol,
    /// The server does not offer this tool, or configuration does not.
    UnknownTool,
    /// The server answered with a JSON-RPC error.
    Refused {
        /// Its code, such as -32602 for invalid parameters.
        code: i32,
    },
    /// The server made the call a task and ended that before it was done.
    Cancelled,
    /// The server does not know the task (any more) that it made of the call, or does not tell of it.
    TaskLost,
    /// The connection was lost, or was ended by its owner or by another call.
    Closed,
    /// No instance and no place among the calls at once became free in time.
    Overloaded,
}

/// Whether a request reached its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Certainly not: nothing of it was sent or read, or the receiver said that it did not take it.
    No,
    /// It may have been received, and may have been acted upon.
    Possibly,
}

/// Why a connection ended or a request failed. The first cause wins; what follows from it is not reported.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What happened.
    pub kind: CallErrorKind,
    /// What happened, in words.
    pub message: String,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: CallErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// An answer that is not the protocol, or breaks a bound.
    pub fn unusable(message: &str) -> Self {
        Self::new(CallErrorKind::Protocol, format!("the server cannot be used: {message}"))
    }
}

/// The failure of a request that the server answered with a JSON-RPC error.
pub fn refusal(error: &ErrorData) -> Failure {
    Failure::new(
        CallErrorKind::Refused { code: error.code.0 },
        format!("the server refused the request: {} ({})", error.message, error.code.0),
    )
}

/// Text of another party without what a terminal would obey; line breaks and tabs stay.
pub fn printable(text: &str) -> String {
    let keep = |letter: char| letter == '\n' || letter == '\t' || !letter.is_control();
    text.chars().map(|letter| if keep(letter) { letter } else { '\u{fffd}' }).collect()
}
