//! What holds for any bytes that decode to a state and events: the body of the fuzz target.
//!
//! The target calls it with what libFuzzer invents; `tests/corpus.rs` of `dalsegno-core` calls it on stable with every file of
//! the corpus. A panic is a finding.

use dalsegno_core::{
    AgentConfig, AgentRequest, AgentState, Envelope, Event, News, RunId, Timestamp, execute_agent_step,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::LazyLock;

/// A run, as a store might hold it: JSON where the bytes begin with a brace, else MessagePack.
#[derive(Serialize, Deserialize)]
struct Case {
    /// Which of [`AGENTS`], by remainder.
    agent: usize,
    /// Where the run stands; at its start when absent.
    #[serde(default)]
    state: Option<Envelope>,
    /// Events are for the operations that wait, in turn, whatever ids they carry: no fuzzer guesses an id.
    #[serde(default)]
    aim: bool,
    events: Vec<Event>,
}

/// No run of these agents needs as many.
const MOST_EVENTS: usize = 48;

/// Decodes a case and drives it. No state and no news makes the core panic, a step has one answer, and news that is
/// refused leaves the state as it was.
pub fn events(data: &[u8]) {
    let Some(Case { agent, state, aim, events }) = decode(data) else { return };
    let config = &AGENTS[agent % AGENTS.len()];
    // What was decoded can be deeper than JSON, and hold numbers that JSON has not; what the core made itself cannot.
    let is_own = state.is_none();
    let mut state = match state.map(Envelope::open) {
        Some(Ok(state)) => state,
        Some(Err(_)) => return,
        None => AgentState::start(
            RunId::from_bytes([7; 16]),
            AgentRequest::text("disk full"),
            Timestamp::from_millis(0),
        ),
    };
    for (turn, event) in events.into_iter().take(MOST_EVENTS).enumerate() {
        let Some(next) = step(config, &state, is_own) else { return };
        state = next;
        let event = if aim { aimed(event, &state, turn) } else { event };
        let before = encode(&state);
        if state.resume(event.clone()).is_err() {
            assert_eq!(encode(&state), before, "refused news changed the state");
        } else {
            // The same news again is ignored or refused.
            let after = encode(&state);
            let _ = state.resume(event);
            assert_eq!(encode(&state), after, "the same news counted twice");
        }
    }
    step(config, &state, is_own);
}

/// Takes a step, and checks that it is a function and that its state can be kept.
fn step(config: &AgentConfig, state: &AgentState, is_own: bool) -> Option<AgentState> {
    let action = execute_agent_step(config, state.clone());
    let again = execute_agent_step(config, state.clone());
    let (Ok(action), Ok(again)) = (action, again) else { return None };
    assert_eq!(encode(&action), encode(&again), "the second action differs");
    let (operations, next) = action.into_operations();

    let stored = encode(&Envelope::new(next.clone()));
    let loaded: Envelope = rmp_serde::from_slice(&stored).expect("what was stored is read");
    assert_eq!(encode(&loaded), stored, "the state was stored and read back");
    if is_own {
        let stored = serde_json::to_vec(&next).expect("a state has a JSON form");
        let loaded: AgentState = serde_json::from_slice(&stored).expect("what was stored is read");
        assert_eq!(loaded, next, "the state was stored as JSON and read back");
    }
    if next.is_over() || !next.is_ready() {
        let action = execute_agent_step(config, next.clone()).expect("it belongs to the same configuration");
        assert_eq!(
            encode(&action.into_operations().0),
            encode(&operations),
            "other operations are asked for"
        );
    }
    Some(next)
}

/// Points an event at an operation that waits.
fn aimed(mut event: Event, state: &AgentState, turn: usize) -> Event {
    let waiting: Vec<_> = state.pending().iter().filter(|pending| pending.outcome.is_none()).collect();
    if let Some(target) = waiting.get(turn.checked_rem(waiting.len()).unwrap_or(0)) {
        let id = target.operation.id;
        match &mut event.news {
            News::Outcome { operation, .. }
            | News::Gated { operation, .. }
            | News::Answered { operation, .. } => {
                *operation = id;
            }
            News::Signalled(_) | News::Live(_) => {}
        }
    }
    event
}

fn decode(data: &[u8]) -> Option<Case> {
    if data.first() == Some(&b'{') {
        serde_json::from_slice(data).ok()
    } else {
        rmp_serde::from_slice(data).ok()
    }
}

/// Bytes compare where values do not: a state that was decoded may hold NaN.
fn encode(value: &impl Serialize) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("it has a form")
}

