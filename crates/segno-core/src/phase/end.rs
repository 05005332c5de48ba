//! The end of a run.

use alloc::string::{String, ToString};

use super::Stop;
use crate::response::{AgentResponse, Status};
use crate::state::{AgentState, Decision, Phase};

/// The agent answered.
pub(crate) fn completed(state: &mut AgentState, answer: Option<String>, reason: &str) {
    state.decide(Decision::End { reason: reason.to_string() });
    state.phase = Phase::Ended(AgentResponse {
        status: Status::Completed,
        answer,
        output: None,
        error: None,
        usage: state.usage,
    });
}

/// Something ended the run; the answer is what the agent has said so far.
pub(crate) fn stopped(state: &AgentState, stop: Stop) -> AgentResponse {
    let answer =
        if state.said.is_empty() { state.transcript.last_text() } else { Some(state.said.join("\n\n")) };
    AgentResponse { status: stop.status, answer, output: None, error: Some(stop.error), usage: state.usage }
}
