//! What a step costs, early and late in a conversation.
//!
//! One iteration is one turn of a model-driven agent, which is two steps: the model asks for a tool, the tool answers.
//! Both steps and both outcomes are counted; the driver's own work (making the outcomes) is not.

use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use dalsegno_core::{
    AgentAction, AgentConfig, AgentRequest, AgentState, CallRequest, Event, Limits, Mind, ModelMind,
    ModelReply, ModelSettings, Outcome, ReplyPart, Request, RunId, StopReason, Timestamp, Tool, ToolReturn,
    Validation, execute_agent_step,
};
use serde_json::json;

/// Turns that are measured from one starting point.
const TURNS: u64 = 500;

fn config() -> AgentConfig {
    let mind = ModelMind {
        model: ModelSettings::named("default"),
        instructions: None,
        prompt: "{{request.text}}".parse().expect("a template"),
        recall: None,
        fallback: Vec::new(),
        output: None,
        context: None,
    };
    let mut config = AgentConfig::new("bench".parse().expect("a name"), Mind::Model(mind));
    let schema =
        json!({ "type": "object", "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } } });
    config.tools.tools.insert("math.add".parse().expect("a name"), Tool::new("Adds.".into(), schema));
    config.limits = Limits { max_steps: u64::MAX, max_tool_calls: u64::MAX, ..Limits::default() };
    config
}

fn outcome(request: &Request, turn: u64) -> Outcome {
    match request {
        Request::ModelCompletion(_) => {
            let call = ReplyPart::Call(CallRequest {
                call_id: format!("call_{turn}"),
                name: "math__add".into(),
                arguments: format!(r#"{{"a":{turn},"b":1}}"#),
                validation: Some(Validation::Valid { arguments: json!({ "a": turn, "b": 1 }) }),
            });
            let reply = ModelReply::new(vec![call], StopReason::ToolCalls);
            Outcome::ModelReplied(ModelReply { input_tokens: 10, output_tokens: 5, ..reply })
        }
        _ => Outcome::ToolReturned(ToolReturn::structured(json!({ "sum": turn + 1 }))),
    }
}

/// Goes on for so many turns, and says how long steps and outcomes took.
fn turns(config: &AgentConfig, mut state: AgentState, count: u64) -> (AgentState, Duration) {
    let mut spent = Duration::ZERO;
    for turn in 0..count * 2 {
        let begin = Instant::now();
        let action = execute_agent_step(config, state).expect("a step");
        spent += begin.elapsed();
        assert!(!matches!(action, AgentAction::Complete { .. }), "the run must not end");
        let (operations, next) = action.into_operations();
        state = next;
        for operation in operations {
            let event =
                Event::outcome(Timestamp::from_millis(turn), operation.id, outcome(&operation.request, turn));
            let begin = Instant::now();
            state.resume(event).expect("an outcome");
            spent += begin.elapsed();
        }
    }
    (state, spent)
}

fn bench(criterion: &mut Criterion) {
    let config = config();
    let mut group = criterion.benchmark_group("turn (two steps)");
    for history in [10, 1_000, 10_000] {
        let start = AgentState::start(
            RunId::from_bytes([1; 16]),
            AgentRequest::text("add"),
            Timestamp::from_millis(0),
        );
        let (state, _) = turns(&config, start, history);
        group.bench_function(format!("after {history} turns"), |bencher| {
            bencher.iter_custom(|iterations| {
                let rounds = iterations.div_ceil(TURNS);
                let spent: Duration = (0..rounds).map(|_| turns(&config, state.clone(), TURNS).1).sum();
                spent.mul_f64(iterations as f64 / (rounds * TURNS) as f64)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
