//! The end of a run.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;

use super::{Stop, budget, calls, declarative, think};
use crate::config::AgentConfig;
use crate::event::Outcome;
use crate::id::AgentName;
use crate::join::{Pending, Then};
use crate::operation::{Gate, GateState, Purpose, Request};
use crate::response::{AgentResponse, RunErrorCode, Status};
use crate::state::{AgentState, Decision, HandedOver, Handoff, Phase};

/// What a model answers, after what its tools have said.
pub(crate) fn spoken(state: &AgentState, text: String) -> String {
    if state.said.is_empty() {
        return text;
    }
    let mut spoken = state.said.join("\n\n");
    spoken.push_str("\n\n");
    spoken.push_str(&text);
    spoken
}

/// The agent answered; its structured answer is the state's.
pub(crate) fn completed(state: &mut AgentState, answer: Option<String>, reason: &str) {
    state.decide(Decision::End { reason: reason.to_string() });
    state.phase = Phase::Ended(AgentResponse {
        status: Status::Completed,
        answer,
        output: state.output.clone(),
        error: None,
        usage: state.usage,
        writes: state.session.writes().to_vec(),
    });
}

/// Another agent goes on in the same session.
pub(crate) fn handed_off(
    config: &AgentConfig,
    state: &mut AgentState,
    target: AgentName,
    message: Option<String>,
    data: Option<Value>,
) -> Result<(), Stop> {
    if state.hops >= Handoff::MAX_HOPS {
        return Err(Stop::failed(
            RunErrorCode::LimitExceeded,
            alloc::format!(
                "`{target}` would be the handoff number {}, more than allowed",
                state.hops.saturating_add(1)
            ),
            "let one of the agents answer instead of handing over",
        ));
    }
    let mut request = state.request.clone();
    let said = if config.has_second_rules() {
        request.handoff = Some(HandedOver { agent: config.name.clone(), message: message.clone() });
        state.said.clone()
    } else {
        if let Some(message) = &message {
            request.text.clone_from(message);
        }
        Vec::new()
    };
    if let Some(data) = data {
        request.data = data;
    }
    state.decide(Decision::HandOff { target: target.clone() });
    state.phase = Phase::HandedOff(Handoff { target, message, request, said });
    Ok(())
}

/// The run ends while operations are on their way: what has come of them is counted and kept, and what model calls and
/// child runs under way may take is counted too.
pub(crate) fn abandon(config: &AgentConfig, state: &mut AgentState) {
    match &state.phase {
        // Of what there is no room for, nothing is kept.
        Phase::Waiting(join) if join.is_overfull() => {}
        // The run ends another way than by handing over.
        Phase::Waiting(_) => _ = declarative::fold(config, state),
        _ => return,
    }
    let Phase::Waiting(join) = core::mem::replace(&mut state.phase, Phase::Start) else { return };
    for Pending { operation, outcome, .. } in &join.operations {
        if let Request::AgentCall(call) = &operation.request {
            match outcome {
                Some(Outcome::AgentReturned(returned)) => state.usage.add(&returned.usage),
                // It has failed without a run, or waits for a person and has not begun.
                Some(_) => {}
                None if operation.gate == GateState::Waiting(Gate::Approval) => {}
                None => budget::charge_child(state, call),
            }
        }
        let Request::ModelCompletion(completion) = &operation.request else { continue };
        let Ok(settings) = completion.settings(config) else { continue };
        match outcome {
            Some(Outcome::ModelReplied(reply)) => {
                state.usage.add(&budget::of_reply(settings, completion, reply));
                if matches!(completion.purpose, Purpose::Reply) {
                    think::keep(reply.clone(), state);
                }
            }
            Some(Outcome::Failed(failure)) => {
                state.usage.add(&budget::of_failure(settings, completion, failure));
            }
            Some(_) => {}
            None => state.usage.add(&budget::of_lost(settings, completion, &operation.terms)),
        }
    }
    if let Then::Calls { calls } = join.then {
        calls::abandoned(calls, join.operations, state);
    }
}

/// Something ended the run; the answer is what the agent has said so far.
pub(crate) fn stopped(state: &AgentState, stop: Stop) -> AgentResponse {
    let answer = if state.said.is_empty() {
        // What an earlier run of the session said is no answer of this one.
        state.transcript.last_text_from(state.inherited)
    } else {
        Some(state.said.join("\n\n"))
    };
    AgentResponse {
        status: stop.status,
        answer,
        output: None,
        error: Some(stop.error),
        usage: state.usage,
        writes: state.session.writes().to_vec(),
    }
}