/// A plan with a step of every kind, a model-driven agent with all its settings, and one with hardly any.
static AGENTS: LazyLock<Vec<AgentConfig>> = LazyLock::new(|| {
    let model = |name: &str| json!({"name": name, "temperature": null, "max_output_tokens": null, "price": {"input": 3, "output": 9}});
    let tool = |kind: serde_json::Value, class: &str, approve: bool, on_failure: serde_json::Value| {
        json!({
            "description": "d", "input_schema": {"type": "object"}, "output_schema": null, "kind": kind, "class": class,
            "timeout_ms": 1000, "retries": 1, "approve": approve, "on_failure": on_failure, "on_indeterminate": "ask",
        })
    };
    let tools = json!({
        "tools": {
            "log.read": tool(json!("external"), "read", false, json!(null)),
            "mail.send": tool(json!("external"), "unsafe", true, json!({"fallback": "log.read"})),
            "memory.search": tool(json!("memory_search"), "read", false, json!("report")),
            "memory.create": tool(json!("memory_create"), "idempotent", false, json!(null)),
            "memory.traverse": tool(json!("memory_traverse"), "read", false, json!({"default": [1]})),
            "agents.helper": tool(json!({"agent": {"agent": "helper"}}), "keyed", false, json!(null)),
            "handoff.helper": tool(json!({"handoff": {"agent": "helper"}}), "read", false, json!(null)),
        },
        "forbidden": ["host.kill"],
    });
    let agents =
        json!({"helper": {"budget": {"max_tool_calls": 3, "max_tokens": 1000, "max_cost_nano_usd": null}}});
    let step = |id: &str, call: serde_json::Value| json!({"action": {"operation": {"id": id, "call": call, "on_failure": "report"}}});
    let plan = json!({"plan": {"steps": [
        step("found", json!({"memory_search": {"query": "{{request.text}}", "limit": 3, "min_score": 0.0}})),
        {"action": {"parallel": [
            {"operation": {"id": "log", "call": {"tool": {"tool": "log.read", "with": {"n": "{{steps.found.length}}"}}}, "on_failure": "report"}},
            {"when": "steps.found.length > 0", "operation": {"id": "mail", "call": {"tool": {"tool": "mail.send", "with": {"to": "{{steps.found[0].text}}"}, "approve": "always"}}}},
        ]}},
        {"action": {"set": {"count": "(vars.count ?? 0) + 1", "log": "steps.log"}}},
        {"when": "vars.count === 1", "action": {"for_each": {
            "list": "Array.isArray(steps.log) ? steps.log : [1, 2]", "concurrency": 2,
            "operation": {"id": "each", "call": {"tool": {"tool": "log.read", "with": {"item": "{{item}}", "at": "{{index}}"}}}, "on_failure": "report"},
        }}},
        step("walk", json!({"memory_traverse": {"from": "host", "relation": null, "depth": 2, "limit": 5}})),
        step("kept", json!({"memory_create": {"entity": "e {{vars.count}}", "entity_type": "incident", "content": "{{steps.each}}",
            "relations": [{"relation": "caused_by", "to": "host"}]}})),
        step("child", json!({"agent": {"agent": "helper", "text": "look", "data": {"walk": "{{steps.walk}}"}}})),
        step("words", json!({"model": {"model": model("small"), "instructions": null, "prompt": "{{steps.child}}", "schema": {"type": "object"}}})),
        step("asked", json!({"ask": {"question": "Go on with {{steps.words}}?", "schema": null}})),
        step("late", json!({"wait": {"for": {"ms": 1000}}})),
        {"action": {"output": {"answer": "{{steps.asked}}", "walk": ["{{steps.walk}}"]}}},
        {"action": {"respond": "{{steps.log}} {{steps.late}}"}},
        {"when": "steps.asked === 'over'", "action": {"handoff": {"target": "helper", "message": "{{steps.asked}}", "data": null}}},
    ]}});
    let full = json!({"model": {
        "model": model("large"), "instructions": "Help. {{memory.hits.length}}", "prompt": "{{request.text}}",
        "recall": {"query": "{{request.text}}", "limit": 2, "min_score": 0.5}, "fallback": [model("small")],
        "output": {"schema": {"type": "object"}, "retries": 1}, "context": {"max_tokens": 400, "compact": "summarise"},
    }});
    let plain = json!({"model": {"model": model("large"), "instructions": null, "prompt": "{{request.text}}", "recall": null}});
    let limits = json!({"max_steps": 12, "max_tool_calls": 6, "on_exceeded": "answer", "max_tokens": 5000, "max_state_bytes": 20000});
    [(plan, json!({})), (full, limits.clone()), (plain, limits)]
        .into_iter()
        .map(|(mind, limits)| {
            let config = json!({
                "name": "agent", "version": "1", "semantics": 1, "mind": mind, "tools": tools, "agents": agents, "limits": limits,
            });
            serde_json::from_value(config).expect("it is a configuration")
        })
        .collect()
});
