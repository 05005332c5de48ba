//! One test for each row of the table of tool calls.

use dalsegno_core::*;
use serde_json::{Value, json};

use crate::world::{Call, config};

fn code(output: &str) -> String {
    let value: Value = serde_json::from_str(output).unwrap_or_else(|_| panic!("{output}"));
    value["error"]["code"].as_str().or(value["status"].as_str()).unwrap_or(output).to_owned()
}

fn responds_last(call: &Call) -> (Option<String>, bool) {
    let responds = call.commands.iter().rev().find_map(|command| match &command.kind {
        CommandKind::Respond { instructions, tools } => Some((instructions.clone(), *tools)),
        _ => None,
    });
    responds.expect("the model was asked to speak")
}

#[test]
fn what_reads_starts_at_once_and_all_else_when_the_response_has_completed() {
    for (tool, at_once) in
        [("book.find", true), ("book.set", true), ("book.add", false), ("book.send", false)]
    {
        let mut call = Call::open();
        call.began("r1");
        call.asks("r1", "c1", tool, 1);
        assert_eq!(call.operations.len(), usize::from(at_once), "{tool}");
        call.ended("r1", ResponseEnd::Completed);
        assert_eq!(call.operations.len(), 1, "{tool}");
        assert_eq!(call.operations[0].ordinal, [0]);
    }
}

