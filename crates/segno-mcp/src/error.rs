//! What can go wrong when a server is asked.

use std::fmt;

/// Why a server did not answer with a result.
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
    /// What a child process wrote last to its standard error, at most 4 KiB, without control characters.
    pub stderr: String,
}

impl fmt::Display for CallError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "tool server `{}`: {}", self.server, self.message)
    }
}

impl std::error::Error for CallError {}

/// The ways in which a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallErrorKind {
    /// The process could not be started, the address not be reached, or the handshake failed.
    Start,
    /// The address may not be reached: it is not public, or not what it was.
    Denied,
    /// The server wants to know who asks, or does not allow it.
    Unauthorized,
    /// No answer came in time.
    Timeout,
    /// The process exited before it answered.
    Exited,
    /// A message of the server is longer than its limit.
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
    /// The connection was lost, or was ended by its owner.
    Closed,
}

/// Whether a request reached its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Certainly not: nothing of it was sent, or the receiver said that it did not take it.
    No,
    /// It may have been received, and may have been acted upon.
    Possibly,
}

/// Why a connection ended or a request failed. The first cause wins; what follows from it is not reported.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: CallErrorKind,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(kind: CallErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// A failed request, with what there is to know about it.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    pub(crate) received: Received,
    pub(crate) stderr: String,
}

impl Failed {
    /// A failure before anything was sent.
    pub(crate) fn unsent(kind: CallErrorKind, message: impl Into<String>) -> Self {
        Self { failure: Failure::new(kind, message), received: Received::No, stderr: String::new() }
    }
}

/// Text of another party in one line of a message: control characters are written out.
pub(crate) fn printable(text: &str) -> String {
    let keep = |letter: char| letter == '\n' || letter == '\t' || !letter.is_control();
    text.chars().map(|letter| if keep(letter) { letter } else { '\u{fffd}' }).collect()
}
