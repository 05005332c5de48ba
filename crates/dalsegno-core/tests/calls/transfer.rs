//! A call that is transferred: asked for once, made when the call ends, and not made when it goes on.

use dalsegno_core::*;
use serde_json::{Value, json};

use crate::world::{Call, config};

pub(crate) const NAME: &str = "desk.transfer";

/// An agent with a tool that transfers calls to one of two places, and one that tells the caller's turn.
pub(crate) fn transfers() -> AgentConfig {
    let document = json!({
        "name": "desk", "description": "Calls.",
        "config_schema": { "properties": { "targets": { "type": "object" } } },
        "actions": [
            {
                "name": "transfer", "description": "Transfers the call.",
                "parameters": [{ "name": "n", "type": "integer", "required": true }],
                "actions": [
                    { "type": "call.transfer", "id": "go", "target": "{{config.targets[params.n]}}", "on_error": "continue" },
                ],
                "output": "result.go",
            },
            { "name": "turn", "description": "Tells the turn.", "parameters": [{ "name": "n", "type": "integer" }],
              "actions": [{ "type": "log", "log_message": "asked" }], "output": "call.turn" },
        ],
    });
    let compiled = dalsegno_tools::compile(&document);
    assert_eq!(compiled.problems, []);
    let targets = json!({ "targets": { "1": "+33140000001", "2": "sip:two@acme.example", "3": "nobody" } });
    let document = ToolDocument::new(compiled.toolkit.unwrap(), targets.as_object().unwrap().clone());
    let mut config = config();
    for declared in document.toolkit().tools() {
        let mut tool = Tool::new(declared.description(), declared.schema().clone());
        tool.class = EffectClass::Composite;
        tool.kind = ToolKind::Declarative { toolkit: "desk".into(), tool: declared.name().to_owned() };
        config.tools.tools.insert(declared.name().parse().unwrap(), tool);
    }
    config.toolkits.insert("desk".into(), document);
    config
}

fn ringing() -> Call {
    let mut call = Call::ringing(transfers());
    call.take_all();
    call.tell(LiveNews::Connected);
    call
}

/// The transfers that were asked for, as their operations.
fn asked(call: &Call) -> Vec<(OperationId, String)> {
    let transfers = call.operations.iter().filter_map(|operation| match &operation.request {
        Request::Transfer(transfer) => Some((operation.id, transfer.target.clone())),
        _ => None,
    });
    transfers.collect()
}

/// The one output of a call.
fn output(call: &Call, of: &str) -> Value {
    let outputs = call.outputs(of);
    assert_eq!(outputs.len(), 1, "{outputs:?}");
    serde_json::from_str(outputs[0]).unwrap()
}

/// A call whose transfer was asked for and came to this.
fn after(outcome: Outcome) -> Call {
    let mut call = ringing();
    call.calls("r1", "c1", NAME, 1);
    let (id, _) = asked(&call)[0].clone();
    call.outcome(id, outcome);
    call
}

fn in_doubt() -> Outcome {
    Outcome::Failed(Failure::new(FailureCode::Indeterminate, "the process ended meanwhile"))
}

