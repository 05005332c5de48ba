//! What the documented API takes of a client.

use serde_json::{Value, json};

use super::{Out, Refusal, Served};

impl Served {
    /// Looks whether a frame is one that the documented API takes.
    pub(super) fn judge(&self, frame: &Value) -> Result<(), Refusal> {
        let wrong = |what: &str| Err(("invalid_value", what.to_owned()));
        if frame["event_id"].as_str().is_some_and(|id| id.len() > 512) {
            return wrong("event_id is too long");
        }
        match frame["type"].as_str() {
            Some("session.update") => {
                if frame["session"]["type"] != "realtime" {
                    return wrong("session.type must be realtime");
                }
                let audio = &frame["session"]["audio"];
                let is_sound = frame["session"]["output_modalities"] == json!(["audio"]);
                if is_sound
                    && matches!(self.out, Out::Socket(_))
                    && !["audio/pcmu", "audio/pcm"].iter().any(|kind| {
                        ["input", "output"].iter().all(|way| audio[way]["format"]["type"] == *kind)
                    })
                {
                    return wrong("session.audio: both formats must be the same one that is known");
                }
                for tool in frame["session"]["tools"].as_array().into_iter().flatten() {
                    let name = tool["name"].as_str().unwrap_or_default();
                    let inside = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
                    if tool["type"] != "function"
                        || name.is_empty()
                        || name.len() > 64
                        || !name.chars().all(inside)
                    {
                        return wrong("tools[].name");
                    }
                }
                Ok(())
            }
            Some("conversation.item.create") => self.judge_item(&frame["item"]),
            Some("conversation.item.truncate") => {
                let made = self
                    .sound
                    .as_ref()
                    .and_then(|sound| sound.made.get(frame["item_id"].as_str().unwrap_or_default()));
                match (made, frame["audio_end_ms"].as_u64()) {
                    (None, _) => wrong("item_id is no item that was spoken"),
                    (Some(_), None) => wrong("audio_end_ms"),
                    (Some(made), Some(end)) if end > *made => wrong("audio_end_ms is after the end"),
                    (Some(_), Some(_)) => Ok(()),
                }
            }
            Some("response.create") => match &self.active {
                Some(active) => Err((
                    "conversation_already_has_active_response",
                    format!("Conversation already has an active response in progress: {}.", active.id),
                )),
                None => Ok(()),
            },
            Some("response.cancel") if self.active.is_none() => Err((
                "response_cancel_not_active",
                "Cancellation failed: no active response found".to_owned(),
            )),
            Some("response.cancel") => Ok(()),
            _ => Err(("invalid_event", "unknown type of event".to_owned())),
        }
    }

    fn judge_item(&self, item: &Value) -> Result<(), Refusal> {
        let wrong = |what: &str| Err(("invalid_value", what.to_owned()));
        let book = self.shared.book();
        let items = self.items(&book);
        let is_there = |key: &str, kind: &str, value: &Value| {
            items.iter().any(|item| {
                item["type"].as_str().is_some_and(|it| it.starts_with(kind)) && item[key] == *value
            })
        };
        if let Some(id) = item["id"].as_str() {
            if id.len() > 32 {
                return wrong("item.id has more than 32 characters");
            }
            if is_there("id", "", &item["id"]) {
                return Err(("item_already_exists", format!("An item with id '{id}' already exists.")));
            }
        }
        match item["type"].as_str() {
            Some("message") => {
                let kind = match item["role"].as_str() {
                    Some("user" | "system") => "input_text",
                    Some("assistant") => "output_text",
                    _ => return wrong("item.role"),
                };
                match item["content"].as_array() {
                    Some(parts)
                        if parts.iter().all(|part| part["type"] == kind && part["text"].is_string()) =>
                    {
                        Ok(())
                    }
                    _ => wrong("item.content"),
                }
            }
            Some("function_call") => {
                let is_whole = ["call_id", "name", "arguments"].iter().all(|key| item[*key].is_string());
                if is_whole { Ok(()) } else { wrong("item") }
            }
            Some("function_call_output") => {
                if !item["output"].is_string() {
                    return wrong("item.output");
                }
                let answered = items.iter().any(|other| {
                    other["type"] == "function_call_output" && other["call_id"] == item["call_id"]
                });
                let called = items
                    .iter()
                    .any(|other| other["type"] == "function_call" && other["call_id"] == item["call_id"]);
                match (called, answered) {
                    (true, false) => Ok(()),
                    (true, true) => Err(("output_given_before", "the call has an output".to_owned())),
                    (false, _) => {
                        Err(("invalid_tool_call_id", "Tool call ID not found in conversation.".to_owned()))
                    }
                }
            }
            _ => wrong("item.type"),
        }
    }
}
