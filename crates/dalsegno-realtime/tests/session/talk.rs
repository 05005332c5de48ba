//! Responses and the caller's turns: others' bugs, each a test.

use dalsegno_core::{CommandKind, LiveNews};
use dalsegno_realtime::ModelSession as _;
use serde_json::json;

use crate::{Line, output, respond};

#[test]
fn the_callers_words_are_sent_and_answered() {
    let mut line = Line::open();
    line.say("  Is there a table?\n");
    assert_eq!(line.sent[0]["item"]["content"][0]["text"], "Is there a table?");
    assert_eq!(line.take_sent(), ["conversation.item.create", "response.create"]);
    assert_eq!(line.take_kinds(), ["speech_started", "speech_stopped", "heard"]);
    line.begins("r1", json!({ "turn": "turn3" }));
    line.frame(json!({ "type": "response.output_text.done", "response_id": "r1", "text": "There is." }));
    assert_eq!(line.news, [LiveNews::ResponseBegan { response: "r1".into(), command: None }]);
    line.ends("r1", "completed");
    let said = LiveNews::Said { text: "There is.".into(), heard_ms: None };
    assert!(line.news.contains(&said), "{:?}", line.news);
    assert_eq!(line.take_kinds(), ["response_began", "said", "response_ended", "played"]);
}

#[test]
fn typing_interrupts_and_the_next_response_waits_for_the_end_of_the_first() {
    let mut line = Line::open();
    line.say("Tell me a story.");
    line.begins("r1", json!({ "turn": "t" }));
    line.take_sent();
    line.take_kinds();
    line.now += 400;
    line.say("Stop.");
    line.say("Really.");
    assert_eq!(
        line.take_sent(),
        ["conversation.item.create", "response.cancel", "conversation.item.create"],
        "no response before the first has ended, and one cancel"
    );
    assert_eq!(line.take_kinds(), ["speech_started"]);
    line.frame(json!({ "type": "response.output_text.done", "response_id": "r1", "text": "Once upon" }));
    line.ends("r1", "cancelled");
    assert!(line.news.contains(&LiveNews::Said { text: "Once upon".into(), heard_ms: Some(400) }));
    assert_eq!(line.take_kinds(), ["said", "response_ended", "speech_stopped", "heard", "heard"]);
    assert_eq!(line.take_sent(), ["response.create"]);
}

#[test]
fn words_between_the_wish_for_a_response_and_its_beginning_interrupt_it() {
    let mut line = Line::open();
    line.command(1, respond());
    line.say("Wait.");
    assert_eq!(line.take_sent(), ["response.create", "conversation.item.create", "response.cancel"]);
    // It had not begun, so there was nothing to cancel; then it begins.
    line.refuses("cancel2", "response_cancel_not_active");
    line.begins("r1", json!({ "command": dalsegno_core::OperationId::from_bytes([1; 16]).to_string() }));
    assert_eq!(line.take_sent(), ["response.cancel"]);
    line.ends("r1", "cancelled");
    assert_eq!(line.take_sent(), ["response.create"]);
}

#[test]
fn no_response_is_asked_for_while_one_is_active() {
    let mut line = Line::open();
    line.say("A table?");
    line.begins("r1", json!({ "turn": "t" }));
    line.take_sent();
    line.take_kinds();
    let command = line.command(1, respond());
    assert_eq!(line.take_sent(), [""; 0]);
    let [LiveNews::Refused { command: refused, code, .. }] = &line.news[..] else {
        panic!("{:?}", line.news)
    };
    assert_eq!((*refused, code.as_str()), (command, "busy"));
}

#[test]
fn a_response_that_is_asked_for_while_another_one_is_about_to_begin_waits_and_is_told() {
    let mut line = Line::open();
    line.say("A table?");
    line.take_sent();
    line.take_kinds();
    line.command(1, respond());
    line.command(1, respond());
    assert_eq!((line.take_sent().len(), line.take_kinds().len()), (0, 0));
    line.begins("r1", json!({ "turn": "t" }));
    assert_eq!(line.take_kinds(), ["response_began", "refused"], "the core knows first which one is active");
}

