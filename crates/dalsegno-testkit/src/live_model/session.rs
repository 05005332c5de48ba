//! One session of the live model, and its conversation.

use std::sync::Arc;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{LiveAnswer, LiveFault, Shared};

/// A response that is under way.
struct Active {
    id: String,
    answer: LiveAnswer,
    /// It was not asked for.
    is_other: bool,
}

pub(super) struct Served {
    stream: WebSocketStream<TcpStream>,
    shared: Arc<Shared>,
    number: u32,
    count: u32,
    instructions: String,
    tools: Vec<String>,
    active: Option<Active>,
}

/// Why a frame is refused: the code and the words.
type Refusal = (&'static str, String);

/// Whether the session continues.
type Goes = Result<bool, Error>;

impl Served {
    pub(super) fn new(stream: WebSocketStream<TcpStream>, shared: Arc<Shared>) -> Self {
        let number = {
            let mut book = shared.book();
            book.sessions += 1;
            book.items.clear();
            book.sessions
        };
        let (instructions, tools) = (String::new(), Vec::new());
        Self { stream, shared, number, count: 0, instructions, tools, active: None }
    }

    pub(super) async fn serve(mut self) -> Result<(), Error> {
        self.send(json!({ "type": "session.created", "session": self.shown() })).await?;
        while let Some(message) = self.stream.next().await {
            let Message::Text(text) = message? else { continue };
            let frame: Value = serde_json::from_str(&text).unwrap_or_default();
            self.shared.book().frames.push((self.number, frame.clone()));
            let goes = match self.judge(&frame) {
                Ok(()) => self.perform(&frame).await?,
                Err((code, message)) => {
                    self.shared.book().errors.push(code.to_owned());
                    let error = json!({ "type": "invalid_request_error", "code": code, "message": message,
                        "param": null, "event_id": frame["event_id"] });
                    self.send(json!({ "type": "error", "error": error })).await?;
                    if code == "conversation_already_has_active_response" {
                        self.end_other().await?;
                    }
                    true
                }
            };
            self.shared.changed.notify_waiters();
            if !goes {
                return Ok(());
            }
        }
        Ok(())
    }

    fn id(&mut self, what: &str) -> String {
        self.count += 1;
        format!("{what}_{}_{}", self.number, self.count)
    }

    async fn send(&mut self, mut frame: Value) -> Result<(), Error> {
        frame["event_id"] = self.id("event").into();
        self.stream.send(Message::text(frame.to_string())).await
    }

    fn shown(&self) -> Value {
        json!({ "type": "realtime", "object": "realtime.session", "id": format!("sess_{}", self.number),
            "model": "gpt-realtime-2.1", "output_modalities": ["text"], "instructions": self.instructions })
    }

    /// Looks whether a frame is one that the documented API takes.
    fn judge(&self, frame: &Value) -> Result<(), Refusal> {
        let wrong = |what: &str| Err(("invalid_value", what.to_owned()));
        if frame["event_id"].as_str().is_some_and(|id| id.len() > 512) {
            return wrong("event_id is too long");
        }
        match frame["type"].as_str() {
            Some("session.update") => {
                if frame["session"]["type"] != "realtime" {
                    return wrong("session.type must be realtime");
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
        let is_there = |key: &str, kind: &str, value: &Value| {
            book.items.iter().any(|item| {
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
                let answered = book.items.iter().any(|other| {
                    other["type"] == "function_call_output" && other["call_id"] == item["call_id"]
                });
                let called = book
                    .items
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

    async fn perform(&mut self, frame: &Value) -> Goes {
        match frame["type"].as_str() {
            Some("session.update") => {
                let session = &frame["session"];
                if let Some(instructions) = session["instructions"].as_str() {
                    self.instructions = instructions.to_owned();
                }
                if let Some(tools) = session["tools"].as_array() {
                    let names = tools.iter().filter_map(|tool| tool["name"].as_str());
                    self.tools = names.map(str::to_owned).collect();
                }
                self.send(json!({ "type": "session.updated", "session": self.shown() })).await?;
            }
            Some("conversation.item.create") => {
                let mut item = frame["item"].clone();
                if !item["id"].is_string() {
                    item["id"] = self.id("item").into();
                }
                self.add(item).await?;
            }
            Some("response.create") => return self.begin(&frame["response"]).await,
            Some("response.cancel") => self.cancel().await?,
            _ => {}
        }
        Ok(true)
    }

    async fn add(&mut self, mut item: Value) -> Result<(), Error> {
        item["object"] = "realtime.item".into();
        if !item["status"].is_string() {
            item["status"] = "completed".into();
        }
        self.shared.book().items.push(item.clone());
        self.send(json!({ "type": "conversation.item.added", "previous_item_id": null, "item": item }))
            .await?;
        self.send(json!({ "type": "conversation.item.done", "previous_item_id": null, "item": item })).await
    }

    async fn begin(&mut self, wish: &Value) -> Goes {
        let mut answer = self.shared.next_answer().unwrap_or_else(|| LiveAnswer::says("Yes."));
        // One that may not call tools does not.
        if wish["tool_choice"] == "none" {
            answer.calls.clear();
        }
        let fault = answer.fault;
        if fault == Some(LiveFault::LostBefore) {
            return Ok(false);
        }
        if fault == Some(LiveFault::Garbage) {
            for garbage in
                ["no json", "{\"type\":\"response.done\"}", "[[[[", "{\"type\":\"who.knows\"}", "\u{0}"]
            {
                self.stream.send(Message::text(garbage)).await?;
            }
            self.stream.send(Message::binary(vec![0xff_u8, 0xfe])).await?;
        }
        if fault == Some(LiveFault::Other) {
            // Its own response comes first, and ours is refused until it has ended.
            let id = self.id("resp");
            self.active = Some(Active { id: id.clone(), answer: LiveAnswer::default(), is_other: true });
            let error = json!({ "type": "invalid_request_error", "code": "conversation_already_has_active_response",
                "message": format!("Conversation already has an active response in progress: {id}."), "param": null,
                "event_id": wish["metadata"]["command"].as_str().or(wish["metadata"]["turn"].as_str()) });
            self.shared
                .answers
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .push_front(LiveAnswer { fault: None, ..answer });
            self.send(json!({ "type": "error", "error": error })).await?;
            self.end_other().await?;
            return Ok(true);
        }
        let id = self.id("resp");
        let response = json!({ "object": "realtime.response", "id": id, "status": "in_progress", "status_details": null,
            "output": [], "metadata": wish["metadata"], "usage": null });
        self.send(json!({ "type": "response.created", "response": response })).await?;
        if fault == Some(LiveFault::LostWithin) {
            return Ok(false);
        }
        let holds = answer.holds;
        self.active = Some(Active { id, answer, is_other: false });
        if !holds {
            self.end("completed").await?;
        }
        Ok(fault != Some(LiveFault::LostAfter))
    }

    /// Ends a response that was not asked for.
    async fn end_other(&mut self) -> Result<(), Error> {
        if self.active.as_ref().is_some_and(|active| active.is_other) {
            self.end("completed").await?;
        }
        Ok(())
    }

    async fn cancel(&mut self) -> Result<(), Error> {
        self.end("cancelled").await
    }

    async fn end(&mut self, status: &str) -> Result<(), Error> {
        let Some(Active { id, answer, .. }) = self.active.take() else { return Ok(()) };
        let is_cut = status != "completed";
        let of_item = if is_cut { "incomplete" } else { "completed" };
        let mut output = Vec::new();
        for (name, arguments) in answer.calls {
            let call_id = self.id("call");
            let arguments = if is_cut { arguments[..arguments.len() / 2].to_owned() } else { arguments };
            let item = json!({ "id": self.id("item"), "type": "function_call", "status": of_item, "call_id": call_id,
                "name": name, "arguments": arguments });
            self.send(json!({ "type": "response.function_call_arguments.done", "response_id": id, "item_id": item["id"],
                "output_index": 0, "call_id": call_id, "name": name, "arguments": arguments })).await?;
            // What was cut is no item of the conversation.
            if !is_cut {
                self.add(item.clone()).await?;
            }
            self.send(json!({ "type": "response.output_item.done", "response_id": id, "output_index": 0, "item": item }))
                .await?;
            output.push(item);
        }
        if !answer.text.is_empty() {
            let item_id = self.id("item");
            self.send(json!({ "type": "response.output_text.delta", "response_id": id, "item_id": item_id,
                "output_index": 0, "content_index": 0, "delta": answer.text }))
                .await?;
            self.send(json!({ "type": "response.output_text.done", "response_id": id, "item_id": item_id,
                "output_index": 0, "content_index": 0, "text": answer.text }))
                .await?;
            let item = json!({ "id": item_id, "type": "message", "role": "assistant", "status": of_item,
                "content": [{ "type": "output_text", "text": answer.text }] });
            self.add(item.clone()).await?;
            self.send(json!({ "type": "response.output_item.done", "response_id": id, "output_index": 0, "item": item }))
                .await?;
            output.push(item);
        }
        let details = is_cut.then(|| json!({ "type": "cancelled", "reason": "client_cancelled" }));
        let response = json!({ "object": "realtime.response", "id": id, "status": status, "status_details": details,
            "output": output, "usage": { "total_tokens": 3, "input_tokens": 2, "output_tokens": 1 } });
        self.send(json!({ "type": "response.done", "response": response })).await
    }
}
