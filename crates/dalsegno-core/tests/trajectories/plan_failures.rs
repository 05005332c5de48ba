//! Plans that meet trouble.

use dalsegno_core::{
    AgentConfig, Answer, Failure, FailureCode, Limits, OnExceeded, Outcome, Signal, ToolReturn, Verdict,
    Violation,
};
use serde_json::{Value, json};

use crate::door::*;

/// A mail that needs approval and an answer; `on_failure` says what a failure does.
fn mail(on_failure: Option<Value>) -> AgentConfig {
    let mut step = tool_step("mail", "mail.send", json!({"to": "ops@example.org"}));
    if let Some(on_failure) = on_failure {
        step["action"]["operation"]["on_failure"] = on_failure;
    }
    plan(json!([respond("looking at {{request.text}}"), step, respond("mail: {{steps.mail}}")]))
}

#[test]
fn a_denied_step_fails_the_plan() {
    check("plan_denied_fail", &mail(None), "disk full", &[vec![denies(0, Some("not at night"))]]);
}

#[test]
fn a_denied_step_is_reported() {
    check("plan_denied_report", &mail(Some(json!("report"))), "disk full", &[vec![denies(0, None)]]);
}

#[test]
fn an_approval_that_has_expired_is_a_no_of_nobody() {
    let expired = Give::Answer(0, Answer::Denied { reason: Some("expired".into()), by: None });
    let default = json!({"default": {"sent": true}});
    check("plan_approval_expired", &mail(None), "disk full", &[vec![expired.clone()]]);
    check("plan_approval_expired_default", &mail(Some(default)), "disk full", &[vec![expired]]);
}

#[test]
fn an_edit_that_does_not_fit_fails_the_step() {
    let violation = Violation { path: "/to".into(), message: "expected a string".into() };
    check(
        "plan_edited_invalid",
        &mail(None),
        "disk full",
        &[vec![edits(0, Verdict::Invalid { violations: vec![violation] })]],
    );
}

#[test]
fn nobody_is_asked_about_arguments_that_do_not_fit() {
    let violations = vec![Violation { path: "/to".into(), message: "is not an address".into() }];
    let failure =
        Failure { violations, ..Failure::new(FailureCode::InvalidArguments, "the arguments do not fit") };
    check(
        "plan_invalid_arguments",
        &mail(None),
        "disk full",
        &[vec![Give::Outcome(0, Outcome::Failed(failure))]],
    );
}

#[test]
fn a_default_stands_in_for_a_failure() {
    let config = mail(Some(json!({"default": {"state": "unknown"}})));
    check(
        "plan_default",
        &config,
        "disk full",
        &[vec![approves(0)], vec![fails(0, FailureCode::Timeout, "no answer within 30 s")]],
    );
}

#[test]
fn a_failure_is_reported_to_later_steps() {
    let mut step = tool_step("score", "risk.score", json!({}));
    step["action"]["operation"]["on_failure"] = json!("report");
    let steps = json!([
        step,
        {"when": "steps.score.error.code === 'tool_failed'", "action": {"respond": "no score: {{steps.score.error.message}}"}},
    ]);
    check("plan_report", &plan(steps), "disk full", &[vec![prints(0, "the feed is empty", true)]]);
}

#[test]
fn a_plan_reads_what_a_failed_tool_returned() {
    let mut step = tool_step("score", "risk.score", json!({}));
    step["action"]["operation"]["on_failure"] = json!("report");
    let steps = json!([step, respond("{{steps.score.error}} {{steps.score.error.data.code}}")]);
    let returned = ToolReturn {
        is_error: true,
        text: "there is no such report".into(),
        ..ToolReturn::structured(json!({"code": "not_found"}))
    };
    let joins = [vec![Give::Outcome(0, Outcome::ToolReturned(returned))]];
    let mut config = plan(steps);
    check("plan_report_data", &config, "disk full", &joins);
    config.semantics = 2;
    check("plan_report_data_second_rules", &config, "disk full", &joins);
}

