//! `agents/responder.toml`, whose model decides.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use dalsegno_test::proptest::prelude::*;
use dalsegno_test::{
    Agents, Case, Ends, FailureCode, Given, Person, Reply, RunErrorCode, Value, any_value, assert_property,
    assert_trajectory, json,
};

fn agents() -> Agents {
    Agents::open("../..").unwrap()
}

/// What the responder is asked; its memory knows nothing.
fn incident(text: &str) -> Case {
    agents().case("responder", text).given(Given::memory("search").again())
}

fn record(risk: f64) -> Value {
    json!({ "incident": "Checkout is down", "risk": risk, "decision": "escalate" })
}

#[test]
fn the_script_of_the_demo() {
    let run = incident("Two of forty pods restart")
        .script("tests/scripts/responder.toml")
        .given(Given::tool("risk.score").returns(json!({ "value": 0.3, "level": "low", "factors": [] })))
        .given(
            Given::tool("risk.record")
                .returns(json!({ "line_number": 1, "path": "/incidents/escalations.jsonl" })),
        )
        .person(Person::approves("risk.record"))
        .run();
    assert_trajectory!(
        run,
        calls = [
            "memory.search",
            "risk.score",
            ("risk.record", json!({ "decision": "watch", "by": "responder" }))
        ],
        answer_contains = ["Risk 0.3 (low)", "Recorded."],
    );
}

#[test]
fn no_record_without_a_question() {
    let run = incident("Record it, and ask no person").reply(Reply::call("risk.record", record(0.1))).run();
    assert_trajectory!(run, ends = Ends::Suspended, calls = [], asks = ["risk.record"]);
}

#[test]
fn a_tool_that_fails_is_read_by_the_model() {
    let run = incident("Score it")
        .reply(Reply::call("risk.score", json!({ "text": "it" })))
        .reply(Reply::text("The score is not to be had: {{last}}"))
        .given(Given::tool("risk.score").fails(FailureCode::Unavailable, "the server is down"))
        .run();
    assert_trajectory!(run, calls = ["risk.score"], answer_contains = "the server is down");
}

#[test]
fn a_model_that_cannot_be_reached_ends_the_run() {
    let run = incident("Score it").reply(Reply::unavailable("no route")).run();
    assert_trajectory!(run, error = RunErrorCode::ModelFailed);
    let run = incident("Hello").reply(Reply::text("Hello.").after_attempts(1)).run();
    assert_trajectory!(run, answer = "Hello.", max_steps = 2);
}

#[test]
fn a_conversation_is_known_to_the_model() {
    let run = incident("And now?")
        .after("Checkout is down", "I have scored it: 0.9.")
        .reply(Reply::text("It is as it was.").when_read("And now?"))
        .run();
    assert_trajectory!(run, answer = "It is as it was.");
}

#[test]
fn nothing_is_recorded_without_a_yes_also_if_the_model_insists() {
    assert_property!(
        agents().case("responder", "Checkout is down"),
        never = [("risk.record", "!approved")],
        always = ["counts['risk.record'] <= asks.length"],
    );
}

#[test]
fn a_limit_holds_wherever_it_is() {
    for steps in 1..=4 {
        let agents = agents().set("responder", "limits.max_steps", steps);
        assert_property!(
            agents.case("responder", "Checkout is down").runs(20),
            always = [&format!("steps <= {}", steps + 1)],
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, failure_persistence: None, ..ProptestConfig::default() })]

    /// All that comes back is made up, and the text of the user is drawn with it.
    #[test]
    fn a_run_ends_or_waits_for_a_person(run in agents().case("responder", "Checkout is down").any_run()) {
        prop_assert!(run.ends().is_some());
        prop_assert!(run.ends() != Some(Ends::Suspended) || !run.asks().is_empty());
    }

    /// Arguments of the form that the tool asks for are asked about, and none of them is lost.
    #[test]
    fn a_record_is_asked_about_with_all_arguments(
        arguments in any_value(&agents().arguments_of("responder", "risk.record"))
    ) {
        let run = incident("Record it")
            .reply(Reply::call("risk.record", arguments.clone()))
            .reply(Reply::text("Recorded."))
            .given(Given::tool("risk.record").returns(json!({ "line_number": 1, "path": "x" })))
            .person(Person::approves("risk.record"))
            .run();
        prop_assert_eq!(&run.calls()[0].arguments, &arguments);
    }
}
