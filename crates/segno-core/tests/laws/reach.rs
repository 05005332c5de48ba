//! The worlds that the laws are tried on reach every kind of request, gate and end; else the laws would say little.

use std::collections::BTreeSet;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use segno_core::*;

use crate::strategies::world;
use crate::world::drive;

#[test]
fn the_worlds_reach_every_kind_of_request_gate_and_end() {
    let mut runner = TestRunner::deterministic();
    let mut reached: BTreeSet<String> = BTreeSet::new();
    for _ in 0..1_500 {
        let world = world().new_tree(&mut runner).expect("a world").current();
        let trace = drive(&world, 0, |state| {
            let gates = state.pending().iter().map(|pending| match &pending.operation.gate {
                GateState::Open => "open",
                GateState::Waiting(Gate::Approval) => "approval",
                GateState::Waiting(Gate::InDoubt { .. }) => "in doubt",
                GateState::Answered => "answered",
            });
            reached.extend(gates.map(ToOwned::to_owned));
            reached.extend(state.decisions().iter().filter_map(|decision| match decision {
                Decision::AskLast { .. } => Some("last answer".to_owned()),
                Decision::SkipStep { .. } => Some("skipped step".to_owned()),
                Decision::Refuse { .. } => Some("refused call".to_owned()),
                _ => None,
            }));
            state
        });
        for operation in trace.joins.iter().flatten() {
            reached.insert(operation.request.label().split(" `").next().expect("a label").to_owned());
        }
        if trace.joins.len() > 4 {
            reached.insert("long run".into());
        }
        if trace.joins.iter().any(|join| join.len() > 2) {
            reached.insert("wide join".into());
        }
        reached.insert(trace.end.error.map_or("completed", |error| error.code.as_str()).to_owned());
    }
    let expected = [
        "answered",
        "approval",
        "cancelled",
        "completed",
        "denied",
        "evaluation_failed",
        "in doubt",
        "last answer",
        "limit_exceeded",
        "long run",
        "memory create",
        "memory search",
        "memory_failed",
        "model completion",
        "model_failed",
        "open",
        "refused call",
        "skipped step",
        "timeout",
        "tool",
        "tool_failed",
        "wide join",
    ];
    assert_eq!(reached, BTreeSet::from(expected.map(ToOwned::to_owned)));
}
