//! Lines of JSON-RPC.

use std::borrow::Cow;
use std::fmt;

use rmcp::RoleClient;
use rmcp::service::RxJsonRpcMessage;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::failure::{CallErrorKind, Failure, printable};
use crate::order::keep_order;

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
    match serde_json::from_slice(&keep_order(line)) {
        Ok(message) => Ok(Some(message)),
        // A notification of another revision of the protocol is none of our business.
        Err(_) if is_notification(line) => Ok(None),
        Err(error) => Err(garbage(line, &error)),
    }
}

/// Whether a text is a request that a server makes: a JSON object with a method and an id. Nothing of it is kept, and a key
/// that stands twice counts, since whoever reads the message may take either.
pub fn is_request(text: &str) -> bool {
    serde_json::from_str::<Shape>(text).is_ok_and(|shape| shape.has_method && shape.has_id)
}

/// The keys of a message that tell what it is.
#[derive(Default)]
struct Shape {
    has_method: bool,
    has_id: bool,
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Keys)
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Shape;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Shape, M::Error> {
        let mut shape = Shape::default();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            shape.has_method |= key == "method";
            shape.has_id |= key == "id";
            map.next_value::<IgnoredAny>()?;
        }
        Ok(shape)
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

#[cfg(test)]
mod tests {
    use super::is_request;

    #[test]
    fn whatever_could_be_answered_is_a_request() {
        for request in [
            r#"{"jsonrpc":"2.0","id":"f1","method":"ping"}"#,
            r#" {"id":1,"method":"ping","jsonrpc":"2.0","id":2} "#,
            r#"{"jsonrpc":"2.0","\u0069d":1,"meth\u006fd":"x"}"#,
        ] {
            assert!(is_request(request), "{request}");
        }
        for other in [
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"id":1}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"method":"x"}}"#,
            "[]",
            "",
        ] {
            assert!(!is_request(other), "{other}");
        }
    }
}
