//! Calls of telephones: they ring, are answered, and continue while no process carries them.

use dalsegno_core::{
    AgentAction, AgentRequest, AgentState, CommandKind, EndedBy, Entry, LiveCommand, LiveNews, LiveTokens,
    OperationId, ResponseEnd, RunErrorCode, RunId, Status, Surface, Timestamp, execute_agent_step,
};
use serde_json::json;

use crate::world::{Call, config};

fn answer(call: &Call) -> OperationId {
    let outbox = call.outbox();
    let [LiveCommand { id, kind: CommandKind::Answer { instructions } }] = &outbox[..] else {
        panic!("{outbox:?}")
    };
    assert_eq!(instructions, "Take calls.");
    *id
}

#[test]
fn a_telephone_is_answered_with_the_session_and_told_nothing_more() {
    let mut config = config();
    config.voice.as_mut().unwrap().greeting = Some("Greet.".parse().unwrap());
    let mut call = Call::ringing(config);
    assert!(call.state.live().unwrap().is_ringing());
    let id = answer(&call);
    assert!(call.tell(LiveNews::Taken { command: id }));
    assert!(!call.state.live().unwrap().is_ringing());
    assert_eq!(call.outbox(), [], "its session begins with all that it has to know");
    call.after(900).tell(LiveNews::Connected);
    let outbox = call.outbox();
    assert!(
        matches!(&outbox[..], [LiveCommand { kind: CommandKind::Respond { instructions: Some(told), .. }, .. }]
        if told == "Greet.")
    );
}

#[test]
fn a_call_that_is_not_answered_within_twenty_seconds_is_missed() {
    let mut call = Call::ringing(config());
    assert_eq!(call.state.wake_at(&call.config).unwrap().as_millis(), 20_000);
    call.after(19_999).tell(LiveNews::Woke);
    assert_eq!(call.outbox().len(), 1);
    call.after(1).tell(LiveNews::Woke);
    let outbox = call.outbox();
    assert!(matches!(&outbox[1].kind, CommandKind::Close { reason } if reason == "missed"), "{outbox:?}");
    let by = EndedBy::Agent;
    call.tell(LiveNews::Ended { by, reason: "missed".into() });
    let response = call.response.as_ref().unwrap();
    assert_eq!(response.status, Status::Failed);
    let error = response.error.as_ref().unwrap();
    assert_eq!(error.code, RunErrorCode::ModelFailed);
    assert_eq!(error.message, "the call was not answered within 20 s");
    // One that was answered in time is not missed, however late its session is there.
    let mut call = Call::ringing(config());
    let id = answer(&call);
    call.after(19_999).tell(LiveNews::Taken { command: id });
    call.after(60_000).tell(LiveNews::Woke);
    assert_eq!(call.outbox(), []);
}

#[test]
fn a_call_that_cannot_be_answered_ends_with_the_reason() {
    let mut call = Call::ringing(config());
    let id = answer(&call);
    let (code, message) = ("invalid_value".to_owned(), "no such model".to_owned());
    call.tell(LiveNews::Refused { command: id, code, message });
    assert!(matches!(&call.outbox()[..], [LiveCommand { kind: CommandKind::Close { .. }, .. }]));
    call.tell(LiveNews::Ended { by: EndedBy::Agent, reason: "x".into() });
    let error = call.response.as_ref().unwrap().error.as_ref().unwrap();
    assert_eq!(error.message, "the call could not be answered: invalid_value: no such model");
}

#[test]
fn a_caller_who_gives_up_before_the_answer_leaves_a_run_that_is_over() {
    let mut call = Call::ringing(config());
    call.tell(LiveNews::Ended { by: EndedBy::Caller, reason: "gave up".into() });
    assert_eq!(call.response.as_ref().unwrap().status, Status::Completed);
}

#[test]
fn only_a_telephone_outlives_its_process_and_records_say_so_by_name() {
    for (surface, name, outlives, answered) in [
        (Surface::Script, "script", false, false),
        (Surface::Realtime, "realtime", false, false),
        (Surface::Model, "model", false, false),
        (Surface::Telephone, "telephone", true, true),
        (Surface::Duplex, "duplex", true, true),
        (Surface::Media, "media", true, false),
    ] {
        assert_eq!(serde_json::to_value(surface).unwrap(), json!(name));
        assert_eq!((surface.outlives_its_process(), surface.is_answered()), (outlives, answered));
    }
}

