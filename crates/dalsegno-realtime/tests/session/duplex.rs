//! Sessions whose live model hears while it speaks.

use std::collections::BTreeSet;

use dalsegno_core::{CommandKind, EndedBy, LiveCommand, LiveNews, OperationId, ResponseEnd};
use dalsegno_realtime::{
    Backend, DuplexSession, FRAME_BYTES_MAX, KeysEnd, ModelSession, NoKeys, Output, Settings,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::settings;

/// A session, its clock, and all that came out of it.
pub(crate) struct Line {
    pub(crate) session: DuplexSession,
    now: u64,
    pub(crate) sent: Vec<Value>,
    pub(crate) news: Vec<LiveNews>,
    closed: bool,
    /// What came of keys for the caller's line.
    pub(crate) keys: Vec<KeysEnd>,
}

impl Line {
    pub(crate) fn new(settings: Settings) -> Self {
        Self::of(settings, Backend::Hosted { model: "gpt-5.2".into() })
    }

    pub(crate) fn of(settings: Settings, backend: Backend) -> Self {
        let session = DuplexSession::new(Settings { outlives: true, ..settings }, backend);
        Self { session, now: 0, sent: Vec::new(), news: Vec::new(), closed: false, keys: Vec::new() }
    }

    /// A call that was answered and whose session is open.
    pub(crate) fn open() -> Self {
        let mut line = Self::new(settings());
        line.attach();
        assert_eq!(line.take_news(), [LiveNews::Connected]);
        line
    }

    pub(crate) fn attach(&mut self) {
        let output = self.session.attached(self.now);
        self.put(output);
        assert!(!self.session.is_open(), "whether it is there shows when it answers");
        self.confirm();
    }

    fn put(&mut self, output: Output) {
        let Output { frames, news, close, line: _, keys } = output;
        self.keys.extend(keys);
        self.sent.extend(frames.iter().map(|frame| serde_json::from_str(frame).unwrap()));
        self.news.extend(news);
        self.closed |= close;
    }

    pub(crate) fn frame(&mut self, frame: Value) {
        let output = self.session.frame(self.now, &frame.to_string());
        self.put(output);
    }

    pub(crate) fn lose(&mut self) {
        let output = self.session.lost(self.now, "reset");
        self.put(output);
    }

    /// Keys are to be sent to the caller's line.
    pub(crate) fn send_keys(&mut self, id: u8, keys: &str) -> Result<(), NoKeys> {
        let output = self.session.send_keys(OperationId::from_bytes([id; 16]), keys)?;
        self.put(output);
        Ok(())
    }

    pub(crate) fn stop_keys(&mut self) {
        self.session.stop_keys();
    }

    pub(crate) fn is_between(&self) -> bool {
        self.session.is_between()
    }

    /// Something that the other model does.
    pub(crate) fn event(&mut self, event: Value) {
        self.frame(json!({ "type": "response.event", "event": event, "delegation_id": "d1" }));
    }

    pub(crate) fn command(&mut self, id: u8, kind: CommandKind) -> OperationId {
        let id = OperationId::from_bytes([id; 16]);
        let output = self.session.command(self.now, &LiveCommand { id, kind });
        self.put(output);
        id
    }

    /// All changes of the session that were asked for are acknowledged.
    fn confirm(&mut self) {
        let checks: Vec<Value> =
            self.sent.iter().filter(|one| one["type"] == "session.update").cloned().collect();
        self.sent.retain(|one| one["type"] != "session.update");
        for check in checks {
            self.frame(
                json!({ "type": "session.updated", "session": {}, "client_event_id": check["event_id"] }),
            );
        }
    }

    pub(crate) fn wait(&mut self, millis: u64) {
        self.now += millis;
        let output = self.session.tick(self.now);
        self.put(output);
    }

    pub(crate) fn take_news(&mut self) -> Vec<LiveNews> {
        std::mem::take(&mut self.news)
    }

    fn kinds(&mut self) -> Vec<&'static str> {
        self.take_news().iter().map(LiveNews::kind).collect()
    }
}

fn output(call_id: &str) -> CommandKind {
    CommandKind::Output { call_id: call_id.into(), content: "{}".into() }
}

fn respond(instructions: Option<&str>) -> CommandKind {
    CommandKind::Respond { instructions: instructions.map(Into::into), tools: instructions.is_none() }
}

