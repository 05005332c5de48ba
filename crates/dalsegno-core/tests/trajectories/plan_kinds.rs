//! Plans of every kind of step: variables, child runs, models, questions, times, walks, handoffs.

use dalsegno_core::{
    AgentConfig, FailureCode, Limits, RunErrorCode, Status, StopReason, Validation, Violation,
};
use serde_json::{Value, json};

use crate::door::*;

/// One operation with the id `it`, and an answer that shows its result.
fn one(call: Value) -> AgentConfig {
    one_with(call, None)
}

fn one_with(call: Value, on_failure: Option<Value>) -> AgentConfig {
    let mut operation = Value::from_iter([("id", json!("it")), ("call", call)]);
    if let Some(on_failure) = on_failure {
        operation["on_failure"] = on_failure;
    }
    plan(json!([{"action": {"operation": operation}}, respond("it: {{steps.it}}")]))
}

#[test]
fn variables_read_what_was_there_before_the_step() {
    let steps = json!([
        {"action": {"set": {"a": "1", "b": "'x'"}}},
        {"action": {"set": {"a": "vars.b", "b": "vars.a", "c": "vars.a + 1"}}},
        {"when": "vars.a === 'x'", "action": {"set": {"c": "[vars.c, request.attachments.length]"}}},
        respond("{{vars}} {{steps}}"),
    ]);
    check("plan_set", &plan(steps), "disk full", &[]);
}

#[test]
fn what_a_plan_keeps_is_bounded() {
    let steps = json!([
        {"action": {"set": {"note": "'0123456789'"}}},
        {"action": {"set": {"note": "'9876543210'"}}},
        tool_step("logs", "log.read", json!({})),
        respond("{{steps.logs}}"),
    ]);
    let limits = Limits { max_state_bytes: 50, ..Limits::default() };
    let config = AgentConfig { limits, ..plan(steps) };
    check("plan_keeps", &config, "disk full", &[vec![prints(0, "ok", false)]]);
    check("plan_keeps_too_much", &config, "disk full", &[vec![prints(0, "a line that is too long", false)]]);
}

#[test]
fn what_a_step_asks_for_is_bounded() {
    let steps = json!([tool_step("logs", "log.read", json!({"text": "{{request.text}} {{request.text}}"}))]);
    let limits = Limits { max_state_bytes: 20, ..Limits::default() };
    let config = AgentConfig { limits, ..plan(steps) };
    check("plan_asks_too_much", &config, "disk full", &[]);
}

#[test]
fn an_output_is_the_answer_where_nothing_is_said() {
    let steps = json!([
        {"action": {"output": {"host": "nobody"}}},
        {"action": {"output": {"host": "{{request.data.host}}", "known": ["{{tenant.name}}", 1]}}},
    ]);
    check("plan_output", &plan(steps), "disk full", &[]);
}

#[test]
fn an_output_stands_beside_what_is_said() {
    let steps = json!([{"action": {"output": "{{request.data}}"}}, respond("see output")]);
    check("plan_output_and_answer", &plan(steps), "disk full", &[]);
}

