//! `agents/triage.toml`, whose steps decide, and `agents/report.toml`, which waits.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::time::Duration;

use dalsegno_test::{
    Agents, Case, Ends, FailureCode, Given, Person, RunErrorCode, assert_property, assert_trajectory, json,
};

fn agents() -> Agents {
    Agents::open("../..").unwrap()
}

/// An incident with this risk, of which the memory knows nothing.
fn incident(text: &str, risk: f64, level: &str) -> Case {
    agents()
        .case("triage", text)
        .given(Given::memory("search"))
        .given(Given::tool("risk.score").returns(json!({ "value": risk, "level": level, "factors": [] })))
        .given(
            Given::tool("risk.explain").returns(json!({ "sentences": ["Something does not work at all."] })),
        )
        .given(Given::memory("create"))
}

#[test]
fn a_low_risk_is_told_and_no_person_is_asked() {
    let run = incident("The printer is out of paper", 0.03, "low").run();
    assert_trajectory!(
        run,
        calls = ["risk.score", "risk.explain"],
        asks = [],
        answer_contains = ["Risk 0.03 (low)", "no escalation needed"],
    );
}

#[test]
fn a_high_risk_is_escalated_after_a_yes() {
    let recorded = json!({ "line_number": 1, "path": "/incidents/escalations.jsonl" });
    let run = incident("Checkout is down", 0.89, "high")
        .given(
            Given::tool("risk.record")
                .with(json!({ "decision": "escalate", "risk": 0.89 }))
                .returns(recorded),
        )
        .person(Person::approves("risk.record"))
        .run();
    assert_trajectory!(
        run,
        calls = ["risk.score", "risk.explain", ("risk.record", json!({ "incident": "Checkout is down" }))],
        asks = ["risk.record"],
        answer_contains = "Decision: escalated.",
    );
    assert!(run.calls()[2].approved);
    insta::assert_snapshot!(run);
}

#[test]
fn a_high_risk_waits_for_a_person() {
    // Nothing is remembered, since the run does not end.
    let run = agents()
        .case("triage", "Checkout is down")
        .given(Given::memory("search"))
        .given(Given::tool("risk.score").returns(json!({ "value": 0.89, "level": "high", "factors": [] })))
        .given(Given::tool("risk.explain").returns(json!({ "sentences": [] })))
        .run();
    assert_trajectory!(run, ends = Ends::Suspended, calls = ["risk.score", "risk.explain"]);
    assert_eq!(run.answer(), None);
}

#[test]
fn a_bound_is_where_the_file_says_it_is() {
    for (risk, asks) in [(0.70, 0), (0.71, 1)] {
        let case =
            incident("Checkout is slow", risk, "high").person(Person::denies("risk.record", "we know of it"));
        // A no that is not asked for would fail the case, so it is only looked at what happened.
        let asked = case.try_run().map_or(0, |run| run.asks().len());
        assert_eq!(asked, asks, "{risk}");
    }
}

#[test]
fn a_score_that_cannot_be_had_ends_the_run() {
    let run = agents()
        .case("triage", "Checkout is down")
        .given(Given::memory("search"))
        .given(Given::tool("risk.score").fails(FailureCode::Unavailable, "the server does not start"))
        .run();
    assert_trajectory!(run, error = RunErrorCode::ToolFailed, never_calls = ["risk.record"]);
}

#[test]
fn a_report_waits_ten_seconds_of_virtual_time() {
    let recorded = json!({ "line_number": 1, "path": "/incidents/escalations.jsonl" });
    let run =
        agents().case("report", "checkout is down").given(Given::tool("risk.record").returns(recorded)).run();
    assert_trajectory!(run, answer_contains = "/incidents/escalations.jsonl");
    assert_eq!(run.waited(), Duration::from_secs(10));
}

#[test]
fn only_high_risks_are_recorded_and_only_with_a_yes() {
    assert_property!(
        agents().case("triage", "Checkout is down").runs(300),
        never = [("risk.record", "!approved")],
        always = ["counts['risk.record'] <= 1"],
        max_steps = 8,
    );
}
