//! Tools that are documents: their parts, gates and writes, beside everything else that a step may ask for.

use dalsegno_core::{Answer, Gate, Mind, Outcome, OutputSettings, Signal, Validation};
use dalsegno_tools::ApiResponse;
use serde_json::{Value, json};

use crate::door::*;

/// Keeps a meal and sends it away.
fn save_meal() -> Value {
    json!({
        "name": "save_meal",
        "description": "Logs a meal.",
        "parameters": [{"name": "dish", "type": "string", "required": true, "min_length": 2}],
        "actions": [
            {"type": "context.set", "path": "meals[+]", "value": "params.dish"},
            {"type": "api_call", "id": "log", "url": "https://api.example.com/meals", "body": {"dish": "{{params.dish}}"},
             "headers": {"Authorization": "Bearer {{user.auth_token}}"}}
        ],
        "on_success": [{"type": "respond", "message": "I logged {{params.dish}} as number {{result.log.id}}."}],
        "on_failure": [{"type": "respond", "message": "I could not log it: {{error.code}}."}]
    })
}

fn answers(place: usize, status: u16, body: Value) -> Give {
    let response = ApiResponse { status, body, attempts: 1, ..ApiResponse::default() };
    Give::Outcome(place, Outcome::ApiAnswered(response))
}

#[test]
fn a_plan_calls_a_declarative_tool() {
    let steps = json!([
        tool_step("meal", "save_meal", json!({"dish": "soup"})),
        respond("{{steps.meal.id}} of {{workflow.meals}}"),
    ]);
    let config = with_documents(plan(steps), &[save_meal()]);
    check("declarative_plan", &config, "lunch", &[vec![answers(1, 201, json!({"id": 7}))]]);
}

#[test]
fn a_declarative_tool_that_fails_keeps_nothing() {
    let mut step = tool_step("meal", "save_meal", json!({"dish": "soup"}));
    step["action"]["operation"]["on_failure"] = json!("report");
    let steps = json!([step, respond("{{steps.meal}} {{workflow.meals}}")]);
    let config = with_documents(plan(steps), &[save_meal()]);
    check("declarative_fails", &config, "lunch", &[vec![answers(1, 422, json!({"why": "no soup today"}))]]);
}

#[test]
fn a_model_reads_why_a_declarative_tool_failed() {
    let config = with_documents(model(), &[save_meal()]);
    let joins = [
        calls(vec![call("a", "save_meal", json!({"dish": "soup"}))]),
        vec![answers(1, 422, json!({"why": "no soup today"}))],
        says("Sorry."),
    ];
    check("declarative_model_fails", &config, "lunch", &joins);
}

#[test]
fn a_model_calls_declarative_tools_beside_others() {
    let config = with_documents(model(), &[save_meal()]);
    let joins = [
        calls(vec![
            call("a", "save_meal", json!({"dish": "soup"})),
            call("b", "log.read", json!({})),
            call("c", "save_meal", json!({"dish": "pie"})),
        ]),
        // The parts stand behind the operations of the step.
        vec![answers(4, 201, json!({"id": 2})), prints(1, "nothing", false)],
        vec![answers(3, 201, json!({"id": 1}))],
        says("Done."),
    ];
    check("declarative_model", &config, "lunch", &joins);
}

#[test]
fn a_part_in_doubt_asks_a_person() {
    let config = with_documents(model(), &[save_meal()]);
    let done = Answer::Done { result: Some(json!({"id": 9})), error: None, by: Some("eve".into()) };
    let joins = [
        calls(vec![call("a", "save_meal", json!({"dish": "soup"}))]),
        vec![Give::Gate(1, Gate::InDoubt { reason: "no answer".into() })],
        vec![Give::Answer(1, done)],
        says("Done."),
    ];
    check("declarative_doubt", &config, "lunch", &joins);
}

#[test]
fn a_tool_calls_another_tool_and_hands_over() {
    let outer = json!({
        "name": "escalate",
        "description": "Opens a ticket and hands over.",
        "actions": [
            {"type": "tool", "name": "save_meal", "with": {"dish": "soup"}},
            {"type": "tool", "id": "mail", "name": "mail.send", "with": {"to": "eve"}},
            {"type": "handoff", "target_agent": "scout", "message": "Please look at {{result.mail}}."}
        ]
    });
    let mut config = with_documents(model(), &[save_meal(), outer]);
    let approved = Answer::Approved { edited: None, reason: None, by: Some("eve".into()) };
    let joins = [
        calls(vec![call("a", "escalate", json!({}))]),
        vec![answers(2, 200, json!({"id": 3}))],
        vec![Give::Answer(1, approved)],
        vec![prints(1, "sent", false)],
    ];
    check("declarative_nested", &config, "lunch", &joins);
    // A run that began under the first rules stays under them.
    config.semantics = 1;
    check("declarative_nested_first_rules", &config, "lunch", &joins);
}

#[test]
fn a_structured_answer_begins_with_what_the_tools_said() {
    let mut config = with_documents(model(), &[save_meal()]);
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    mind.output = Some(OutputSettings { schema: json!({"type": "object"}), retries: 0 });
    let joins = [
        calls(vec![call("a", "save_meal", json!({"dish": "soup"}))]),
        vec![answers(1, 201, json!({"id": 7}))],
        says_checked("{\"id\": 7}", Validation::Valid { arguments: json!({"id": 7}) }),
    ];
    check("declarative_output", &config, "lunch", &joins);
    config.semantics = 1;
    check("declarative_output_first_rules", &config, "lunch", &joins);
}

#[test]
fn what_a_tool_said_before_the_run_was_cancelled_is_in_the_answer() {
    let slow = json!({
        "name": "slow",
        "description": "Says that it takes a while.",
        "actions": [
            {"type": "tool", "name": "save_meal", "with": {"dish": "soup"}},
            {"type": "respond", "message": "One moment."},
            {"type": "api_call", "url": "https://api.example.com/slow"}
        ]
    });
    let config = with_documents(model(), &[save_meal(), slow]);
    let joins = [
        calls(vec![call("a", "slow", json!({}))]),
        vec![answers(2, 201, json!({"id": 7}))],
        vec![Give::Signal(Signal::Cancel)],
    ];
    check("declarative_cancelled", &config, "lunch", &joins);
}

#[test]
fn what_was_said_in_a_tool_that_failed_afterwards_is_in_the_answer() {
    let outer = json!({
        "name": "outer",
        "description": "Fails after the tool that it called has spoken.",
        "actions": [
            {"type": "tool", "name": "save_meal", "with": {"dish": "soup"}},
            {"type": "validate", "rules": [{"field": "params.missing", "rule": "required"}]}
        ]
    });
    let config = with_documents(model(), &[save_meal(), outer]);
    let joins = [
        calls(vec![call("a", "outer", json!({}))]),
        vec![answers(2, 201, json!({"id": 7}))],
        says("That did not work."),
    ];
    check("declarative_inner_said", &config, "lunch", &joins);
}

#[test]
fn a_list_of_calls_is_worked_off_one_by_one() {
    let call = json!({"tool": {"tool": "save_meal", "with": {"dish": "{{item}}"}}});
    let each = json!({"for_each": {"list": "['soup', 'pie']", "operation": {"id": "meals", "call": call}, "concurrency": 1}});
    let steps = json!([{"action": each}, respond("{{steps.meals}} {{workflow.meals}}")]);
    let config = with_documents(plan(steps), &[save_meal()]);
    let joins = [vec![answers(2, 201, json!({"id": 1}))], vec![answers(2, 201, json!({"id": 2}))]];
    check("declarative_list", &config, "lunch", &joins);
}
