//! A model of the workspace in the place of a live model: frames of the Realtime API in, frames out.
//!
//! It reads no clock and asks no model: its driver says what time it is, asks what [`Player::take`] wishes, and says what came of
//! it. A reply is "spoken": its words come one after the other, and until the last of them the response is active, so that the
//! caller can interrupt it. What the reply asks for comes once the reply is whole, and from no other.

use std::collections::VecDeque;

use dalsegno_core::{CallRequest, LiveTokens, ModelReply, ReplyPart, StopReason, Transcript};
use serde_json::{Value, json};

use super::past::Past;

/// What a model is to be asked.
#[derive(Debug)]
pub(super) struct Question {
    /// What it reads.
    pub(super) transcript: Transcript,
    /// Whether it may call tools.
    pub(super) tools: bool,
}

/// What the driver is to do.
#[derive(Debug)]
pub(super) enum Wish {
    /// Ask the model.
    Ask(Box<Question>),
    /// Break off what the model was asked.
    Drop,
}

/// A response that is under way.
#[derive(Debug)]
struct Response {
    id: String,
    metadata: Value,
    /// The tokens of what the model reads, by estimate.
    input_tokens: u64,
    /// The attempt that the words are of: a later one voids them.
    attempt: u32,
    /// The words that have arrived.
    text: String,
    /// How many bytes of them were spoken.
    spoken: usize,
    /// When the next word may be spoken.
    next_word: u64,
    /// The reply, once it is whole, and the ids of its calls in the call.
    whole: Option<(ModelReply, Vec<String>)>,
}

/// A model that plays the live model of one session. Times are milliseconds of a clock that its driver chooses.
#[derive(Debug)]
pub(super) struct Player {
    /// What its ids begin with: no other session of the call has the same.
    tag: String,
    /// How long a word takes, in milliseconds.
    word_ms: u64,
    instructions: String,
    past: Past,
    active: Option<Response>,
    /// What was said or done during the response: the model reads it after its own words.
    meanwhile: Vec<Value>,
    responses: u64,
    calls: u64,
    frames: VecDeque<String>,
    /// Words that were spoken since the driver took them.
    spoken: Vec<String>,
}

impl Player {
    pub(super) fn new(tag: String, word_ms: u64) -> Self {
        let created = json!({ "type": "session.created", "session": { "id": &tag, "type": "realtime" } });
        Self {
            tag,
            word_ms,
            instructions: String::new(),
            past: Past::default(),
            active: None,
            meanwhile: Vec::new(),
            responses: 0,
            calls: 0,
            frames: VecDeque::from([created.to_string()]),
            spoken: Vec::new(),
        }
    }

    /// The next frame.
    pub(super) fn next_frame(&mut self) -> Option<String> {
        self.frames.pop_front()
    }

    /// The words that were spoken since this was asked last, each with the space after it.
    pub(super) fn take_spoken(&mut self) -> Vec<String> {
        std::mem::take(&mut self.spoken)
    }

    fn send(&mut self, frame: &Value) {
        self.frames.push_back(frame.to_string());
    }

    /// Takes a frame of the session.
    pub(super) fn take(&mut self, now: u64, frame: &str) -> Option<Wish> {
        let frame: Value = serde_json::from_str(frame).ok()?;
        let event = frame["event_id"].as_str().unwrap_or_default();
        match frame["type"].as_str()? {
            "session.update" => {
                if let Some(instructions) = frame["session"]["instructions"].as_str() {
                    instructions.clone_into(&mut self.instructions);
                }
                self.send(&json!({ "type": "session.updated" }));
                None
            }
            "conversation.item.create" => {
                match self.active {
                    Some(_) => self.meanwhile.push(frame["item"].clone()),
                    None => self.put(&frame["item"]),
                }
                self.send(&json!({ "type": "conversation.item.added", "item": frame["item"] }));
                None
            }
            "response.create" if self.active.is_some() => {
                self.refuse(event, "conversation_already_has_active_response", "a response is active");
                None
            }
            "response.create" => Some(self.respond(now, &frame["response"])),
            "response.cancel" if self.active.is_none() => {
                self.refuse(event, "response_cancel_not_active", "no response is active");
                None
            }
            "response.cancel" => {
                self.cut_off("cancelled");
                Some(Wish::Drop)
            }
            _ => None,
        }
    }

    fn refuse(&mut self, event: &str, code: &str, message: &str) {
        let error =
            json!({ "type": "invalid_request_error", "code": code, "message": message, "event_id": event });
        self.send(&json!({ "type": "error", "error": error }));
    }

