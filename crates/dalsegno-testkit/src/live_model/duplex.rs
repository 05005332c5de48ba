//! A call with a live model that hears while it speaks: the Live API as the types of its client library have it.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::session::with_last_call;
use super::{LiveAnswer, LiveKeys, Shared, calls, outputs};

/// Most bytes of what the live model is told at once. The provider counts 500 tokens.
const TOLD_BYTES: usize = 2_000;

/// How long it takes the caller to say something, with what follows from it.
const SECONDS: f64 = 15.0;

/// Why a frame is refused: the code and the words.
type Refusal = (&'static str, String);

/// The session of a call.
pub(super) struct Duplex {
    call: String,
    sockets: Vec<mpsc::UnboundedSender<Message>>,
    answers: VecDeque<LiveAnswer>,
    shared: Arc<Shared>,
    count: u32,
    tools: Vec<String>,
    /// Work is left to the client, and not to a model with tools.
    is_left_to_client: bool,
    /// A response that lasts until it is cancelled.
    active: Option<(String, LiveAnswer)>,
    attached: u32,
    /// How long it has lasted: a while for each thing that the caller says.
    seconds: f64,
}

impl Duplex {
    pub(super) fn new(call: &str, accepted: &Value, answers: Vec<LiveAnswer>, shared: Arc<Shared>) -> Self {
        let tools =
            accepted["session"]["delegation"]["responses"]["tools"].as_array().cloned().unwrap_or_default();
        let tools = tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect();
        let (call, answers) = (call.to_owned(), answers.into());
        let is_left_to_client = accepted["session"]["delegation"]["type"] == "client";
        Self {
            call,
            sockets: Vec::new(),
            answers,
            shared,
            count: 0,
            tools,
            is_left_to_client,
            active: None,
            attached: 0,
            seconds: 0.0,
        }
    }

    pub(super) fn attach(&mut self, socket: mpsc::UnboundedSender<Message>) {
        self.sockets.push(socket);
        self.attached += 1;
        // No document says whether this comes: it does every other time.
        if self.attached.is_multiple_of(2) {
            self.send(json!({ "type": "session.started", "session": self.session() }));
        }
        self.send(json!({ "type": "info", "code": "attached", "message": "A sideband is attached." }));
    }

    /// The call is over: its sockets are told so every other time, as some sockets are lost before.
    pub(super) fn close(&mut self) {
        if self.count.is_multiple_of(2) {
            let usage = json!({ "seconds": self.seconds });
            self.send(json!({ "type": "session.closed", "reason": "remote_hangup", "session": self.session(), "usage": usage }));
        }
    }

    pub(super) fn detach(&mut self) {
        self.sockets.clear();
    }

    /// The caller says something. The live model hears it while it speaks, and leaves to the other model what it cannot do itself.
    pub(super) fn hear(&mut self, text: &str) {
        self.seconds += SECONDS;
        self.send(json!({ "type": "session.usage.updated", "usage": { "seconds": self.seconds } }));
        self.transcript("session.input_transcript.delta", text);
        self.add(json!({ "type": "message", "role": "user", "content": [{ "transcript": text }] }));
        if let Some((response, _)) = self.active.take() {
            self.event(None, &json!({ "type": "response.cancelled", "response": { "id": response } }));
        }
        let answer = self.answers.pop_front().unwrap_or_else(|| LiveAnswer::says("Yes."));
        if answer.calls.is_empty() && !answer.holds {
            self.says(&answer.text);
        } else if self.is_left_to_client {
            self.leave(&answer.text);
        } else {
            self.respond(answer, None);
        }
        self.shared.changed.notify_waiters();
    }

    /// The live model says something and leaves the work to the client.
    fn leave(&mut self, text: &str) {
        let id = self.id("delegation");
        self.says(text);
        self.add(json!({ "type": "function_call", "call_id": id, "name": "the client" }));
        let created = json!({ "id": id, "target": "client", "type": "delegation" });
        self.send(json!({ "type": "session.delegation.created", "delegation": created, "offset_ms": 0 }));
    }

    /// Takes a frame of a client.
    pub(super) fn take(&mut self, text: &str) {
        let frame: Value = serde_json::from_str(text).unwrap_or_default();
        let number = self.attached;
        self.shared.book().frames.push((number, frame.clone()));
        let about = frame["event_id"].as_str().map(str::to_owned);
        if let Err((code, message)) = self.perform(&frame, about.as_deref()) {
            self.shared.book().errors.push(code.to_owned());
            let error = json!({ "code": code, "message": message, "type": "invalid_request_error", "client_event_id": about });
            self.send(json!({ "type": "error", "error": error, "client_event_id": about }));
        }
        self.shared.changed.notify_waiters();
    }

    fn perform(&mut self, frame: &Value, about: Option<&str>) -> Result<(), Refusal> {
        let wrong = |what: &str| Err(("invalid_value", format!("wrong {what}")));
        match frame["type"].as_str().unwrap_or_default() {
            "session.update" => {
                let is_sound = frame["session"].as_object().is_some_and(|session| {
                    session.keys().all(|key| key == "delegation" || key == "triggers")
                        && session.get("delegation").is_none_or(|own| own["type"] == self.owner())
                });
                if !is_sound {
                    return wrong("session: only the delegation can change, and not its type");
                }
                self.send(
                    json!({ "type": "session.updated", "session": self.session(), "client_event_id": about }),
                );
            }
            "response.item.create" | "response.create" if self.is_left_to_client => {
                return wrong("event: no model of the session works with tools");
            }
            "response.item.create" => {
                let item = &frame["item"];
                match item["type"].as_str().unwrap_or_default() {
                    "function_call_output" => {
                        let (Some(of), true) = (item["call_id"].as_str(), item["output"].is_string()) else {
                            return wrong("output");
                        };
                        let (is_known, is_answered) = {
                            let book = self.shared.book();
                            let items = book.telephones.get(&self.call).map_or(&[][..], |call| &call.items);
                            (calls(items).contains(&of), !outputs(items, of).is_empty())
                        };
                        if !is_known {
                            return Err((
                                "invalid_tool_call_id",
                                "No tool call found for the output.".to_owned(),
                            ));
                        }
                        if is_answered {
                            return Err(("duplicate_tool_output", "The call has its output.".to_owned()));
                        }
                    }
                    "message" => {
                        let is_role =
                            ["developer", "user", "system"].iter().any(|role| item["role"] == *role);
                        if !is_role || item["content"][0]["type"] != "input_text" {
                            return wrong("message");
                        }
                    }
                    _ => return wrong("item"),
                }
                self.add(item.clone());
            }
            "response.create" => {
                if self.active.is_some() {
                    let code = "conversation_already_has_active_response";
                    return Err((code, "A response is in progress.".to_owned()));
                }
                let answer = self.answers.pop_front().unwrap_or_else(|| LiveAnswer::says("Yes."));
                self.respond(answer, about);
            }
            "session.commentary.append" => {
                let content = frame["content"].as_str().filter(|text| text.len() <= TOLD_BYTES);
                let Some(content) = content else { return wrong("commentary") };
                let of = match &frame["delegation_id"] {
                    Value::Null if frame.get("delegation_id").is_some() => None,
                    Value::String(of) if self.is_left_to_client && self.has_left(of) => Some(of.clone()),
                    _ => return wrong("delegation_id"),
                };
                self.send(json!({ "type": "session.commentary.appended", "client_event_id": about, "start_ms": 0, "end_ms": 0 }));
                match of {
                    Some(of) => {
                        self.add(json!({ "type": "function_call_output", "call_id": of, "output": content }));
                        self.says(&format!("I hear: {content}"));
                    }
                    None => {
                        let answer = self.answers.pop_front().unwrap_or_else(|| LiveAnswer::says("Yes."));
                        self.says(&answer.text);
                    }
                }
            }
            "transport.dtmf.send" => {
                let key = frame["event"].as_str().and_then(|key| key.parse::<char>().ok());
                let Some(key) = key.filter(|key| matches!(key, '0'..='9' | 'A'..='D' | '*' | '#')) else {
                    return wrong("event: it is no key");
                };
                let keys = *self.shared.keys.lock().unwrap_or_else(PoisonError::into_inner);
                if keys == LiveKeys::Refused(key) {
                    return Err(("dtmf_failed", format!("The trunk does not take `{key}`.")));
                }
                self.shared.book().telephones.entry(self.call.clone()).or_default().keys.push(key);
                if keys != LiveKeys::Unanswered(key) {
                    let event = key.to_string();
                    self.send(
                        json!({ "type": "transport.dtmf.sent", "event": event, "client_event_id": about }),
                    );
                }
            }
            "session.thinking.append" => {
                let is_told = frame["content"].as_str().is_some_and(|text| text.len() <= TOLD_BYTES);
                if !is_told || frame.get("delegation_id") != Some(&Value::Null) {
                    return wrong("thinking");
                }
                let text = frame["content"].clone();
                self.add(json!({ "type": "message", "role": "developer", "content": [{ "text": text }] }));
                self.send(json!({ "type": "session.thinking.appended", "client_event_id": about, "start_ms": 0, "end_ms": 0 }));
            }
            kind => return Err(("unknown_event", format!("there is no event `{kind}`"))),
        }
        Ok(())
    }

    /// The other model works: it asks for tools, or has something to say, which the live model says.
    fn respond(&mut self, answer: LiveAnswer, about: Option<&str>) {
        let response = self.id("resp");
        let delegation = self.id("delegation");
        if about.is_none() {
            let created = json!({ "id": delegation, "target": "responses", "type": "delegation", "response_id": response });
            self.send(json!({ "type": "session.delegation.created", "delegation": created, "offset_ms": 0 }));
        }
        let began = json!({ "type": "response.created", "sequence_number": 0, "response": { "id": response, "status": "in_progress", "output": [], "tools": [] } });
        let mut frame = json!({ "type": "response.event", "event": began, "delegation_id": delegation });
        // It says so by what it was asked every other time.
        if let Some(about) = about.filter(|_| self.count.is_multiple_of(2)) {
            frame["client_event_id"] = about.into();
        }
        self.send(frame);
        if answer.holds {
            self.active = Some((response, answer));
            return;
        }
        for (name, arguments) in &answer.calls {
            assert!(self.tools.contains(name), "the other model has no tool `{name}`: {:?}", self.tools);
            let arguments = with_last_call(arguments, || {
                let book = self.shared.book();
                let items = book.telephones.get(&self.call).map_or(&[][..], |call| &call.items);
                calls(items).last().map(ToString::to_string).unwrap_or_default()
            });
            let item = json!({ "type": "function_call", "id": self.id("fc"), "call_id": self.id("call"), "status": "completed",
                "name": name, "arguments": arguments });
            self.event(
                Some(&delegation),
                &json!({ "type": "response.function_call_arguments.done", "item_id": item["id"],
                "output_index": 0, "arguments": arguments }),
            );
            self.add(item.clone());
            self.event(
                Some(&delegation),
                &json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
            );
        }
        let usage = json!({ "input_tokens": 2, "output_tokens": 1, "total_tokens": 3, "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens_details": { "reasoning_tokens": 0 } });
        self.event(
            Some(&delegation),
            &json!({ "type": "response.completed", "response": { "id": response, "status": "completed",
            "output": [], "usage": usage } }),
        );
        self.says(&answer.text);
    }

    /// The live model says something.
    fn says(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.send(
            json!({ "type": "session.output_audio.delta", "delta": "AAAA", "start_ms": 0, "end_ms": 20 }),
        );
        self.transcript("session.output_transcript.delta", text);
        self.add(json!({ "type": "message", "role": "assistant", "content": [{ "transcript": text }] }));
    }

    /// Words in fragments.
    fn transcript(&mut self, kind: &str, text: &str) {
        let middle = text.floor_char_boundary(text.len() / 2);
        for part in [&text[..middle], &text[middle..]] {
            self.send(json!({ "type": kind, "delta": part, "start_ms": 0, "end_ms": 100 }));
        }
    }

    fn event(&mut self, delegation: Option<&str>, event: &Value) {
        self.send(json!({ "type": "response.event", "event": event, "delegation_id": delegation }));
    }

    fn add(&mut self, item: Value) {
        self.shared.book().telephones.entry(self.call.clone()).or_default().items.push(item);
    }

    /// Says whether work was left to the client under this id.
    fn has_left(&self, id: &str) -> bool {
        let book = self.shared.book();
        book.telephones.get(&self.call).is_some_and(|call| calls(&call.items).contains(&id))
    }

    /// Who does the work.
    fn owner(&self) -> &'static str {
        if self.is_left_to_client { "client" } else { "responses" }
    }

    fn session(&self) -> Value {
        json!({ "id": self.call, "model": "gpt-live-1", "status": "active", "expires_at": 0, "delegation": { "type": self.owner() } })
    }

    fn id(&mut self, what: &str) -> String {
        self.count += 1;
        format!("{what}_{}_{}", self.attached, self.count)
    }

    fn send(&mut self, mut frame: Value) {
        frame["event_id"] = self.id("event").into();
        let message = Message::text(frame.to_string());
        self.sockets.retain(|socket| socket.send(message.clone()).is_ok());
    }
}