#[test]
fn an_interrupted_response_starts_nothing_and_what_it_read_is_cancelled() {
    let mut call = Call::open();
    call.began("r1");
    for (number, tool) in ["book.find", "book.set", "book.add", "book.send"].into_iter().enumerate() {
        call.asks("r1", &format!("c{number}"), tool, 1);
    }
    let [find, set] = call.operations.iter().map(|one| one.id).collect::<Vec<_>>()[..] else { panic!() };
    call.tell(LiveNews::SpeechStarted);
    call.ended("r1", ResponseEnd::Interrupted);
    assert_eq!(call.operations.len(), 2, "no keyed or unsafe effect of an incomplete response");
    assert_eq!(call.concluded.keys().collect::<Vec<_>>(), [&find]);
    assert!(call.concluded[&find].is_withdrawal());
    for cancelled in ["c0", "c2", "c3"] {
        assert_eq!(call.outputs(cancelled).iter().map(|one| code(one)).collect::<Vec<_>>(), ["cancelled"]);
    }
    assert!(call.outputs("c1").is_empty(), "what changes something finishes");
    call.returns(set, json!({ "set": 1 }));
    assert_eq!(call.outputs("c1"), [r#"{"set":1}"#]);
    assert_eq!(call.responds(), 0, "the caller's turn brings the results");
    call.tell(LiveNews::SpeechStopped);
    call.take_all();
    call.began("r2");
    call.ended("r2", ResponseEnd::Completed);
    assert_eq!(call.responds(), 0);
}

#[test]
fn a_read_of_which_the_agents_file_says_so_runs_on_when_the_model_is_interrupted() {
    let mut config = config();
    let keep = VoiceTool { keep_when_interrupted: true, ..VoiceTool::default() };
    config.voice.as_mut().unwrap().tools.insert("book.find".parse().unwrap(), keep);
    let mut call = Call::with(config);
    call.tell(LiveNews::Connected);
    call.began("r1");
    call.asks("r1", "c1", "book.find", 1);
    call.ended("r1", ResponseEnd::Interrupted);
    assert!(call.concluded.is_empty());
    let id = call.operations[0].id;
    call.returns(id, json!("found"));
    assert_eq!(call.outputs("c1"), [r#""found""#]);
}

#[test]
fn what_was_sent_is_neither_stopped_nor_lost_by_an_interruption() {
    for tool in ["book.add", "book.send"] {
        let mut call = Call::open();
        call.calls("r1", "c1", tool, 1);
        let id = call.operations[0].id;
        call.began("r2");
        call.ended("r2", ResponseEnd::Interrupted);
        call.ended("r1", ResponseEnd::Interrupted);
        assert!(call.concluded.is_empty() && call.open_operations().contains(&id));
        call.returns(id, json!(1));
        assert_eq!(call.outputs("c1"), ["1"]);
    }
}

#[test]
fn a_known_call_is_ignored_and_a_repeated_one_is_answered_by_the_same_operation() {
    let mut call = Call::open();
    call.calls("r1", "c1", "book.send", 1);
    call.asks("r1", "c1", "book.send", 2);
    assert_eq!(call.operations.len(), 1, "a call has one meaning");
    call.calls("r2", "c2", "book.send", 1);
    assert_eq!(call.operations.len(), 1);
    let id = call.operations[0].id;
    call.returns(id, json!("sent"));
    for one in ["c1", "c2"] {
        assert_eq!(call.outputs(one), [r#""sent""#], "{one}");
    }
    // Nobody has heard the result.
    call.take_all();
    call.began("r3");
    call.asks("r3", "c3", "book.send", 1);
    assert_eq!(call.outputs("c3"), [r#""sent""#]);
    call.ended("r3", ResponseEnd::Completed);
    call.calls("r4", "c4", "book.send", 1);
    assert_eq!(call.operations.len(), 1, "the result was given once more while r3 was active, and r4 has it");
    call.take_all();
    call.began("r5");
    call.ended("r5", ResponseEnd::Completed);
    call.calls("r6", "c6", "book.send", 1);
    assert_eq!(call.operations.len(), 2, "by now it was heard: a new call is a new wish");
    call.calls("r7", "c7", "book.send", 2);
    assert_eq!(call.operations.len(), 3, "other arguments are another call");
}

#[test]
fn a_response_that_began_before_the_session_had_a_result_has_not_heard_it() {
    let mut call = Call::open();
    call.calls("r1", "c1", "book.send", 1);
    let id = call.operations[0].id;
    call.returns(id, json!("sent"));
    // The provider begins a response while the output is on its way.
    call.began("r2");
    call.ended("r2", ResponseEnd::Completed);
    call.calls("r3", "c2", "book.send", 1);
    assert_eq!(call.operations.len(), 1, "the model asks again since it knows of no result");
    assert_eq!(call.outputs("c2"), [r#""sent""#]);
    call.take_all();
    call.began("r4");
    call.ended("r4", ResponseEnd::Completed);
    call.calls("r5", "c3", "book.send", 1);
    assert_eq!(call.operations.len(), 2, "r4 had it");
}

#[test]
fn a_result_of_which_no_call_was_told_is_never_heard() {
    let mut call = Call::open();
    call.calls("r1", "c1", "book.send", 1);
    let id = call.operations[0].id;
    call.tell(LiveNews::Withdrawn { call_id: "c1".into() });
    call.returns(id, json!("sent"));
    assert_eq!(call.outputs("c1"), [""; 0]);
    for response in ["r2", "r3"] {
        call.began(response);
        call.ended(response, ResponseEnd::Completed);
    }
    call.calls("r4", "c2", "book.send", 1);
    assert_eq!(call.operations.len(), 1, "it took place, and the model was never told");
    assert_eq!(call.outputs("c2"), [r#""sent""#]);
}

#[test]
fn a_result_right_after_an_interruption_is_not_seen_before_it() {
    let course = |looks_between: bool| {
        let mut call = Call::open();
        call.began("r1");
        call.asks("r1", "c1", "book.find", 1);
        let id = call.operations[0].id;
        let interrupted = LiveNews::ResponseEnded { response: "r1".into(), end: ResponseEnd::Interrupted };
        assert!(call.take(Event::live(Timestamp::from_millis(0), interrupted)));
        if looks_between {
            call.settle();
        }
        let found = Outcome::ToolReturned(ToolReturn::structured(json!("at eight")));
        call.take(Event::outcome(Timestamp::from_millis(0), id, found));
        call.settle();
        call.outputs("c1").iter().map(|one| code(one)).collect::<Vec<_>>()
    };
    assert_eq!(course(true), ["cancelled"]);
    assert_eq!(course(false), ["cancelled"], "however much has come before the step");
}

#[test]
fn what_certainly_did_nothing_may_be_tried_again_and_what_is_in_doubt_may_not() {
    for (code, joins) in [
        (FailureCode::Unavailable, false),
        (FailureCode::Overloaded, false),
        (FailureCode::Denied, false),
        (FailureCode::ToolFailed, true),
        (FailureCode::Indeterminate, true),
    ] {
        let mut call = Call::open();
        call.calls("r1", "c1", "book.send", 1);
        let id = call.operations[0].id;
        call.outcome(id, Outcome::Failed(Failure::new(code, "no")));
        call.began("r2");
        call.asks("r2", "c2", "book.send", 1);
        assert_eq!(call.outputs("c2").len(), usize::from(joins), "{code:?}");
        call.ended("r2", ResponseEnd::Completed);
        assert_eq!(call.operations.len(), if joins { 1 } else { 2 }, "{code:?}");
        if code == FailureCode::Indeterminate {
            for round in 3..9 {
                // The model has heard it: its session had the output when the response began.
                call.take_all();
                call.began("heard");
                call.ended("heard", ResponseEnd::Completed);
                call.calls(&format!("r{round}"), &format!("c{round}"), "book.send", 1);
            }
            assert_eq!(call.operations.len(), 1, "a doubt outlives every response");
        }
    }
}

#[test]
fn a_tool_that_opts_out_is_called_for_each_call() {
    let mut config = config();
    let apart = VoiceTool { join: false, ..VoiceTool::default() };
    config.voice.as_mut().unwrap().tools.insert("book.send".parse().unwrap(), apart);
    let mut call = Call::with(config);
    call.tell(LiveNews::Connected);
    call.calls("r1", "c1", "book.send", 1);
    call.calls("r2", "c2", "book.send", 1);
    assert_eq!(call.operations.len(), 2);
}

#[test]
fn one_response_brings_all_results_when_nobody_speaks() {
    let mut call = Call::open();
    call.began("r1");
    call.asks("r1", "c1", "book.find", 1);
    call.asks("r1", "c2", "book.find", 2);
    let ids: Vec<_> = call.operations.iter().map(|one| one.id).collect();
    for id in ids {
        call.returns(id, json!(1));
    }
    assert_eq!(call.responds(), 0, "r1 is active");
    call.tell(LiveNews::SpeechStarted);
    call.ended("r1", ResponseEnd::Completed);
    assert_eq!(call.responds(), 0, "the caller speaks");
    call.tell(LiveNews::SpeechStopped);
    assert_eq!(call.responds(), 0, "the caller's turn is answered by itself");
    let until = call.state.wake_at(&call.config).unwrap();
    call.now = until.as_millis();
    call.tell(LiveNews::Woke);
    assert_eq!(call.responds(), 1, "nobody answered");
    assert_eq!(responds_last(&call), (None, true));
    call.after(5).tell(LiveNews::Woke);
    assert_eq!(call.responds(), 1, "it is asked once");
}

#[test]
fn silence_is_filled_twice_and_then_no_more() {
    let mut call = Call::open();
    call.after(100).calls("r1", "c1", "book.send", 1);
    let mut pauses = Vec::new();
    for round in 0..2 {
        let since = call.now;
        call.now = call.state.wake_at(&call.config).unwrap().as_millis();
        pauses.push(call.now - since);
        call.tell(LiveNews::Woke);
        assert_eq!(call.responds(), round + 1);
        assert_eq!(responds_last(&call), (Some(VoiceSettings::FILLER.to_owned()), false), "tools are off");
        let command = call.outbox().last().unwrap().id;
        call.take_all();
        let response = format!("f{round}");
        call.tell(LiveNews::ResponseBegan { response: response.clone(), command: Some(command) });
        call.ended(&response, ResponseEnd::Completed);
    }
    assert_eq!(pauses, [1_500, 8_000]);
    call.now = call.state.wake_at(&call.config).unwrap().as_millis();
    call.tell(LiveNews::Woke);
    assert_eq!(call.outputs("c1").iter().map(|one| code(one)).collect::<Vec<_>>(), ["running"]);
    assert_eq!(call.now, 100 + 10_000, "after `defer_after` the result follows");
    let id = call.operations[0].id;
    call.after(60_000).returns(id, json!("sent"));
    assert_eq!(call.outputs("c1").len(), 1);
    assert_eq!(call.notes(), [r#"The result of `book.send` is there: "sent""#]);
}

#[test]
fn a_question_for_a_person_is_not_waited_for() {
    let mut call = Call::open();
    call.calls("r1", "c1", "book.pay", 1);
    let id = call.operations[0].id;
    assert_eq!(call.outputs("c1").iter().map(|one| code(one)).collect::<Vec<_>>(), ["running"]);
    let edited = Validation::Valid { arguments: json!({ "n": 2 }) };
    call.answer(id, Answer::Approved { edited: Some(edited), reason: None, by: None });
    call.returns(id, json!("paid"));
    assert_eq!(call.outputs("c1").len(), 1);
    let [note] = call.notes()[..] else { panic!("{:?}", call.notes()) };
    assert!(note.contains(r#"changed the arguments. The tool was called with {"n":2}"#), "{note}");
    let mut call = Call::open();
    call.calls("r1", "c1", "book.pay", 1);
    let id = call.operations[0].id;
    call.answer(id, Answer::Denied { reason: Some("no".into()), by: None });
    let [note] = call.notes()[..] else { panic!("{:?}", call.notes()) };
    assert!(note.contains("denied"), "{note}");
}

#[test]
fn a_doubt_is_told_at_once_and_settled_later() {
    let mut call = Call::open();
    call.calls("r1", "c1", "book.send", 1);
    let id = call.operations[0].id;
    call.gate(id, Gate::InDoubt { reason: "the line went dead".into() });
    assert_eq!(call.outputs("c1").iter().map(|one| code(one)).collect::<Vec<_>>(), ["in_doubt"]);
    call.calls("r2", "c2", "book.send", 1);
    assert_eq!(call.operations.len(), 1, "repeats join");
    assert_eq!(call.outputs("c2").iter().map(|one| code(one)).collect::<Vec<_>>(), ["in_doubt"]);
    call.answer(id, Answer::Done { result: Some(json!("sent")), error: None, by: Some("eve".into()) });
    assert_eq!(call.notes().len(), 2);
    assert_eq!(call.outputs("c1").len() + call.outputs("c2").len(), 2);
}

#[test]
fn after_the_caller_hung_up_what_was_sent_is_recorded_and_nothing_else_is_waited_for() {
    let mut call = Call::open();
    call.calls("r1", "sent", "book.send", 1);
    call.calls("r2", "asks", "book.pay", 1);
    call.began("r3");
    call.asks("r3", "reads", "book.find", 1);
    call.asks("r3", "held", "book.add", 1);
    let [sent, asks, reads] = call.operations.iter().map(|one| one.id).collect::<Vec<_>>()[..] else {
        panic!("{:?}", call.operations)
    };
    call.tell(LiveNews::Ended { by: EndedBy::Caller, reason: "hung up".into() });
    assert_eq!(
        call.concluded.keys().copied().collect::<std::collections::BTreeSet<_>>(),
        [asks, reads].into()
    );
    assert!(call.concluded.values().all(Outcome::is_withdrawal));
    assert!(call.response.is_none() && call.outbox().is_empty());
    assert!(!call.tell(LiveNews::SpeechStarted), "the call is over");
    call.returns(sent, json!("sent"));
    let response = call.response.as_ref().expect("the run is over");
    assert_eq!(response.status, Status::Completed);
    assert_eq!(call.operations.len(), 3, "what was held never starts");
}

#[test]
fn questions_may_stay_open_after_the_call() {
    let mut config = config();
    config.voice.as_mut().unwrap().after_hangup = AfterHangup::Keep;
    let mut call = Call::with(config);
    call.tell(LiveNews::Connected);
    call.calls("r1", "c1", "book.pay", 1);
    let id = call.operations[0].id;
    call.tell(LiveNews::Ended { by: EndedBy::Caller, reason: String::new() });
    assert!(call.response.is_none() && call.concluded.is_empty());
    call.answer(id, Answer::Approved { edited: None, reason: None, by: None });
    call.returns(id, json!("paid"));
    assert!(call.response.is_some());
}

#[test]
fn a_withdrawn_call_gets_no_output_and_does_not_start() {
    let mut call = Call::open();
    call.began("r1");
    call.asks("r1", "c1", "book.send", 1);
    call.tell(LiveNews::Withdrawn { call_id: "c1".into() });
    call.ended("r1", ResponseEnd::Completed);
    assert!(call.operations.is_empty() && call.outputs("c1").is_empty());
    call.calls("r2", "c2", "book.send", 2);
    call.tell(LiveNews::Withdrawn { call_id: "c2".into() });
    let id = call.operations[0].id;
    call.returns(id, json!("sent"));
    assert!(call.outputs("c2").is_empty(), "it was sent all the same");
}

#[test]
fn more_calls_than_may_be_open_are_refused() {
    let mut call = Call::open();
    for number in 0..20 {
        call.calls(&format!("r{number}"), &format!("c{number}"), "book.send", number);
    }
    assert_eq!(call.operations.len(), 16);
    assert_eq!(code(call.outputs("c16")[0]), "overloaded");
    call.asks("r99", "bad", "book.burn", 1);
    assert_eq!(code(call.outputs("bad")[0]), "tool_not_found");
}

#[test]
fn a_long_result_is_cut_and_says_so() {
    let mut call = Call::open();
    call.calls("r1", "c1", "book.find", 1);
    let id = call.operations[0].id;
    call.returns(id, json!("é".repeat(20_000)));
    let [output] = call.outputs("c1")[..] else { panic!() };
    assert!(output.len() <= TEXT_BYTES_MAX && output.ends_with("bytes in all]"), "{}", output.len());
}

#[test]
fn what_happened_while_the_connection_was_lost_is_asked_for_again() {
    let mut call = Call::open();
    call.take_all();
    call.began("r1");
    call.asks("r1", "c1", "book.send", 1);
    call.tell(LiveNews::Lost { reason: "reset".into() });
    call.tell(LiveNews::Attached);
    assert_eq!(code(call.outputs("c1")[0]), "cancelled", "nobody knows whether its response completed");
    assert!(call.notes()[0].contains("ask again"));
    let before: Vec<_> = call.outbox();
    assert!(!before.is_empty());
    call.tell(LiveNews::Lost { reason: "reset".into() });
    let again = call.outbox();
    assert_eq!(before, again, "what was not taken stays, under the same ids");
}

#[test]
fn a_busy_session_is_asked_again_when_its_response_has_ended() {
    let mut call = Call::open();
    call.calls("r1", "c1", "book.find", 1);
    let id = call.operations[0].id;
    call.returns(id, json!(1));
    let respond = call.outbox().last().unwrap().clone();
    assert!(matches!(respond.kind, CommandKind::Respond { .. }));
    call.began("r2");
    let (code, message) = ("busy".to_owned(), String::new());
    call.tell(LiveNews::Refused { command: respond.id, code, message });
    assert_eq!(call.responds(), 1);
    call.ended("r2", ResponseEnd::Completed);
    assert_eq!(call.responds(), 2);
}

#[test]
fn a_session_that_is_busy_with_a_response_that_no_news_told_of_is_asked_again_after_a_pause() {
    for ends in [false, true] {
        let mut call = Call::open();
        call.calls("r1", "c1", "book.find", 1);
        let id = call.operations[0].id;
        call.returns(id, json!(1));
        for asked in 1..4 {
            assert_eq!(call.responds(), asked);
            let respond = call.outbox().last().unwrap().clone();
            let (code, message) = ("busy".to_owned(), String::new());
            call.tell(LiveNews::Refused { command: respond.id, code, message });
            assert_eq!(call.responds(), asked, "it is asked again at once");
            if ends {
                // The end of one that was broken off by the caller says nothing of the one that answers the caller.
                call.ended("unseen", ResponseEnd::Interrupted);
                assert_eq!(call.responds(), asked);
                call.ended(&format!("unseen {asked}"), ResponseEnd::Completed);
            } else {
                call.now += 3_000;
                assert_eq!(call.state.wake_at(&call.config).unwrap().as_millis(), call.now);
                call.tell(LiveNews::Woke);
            }
        }
        assert_eq!(call.responds(), 4);
    }
}

#[test]
fn a_call_that_lasts_too_long_is_closed_and_fails() {
    for (lasts_ms, words) in [(30 * 60 * 1_000, "(30 min)"), (45_000, "(45 s)")] {
        let mut config = config();
        config.voice.as_mut().unwrap().max_duration_ms = lasts_ms;
        let mut call = Call::with(config);
        call.tell(LiveNews::Connected);
        call.take_all();
        call.now = call.state.wake_at(&call.config).unwrap().as_millis();
        assert_eq!(call.now, lasts_ms);
        call.tell(LiveNews::Woke);
        assert!(matches!(call.outbox()[..], [LiveCommand { kind: CommandKind::Close { .. }, .. }]));
        call.now = call.state.wake_at(&call.config).unwrap().as_millis();
        call.tell(LiveNews::Woke);
        let response = call.response.as_ref().expect("nobody said that it ended");
        let error = response.error.as_ref().unwrap();
        assert_eq!(error.code, RunErrorCode::LimitExceeded);
        assert!(error.message.contains(words), "{error:?}");
    }
}

#[test]
fn keys_are_told_together() {
    let mut call = Call::open();
    for digit in "12".chars() {
        call.after(200).tell(LiveNews::Digit { digit });
    }
    assert!(call.notes().is_empty());
    call.after(1_500).tell(LiveNews::Woke);
    assert_eq!(call.notes(), ["The caller pressed the keys 12."]);
    call.tell(LiveNews::Digit { digit: '#' });
    assert_eq!(call.notes().len(), 2, "a # ends the row");
    assert!(!call.tell(LiveNews::Digit { digit: 'x' }), "no telephone has it");
}

#[test]
fn a_command_that_was_never_sent_cannot_be_taken() {
    let mut call = Call::open();
    let never = OperationId::from_bytes([9; 16]);
    assert!(!call.tell(LiveNews::Taken { command: never }));
    let session = call.outbox()[0].id;
    assert!(call.tell(LiveNews::Taken { command: session }));
    assert!(call.tell(LiveNews::Taken { command: session }), "a session may say so again");
    assert!(!call.outbox().iter().any(|command| command.id == session));
}

#[test]
fn the_agent_speaks_first_where_it_has_a_greeting() {
    let mut config = config();
    config.voice.as_mut().unwrap().greeting = Some("Greet {{tenant.name}}.".parse().unwrap());
    let mut call = Call::with(config);
    assert!(matches!(&call.outbox()[..], [LiveCommand { kind: CommandKind::Session { instructions }, .. }]
        if instructions == "Take calls."));
    call.tell(LiveNews::Connected);
    assert_eq!(responds_last(&call), (Some("Greet default.".to_owned()), false));
}

/// A call whose live model hears while it speaks: of two responses under way, the second one has sent something and is over.
fn two_responses() -> Call {
    let mut call = Call::on(Surface::Duplex, config());
    call.take_all();
    call.tell(LiveNews::Connected);
    call.began("one");
    call.calls("two", "c1", "book.send", 1);
    call
}

#[test]
fn a_response_that_began_before_a_result_has_not_read_it_though_another_one_began_after_it() {
    let mut call = two_responses();
    let sent = call.operations[0].id;
    call.returns(sent, json!("sent"));
    call.take_all();
    call.asks("one", "c2", "book.find", 2);
    call.returns(call.operations[1].id, json!("found"));
    call.take_all();
    call.ended("one", ResponseEnd::Completed);
    // The model has read no more of it than that it was asked for.
    call.calls("three", "c3", "book.send", 1);
    assert_eq!(call.operations.len(), 2, "{:?}", call.operations);
    assert_eq!(call.outputs("c3"), call.outputs("c1"));
    // From here on it has.
    call.take_all();
    call.calls_nothing("four");
    call.calls("five", "c4", "book.send", 1);
    assert_eq!(call.operations.len(), 3);
}

#[test]
fn a_wish_to_speak_waits_until_no_response_is_under_way() {
    let mut call = two_responses();
    call.returns(call.operations[0].id, json!("sent"));
    call.take_all();
    assert_eq!(call.responds(), 0, "the first response continues");
    call.ended("one", ResponseEnd::Completed);
    assert_eq!(call.responds(), 1);
}
