//! The calls of a model's reply: refused here, or performed at the same time.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde_json::Value;

use super::admit::{Admitted, Allowed, NO_CALL, Refusal, admit, admit_tool};
use super::repeat::{self, Repeats, Watch};
use super::result::{edited, failed, missing, result, told};
use super::{Stop, budget, end, think};
use crate::canonical::{Digest, print_json};
use crate::config::{AgentConfig, ModelMind, OnFailure, OnIndeterminate, Tool};
use crate::event::{Failure, Outcome};
use crate::id::{AgentName, ToolName};
use crate::join::{CallSlot, Pending, Settled, Then};
use crate::operation::{AgentCall, EffectClass, Gate, GateState, Request, Terms};
use crate::reply::CallRequest;
use crate::response::RunErrorCode;
use crate::state::{AgentState, Decision, Phase};
use crate::transcript::Entry;

/// A child run may wait for people, so it gets a day; its own limits bound its work.
const AGENT_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1_000;

/// Most calls of one reply that are looked at; no sound reply has as many, and each takes room in the state.
const CALLS_MAX: usize = 128;

/// Terms for a child run: it is taken up again where it stood, so no attempt of it is ever repeated.
pub(crate) const AGENT_TERMS: Terms = Terms {
    class: EffectClass::Composite,
    timeout_ms: AGENT_TIMEOUT_MS,
    retries: 0,
    on_indeterminate: OnIndeterminate::Ask,
    pace: None,
};

/// Decides on each call: a refusal that never leaves the core, or an operation.
pub(super) fn begin(
    config: &AgentConfig,
    mind: &ModelMind,
    calls: Vec<&CallRequest>,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let mut slots = Vec::with_capacity(calls.len());
    let mut admitted = Vec::with_capacity(calls.len());
    let alone = calls.len() == 1;
    for (index, call) in calls.into_iter().enumerate() {
        if index >= CALLS_MAX {
            let (call_id, name) = (call.call_id.clone(), call.name.clone());
            let message = alloc::format!("a reply may hold {CALLS_MAX} calls: call it in the next one");
            let refusal = Refusal::new("limit_exceeded", message);
            slots.push(CallSlot { call_id, name, settled: Some(refusal.into_settled()), fallback: None });
            continue;
        }
        let is_double = config.has_second_rules()
            && !call.call_id.is_empty()
            && slots.iter().any(|slot: &CallSlot| slot.call_id == call.call_id);
        let refused = match admit(config, call, Some(state)) {
            _ if is_double => {
                let message = "another call of this reply has the same id; only the first one was performed";
                Some(Refusal::new("duplicate_call", message))
            }
            Ok(Allowed { admitted: Admitted::Handoff { agent, message }, .. }) if alone => {
                return hand_over(config, call, agent, message, state);
            }
            Ok(Allowed { admitted: Admitted::HangUp, .. }) => Some(Refusal::new("not_permitted", NO_CALL)),
            Ok(Allowed { admitted: Admitted::Handoff { .. }, .. }) => {
                let message =
                    "a handoff ends this run, so it must be the only call of a reply: call it alone";
                Some(Refusal::new("not_permitted", message))
            }
            Ok(call) => {
                admitted.push(call);
                None
            }
            Err(refusal) => Some(refusal),
        };
        let (call_id, name) = (call.call_id.clone(), call.name.clone());
        let settled = refused.map(|refusal| {
            state.decide(Decision::Refuse { name: name.clone(), reason: refusal.message.clone() });
            refusal.into_settled()
        });
        slots.push(CallSlot { call_id, name, settled, fallback: None });
    }
    if admitted.is_empty() {
        return answer(config, slots, state);
    }
    if let Some(limit) = reached(config, admitted.len() as u64, state) {
        for slot in &mut slots {
            slot.settled.get_or_insert_with(|| Refusal::new("limit_exceeded", &*limit).into_settled());
        }
        answer(config, slots, state)?;
        return think::exceeded(config, mind, limit, state);
    }
    let names = slots.iter().filter(|slot| slot.settled.is_none()).map(|slot| slot.name.clone()).collect();
    state.decide(Decision::CallTools { names });
    perform(config, slots, admitted, state);
    Ok(())
}