#[test]
fn a_caller_whose_sound_passes_through_gets_a_session_of_its_own() {
    let call = Call::on(Surface::Media, config());
    assert!(matches!(call.outbox()[0].kind, CommandKind::Session { .. }));
    assert!(!call.state.live().unwrap().is_ringing());
}

#[test]
fn words_that_were_said_and_not_heard_to_their_end_are_marked_in_the_transcript() {
    let mut call = Call::open();
    call.tell(LiveNews::ResponseBegan { response: "r1".into(), command: None });
    call.tell(LiveNews::Said { text: "A long story.".into(), heard_ms: None });
    call.tell(LiveNews::ResponseEnded { response: "r1".into(), end: ResponseEnd::Completed });
    call.tell(LiveNews::SpeechStarted);
    call.tell(LiveNews::Cut { response: "r1".into(), heard_ms: 1_240 });
    let last = call.state.transcript().iter().last().cloned();
    assert_eq!(last, Some(Entry::User("[The caller interrupted this: 1.2 s of it were heard.]".into())));
}

#[test]
fn what_responses_cost_by_the_price_of_the_line_ends_the_call_at_its_limit() {
    let mut config = config();
    config.limits.max_cost_nano_usd = Some(1_000);
    let mut call = Call::ringing(config);
    call.take_all();
    call.tell(LiveNews::Connected);
    let cost = |nano_usd| {
        let tokens = LiveTokens { input: 10, output: 1, cost_nano_usd: nano_usd, ..LiveTokens::default() };
        LiveNews::Counted { response: "r1".into(), tokens }
    };
    let closes = |call: &Call| call.commands.iter().any(|one| matches!(one.kind, CommandKind::Close { .. }));
    call.tell(cost(None));
    call.tell(cost(Some(999)));
    assert_eq!((call.state.usage().cost_nano_usd, closes(&call)), (999, false));
    call.tell(cost(Some(2)));
    assert_eq!((call.state.usage().cost_nano_usd, closes(&call)), (1_001, true));
    call.tell(LiveNews::Ended { by: EndedBy::Agent, reason: "closed".into() });
    let error = call.response.unwrap().error.unwrap();
    assert!(error.code == RunErrorCode::LimitExceeded && error.message.contains("max_cost"), "{error:?}");
}

#[test]
fn what_the_time_of_a_call_costs_ends_it_at_its_limit() {
    let mut config = config();
    config.limits.max_cost_nano_usd = Some(1_000);
    let mut call = Call::ringing(config);
    call.take_all();
    call.tell(LiveNews::Connected);
    let closes = |call: &Call| call.commands.iter().any(|one| matches!(one.kind, CommandKind::Close { .. }));
    call.tell(LiveNews::Lasted { millis: 10_000, cost_nano_usd: None });
    call.tell(LiveNews::Lasted { millis: 20_000, cost_nano_usd: Some(999) });
    assert_eq!((call.state.usage().cost_nano_usd, closes(&call)), (999, false));
    assert_eq!(call.state.live().map(dalsegno_core::Live::lasted_ms), Some(20_000));
    call.tell(LiveNews::Lasted { millis: 30_000, cost_nano_usd: Some(2) });
    assert_eq!((call.state.usage().cost_nano_usd, closes(&call)), (1_001, true));
    assert_eq!(call.state.usage().model_calls, 0, "it is no reply");
}

#[test]
fn a_fork_of_a_call_that_nothing_has_happened_in_is_a_call_over_its_own_surface() {
    let request = AgentRequest { surface: Some(Surface::Telephone), ..AgentRequest::text("") };
    let state = AgentState::start(RunId::from_bytes([7; 16]), request, Timestamp::from_millis(0));
    let forked = state.fork_call(RunId::from_bytes([8; 16]), false, Surface::Script).unwrap();
    let action = execute_agent_step(&config(), forked).unwrap();
    let AgentAction::Converse { commands, .. } = action else { panic!("it is no call") };
    assert!(matches!(commands[..], [LiveCommand { kind: CommandKind::Session { .. }, .. }]), "{commands:?}");
    // A run that is no call does not become one.
    let state =
        AgentState::start(RunId::from_bytes([7; 16]), AgentRequest::text(""), Timestamp::from_millis(0));
    assert!(state.fork_call(RunId::from_bytes([8; 16]), false, Surface::Script).is_err());
}
