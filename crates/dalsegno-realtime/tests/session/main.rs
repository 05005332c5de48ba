//! A session against a provider that is written down in the tests.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]
#![allow(clippy::needless_pass_by_value, reason = "a frame is written where it is sent")]

mod billed;
mod dialogue;
mod duplex;
mod hostile;
mod keys;
mod laws;
mod loss;
mod media;
mod talk;
mod telephone;
mod tools;
mod types;

use dalsegno_core::{CommandKind, LiveCommand, LiveNews, OperationId, OrderedJson};
use dalsegno_realtime::{LiveSession, ModelSession as _, Output, Settings, Tool};
use serde_json::{Value, json};

/// A session, its clock, and all that came out of it.
struct Line {
    session: LiveSession,
    now: u64,
    sent: Vec<Value>,
    news: Vec<LiveNews>,
    closed: bool,
}

fn settings() -> Settings {
    let parameters =
        OrderedJson::from(json!({ "type": "object", "properties": { "q": { "type": "string" } } }));
    let tool = Tool { name: "book__find".into(), description: "Finds a table.".into(), parameters };
    Settings { tools: vec![tool], ..Settings::default() }
}

impl Line {
    fn new(settings: Settings) -> Self {
        Self {
            session: LiveSession::new(settings),
            now: 0,
            sent: Vec::new(),
            news: Vec::new(),
            closed: false,
        }
    }

    /// One whose session is open and knows what the agent is.
    fn open() -> Self {
        let mut line = Self::new(settings());
        line.connect();
        line.command(0, CommandKind::Session { instructions: "You are the desk.".into() });
        line.frame(json!({ "type": "session.updated", "session": {} }));
        assert_eq!(line.take_kinds(), ["connected", "taken"]);
        line.sent.clear();
        line
    }

    fn put(&mut self, output: Output) {
        self.sent.extend(output.frames.iter().map(|frame| serde_json::from_str::<Value>(frame).unwrap()));
        self.news.extend(output.news);
        self.closed |= output.close;
    }

    fn connect(&mut self) {
        self.session.connected(self.now);
        self.frame(json!({ "type": "session.created", "event_id": "e", "session": { "type": "realtime" } }));
    }

    fn frame(&mut self, frame: Value) {
        let output = self.session.frame(self.now, &frame.to_string());
        self.put(output);
    }

    fn command(&mut self, number: u8, kind: CommandKind) -> OperationId {
        let id = OperationId::from_bytes([number; 16]);
        let output = self.session.command(self.now, &LiveCommand { id, kind });
        self.put(output);
        id
    }

    fn say(&mut self, line: &str) {
        let output = self.session.say(self.now, line);
        self.put(output);
    }

    fn lose(&mut self) {
        let output = self.session.lost(self.now, "cut");
        self.put(output);
    }

    fn wait(&mut self, millis: u64) {
        self.now += millis;
        let output = self.session.tick(self.now);
        self.put(output);
    }

    /// The provider begins a response, with what came with the wish for it.
    fn begins(&mut self, id: &str, metadata: Value) {
        self.frame(json!({ "type": "response.created", "response": { "id": id, "metadata": metadata } }));
    }

    fn asks(&mut self, response: &str, call_id: &str, status: &str) {
        let item = json!({
            "id": format!("item-{call_id}"), "type": "function_call", "status": status,
            "call_id": call_id, "name": "book__find", "arguments": "{\"q\":\"two\"}",
        });
        self.frame(json!({ "type": "response.output_item.done", "response_id": response, "item": item }));
    }

    fn ends(&mut self, id: &str, status: &str) {
        self.frame(
            json!({ "type": "response.done", "response": { "id": id, "status": status, "output": [] } }),
        );
    }

    fn refuses(&mut self, event_id: &str, code: &str) {
        self.frame(
            json!({ "type": "error", "error": { "code": code, "message": "no", "event_id": event_id } }),
        );
    }

    /// The kinds of the frames that were sent since this was asked last.
    fn take_sent(&mut self) -> Vec<String> {
        let sent = std::mem::take(&mut self.sent);
        sent.iter().map(|frame| frame["type"].as_str().unwrap().to_owned()).collect()
    }

    fn take_kinds(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.news).iter().map(LiveNews::kind).collect()
    }
}

fn respond() -> CommandKind {
    CommandKind::Respond { instructions: None, tools: true }
}

fn output(call_id: &str) -> CommandKind {
    CommandKind::Output { call_id: call_id.into(), content: "a table".into() }
}
