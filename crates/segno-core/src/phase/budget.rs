//! What a run may still use, and what is set aside before a request leaves.
//!
//! Before a model is asked, the estimated tokens of the request and the most that the reply may take are set aside;
//! before a child run starts, the smaller of its own limits and what is left. What is set aside together never exceeds
//! what is left, so the limits hold whatever comes back, as far as the estimate does; see
//! [`estimate_tokens`](crate::estimate_tokens). What is not used is free again at the join, since only what was reported
//! is counted.
//!
//! A request that brought no reply is charged with all that was set aside for it where it may have been received (see
//! [`charge_failed`]): the provider may have counted it, and nobody says how much.

use alloc::string::String;

use crate::config::{AgentConfig, Budget, ModelSettings};
use crate::event::{Failure, FailureCode};
use crate::id::AgentName;
use crate::operation::{ModelCompletion, Reserved};
use crate::reply::ModelReply;
use crate::state::AgentState;

/// What a reply may take where the settings name no bound and a limit needs one.
const OUTPUT_TOKENS: u32 = 4_096;

/// The shortest reply that is worth asking for when the limits leave less than the settings allow.
const LEAST_OUTPUT_TOKENS: u32 = 256;

/// What the run may use at most, by its own limits and by what its parent lets it use.
fn most(config: &AgentConfig, state: &AgentState) -> Budget {
    let most = config.limits.budget();
    state.budget.map_or(most, |budget| most.min(budget))
}

/// What the run may still use.
pub(crate) fn left(config: &AgentConfig, state: &AgentState) -> Budget {
    most(config, state).without(&state.usage)
}

/// Sets aside what a child run may use: the smaller of its own limits and what is left. `None` when the agent is not
/// one of those that may be called.
pub(crate) fn grant(config: &AgentConfig, agent: &AgentName, left: &mut Budget) -> Option<Budget> {
    let granted = config.agents.get(agent)?.budget.min(*left);
    left.max_tool_calls = left.max_tool_calls.saturating_sub(granted.max_tool_calls);
    take(&mut left.max_tokens, granted.max_tokens.unwrap_or(0));
    take(&mut left.max_cost_nano_usd, granted.max_cost_nano_usd.unwrap_or(0));
    Some(granted)
}

/// How short a reply may become for the sake of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shorter {
    /// Not at all: the settings' own bound must fit.
    No,
    /// As short as still makes sense, for a last answer.
    Yes,
}

/// What is set aside for a completion.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reservation {
    /// The tokens.
    pub(crate) reserved: Reserved,
    /// The bound on the reply, where the settings have none or a wider one.
    pub(crate) max_output_tokens: Option<u32>,
}

/// Sets aside what a completion may take. `Err` names the limit that it would exceed.
pub(crate) fn reserve(
    settings: &ModelSettings,
    input_tokens: u64,
    shorter: Shorter,
    left: &mut Budget,
) -> Result<Reservation, &'static str> {
    let want = settings.max_output_tokens.unwrap_or(OUTPUT_TOKENS);
    if left.max_tokens.is_none() && left.max_cost_nano_usd.is_none() {
        // Nothing has to hold, so nothing is set aside, and nothing that was not reported is counted.
        return Ok(Reservation { reserved: Reserved::default(), max_output_tokens: None });
    }
    let least = match shorter {
        Shorter::No => want,
        Shorter::Yes => want.min(LEAST_OUTPUT_TOKENS),
    };
    let by_tokens = left.max_tokens.map_or(u64::MAX, |tokens| tokens.saturating_sub(input_tokens));
    if by_tokens < u64::from(least) {
        return Err("max_tokens");
    }
    let by_cost = match (left.max_cost_nano_usd, settings.price) {
        (Some(cost), Some(price)) => match cost.checked_sub(price.nano_usd(input_tokens, 0)) {
            Some(rest) => rest.saturating_mul(1_000).checked_div(price.output).unwrap_or(u64::MAX),
            None => 0,
        },
        (Some(_), None) | (None, _) => u64::MAX,
    };
    if by_cost < u64::from(least.max(1)) {
        return Err("max_cost_usd");
    }
    let output = u64::from(want).min(by_tokens).min(by_cost);
    let reserved = Reserved { input_tokens, output_tokens: output };
    take(&mut left.max_tokens, input_tokens.saturating_add(output));
    let cost = settings.price.map_or(0, |price| price.nano_usd(input_tokens, output));
    take(&mut left.max_cost_nano_usd, cost);
    // It is no more than what was wanted, which is a u32.
    let max_output_tokens =
        u32::try_from(output).ok().filter(|most| settings.max_output_tokens != Some(*most));
    Ok(Reservation { reserved, max_output_tokens })
}