/// Mints the operations of a reply's calls and waits for them.
fn perform(config: &AgentConfig, slots: Vec<CallSlot>, admitted: Vec<Allowed<'_>>, state: &mut AgentState) {
    state.usage.tool_calls = state.usage.tool_calls.saturating_add(admitted.len() as u64);
    let mut requests = Vec::with_capacity(admitted.len());
    for Allowed { name, tool, admitted, rule } in admitted {
        let Some((request, terms)) = request(config, tool, admitted) else { continue };
        let gate = if tool.approve || rule.is_some() {
            state.decide(Decision::AskApproval { name: name.to_string(), rule });
            GateState::Waiting(Gate::Approval)
        } else {
            GateState::Open
        };
        requests.push((request, terms, gate));
    }
    budget::share(requests.iter_mut().map(|(request, ..)| request), budget::left(config, state));
    state.wait_for(config, Then::Calls { calls: slots }, requests);
}

/// What a call asks for, with its terms; none for a handoff, which is no operation.
fn request(config: &AgentConfig, tool: &Tool, admitted: Admitted) -> Option<(Request, Terms)> {
    match admitted {
        Admitted::Request(request) => {
            let terms = tool.terms_of(&request);
            Some((request, terms))
        }
        Admitted::Agent { agent, text, data } => {
            let budget = config.agents.get(&agent)?.budget;
            Some((Request::AgentCall(Arc::new(AgentCall { agent, text, data, budget })), AGENT_TERMS))
        }
        Admitted::Handoff { .. } | Admitted::HangUp => None,
    }
}

/// Another agent goes on; the call has its result, since the transcript may be read on.
fn hand_over(
    config: &AgentConfig,
    call: &CallRequest,
    agent: AgentName,
    message: Option<String>,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let content = alloc::format!("handed over to `{agent}`");
    end::handed_off(config, state, agent, message, None)?;
    let (call_id, name) = (call.call_id.clone(), call.name.clone());
    state.transcript.push(Entry::ToolResult { call_id, name, content, is_error: false, files: Vec::new() });
    Ok(())
}

/// Takes the outcomes of the calls, in the order of the reply.
pub(crate) fn returned(
    config: &AgentConfig,
    mind: &ModelMind,
    mut slots: Vec<CallSlot>,
    operations: Vec<Pending>,
    state: &mut AgentState,
) -> Result<(), Stop> {
    for pending in &operations {
        if let Some(Outcome::AgentReturned(returned)) = &pending.outcome {
            state.usage.add(&returned.usage);
        }
    }
    let reply = state.transcript.last_reply();
    let mut calls = reply.iter().flat_map(|entry| entry.calls());
    let mut operations = operations.into_iter();
    let mut fallbacks = Vec::new();
    let mut stop = None;
    for slot in &mut slots {
        let call = calls.next();
        if slot.settled.is_some() {
            continue;
        }
        let Some(pending) = operations.next() else { continue };
        let edited = edited(&pending, call, slot.fallback.is_some());
        let Pending { operation, outcome, .. } = pending;
        // A declarative tool says itself what the model reads of its failure.
        let words = match &outcome {
            Some(Outcome::ToolReturned(returned)) if returned.is_error && operation.is_declarative() => {
                Some(returned.text.clone())
            }
            Some(_) | None => None,
        };
        let settled = match result(outcome) {
            Ok(settled) => settled,
            Err(failure) => match deal(config, slot, call, &operation.request, &failure, state) {
                Ok(Dealt::Settled(settled)) if settled.is_error => {
                    Settled { content: words.unwrap_or(settled.content), ..settled }
                }
                Ok(Dealt::Settled(settled)) => settled,
                Ok(Dealt::Instead(fallback)) => {
                    slot.fallback = Some(fallback.call.name.clone());
                    fallbacks.push(fallback);
                    continue;
                }
                // The run ends, but what its siblings did stays in the transcript, which may be read on.
                Err(end) => {
                    stop.get_or_insert(end);
                    Refusal::from(failure).into_settled()
                }
            },
        };
        slot.settled = Some(Settled { content: told(edited, settled.content), ..settled });
    }
    if let Some(limit) = budget::overrun(config, state) {
        let limit = budget::beyond(config, state, limit);
        stop.get_or_insert(Stop::failed(RunErrorCode::LimitExceeded, limit, think::RAISE_THE_LIMIT));
    }
    if let Some(stop) = stop {
        // A tool that would have stood in is not called any more.
        let open = slots.iter_mut().filter(|slot| slot.settled.is_none());
        for (slot, fallback) in open.zip(fallbacks) {
            slot.settled = Some(fallback.failure);
        }
        keep(slots, state);
        return Err(stop);
    }
    fall_back(config, mind, slots, fallbacks, state)
}

