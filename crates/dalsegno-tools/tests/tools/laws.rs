//! Laws of any call: it is deterministic, can be cut anywhere, keeps or drops its writes as a whole, and never shows a
//! secret.

use dalsegno_tools::{
    ApiResponse, Call, Compiled, EffectFailure, EffectOutcome, ErrorCode, Finished, Next, SessionContext,
    Tool, Write, compile,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::World;

const CANARY: &str = "CANARY-7f3a9";

/// An action that runs, or fails, without ever being refused by the compiler.
fn leaf() -> impl Strategy<Value = Value> {
    let path = prop_oneof![
        Just("a"),
        Just("b.c"),
        Just("list[+]"),
        Just("user.theme"),
        Just("user.log[+]"),
        Just("agents.meal.n"),
        Just("agents.other.n"),
        Just("temp.t"),
        Just("temp.list[+]"),
        Just("a[+]"),
        Just("b[0]"),
    ];
    let value = prop_oneof![
        Just(json!(1)),
        Just(json!("params.x")),
        Just(json!("{{user}}")),
        Just(json!("context")),
        Just(json!("user['auth_' + 'token']")),
        Just(json!("[temp.t, result.last]")),
        Just(json!("user.nobody.trim()")),
        Just(json!({"deep": ["workflow", "{{params.x}} and {{now}}"]})),
    ];
    let template = prop_oneof![
        Just("{{params.x}}"),
        Just("{{user}}"),
        Just("{{context}}"),
        Just("{{workflow}} {{temp.t}}"),
        Just("plain"),
        Just("{{result.last.error.code}}"),
        Just("{{user.nobody.trim()}}"),
    ];
    prop_oneof![
        4 => (path.clone(), value.clone(), any::<bool>()).prop_map(|(path, value, persist)| {
            json!({"type": "context.set", "path": path, "value": value, "persist": persist})
        }),
        1 => (path.clone(), value).prop_map(|(path, value)| {
            json!({"type": "context.get", "path": path.trim_end_matches("[+]"), "default": value})
        }),
        1 => path.prop_map(|path| json!({"type": "context.delete", "path": path.trim_end_matches("[+]")})),
        1 => any::<bool>().prop_map(|set| json!({"type": if set { "flag.set" } else { "flag.clear" }, "flag": "f"})),
        1 => template.clone().prop_map(|message| json!({"type": "respond", "message": message})),
        1 => template.clone().prop_map(|message| json!({"type": "log", "log_message": message})),
        1 => Just(json!({"type": "handoff", "target_agent": "next", "message": "{{user}}"})),
        1 => Just(json!({"type": "validate", "rules": [{"field": "params.x", "rule": "email"}]})),
        1 => Just(json!({"type": "transform", "input_path": "workflow.list", "output_path": "temp.t",
                         "transform_type": "map", "transform_config": {"expression": "[item, user]"}})),
        4 => (template.clone(), any::<bool>()).prop_map(|(body, goes_on)| json!({
            "type": "api_call", "url": "https://a.example/{{params.x}}/{{secrets.key}}", "id": "call",
            "headers": {"Authorization": "Bearer {{user.auth_token}}"},
            "body": {"text": body, "secret": "{{user.auth_token}} {{secrets.key}}"},
            "on_error": if goes_on { "continue" } else { "fail" }, "response_path": "list[+]"
        })),
        1 => any::<bool>().prop_map(|goes_on| json!({
            "type": "call.transfer", "target": "{{config.targets[params.x]}}", "id": "transfer",
            "on_error": if goes_on { "continue" } else { "fail" }
        })),
        1 => template.prop_map(|text| json!({"type": "tool", "name": "other", "with": {"text": text}, "id": "tool"})),
    ]
}

fn actions() -> impl Strategy<Value = Value> {
    let action = leaf().prop_recursive(3, 16, 4, |inner| {
        (prop::collection::vec(inner.clone(), 0..4), prop::collection::vec(inner, 0..3), any::<bool>())
            .prop_map(|(then_actions, else_actions, holds)| {
                json!({"type": "conditional", "condition": if holds { "true" } else { "params.x === 'a'" },
                       "then_actions": then_actions, "else_actions": else_actions})
            })
    });
    prop::collection::vec(action, 0..7).prop_map(Value::Array)
}

fn document() -> impl Strategy<Value = Value> {
    (actions(), actions(), actions()).prop_map(|(actions, on_success, on_failure)| {
        json!({
            "name": "any", "description": "Does anything", "secrets": ["key"],
            "parameters": [{"name": "x", "type": "string"}],
            "actions": actions, "on_success": on_success, "on_failure": on_failure
        })
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z{}\\[\\]. \"']{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map("[a-z_]{1,6}", inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// An outcome of whatever kind is asked for.
fn outcomes() -> impl Strategy<Value = Vec<(u16, Value, bool)>> {
    prop::collection::vec(
        (prop_oneof![3 => Just(200_u16), 1 => any::<u16>()], value(), prop::bool::weighted(0.2)),
        64,
    )
}

fn outcome(request: &dalsegno_tools::EffectRequest, script: &(u16, Value, bool)) -> EffectOutcome {
    let (status, body, fails) = script;
    if *fails {
        let code = if *status == 200 { ErrorCode::Timeout } else { ErrorCode::Cancelled };
        return EffectOutcome::Failed(EffectFailure {
            code,
            message: "no".into(),
            reason: None,
            attempts: 1,
            ends: false,
            details: Map::new(),
        });
    }
    match request {
        dalsegno_tools::EffectRequest::ApiCall(_) => EffectOutcome::Response(ApiResponse {
            status: *status,
            body: body.clone(),
            ..ApiResponse::default()
        }),
        dalsegno_tools::EffectRequest::Email(_) => EffectOutcome::Sent { message_id: None },
        dalsegno_tools::EffectRequest::Transfer(_) => EffectOutcome::Requested,
        dalsegno_tools::EffectRequest::Tool(_) => EffectOutcome::Returned { output: body.clone() },
    }
}

fn world() -> World {
    let mut world = World::default();
    world.user["auth_token"] = json!(CANARY);
    world.user["theme"] = json!("light");
    world.session =
        SessionContext::with_workflow(json!({"a": [1], "list": [1, 2]}).as_object().unwrap().clone());
    world
}

/// Runs a call; at the effects whose bit is set it is stored and read back. Returns every byte that leaves it, too.
fn run(world: &World, tool: &Tool, script: &[(u16, Value, bool)], cuts: u64) -> (Finished, String) {
    let mut call = Call::begin(tool, &json!({"x": "../x"}), &world.context());
    let mut seen = String::new();
    for (number, script) in script.iter().enumerate() {
        if cuts >> (number % 64) & 1 == 1 {
            let stored = serde_json::to_string(&call).unwrap();
            seen.push_str(&stored);
            call = serde_json::from_str(&stored).unwrap();
        }
        match call.advance(tool, &world.context()) {
            Next::Done(finished) => {
                seen.push_str(&serde_json::to_string(&call).unwrap());
                seen.push_str(&serde_json::to_string(&finished).unwrap());
                seen.push_str(&finished.outcome.model_text());
                seen.push_str(&format!("{finished:?}"));
                return (*finished, seen);
            }
            Next::Effect(effect) => {
                seen.push_str(&serde_json::to_string(&effect).unwrap());
                seen.push_str(&format!("{effect:?} {}", effect.request.label()));
                assert_eq!(call.waiting_for(), Some(&*effect));
                call.resume(outcome(&effect.request, script)).unwrap();
            }
        }
    }
    panic!("a call of a few actions asks for more than 64 effects");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_call_is_deterministic_can_be_cut_anywhere_and_shows_no_secret(
        document in document(), script in outcomes(), cuts in any::<u64>()
    ) {
        let Compiled { toolkit, problems, .. } = compile(&document);
        let toolkit = toolkit.unwrap_or_else(|| panic!("{problems:#?}"));
        let (world, tool) = (world(), &toolkit.tools()[0]);
        let (finished, seen) = run(&world, tool, &script, cuts);
        prop_assert!(!seen.contains(CANARY), "{}", seen);
        prop_assert_eq!(&run(&world, tool, &script, 0).0, &finished);
        prop_assert_eq!(&run(&world, tool, &script, u64::MAX).0, &finished);
        prop_assert_eq!(finished.outcome.ok, finished.outcome.error.is_none());
        prop_assert!(serde_json::from_str::<Value>(&finished.outcome.model_text()).unwrap().is_object());

        // What the call let through fits the session as a whole.
        let mut session = world.session.clone();
        session.apply(&world.user, &finished.writes).unwrap();
        prop_assert!(!serde_json::to_string(&session).unwrap().contains(CANARY));
    }

    #[test]
    fn a_call_that_fails_without_more_writes_nothing(document in document(), script in outcomes()) {
        let mut document = document;
        document["on_failure"] = json!([]);
        for action in document["actions"].as_array_mut().unwrap() {
            strip_persist(action);
        }
        let toolkit = compile(&document).toolkit.unwrap();
        let (finished, _) = run(&world(), &toolkit.tools()[0], &script, 0);
        if !finished.outcome.ok {
            prop_assert!(finished.writes.is_empty(), "{:?}", finished.writes);
        }
    }

    #[test]
    fn any_value_is_compiled_or_refused(value in value(), action in value()) {
        let _ = compile(&value);
        let document = json!({"name": "a", "description": "A", "actions": [action], "parameters": value});
        let Compiled { toolkit, problems, .. } = compile(&document);
        prop_assert_eq!(toolkit.is_none(), !problems.is_empty());
    }

    #[test]
    fn arguments_of_any_form_are_refused_or_become_what_the_schema_says(arguments in value()) {
        let toolkit = compile(&json!({
            "name": "a", "description": "A", "actions": [],
            "parameters": [
                {"name": "a", "type": "integer", "minimum": 0}, {"name": "b", "type": "string", "max_length": 5},
                {"name": "c", "type": "array", "items": {"type": "number"}}, {"name": "d", "type": "boolean"}
            ]
        })).toolkit.unwrap();
        let world = World::default();
        let call = Call::begin(&toolkit.tools()[0], &arguments, &world.context());
        let params = call.params();
        if !params["a"].is_null() { prop_assert!(params["a"].as_i64().unwrap() >= 0); }
        if !params["b"].is_null() { prop_assert!(params["b"].as_str().unwrap().chars().count() <= 5); }
        if !params["c"].is_null() { prop_assert!(params["c"].as_array().unwrap().iter().all(Value::is_number)); }
        if !params["d"].is_null() { prop_assert!(params["d"].is_boolean()); }
    }

    #[test]
    fn writes_of_any_kind_apply_whole_or_not_at_all(values in prop::collection::vec((0_u8..6, value()), 0..8)) {
        let paths = ["workflow.a", "workflow.a.b", "workflow.list[0].x", "agents.meal.x", "user.log", "user.log[1]"];
        let writes: Vec<Write> = values
            .into_iter()
            .map(|(kind, value)| {
                let path = paths[usize::from(kind)].parse().unwrap();
                if value.is_object() { Write::Append { path, value } } else { Write::Set { path, value } }
            })
            .collect();
        let (user, mut session) = (json!({"log": [1, 2]}), world().session);
        let before = session.clone();
        if session.apply(&user, &writes).is_err() {
            prop_assert_eq!(session, before);
        }
    }
}

fn strip_persist(action: &mut Value) {
    let Some(fields) = action.as_object_mut() else { return };
    fields.remove("persist");
    for branch in ["then_actions", "else_actions"] {
        for inner in fields.get_mut(branch).and_then(Value::as_array_mut).into_iter().flatten() {
            strip_persist(inner);
        }
    }
}