/// Counts what a reply took, and what attempts before it may have taken.
pub(crate) fn charge(
    state: &mut AgentState,
    settings: &ModelSettings,
    completion: &ModelCompletion,
    reply: &ModelReply,
) {
    let lost = u64::from(reply.lost_attempts);
    let input = reply.input_tokens.saturating_add(lost.saturating_mul(completion.reserved.input_tokens));
    let output = reply.output_tokens.saturating_add(lost.saturating_mul(completion.reserved.output_tokens));
    state.usage.model_calls = state.usage.model_calls.saturating_add(1);
    count(state, settings, input, output);
}

/// Counts what a completion without a reply may have taken: all that was set aside, unless the failure says that the
/// provider did not process the request.
pub(crate) fn charge_failed(
    state: &mut AgentState,
    settings: &ModelSettings,
    completion: &ModelCompletion,
    failure: &Failure,
) {
    let received = match failure.code {
        FailureCode::Timeout
        | FailureCode::Protocol
        | FailureCode::Indeterminate
        | FailureCode::LimitExceeded
        | FailureCode::InvalidOutput => true,
        FailureCode::Unavailable
        | FailureCode::ToolFailed
        | FailureCode::InvalidArguments
        | FailureCode::Denied
        | FailureCode::AgentFailed
        | FailureCode::Cancelled
        | FailureCode::Internal => false,
    };
    let attempts = u64::from(failure.lost_attempts).saturating_add(u64::from(received));
    let input = completion.reserved.input_tokens.saturating_mul(attempts);
    let output = completion.reserved.output_tokens.saturating_mul(attempts);
    count(state, settings, input, output);
}

/// Counts what a completion may take that nobody waits for any more.
pub(crate) fn charge_lost(state: &mut AgentState, settings: &ModelSettings, completion: &ModelCompletion) {
    count(state, settings, completion.reserved.input_tokens, completion.reserved.output_tokens);
}

fn count(state: &mut AgentState, settings: &ModelSettings, input: u64, output: u64) {
    let usage = &mut state.usage;
    usage.input_tokens = usage.input_tokens.saturating_add(input);
    usage.output_tokens = usage.output_tokens.saturating_add(output);
    let cost = settings.price.map_or(0, |price| price.nano_usd(input, output));
    usage.cost_nano_usd = usage.cost_nano_usd.saturating_add(cost);
}

/// Says of a limit, by its name, that what is left of it is not enough for the transcript and a reply.
pub(crate) fn too_little(config: &AgentConfig, state: &AgentState, limit: &str) -> String {
    let tokens = state.transcript.tokens();
    let what = alloc::format!("leaves too little for a request of about {tokens} tokens and its reply");
    describe(config, state, limit, &what)
}

/// Says of a limit, by its name, that what was reported is beyond it.
pub(crate) fn beyond(config: &AgentConfig, state: &AgentState, limit: &str) -> String {
    describe(config, state, limit, "is exceeded")
}

fn describe(config: &AgentConfig, state: &AgentState, limit: &str, what: &str) -> String {
    let (most, own, used) = if limit == "max_tokens" {
        let most = most(config, state).max_tokens.unwrap_or(0);
        let used = alloc::format!("{} tokens", state.usage.tokens());
        (alloc::format!("{most} tokens"), config.limits.max_tokens == Some(most), used)
    } else {
        let most = most(config, state).max_cost_nano_usd.unwrap_or(0);
        let used = dollars(state.usage.cost_nano_usd);
        (dollars(most), config.limits.max_cost_nano_usd == Some(most), used)
    };
    if own {
        alloc::format!("`limits.{limit}` ({most}) {what}: {used} are used")
    } else {
        alloc::format!("the `{limit}` that the calling run allows ({most}) {what}: {used} are used")
    }
}

fn dollars(nano_usd: u64) -> String {
    alloc::format!("{}.{:06} US dollars", nano_usd / 1_000_000_000, nano_usd % 1_000_000_000 / 1_000)
}

/// Names the limit that what was reported has gone beyond.
pub(crate) fn overrun(config: &AgentConfig, state: &AgentState) -> Option<&'static str> {
    let most = most(config, state);
    let usage = state.usage;
    if most.max_tokens.is_some_and(|most| usage.tokens() > most) {
        return Some("max_tokens");
    }
    most.max_cost_nano_usd.is_some_and(|most| usage.cost_nano_usd > most).then_some("max_cost_usd")
}

fn take(left: &mut Option<u64>, taken: u64) {
    if let Some(left) = left {
        *left = left.saturating_sub(taken);
    }
}
