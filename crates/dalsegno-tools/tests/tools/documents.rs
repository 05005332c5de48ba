//! What is wrong with documents, as people are told.

use dalsegno_tools::{Settings, Toolkit, compile, compile_with};
use serde_json::json;

use crate::support::{printed, problems, tool_of, toolkit, warnings};

#[test]
fn all_problems_are_told_at_once() {
    let document = json!({
        "name": "Save Meal",
        "desciption": "Logs a meal",
        "parameters": [
            {"name": "a", "type": "text"},
            {"name": "b", "type": "string", "minimum": 3, "items": {"type": "string"}},
            {"name": "c", "type": "integer", "default": "three", "min_value": 5, "minimum": 4},
            {"name": "c", "type": "array", "items": {"type": "string", "pattern": "("}},
            {"name": "__proto__", "type": "string", "enum": []},
            {"name": "d", "type": "integer", "enum": [1, "2"], "requird": true},
            {"type": "string", "default_from": "a..b"}
        ],
        "actions": [
            {"type": "context.ste", "path": "a", "value": 1},
            {"type": "context.set", "path": "a", "value": "1 +", "data": {}},
            {"type": "context.set", "path": "a", "value": "meal saved"},
            {"type": "context.set", "key": "a"},
            {"type": "respond", "mesage": "hi"},
            {"type": "respond", "message": "Hello {{user.name"},
            {"type": "respond", "message": "Your token is {{user.auth_token}}"},
            {"type": "log", "level": "warning", "log_message": "{{secrets.key}}"},
            {"type": "conditional", "condition": "{{params.a}}", "then_actions": [{"type": "nothing"}]},
            {"type": "conditional", "condition": "secrets.key === 1"},
            {"type": "validate", "rules": [{"field": "params.a", "rule": "e-mail"}, {"field": "b", "rule": "min_length"}]},
            {"type": "transform", "input_path": "params.a", "output_path": "b", "transform_type": "sort"},
            {"type": "api_call", "method": "FETCH", "url": "https://a.example/", "timeout": 0, "retry_count": 99,
             "headers": {"Host": "x", "a b": "y", "X-Split": "a\r\nb"}, "query": {"a": {}}, "on_error": "ignore"},
            {"type": "api_call", "method": "GET", "url": "https://a.example/{{secrets.keyy}}", "body": {"a": "{{"}},
            {"type": "api_call", "url": "https://a.example/", "body": {"auth": "{{'Bearer ' + user.auth_token}}"}},
            {"type": "handoff", "target_agent": "On Call"},
            {"type": "tool", "name": "a.b.c", "arguments": [], "with": {}},
            {"type": "email.send", "host": "{{params.host}}", "subject": 3},
            {"id": "x"},
            "respond"
        ],
        "on_sucess": [],
        "secrets": ["key"],
        "auth": {"type": "oauth", "token_url": "x"}
    });
    insta::assert_snapshot!(problems(&document));
}

#[test]
fn what_is_probably_not_meant_is_warned_of() {
    let document = json!({
        "name": "lint", "description": "Lints",
        "parameters": [{"name": "meal_type", "type": "string"}, {"name": "email", "type": "string", "required": true, "default": "a@b.co"}],
        "config_schema": {"calendar_id": {"type": "string"}},
        "actions": [
            {"type": "context.set", "path": "a", "value": "saved"},
            {"type": "context.set", "path": "a", "value": "some.dotted.path"},
            {"type": "respond", "message": "{{params.meal_typ}} {{param.meal_type}} {{config.calender_id}}"},
            {"type": "respond", "message": "{{result.nobody}} {{error.code}}"},
            {"type": "validate", "rules": [{"field": "email", "rule": "email"}]},
            {"type": "api_call", "id": "call", "url": "https://a.example/", "body": {"meal": "params.meal_type"}, "idempotency_key": "'x'", "effect": "unsafe"},
            {"type": "api_call", "id": "call", "url": "https://a.example/"},
            {"type": "handoff", "target_agent": "next"},
            {"type": "respond", "message": "never"}
        ],
        "on_failure": [{"type": "respond", "message": "{{error.code}} {{result.call}}"}]
    });
    insta::assert_snapshot!(warnings(&document));
}

#[test]
fn a_toolkit_tells_its_problems_where_they_are() {
    let document = json!({
        "name": "google_calendar_with_a_name_that_is_rather_long_for_models",
        "config_schema": {"type": "object", "properties": {"a": 3}},
        "secrets": ["Bad Name", 3],
        "auth": {"type": "api_key", "header": "X Key"},
        "parameters": [],
        "actions": [
            {"name": "list_events", "description": "", "actions": [{"type": "flag.set", "flag": "A B"}]},
            {"name": "twice", "description": "One", "actions": []},
            {"name": "twice", "description": "Two", "actions": {}},
            {"description": "No name", "actions": []}
        ]
    });
    insta::assert_snapshot!(problems(&document));
}

