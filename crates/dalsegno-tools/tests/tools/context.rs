//! What a call may read and write.

use dalsegno_tools::ErrorCode;
use serde_json::json;

use crate::support::{World, code, problems, tool_of};

fn reads(world: &mut World, expression: &str) -> serde_json::Value {
    world.act(json!([{"type": "context.get", "path": "temp.none", "default": expression}]), []).outcome.output
}

#[test]
fn every_root_can_be_read() {
    let mut world = World { config: json!({"calendar_id": "primary"}), ..World::default() };
    world.act(
        json!([
            {"type": "context.set", "path": "total", "value": 3},
            {"type": "context.set", "path": "agents.meal.last", "value": "'soup'"},
            {"type": "flag.set", "flag": "ready"}
        ]),
        [],
    );
    for (expression, expected) in [
        ("user.name", json!("Ada")),
        ("workflow.total + total", json!(6)),
        ("agents.meal.last", json!("soup")),
        ("tenant.settings.endpoints['meal.log']", json!("https://dotted.example/log")),
        ("config.calendar_id", json!("primary")),
        ("call.id + call.session", json!("call_1s1")),
        ("operation.key", json!("0af30000")),
        ("now", json!("2025-12-30T14:00:00Z")),
        ("flags.ready && !flags.other", json!(true)),
        ("context.total", json!(3)),
        ("context.name", json!("Ada")),
        ("context.last", json!("soup")),
        ("context.flags.ready", json!(true)),
        ("Object.keys(context).includes('tenant')", json!(true)),
        ("context['to' + 'tal']", json!(3)),
    ] {
        assert_eq!(reads(&mut world, expression), expected, "{expression}");
    }
}

#[test]
fn an_agent_writes_its_own_state_only() {
    let mut world = World { agent: "on-call".into(), ..World::default() };
    let finished = world.act(json!([{"type": "context.set", "path": "agents.on_call.x", "value": 1}]), []);
    assert!(finished.outcome.ok);
    assert_eq!(world.session.agents(), &json!({"on_call": {"x": 1}}));
    let finished = world.act(json!([{"type": "context.set", "path": "agents.meal.x", "value": 1}]), []);
    assert_eq!(code(&finished), ErrorCode::NotPermitted);
    let finished = world.act(json!([{"type": "context.delete", "path": "agents.meal.x"}]), []);
    assert_eq!(code(&finished), ErrorCode::NotPermitted);
}

#[test]
fn what_may_not_be_written_is_refused_when_the_document_is_loaded() {
    let paths = [
        "params.x",
        "user.id",
        "user.auth_token",
        "user.auth_token.part",
        "user",
        "workflow",
        "agents.meal",
        "tenant.x",
        "config.x",
        "secrets.x",
        "call.id",
        "flags.x",
        "result.last",
        "context.x",
        "now",
        "error.code",
        "a.__proto__.b",
        "a[+].b",
        "a[x]",
        "",
    ];
    let actions: Vec<_> =
        paths.iter().map(|path| json!({"type": "context.set", "path": path, "value": 1})).collect();
    let document = tool_of(json!(actions));
    insta::assert_snapshot!(problems(&document));
}

#[test]
fn a_secret_of_the_user_is_never_read_as_a_value() {
    let mut world = World::default();
    world.user["auth_token"] = json!("CANARY");
    for expression in
        ["user", "user['auth_' + 'token']", "context['auth_token']", "context", "[user, context]"]
    {
        let read = reads(&mut world, expression).to_string();
        assert!(!read.contains("CANARY"), "{expression}: {read}");
        assert!(read.contains("[secret]"), "{expression}: {read}");
    }
}

#[test]
fn writes_are_visible_to_later_actions_and_lie_over_the_user() {
    let mut world = World::default();
    let finished = world.act(
        json!([
            {"type": "context.set", "path": "user.preferences.theme", "value": "'dark'"},
            {"type": "context.set", "path": "list[+]", "value": 1},
            {"type": "context.set", "path": "list[+]", "value": 2},
            {"type": "context.set", "path": "list[0]", "value": 9},
            {"type": "respond", "message": "{{user.preferences.theme}} {{workflow.list}} {{user.id}}"}
        ]),
        [],
    );
    assert_eq!(finished.outcome.said, ["dark [9,2] u1"]);
    assert_eq!(world.session.workflow(), &json!({"list": [9, 2]}));
    assert_eq!(reads(&mut world, "user.preferences.theme"), json!("dark"));
}