    /// Puts an item into what was said and done.
    fn put(&mut self, item: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let words = text(&item["content"][0]["text"]);
        match (item["type"].as_str(), item["role"].as_str()) {
            (Some("message"), Some("user")) => self.past.heard(words),
            (Some("message"), Some("assistant")) => self.past.said(words),
            (Some("message"), Some("system")) => self.past.note(&words),
            (Some("function_call"), _) => {
                self.past.asked(text(&item["call_id"]), text(&item["name"]), text(&item["arguments"]));
            }
            (Some("function_call_output"), _) => {
                self.past.output(text(&item["call_id"]), text(&item["output"]));
            }
            _ => {}
        }
    }

    /// Begins a response.
    fn respond(&mut self, now: u64, wish: &Value) -> Wish {
        self.responses += 1;
        let id = format!("response-{}-{}", self.tag, self.responses);
        // What it is told for this response comes below the instructions of the session.
        let told = wish["instructions"].as_str();
        let told = told.map(|told| told.strip_prefix(self.instructions.as_str()).unwrap_or(told).trim());
        let transcript: Transcript = self.past.read(&self.instructions, told).into_iter().collect();
        let metadata = wish["metadata"].clone();
        self.send(&json!({ "type": "response.created", "response": { "id": &id, "metadata": &metadata } }));
        self.active = Some(Response {
            id,
            metadata,
            input_tokens: transcript.tokens(),
            attempt: 0,
            text: String::new(),
            spoken: 0,
            next_word: now,
            whole: None,
        });
        Wish::Ask(Box::new(Question { transcript, tools: wish["tool_choice"] != "none" }))
    }

    /// Words of the reply have arrived.
    pub(super) fn hear(&mut self, now: u64, attempt: u32, words: &str) {
        let Some(active) = self.active.as_mut().filter(|active| active.whole.is_none()) else { return };
        if attempt < active.attempt {
            return;
        }
        if attempt > active.attempt {
            // What the attempt before it said is void.
            active.attempt = attempt;
            active.text.truncate(active.spoken);
            if active.spoken > 0 {
                active.text.push_str(" … ");
            }
        }
        active.text.push_str(words);
        self.tick(now);
    }

    /// The reply is whole, or there is none.
    pub(super) fn replied(&mut self, now: u64, reply: Result<ModelReply, String>) {
        let reply = match reply {
            Ok(reply) => reply,
            Err(reason) => return self.failed(&reason),
        };
        let Some(active) = &mut self.active else { return };
        let text = reply.text();
        if !text.starts_with(&active.text[..active.spoken]) {
            // Nothing of what was spoken is in the reply: it begins anew.
            active.spoken = 0;
        }
        active.text = text;
        let is_whole = matches!(reply.stop, StopReason::End | StopReason::ToolCalls);
        let response = active.id.clone();
        let mut ids = Vec::new();
        // What was cut off or withheld asks for nothing.
        let asked: Vec<CallRequest> = reply.calls().filter(|_| is_whole).cloned().collect();
        for CallRequest { name, arguments, .. } in asked {
            self.calls += 1;
            let call_id = format!("call-{}-{}", self.tag, self.calls);
            let item = json!({
                "id": format!("item-{call_id}"), "type": "function_call", "status": "completed",
                "call_id": &call_id, "name": name, "arguments": arguments,
            });
            self.send(
                &json!({ "type": "response.output_item.done", "response_id": &response, "item": item }),
            );
            ids.push(call_id);
        }
        if let Some(active) = &mut self.active {
            active.whole = Some((reply, ids));
        }
        self.tick(now);
    }

    fn failed(&mut self, reason: &str) {
        let Some(active) = self.active.take() else { return };
        let error = json!({ "type": "server_error", "code": "model_failed", "message": reason });
        self.send(&json!({
            "type": "response.done",
            "response": { "id": &active.id, "status": "failed", "metadata": &active.metadata, "status_details": { "error": error } },
        }));
        self.ended(ModelReply::new(Vec::new(), StopReason::End), Vec::new());
    }

    /// A response has ended with this reply; what happened meanwhile comes after it.
    fn ended(&mut self, reply: ModelReply, ids: Vec<String>) {
        self.past.replied(reply, ids);
        for item in std::mem::take(&mut self.meanwhile) {
            self.put(&item);
        }
    }

    /// When the next word is to be spoken, or the response ends.
    pub(super) fn wakes_at(&self) -> Option<u64> {
        let active = self.active.as_ref()?;
        (active.whole.is_some() || active.word().is_some()).then_some(active.next_word)
    }