/// A run ends while calls are on their way: what has come of them is counted, and stays in the transcript.
pub(crate) fn abandoned(mut slots: Vec<CallSlot>, operations: Vec<Pending>, state: &mut AgentState) {
    let mut operations = operations.into_iter();
    for slot in slots.iter_mut().filter(|slot| slot.settled.is_none()) {
        let Some(outcome) = operations.next().map(|pending| pending.outcome) else { break };
        if outcome.is_some() {
            slot.settled = Some(match result(outcome) {
                Ok(settled) => settled,
                Err(failure) => Refusal::from(failure).into_settled(),
            });
        }
    }
    slots.retain(|slot| slot.settled.is_some());
    keep(slots, state);
}

/// Puts results into the transcript of a run that ends.
fn keep(slots: Vec<CallSlot>, state: &mut AgentState) {
    for CallSlot { call_id, name, settled, .. } in slots {
        let Settled { content, is_error, files } =
            settled.unwrap_or_else(|| Refusal::from(missing()).into_settled());
        state.transcript.push(Entry::ToolResult { call_id, name, content, is_error, files });
    }
}

/// What a failure comes to.
enum Dealt<'a> {
    Settled(Settled),
    Instead(Fallback<'a>),
}

/// A tool that is called in the place of one that failed.
struct Fallback<'a> {
    call: Allowed<'a>,
    decision: Decision,
    /// What the model reads where the tool cannot be called after all.
    failure: Settled,
}

/// Deals with a failure as the settings of the tool say that was called.
fn deal<'a>(
    config: &'a AgentConfig,
    slot: &CallSlot,
    call: Option<&CallRequest>,
    made: &Request,
    failure: &Failure,
    state: &AgentState,
) -> Result<Dealt<'a>, Stop> {
    let name = slot.fallback.as_ref().map_or(slot.name.as_str(), ToolName::as_str);
    let tool = config.tools.find(name);
    let name = tool.map_or(name, |(name, _)| name.as_str());
    match tool.and_then(|(_, tool)| tool.on_failure.as_ref()) {
        Some(OnFailure::Fail) => return Err(failed(name, failure)),
        Some(OnFailure::Default(value)) if failure.code.allows_a_default(config.semantics) => {
            return Ok(Dealt::Settled(Settled::text(print_json(value))));
        }
        Some(OnFailure::Fallback(to)) if slot.fallback.is_none() && failure.code.allows_another_tool() => {
            let made = made.as_tool_call().map(|made| &made.parameters);
            let arguments = made.or_else(|| call.and_then(CallRequest::checked));
            if let Some(call) = arguments.and_then(|arguments| instead(config, to, arguments, state)) {
                let reason = alloc::format!("{}: {}", failure.code.as_str(), failure.message);
                let decision = Decision::FallBackTool { from: name.into(), to: to.to_string(), reason };
                let failure = Refusal::from(failure.clone()).into_settled();
                return Ok(Dealt::Instead(Fallback { call, decision, failure }));
            }
        }
        Some(OnFailure::Report | OnFailure::Default(_) | OnFailure::Fallback(_)) | None => {}
    }
    Ok(Dealt::Settled(Refusal::from(failure.clone()).into_settled()))
}

