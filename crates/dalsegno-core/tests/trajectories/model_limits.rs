//! Models at a limit, stopped, or without a usable reply.

use dalsegno_core::{
    AgentConfig, FailureCode, Limits, OnExceeded, ReplyPart, Signal, StopReason, Validation,
};
use serde_json::json;

use crate::door::*;

fn limited(max_steps: u64, max_tool_calls: u64, on_exceeded: OnExceeded) -> AgentConfig {
    AgentConfig { limits: Limits { max_steps, max_tool_calls, on_exceeded, ..Limits::default() }, ..model() }
}

/// The model says something and calls a tool.
fn looks(call_id: &str) -> Vec<Give> {
    replies(
        vec![ReplyPart::Text("Let me look. ".into()), call(call_id, "log__read", json!({}))],
        StopReason::ToolCalls,
    )
}

#[test]
fn a_run_fails_at_its_steps() {
    check(
        "model_max_steps_fail",
        &limited(2, 9, OnExceeded::Fail),
        "disk full",
        &[looks("c1"), vec![prints(0, "3 errors", false)]],
    );
}

#[test]
fn a_run_answers_at_its_steps() {
    check(
        "model_max_steps_answer",
        &limited(2, 9, OnExceeded::Answer),
        "disk full",
        &[looks("c1"), vec![prints(0, "3 errors", false)], says("There are errors.")],
    );
}

#[test]
fn calls_beyond_the_limit_are_not_performed_and_the_model_answers() {
    let two = calls(vec![call("c2", "log__read", json!({})), call("c3", "mail__send", json!({"to": "ops"}))]);
    check(
        "model_max_tool_calls_answer",
        &limited(9, 2, OnExceeded::Answer),
        "disk full",
        &[looks("c1"), vec![prints(0, "3 errors", false)], two, says("There are errors.")],
    );
}

#[test]
fn calls_beyond_the_limit_fail_the_run() {
    check(
        "model_max_tool_calls_fail",
        &limited(9, 1, OnExceeded::Fail),
        "disk full",
        &[looks("c1"), vec![prints(0, "3 errors", false)], looks("c2")],
    );
}

#[test]
fn results_for_which_there_is_no_room_end_the_run() {
    let limits = Limits { max_state_bytes: 200, ..Limits::default() };
    let config = AgentConfig { limits, ..model() };
    let two = calls(vec![call("c1", "log__read", json!({})), call("c2", "log__read", json!({"last": 9}))]);
    check(
        "model_results_too_large",
        &config,
        "disk full",
        &[
            [two[0].clone()].into(),
            vec![prints(1, &"9 errors; ".repeat(15), false), prints(0, &"3 errors; ".repeat(6), false)],
        ],
    );
}

#[test]
fn a_last_answer_that_only_calls_tools_fails_the_run() {
    check(
        "model_last_answer_calls",
        &limited(1, 9, OnExceeded::Answer),
        "disk full",
        &[looks("c1"), calls(vec![call("c2", "log__read", json!({}))])],
    );
}

#[test]
fn the_deadline_ends_the_run_with_what_was_said() {
    check("model_deadline", &model(), "disk full", &[looks("c1"), vec![Give::Signal(Signal::Deadline)]]);
}

#[test]
fn a_cancelled_run_ends_though_operations_are_on_their_way() {
    check(
        "model_cancelled",
        &model(),
        "disk full",
        &[
            calls(vec![call("c1", "log__read", json!({})), call("c2", "mail__send", json!({}))]),
            vec![prints(0, "3 errors", false), Give::Signal(Signal::Cancel)],
        ],
    );
}

#[test]
fn an_empty_reply_fails_the_run() {
    check("model_empty", &model(), "disk full", &[replies(vec![], StopReason::End)]);
}

#[test]
fn a_reply_that_was_cut_off_is_a_partial_answer() {
    check(
        "model_length",
        &model(),
        "disk full",
        &[replies(vec![ReplyPart::Text("First delete".into())], StopReason::Length)],
    );
}

#[test]
fn a_call_that_was_cut_off_is_told_to_the_model() {
    check(
        "model_length_call",
        &model(),
        "disk full",
        &[
            replies(vec![judged("c1", "log__read", "{\"ho", Validation::Truncated)], StopReason::Length),
            says("I was too long."),
        ],
    );
}

#[test]
fn a_withheld_reply_fails_the_run() {
    check("model_refusal", &model(), "disk full", &[replies(vec![], StopReason::Refusal)]);
}

#[test]
fn a_model_that_does_not_answer_fails_the_run() {
    check(
        "model_failed",
        &model(),
        "disk full",
        &[vec![fails(0, FailureCode::Unavailable, "connection refused")]],
    );
}
