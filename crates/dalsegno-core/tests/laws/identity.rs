//! Operations are known by their ids: asked for again under the same, resolved once, never mistaken for another.

use std::collections::BTreeSet;

use dalsegno_core::*;
use proptest::prelude::*;

use crate::outcomes::outcome;
use crate::strategies::{cases, world};
use crate::world::{World, drive};

fn ids(world: &World, order: u64) -> Vec<OperationId> {
    let trace = drive(world, order, |state| state);
    trace.joins.iter().flatten().map(|operation| operation.id).collect()
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn a_state_that_waits_asks_again_for_exactly_what_is_missing(world in world(), order: u64) {
        drive(&world, order, |state| {
            if state.is_ready() {
                return state;
            }
            let missing = state.pending().iter().filter(|pending| pending.outcome.is_none());
            let missing: Vec<Operation> = missing.map(|pending| pending.operation.clone()).collect();
            let action = execute_agent_step(&world.config, state.clone()).unwrap();
            let gated = missing.iter().all(|operation| matches!(operation.gate, GateState::Waiting(_)));
            // A question alone is asked as one.
            let asked = matches!(missing.as_slice(), [Operation { gate: GateState::Waiting(Gate::Input), .. }]);
            let asked = asked && matches!(missing[0].request, Request::Input(_));
            assert_eq!(matches!(action, AgentAction::RequestApproval { .. }), gated && !asked);
            assert_eq!(matches!(action, AgentAction::RequestInput { .. }), asked);
            let listed = match &action {
                AgentAction::RequestApproval { operations, .. } | AgentAction::RequestParallel { operations, .. } => {
                    operations.clone()
                }
                AgentAction::RequestModelCompletion { id, .. }
                | AgentAction::RequestMemorySearch { id, .. }
                | AgentAction::RequestMemoryCreate { id, .. }
                | AgentAction::RequestMemoryTraverse { id, .. }
                | AgentAction::RequestAgent { id, .. }
                | AgentAction::RequestInput { id, .. }
                | AgentAction::RequestTimer { id, .. }
                | AgentAction::RequestApiCall { id, .. }
                | AgentAction::RequestEmail { id, .. }
                | AgentAction::RequestTransfer { id, .. }
                | AgentAction::RequestToolCall { id, .. } => {
                    assert_eq!((missing.len(), *id), (1, missing[0].id));
                    missing.clone()
                }
                AgentAction::Complete { .. } | AgentAction::Handoff { .. } => panic!("a state that waits is not over"),
                AgentAction::Continue { .. } => panic!("a state that waits does not go on by itself"),
                AgentAction::Converse { .. } => panic!("no run of these worlds is a call"),
            };
            assert_eq!(listed, missing);
            let again = action.clone().into_continuation();
            assert_eq!((again.asked().count(), again.concluded().count(), &again.state), (0, 0, &state));
            let (operations, same) = action.into_operations();
            let open = missing.into_iter().filter(|operation| !matches!(operation.gate, GateState::Waiting(_)));
            assert_eq!((operations, &same), (open.collect(), &state));
            state
        });
    }

    #[test]
    fn no_two_operations_share_an_id(world in world(), order: u64) {
        let mine = ids(&world, order);
        let other = ids(&World { run: RunId::from_bytes([8; 16]), ..world }, order);
        let all: BTreeSet<_> = mine.iter().chain(&other).collect();
        prop_assert_eq!(all.len(), mine.len() + other.len());
    }

    #[test]
    fn an_operation_resolves_once(world in world(), order: u64, other in outcome()) {
        drive(&world, order, |state| {
            for Pending { operation, outcome, .. } in state.pending() {
                let Some(outcome) = outcome else { continue };
                let at = Timestamp::from_millis(0);
                let mut touched = state.clone();
                assert_eq!(touched.resume(Event::outcome(at, operation.id, outcome.clone())), Ok(()));
                assert_eq!(touched, state, "the same outcome again changes nothing");
                // What the core makes of a hostile outcome may be what it already has.
                let taken = touched.resume(Event::outcome(at, operation.id, other.clone()));
                assert!(taken == Err(ResumeError::Conflict { operation: operation.id }) || taken == Ok(()));
                assert_eq!(touched, state, "another outcome changes nothing");
                for answer in [
                    Answer::Approved { edited: None, reason: None, by: None },
                    Answer::Denied { reason: None, by: None },
                    Answer::Given { value: serde_json::Value::Null, by: None },
                    Answer::Supplied { value: serde_json::Value::Null, by: None },
                    Answer::Done { result: None, error: None, by: None },
                    Answer::NotDone { by: None },
                ] {
                    assert!(touched.resume(Event::answer(at, operation.id, answer)).is_err());
                }
                assert!(touched.resume(Event::gated(at, operation.id, Gate::Approval)).is_err());
                assert_eq!(touched, state, "neither does an answer");
            }
            state
        });
    }
}
