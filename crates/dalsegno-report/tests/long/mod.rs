//! A run of as many steps as are wanted, recorded as the engine records it.

use std::collections::BTreeMap;
use std::sync::Arc;

use dalsegno_core::{
    AgentConfig, AgentRequest, AgentState, CallRequest, Event, Limits, Mind, ModelMind, ModelReply,
    ModelSettings, Outcome, ReplyPart, Request, RunId, StopReason, Timestamp, Tool, ToolReturn, Validation,
    digest_json,
};
use dalsegno_history::{Advance, End, Journal, Machine};
use dalsegno_store::{Body, Created, MemoryStore, NewRecord, NewRun, Owner, Start, Started, Store};
use serde_json::json;

/// The run.
pub(crate) const RUN: RunId = RunId::from_bytes([7; 16]);

fn config() -> AgentConfig {
    let mind = ModelMind {
        model: ModelSettings::named("default"),
        instructions: None,
        prompt: "{{request.text}}".parse().unwrap(),
        recall: None,
        fallback: Vec::new(),
        output: None,
        context: None,
    };
    let mut config = AgentConfig::new("adder".parse().unwrap(), Mind::Model(mind));
    let schema =
        json!({ "type": "object", "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } } });
    config.tools.tools.insert("math.add".parse().unwrap(), Tool::new("Adds.".into(), schema));
    config.limits = Limits { max_steps: u64::MAX, max_tool_calls: u64::MAX, ..Limits::default() };
    config
}

fn outcome(request: &Request, step: u64, steps: u64) -> Outcome {
    if !matches!(request, Request::ModelCompletion(_)) {
        let text = format!("The sum is {}. ", step + 1);
        return Outcome::ToolReturned(ToolReturn::structured(
            json!({ "sum": step + 1, "said": text.repeat(4) }),
        ));
    }
    let reply = if step >= steps {
        ModelReply::new(vec![ReplyPart::Text("Enough.".into())], StopReason::End)
    } else {
        let call = CallRequest {
            call_id: format!("call_{step}"),
            name: "math__add".into(),
            arguments: format!(r#"{{"a":{step},"b":1}}"#),
            validation: Some(Validation::Valid { arguments: json!({ "a": step, "b": 1 }) }),
        };
        ModelReply::new(vec![ReplyPart::Call(call)], StopReason::ToolCalls)
    };
    Outcome::ModelReplied(ModelReply { input_tokens: 10, output_tokens: 5, ..reply })
}

/// A journal with the run.
pub(crate) async fn journal(steps: u64) -> Journal {
    let store = Arc::new(MemoryStore::new());
    let owner = Owner::in_process();
    let config = config();
    let config_json = serde_json::to_value(&config).unwrap();
    let request = AgentRequest::text("Add until it is enough.");
    let at = Timestamp::from_millis;
    let started = Started {
        agent: "adder".parse().unwrap(),
        config: digest_json(&config_json),
        semantics: dalsegno_core::SEMANTICS,
        request: request.clone(),
        session: "s1".into(),
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
    let digest = digest_json(&json!("Add until it is enough."));
    let new = NewRun::new(RUN, config_json.to_string(), digest, owner.id(), at(0), started);
    let Created::New(mut lease) = store.create(new).await.unwrap() else { panic!("the store is empty") };
    let state = AgentState::start(RUN, request, at(0)).in_session("s1");
    let mut machine = Machine::new(Arc::new(config), state);
    let mut records = Vec::new();
    let end = loop {
        let asked = match machine.advance().unwrap() {
            Advance::Asked(asked) => asked,
            Advance::Ended(End::Response(response)) => break response,
            Advance::Moved(_) | Advance::Ended(_) => panic!("a model and a tool are all that it has"),
        };
        let step = machine.state().step();
        for operation in asked {
            let requested = Body::Requested {
                step,
                ordinal: operation.ordinal.clone(),
                label: operation.request.label_without_values(),
                digest: operation.digest,
                class: operation.terms.class,
                start: Start::Now,
            };
            records.push(NewRecord::of(at(step), operation.id, requested));
            let outcome = outcome(&operation.request, step, steps);
            machine.resume(Event::outcome(at(step), operation.id, outcome.clone())).unwrap();
            let resolved = Body::Resolved { outcome, attempts: 1, elapsed_ms: 0 };
            records.push(NewRecord::of(at(step), operation.id, resolved));
        }
    };
    records.push(NewRecord::new(at(steps + 1), Body::Completed { response: end }));
    store.append(&mut lease, records).await.unwrap();
    store.release(lease).await.unwrap();
    Journal::of(store, None)
}
