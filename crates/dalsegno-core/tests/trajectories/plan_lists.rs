//! Plans that do the same for each item of a list.

use dalsegno_core::{AgentConfig, FailureCode, Limits};
use serde_json::{Value, json};

use crate::door::*;

/// A ticket for each host of an earlier result.
fn tickets(on_failure: Option<Value>) -> AgentConfig {
    let mut operation = json!({"id": "tickets", "call": {"tool": {
        "tool": "ticket.open", "with": {"title": "{{index}}: {{item.host}} of {{vars.team}}"},
        "approve": {"when": "item.critical"}}}});
    if let Some(on_failure) = on_failure {
        operation["on_failure"] = on_failure;
    }
    plan(json!([
        tool_step("logs", "log.read", json!({})),
        {"action": {"set": {"team": "steps.logs.team"}}},
        {"action": {"for_each": {"list": "steps.logs.hosts", "concurrency": 2, "operation": operation}}},
        respond("{{steps.tickets}}"),
    ]))
}

fn hosts() -> Vec<Give> {
    let hosts =
        json!([{"host": "db-1", "critical": false}, {"host": "db-2", "critical": true}, {"host": "db-3"}]);
    vec![returns(0, json!({"team": "storage", "hosts": hosts}))]
}

#[test]
fn each_item_is_done_and_results_stand_in_the_order_of_the_items() {
    check(
        "plan_for_each",
        &tickets(None),
        "disk full",
        &[
            hosts(),
            vec![returns(2, json!({"id": 3})), approves(1), returns(0, json!({"id": 1}))],
            vec![returns(1, json!({"id": 2}))],
        ],
    );
}

#[test]
fn an_item_that_fails_ends_the_plan_when_all_are_there() {
    check(
        "plan_for_each_fail",
        &tickets(None),
        "disk full",
        &[
            hosts(),
            vec![
                fails(2, FailureCode::Unavailable, "`ticket` does not start"),
                denies(1, Some("not at night")),
            ],
            vec![returns(0, json!({"id": 1}))],
        ],
    );
}

#[test]
fn an_item_that_fails_is_reported_in_its_place() {
    check(
        "plan_for_each_report",
        &tickets(Some(json!("report"))),
        "disk full",
        &[
            hosts(),
            vec![denies(1, None), returns(0, json!({"id": 1})), fails(2, FailureCode::Timeout, "too late")],
        ],
    );
}

#[test]
fn an_item_that_fails_has_the_default_in_its_place() {
    check(
        "plan_for_each_default",
        &tickets(Some(json!({"default": {"id": 0}}))),
        "disk full",
        &[
            hosts(),
            vec![approves(1), returns(0, json!({"id": 1})), fails(2, FailureCode::Timeout, "too late")],
            vec![returns(1, json!({"id": 2}))],
        ],
    );
}

#[test]
fn a_tool_stands_in_for_the_items_that_failed() {
    check(
        "plan_for_each_fallback",
        &tickets(Some(json!({"fallback": "mail.send"}))),
        "disk full",
        &[
            hosts(),
            vec![fails(0, FailureCode::Unavailable, "`ticket` does not start"), approves(1)],
            vec![returns(1, json!({"id": 2})), prints(2, "the queue is full", true)],
            vec![approves(1), approves(0)],
            vec![prints(1, "sent to ops", false), prints(0, "sent", false)],
        ],
    );
}

/// A step over what `list` gives, and an answer.
fn over(list: &str) -> AgentConfig {
    plan(json!([
        {"action": {"for_each": {"list": list, "concurrency": 1, "operation": {"id": "all", "call": {
            "tool": {"tool": "log.read", "with": {"of": "{{item}}"}}}}}}},
        respond("{{steps.all.length}} read"),
    ]))
}

#[test]
fn a_list_that_is_missing_or_empty_asks_for_nothing() {
    check("plan_for_each_null", &over("request.data.hosts"), "disk full", &[]);
    check("plan_for_each_empty", &over("[]"), "disk full", &[]);
}

#[test]
fn what_is_no_list_ends_the_plan() {
    check("plan_for_each_no_list", &over("request.data"), "disk full", &[]);
}

#[test]
fn a_list_that_is_too_long_ends_the_plan() {
    check("plan_for_each_too_long", &over("'x'.padStart(1001).split('')"), "disk full", &[]);
}

#[test]
fn the_calls_of_all_items_count_before_anything_leaves() {
    let config =
        AgentConfig { limits: Limits { max_tool_calls: 3, ..Limits::default() }, ..over("[1, 2, 3, 4]") };
    check("plan_for_each_max_tool_calls", &config, "disk full", &[]);
}

#[test]
fn each_item_may_be_a_child_run_with_what_is_left() {
    let config = plan(json!([
        {"action": {"for_each": {"list": "['a', 'b', 'c']", "concurrency": 1, "operation": {
            "id": "found", "on_failure": "report",
            "call": {"agent": {"agent": "scout", "text": "look at {{item}}", "data": {"n": "{{index}}"}}}}}}},
        respond("{{steps.found}}"),
    ]));
    let config = AgentConfig { limits: Limits { max_tool_calls: 10, ..Limits::default() }, ..config };
    check(
        "plan_for_each_agents",
        &config,
        "disk full",
        &[vec![
            agent_answers(1, "nothing", None),
            agent_answers(0, r#"{"errors": 3}"#, None),
            agent_answers(2, "see output", Some(json!([1, 2]))),
        ]],
    );
}

#[test]
fn the_condition_of_a_list_is_that_of_its_step() {
    let config = plan(json!([
        {"when": "request.text === 'disk empty'", "action": {"for_each": {
            "list": "[1]", "concurrency": 1, "operation": {"id": "all", "call": {
            "tool": {"tool": "log.read", "with": {}}}}}}},
        respond("{{steps.all === null}}"),
    ]));
    check("plan_for_each_skipped", &config, "disk full", &[]);
}