#[test]
fn more_secret_paths_can_be_given() {
    let document = tool_of(json!([{"type": "respond", "message": "{{user.ssn}} {{tenant.settings.key}}"}]));
    assert_eq!(problems(&document), "");
    let paths = ["user.ssn", "tenant.settings.key"].map(|path| path.parse().unwrap());
    let compiled = compile_with(&document, &Settings { secret_paths: paths.to_vec() });
    assert_eq!(compiled.problems.len(), 2, "{:?}", compiled.problems);
}

#[test]
fn a_toolkit_is_stored_as_its_document_and_compiled_again() {
    let kit = toolkit(&tool_of(json!([{"type": "respond", "message": "Hi {{user.name}}"}])));
    let stored = serde_json::to_string(&kit).unwrap();
    assert_eq!(serde_json::from_str::<Toolkit>(&stored).unwrap(), kit);
    let broken = stored.replace("respond", "respnd");
    let error = serde_json::from_str::<Toolkit>(&broken).unwrap_err().to_string();
    assert!(error.contains("did you mean `respond`?"), "{error}");
}

/// A toolkit that books, and looks bookings up.
fn booking(verify: &serde_json::Value, look_up: &str) -> serde_json::Value {
    json!({"name": "desk", "description": "Books", "actions": [
        {"name": "book", "description": "Books", "verify": verify,
         "actions": [{"type": "api_call", "url": "https://a.example/"}]},
        {"name": "look-up", "description": "Looks up",
         "actions": [{"type": "api_call", "method": look_up, "url": "https://a.example/"}]}
    ]})
}

#[test]
fn a_document_says_whom_to_ask_about_a_call_in_doubt() {
    let verify = json!({
        "tool": "look-up", "with": {"key": "{{operation.key}}"}, "verdict": "result.id ? 'happened' : 'unknown'",
        "result": "result", "delay": 0.5, "tries": 2
    });
    let kit = toolkit(&booking(&verify, "GET"));
    let read = kit.tool("desk.book").unwrap().verify().unwrap();
    assert_eq!((read.tool.as_str(), read.delay_ms, read.tries), ("desk.look_up", 500, 2));
    let kit = toolkit(&booking(&json!({"tool": "other.find", "verdict": "'unknown'"}), "GET"));
    let read = kit.tool("desk.book").unwrap().verify().unwrap();
    assert_eq!((read.tool.as_str(), read.delay_ms, read.tries), ("other.find", 1_000, 3));
    assert!(kit.tool("desk.look_up").unwrap().verify().is_none());
}

#[test]
fn a_question_that_cannot_be_asked_is_told_where_it_is() {
    let wrong = [
        (json!({}), "GET"),
        (json!({"tool": "look_up", "verdict": "result.id ?", "with": [], "tries": 0, "delay": 61}), "GET"),
        (
            json!({"tool": "look_up", "verdict": "params.id", "with": {"a": ["{{params.id}}"]}, "retries": 1, "result": "it"}),
            "GET",
        ),
        (json!({"tool": "lookup", "verdict": "'unknown'"}), "GET"),
        (json!({"tool": "look_up", "verdict": "'unknown'"}), "DELETE"),
        (json!({"tool": "book", "verdict": "'unknown'"}), "GET"),
    ];
    let told: Vec<String> = wrong.iter().map(|(verify, method)| problems(&booking(verify, method))).collect();
    insta::assert_snapshot!(told.join("\n---\n"));
    let reads =
        json!({"name": "a", "description": "A", "verify": {"tool": "b.c", "verdict": "1"}, "actions": []});
    assert!(problems(&reads).contains("is never used"), "{}", problems(&reads));
}

#[test]
fn nothing_but_an_object_is_a_document() {
    for document in [json!(null), json!([]), json!("tool"), json!(3), json!({})] {
        assert!(!compile(&document).problems.is_empty(), "{document}");
    }
}

#[test]
fn parameters_become_json_schema() {
    let kit = toolkit(&json!({
        "name": "schema", "description": "Shows it",
        "parameters": [
            {"name": "text", "type": "string", "description": "Words", "min_length": 1, "max_length": 9, "pattern": "^a"},
            {"name": "count", "type": "integer", "required": true, "minimum": 1, "max_value": 2.5},
            {"name": "when", "type": "datetime"},
            {"name": "tags", "type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "max_length": 3},
            {"name": "place", "type": "object", "properties": [
                {"name": "city", "type": "string", "required": true}, {"name": "zip", "type": "string", "default": "0"}
            ]},
            {"name": "any", "type": "object"},
            {"name": "flag", "type": "boolean", "default": false}
        ],
        "actions": []
    }));
    insta::assert_snapshot!(printed(kit.tools()[0].schema()));
}
