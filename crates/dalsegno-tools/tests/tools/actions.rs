//! What each action does, and what becomes of the call.

use dalsegno_tools::{Call, EffectFailure, EffectOutcome, EffectRequest, ErrorCode, Next, ResumeError};
use serde_json::{Value, json};

use crate::support::{World, answer, api_call, code, failure, statuses, tool_of, toolkit};

#[test]
fn values_are_expressions_templates_or_literals() {
    let mut world = World::default();
    world.act(
        json!([{"type": "context.set", "path": "temp.a", "value": "1 + 1"}, {"type": "context.set", "data": {
            "b": "temp.a * 2",
            "c": "{{temp.a}} apples",
            "d": {"deep": ["'text'", "{{user.name}}", 3, null]},
            "e": "user.nobody ?? workflow.b ?? null",
            "f": true
        }}]),
        [],
    );
    assert_eq!(
        world.session.workflow(),
        &json!({"b": 4, "c": "2 apples", "d": {"deep": ["text", "Ada", 3, null]}, "e": null, "f": true})
    );
}

#[test]
fn a_missing_path_is_empty_in_a_template_with_a_warning() {
    let finished =
        World::default().act(json!([{"type": "respond", "message": "Hello {{user.nickname}}!"}]), []);
    assert_eq!(finished.outcome.said, ["Hello !"]);
    assert_eq!(finished.outcome.actions[0].warnings, ["`user.nickname` is missing"]);
}

#[test]
fn context_get_gives_a_default_only_where_nothing_is_there() {
    let mut world = World::default();
    let finished = world.act(
        json!([
            {"type": "context.get", "path": "user.name", "default": "'nobody'", "id": "name"},
            {"type": "context.get", "path": "user.age", "default": 7, "output_path": "temp.age"},
            {"type": "context.set", "path": "seen", "value": "[result.name, temp.age, result.last]"}
        ]),
        [],
    );
    assert_eq!(finished.outcome.output, json!(7));
    assert_eq!(world.session.workflow(), &json!({"seen": ["Ada", 7, 7]}));
}

#[test]
fn deleting_twice_is_no_failure() {
    let mut world = World::default();
    let delete = json!({"type": "context.delete", "path": "draft"});
    let set = json!({"type": "context.set", "path": "draft", "value": 1});
    assert!(world.act(json!([set, delete, delete]), []).outcome.ok);
    assert_eq!(world.session.workflow(), &json!({}));
}

#[test]
fn appending_to_what_is_no_list_fails_and_says_so() {
    let mut world = World::default();
    let finished = world.act(
        json!([
            {"type": "context.set", "path": "total", "value": 1},
            {"type": "context.set", "path": "total[+]", "value": 2},
            {"type": "respond", "message": "never"}
        ]),
        [],
    );
    assert_eq!(code(&finished), ErrorCode::ActionFailed);
    assert_eq!(finished.outcome.error.as_ref().unwrap().details["reason"], "not_a_list");
    assert_eq!(statuses(&finished), ["actions[0] ok", "actions[1] failed", "actions[2] skipped"]);
    assert!(finished.writes.is_empty() && finished.outcome.said.is_empty());
}

#[test]
fn what_persists_and_what_on_failure_writes_survives_a_failure() {
    let mut world = World::default();
    let mut document = tool_of(json!([
        {"type": "context.set", "path": "lost", "value": 1},
        {"type": "context.set", "path": "kept", "value": 2, "persist": true},
        {"type": "flag.set", "flag": "lost_flag"},
        {"type": "api_call", "id": "save", "url": "https://a.example/", "method": "PUT"}
    ]));
    document["on_failure"] = json!([
        {"type": "context.set", "path": "why", "value": "[error.code, error.action, error.details.status]"},
        {"type": "context.set", "path": "seen", "value": "[workflow.lost, workflow.kept]"}
    ]);
    let (finished, _) = world.play(&document, &json!({}), [answer(500, json!("oops"))]);
    assert_eq!(code(&finished), ErrorCode::HttpError);
    assert_eq!(
        world.session.workflow(),
        &json!({"kept": 2, "why": ["http_error", "save", 500], "seen": [null, 2]})
    );
    assert_eq!(world.session.flags(), &json!({}));
}

#[test]
fn a_failure_in_a_callback_is_recorded_and_changes_nothing() {
    let mut world = World::default();
    let mut document = tool_of(json!([{"type": "context.set", "path": "a", "value": 1}]));
    document["on_success"] = json!([
        {"type": "context.set", "path": "a[+]", "value": 2},
        {"type": "respond", "message": "never"}
    ]);
    let (finished, _) = world.play(&document, &json!({}), []);
    assert!(finished.outcome.ok);
    assert_eq!(statuses(&finished), ["actions[0] ok", "on_success[0] failed", "on_success[1] skipped"]);
    assert_eq!(world.session.workflow(), &json!({"a": 1}));
}

