//! Events of AWS as bytes.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use serde_json::Value;

/// The media type of such a stream.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.amazon.eventstream";

/// One frame with these headers.
pub(crate) fn frame(headers: &[(&'static str, &str)], payload: &[u8]) -> Vec<u8> {
    let headers = headers
        .iter()
        .map(|(name, value)| Header::new(*name, HeaderValue::String((*value).to_owned().into())));
    let message = Message::new_from_parts(headers.collect(), payload.to_vec());
    let mut bytes = Vec::new();
    write_message_to(&message, &mut bytes).unwrap();
    bytes
}

/// An event, as Bedrock sends it.
pub(crate) fn event(name: &str, payload: &str) -> Vec<u8> {
    let headers = [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
    frame(&headers, payload.as_bytes())
}

/// An exception, as Bedrock sends it.
pub(crate) fn exception(name: &str, payload: &str) -> Vec<u8> {
    let headers =
        [(":exception-type", name), (":content-type", "application/json"), (":message-type", "exception")];
    frame(&headers, payload.as_bytes())
}

/// The event `{"name": payload}` as a frame.
pub(crate) fn of_json(event: &Value) -> Vec<u8> {
    match event.as_object().map(|event| event.iter().collect::<Vec<_>>()).as_deref() {
        Some([(name, payload)]) if *name == "exception" => {
            exception(payload["code"].as_str().unwrap(), &payload["said"].to_string())
        }
        Some([(name, payload)]) => self::event(name, &payload.to_string()),
        _ => self::event("contentBlockDelta", &event.to_string()),
    }
}

/// A stream that is written as lines: one frame for each `data:`, and the beginning of one for a last line without an end.
pub(crate) fn of_text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((line, after)) = rest.split_once("\n\n") {
        let data = line.trim_start_matches("data: ");
        bytes.extend(match serde_json::from_str(data) {
            Ok(json) => of_json(&json),
            Err(_) => event("contentBlockDelta", data),
        });
        rest = after;
    }
    let last = event("messageStart", rest);
    bytes.extend(&last[..rest.len().min(last.len() - 1)]);
    bytes
}
