//! The model is asked, and its reply is taken.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::{Stop, calls, end};
use crate::config::{AgentConfig, Mind, OnExceeded, OnIndeterminate};
use crate::event::Outcome;
use crate::operation::{EffectClass, GateState, ModelCompletion, Request, Terms, ToolChoice};
use crate::reply::{CallRequest, ModelReply, ReplyPart, StopReason};
use crate::response::RunErrorCode;
use crate::state::{AgentState, Decision, Pending, Then};
use crate::transcript::Entry;

/// Asks the model, unless a limit is reached.
pub(crate) fn ask(config: &AgentConfig, state: &mut AgentState) -> Result<(), Stop> {
    let max = config.limits.max_steps;
    if state.step >= max {
        return exceeded(config, alloc::format!("`limits.max_steps` ({max}) is reached"), state);
    }
    state.decide(Decision::AskModel);
    request(config, ToolChoice::Auto, state);
    Ok(())
}

/// Ends the run at a limit, or asks the model for a last answer.
pub(crate) fn exceeded(config: &AgentConfig, limit: String, state: &mut AgentState) -> Result<(), Stop> {
    match config.limits.on_exceeded {
        OnExceeded::Fail => Err(limit_stop(limit)),
        OnExceeded::Answer => {
            state.decide(Decision::AskLast { limit });
            request(config, ToolChoice::None, state);
            Ok(())
        }
    }
}

/// What to do about a limit where a last answer is no choice.
pub(crate) const RAISE_THE_LIMIT: &str = "raise the limit in the agent file, or give the agent less to do";

pub(crate) fn limit_stop(limit: String) -> Stop {
    Stop::failed(
        RunErrorCode::LimitExceeded,
        limit,
        "raise the limit in the agent file, or set `limits.on_exceeded = \"answer\"` for a last answer without tools",
    )
}

fn request(config: &AgentConfig, tool_choice: ToolChoice, state: &mut AgentState) {
    let Mind::Model(mind) = &config.mind else { return };
    let entries = state.transcript.len();
    let completion =
        ModelCompletion { new_from: state.asked, entries, chain: state.transcript.chain(), tool_choice };
    state.asked = entries;
    let terms = Terms {
        class: EffectClass::Read,
        timeout_ms: mind.model.timeout_ms,
        retries: mind.model.retries,
        on_indeterminate: OnIndeterminate::Retry,
    };
    let last = tool_choice == ToolChoice::None;
    state.wait_for(
        Then::Reply { last },
        vec![(Request::ModelCompletion(Arc::new(completion)), terms, GateState::Open)],
    );
}

/// Takes the model's reply: an answer, or calls.
pub(crate) fn replied(
    config: &AgentConfig,
    last: bool,
    operations: Vec<Pending>,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let outcome = operations.into_iter().next().and_then(|pending| pending.outcome);
    let reply = match outcome {
        Some(Outcome::ModelReplied(reply)) => reply,
        Some(Outcome::Failed(failure)) => {
            return Err(model_stop(alloc::format!("{}: {}", failure.code.as_str(), failure.message)));
        }
        Some(Outcome::MemoryFound(_) | Outcome::MemoryCreated(_) | Outcome::ToolReturned(_)) | None => {
            return Err(model_stop("the reply is missing".into()));
        }
    };
    state.usage.model_calls = state.usage.model_calls.saturating_add(1);
    state.usage.input_tokens = state.usage.input_tokens.saturating_add(reply.input_tokens);
    state.usage.output_tokens = state.usage.output_tokens.saturating_add(reply.output_tokens);
    let calls = calls_of(&reply);
    let (text, stop) = (reply.text(), reply.stop);
    state.transcript.push(Entry::Assistant(reply));
    if !calls.is_empty() && !last && stop != StopReason::Refusal {
        return calls::begin(config, calls, state);
    }
    match stop {
        StopReason::Refusal => Err(model_stop("the provider withheld the reply".into())),
        StopReason::Length => Err(Stop::failed(
            RunErrorCode::LimitExceeded,
            "the reply was cut off at its length limit".into(),
            "raise `max_output_tokens` of the agent's model, or ask for a shorter answer",
        )),
        StopReason::End | StopReason::ToolCalls if text.is_empty() && last => {
            let message = "a limit is reached, and the model gave no last answer";
            Err(Stop::failed(RunErrorCode::LimitExceeded, message.into(), RAISE_THE_LIMIT))
        }
        StopReason::End | StopReason::ToolCalls if text.is_empty() => {
            Err(model_stop("the model sent an empty reply".into()))
        }
        StopReason::End | StopReason::ToolCalls => {
            end::completed(state, Some(text), "the model answered");
            Ok(())
        }
    }
}

fn calls_of(reply: &ModelReply) -> Vec<CallRequest> {
    let calls = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Call(call) => Some(call.clone()),
        ReplyPart::Text(_) | ReplyPart::Opaque { .. } => None,
    });
    calls.collect()
}

fn model_stop(message: String) -> Stop {
    Stop::failed(
        RunErrorCode::ModelFailed,
        message,
        "look at the model's settings in segno.toml; `segno show` has the recorded exchange",
    )
}