#[test]
fn where_the_provider_says_that_one_is_active_ours_waits_for_its_end() {
    let mut line = Line::open();
    let id = line.command(1, respond());
    line.take_sent();
    line.refuses(&id.to_string(), "conversation_already_has_active_response");
    assert_eq!((line.take_sent().len(), line.take_kinds().len()), (0, 0), "it waits");
    line.ends("theirs", "completed");
    assert_eq!(line.take_sent(), ["response.create"]);
    line.refuses(&id.to_string(), "conversation_already_has_active_response");
    line.wait(999);
    assert_eq!(line.take_sent(), [""; 0]);
    line.wait(1);
    assert_eq!(line.take_sent(), ["response.create"], "or for a second");
    line.begins("r1", json!({}));
    let began = LiveNews::ResponseBegan { response: "r1".into(), command: Some(id) };
    assert_eq!(line.news, [LiveNews::Taken { command: id }, began], "a server that returns no metadata");
}

#[test]
fn a_response_of_the_provider_is_not_taken_for_ours() {
    let mut line = Line::open();
    let ours = line.command(1, respond());
    line.begins("r1", json!({ "command": "somebody" }));
    line.ends("r1", "completed");
    assert!(!line.news.contains(&LiveNews::Taken { command: ours }), "{:?}", line.news);
    line.begins("r2", json!({ "command": ours.to_string() }));
    assert!(line.news.contains(&LiveNews::ResponseBegan { response: "r2".into(), command: Some(ours) }));
}

#[test]
fn what_a_response_is_told_does_not_take_the_place_of_the_system_prompt() {
    let mut line = Line::open();
    line.command(1, CommandKind::Respond { instructions: Some("Greet.".into()), tools: false });
    assert_eq!(line.sent[0]["response"]["instructions"], "You are the desk.\n\nGreet.");
    assert_eq!(line.sent[0]["response"]["tool_choice"], "none");
}

#[test]
fn a_turn_that_the_provider_refuses_to_answer_is_tried_thrice() {
    let mut line = Line::open();
    line.say("Hello?");
    for last in [false, false, true] {
        let wish = line.sent.last().unwrap();
        assert_eq!(wish["type"], "response.create");
        let id = wish["event_id"].as_str().unwrap().to_owned();
        line.refuses(&id, "server_error");
        line.wait(1_000);
        assert_eq!(line.session.is_over(), last);
    }
    assert!(
        matches!(line.news.last(), Some(LiveNews::Ended { reason, .. }) if reason.contains("server_error"))
    );
}

#[test]
fn errors_that_no_attempt_helps_against_end_the_call() {
    for frame in [
        json!({ "type": "error", "error": { "type": "invalid_request_error", "code": "insufficient_quota", "message": "no money" } }),
        json!({ "type": "response.done", "response": { "id": "r", "status": "failed",
            "status_details": { "error": { "code": "invalid_api_key", "type": "authentication_error" } } } }),
    ] {
        let mut line = Line::open();
        line.frame(frame);
        assert!(line.closed && line.session.is_over());
        assert!(matches!(&line.news[..], [LiveNews::Ended { .. }]), "{:?}", line.news);
        line.say("Hello?");
        line.command(1, output("c"));
        assert!(line.sent.is_empty(), "nothing is sent to a session that is over");
    }
}

#[test]
fn a_response_that_is_cut_off_by_a_limit_has_not_completed() {
    for status in ["incomplete", "failed", "in_progress", "brilliant"] {
        let mut line = Line::open();
        line.begins("r1", json!(null));
        line.ends("r1", status);
        let end = line.news.last().unwrap();
        assert!(
            matches!(end, LiveNews::ResponseEnded { end: dalsegno_core::ResponseEnd::Failed, .. }),
            "{end:?}"
        );
    }
}
