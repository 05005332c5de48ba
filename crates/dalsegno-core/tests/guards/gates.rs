//! Which answers a gate takes, and which not.

use super::*;

#[test]
fn an_in_doubt_gate_does_not_replace_an_approval() {
    let (_, mut state) = gated_pair();
    let before = state.clone();
    let id = state.pending()[1].operation.id;
    let gate = Gate::InDoubt { reason: "connection lost".into() };
    assert_eq!(state.resume(Event::gated(AT, id, gate)), Err(ResumeError::Gated { operation: id }));
    assert_eq!(state, before);
}

#[test]
fn a_secret_that_is_missing_takes_no_other_answer_than_that_it_is_there_or_a_no() {
    let (_, mut waiting) = gated_pair();
    let id = waiting.pending()[0].operation.id;
    waiting.resume(Event::gated(AT, id, Gate::Secret { name: "crm.token".into() })).unwrap();
    assert!(waiting.pending()[0].operation.question().unwrap().contains("`crm.token`"));
    let validation = Validation::Valid { arguments: json!({}) };
    for answer in [
        Answer::Approved { edited: Some(validation), reason: None, by: None },
        Answer::Given { value: json!("hunter2"), by: None },
        Answer::Done { result: None, error: None, by: None },
        Answer::NotDone { by: None },
    ] {
        let mut state = waiting.clone();
        let taken = state.resume(Event::answer(AT, id, answer));
        assert!(matches!(taken, Err(ResumeError::NotWaiting { .. })), "{taken:?}");
        assert_eq!(state, waiting);
    }
    let mut state = waiting.clone();
    state.resume(Event::answer(AT, id, Answer::Approved { edited: None, reason: None, by: None })).unwrap();
    assert_eq!(state.pending()[0].operation.gate, GateState::Answered);
    assert_eq!(state.pending()[0].outcome, None);
    waiting.resume(Event::answer(AT, id, Answer::Denied { reason: None, by: None })).unwrap();
    let outcome = waiting.pending()[0].outcome.as_ref();
    assert!(matches!(outcome, Some(Outcome::Failed(failure)) if failure.code == FailureCode::Denied));
}

#[test]
fn the_same_gate_again_is_ignored() {
    let (_, mut state) = gated_pair();
    let id = state.pending()[0].operation.id;
    let gate = Gate::InDoubt { reason: "connection lost".into() };
    state.resume(Event::gated(AT, id, gate.clone())).unwrap();
    let before = state.clone();
    state.resume(Event::gated(AT, id, gate)).unwrap();
    assert_eq!(state, before);
}

#[test]
fn an_answer_does_not_undo_an_outcome() {
    let (_, mut state) = gated_pair();
    let id = state.pending()[1].operation.id;
    state.resume(Event::outcome(AT, id, invalid())).unwrap();
    let before = state.clone();
    for answer in
        [Answer::Approved { edited: None, reason: None, by: None }, Answer::Denied { reason: None, by: None }]
    {
        let taken = state.resume(Event::answer(AT, id, answer));
        assert_eq!(taken, Err(ResumeError::Conflict { operation: id }));
        assert_eq!(state, before);
    }
}

#[test]
fn an_operation_in_doubt_has_no_invalid_arguments() {
    let (_, mut state) = gated_pair();
    let id = state.pending()[0].operation.id;
    state.resume(Event::gated(AT, id, Gate::InDoubt { reason: "connection lost".into() })).unwrap();
    assert_eq!(state.resume(Event::outcome(AT, id, invalid())), Err(ResumeError::Gated { operation: id }));
}

#[test]
fn an_approved_call_that_is_then_in_doubt_starts_again_without_a_second_approval() {
    let (config, mut state) = gated_pair();
    let [first, second] = [0, 1].map(|index| state.pending()[index].operation.id);
    let returned = Outcome::ToolReturned(ToolReturn::structured(json!("sent")));
    state.resume(Event::outcome(AT, first, returned.clone())).unwrap();
    state
        .resume(Event::answer(AT, second, Answer::Approved { edited: None, reason: None, by: None }))
        .unwrap();
    state.resume(Event::gated(AT, second, Gate::InDoubt { reason: "connection lost".into() })).unwrap();
    assert!(matches!(execute_agent_step(&config, state.clone()), Ok(AgentAction::RequestApproval { .. })));
    state.resume(Event::answer(AT, second, Answer::NotDone { by: None })).unwrap();
    assert!(matches!(execute_agent_step(&config, state.clone()), Ok(AgentAction::RequestToolCall { .. })));
    state.resume(Event::outcome(AT, second, returned)).unwrap();
    assert_eq!(end(&step(&config, state)).answer.as_deref(), Some("sent sent"));
}
