//! Plans that go through.

use dalsegno_core::{Answer, Validation};
use serde_json::{Value, json};

use crate::door::*;

/// A search, a score, a mail where the score is high, two more at the same time, an answer.
fn triage() -> Value {
    json!([
        {"action": {"operation": {"id": "past", "call": {
            "memory_search": {"query": "{{request.text}}", "limit": 3, "min_score": 0.5}}}}},
        tool_step("score", "risk.score", json!({"text": "{{request.text}}", "past": "{{steps.past.length}}"})),
        {"when": "steps.score.value > 0.7", "action": {"operation": {"id": "mail", "call": {"tool": {
            "tool": "mail.send", "with": {"to": "ops@example.org", "score": "{{steps.score.value}}"}}}}}},
        {"action": {"parallel": [
            {"operation": {"id": "logs", "call": {"tool": {"tool": "log.read", "with": {"host": "{{request.data.host}}"}}}}},
            {"operation": {"id": "note", "call": {"memory_create": {
                "entity": "{{request.data.host}}", "entity_type": "host", "content": "{{request.text}}"}}}},
            {"when": "steps.past.length > 5", "operation": {"id": "ticket", "call": {"tool": {
                "tool": "ticket.open", "with": {}}}}},
        ]}},
        respond("{{request.text}}: {{steps.score.value}}, {{steps.past.length}} known"),
        {"when": "steps.mail !== null", "action": {"respond": "mail: {{steps.mail.state}}"}},
        respond("logs: {{steps.logs}}"),
    ])
}

#[test]
fn an_approved_plan_goes_through() {
    check(
        "plan_approved",
        &plan(triage()),
        "disk full",
        &[
            vec![finds(0, &["was full in May", "has 2 TB"])],
            vec![returns(0, json!({"value": 0.9, "level": "high"}))],
            vec![approves(0)],
            vec![returns(0, json!({"state": "sent"}))],
            vec![creates(1), prints(0, "3 errors", false)],
        ],
    );
}

#[test]
fn skipped_steps_are_null() {
    check(
        "plan_skipped",
        &plan(triage()),
        "disk full",
        &[
            vec![finds(0, &[])],
            vec![returns(0, json!({"value": 0.2}))],
            vec![prints(0, "[1, 2]", false)],
            vec![creates(1)],
        ],
    );
}

#[test]
fn a_person_edits_the_arguments() {
    let steps = json!([
        tool_step("mail", "mail.send", json!({"to": "everyone@example.org"})),
        respond("{{steps.mail.state}}"),
    ]);
    check(
        "plan_edited",
        &plan(steps),
        "disk full",
        &[
            vec![edits(0, Validation::Valid { arguments: json!({"to": "ops@example.org"}) })],
            vec![returns(0, json!({"state": "sent"}))],
        ],
    );
}

#[test]
fn a_step_asks_for_approval_by_a_condition() {
    let mut steps = json!([tool_step("ticket", "ticket.open", json!({"urgent": true})), respond("done")]);
    steps[0]["action"]["operation"]["call"]["tool"]["approve"] =
        json!({"when": "request.data.host === 'db-1'"});
    check(
        "plan_approve_when",
        &plan(steps),
        "disk full",
        &[vec![approves(0)], vec![returns(0, json!({"id": 4}))]],
    );
}

#[test]
fn an_operation_in_doubt_was_done() {
    let steps = json!([
        tool_step("ticket", "ticket.open", json!({"title": "{{request.text}}"})),
        respond("ticket {{steps.ticket.id}}"),
    ]);
    check(
        "plan_in_doubt_done",
        &plan(steps),
        "disk full",
        &[
            vec![doubts(0)],
            vec![Give::Answer(
                0,
                Answer::Done { result: Some(json!({"id": 4})), error: None, by: Some("ada".into()) },
            )],
        ],
    );
}

#[test]
fn an_operation_in_doubt_starts_again() {
    let steps = json!([tool_step("ticket", "ticket.open", json!({})), respond("ticket {{steps.ticket.id}}")]);
    check(
        "plan_in_doubt_not_done",
        &plan(steps),
        "disk full",
        &[
            vec![doubts(0)],
            vec![Give::Answer(0, Answer::NotDone { by: Some("ada".into()) })],
            vec![returns(0, json!({"id": 5}))],
        ],
    );
}

#[test]
fn a_sibling_runs_while_one_waits_for_approval() {
    let steps = json!([
        {"action": {"parallel": [
            {"operation": {"id": "mail", "call": {"tool": {"tool": "mail.send", "with": {"to": "ops"}}}}},
            {"operation": {"id": "logs", "call": {"tool": {"tool": "log.read", "with": {}}}}},
        ]}},
        respond("{{steps.mail}}, {{steps.logs}}"),
    ]);
    check(
        "plan_gate_and_sibling",
        &plan(steps),
        "disk full",
        &[vec![prints(1, "3 errors", false)], vec![approves(0)], vec![prints(0, "sent", false)]],
    );
}

#[test]
fn a_plan_without_operations_answers_at_once() {
    check(
        "plan_respond_alone",
        &plan(json!([respond("{{request.text}}?"), respond("on {{tenant.name}}")])),
        "disk full",
        &[],
    );
}

#[test]
fn an_empty_plan_completes_without_an_answer() {
    check("plan_empty", &plan(json!([])), "disk full", &[]);
}
