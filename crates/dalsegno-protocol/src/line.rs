//! Lines of JSON-RPC.

use rmcp::RoleClient;
use rmcp::service::RxJsonRpcMessage;

use crate::failure::{CallErrorKind, Failure, printable};

/// The most requests of a server that wait for our answer: it asks its client rarely, and one thing at a time.
pub const UNANSWERED_MAX: usize = 64;

/// Understands a line that a server wrote. `Ok(None)` is a line that says nothing to us.
///
/// # Errors
///
/// When the line is not JSON-RPC. The message shows its beginning.
pub fn parse_line(line: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleClient>>, Failure> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    match serde_json::from_slice(line) {
        Ok(message) => Ok(Some(message)),
        // A notification of another revision of the protocol is none of our business.
        Err(_) if is_notification(line) => Ok(None),
        Err(error) => Err(garbage(line, &error)),
    }
}

fn is_notification(line: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(line).is_ok_and(|value| {
        value.get("id").is_none() && value.get("method").is_some_and(serde_json::Value::is_string)
    })
}

fn garbage(line: &[u8], error: &serde_json::Error) -> Failure {
    let shown: String = printable(&String::from_utf8_lossy(line)).chars().take(SHOWN_CHARS).collect();
    let message = format!(
        "the server wrote a line that is not JSON-RPC ({error}): `{shown}`; standard output belongs to the protocol, \
         logs go to standard error"
    );
    Failure::new(CallErrorKind::Protocol, message)
}

/// How much of a strange line an error shows.
const SHOWN_CHARS: usize = 80;