/// Calls the tools that stand in for failed ones; meanwhile the other results wait. Goes on where there are none.
fn fall_back(
    config: &AgentConfig,
    mind: &ModelMind,
    mut slots: Vec<CallSlot>,
    fallbacks: Vec<Fallback<'_>>,
    state: &mut AgentState,
) -> Result<(), Stop> {
    if fallbacks.is_empty() {
        return answer(config, slots, state);
    }
    if let Some(limit) = reached(config, fallbacks.len() as u64, state) {
        let open = slots.iter_mut().filter(|slot| slot.settled.is_none());
        for (slot, fallback) in open.zip(fallbacks) {
            slot.settled = Some(fallback.failure);
        }
        answer(config, slots, state)?;
        return think::exceeded(config, mind, limit, state);
    }
    let mut admitted = Vec::with_capacity(fallbacks.len());
    for fallback in fallbacks {
        state.decide(fallback.decision);
        admitted.push(fallback.call);
    }
    perform(config, slots, admitted, state);
    Ok(())
}

/// The call of a tool in the place of a failed one; none where the agent may not call it with these arguments.
fn instead<'a>(
    config: &'a AgentConfig,
    to: &ToolName,
    arguments: &Value,
    state: &AgentState,
) -> Option<Allowed<'a>> {
    let (name, tool) = config.tools.find_unpinned(to.as_str())?;
    match admit_tool(config, name, tool, arguments) {
        Ok(admitted @ (Admitted::Request(_) | Admitted::Agent { .. })) => {
            let rule = tool.asks_in(config, state, arguments);
            Some(Allowed { name, tool, admitted, rule })
        }
        Ok(Admitted::Handoff { .. } | Admitted::HangUp) | Err(_) => None,
    }
}

/// Puts the result of every call into the transcript, in the order of the reply.
fn answer(config: &AgentConfig, slots: Vec<CallSlot>, state: &mut AgentState) -> Result<(), Stop> {
    let reply = state.transcript.last_reply();
    let calls: Vec<Digest> = reply.iter().flat_map(|entry| entry.calls()).map(repeat::digest).collect();
    // Nobody else holds the entry, so that the transcript can change it in place.
    drop(reply);
    let mut calls = calls.into_iter();
    let mut records = core::mem::take(&mut state.calls);
    let mut watch = Watch::begin(config.limits.repeat_limit, &mut records);
    let mut cycle = None;
    let mut warned = false;
    for CallSlot { call_id, name, settled, .. } in slots {
        let missing = || Refusal::from(missing()).into_settled();
        let settled = settled.unwrap_or_else(missing);
        let call = calls.next();
        let repeats = call.and_then(|call| watch.take(call, &settled));
        let Settled { mut content, is_error, files } = settled;
        match repeats {
            // One warning a reply is read as well as many.
            Some(Repeats::First(_)) if warned => {}
            Some(Repeats::First(what)) => {
                warned = true;
                content.push_str("\n\n[Warning: this was ");
                content.push_str(&what);
                content.push_str(
                    ". Do something else, or answer with what you know; the run ends if it goes on.]",
                );
                state.decide(Decision::Warn { reason: what });
            }
            Some(Repeats::StillAfterWarning(what)) => cycle = Some(what),
            None => {}
        }
        state.transcript.push(Entry::ToolResult { call_id, name, content, is_error, files });
    }
    watch.finish();
    state.calls = records;
    state.phase = Phase::Think;
    match cycle {
        Some(what) => Err(Stop::failed(
            RunErrorCode::CycleDetected,
            alloc::format!("the model goes round in circles: {what}, and it was warned"),
            "say in the instructions what to do when a tool does not help, or raise `limits.repeat_limit`",
        )),
        None => Ok(()),
    }
}

/// The limit that `count` more calls would exceed, in words.
fn reached(config: &AgentConfig, count: u64, state: &AgentState) -> Option<String> {
    let limits = &config.limits;
    if state.step >= limits.max_steps {
        return Some(alloc::format!("`limits.max_steps` ({}) is reached", limits.max_steps));
    }
    if count <= budget::left(config, state).max_tool_calls {
        return None;
    }
    let calls = state.usage.tool_calls.saturating_add(count);
    Some(if calls > limits.max_tool_calls {
        alloc::format!("`limits.max_tool_calls` ({}) is reached", limits.max_tool_calls)
    } else {
        "the `max_tool_calls` that the calling run allows is reached".into()
    })
}
