//! The frames that are sent to a live model that hears while it speaks.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde::Serialize;
use serde_json::{Value, json};

use crate::session::Tool;

/// With what a telephone call is answered: the session that begins then. Another model works with the tools; without one, work is left to
/// us.
pub(super) fn acceptance(model: &str, backend: Option<&str>, instructions: &str, tools: &[Tool]) -> String {
    #[derive(Serialize)]
    struct Acceptance<'a> {
        session: OfSession<'a>,
    }
    #[derive(Serialize)]
    struct OfSession<'a> {
        r#type: &'static str,
        model: &'a str,
        instructions: &'a str,
        delegation: Delegation<'a>,
    }
    #[derive(Serialize)]
    struct Delegation<'a> {
        r#type: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        responses: Option<Backend<'a>>,
    }
    #[derive(Serialize)]
    struct Backend<'a> {
        model: &'a str,
        instructions: &'a str,
        tools: Vec<Function<'a>>,
    }
    #[derive(Serialize)]
    struct Function<'a> {
        r#type: &'static str,
        name: &'a str,
        description: &'a str,
        parameters: &'a dalsegno_core::OrderedJson,
        strict: bool,
    }
    let tools = tools.iter().map(|tool| Function {
        r#type: "function",
        name: &tool.name,
        description: &tool.description,
        parameters: &tool.parameters,
        strict: false,
    });
    let responses = backend.map(|model| Backend { model, instructions, tools: tools.collect() });
    let delegation =
        Delegation { r#type: if responses.is_some() { "responses" } else { "client" }, responses };
    let session = OfSession { r#type: "live", model, instructions, delegation };
    // Keys are texts, and no value can fail.
    serde_json::to_string(&Acceptance { session }).unwrap_or_default()
}

/// A change of the session that changes nothing. It is acknowledged after all that was sent before it was looked at.
pub(super) fn check(event_id: &str, is_ours: bool) -> String {
    let session = json!({ "delegation": { "type": if is_ours { "client" } else { "responses" } } });
    json!({ "type": "session.update", "event_id": event_id, "session": session }).to_string()
}

/// The output of a call, for the model that works with the tools.
pub(super) fn output(event_id: &str, call_id: &str, content: &str) -> String {
    item(event_id, &json!({ "type": "function_call_output", "call_id": call_id, "output": content }))
}

/// Something that the model must know that works with the tools.
pub(super) fn note(event_id: &str, text: &str) -> String {
    let content = [json!({ "type": "input_text", "text": text })];
    item(event_id, &json!({ "type": "message", "role": "developer", "content": content }))
}

fn item(event_id: &str, item: &Value) -> String {
    json!({ "type": "response.item.create", "event_id": event_id, "item": item }).to_string()
}

/// A wish for a response of the model that works with the tools.
pub(super) fn respond(event_id: &str) -> String {
    json!({ "type": "response.create", "event_id": event_id }).to_string()
}

/// Something for the live model to say in its own words, of work that it left to us.
pub(super) fn commentary(event_id: &str, delegation: Option<&str>, content: &str) -> String {
    told("session.commentary.append", event_id, delegation, content)
}

/// A key for the caller's line.
pub(super) fn key(event_id: &str, key: char) -> String {
    json!({ "type": "transport.dtmf.send", "event_id": event_id, "event": key.to_string() }).to_string()
}

/// Something for the live model to know.
pub(super) fn thinking(event_id: &str, content: &str) -> String {
    told("session.thinking.append", event_id, None, content)
}

fn told(kind: &str, event_id: &str, delegation: Option<&str>, content: &str) -> String {
    json!({ "type": kind, "event_id": event_id, "content": content, "delegation_id": delegation }).to_string()
}
