//! The fields of a workspace's own in the body of a request: what they may not set, and what they give way to.

use serde_json::{Map, Value};

use super::body::Body;
use super::{HttpModelError, Wire, anthropic, bedrock, chat, gemini, responses};

/// The fields that make up the request over some wire, refused over each: nobody means another one's.
const RESERVED: [&str; 8] =
    ["model", "messages", "input", "instructions", "system", "tools", "tool_choice", "stream"];

/// Refuses what makes up the request itself, at the top or below it.
pub(super) fn check(wire: Wire, extra: &Map<String, Value>) -> Result<(), HttpModelError> {
    for path in reserved(wire) {
        let (name, member) = path.split_once('.').unwrap_or((path, ""));
        let reserved = || HttpModelError::Reserved { name: path.to_owned() };
        match (extra.get(name), member) {
            (None, _) => {}
            (Some(_), "") => return Err(reserved()),
            (Some(Value::Object(members)), _) if members.contains_key(member) => return Err(reserved()),
            (Some(Value::Object(_)), _) => {}
            (Some(value), _) => {
                return Err(HttpModelError::NotAnObject { name: name.to_owned(), found: kind(value) });
            }
        }
    }
    Ok(())
}

/// Adds the fields that the request does not set. An object that it sets takes those members that it does not have.
pub(super) fn merge(wire: Wire, extra: &Map<String, Value>, body: &mut Body) {
    let is_limited = wire == Wire::OpenaiChat && chat::LIMITS.iter().any(|name| body.has(name));
    for (name, value) in extra {
        // The other name of the limit that is set.
        if !(is_limited && chat::LIMITS.contains(&name.as_str())) {
            body.add(name, value);
        }
    }
}

/// The fields that `extra` cannot set over a wire; after a dot, a member of one.
pub(super) fn reserved(wire: Wire) -> impl Iterator<Item = &'static str> {
    let own = match wire {
        Wire::OpenaiChat => chat::RESERVED,
        Wire::OpenaiResponses => responses::RESERVED,
        Wire::Anthropic => anthropic::RESERVED,
        Wire::Gemini => gemini::RESERVED,
        Wire::Bedrock => bedrock::RESERVED,
    };
    RESERVED.iter().chain(own).copied()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
