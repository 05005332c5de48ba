//! Models at the limits of tokens and cost, and of what they can be sent.

use dalsegno_core::{
    AgentConfig, Compact, ContextSettings, FailureCode, Limits, Mind, ModelReply, OnExceeded, Outcome, Price,
    ReplyPart, StopReason,
};
use serde_json::json;

use crate::door::*;

/// An agent that pays for its model, whose replies have 1,000 tokens or less.
fn limited(max_tokens: Option<u64>, max_cost_nano_usd: Option<u64>, on_exceeded: OnExceeded) -> AgentConfig {
    let limits = Limits { max_tokens, max_cost_nano_usd, on_exceeded, ..Limits::default() };
    let mut config = AgentConfig { limits, ..model() };
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    mind.model.max_output_tokens = Some(1_000);
    mind.model.price = Some(Price { input: 2_000_000, output: 8_000_000 });
    config
}

/// An agent that sends its model no more than this.
fn with_context(max_tokens: u64, compact: Compact) -> AgentConfig {
    let mut config = model();
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    mind.context = Some(ContextSettings { max_tokens, compact });
    config
}

/// The model says something and reads the log.
fn looks(call_id: &str) -> Vec<Give> {
    replies(
        vec![ReplyPart::Text("Let me look. ".into()), call(call_id, "log__read", json!({}))],
        StopReason::ToolCalls,
    )
}

/// So many lines of a log.
fn log(lines: usize) -> Vec<Give> {
    vec![prints(0, "an error of the disk; ".repeat(lines).trim_end(), false)]
}

fn counted(reply: &str, input_tokens: u64, output_tokens: u64, lost_attempts: u32) -> Vec<Give> {
    let reply = ModelReply::new(vec![ReplyPart::Text(reply.into())], StopReason::End);
    let reply = ModelReply { input_tokens, output_tokens, lost_attempts, ..reply };
    vec![Give::Outcome(0, Outcome::ModelReplied(reply))]
}

#[test]
fn what_does_not_fit_the_tokens_is_not_asked() {
    check(
        "model_max_tokens_fail",
        &limited(Some(1_200), None, OnExceeded::Fail),
        "disk full",
        &[looks("c1"), log(2)],
    );
}

#[test]
fn a_last_answer_is_as_short_as_the_tokens_demand() {
    check(
        "model_max_tokens_answer",
        &limited(Some(1_200), None, OnExceeded::Answer),
        "disk full",
        &[looks("c1"), log(2), says("There are errors.")],
    );
}

#[test]
fn a_run_without_tokens_for_a_last_answer_fails() {
    check("model_max_tokens_none", &limited(Some(300), None, OnExceeded::Answer), "disk full", &[]);
}

#[test]
fn what_does_not_fit_the_cost_is_asked_for_in_short() {
    check(
        "model_max_cost",
        &limited(None, Some(8_500_000), OnExceeded::Answer),
        "disk full",
        &[looks("c1"), log(2), says("There are errors.")],
    );
}

#[test]
fn reported_tokens_beyond_the_limit_end_the_run_with_the_answer() {
    check(
        "model_overrun",
        &limited(Some(2_000), None, OnExceeded::Answer),
        "disk full",
        &[counted("There are errors.", 900, 700, 1)],
    );
}

#[test]
fn a_request_that_may_have_been_received_is_charged() {
    let mut config = limited(Some(3_000), None, OnExceeded::Fail);
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    mind.fallback = vec![mind.model.clone()];
    check(
        "model_charged_failure",
        &config,
        "disk full",
        &[vec![fails(0, FailureCode::Timeout, "no reply within 120 s")], says("There are errors.")],
    );
}

#[test]
fn the_oldest_results_are_left_out_first() {
    check(
        "model_compact_results",
        &with_context(340, Compact::Drop),
        "disk full",
        &[looks("c1"), log(14), looks("c2"), log(18), looks("c3"), log(5), says("It is the disk.")],
    );
}

#[test]
fn then_the_oldest_turns_are_left_out() {
    let mut joins = Vec::new();
    for turn in 0..9 {
        joins.extend([
            looks(&format!("c{turn}")),
            vec![prints(0, &format!("error {turn} of the disk"), false)],
        ]);
    }
    joins.push(says("It is the disk."));
    check("model_compact_turns", &with_context(300, Compact::Drop), "disk full", &joins);
}

#[test]
fn a_last_turn_that_is_too_long_loses_its_oldest_results() {
    let three = calls(["c1", "c2", "c3"].map(|id| call(id, "log__read", json!({ "part": id }))).into());
    let text = "an error of the disk; ".repeat(15);
    check(
        "model_compact_last_turn",
        &with_context(450, Compact::Drop),
        "disk full",
        &[three, (0..3).map(|place| prints(place, &text, false)).collect(), says("It is the disk.")],
    );
}

#[test]
fn a_beginning_that_is_too_long_ends_the_run() {
    check("model_compact_too_long", &with_context(60, Compact::Drop), "disk full", &[]);
}

#[test]
fn the_oldest_turns_are_summarised() {
    check(
        "model_summary",
        &with_context(700, Compact::Summarise),
        "disk full",
        &[
            looks("c1"),
            log(40),
            looks("c2"),
            log(40),
            counted("  The log of db-1 was read once: the disk fails. ", 300, 20, 0),
            says("It is the disk."),
        ],
    );
}

#[test]
fn a_summary_that_fails_is_no_reason_to_end() {
    check(
        "model_summary_failed",
        &with_context(700, Compact::Summarise),
        "disk full",
        &[
            looks("c1"),
            log(40),
            looks("c2"),
            log(40),
            vec![fails(0, FailureCode::Unavailable, "connection refused")],
            says("It is the disk."),
        ],
    );
}
