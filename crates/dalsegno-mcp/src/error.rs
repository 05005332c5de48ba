//! What can go wrong when a server is asked.

use std::fmt;

use dalsegno_protocol::{CallErrorKind, Failure, Received};

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
