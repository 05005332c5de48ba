//! What holds for any bytes: the body of the fuzz target.
//!
//! The target calls it with what libFuzzer invents; `tests/corpus.rs` of `dalsegno-tools` calls it on stable with every file of
//! the corpus. A panic is a finding.

use dalsegno_tools::{
    ApiResponse, Call, CallInfo, Context, EffectFailure, EffectOutcome, EffectRequest, ErrorCode, Finished,
    MAX_ACTIONS, Next, SessionContext, Tool, Toolkit, compile,
};
use serde_json::{Value, json};

/// Stands where the caller's context has a secret.
const CANARY: &str = "CANARY-7f3a9";

/// A document is refused with problems that say where, or every tool of it runs to its end, the same each time.
pub fn document(data: &[u8]) {
    let Ok(document) = serde_json::from_slice::<Value>(data) else { return };
    let compiled = compile(&document);
    assert_eq!(compiled.toolkit.is_none(), !compiled.problems.is_empty(), "refused without a reason");
    for problem in compiled.problems.iter().chain(&compiled.warnings) {
        assert!(document.pointer(&problem.pointer).is_some(), "it points nowhere: {problem:?}");
        assert!(!problem.message.is_empty());
    }
    let Some(toolkit) = compiled.toolkit else { return };
    let stored = serde_json::to_string(&toolkit).expect("it is JSON");
    assert_eq!(serde_json::from_str::<Toolkit>(&stored).expect("what compiled once compiles again"), toolkit);

    let config = Value::Object(toolkit.config_with(&serde_json::Map::new()));
    for tool in toolkit.tools() {
        assert!(tool.schema().is_object());
        for arguments in [json!({}), arguments(tool)] {
            let seed =
                data.iter().fold(7_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(*byte)));
            let whole = run(tool, &config, &arguments, seed, false);
            let cut = run(tool, &config, &arguments, seed, true);
            assert_eq!(whole, cut, "a call that was cut ends otherwise");
            let mut session = session();
            session.apply(&user(), &whole.writes).expect("what a call let through fits the session");
        }
    }
}

/// Arguments that the schema asks for, as far as types go.
fn arguments(tool: &Tool) -> Value {
    let sample = |schema: &Value| match schema["type"].as_str() {
        Some("integer" | "number") => schema["minimum"].as_f64().map_or(json!(1), |least| json!(least)),
        Some("boolean") => json!(true),
        Some("array") => json!(["x", 1, null]),
        Some("object") => json!({}),
        _ if schema["format"] == "date-time" => json!("2026-01-31T09:00:00Z"),
        _ => schema["enum"].get(0).cloned().unwrap_or_else(|| json!("../x?y#z \r\n")),
    };
    let properties = tool.schema()["properties"].as_object().expect("a schema of an object");
    properties.iter().map(|(name, schema)| (name.clone(), sample(schema))).collect()
}

fn user() -> Value {
    json!({"id": "u1", "name": "Ada", "auth_token": CANARY, "list": [1, "two", {"three": 3}]})
}

fn session() -> SessionContext {
    let workflow = json!({"total": 3, "list": [1, 2, 3], "text": "abc", "a": {"b": {"c": null}}});
    SessionContext::with_workflow(workflow.as_object().expect("an object").clone())
}

fn run(tool: &Tool, config: &Value, arguments: &Value, mut seed: u64, cut: bool) -> Finished {
    let (user, session) = (user(), session());
    let tenant = json!({"settings": {"base_url": "https://t.example/v1", "endpoints": {"a": {"path": "/a"}, "b": "https://b.example"}}});
    let call = CallInfo { id: "c".into(), session: "s".into(), operation: "0a".into(), turn: Some(0) };
    let context = Context {
        user: &user,
        tenant: &tenant,
        config,
        session: &session,
        agent: "meal",
        call: &call,
        now_ms: 0,
        zone: Some("Europe/Paris"),
        first_rules: false,
    };
    let mut call = Call::begin(tool, arguments, &context);
    for _ in 0..=2 * MAX_ACTIONS {
        if cut {
            let stored = serde_json::to_string(&call).expect("it is JSON");
            assert!(!stored.contains(CANARY), "a state holds a secret");
            call = serde_json::from_str(&stored).expect("it was stored");
        }
        match call.advance(tool, &context) {
            Next::Done(finished) => {
                let shown = serde_json::to_string(&finished).expect("it is JSON");
                assert!(!shown.contains(CANARY) && !finished.outcome.model_text().contains(CANARY));
                return *finished;
            }
            Next::Effect(effect) => {
                let shown = serde_json::to_string(&effect).expect("it is JSON");
                assert!(!shown.contains(CANARY), "a request holds a secret");
                if let EffectRequest::ApiCall(call) = &effect.request {
                    let url = call.url.resolve(|_| Some("s".into())).expect("each secret is there");
                    assert!(url.is_ascii() || !url.contains(char::is_whitespace), "{url}");
                    assert!(url.to_ascii_lowercase().starts_with("http"), "{url}");
                    for (_, text) in &call.headers {
                        let text = text.resolve(|_| Some("s".into())).expect("each secret is there");
                        assert!(!text.contains(['\r', '\n', '\0']), "{text:?}");
                    }
                }
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                call.resume(outcome(&effect.request, seed >> 33)).expect("it answers the request");
            }
        }
    }
    panic!("a call without end");
}

fn outcome(request: &EffectRequest, choice: u64) -> EffectOutcome {
    if choice.is_multiple_of(7) {
        let code = if choice.is_multiple_of(2) { ErrorCode::Timeout } else { ErrorCode::Cancelled };
        return EffectOutcome::Failed(EffectFailure {
            code,
            message: "no".into(),
            reason: None,
            attempts: 1,
            ends: false,
            details: serde_json::Map::new(),
        });
    }
    let bodies = [json!(null), json!([1, 2, "3"]), json!({"items": [{"id": 1}]}), json!("text"), json!(4.5)];
    let body = bodies[(choice % 5) as usize].clone();
    match request {
        EffectRequest::ApiCall(_) => {
            let status = if choice.is_multiple_of(3) { 404 } else { 200 };
            EffectOutcome::Response(ApiResponse { status, body, ..ApiResponse::default() })
        }
        EffectRequest::Email(_) => EffectOutcome::Sent { message_id: None },
        EffectRequest::Tool(_) => EffectOutcome::Returned { output: body },
        EffectRequest::Transfer(_) => EffectOutcome::Requested,
    }
}