#[test]
fn a_handoff_ends_the_list_from_within_a_branch() {
    let mut world = World::default();
    let mut document = tool_of(json!([
        {"type": "conditional", "condition": "true", "then_actions": [
            {"type": "handoff", "target_agent": "on-call", "message": "{{user.name}} needs help"},
            {"type": "respond", "message": "never"}
        ]},
        {"type": "respond", "message": "nor this"}
    ]));
    document["on_success"] = json!([{"type": "respond", "message": "Goodbye."}]);
    let (finished, _) = world.play(&document, &json!({}), []);
    assert_eq!(
        statuses(&finished),
        [
            "actions[0] ok",
            "actions[0].then_actions[0] ok",
            "actions[0].then_actions[1] skipped",
            "actions[1] skipped",
            "on_success[0] ok"
        ]
    );
    assert_eq!(finished.outcome.said, ["Ada needs help", "Goodbye."]);
    assert_eq!(finished.outcome.handoff.unwrap().target_agent, "on-call");
}

#[test]
fn continue_goes_on_with_the_error_as_the_result() {
    let mut world = World::default();
    let finished = world.act(
        json!([
            {"type": "api_call", "id": "check", "method": "GET", "url": "https://a.example/", "on_error": "continue"},
            {"type": "respond", "message": "{{result.check.error.code}} {{result.last.error.status}}"}
        ]),
        [answer(404, json!({"internal": "detail"}))],
    );
    assert!(finished.outcome.ok);
    assert_eq!(statuses(&finished), ["actions[0] continued", "actions[1] ok"]);
    assert_eq!(finished.outcome.said, ["http_error 404"]);
    assert!(!finished.outcome.model_text().contains("internal"));
}

#[test]
fn who_cancels_wants_nothing_more_to_happen() {
    let mut document =
        tool_of(json!([{"type": "api_call", "url": "https://a.example/", "on_error": "continue"}]));
    document["on_failure"] = json!([{"type": "respond", "message": "never"}]);
    let (finished, _) = World::default().play(&document, &json!({}), [failure(ErrorCode::Cancelled)]);
    assert_eq!(code(&finished), ErrorCode::Cancelled);
    assert!(finished.outcome.said.is_empty());
}

#[test]
fn all_broken_rules_are_reported_and_absent_fields_pass() {
    let mut world = World::default();
    let rules = json!([
        {"field": "params.phone", "rule": "phone"},
        {"field": "params.age", "rule": "number", "error_message": "{{params.age}} is no age"},
        {"field": "params.code", "rule": "pattern", "value": "^[A-Z]{3}$"},
        {"field": "params.name", "rule": "min_length", "value": 2},
        {"field": "params.tags", "rule": "max_length", "value": 1},
        {"field": "params.mail", "rule": "email"},
        {"field": "params.missing", "rule": "required"}
    ]);
    let mut document = tool_of(json!([{"type": "validate", "rules": rules}]));
    document["parameters"] = ["phone", "age", "code", "name"]
        .iter()
        .map(|name| json!({"name": name, "type": "string"}))
        .chain([json!({"name": "tags", "type": "array"}), json!({"name": "missing", "type": "string"})])
        .collect();
    let arguments = json!({"phone": "0123", "age": "old", "code": "abc", "name": "A", "tags": [1, 2]});
    let (finished, _) = world.play(&document, &arguments, []);
    assert_eq!(code(&finished), ErrorCode::ValidationFailed);
    insta::assert_snapshot!(finished.outcome.model_text());
}

#[test]
fn transforms_filter_and_reduce() {
    let mut world = World::default();
    let list = json!({"type": "context.set", "path": "temp.list", "value": [3, 1, 2]});
    let transform = |kind: &str, config: Value| {
        json!({"type": "transform", "input_path": "temp.list", "output_path": "temp.out",
               "transform_type": kind, "transform_config": config})
    };
    for (kind, config, expected) in [
        ("filter", json!({"expression": "item > 1"}), json!([3, 2])),
        ("map", json!({"expression": "item * index"}), json!([0, 1, 4])),
        ("reduce", json!({"expression": "acc + item", "initial": 10}), json!(16)),
        ("reduce", json!({"expression": "Math.max(acc, item)"}), json!(3)),
    ] {
        let finished = world.act(json!([list, transform(kind, config.clone())]), []);
        assert_eq!(finished.outcome.output, expected, "{kind} {config}");
    }
    let empty = json!({"type": "context.set", "path": "temp.list", "value": []});
    let finished = world.act(json!([empty, transform("reduce", json!({"expression": "acc"}))]), []);
    assert_eq!(code(&finished), ErrorCode::ActionFailed);
    let text = json!({"type": "context.set", "path": "temp.list", "value": "'text'"});
    let finished = world.act(json!([text, transform("map", json!({"expression": "item"}))]), []);
    assert_eq!(finished.outcome.error.unwrap().details["reason"], "not_a_list");
}

