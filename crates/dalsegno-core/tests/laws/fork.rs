//! A fork keeps what was and goes on under ids of its own.

use std::collections::BTreeSet;

use dalsegno_core::*;
use proptest::prelude::*;

use crate::strategies::{cases, world};
use crate::world::{World, drive, drive_from};

const OTHER: RunId = RunId::from_bytes([8; 16]);

/// The states of a run from which another one can go on, and the ids of all its operations.
fn forkable(world: &World, order: u64) -> (Vec<AgentState>, BTreeSet<OperationId>, AgentResponse) {
    let mut states = Vec::new();
    let trace = drive(world, order, |state| {
        if !state.is_over() && state.is_ready() {
            states.push(state.clone());
        }
        state
    });
    let ids = trace.joins.iter().flatten().map(|operation| operation.id).collect();
    (states, ids, trace.end)
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn a_fork_keeps_the_ids_before_it_and_has_others_after_it(world in world(), order: u64) {
        let world = World { signal: None, ..world };
        let (states, ids, end) = forkable(&world, order);
        for state in states {
            let fork = state.clone().fork(OTHER, world.asks_effects).unwrap();
            prop_assert_eq!(fork.pending(), state.pending());
            prop_assert_eq!(fork.results(), state.results());
            let trace = drive_from(&world, fork, order, |state| state);
            for operation in trace.joins.iter().flatten() {
                prop_assert!(!ids.contains(&operation.id), "{operation:?}");
            }
            // What an operation meets depends on its place alone here, so the fork comes to the same end.
            prop_assert_eq!(&trace.end, &end);
        }
    }

    #[test]
    fn a_fork_that_asks_lets_no_effect_pass_unasked(world in world(), order: u64) {
        let world = World { signal: None, ..world };
        for state in forkable(&world, order).0 {
            let fork = state.fork(OTHER, true).unwrap();
            let trace = drive_from(&world, fork, order, |state| state);
            for operation in trace.joins.iter().flatten() {
                let effect = matches!(operation.terms.class, EffectClass::Unsafe | EffectClass::Keyed);
                prop_assert!(!effect || operation.gate == GateState::Waiting(Gate::Approval), "{operation:?}");
            }
        }
    }

    #[test]
    fn a_run_that_waits_or_is_over_cannot_be_forked(world in world(), order: u64) {
        let world = World { signal: None, ..world };
        drive(&world, order, |state| {
            let fork = state.clone().fork(OTHER, false);
            assert_eq!(fork.is_ok(), !state.is_over() && state.is_ready(), "{:?}", fork.err());
            state
        });
    }
}