fn ends(call: &mut Call) -> String {
    call.tell(LiveNews::Ended { by: EndedBy::Caller, reason: "hung up".into() });
    assert_eq!(call.response.as_ref().unwrap().status, Status::Completed);
    match call.state.decisions().last() {
        Some(Decision::End { reason }) => reason.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_transfer_is_asked_for_when_its_response_has_completed_and_a_number_is_an_address() {
    let mut call = ringing();
    call.began("r1");
    call.asks("r1", "c1", NAME, 1);
    assert_eq!(asked(&call), [], "the words that announce it are being said");
    call.ended("r1", ResponseEnd::Completed);
    let (id, target) = asked(&call).remove(0);
    assert_eq!(target, "tel:+33140000001");
    let operation = call.operations.iter().find(|operation| operation.id == id).unwrap();
    assert_eq!(operation.terms.class, EffectClass::Unsafe);
    assert_eq!(operation.terms.on_indeterminate, OnIndeterminate::Report, "nobody is asked");
    call.outcome(id, Outcome::TransferRequested);
    assert_eq!(output(&call, "c1"), json!({ "requested": true }));
}

#[test]
fn an_interruption_before_it_starts_asks_for_nothing() {
    let mut call = ringing();
    call.began("r1");
    call.asks("r1", "c1", NAME, 1);
    call.ended("r1", ResponseEnd::Interrupted);
    assert_eq!(asked(&call), []);
    assert_eq!(output(&call, "c1")["error"]["code"], "cancelled");
}

#[test]
fn the_end_of_the_call_makes_it_transferred_also_when_nobody_knows_whether_it_was_asked_for() {
    for outcome in [Outcome::TransferRequested, in_doubt()] {
        let mut call = after(outcome.clone());
        assert_eq!(output(&call, "c1"), json!({ "requested": true }), "{outcome:?}");
        assert_eq!(ends(call.after(3_000)), "the call was transferred", "{outcome:?}");
    }
}

#[test]
fn a_call_that_ends_before_the_answer_comes_is_transferred_as_well() {
    let mut call = ringing();
    call.calls("r1", "c1", NAME, 1);
    let (id, _) = asked(&call)[0].clone();
    call.tell(LiveNews::Ended { by: EndedBy::Caller, reason: "hung up".into() });
    assert_eq!(call.response, None, "what was sent has its outcome recorded");
    call.outcome(id, Outcome::TransferRequested);
    assert!(call.response.is_some());
    let end = call.state.decisions().last().cloned();
    assert_eq!(end, Some(Decision::End { reason: "the call was transferred".into() }));
}

#[test]
fn a_call_that_goes_on_is_told_of_and_may_be_transferred_again() {
    for outcome in [Outcome::TransferRequested, in_doubt()] {
        let mut call = after(outcome);
        call.take_all();
        assert_eq!(call.state.wake_at(&call.config).map(Timestamp::as_millis), Some(call.now + 20_000));
        call.after(19_999).tell(LiveNews::Woke);
        assert_eq!(call.notes(), [] as [&str; 0]);
        call.after(1).tell(LiveNews::Woke);
        assert_eq!(call.notes().len(), 1);
        assert!(call.notes()[0].contains("not transferred"), "{:?}", call.notes());
        call.take_all();
        call.calls("r2", "c2", NAME, 2);
        assert_eq!(
            asked(&call).iter().map(|(_, target)| target.as_str()).collect::<Vec<_>>()[1],
            "sip:two@acme.example"
        );
        call.after(60_000).tell(LiveNews::Woke);
        assert_eq!(call.notes().len(), 1, "told once");
        let (id, _) = asked(&call)[1].clone();
        call.outcome(id, Outcome::Failed(Failure::new(FailureCode::Unavailable, "gone")));
        assert_eq!(ends(&mut call), "the call is over", "the last one was refused");
    }
}

#[test]
fn what_certainly_failed_is_told_at_once_and_ends_nothing() {
    let failure = Failure::new(FailureCode::NotPermitted, "may not be transferred there");
    let mut call = after(Outcome::Failed(failure));
    assert_eq!(output(&call, "c1")["error"]["code"], "not_permitted");
    assert_eq!(ends(call.after(1_000)), "the call is over");
}

#[test]
fn one_transfer_at_a_time_and_no_hanging_up_meanwhile() {
    let mut call = ringing();
    call.began("r1");
    call.asks("r1", "c1", NAME, 1);
    call.asks("r1", "c2", NAME, 2);
    call.ended("r1", ResponseEnd::Completed);
    assert_eq!(asked(&call).len(), 1, "the other one is refused");
    assert_eq!(output(&call, "c2")["error"]["code"], "action_failed");
    let (id, _) = asked(&call)[0].clone();
    call.outcome(id, Outcome::TransferRequested);
    call.calls("r2", "c3", NAME, 2);
    assert_eq!(asked(&call).len(), 1);
    let mut tool = Tool::new("ends the call".into(), json!({ "type": "object" }));
    tool.kind = ToolKind::HangUp;
    call.config.tools.tools.insert("call.hang_up".parse().unwrap(), tool);
    call.calls("r3", "c4", "call.hang_up", 1);
    assert_eq!(output(&call, "c4")["error"]["code"], "not_permitted");
    assert!(!call.commands.iter().any(|command| matches!(command.kind, CommandKind::Close { .. })));
}

/// The agent may hang up as well.
fn hangs_up(call: &mut Call) {
    let mut tool = Tool::new("ends the call".into(), json!({ "type": "object" }));
    tool.kind = ToolKind::HangUp;
    call.config.tools.tools.insert("call.hang_up".parse().unwrap(), tool);
}

fn closes(call: &Call) -> bool {
    call.commands.iter().any(|command| matches!(command.kind, CommandKind::Close { .. }))
}

#[test]
fn a_caller_on_the_way_to_somebody_else_is_not_hung_up_on_whenever_that_was_asked_for() {
    // In the response that transfers, while its words are played.
    let mut call = ringing();
    hangs_up(&mut call);
    call.began("r1");
    call.tell(LiveNews::Said { text: "I transfer you. Goodbye.".into(), heard_ms: None });
    call.asks("r1", "c1", NAME, 1);
    call.asks("r1", "c2", "call.hang_up", 1);
    call.ended("r1", ResponseEnd::Completed);
    assert_eq!(asked(&call).len(), 1);
    call.tell(LiveNews::Played { response: "r1".into() });
    assert!(!closes(&call), "the transfer is under way");
    let (id, _) = asked(&call)[0].clone();
    call.outcome(id, Outcome::TransferRequested);
    call.after(15_000).tell(LiveNews::Woke);
    assert!(!closes(&call));
    assert_eq!(output(&call, "c2")["error"]["code"], "cancelled");
    // While it is under way.
    let mut call = ringing();
    hangs_up(&mut call);
    call.calls("r1", "c1", NAME, 1);
    call.calls("r2", "c2", "call.hang_up", 1);
    assert_eq!(output(&call, "c2")["error"]["code"], "not_permitted");
    // One that fails lets the agent hang up after all.
    let (id, _) = asked(&call)[0].clone();
    call.outcome(id, Outcome::Failed(Failure::new(FailureCode::Unavailable, "no")));
    call.calls("r3", "c3", "call.hang_up", 1);
    assert!(closes(&call));
}

#[test]
fn an_agent_that_ends_a_call_has_transferred_nobody() {
    let mut call = after(Outcome::TransferRequested);
    call.now = 30 * 60 * 1_000;
    call.tell(LiveNews::Woke);
    assert!(closes(&call), "the call has lasted too long");
    call.tell(LiveNews::Ended { by: EndedBy::Agent, reason: "closed".into() });
    assert!(
        !call
            .state
            .decisions()
            .iter()
            .any(|one| *one == Decision::End { reason: "the call was transferred".into() })
    );
}

#[test]
fn a_target_that_is_no_address_asks_for_nothing() {
    let mut call = ringing();
    call.calls("r1", "c1", NAME, 3);
    assert_eq!(asked(&call), []);
    let said = output(&call, "c1");
    assert!(said["error"]["message"].as_str().unwrap().contains("expected a number"), "{said}");
}

#[test]
fn outside_of_a_call_nothing_is_transferred() {
    let mut config = transfers();
    config.voice = None;
    let mut state =
        AgentState::start(RunId::from_bytes([7; 16]), AgentRequest::text("hi"), Timestamp::from_millis(0));
    let mut action = execute_agent_step(&config, state).unwrap();
    let AgentAction::RequestModelCompletion { id, .. } = &action else { panic!("{action:?}") };
    let (id, arguments) = (*id, json!({ "n": 1 }));
    let call = CallRequest {
        call_id: "c1".into(),
        name: NAME.into(),
        arguments: arguments.to_string(),
        validation: Some(Validation::Valid { arguments }),
    };
    let reply = ModelReply::new(vec![ReplyPart::Call(call)], StopReason::ToolCalls);
    state = action.into_state();
    state.resume(Event::outcome(Timestamp::from_millis(1), id, Outcome::ModelReplied(reply))).unwrap();
    for _ in 0..8 {
        action = execute_agent_step(&config, state).unwrap();
        assert!(!matches!(action, AgentAction::RequestTransfer { .. }));
        state = action.into_state();
        if !state.is_ready() {
            break;
        }
    }
    let told = state.transcript().view().iter().any(|entry| {
        matches!(entry, Entry::ToolResult { content, .. } if content.contains("no call that could be transferred"))
    });
    assert!(told, "{:?}", state.transcript());
}

#[test]
fn the_callers_turn_is_one_that_comes_after_words_of_the_model() {
    let mut call = ringing();
    let turn = |call: &mut Call, response: &str, id: &str, n: u64| {
        call.calls(response, id, "desk.turn", n);
        call.take_all();
        output(call, id).as_u64().unwrap()
    };
    assert_eq!(turn(&mut call, "r1", "c1", 1), 0);
    // The caller interrupts before the model has spoken of the result: nothing was asked of the caller.
    call.tell(LiveNews::SpeechStarted);
    call.tell(LiveNews::SpeechStopped);
    assert_eq!(turn(&mut call, "r2", "c2", 2), 0);
    call.calls_nothing("r3");
    call.tell(LiveNews::SpeechStarted);
    call.tell(LiveNews::SpeechStopped);
    // It is said in two breaths.
    call.tell(LiveNews::SpeechStarted);
    call.tell(LiveNews::SpeechStopped);
    assert_eq!(turn(&mut call, "r4", "c4", 4), 1);
    // What the provider says of the words only later is no turn.
    call.tell(LiveNews::Heard { text: "yes".into() });
    assert_eq!(turn(&mut call, "r5", "c5", 5), 1);
    call.calls_nothing("r6");
    call.tell(LiveNews::Digit { digit: '1' });
    assert_eq!(turn(&mut call, "r7", "c7", 7), 2);
}