#[test]
fn a_plan_reads_which_argument_did_not_fit() {
    let mut step = tool_step("score", "risk.score", json!({"text": "{{request.data.text}}", "most": 3}));
    step["action"]["operation"]["on_failure"] = json!("report");
    let steps = json!([step, respond("{{steps.score.error}}")]);
    let violations = vec![Violation { path: "/most".into(), message: "expected a text".into() }];
    let failure =
        Failure { violations, ..Failure::new(FailureCode::InvalidArguments, "the arguments do not fit") };
    let joins = [vec![Give::Outcome(0, Outcome::Failed(failure))]];
    check("plan_report_violations", &plan(steps), "disk full", &joins);
}

#[test]
fn siblings_finish_when_one_fails() {
    let steps = json!([{"action": {"parallel": [
        {"operation": {"id": "score", "call": {"tool": {"tool": "risk.score", "with": {}}}}},
        {"operation": {"id": "logs", "call": {"tool": {"tool": "log.read", "with": {}}}}},
    ]}}, respond("never said")]);
    check(
        "plan_parallel_failure",
        &plan(steps),
        "disk full",
        &[
            vec![fails(0, FailureCode::Unavailable, "`risk` does not start")],
            vec![prints(1, "3 errors", false)],
        ],
    );
}

#[test]
fn a_plan_stops_at_its_steps() {
    let steps = json!([
        tool_step("one", "log.read", json!({})),
        respond("one of two"),
        tool_step("two", "log.read", json!({})),
    ]);
    let limits = Limits { max_steps: 1, on_exceeded: OnExceeded::Answer, ..Limits::default() };
    let config = AgentConfig { limits, ..plan(steps) };
    check("plan_max_steps", &config, "disk full", &[vec![prints(0, "3 errors", false)]]);
}

#[test]
fn a_plan_stops_at_its_tool_calls() {
    let steps = json!([
        {"action": {"operation": {"id": "past", "call": {"memory_search": {"query": "x", "limit": 1, "min_score": 0.0}}}}},
        tool_step("one", "log.read", json!({})),
        tool_step("two", "log.read", json!({})),
    ]);
    let config = AgentConfig { limits: Limits { max_tool_calls: 1, ..Limits::default() }, ..plan(steps) };
    check(
        "plan_max_tool_calls",
        &config,
        "disk full",
        &[vec![finds(0, &[])], vec![prints(0, "3 errors", false)]],
    );
}

#[test]
fn an_evaluation_that_fails_ends_the_plan() {
    let steps = json!([
        tool_step("score", "risk.score", json!({})),
        tool_step("logs", "log.read", json!({"since": "{{steps.score.since.trim()}}"})),
    ]);
    check("plan_evaluation_error", &plan(steps), "disk full", &[vec![returns(0, json!({"value": 1}))]]);
}

#[test]
fn a_condition_that_fails_ends_the_plan() {
    let steps = json!([{"when": "steps.never.name.trim() === ''", "action": {"respond": "never said"}}]);
    check("plan_condition_error", &plan(steps), "disk full", &[]);
}

#[test]
fn a_tool_that_is_not_allowed_ends_the_plan() {
    check("plan_forbidden", &plan(json!([tool_step("kill", "host.kill", json!({}))])), "disk full", &[]);
}

#[test]
fn a_memory_that_fails_ends_the_plan() {
    let steps = json!([{"action": {"operation": {"id": "note", "call": {"memory_create": {
        "entity": "db-1", "entity_type": "host", "content": "x"}}}}}]);
    check(
        "plan_memory_failed",
        &plan(steps),
        "disk full",
        &[vec![fails(0, FailureCode::Internal, "disk I/O error")]],
    );
}

#[test]
fn a_cancelled_plan_keeps_what_it_said() {
    check("plan_cancelled", &mail(None), "disk full", &[vec![Give::Signal(Signal::Cancel)]]);
}