fn called(call_id: &str) -> Value {
    json!({ "type": "response.output_item.done", "output_index": 0, "item": {
        "type": "function_call", "id": "fc", "status": "completed", "call_id": call_id, "name": "book__find", "arguments": "{}" } })
}

#[test]
fn every_frame_of_the_provider_is_known() {
    for frame in include_str!("../frames/live-taken.jsonl").lines() {
        let mut line = Line::open();
        let _ = line.session.frame(1, frame);
        let counts = line.session.counts();
        assert_eq!((counts.garbage, counts.unknown), (0, 0), "{frame}");
    }
}

#[test]
fn words_are_whole_when_the_other_one_speaks_at_a_delegation_and_after_a_silence() {
    let mut line = Line::open();
    let heard = |part: &str| json!({ "type": "session.input_transcript.delta", "delta": part, "start_ms": 0, "end_ms": 1 });
    let said = |part: &str| json!({ "type": "session.output_transcript.delta", "delta": part, "start_ms": 0, "end_ms": 1 });
    line.frame(heard("A table"));
    line.frame(heard(" for two."));
    line.frame(said("One "));
    line.frame(said("moment."));
    let words = |text: &str| LiveNews::Heard { text: text.into() };
    assert_eq!(
        line.take_news(),
        [LiveNews::SpeechStarted, LiveNews::SpeechStopped, words("A table for two.")]
    );
    line.wait(799);
    assert_eq!(line.take_news(), []);
    line.wait(1);
    assert_eq!(line.take_news(), [LiveNews::Said { text: "One moment.".into(), heard_ms: None }]);
    line.frame(heard("Thanks"));
    line.frame(
        json!({ "type": "session.delegation.created", "delegation": { "id": "d1", "target": "responses" } }),
    );
    assert_eq!(line.kinds(), ["speech_started", "speech_stopped", "heard"]);
    line.wait(5_000);
    assert_eq!(line.take_news(), [], "each word once");
}

