//! Models whose reply cannot be used, or whose structured answer does not fit.

use dalsegno_core::{
    AgentConfig, FailureCode, Limits, Mind, ModelMind, ModelSettings, OnExceeded, OutputSettings, ReplyPart,
    StopReason, Validation, Violation,
};
use serde_json::{Value, json};

use crate::door::*;

fn changed(change: impl FnOnce(&mut ModelMind)) -> AgentConfig {
    let mut config = model();
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    change(mind);
    config
}

/// An agent that goes on with `second`, then `third`.
fn with_fallbacks() -> AgentConfig {
    changed(|mind| mind.fallback = ["second", "third"].map(ModelSettings::named).into())
}

/// An agent whose answer is an object with a score.
fn structured(retries: u32) -> AgentConfig {
    let schema =
        json!({"type": "object", "properties": {"score": {"type": "number"}}, "required": ["score"]});
    changed(|mind| mind.output = Some(OutputSettings { schema, retries }))
}

fn valid(arguments: Value) -> Validation {
    Validation::Valid { arguments }
}

fn missing_score() -> Validation {
    let violation = |path: &str, message: &str| Violation { path: path.into(), message: message.into() };
    Validation::Invalid {
        violations: vec![
            violation("", "`score` is missing"),
            violation("/level", "this property is not expected"),
        ],
    }
}

#[test]
fn the_next_model_is_asked_where_one_fails_and_the_run_stays_with_it() {
    check(
        "model_fallback",
        &with_fallbacks(),
        "disk full",
        &[
            vec![fails(0, FailureCode::Unavailable, "connection refused")],
            calls(vec![call("c1", "log__read", json!({}))]),
            vec![prints(0, "3 errors", false)],
            says("There are errors."),
        ],
    );
}

#[test]
fn a_reply_that_is_empty_or_withheld_is_left_to_the_next_model() {
    check(
        "model_fallback_reply",
        &with_fallbacks(),
        "disk full",
        &[
            replies(vec![], StopReason::End),
            replies(vec![ReplyPart::Text("I must not".into())], StopReason::Refusal),
            says("Delete /tmp."),
        ],
    );
}

#[test]
fn where_all_models_fail_the_end_names_them() {
    check(
        "model_fallback_none_left",
        &with_fallbacks(),
        "disk full",
        &[
            vec![fails(0, FailureCode::Timeout, "no reply within 120 s")],
            vec![fails(0, FailureCode::Protocol, "the stream ended early")],
            vec![fails(0, FailureCode::Unavailable, "connection refused")],
        ],
    );
}

#[test]
fn a_request_that_no_model_would_take_ends_the_run_at_once() {
    check(
        "model_fallback_invalid",
        &with_fallbacks(),
        "disk full",
        &[vec![fails(0, FailureCode::InvalidArguments, "a tool has no name")]],
    );
}

#[test]
fn a_fallback_takes_a_step_like_any_other() {
    let limits = Limits { max_steps: 1, on_exceeded: OnExceeded::Answer, ..Limits::default() };
    check(
        "model_fallback_max_steps",
        &AgentConfig { limits, ..with_fallbacks() },
        "disk full",
        &[
            vec![fails(0, FailureCode::Unavailable, "connection refused")],
            vec![fails(0, FailureCode::Unavailable, "connection refused")],
        ],
    );
}

#[test]
fn an_answer_that_fits_its_schema_is_the_output() {
    check(
        "model_output",
        &structured(2),
        "disk full",
        &[says_checked("{\"score\": 0.5}", valid(json!({"score": 0.5})))],
    );
}

#[test]
fn an_answer_that_does_not_fit_is_asked_for_again() {
    check(
        "model_output_again",
        &structured(2),
        "disk full",
        &[
            says_checked("{\"level\": 3}", missing_score()),
            says_checked(
                "none",
                Validation::Malformed { message: "expected value at line 1 column 2".into() },
            ),
            says_checked("{\"score\": null}", valid(json!({"score": null}))),
        ],
    );
}

#[test]
fn after_all_re_asks_the_run_fails_with_what_was_said() {
    check(
        "model_output_invalid",
        &structured(1),
        "disk full",
        &[says_checked("{\"level\": 3}", missing_score()), says("It is bad.")],
    );
}

#[test]
fn a_last_answer_is_structured_too() {
    let limits = Limits { max_steps: 1, on_exceeded: OnExceeded::Answer, ..Limits::default() };
    check(
        "model_output_last",
        &AgentConfig { limits, ..structured(5) },
        "disk full",
        &[
            calls(vec![call("c1", "log__read", json!({}))]),
            says_checked("{\"score\": 0.5}", valid(json!({"score": 0.5}))),
        ],
    );
}

#[test]
fn a_last_answer_that_does_not_fit_is_not_asked_for_beyond_the_steps() {
    let limits = Limits { max_steps: 1, on_exceeded: OnExceeded::Answer, ..Limits::default() };
    check(
        "model_output_last_invalid",
        &AgentConfig { limits, ..structured(5) },
        "disk full",
        &[says_checked("{\"level\": 3}", missing_score()), says_checked("{}", missing_score())],
    );
}
