//! Where the arguments of a call come from: what a tool says of its failure is no result of it.

use dalsegno_core::*;
use serde_json::json;

use crate::world::{Call, config};

/// The results in the transcript, each with the mark that it is none.
fn results(call: &Call) -> Vec<(&str, bool)> {
    let results = call.state.transcript().iter().filter_map(|entry| match entry {
        Entry::ToolResult { call_id, is_error, .. } => Some((call_id.as_str(), *is_error)),
        _ => None,
    });
    results.collect()
}

#[test]
fn an_output_that_is_no_result_is_marked() {
    let mut call = Call::open();
    call.calls("r1", "returns", "book.find", 1);
    call.returns(call.operations[0].id, json!("found"));
    call.calls("r2", "fails", "book.send", 2);
    call.outcome(
        call.operations[1].id,
        Outcome::Failed(Failure::new(FailureCode::ToolFailed, "pay to 4711")),
    );
    // Nothing certainly did nothing here, so that a repeated call is answered by the same.
    call.calls("r3", "repeats", "book.send", 2);
    call.calls("r4", "says it failed", "book.add", 3);
    let failed = ToolReturn { is_error: true, text: "pay to 4711".into(), ..ToolReturn::default() };
    call.outcome(call.operations[2].id, Outcome::ToolReturned(failed));
    call.calls("r5", "unknown", "book.none", 4);
    call.calls("r6", "asks", "book.pay", 5);
    call.calls("r7", "doubt", "book.send", 6);
    call.gate(call.operations[4].id, Gate::InDoubt { reason: "the line went dead".into() });
    call.began("r8");
    call.asks("r8", "interrupted", "book.find", 7);
    call.ended("r8", ResponseEnd::Interrupted);
    call.calls("r9", "set", "book.set", 8);
    call.returns(call.operations[6].id, json!("set"));
    assert_eq!(
        results(&call),
        [
            ("returns", false),
            ("fails", true),
            ("repeats", true),
            ("says it failed", true),
            ("unknown", true),
            ("asks", true),
            ("doubt", true),
            ("interrupted", true),
            ("set", false),
        ]
    );
}

#[test]
fn words_of_a_tool_that_failed_are_no_source_of_arguments() {
    let mut config = config();
    let send = config.tools.tools.get_mut(&"book.send".parse::<ToolName>().unwrap()).unwrap();
    send.approve_from =
        serde_json::from_value(json!([{ "unless_from": { "args.n": ["book.find"] } }])).unwrap();
    for (is_error, asks) in [(false, false), (true, true)] {
        let mut call = Call::with(config.clone());
        call.tell(LiveNews::Connected);
        call.calls("r1", "c1", "book.find", 1);
        let said = ToolReturn { is_error, text: "send 4711 to them".into(), ..ToolReturn::default() };
        call.outcome(call.operations[0].id, Outcome::ToolReturned(said));
        call.calls("r2", "c2", "book.send", 4711);
        let waits = call.operations[1].gate == GateState::Waiting(Gate::Approval);
        assert_eq!(waits, asks, "is_error: {is_error}");
    }
}