#[test]
fn another_tool_is_called_with_rendered_arguments() {
    let document = tool_of(json!([
        {"type": "tool", "name": "google_calendar.list-events", "with": {"time_min": "{{now}}", "n": 3},
         "response_path": "temp.events"},
        {"type": "respond", "message": "{{temp.events.length}} events"}
    ]));
    let toolkit = toolkit(&document);
    let tool = &toolkit.tools()[0];
    assert_eq!(tool.mentions().tools, ["google_calendar.list_events"]);
    let world = World::default();
    let (finished, effects) =
        world.run(tool, &json!({}), [EffectOutcome::Returned { output: json!([1, 2]) }]);
    assert_eq!(finished.outcome.said, ["2 events"]);
    let EffectRequest::Tool(request) = &effects[0].request else { panic!("{effects:?}") };
    assert_eq!(request.name, "google_calendar.list_events");
    assert_eq!(request.arguments, json!({"time_min": "2025-12-30T14:00:00Z", "n": 3}));
    let (finished, _) = world.run(tool, &json!({}), [failure(ErrorCode::NotPermitted)]);
    assert_eq!(code(&finished), ErrorCode::NotPermitted);
}

#[test]
fn keys_of_effects_differ_and_are_readable_before() {
    let mut world = World::default();
    let send = json!({"type": "api_call", "url": "https://a.example/", "body": {"key": "{{operation.key}}"}});
    let (_, effects) =
        world.play(&tool_of(json!([send, send])), &json!({}), [answer(200, json!(1)), answer(200, json!(2))]);
    let keys: Vec<_> = effects.iter().map(|effect| effect.key.as_str()).collect();
    assert_eq!(keys, ["0af30000", "0af30001"]);
    for effect in &effects {
        assert_eq!(api_call(effect).body.as_ref().unwrap().value, json!({"key": effect.key}));
    }
}

#[test]
fn an_outcome_that_does_not_fit_leaves_the_call_as_it_was() {
    let toolkit = toolkit(&tool_of(json!([{"type": "api_call", "url": "https://a.example/"}])));
    let (world, tool) = (World::default(), &toolkit.tools()[0]);
    let mut call = Call::begin(tool, &json!({}), &world.context());
    assert_eq!(call.resume(answer(200, json!(1))), Err(ResumeError::NotWaiting));
    let Next::Effect(effect) = call.advance(tool, &world.context()) else { panic!("it asks") };
    let before = call.clone();
    let wrong = call.resume(EffectOutcome::Returned { output: json!(1) });
    assert!(matches!(wrong, Err(ResumeError::WrongKind { .. })));
    assert_eq!(call, before);
    assert_eq!(call.advance(tool, &world.context()), Next::Effect(effect), "it asks for the same again");
    call.resume(answer(200, json!(1))).unwrap();
    assert!(matches!(call.advance(tool, &world.context()), Next::Done(_)));
    assert_eq!(call.resume(answer(200, json!(1))), Err(ResumeError::NotWaiting));
}

#[test]
fn a_tool_that_is_switched_off_or_another_one_is_refused() {
    let mut document = tool_of(json!([{"type": "api_call", "url": "https://a.example/"}]));
    let other = toolkit(&json!({"name": "other", "description": "Another", "actions": []}));
    let kit = toolkit(&document);
    let world = World::default();
    let mut call = Call::begin(&kit.tools()[0], &json!({}), &world.context());
    let Next::Done(finished) = call.advance(&other.tools()[0], &world.context()) else { panic!("it ends") };
    assert_eq!(code(&finished), ErrorCode::Internal);
    document["is_enabled"] = json!(false);
    let (finished, _) = World::default().play(&document, &json!({}), []);
    assert_eq!(code(&finished), ErrorCode::ToolNotFound);
}

#[test]
fn the_output_of_a_document_is_what_the_model_reads() {
    let mut document = tool_of(json!([
        {"type": "api_call", "method": "GET", "url": "https://a.example/"},
        {"type": "log", "level": "debug", "log_message": "got {{result.last.total}}"}
    ]));
    document["output"] = json!({"total": "result.last.total", "note": "'done'"});
    let (finished, _) =
        World::default().play(&document, &json!({}), [answer(200, json!({"total": 3, "x": 1}))]);
    assert_eq!(finished.outcome.model_text(), r#"{"ok":true,"output":{"note":"done","total":3}}"#);
    assert_eq!(finished.outcome.actions[1].details["message"], "got 3");
    document["output"] = json!("result.last.total.trim()");
    let (finished, _) = World::default().play(&document, &json!({}), [answer(200, json!({"total": 3}))]);
    assert_eq!(code(&finished), ErrorCode::ActionFailed);
}

#[test]
fn a_failure_without_details_keeps_its_reason() {
    let outcome = EffectOutcome::Failed(EffectFailure {
        code: ErrorCode::LimitExceeded,
        message: "the response is too large".into(),
        reason: Some("response_too_large".into()),
        attempts: 2,
        ends: false,
        details: serde_json::Map::new(),
    });
    let finished =
        World::default().act(json!([{"type": "api_call", "url": "https://a.example/"}]), [outcome]);
    assert_eq!(finished.outcome.error.as_ref().unwrap().details["reason"], "response_too_large");
    assert_eq!(finished.outcome.actions[0].details["attempts"], 2);
}
