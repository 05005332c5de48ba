//! Hostile documents, arguments and outcomes end in typed errors, soon.

use dalsegno_tools::{ErrorCode, MAX_ACTIONS, compile};
use serde_json::{Value, json};

use crate::support::{World, answer, code, problems, tool_of};

/// `{"a": {"a": …}}`, this deep.
fn deep(levels: usize) -> Value {
    (0..levels).fold(json!(1), |value, _| json!({"a": value}))
}

#[test]
fn a_deep_document_is_refused() {
    let document = tool_of(json!([{"type": "context.set", "path": "a", "value": deep(500)}]));
    assert!(problems(&document).contains("nested too deeply"));
}

#[test]
fn a_document_with_too_many_values_is_refused_once() {
    let document = tool_of(json!(vec![json!({"type": "log"}); 50_000]));
    assert_eq!(problems(&document), "/: the document is too large: expected at most 20000 values");
}

#[test]
fn a_thousand_problems_are_not_all_told() {
    let document = tool_of(json!(vec![json!({"type": "nothing"}); 200]));
    let compiled = compile(&document);
    assert_eq!(compiled.problems.len(), 101);
    assert!(compiled.problems[100].message.contains("more than 100"));
}

#[test]
fn a_billion_laughs_of_conditionals_are_refused() {
    let mut actions = json!([{"type": "respond", "message": "ha"}]);
    for _ in 0..8 {
        let one =
            json!({"type": "conditional", "condition": "true", "then_actions": actions, "else_actions": []});
        actions = json!(vec![one; 2]);
    }
    let told = problems(&tool_of(actions));
    assert!(told.contains("too many actions") || told.contains("too large"), "{told}");
    let nested = (0..9).fold(
        json!([]),
        |inner, _| json!([{"type": "conditional", "condition": "true", "then_actions": inner}]),
    );
    assert!(problems(&tool_of(nested)).contains("conditionals are nested too deeply"));
}

#[test]
fn as_many_actions_as_are_allowed_run() {
    let document = tool_of(json!(vec![json!({"type": "log", "log_message": "x"}); MAX_ACTIONS]));
    let (finished, _) = World::default().play(&document, &json!({}), []);
    assert_eq!(finished.outcome.actions.len(), MAX_ACTIONS);
}

#[test]
fn long_texts_are_refused() {
    let document = tool_of(json!([{"type": "respond", "message": "x".repeat(20_000)}]));
    assert!(problems(&document).contains("this text has 20000 bytes"));
    let long = format!("{}1", "1+".repeat(600));
    let document = tool_of(json!([{"type": "context.set", "path": "a", "value": long}]));
    assert!(problems(&document).contains("too long"));
}

#[test]
fn names_of_prototypes_are_refused_everywhere() {
    for name in ["__proto__", "constructor", "prototype"] {
        for action in [
            json!({"type": "context.set", "path": format!("a.{name}"), "value": 1}),
            json!({"type": "context.set", "path": format!("a[\"{name}\"]"), "value": 1}),
            json!({"type": "context.get", "path": format!("user.{name}.x")}),
            json!({"type": "respond", "message": format!("{{{{user.{name}}}}}")}),
            json!({"type": "flag.set", "flag": name}),
        ] {
            let is_flag_name = name != "__proto__" && action["type"] == "flag.set";
            assert!(is_flag_name || !problems(&tool_of(json!([action]))).is_empty(), "{action}");
        }
    }
}

#[test]
fn a_string_that_doubles_ends_at_a_limit() {
    let double = json!({"type": "context.set", "path": "temp.text", "value": "temp.text.concat(temp.text)"});
    let mut actions =
        vec![json!({"type": "context.set", "path": "temp.text", "value": "'xxxxxxxxxxxxxxxx'"})];
    actions.extend(vec![double; 40]);
    let finished = World::default().act(json!(actions), []);
    assert_eq!(code(&finished), ErrorCode::LimitExceeded);
}

#[test]
fn a_huge_repeat_in_an_expression_ends_at_a_limit() {
    let finished = World::default()
        .act(json!([{"type": "context.set", "path": "a", "value": "'x'.padStart(1000000000)"}]), []);
    assert_eq!(code(&finished), ErrorCode::LimitExceeded);
}

#[test]
fn transforms_end_at_their_own_limits() {
    let mut world = World::default();
    let transform = |kind: &str, expression: &str| {
        json!([{"type": "transform", "input_path": "user.list", "output_path": "temp.out", "transform_type": kind,
                "transform_config": {"expression": expression}}])
    };
    world.user["list"] = json!(vec![1; 10_001]);
    assert_eq!(code(&world.act(transform("map", "item"), [])), ErrorCode::LimitExceeded);
    world.user["list"] = json!(vec![1; 10_000]);
    assert!(world.act(transform("map", "item + 1"), []).outcome.ok);
    assert_eq!(code(&world.act(transform("map", "'x'.padStart(5000)"), [])), ErrorCode::LimitExceeded);
    assert_eq!(code(&world.act(transform("reduce", "[acc, acc]"), [])), ErrorCode::LimitExceeded);
    let heavy = transform(
        "map",
        "Math.max(1,2,3,4,5,6,7,8,9,10) + Math.max(1,2,3,4,5,6,7,8,9,10) + Math.max(1,2,3,4,5,6,7,8,9,10) + Math.max(1,2,3,4,5,6,7,8,9,10) + Math.max(1,2,3,4,5,6,7,8,9,10)",
    );
    assert_eq!(code(&world.act(heavy, [])), ErrorCode::LimitExceeded);
}

