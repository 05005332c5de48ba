//! Tools that are documents: their parts, gates and writes, beside everything else that a step may ask for.

use dalsegno_core::{Answer, Gate, Mind, Outcome, OutputSettings, Signal, Verdict};
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
        says_checked("{\"id\": 7}", Verdict::Valid { arguments: json!({"id": 7}) }),
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

/// A plan that reports the failures of `order` with this argument, and says what it reads of them.
fn ordering(when: &str) -> Value {
    let mut step = tool_step("order", "order", json!({"when": when, "note": "x"}));
    step["action"]["operation"]["on_failure"] = json!("report");
    json!([step, respond("{{steps.order.error.code}}: {{steps.order.error}}")])
}

/// Checks its argument and calls a service.
fn order() -> Value {
    json!({
        "name": "order",
        "description": "Orders.",
        "parameters": [{"name": "when", "type": "string"}, {"name": "note", "type": "string"}],
        "actions": [
            {"type": "validate", "rules": [{"field": "params.when", "rule": "email", "error_message": "when is no address"}]},
            {"type": "api_call", "id": "post", "url": "https://api.example.com/orders", "effect": "idempotent"}
        ]
    })
}

#[test]
fn a_plan_reads_the_code_with_which_a_declarative_tool_failed() {
    let mut config = with_documents(plan(ordering("tomorrow")), &[order()]);
    check("declarative_own_code", &config, "lunch", &[]);
    config.semantics = 2;
    check("declarative_own_code_second_rules", &config, "lunch", &[]);
    let config = with_documents(plan(ordering("a@b.co")), &[order()]);
    check("declarative_own_status", &config, "lunch", &[vec![answers(1, 429, json!({"why": "slow down"}))]]);
}

#[test]
fn a_failed_declarative_tool_ends_a_plan_with_its_own_code() {
    let steps = json!([tool_step("order", "order", json!({"when": "tomorrow"}))]);
    check("declarative_own_end", &with_documents(plan(steps), &[order()]), "lunch", &[]);
}

#[test]
fn a_document_reads_the_error_of_the_tool_that_it_calls() {
    let outer = json!({
        "name": "outer",
        "description": "Tries another tool.",
        "actions": [
            {"type": "tool", "id": "order", "name": "order", "with": {"when": "{{params.when}}"}, "on_error": "continue"},
            {"type": "tool", "id": "mail", "name": "log.read", "with": {}, "on_error": "continue"},
            {"type": "respond", "message": "{{result.order.error.code}}, {{result.order.error.status}}, {{result.mail.error.message}}"}
        ],
        "parameters": [{"name": "when", "type": "string"}]
    });
    let mut config = with_documents(plan(json!([tool_step("it", "outer", json!({}))])), &[order(), outer]);
    let joins =
        [vec![answers(2, 404, json!({"why": "none"}))], vec![prints(1, "{\"kind\": \"gone\"}", true)]];
    check("declarative_inner_code", &config, "lunch", &joins);
    config.semantics = 2;
    check("declarative_inner_code_second_rules", &config, "lunch", &joins);
}

#[test]
fn an_argument_that_comes_to_nothing_is_left_out_where_it_is_not_required() {
    let required = json!({
        "name": "outer",
        "description": "Passes on what it got.",
        "parameters": [{"name": "dish", "type": "string"}],
        "actions": [
            {"type": "tool", "id": "log", "name": "log.read", "with": {"gone": "{{params.dish}}", "kept": null, "more": {"in": "{{params.dish}}"}}},
            {"type": "tool", "name": "save_meal", "with": {"dish": "{{params.dish}}"}}
        ]
    });
    let with = json!({"dish": "{{request.data.dish}}"});
    let mut config = with_documents(plan(json!([tool_step("it", "outer", with)])), &[save_meal(), required]);
    let joins = [vec![prints(1, "nothing", false)]];
    check("declarative_absent", &config, "lunch", &joins);
    config.semantics = 2;
    check("declarative_absent_second_rules", &config, "lunch", &joins);
}
