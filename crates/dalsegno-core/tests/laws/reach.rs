//! The worlds that the laws are tried on reach every kind of request, gate and end; else the laws would say little.

use std::collections::BTreeSet;
use std::iter::repeat_n;

use dalsegno_core::*;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::strategies::{document_world, model_world, plan_world, world};
use crate::world::drive;

#[test]
fn the_worlds_reach_every_kind_of_request_gate_and_end() {
    let mut runner = TestRunner::deterministic();
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let expected = BTreeSet::from(
        [
            "POST https://api.example.com/x",
            "agent",
            "agent_failed",
            "answered",
            "approval",
            "approval in a document",
            "asked again",
            "cancelled",
            "compaction",
            "completed",
            "cycle_detected",
            "denied",
            "elicitation",
            "evaluation_failed",
            "fallback model",
            "fallback tool",
            "handoff",
            "in doubt",
            "input",
            "invalid_output",
            "items",
            "items again",
            "last answer",
            "limit_exceeded",
            "long run",
            "mail to c@d.co",
            "memory create",
            "memory search",
            "memory traverse",
            "memory_failed",
            "missing secret",
            "model completion",
            "model_failed",
            "open",
            "output",
            "question",
            "refused call",
            "skipped step",
            "summary",
            "timeout",
            "timer",
            "tool",
            "tool_failed",
            "variables",
            "warning",
            "wide join",
        ]
        .map(ToOwned::to_owned),
    );
    // A summary, or a list whose items fall back, is rare.
    let kinds = [(world(), 5), (plan_world(), 13), (model_world(), 7), (document_world(), 1)];
    let round = || kinds.iter().flat_map(|(kind, count)| repeat_n(kind, *count));
    for kind in (0..300).flat_map(|_| round()) {
        if reached.is_superset(&expected) {
            break;
        }
        let world = kind.new_tree(&mut runner).expect("a world").current();
        let trace = drive(&world, 0, |state| {
            let gates = state.pending().iter().map(|pending| match &pending.operation.gate {
                GateState::Open => "open",
                GateState::Waiting(Gate::Approval) => "approval",
                GateState::Waiting(Gate::Input) => "input",
                GateState::Waiting(Gate::InDoubt { .. }) => "in doubt",
                GateState::Waiting(Gate::Secret { .. }) => "missing secret",
                GateState::Waiting(Gate::Elicitation { .. }) => "elicitation",
                GateState::Answered => "answered",
            });
            reached.extend(gates.map(ToOwned::to_owned));
            let is_gated = |pending: &Pending| pending.operation.gate == GateState::Waiting(Gate::Approval);
            if state.pending().iter().any(|pending| pending.parent.is_some() && is_gated(pending)) {
                reached.insert("approval in a document".to_owned());
            }
            reached.extend(state.decisions().iter().filter_map(|decision| match decision {
                Decision::AskLast { .. } => Some("last answer".to_owned()),
                Decision::SkipStep { .. } => Some("skipped step".to_owned()),
                Decision::Refuse { .. } => Some("refused call".to_owned()),
                Decision::FallBackTool { .. } => Some("fallback tool".to_owned()),
                Decision::HandOff { .. } => Some("handoff".to_owned()),
                Decision::FallBack { .. } => Some("fallback model".to_owned()),
                Decision::AskAgain { .. } => Some("asked again".to_owned()),
                Decision::Compact { .. } => Some("compaction".to_owned()),
                Decision::Summarise { .. } => Some("summary".to_owned()),
                Decision::Warn { .. } => Some("warning".to_owned()),
                _ => None,
            }));
            if let Phase::Waiting(Join { then: Then::ForEach { fallback, .. }, .. }) = state.phase() {
                reached.insert(if *fallback { "items again" } else { "items" }.to_owned());
            }
            if !state.vars().as_object().is_some_and(serde_json::Map::is_empty) {
                reached.insert("variables".to_owned());
            }
            state
        });
        if trace.end.output.is_some() {
            reached.insert("output".to_owned());
        }
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
    assert_eq!(reached, expected);
}
