//! What the planner costs for each action, effects not counted.
//!
//! Each figure is a whole call of a tool with many actions of one kind, divided by their number, so that beginning and
//! ending the call are counted with a share.

use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use dalsegno_tools::{
    ApiResponse, Call, CallInfo, Context, EffectOutcome, EffectRequest, Next, SessionContext, Toolkit,
    compile,
};
use serde_json::{Value, json};

/// Actions of one call.
const ACTIONS: u32 = 10;

fn kinds() -> Vec<(&'static str, Value)> {
    vec![
        (
            "context_set",
            json!({"type": "context.set", "path": "meals[+]", "value": "{{params.meal_type}} for {{user.name}}"}),
        ),
        ("context_get", json!({"type": "context.get", "path": "user.name", "output_path": "temp.name"})),
        ("context_delete", json!({"type": "context.delete", "path": "draft"})),
        ("flag_set", json!({"type": "flag.set", "flag": "ready"})),
        ("respond", json!({"type": "respond", "message": "I've logged your {{params.meal_type}}!"})),
        (
            "api_call",
            json!({"type": "api_call", "url": "{{tenant.settings.endpoints.meals}}/{{user.id}}",
                   "headers": {"Authorization": "Bearer {{user.auth_token}}"},
                   "body": {"user_id": "{{user.id}}", "meal": "{{params}}"}, "response_path": "temp.saved"}),
        ),
        (
            "conditional",
            json!({"type": "conditional", "condition": "params.meal_type === 'lunch' && !flags.ready",
                   "then_actions": []}),
        ),
        (
            "validate",
            json!({"type": "validate", "rules": [
                {"field": "params.meal_type", "rule": "required"}, {"field": "user.email", "rule": "email"}
            ]}),
        ),
        (
            "transform",
            json!({"type": "transform", "input_path": "params.dishes", "output_path": "temp.dishes",
                   "transform_type": "map", "transform_config": {"expression": "item.toUpperCase()"}}),
        ),
        ("log", json!({"type": "log", "log_message": "Processing {{params.meal_type}}"})),
        ("tool", json!({"type": "tool", "name": "other", "with": {"meal": "{{params.meal_type}}"}})),
    ]
}

fn toolkit(action: &Value) -> Toolkit {
    let document = json!({
        "name": "bench", "description": "Is measured",
        "parameters": [
            {"name": "meal_type", "type": "string", "enum": ["breakfast", "lunch", "dinner"]},
            {"name": "dishes", "type": "array", "required": true}
        ],
        "actions": vec![action; ACTIONS as usize]
    });
    compile(&document).toolkit.expect("the document has no problem")
}

fn call(toolkit: &Toolkit, context: &Context<'_>, arguments: &Value) {
    let tool = &toolkit.tools()[0];
    let mut call = Call::begin(tool, arguments, context);
    loop {
        match call.advance(tool, context) {
            Next::Done(finished) => {
                assert!(finished.outcome.ok, "{finished:?}");
                return;
            }
            Next::Effect(effect) => {
                let outcome = match effect.request {
                    EffectRequest::Tool(_) => EffectOutcome::Returned { output: json!(1) },
                    _ => EffectOutcome::Response(ApiResponse { status: 200, ..ApiResponse::default() }),
                };
                call.resume(outcome).expect("it answers the request");
            }
        }
    }
}

fn planner(criterion: &mut Criterion) {
    let user = json!({"id": "u1", "name": "Ada", "email": "ada@example.com", "auth_token": "x"});
    let tenant = json!({"settings": {"endpoints": {"meals": "https://meals.example/v1"}}});
    let (config, session) = (json!({}), SessionContext::default());
    let info = CallInfo { id: "c1".into(), session: "s1".into(), operation: "0a".repeat(16), turn: None };
    let context = Context {
        user: &user,
        tenant: &tenant,
        config: &config,
        session: &session,
        agent: "meal",
        call: &info,
        now_ms: 1_767_103_200_000,
        zone: None,
        first_rules: false,
    };
    let arguments = json!({"meal_type": "lunch", "dishes": ["soup", "bread"]});
    let mut group = criterion.benchmark_group("action");
    for (name, action) in kinds() {
        let toolkit = toolkit(&action);
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let begin = Instant::now();
                for _ in 0..iterations {
                    call(&toolkit, &context, &arguments);
                }
                begin.elapsed() / ACTIONS
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1)).sample_size(20);
    targets = planner
}
criterion_main!(benches);