#[test]
fn a_call_that_takes_in_too_much_ends() {
    let megabyte = json!("x".repeat(1_000_000));
    let actions: Vec<_> =
        (0..5).map(|_| json!({"type": "api_call", "method": "GET", "url": "https://a.example/"})).collect();
    let outcomes = vec![answer(200, megabyte); 5];
    let finished = World::default().act(json!(actions), outcomes);
    assert_eq!(code(&finished), ErrorCode::LimitExceeded);
}

#[test]
fn responses_that_are_too_deep_or_too_large_are_refused() {
    let actions = json!([{"type": "api_call", "method": "GET", "url": "https://a.example/"}]);
    for body in [deep(100), json!("x".repeat(2_000_000))] {
        let finished = World::default().act(actions.clone(), [answer(200, body.clone())]);
        assert_eq!(code(&finished), ErrorCode::LimitExceeded);
        let finished = World::default().act(actions.clone(), [answer(500, body)]);
        assert_eq!(code(&finished), ErrorCode::HttpError);
        assert!(serde_json::to_string(&finished).unwrap().len() < 10_000);
    }
}

#[test]
fn hostile_arguments_are_refused() {
    let world = World::default();
    let kit = crate::support::toolkit(&json!({
        "name": "a", "description": "A", "parameters": [{"name": "x", "type": "object"}], "actions": []
    }));
    for (arguments, expected) in [
        (json!([]), ErrorCode::InvalidArguments),
        (json!("{}"), ErrorCode::InvalidArguments),
        (json!({"x": deep(100)}), ErrorCode::LimitExceeded),
        (json!({"x": {"y": "x".repeat(300_000)}}), ErrorCode::LimitExceeded),
        (json!({"y": 1}), ErrorCode::InvalidArguments),
    ] {
        let (finished, _) = world.run(&kit.tools()[0], &arguments, []);
        assert_eq!(code(&finished), expected);
    }
    assert!(world.run(&kit.tools()[0], &json!(null), []).0.outcome.ok);
    let many: serde_json::Map<_, _> = (0..1_000).map(|index| (format!("y{index}"), json!(1))).collect();
    let (finished, _) = world.run(&kit.tools()[0], &Value::Object(many), []);
    assert_eq!(finished.outcome.error.unwrap().details["violations"].as_array().unwrap().len(), 100);
}

#[test]
fn what_is_said_is_bounded() {
    let mut world = World::default();
    world.user["text"] = json!("x".repeat(10_000));
    let say = json!({"type": "respond", "message": "{{user.text}}"});
    let finished = world.act(json!(vec![say; 10]), []);
    assert_eq!(code(&finished), ErrorCode::LimitExceeded);
    assert_eq!(finished.outcome.said.len(), 6);
}

#[test]
fn a_state_from_elsewhere_never_panics() {
    let kit = crate::support::toolkit(&tool_of(json!([
        {"type": "conditional", "condition": "true", "then_actions": [{"type": "api_call", "url": "https://a.example/"}]}
    ])));
    let (world, tool) = (World::default(), &kit.tools()[0]);
    let mut call = dalsegno_tools::Call::begin(tool, &json!({}), &world.context());
    call.advance(tool, &world.context());
    let stored = serde_json::to_value(&call).unwrap();
    for (pointer, value) in [
        ("/stage/waiting/cursor/index", json!(99)),
        ("/stage/waiting/cursor/branches", json!([["else", 7], ["then", 3]])),
        ("/stage/waiting/cursor/list", json!("on_failure")),
        ("/params", json!(null)),
        ("/result", json!([])),
        ("/temp", json!("text")),
        ("/writes", json!([{"write": {"set": {"path": "params.x", "value": 1}}, "persist": true}])),
    ] {
        let mut changed = stored.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        let mut call: dalsegno_tools::Call = serde_json::from_value(changed).unwrap();
        call.resume(answer(200, json!(1))).unwrap();
        assert!(matches!(call.advance(tool, &world.context()), dalsegno_tools::Next::Done(_)), "{pointer}");
    }
}

#[test]
fn one_large_value_in_many_places_ends_at_a_limit() {
    let mut world = World::default();
    world.user["big"] = json!("x".repeat(500_000));
    let many = "{{user.big}}".repeat(1_000);
    for action in [
        json!({"type": "api_call", "url": "https://a.example/", "headers": {"X-A": many}}),
        json!({"type": "api_call", "url": "https://a.example/", "query": {"a": vec!["{{user.big}}"; 5_000]}}),
        json!({"type": "api_call", "url": format!("https://a.example/{many}")}),
        json!({"type": "api_call", "url": "https://a.example/", "body": vec!["{{user.big}}"; 5_000]}),
        json!({"type": "context.set", "path": "temp.a", "value": vec!["user.big"; 5_000]}),
        json!({"type": "context.set", "data": (0..5_000).map(|index| (format!("a{index}"), json!("user.big"))).collect::<serde_json::Map<_, _>>()}),
        json!({"type": "respond", "message": many}),
        json!({"type": "log", "log_message": many}),
    ] {
        let finished = world.act(json!([action]), []);
        assert_eq!(code(&finished), ErrorCode::LimitExceeded, "{}", action["type"]);
        assert!(serde_json::to_string(&finished).unwrap().len() < 10_000);
    }
    let rule =
        json!({"field": "user.big", "rule": "pattern", "value": "^(x*y)+$", "error_message": "{{user.big}}"});
    let validate = json!({"type": "validate", "rules": vec![rule.clone(); 64]});
    let finished = world.act(json!([validate]), []);
    assert!(serde_json::to_string(&finished).unwrap().len() < 300_000);
    assert!(
        problems(&tool_of(json!([{"type": "validate", "rules": vec![rule; 65]}])))
            .contains("there are 65 rules")
    );
}