#[test]
fn a_child_run_answers() {
    let call = json!({"agent": {"agent": "scout"}});
    let joins = [vec![agent_answers(0, r#"{"errors": 3}"#, None)]];
    check("plan_agent", &one(call), "disk full", &joins);
}

#[test]
fn a_child_run_that_fails_ends_the_plan() {
    let call =
        json!({"agent": {"agent": "scout", "text": "look at {{request.data.host}}", "data": {"deep": true}}});
    let fails =
        agent_fails(0, Status::Failed, RunErrorCode::LimitExceeded, "`limits.max_steps` (4) is reached");
    check("plan_agent_failed", &one(call), "disk full", &[vec![fails]]);
}

#[test]
fn a_child_run_that_was_cancelled_is_reported() {
    let config = one_with(json!({"agent": {"agent": "scout"}}), Some(json!("report")));
    let fails = agent_fails(0, Status::Cancelled, RunErrorCode::Cancelled, "the run was cancelled");
    check("plan_agent_cancelled", &config, "disk full", &[vec![fails]]);
}

#[test]
fn an_agent_that_is_not_known_ends_the_plan() {
    check("plan_agent_unknown", &one(json!({"agent": {"agent": "ghost"}})), "disk full", &[]);
}

#[test]
fn siblings_share_what_is_left() {
    let branch = |id: &str, call: Value| json!({"operation": {"id": id, "call": call}});
    let steps = json!([{"action": {"parallel": [
        branch("scout", json!({"agent": {"agent": "scout"}})),
        branch("clerk", json!({"agent": {"agent": "clerk"}})),
        branch("last", json!({"agent": {"agent": "clerk"}})),
        branch("logs", json!({"tool": {"tool": "log.read", "with": {}}})),
    ]}}, respond("{{steps}}")]);
    let limits = Limits { max_tool_calls: 30, max_tokens: Some(6_000), ..Limits::default() };
    let config = AgentConfig { limits, ..plan(steps) };
    check(
        "plan_budgets",
        &config,
        "disk full",
        &[vec![
            agent_answers(2, "two", None),
            agent_answers(1, "one", None),
            prints(3, "3 errors", false),
            agent_answers(0, "none", None),
        ]],
    );
}

fn model_step(schema: Option<Value>) -> Value {
    let mut step = json!({"model": {
        "model": {"name": "local", "price": {"input": 1_000_000, "output": 2_000_000}},
        "instructions": "Answer for {{tenant.name}}.", "prompt": "Why is {{request.text}}?"}});
    step["model"]["schema"] = schema.unwrap_or_default();
    step
}

#[test]
fn a_model_step_is_one_completion() {
    check("plan_model", &one(model_step(None)), "disk full", &[says("logs grew")]);
}

#[test]
fn a_model_step_with_a_schema_gives_what_fits_it() {
    let schema = json!({"type": "object"});
    let reply = says_checked(r#"{"why": "logs"}"#, Validation::Valid { arguments: json!({"why": "logs"}) });
    check("plan_model_schema", &one(model_step(Some(schema))), "disk full", &[reply]);
}

#[test]
fn a_model_step_whose_reply_does_not_fit_ends_the_plan() {
    let schema = json!({"type": "object"});
    let violation = Violation { path: "/why".into(), message: "expected a string".into() };
    let reply = says_checked(r#"{"why": 1}"#, Validation::Invalid { violations: vec![violation] });
    check("plan_model_unfit", &one(model_step(Some(schema))), "disk full", &[reply]);
}

#[test]
fn a_model_step_that_is_withheld_is_reported() {
    let config = one_with(model_step(None), Some(json!("report")));
    check("plan_model_refusal", &config, "disk full", &[replies(vec![], StopReason::Refusal)]);
}

#[test]
fn a_model_step_that_is_cut_off_ends_the_plan() {
    let reply = replies(vec![], StopReason::Length);
    check("plan_model_cut_off", &one(model_step(None)), "disk full", &[reply]);
}

#[test]
fn a_model_step_that_would_exceed_the_tokens_does_not_leave() {
    let limits = Limits { max_tokens: Some(4_000), ..Limits::default() };
    let config = AgentConfig { limits, ..one(model_step(None)) };
    check("plan_model_max_tokens", &config, "disk full", &[]);
}

#[test]
fn tokens_beyond_the_limit_end_the_plan() {
    let mut call = model_step(None);
    call["model"]["model"]["max_output_tokens"] = json!(20);
    let limits = Limits { max_tokens: Some(60), ..Limits::default() };
    let config = AgentConfig { limits, ..one(call) };
    check("plan_model_overrun", &config, "disk full", &[says("logs grew")]);
}

fn ask() -> Value {
    json!({"ask": {"question": "Restart {{request.data.host}}?", "schema": {"type": "boolean"}}})
}

#[test]
fn a_person_answers_a_question() {
    check("plan_ask", &one(ask()), "disk full", &[vec![given(0, json!(true))]]);
}

#[test]
fn a_person_who_does_not_answer_ends_the_plan() {
    check("plan_ask_denied", &one(ask()), "disk full", &[vec![denies(0, Some("ask ops"))]]);
}

#[test]
fn a_default_does_not_stand_in_for_a_no() {
    let config = one_with(ask(), Some(json!({"default": true})));
    check("plan_denied_default", &config, "disk full", &[vec![denies(0, None)]]);
}

#[test]
fn a_question_waits_beside_its_siblings() {
    let steps = json!([{"action": {"parallel": [
        {"operation": {"id": "sure", "call": ask()}},
        {"operation": {"id": "logs", "call": {"tool": {"tool": "log.read", "with": {}}}}},
        {"operation": {"id": "later", "call": {"wait": {"for": {"ms": 500}}}}},
    ]}}, respond("{{steps.sure}} {{steps.logs}} {{steps.later}}")]);
    check(
        "plan_mixed",
        &plan(steps),
        "disk full",
        &[vec![fires(2)], vec![prints(1, "3 errors", false)], vec![given(0, json!(false))]],
    );
}

#[test]
fn a_plan_waits() {
    check("plan_wait", &one(json!({"wait": {"for": {"ms": 2_500}}})), "disk full", &[vec![fires(0)]]);
}

#[test]
fn a_plan_waits_until_a_date() {
    let call = json!({"wait": {"until": "'1970-01-01T00:' + '01:00Z'"}});
    check("plan_wait_until", &one(call), "disk full", &[vec![fires(0)]]);
}

#[test]
fn a_time_that_has_passed_does_not_wait() {
    for until in ["1000", "-5", "0.5", "'1969-12-31'"] {
        check("plan_wait_past", &one(json!({"wait": {"until": until}})), "disk full", &[]);
    }
}

#[test]
fn what_is_no_time_ends_the_plan() {
    check("plan_wait_no_time", &one(json!({"wait": {"until": "'soon'"}})), "disk full", &[]);
}

#[test]
fn a_wait_that_is_too_long_ends_the_plan() {
    check("plan_wait_too_long", &one(json!({"wait": {"until": "'2026-11-22'"}})), "disk full", &[]);
}

#[test]
fn relations_are_made_and_followed() {
    let steps = json!([
        {"action": {"operation": {"id": "note", "call": {"memory_create": {
            "entity": "{{request.data.host}}", "entity_type": "host", "content": "{{request.text}}",
            "relations": [{"relation": "part_of", "to": "rack of {{request.data.host}}"}]}}}}},
        {"action": {"operation": {"id": "near", "call": {"memory_traverse": {
            "from": "{{request.data.host}}", "relation": "part_of", "depth": 2, "limit": 10}}}}},
        respond("{{steps.near.entities.length}} near, {{steps.near.truncated}}"),
    ]);
    check("plan_relations", &plan(steps), "disk full", &[vec![creates(0)], vec![traverses(0)]]);
}

#[test]
fn a_walk_that_fails_ends_the_plan() {
    let call = json!({"memory_traverse": {"from": "db-1", "relation": null, "depth": 1, "limit": 5}});
    let joins = [vec![fails(0, FailureCode::Internal, "disk I/O error")]];
    check("plan_traverse_failed", &one(call), "disk full", &joins);
}

#[test]
fn another_agent_goes_on() {
    let steps = json!([
        tool_step("logs", "log.read", json!({})),
        {"action": {"handoff": {"target": "clerk", "message": "{{steps.logs}} on {{request.data.host}}",
            "data": {"logs": "{{steps.logs}}"}}}},
        respond("never said"),
    ]);
    check("plan_handoff", &plan(steps), "disk full", &[vec![prints(0, "3 errors", false)]]);
}

#[test]
fn an_agent_that_is_not_known_cannot_go_on() {
    let steps = json!([{"action": {"handoff": {"target": "ghost", "message": null, "data": null}}}]);
    check("plan_handoff_unknown", &plan(steps), "disk full", &[]);
}

fn fallback(tool: &str) -> AgentConfig {
    let call = json!({"tool": {"tool": "risk.score", "with": {"text": "{{request.text}}"}}});
    let steps = json!([
        {"action": {"parallel": [
            {"operation": {"id": "score", "call": call, "on_failure": {"fallback": tool}}},
            {"operation": {"id": "logs", "call": {"tool": {"tool": "log.read", "with": {}}}}},
        ]}},
        respond("{{steps.score}} {{steps.logs}}"),
    ]);
    plan(steps)
}

#[test]
fn a_tool_stands_in_for_one_that_failed() {
    check(
        "plan_fallback",
        &fallback("mail.send"),
        "disk full",
        &[
            vec![fails(0, FailureCode::Unavailable, "`risk` does not start"), prints(1, "3 errors", false)],
            vec![approves(0)],
            vec![prints(0, "somebody looks at it", false)],
        ],
    );
}

#[test]
fn a_tool_that_stands_in_falls_back_no_further() {
    check(
        "plan_fallback_failed",
        &fallback("ticket.open"),
        "disk full",
        &[
            vec![fails(0, FailureCode::Unavailable, "`risk` does not start"), prints(1, "3 errors", false)],
            vec![fails(0, FailureCode::Timeout, "no answer within 30 s")],
        ],
    );
}

#[test]
fn a_call_that_may_have_taken_place_is_not_made_twice() {
    check(
        "plan_fallback_indeterminate",
        &fallback("ticket.open"),
        "disk full",
        &[vec![
            fails(0, FailureCode::Indeterminate, "the connection was lost"),
            prints(1, "3 errors", false),
        ]],
    );
}

#[test]
fn a_forbidden_tool_does_not_stand_in() {
    check(
        "plan_fallback_forbidden",
        &fallback("host.kill"),
        "disk full",
        &[vec![fails(0, FailureCode::Unavailable, "`risk` does not start"), prints(1, "3 errors", false)]],
    );
}