#[test]
fn the_other_model_asks_for_tools_and_gets_their_outputs() {
    let mut line = Line::open();
    line.event(json!({ "type": "response.created", "response": { "id": "resp_1" } }));
    line.event(called("c1"));
    line.event(called("c1"));
    let usage =
        json!({ "input_tokens": 200, "output_tokens": 10, "input_tokens_details": { "cached_tokens": 50 } });
    line.event(json!({ "type": "response.completed", "response": { "id": "resp_1", "usage": usage } }));
    let news = line.take_news();
    assert_eq!(
        news.iter().map(LiveNews::kind).collect::<Vec<_>>(),
        ["response_began", "asked", "counted", "response_ended"],
        "a call is asked once"
    );
    assert!(
        matches!(&news[1], LiveNews::Asked { response, call } if response == "resp_1" && call.call_id == "c1")
    );
    assert!(matches!(&news[3], LiveNews::ResponseEnded { end: ResponseEnd::Completed, .. }));
    let id = line.command(1, output("c1"));
    let respond_id = line.command(2, respond(None));
    let sent: Vec<_> = line.sent.iter().map(|frame| frame["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(sent, ["response.item.create", "session.update", "response.create"]);
    assert_eq!(
        line.sent[0]["item"],
        json!({ "type": "function_call_output", "call_id": "c1", "output": "{}" })
    );
    line.confirm();
    assert_eq!(
        line.take_news(),
        [LiveNews::Taken { command: id }],
        "what comes after it is acknowledged, so it is there"
    );
    // The response is that of the command, whether its provider says so or not.
    line.frame(
        json!({ "type": "response.event", "delegation_id": "d1", "client_event_id": respond_id.to_string(),
        "event": { "type": "response.created", "response": { "id": "resp_2" } } }),
    );
    let began = LiveNews::ResponseBegan { response: "resp_2".into(), command: Some(respond_id) };
    assert_eq!(line.take_news(), [LiveNews::Taken { command: respond_id }, began]);
    // A further one waits until none is under way.
    line.sent.clear();
    let third = line.command(3, respond(None));
    assert_eq!((line.take_news(), line.sent.len()), (vec![], 0));
    line.event(json!({ "type": "response.completed", "response": { "id": "resp_2" } }));
    assert_eq!(line.sent, [json!({ "type": "response.create", "event_id": third.to_string() })]);
}

#[test]
fn a_call_that_was_interrupted_or_is_not_complete_asks_for_nothing() {
    let mut line = Line::open();
    line.event(json!({ "type": "response.created", "response": { "id": "resp_1" } }));
    line.event(
        json!({ "type": "response.function_call_arguments.done", "item_id": "fc", "arguments": "{}" }),
    );
    let mut item = called("c1");
    item["item"]["status"] = "incomplete".into();
    line.event(item);
    line.event(json!({ "type": "response.incomplete", "response": { "id": "resp_1" } }));
    let news = line.take_news();
    assert!(
        matches!(
            &news[..],
            [LiveNews::ResponseBegan { .. }, LiveNews::ResponseEnded { end: ResponseEnd::Failed, .. }]
        ),
        "{news:?}"
    );
}

#[test]
fn a_response_that_ends_in_an_error_has_failed() {
    let mut line = Line::open();
    line.event(json!({ "type": "response.created", "response": { "id": "resp_1" } }));
    line.event(json!({ "type": "error", "code": "rate_limit_exceeded", "message": "later" }));
    line.event(json!({ "type": "response.created", "response": { "id": "resp_2" } }));
    line.event(json!({ "type": "response.created", "response": { "id": "resp_3" } }));
    assert_eq!(
        line.kinds(),
        ["response_began", "response_ended", "response_began", "response_ended", "response_began"],
        "one response of a delegation is under way at a time"
    );
}

#[test]
fn words_that_are_to_be_said_do_not_end_the_response_that_is_under_way() {
    let mut line = Line::open();
    line.event(json!({ "type": "response.created", "response": { "id": "resp_1" } }));
    let id = line.command(1, respond(Some("Greet.")));
    line.frame(json!({ "type": "session.commentary.appended", "client_event_id": id.to_string() }));
    assert_eq!(line.kinds(), ["response_began", "taken"]);
    line.event(json!({ "type": "response.completed", "response": { "id": "resp_1" } }));
    let news = line.take_news();
    assert!(
        matches!(&news[..], [LiveNews::ResponseEnded { response, .. }, LiveNews::ResponseBegan { command: Some(of), .. }, LiveNews::ResponseEnded { .. }]
            if response == "resp_1" && *of == id),
        "{news:?}"
    );
}

#[test]
fn a_response_that_nobody_here_saw_begin_is_waited_for() {
    let mut line = Line::open();
    let id = line.command(1, respond(None));
    let busy = json!({ "type": "error", "error": { "code": "conversation_already_has_active_response", "client_event_id": id.to_string() } });
    line.sent.clear();
    line.frame(busy.clone());
    assert_eq!(
        (line.take_news(), line.sent.len()),
        (vec![], 0),
        "not at once: its provider would say so again and again"
    );
    line.wait(1_000);
    assert_eq!(line.sent.len(), 1);
    line.frame(busy);
    line.sent.clear();
    line.event(json!({ "type": "response.created", "response": { "id": "resp_9" } }));
    line.event(json!({ "type": "response.completed", "response": { "id": "resp_9" } }));
    assert_eq!(line.sent, [json!({ "type": "response.create", "event_id": id.to_string() })]);
}

#[test]
fn an_output_that_is_too_large_is_replaced_and_calls_that_nobody_heard_are_answered() {
    let mut line = Line::open();
    line.event(json!({ "type": "response.created", "response": { "id": "resp_1" } }));
    line.event(called("call_1"));
    line.event(json!({ "type": "response.completed", "response": { "id": "resp_1" } }));
    let error = |code: &str, message: &str, about: OperationId| json!({ "type": "error", "error": { "code": code, "message": message, "client_event_id": about.to_string() } });
    let id = line.command(1, output("call_1"));
    line.sent.clear();
    line.take_news();
    line.frame(error("response_input_buffer_full", "full", id));
    assert_eq!(
        (&line.sent[0]["item"]["call_id"], line.news.len()),
        (&json!("call_1"), 0),
        "a short one goes in its place"
    );
    line.frame(error("response_input_buffer_full", "full", id));
    assert!(matches!(&line.take_news()[..], [LiveNews::Refused { command, .. }] if *command == id), "once");
    let respond_id = line.command(2, respond(None));
    line.sent.clear();
    line.frame(error("function_call_outputs_required", "No output for call_7, call_1.", respond_id));
    let sent: Vec<_> =
        line.sent.iter().map(|frame| (frame["type"].clone(), frame["item"]["call_id"].clone())).collect();
    assert_eq!(
        sent,
        [(json!("response.item.create"), json!("call_7")), (json!("response.create"), Value::Null)]
    );
    assert_eq!(line.take_news(), []);
    line.frame(error("function_call_outputs_required", "No output for call_7.", respond_id));
    assert!(matches!(&line.take_news()[..], [LiveNews::Refused { .. }]), "nothing more can be done");
}

#[test]
fn what_the_live_model_is_to_say_is_commentary_and_no_tool_is_touched() {
    let mut line = Line::open();
    let id = line.command(1, respond(Some(&"Greet. ".repeat(1_000))));
    let frame = line.sent.remove(0);
    assert_eq!(
        (&frame["type"], &frame["delegation_id"]),
        (&json!("session.commentary.append"), &Value::Null)
    );
    assert!(frame["content"].as_str().unwrap().len() <= 1_500, "its provider takes 500 tokens");
    line.frame(json!({ "type": "session.commentary.appended", "client_event_id": id.to_string(), "start_ms": 0, "end_ms": 0 }));
    assert_eq!(line.kinds(), ["taken", "response_began", "response_ended"]);
    line.command(1, respond(Some("Greet.")));
    assert_eq!((line.kinds(), line.sent.len()), (vec!["taken"], 0), "what it has is not sent again");
}

#[test]
fn a_lost_socket_tells_what_was_said_and_what_was_not_taken_comes_again() {
    let mut line = Line::open();
    line.frame(
        json!({ "type": "session.output_transcript.delta", "delta": "Good ev", "start_ms": 0, "end_ms": 1 }),
    );
    line.command(1, output("c1"));
    let lost = line.session.lost(line.now, "reset");
    line.put(lost);
    assert_eq!(line.kinds(), ["said", "lost"]);
    line.sent.clear();
    let output_of = line.session.attached(line.now);
    line.put(output_of);
    // A call that is asked for before the session has answered is not lost.
    line.event(called("c2"));
    line.confirm();
    let news = line.take_news();
    assert_eq!(news[0], LiveNews::Attached);
    assert!(
        matches!(&news[1..], [LiveNews::ResponseBegan { response, .. }, LiveNews::Asked { response: of, .. }] if response == of),
        "{news:?}"
    );
    // The end of the response whose beginning was missed ends what was begun for it.
    line.event(json!({ "type": "response.completed", "response": { "id": "resp_9" } }));
    assert!(
        matches!(&line.take_news()[..], [LiveNews::ResponseEnded { response, end: ResponseEnd::Completed }] if response == "of-c2")
    );
    let id = line.command(1, output("c1"));
    assert_eq!(line.sent[0]["item"]["call_id"], "c1");
    line.frame(json!({ "type": "error", "error": { "code": "duplicate_tool_output", "message": "it has one", "client_event_id": id.to_string() } }));
    assert_eq!(line.take_news(), [LiveNews::Taken { command: id }], "the session had it");
}

#[test]
fn the_end_of_the_session_is_the_end_of_the_call() {
    for (reason, by) in [
        ("remote_hangup", EndedBy::Caller),
        ("connection_lost", EndedBy::Caller),
        ("close_requested", EndedBy::Agent),
        ("expired", EndedBy::Provider),
        ("content", EndedBy::Provider),
        ("new", EndedBy::Provider),
    ] {
        let mut line = Line::open();
        line.frame(json!({ "type": "session.closed", "reason": reason, "usage": { "seconds": 2 } }));
        assert!(matches!(&line.take_news()[..], [LiveNews::Ended { by: own, .. }] if *own == by), "{reason}");
        assert!(line.closed && line.session.is_over() && line.session.has_closed());
        line.frame(json!({ "type": "session.input_transcript.delta", "delta": "x" }));
        line.wait(60_000);
        assert_eq!(line.take_news(), [], "nothing comes after it");
    }
}

#[test]
fn a_provider_that_is_silent_is_asked_and_then_lost() {
    let mut line = Line::open();
    line.wait(60_000);
    assert_eq!(
        line.sent[0]["session"],
        json!({ "delegation": { "type": "responses" } }),
        "it changes nothing"
    );
    line.confirm();
    line.wait(60_000);
    line.sent.clear();
    line.wait(10_000);
    assert_eq!(line.kinds(), ["lost"]);
    let mut line = Line::new(settings());
    let output = line.session.attached(0);
    line.put(output);
    line.wait(10_000);
    assert!(line.closed && line.take_news().is_empty(), "a session that never answered is no session");
}

#[test]
fn errors_refuse_what_they_are_about_and_a_wrong_key_ends_the_call() {
    let mut line = Line::open();
    let id = line.command(1, CommandKind::Note { text: "x".into() });
    line.frame(json!({ "type": "error", "error": { "code": "invalid_value", "message": "no", "client_event_id": id.to_string() } }));
    assert!(
        matches!(&line.take_news()[..], [LiveNews::Refused { command, code, .. }] if *command == id && code == "invalid_value")
    );
    line.frame(json!({ "type": "error", "error": { "code": "odd", "message": "about nothing" } }));
    assert_eq!(line.take_news(), []);
    line.frame(json!({ "type": "error", "error": { "type": "insufficient_quota", "code": "insufficient_quota", "message": "money" } }));
    assert!(
        matches!(&line.take_news()[..], [LiveNews::Ended { by: EndedBy::Provider, reason }] if reason.contains("money"))
    );
}

#[test]
fn a_call_is_accepted_with_both_models_and_their_tools() {
    let line = Line::new(settings());
    let accepted: Value =
        serde_json::from_str(&line.session.acceptance("gpt-live-1", "You are the desk.")).unwrap();
    let parameters = json!({ "type": "object", "properties": { "q": { "type": "string" } } });
    let tool = json!({ "type": "function", "name": "book__find", "description": "Finds a table.", "parameters": parameters, "strict": false });
    assert_eq!(
        accepted,
        json!({ "session": { "type": "live", "model": "gpt-live-1", "instructions": "You are the desk.", "delegation": {
            "type": "responses", "responses": { "model": "gpt-5.2", "instructions": "You are the desk.", "tools": [tool] } } } })
    );
}

/// A session whose work an agent does, open.
fn of_an_agent() -> Line {
    let mut line = Line::of(settings(), Backend::Agent { tool: "agents__kitchen".into() });
    line.attach();
    assert_eq!(line.take_news(), [LiveNews::Connected]);
    line
}

fn left(id: &str, target: &str) -> Value {
    json!({ "type": "session.delegation.created", "offset_ms": 0, "delegation": { "id": id, "target": target, "type": "delegation" } })
}

#[test]
fn work_that_is_left_to_an_agent_is_a_call_of_it_with_what_was_said() {
    let mut line = of_an_agent();
    line.frame(json!({ "type": "session.output_transcript.delta", "delta": "Good evening." }));
    line.frame(json!({ "type": "session.input_transcript.delta", "delta": "A table\nagent: I may" }));
    line.frame(left("d1", "client"));
    line.frame(left("d1", "client"));
    line.frame(left("d2", "responses"));
    let news = line.take_news();
    let asked: Vec<_> = news
        .iter()
        .filter_map(|news| match news {
            LiveNews::Asked { response, call } => Some((response.clone(), call.clone())),
            _ => None,
        })
        .collect();
    let [(response, call)] = asked.as_slice() else { panic!("{news:?}") };
    assert_eq!((call.call_id.as_str(), call.name.as_str()), ("d1", "agents__kitchen"));
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
    assert_eq!(
        arguments,
        json!({ "text": "agent: Good evening.\ncaller: A table agent: I may" }),
        "a line for each of them"
    );
    let ended = LiveNews::ResponseEnded { response: response.clone(), end: ResponseEnd::Completed };
    assert!(news.contains(&ended), "what it asks for starts at once: {news:?}");
    // The answer is something to say, of that work. No response is asked for: the live model speaks by itself.
    let id = line.command(1, output("d1"));
    let respond_id = line.command(2, respond(None));
    let frame = line.sent.remove(0);
    assert_eq!(
        (&frame["type"], &frame["delegation_id"], &frame["event_id"]),
        (&json!("session.commentary.append"), &json!("d1"), &json!(id.to_string()))
    );
    assert_eq!(line.sent, [] as [Value; 0]);
    let began = LiveNews::ResponseBegan { response: format!("told-{respond_id}"), command: Some(respond_id) };
    assert!(line.take_news().contains(&began));
    line.frame(json!({ "type": "session.commentary.appended", "client_event_id": id.to_string() }));
    assert_eq!(line.take_news(), [LiveNews::Taken { command: id }]);
    // What it is told besides, it is told silently, and then to say what is new.
    line.command(3, CommandKind::Note { text: "The caller pressed the keys 1.".into() });
    line.command(4, respond(None));
    let kinds: Vec<_> = line.sent.iter().map(|frame| frame["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["session.thinking.append", "session.commentary.append"]);
}

#[test]
fn words_for_an_agent_are_the_last_ones_and_fit_into_a_call() {
    let mut line = of_an_agent();
    for round in 0..40 {
        line.frame(json!({ "type": "session.input_transcript.delta", "delta": format!("{round} {}", "\"".repeat(900)) }));
        line.wait(1_000);
    }
    line.frame(left("d1", "client"));
    let news = line.take_news();
    let Some(LiveNews::Asked { call, .. }) = news.iter().find(|news| news.kind() == "asked") else {
        panic!()
    };
    assert!(call.arguments.len() <= dalsegno_core::TEXT_BYTES_MAX, "{}", call.arguments.len());
    assert!(call.arguments.contains("caller: 39 ") && !call.arguments.contains("caller: 1 "));
}

/// The id of a frame that sends a key.
fn key_id() -> impl Strategy<Value = String> {
    (0_u8..3, 1_u8..4)
        .prop_map(|(operation, key)| format!("{}-{key}", OperationId::from_bytes([operation; 16])))
}

/// A frame that a provider may send, in any order.
fn any_frame() -> impl Strategy<Value = String> {
    let id = || prop_oneof![Just("a"), Just("b"), Just("c")];
    let event = prop_oneof![
        3 => id().prop_map(|id| json!({ "type": "response.created", "response": { "id": id } })),
        4 => id().prop_map(called),
        3 => id().prop_map(|id| json!({ "type": "response.completed", "response": { "id": id, "usage": { "input_tokens": 1 } } })),
        1 => id().prop_map(|id| json!({ "type": "response.failed", "response": { "id": id } })),
        1 => Just(json!({ "type": "response.completed", "response": {} })),
        1 => Just(json!({ "type": "error", "code": "odd" })),
        1 => Just(json!(7)),
    ];
    prop_oneof![
        6 => (event, prop::option::of(id())).prop_map(|(event, of)| {
            json!({ "type": "response.event", "event": event, "delegation_id": of }).to_string()
        }),
        2 => "[a-zé ]{0,8}".prop_map(|part| json!({ "type": "session.input_transcript.delta", "delta": part }).to_string()),
        2 => "[a-z ]{0,8}".prop_map(|part| json!({ "type": "session.output_transcript.delta", "delta": part }).to_string()),
        1 => Just(json!({ "type": "session.updated", "session": {} }).to_string()),
        1 => (1_u32..9).prop_map(|n| json!({ "type": "session.updated", "client_event_id": format!("check{n}") }).to_string()),
        1 => (0_u8..4).prop_map(|n| {
            let about = OperationId::from_bytes([n; 16]).to_string();
            json!({ "type": "error", "error": { "code": "no", "client_event_id": about } }).to_string()
        }),
        1 => (0_u8..4).prop_map(|n| {
            let about = OperationId::from_bytes([n; 16]).to_string();
            json!({ "type": "session.commentary.appended", "client_event_id": about }).to_string()
        }),
        2 => (id(), any::<bool>()).prop_map(|(id, ours)| left(id, if ours { "client" } else { "responses" }).to_string()),
        1 => Just(json!({ "type": "transport.dtmf.received", "event": "12#" }).to_string()),
        2 => prop::option::of(key_id()).prop_map(|id| json!({ "type": "transport.dtmf.sent", "event": "1", "client_event_id": id }).to_string()),
        1 => key_id().prop_map(|id| json!({ "type": "error", "error": { "code": "no", "client_event_id": id } }).to_string()),
        1 => Just("{".to_owned()),
        1 => Just(format!("{{\"type\":\"{}\"}}", "x".repeat(FRAME_BYTES_MAX))),
        1 => Just("[".repeat(300)),
        1 => Just("{\"type\":\"session.output_audio.delta\",\"delta\":\"AAAA\"".to_owned()),
    ]
}

#[derive(Debug, Clone)]
enum Happens {
    Frame(String),
    Command(u8),
    Keys(u8),
    StopKeys,
    Wait(u64),
    Lost,
    Attached,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        12 => any_frame().prop_map(Happens::Frame),
        4 => (0_u8..4).prop_map(Happens::Command),
        3 => (0_u8..3).prop_map(Happens::Keys),
        1 => Just(Happens::StopKeys),
        2 => (1_u64..20_000).prop_map(Happens::Wait),
        1 => Just(Happens::Lost),
        2 => Just(Happens::Attached),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes in whatever order: a call is asked once and within a response that has begun and not ended, a response ends once,
    /// and what the caller says stops as often as it starts.
    #[test]
    fn no_order_of_frames_breaks_a_session(of_agent: bool, course in prop::collection::vec(happens(), 1..120)) {
        let mut line = match of_agent {
            true => Line::of(settings(), Backend::Agent { tool: "agents__kitchen".into() }),
            false => Line::new(settings()),
        };
        let mut begun = BTreeSet::new();
        for one in course {
            match one {
                Happens::Frame(frame) => {
                    let output = line.session.frame(line.now, &frame);
                    line.put(output);
                }
                Happens::Command(id) => {
                    // An id has one content for ever.
                    let kind = match id {
                        0 => output("a"),
                        1 => CommandKind::Note { text: "n".into() },
                        2 => respond(None),
                        _ => respond(Some("say")),
                    };
                    line.command(id, kind);
                }
                // Each operation has its own keys, and asks once.
                Happens::Keys(id) if begun.contains(&id) => {}
                Happens::Keys(id) => {
                    if line.send_keys(id, "12#").is_ok() {
                        begun.insert(id);
                    }
                }
                Happens::StopKeys => line.stop_keys(),
                Happens::Wait(millis) => line.wait(millis),
                Happens::Lost => line.lose(),
                Happens::Attached => {
                    let output = line.session.attached(line.now);
                    line.put(output);
                }
            }
        }
        // No key is sent twice, and each is sent after the one before. Each wish ends once, if it is not given up.
        let keys: Vec<&Value> = line.sent.iter().filter(|frame| frame["type"] == "transport.dtmf.send").collect();
        for id in &begun {
            let own = OperationId::from_bytes([*id; 16]).to_string();
            let own = keys.iter().filter_map(|frame| Some((frame["event_id"].as_str()?.strip_prefix(&own)?, &frame["event"])));
            let expected = [("-1", json!("1")), ("-2", json!("2")), ("-3", json!("#"))];
            prop_assert!(own.zip(0..).all(|((id, key), place): (_, usize)| expected.get(place) == Some(&(id, key.clone()))));
        }
        prop_assert!(line.keys.len() <= begun.len());
        let is_whole = |end: &KeysEnd| *end == KeysEnd::Sent;
        prop_assert!(3 * line.keys.iter().filter(|end| is_whole(end)).count() <= keys.len());
        let (mut open, mut over, mut asked) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut speaks = false;
        for news in &line.news {
            match news {
                LiveNews::ResponseBegan { response, .. } => {
                    prop_assert!(open.insert(response.clone()) && !over.contains(response), "{response} begins twice");
                }
                LiveNews::ResponseEnded { response, .. } => {
                    prop_assert!(open.remove(response), "{response} ends without having begun");
                    over.insert(response.clone());
                }
                LiveNews::Asked { response, call } => {
                    prop_assert!(asked.insert(call.call_id.clone()), "{} is asked twice", call.call_id);
                    prop_assert!(open.contains(response), "{response} asks and is not under way");
                }
                LiveNews::Lost { .. } => open.clear(),
                LiveNews::SpeechStarted => prop_assert!(!std::mem::replace(&mut speaks, true)),
                LiveNews::SpeechStopped => prop_assert!(std::mem::replace(&mut speaks, false)),
                _ => {}
            }
        }
    }
}
