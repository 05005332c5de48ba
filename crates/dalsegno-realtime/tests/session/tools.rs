//! Calls of tools and their outputs.

use dalsegno_core::{CommandKind, LiveNews};
use dalsegno_realtime::ModelSession as _;
use serde_json::json;

use crate::{Line, output};

#[test]
fn only_a_completed_item_asks_for_a_tool() {
    let mut line = Line::open();
    line.begins("r1", json!(null));
    line.take_kinds();
    line.frame(
        json!({ "type": "response.function_call_arguments.done", "response_id": "r1", "call_id": "c1",
        "name": "book__find", "arguments": "{\"q\":" }),
    );
    for status in ["incomplete", "in_progress", "Completed"] {
        line.asks("r1", "c1", status);
    }
    assert_eq!(line.take_kinds(), [""; 0], "arguments that an interruption has cut start nothing");
    line.asks("r1", "c1", "completed");
    line.asks("r1", "c1", "completed");
    assert_eq!(line.take_kinds(), ["asked"], "once");
}

#[test]
fn an_item_that_comes_after_the_end_of_its_response_is_told_and_an_older_one_is_not() {
    let mut line = Line::open();
    line.begins("r1", json!(null));
    line.ends("r1", "completed");
    line.asks("r1", "c1", "completed");
    line.begins("r2", json!(null));
    line.ends("r2", "completed");
    line.take_kinds();
    line.asks("r1", "c2", "completed");
    assert_eq!(line.take_kinds(), [""; 0]);
    assert_eq!(line.session.counts().stray, 1);
    // The beginning of this one was missed.
    line.asks("r3", "c3", "completed");
    assert_eq!(line.take_kinds(), ["response_began", "asked"]);
}

#[test]
fn an_output_is_an_item_with_the_id_of_its_command_and_taken_when_it_is_in_the_conversation() {
    let mut line = Line::open();
    let id = line.command(3, output("c1"));
    let item = &line.sent[0]["item"];
    assert_eq!(
        (item["id"].as_str().unwrap(), item["call_id"].as_str().unwrap()),
        (id.to_string().as_str(), "c1")
    );
    assert!(item["id"].as_str().unwrap().len() <= 32, "providers take no longer ids");
    line.command(3, output("c1"));
    assert_eq!(line.take_sent().len(), 1, "it is under way");
    line.frame(json!({ "type": "conversation.item.added", "item": { "id": id.to_string(), "type": "function_call_output", "call_id": "c1" } }));
    line.frame(json!({ "type": "conversation.item.created", "item": { "id": id.to_string(), "type": "function_call_output", "call_id": "c1" } }));
    assert_eq!(line.news, [LiveNews::Taken { command: id }]);
    line.command(3, output("c1"));
    assert!(line.sent.is_empty(), "the session has it");
    assert_eq!(line.take_kinds(), ["taken", "taken"]);
}

#[test]
fn a_session_that_says_that_it_has_an_item_has_taken_it() {
    for error in [
        json!({ "code": "item_already_exists", "message": "x" }),
        json!({ "code": "invalid_request", "message": "An item with id 'a' already exists." }),
    ] {
        let mut line = Line::open();
        let id = line.command(3, CommandKind::Note { text: "x".into() });
        let mut frame = json!({ "type": "error", "error": error });
        frame["error"]["event_id"] = json!(id.to_string());
        line.frame(frame);
        assert_eq!(line.news, [LiveNews::Taken { command: id }]);
    }
}

#[test]
fn servers_that_give_items_ids_of_their_own_are_understood() {
    let mut line = Line::open();
    let first = line.command(3, output("c1"));
    let second = line.command(4, output("c2"));
    let note = line.command(5, CommandKind::Note { text: "x".into() });
    let added = |item| json!({ "type": "conversation.item.added", "item": item });
    line.frame(added(json!({ "id": "theirs-1", "type": "message", "role": "user" })));
    line.frame(added(json!({ "id": "theirs-2", "type": "function_call_output", "call_id": "c2" })));
    line.frame(added(json!({ "id": "theirs-3", "type": "function_call_output", "call_id": "c1" })));
    line.frame(added(json!({ "id": "theirs-4", "type": "message", "role": "system" })));
    let taken = [second, first, note].map(|command| LiveNews::Taken { command });
    assert_eq!(line.news, taken);
}

#[test]
fn an_output_that_is_refused_is_told_with_the_providers_words() {
    let mut line = Line::open();
    let id = line.command(3, output("c1"));
    line.refuses(&id.to_string(), "invalid_tool_call_id");
    let [LiveNews::Refused { command, code, message }] = &line.news[..] else { panic!("{:?}", line.news) };
    assert_eq!((*command, code.as_str(), message.as_str()), (id, "invalid_tool_call_id", "no"));
}

#[test]
fn a_call_that_the_provider_takes_out_of_the_conversation_is_withdrawn() {
    let mut line = Line::open();
    line.begins("r1", json!(null));
    line.asks("r1", "c1", "completed");
    line.take_kinds();
    line.frame(json!({ "type": "conversation.item.deleted", "item_id": "item-c1" }));
    assert_eq!(line.news, [LiveNews::Withdrawn { call_id: "c1".into() }]);
}

#[test]
fn the_session_is_told_the_tools_under_the_names_that_models_see() {
    let mut line = Line::new(crate::settings());
    line.command(0, CommandKind::Session { instructions: "You are the desk.".into() });
    assert!(line.sent.is_empty(), "there is no session yet");
    line.connect();
    let session = &line.sent[0]["session"];
    assert_eq!(session["instructions"], "You are the desk.");
    assert_eq!(session["tools"][0]["name"], "book__find");
    assert_eq!(session["output_modalities"], json!(["text"]));
}

#[test]
fn keys_and_spoken_words_of_the_caller_are_told() {
    let mut line = Line::open();
    line.frame(json!({ "type": "input_audio_buffer.speech_started", "item_id": "i" }));
    line.frame(json!({ "type": "input_audio_buffer.speech_stopped", "item_id": "i" }));
    line.frame(json!({ "type": "conversation.item.input_audio_transcription.completed", "item_id": "i", "transcript": "hello" }));
    line.frame(
        json!({ "type": "conversation.item.input_audio_transcription.failed", "item_id": "i", "error": {} }),
    );
    line.frame(json!({ "type": "input_audio_buffer.dtmf_event_received", "event": "4#" }));
    let expected = ["speech_started", "speech_stopped", "heard", "heard", "digit", "digit"];
    assert_eq!(line.take_kinds(), expected);
}

#[test]
fn audio_was_heard_when_it_was_played() {
    let mut line = Line::open();
    line.begins("r1", json!(null));
    line.frame(
        json!({ "type": "response.output_audio_transcript.done", "response_id": "r1", "transcript": "Yes." }),
    );
    line.ends("r1", "completed");
    assert_eq!(line.take_kinds(), ["response_began", "said", "response_ended"]);
    line.frame(json!({ "type": "output_audio_buffer.started", "response_id": "r1" }));
    line.frame(json!({ "type": "output_audio_buffer.stopped", "response_id": "r1" }));
    assert_eq!(line.news, [LiveNews::Played { response: "r1".into() }]);
    assert_eq!(line.session.counts().unknown, 0);
}
