//! Runs as an engine records them, without one: the core asks, and what is made up here is recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use dalsegno_core::{
    AgentConfig, AgentRequest, AgentState, CallRequest, Event, Mind, ModelReply, Operation, Outcome,
    ReplyPart, Request, RunId, StopReason, Surface, Timestamp, Tool, ToolReturn, Validation, digest_json,
};
use dalsegno_history::{Advance, Machine};
use dalsegno_store::{Body, Created, NewRecord, NewRun, Owner, Start, Started, Store};
use serde_json::{Value, json};

/// Records that are written at once.
const BATCH: usize = 500;

/// An agent that asks a model, which calls two tools over and over.
pub(crate) fn config(max_steps: u64) -> AgentConfig {
    let mind = json!({"model": {
        "model": {"name": "default", "temperature": null, "max_output_tokens": null},
        "instructions": "You watch.",
        "prompt": "{{request.text}}",
        "recall": null,
    }});
    let mind: Mind = serde_json::from_value(mind).unwrap();
    let mut config = AgentConfig::new("watcher".parse().unwrap(), mind);
    for name in ["risk.score", "risk.note"] {
        let tool = Tool::new("rates".into(), json!({"type": "object"}));
        config.tools.tools.insert(name.parse().unwrap(), tool);
    }
    let limits = &mut config.limits;
    limits.max_steps = max_steps + 8;
    limits.max_tool_calls = u64::MAX;
    limits.max_state_bytes = u64::MAX;
    limits.repeat_limit = 0;
    config
}

/// What a run is asked.
const ASKED: &str = "what is the risk?";

/// The beginning of a run; with a surface, of a call.
pub(crate) fn begin(run: RunId, config: &AgentConfig, owner: &Owner, surface: Option<Surface>) -> NewRun {
    let json = serde_json::to_string(config).unwrap();
    let digest = digest_json(&serde_json::from_str::<Value>(&json).unwrap());
    let started = Started {
        agent: "watcher".parse().unwrap(),
        config: digest,
        semantics: dalsegno_core::SEMANTICS,
        request: AgentRequest { surface, ..AgentRequest::text(ASKED) },
        session: run.to_string(),
        predecessor: None,
        start_key: None,
        modules: BTreeMap::new(),
        parent: None,
        depth: 0,
        budget: None,
        context: None,
        by_handoff: false,
        ask_effects: false,
    };
    NewRun::new(run, json, digest, owner.id(), Timestamp::from_millis(1_000), started)
}

/// Records a run of this many steps, of which every second one calls two tools. It ends if the number is odd.
pub(crate) async fn record(store: &dyn Store, run: RunId, steps: u64, words: &dyn Fn(u64) -> String) {
    let config = Arc::new(config(steps));
    let owner = Owner::in_process();
    let new = begin(run, &config, &owner, None);
    let (request, at) = (AgentRequest::text(ASKED), Timestamp::from_millis);
    let Created::New(mut lease) = store.create(new).await.unwrap() else { panic!("the run exists") };
    let state = AgentState::start(run, request, at(1_000)).in_session(&run.to_string());
    let mut machine = Machine::new(Arc::clone(&config), state);
    let (mut records, mut now) = (Vec::new(), 1_000);
    loop {
        match machine.advance().unwrap() {
            Advance::Asked(operations) => {
                let step = machine.state().step();
                for operation in &operations {
                    records.push(requested(at(now), step, operation));
                }
                if step > steps {
                    break;
                }
                for operation in &operations {
                    now += 10;
                    let outcome = outcome(operation, step, steps, words);
                    let body = Body::Resolved { outcome: outcome.clone(), attempts: 1, elapsed_ms: 10 };
                    records.push(NewRecord::of(at(now), operation.id, body));
                    machine.resume(Event::outcome(at(now), operation.id, outcome)).unwrap();
                }
            }
            Advance::Ended(end) => {
                let response = end.response().unwrap().clone();
                records.push(NewRecord::new(at(now), Body::Completed { response }));
                break;
            }
            Advance::Moved(_) => panic!("no tool is declarative"),
        }
        if records.len() >= BATCH {
            store.append(&mut lease, std::mem::take(&mut records)).await.unwrap();
        }
    }
    store.append(&mut lease, records).await.unwrap();
    store.release(lease).await.unwrap();
}

fn requested(at: Timestamp, step: u64, operation: &Operation) -> NewRecord {
    let body = Body::Requested {
        step,
        ordinal: operation.ordinal.clone(),
        label: operation.request.label_without_values(),
        digest: operation.digest,
        class: operation.terms.class,
        start: Start::Now,
    };
    NewRecord::of(at, operation.id, body)
}

fn outcome(operation: &Operation, step: u64, steps: u64, words: &dyn Fn(u64) -> String) -> Outcome {
    let Request::ModelCompletion(_) = operation.request else {
        return Outcome::ToolReturned(ToolReturn::structured(json!({ "step": step, "words": words(step) })));
    };
    let call = |name: &str| {
        let arguments = json!({ "step": step });
        ReplyPart::Call(CallRequest {
            call_id: format!("{name}-{step}"),
            name: name.to_owned(),
            arguments: arguments.to_string(),
            validation: Some(Validation::Valid { arguments }),
        })
    };
    let parts = match step >= steps {
        true => vec![ReplyPart::Text("all is well".to_owned())],
        false => vec![call("risk__score"), call("risk__note")],
    };
    let stop = if step >= steps { StopReason::End } else { StopReason::ToolCalls };
    Outcome::ModelReplied(ModelReply { input_tokens: 5, output_tokens: 2, ..ModelReply::new(parts, stop) })
}
