//! The frames that are sent.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use dalsegno_core::OperationId;
use serde::Serialize;
use serde_json::{Value, json};

use crate::dialogue::Item;
use crate::session::Tool;

/// What a session is told of itself.
#[derive(Serialize)]
struct OfSession<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_modalities: Option<[&'static str; 1]>,
    instructions: &'a str,
    tools: Vec<Function<'a>>,
    tool_choice: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    audio: Option<Value>,
}

#[derive(Serialize)]
struct Function<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a dalsegno_core::OrderedJson,
}

impl<'a> OfSession<'a> {
    fn new(instructions: Option<&'a str>, tools: &'a [Tool]) -> Self {
        let tools = tools.iter().map(|tool| Function {
            r#type: "function",
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.parameters,
        });
        Self {
            r#type: "realtime",
            model: None,
            output_modalities: None,
            instructions: instructions.unwrap_or_default(),
            tools: tools.collect(),
            tool_choice: "auto",
            audio: None,
        }
    }
}

/// How the caller and the live model are heard in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    /// Both write.
    Text,
    /// By telephone at the provider, as the call was answered.
    AsAnswered,
    /// Their sound passes through here, as telephones carry it.
    PassedOn,
}

/// The form of sound that telephones carry: µ-law, 8,000 bytes a second.
const TELEPHONE: &str = "audio/pcmu";

/// What is settled of the sound of a session: what the caller says is written down, and the provider hears when a turn ends.
fn audio() -> Value {
    json!({
        "input": {
            "transcription": { "model": "gpt-4o-mini-transcribe" },
            "turn_detection": { "type": "server_vad", "create_response": true, "interrupt_response": true },
        },
    })
}

/// How the live model is to behave from here on. What it speaks with stays as the call was answered.
pub(crate) fn session(event_id: &str, instructions: Option<&str>, tools: &[Tool], voice: Voice) -> String {
    #[derive(Serialize)]
    struct Update<'a> {
        r#type: &'static str,
        event_id: &'a str,
        session: OfSession<'a>,
    }
    let (output_modalities, audio) = match voice {
        Voice::Text => (Some(["text"]), None),
        Voice::AsAnswered => (None, None),
        Voice::PassedOn => {
            let mut audio = audio();
            for way in ["input", "output"] {
                audio[way]["format"] = json!({ "type": TELEPHONE });
            }
            (Some(["audio"]), Some(audio))
        }
    };
    let session = OfSession { output_modalities, audio, ..OfSession::new(instructions, tools) };
    let update = Update { r#type: "session.update", event_id, session };
    // Keys are texts, and no value can fail.
    serde_json::to_string(&update).unwrap_or_default()
}

/// With what a telephone call is answered: the session that begins then.
pub(crate) fn acceptance(model: &str, instructions: &str, tools: &[Tool]) -> String {
    let (model, output_modalities) = (Some(model), Some(["audio"]));
    let own = OfSession::new(Some(instructions), tools);
    let session = OfSession { model, output_modalities, audio: Some(audio()), ..own };
    serde_json::to_string(&session).unwrap_or_default()
}

/// A change of the session that changes nothing: whether the provider acknowledges it shows whether it is there.
pub(crate) fn probe(event_id: &str) -> String {
    json!({ "type": "session.update", "event_id": event_id, "session": { "type": "realtime" } }).to_string()
}

/// An item for the conversation.
pub(crate) fn item(event_id: &str, item_id: &str, item: &Item) -> String {
    let message = |role: &str, kind: &str, text: &str| json!({ "id": item_id, "type": "message", "role": role, "content": [{ "type": kind, "text": text }] });
    let item = match item {
        Item::Caller(text) => message("user", "input_text", text),
        Item::Agent(text) => message("assistant", "output_text", text),
        Item::Note(text) => message("system", "input_text", text),
        Item::Call { call_id, name, arguments } => json!({
            "id": item_id, "type": "function_call", "status": "completed",
            "call_id": call_id, "name": name, "arguments": arguments,
        }),
        Item::Output { call_id, content } => {
            json!({ "id": item_id, "type": "function_call_output", "call_id": call_id, "output": content })
        }
    };
    json!({ "type": "conversation.item.create", "event_id": event_id, "item": item }).to_string()
}

/// A wish for a response, for a command.
pub(crate) fn respond(command: OperationId, instructions: Option<&str>, tools: bool) -> String {
    let id = command.to_string();
    let mut response = json!({ "metadata": { "command": &id } });
    set(&mut response, "instructions", instructions.map(Value::from));
    set(&mut response, "tool_choice", (!tools).then(|| "none".into()));
    json!({ "type": "response.create", "event_id": &id, "response": response }).to_string()
}

/// A wish for the response to the caller's words.
pub(crate) fn turn(event_id: &str) -> String {
    let response = json!({ "metadata": { "turn": event_id } });
    json!({ "type": "response.create", "event_id": event_id, "response": response }).to_string()
}

/// Ends the response that is active.
pub(crate) fn cancel(event_id: &str, response: Option<&str>) -> String {
    let mut cancel = json!({ "type": "response.cancel", "event_id": event_id });
    set(&mut cancel, "response_id", response.map(Value::from));
    cancel.to_string()
}

/// Sound of the caller, in base64.
pub(crate) fn sound(payload: &str) -> String {
    json!({ "type": "input_audio_buffer.append", "audio": payload }).to_string()
}

/// The caller has heard this much of what the live model said in an item, in milliseconds, and will hear no more of it.
pub(crate) fn truncate(event_id: &str, item: &str, content: u64, heard_ms: u64) -> String {
    json!({
        "type": "conversation.item.truncate", "event_id": event_id, "item_id": item, "content_index": content,
        "audio_end_ms": heard_ms,
    })
    .to_string()
}

fn set(object: &mut Value, key: &str, value: Option<Value>) {
    if let (Some(object), Some(value)) = (object.as_object_mut(), value) {
        object.insert(key.into(), value);
    }
}
