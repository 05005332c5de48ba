//! The end of a run.

use alloc::string::{String, ToString};

use serde_json::Value;

use super::Stop;
use crate::id::AgentName;
use crate::response::{AgentResponse, RunErrorCode, Status};
use crate::state::{AgentState, Decision, Handoff, Phase};

/// The agent answered; its structured answer is the state's.
pub(crate) fn completed(state: &mut AgentState, answer: Option<String>, reason: &str) {
    state.decide(Decision::End { reason: reason.to_string() });
    state.phase = Phase::Ended(AgentResponse {
        status: Status::Completed,
        answer,
        output: state.output.clone(),
        error: None,
        usage: state.usage,
    });
}

/// Another agent goes on in the same session.
pub(crate) fn handed_off(
    state: &mut AgentState,
    target: AgentName,
    message: Option<String>,
    data: Option<Value>,
) -> Result<(), Stop> {
    if state.hops >= Handoff::MAX_HOPS {
        return Err(Stop::failed(
            RunErrorCode::LimitExceeded,
            alloc::format!("`{target}` would be the handoff number {}, more than allowed", state.hops + 1),
            "let one of the agents answer instead of handing over",
        ));
    }
    let mut request = state.request.clone();
    if let Some(message) = &message {
        request.text.clone_from(message);
    }
    if let Some(data) = data {
        request.data = data;
    }
    state.decide(Decision::HandOff { target: target.clone() });
    state.phase = Phase::HandedOff(Handoff { target, message, request });
    Ok(())
}

/// Something ended the run; the answer is what the agent has said so far.
pub(crate) fn stopped(state: &AgentState, stop: Stop) -> AgentResponse {
    let answer = if state.said.is_empty() {
        // What an earlier run of the session said is no answer of this one.
        state.transcript.last_text_from(state.inherited)
    } else {
        Some(state.said.join("\n\n"))
    };
    AgentResponse { status: stop.status, answer, output: None, error: Some(stop.error), usage: state.usage }
}
