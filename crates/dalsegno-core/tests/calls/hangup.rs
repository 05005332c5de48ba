//! The live model hangs up by `call.hang_up`.

use dalsegno_core::*;
use serde_json::json;

use crate::world::{Call, config};

const NAME: &str = "call.hang_up";

/// The agent may hang up.
fn hangs_up() -> AgentConfig {
    let mut config = config();
    let mut tool = Tool::new("ends the call".into(), json!({ "type": "object" }));
    tool.kind = ToolKind::HangUp;
    config.tools.tools.insert(NAME.parse().unwrap(), tool);
    config
}

fn by_text() -> Call {
    let mut call = Call::with(hangs_up());
    call.tell(LiveNews::Connected);
    call
}

fn by_telephone() -> Call {
    by(Surface::Telephone)
}

fn by(surface: Surface) -> Call {
    let mut call = Call::on(surface, hangs_up());
    call.take_all();
    call.tell(LiveNews::Connected);
    call
}

fn says(call: &mut Call, text: &str) {
    call.tell(LiveNews::Said { text: text.into(), heard_ms: None });
}

fn closes(call: &Call) -> bool {
    call.commands.iter().any(|command| matches!(command.kind, CommandKind::Close { .. }))
}

/// The outputs of calls, as codes.
fn codes(call: &Call, of: &str) -> Vec<String> {
    let code = |output: &&str| {
        let value: serde_json::Value = serde_json::from_str(output).unwrap();
        value["error"]["code"].as_str().unwrap().to_owned()
    };
    call.outputs(of).iter().map(code).collect()
}

#[test]
fn a_call_by_text_ends_when_the_response_has_completed() {
    let mut call = by_text();
    call.began("r1");
    call.asks("r1", "c1", NAME, 1);
    says(&mut call, "Goodbye.");
    assert!(!closes(&call), "the response is under way");
    call.ended("r1", ResponseEnd::Completed);
    assert!(closes(&call));
    assert_eq!((call.outputs("c1").len(), call.responds()), (0, 0), "an output would not be read any more");
    call.tell(LiveNews::Ended { by: EndedBy::Agent, reason: "closed".into() });
    let response = call.response.as_ref().unwrap();
    assert_eq!((response.status, response.answer.as_deref()), (Status::Completed, Some("Goodbye.")));
}

#[test]
fn a_caller_by_telephone_hears_the_last_words_to_the_end() {
    for surface in [Surface::Telephone, Surface::Media] {
        hears_the_last_words(by(surface));
    }
}

fn hears_the_last_words(mut call: Call) {
    call.began("r1");
    says(&mut call, "Goodbye.");
    call.asks("r1", "c1", NAME, 1);
    call.ended("r1", ResponseEnd::Completed);
    assert!(!closes(&call), "the words are being played");
    call.after(2_000).tell(LiveNews::Played { response: "r1".into() });
    assert!(closes(&call));
}

#[test]
fn the_end_of_earlier_words_does_not_cut_off_the_last_ones() {
    let mut call = by_telephone();
    call.began("r1");
    says(&mut call, "Your table is booked.");
    call.ended("r1", ResponseEnd::Completed);
    call.began("r2");
    says(&mut call, "Goodbye.");
    call.asks("r2", "c1", NAME, 1);
    call.ended("r2", ResponseEnd::Completed);
    call.after(500).tell(LiveNews::Played { response: "r1".into() });
    assert!(!closes(&call), "the last words are being played");
    call.after(2_000).tell(LiveNews::Played { response: "r2".into() });
    assert!(closes(&call));
}

#[test]
fn a_provider_that_does_not_say_when_words_were_played_is_not_waited_for_long() {
    let mut call = by_telephone();
    call.began("r1");
    says(&mut call, "Goodbye.");
    call.asks("r1", "c1", NAME, 1);
    call.ended("r1", ResponseEnd::Completed);
    let wakes = call.state.wake_at(&call.config).unwrap().as_millis();
    assert_eq!(wakes - call.now, 10_000);
    call.now = wakes - 1;
    call.tell(LiveNews::Woke);
    assert!(!closes(&call));
    call.now = wakes;
    call.tell(LiveNews::Woke);
    assert!(closes(&call));
}

#[test]
fn a_caller_who_speaks_before_the_end_is_not_cut_off() {
    let mut call = by_telephone();
    call.began("r1");
    says(&mut call, "Goodbye.");
    call.asks("r1", "c1", NAME, 1);
    call.ended("r1", ResponseEnd::Completed);
    call.tell(LiveNews::SpeechStarted);
    assert_eq!(codes(&call, "c1"), ["cancelled"]);
    call.tell(LiveNews::SpeechStopped);
    call.tell(LiveNews::Heard { text: "Wait!".into() });
    call.after(60_000).tell(LiveNews::Woke);
    assert!(!closes(&call), "it is not remembered");
    // It may hang up later.
    call.began("r2");
    call.asks("r2", "c2", NAME, 2);
    call.ended("r2", ResponseEnd::Completed);
    assert!(closes(&call));
}

#[test]
fn a_response_that_is_broken_off_does_not_hang_up() {
    for end in [ResponseEnd::Interrupted, ResponseEnd::Failed] {
        let mut call = by_text();
        call.began("r1");
        call.asks("r1", "c1", NAME, 1);
        call.ended("r1", end);
        assert!(!closes(&call), "{end:?}");
        assert_eq!(codes(&call, "c1"), ["cancelled"], "{end:?}");
        // Asked for only after its response was broken off.
        let mut call = by_text();
        call.began("r1");
        call.ended("r1", end);
        call.asks("r1", "c1", NAME, 1);
        assert_eq!((closes(&call), codes(&call, "c1")), (false, vec!["cancelled".to_owned()]), "{end:?}");
    }
}

#[test]
fn a_second_wish_to_hang_up_is_refused_and_a_lost_connection_forgets_the_first() {
    let mut call = by_text();
    call.began("r1");
    call.asks("r1", "c1", NAME, 1);
    call.asks("r1", "c2", NAME, 2);
    assert_eq!(codes(&call, "c2"), ["overloaded"]);
    call.tell(LiveNews::Lost { reason: "gone".into() });
    call.tell(LiveNews::Attached);
    assert_eq!(codes(&call, "c1"), ["cancelled"]);
    assert!(!closes(&call));
}

#[test]
fn what_was_sent_before_is_recorded_after_the_agent_hung_up() {
    let mut call = by_text();
    call.calls("r1", "sends", "book.send", 1);
    call.calls("r2", "ends", NAME, 2);
    assert!(closes(&call));
    call.tell(LiveNews::Ended { by: EndedBy::Agent, reason: "closed".into() });
    assert!(call.response.is_none(), "an effect is under way");
    let sent = call.operations[0].id;
    call.returns(sent, json!("sent"));
    assert_eq!(call.response.as_ref().unwrap().status, Status::Completed);
}

#[test]
fn hanging_up_does_not_wait_for_an_approval() {
    let mut config = hangs_up();
    config.tools.tools.get_mut(&NAME.parse::<ToolName>().unwrap()).unwrap().approve = true;
    let mut call = Call::with(config);
    call.tell(LiveNews::Connected);
    call.calls("r1", "c1", NAME, 1);
    assert_eq!((closes(&call), codes(&call, "c1")), (false, vec!["not_permitted".to_owned()]));
}
