//! The event stream of AWS: events in binary frames, each with checksums.
//!
//! A frame says first how long it is and how long its headers are. Both are bounded before the rest is waited for. An event
//! becomes the JSON object that AWS describes as the union of all events, so that it is read like an event of any other wire:
//! `{"messageStart":{"role":"assistant"}}`.

use aws_smithy_eventstream::frame::read_message_from;
use aws_smithy_types::event_stream::Message;
use serde_json::{Value, json};

use super::failure::protocol;
use crate::model::ModelError;

/// The name under which an exception becomes an event.
pub(super) const EXCEPTION: &str = "exception";

/// The bytes by which a frame says how long it is.
const LENGTHS: usize = 8;

/// The bytes of a frame that has neither headers nor a payload: both lengths and two checksums.
const SHORTEST: u32 = 16;

/// Most bytes of a frame: those that AWS allows a payload and headers.
const LONGEST: u32 = (16 << 20) + LONGEST_HEADERS;

/// Most bytes of a frame's headers.
const LONGEST_HEADERS: u32 = 128 << 10;

/// Cuts a stream of bytes into events.
#[derive(Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    /// Where the next frame begins.
    next: usize,
}

impl Frames {
    /// Takes the next bytes. They are as many as the caller allows a response to have.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.next);
        self.next = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next event that is whole.
    pub(super) fn event(&mut self) -> Result<Option<String>, ModelError> {
        let rest = &self.bytes[self.next..];
        let Some((lengths, _)) = rest.split_at_checked(LENGTHS) else { return Ok(None) };
        let length =
            |at: usize| u32::from_be_bytes([lengths[at], lengths[at + 1], lengths[at + 2], lengths[at + 3]]);
        let (total, headers) = (length(0), length(4));
        if !(SHORTEST..=LONGEST).contains(&total) || headers > LONGEST_HEADERS {
            return Err(garbled(&format!("a frame of {total} bytes with {headers} bytes of headers")));
        }
        let total = usize::try_from(total).unwrap_or(usize::MAX);
        let Some(frame) = rest.get(..total) else { return Ok(None) };
        let message = read_message_from(frame).map_err(|error| garbled(&error.to_string()))?;
        self.next += total;
        event(&message).map(Some)
    }
}

fn garbled(what: &str) -> ModelError {
    protocol(format!("the answer is not a stream of events of AWS: {what}; check `base_url`"))
}

/// An event as JSON. What is no JSON in it is for the reader of events to refuse.
fn event(message: &Message) -> Result<String, ModelError> {
    let header = |name: &str| {
        let value = message.headers().iter().find(|header| header.name().as_str() == name)?.value();
        value.as_string().ok().map(|text| text.as_str().to_owned())
    };
    let payload = std::str::from_utf8(message.payload()).map_err(|_| garbled("an event is not in UTF-8"))?;
    let said = || serde_json::from_str(payload).unwrap_or_else(|_| Value::from(payload));
    let exception =
        |code: Option<String>, said: Value| json!({ EXCEPTION: { "code": code, "said": said } }).to_string();
    match header(":message-type").as_deref() {
        Some("event") => {
            let name = Value::from(header(":event-type").unwrap_or_default());
            Ok(format!("{{{name}:{}}}", if payload.is_empty() { "{}" } else { payload }))
        }
        Some("exception") => Ok(exception(header(":exception-type"), said())),
        Some("error") => {
            Ok(exception(header(":error-code"), header(":error-message").map_or_else(said, Value::from)))
        }
        _ => Err(garbled("a frame that is neither an event nor an exception")),
    }
}

#[cfg(test)]
mod tests;
