//! A reply that comes as one document, as the events of a stream that would have brought it.

use serde_json::{Value, json};

use crate::http::Wire;

/// The data of the events.
pub(super) fn events(wire: Wire, reply: Value) -> Vec<String> {
    let events = match wire {
        Wire::OpenaiChat => vec![chunk(reply)],
        Wire::OpenaiResponses => vec![json!({ "type": "response.completed", "response": reply })],
        Wire::Anthropic => message(reply),
        Wire::Gemini | Wire::Bedrock => vec![reply],
    };
    let marker = (wire == Wire::OpenaiChat).then(|| "[DONE]".to_owned());
    events.iter().map(Value::to_string).chain(marker).collect()
}

/// A chunk of Chat Completions with all that a stream brings in pieces.
fn chunk(mut reply: Value) -> Value {
    for choice in reply["choices"].as_array_mut().into_iter().flatten() {
        let mut message = choice["message"].take();
        for (index, call) in message["tool_calls"].as_array_mut().into_iter().flatten().enumerate() {
            if call.is_object() {
                call["index"] = index.into();
            }
        }
        if choice.is_object() {
            choice["delta"] = message;
        }
    }
    reply
}

/// The events of a message of Anthropic. A block stands whole in the event that begins it.
fn message(mut reply: Value) -> Vec<Value> {
    let blocks = reply["content"].take();
    let blocks = blocks.as_array().into_iter().flatten().enumerate();
    let blocks = blocks.map(
        |(index, block)| json!({ "type": "content_block_start", "index": index, "content_block": block }),
    );
    let usage = reply["usage"].take();
    let first = [json!({ "type": "message_start", "message": {} })];
    let last = [
        json!({ "type": "message_delta", "delta": { "stop_reason": reply["stop_reason"] }, "usage": usage }),
        json!({ "type": "message_stop" }),
    ];
    first.into_iter().chain(blocks).chain(last).collect()
}