    /// Speaks the words that are due; after the last one the response ends.
    pub(super) fn tick(&mut self, now: u64) {
        while let Some(active) = &mut self.active {
            let Some(end) = active.word() else { break };
            if active.next_word > now {
                return;
            }
            let word = active.text[active.spoken..end].to_owned();
            active.spoken = end;
            // A driver that comes late keeps the pace; after a pause the pace begins anew.
            let is_late = now <= active.next_word.saturating_add(self.word_ms);
            active.next_word = if is_late { active.next_word } else { now } + self.word_ms;
            self.spoken.push(word);
        }
        if self.active.as_ref().is_some_and(|active| active.whole.is_some() && active.next_word <= now) {
            self.finish();
        }
    }

    /// All was said.
    fn finish(&mut self) {
        let Some(mut active) = self.active.take() else { return };
        let Some((reply, ids)) = active.whole.take() else { return };
        let status = match reply.stop {
            StopReason::End | StopReason::ToolCalls => "completed",
            StopReason::Length | StopReason::Refusal => "incomplete",
        };
        let usage = usage_of(&active, Some(&reply));
        if !active.text.is_empty() {
            let said = json!({ "type": "response.output_text.done", "response_id": &active.id, "text": active.text });
            self.send(&said);
        }
        let done = json!({ "id": &active.id, "status": status, "metadata": active.metadata, "usage": usage });
        self.send(&json!({ "type": "response.done", "response": done }));
        self.ended(without_calls(reply, &ids), ids);
    }

    /// Ends the response where it is.
    fn cut_off(&mut self, status: &str) {
        let Some(mut active) = self.active.take() else { return };
        let said = active.text[..active.spoken].trim_end().to_owned();
        let whole = active.whole.take();
        let usage = usage_of(&active, whole.as_ref().map(|(reply, _)| reply));
        let output = json!([{ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": &said }] }]);
        let done = json!({ "id": &active.id, "status": status, "metadata": active.metadata, "usage": usage, "output": output });
        self.send(&json!({ "type": "response.done", "response": done }));
        let (reply, ids) =
            whole.unwrap_or_else(|| (ModelReply::new(Vec::new(), StopReason::End), Vec::new()));
        self.ended(as_far_as_said(without_calls(reply, &ids), &said), ids);
    }

    /// What the active response has taken, for a call that ends now: its id and its tokens.
    pub(super) fn taken(&self) -> Option<(String, LiveTokens)> {
        let active = self.active.as_ref()?;
        let whole = active.whole.as_ref().map(|(reply, _)| reply);
        Some((active.id.clone(), tokens_of(active, whole)))
    }
}

impl Response {
    /// The end of the next word that has arrived whole.
    fn word(&self) -> Option<usize> {
        let rest = &self.text[self.spoken..];
        let mut is_in_word = false;
        for (place, character) in rest.char_indices() {
            match character.is_whitespace() {
                false if is_in_word && rest[..place].ends_with(char::is_whitespace) => {
                    return Some(self.spoken + place);
                }
                false => is_in_word = true,
                true => {}
            }
        }
        // The last one may not have arrived whole.
        let is_whole = self.whole.is_some() || rest.ends_with(char::is_whitespace);
        (is_whole && !rest.is_empty()).then_some(self.text.len())
    }
}

/// What a response took: as its provider counts, else by estimate.
fn tokens_of(active: &Response, reply: Option<&ModelReply>) -> LiveTokens {
    match reply {
        Some(reply) => LiveTokens {
            input: reply.input_tokens,
            output: reply.output_tokens,
            details: reply.details,
            estimated: reply.estimated,
            ..LiveTokens::default()
        },
        None => {
            let said = ModelReply::new(vec![ReplyPart::Text(active.text.clone())], StopReason::End);
            let (input, output) = (active.input_tokens, said.estimate_tokens());
            LiveTokens { input, output, estimated: true, ..LiveTokens::default() }
        }
    }
}

fn usage_of(active: &Response, reply: Option<&ModelReply>) -> Value {
    let LiveTokens { input, output, details, estimated, .. } = tokens_of(active, reply);
    json!({ "input_tokens": input, "output_tokens": output, "estimated": estimated, "details": details })
}

/// A reply that asked for nothing has no calls.
fn without_calls(mut reply: ModelReply, ids: &[String]) -> ModelReply {
    if ids.is_empty() {
        reply.parts.retain(|part| !matches!(part, ReplyPart::Call(_)));
    }
    reply
}

/// A reply of which the caller heard only this much.
fn as_far_as_said(mut reply: ModelReply, said: &str) -> ModelReply {
    let place = reply.parts.iter().position(|part| matches!(part, ReplyPart::Text(_)));
    reply.parts.retain(|part| !matches!(part, ReplyPart::Text(_)));
    if !said.is_empty() {
        let place = place.unwrap_or_default().min(reply.parts.len());
        reply.parts.insert(place, ReplyPart::Text(format!("{said} […]")));
    }
    reply
}

#[cfg(test)]
mod tests;
