//! The ways in which asking a server goes wrong.

use std::fmt;

use dalsegno_core::Received;
use rmcp::model::ErrorData;

use crate::denial::Denial;

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

/// Why a call was not answered with a result.
#[derive(Clone, Debug)]
pub struct CallError {
    /// What happened.
    pub kind: CallErrorKind,
    /// Whether the server may have acted on the request.
    pub received: Received,
    /// The server, as its configuration names it.
    pub server: String,
    /// What happened, in words.
    pub message: String,
    /// The end of the server's standard error, at most 4 KiB, without control characters. Empty for an address.
    pub stderr: String,
    /// What a server in the sandbox was refused meanwhile, the latest 32. Other calls of the same instance may have caused
    /// some of it.
    pub denials: Vec<Denial>,
}

impl fmt::Display for CallError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "tool server `{}`: {}", self.server, self.message)
    }
}

impl std::error::Error for CallError {}

/// A failed request, with what is known about it.
#[derive(Debug)]
pub struct Failed {
    /// Why it failed.
    pub failure: Failure,
    /// Whether the server may have acted on it.
    pub received: Received,
    /// The end of the server's standard error.
    pub stderr: String,
    /// What the server was refused meanwhile.
    pub denials: Vec<Denial>,
}

impl Failed {
    /// A failure of a request, without more that is known about it.
    pub fn new(failure: Failure, received: Received) -> Self {
        Self { failure, received, stderr: String::new(), denials: Vec::new() }
    }

    /// A failure before anything was sent.
    pub fn unsent(failure: Failure) -> Self {
        Self::new(failure, Received::No)
    }

    /// The error of a call to this server.
    pub fn at(self, server: &str) -> CallError {
        let Self { failure, received, stderr, denials } = self;
        let Failure { kind, message } = failure;
        CallError { kind, received, server: server.to_owned(), message, stderr, denials }
    }
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
