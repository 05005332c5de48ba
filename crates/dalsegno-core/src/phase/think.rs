//! The model is asked, and its reply is taken.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::budget::{self, Reservation, Short, Shorter};
use super::{Stop, answer, calls, compact, end};
use crate::canonical::{Canonical, Digest};
use crate::config::{AgentConfig, ModelMind, ModelSettings, OnExceeded};
use crate::event::{FailureCode, Outcome};
use crate::join::{Pending, Then};
use crate::operation::{GateState, ModelCompletion, Purpose, Request, Terms, ToolChoice};
use crate::reply::{ModelReply, StopReason};
use crate::response::RunErrorCode;
use crate::state::{AgentState, Decision, Unusable};
use crate::transcript::Entry;

/// Asks the model, unless a limit is reached.
pub(crate) fn ask(config: &AgentConfig, mind: &ModelMind, state: &mut AgentState) -> Result<(), Stop> {
    let max = config.limits.max_steps;
    if state.step >= max {
        return exceeded(config, mind, alloc::format!("`limits.max_steps` ({max}) is reached"), state);
    }
    if compact::fit(config, mind, state)? {
        return Ok(());
    }
    match reserve(config, mind, Shorter::No, state) {
        Ok(reservation) => {
            state.decide(Decision::AskModel);
            let choice = choice(config, mind, state);
            request(config, mind, choice, reservation, false, state);
            Ok(())
        }
        Err(short @ Short::Limit(_)) => {
            let settings = settings(mind, state.model);
            let tokens = state.transcript.tokens();
            let limit = budget::too_little(config, state, settings, (short, Shorter::No), tokens);
            let help = if config.has_third_rules() { ROOM_FOR_THE_REPLY } else { OR_A_LAST_ANSWER };
            exceeded_for(config, mind, limit, help, state)
        }
        Err(short @ Short::NoPrice) => Err(short_stop(config, mind, short, Shorter::No, state)),
    }
}

fn short_stop(
    config: &AgentConfig,
    mind: &ModelMind,
    short: Short,
    shorter: Shorter,
    state: &AgentState,
) -> Stop {
    let (settings, tokens) = (settings(mind, state.model), state.transcript.tokens());
    let message = budget::too_little(config, state, settings, (short, shorter), tokens);
    Stop::failed(RunErrorCode::LimitExceeded, message, short.help())
}

/// Ends the run at a limit, or asks the model for a last answer.
pub(crate) fn exceeded(
    config: &AgentConfig,
    mind: &ModelMind,
    limit: String,
    state: &mut AgentState,
) -> Result<(), Stop> {
    exceeded_for(config, mind, limit, OR_A_LAST_ANSWER, state)
}

fn exceeded_for(
    config: &AgentConfig,
    mind: &ModelMind,
    limit: String,
    help: &str,
    state: &mut AgentState,
) -> Result<(), Stop> {
    match config.limits.on_exceeded {
        OnExceeded::Fail => Err(Stop::failed(RunErrorCode::LimitExceeded, limit, help)),
        OnExceeded::Answer => {
            let reservation = last_reservation(config, mind, state)?;
            state.decide(Decision::AskLast { limit });
            request(config, mind, ToolChoice::None, reservation, true, state);
            Ok(())
        }
    }
}

/// Makes room for a last answer, with tools off and as short as the limits demand.
fn last_reservation(
    config: &AgentConfig,
    mind: &ModelMind,
    state: &mut AgentState,
) -> Result<Reservation, Stop> {
    compact::cut(config, mind, state)?;
    reserve(config, mind, Shorter::Yes, state)
        .map_err(|short| short_stop(config, mind, short, Shorter::Yes, state))
}

/// Asks again for what the last reply did not bring.
pub(super) fn ask_again(
    config: &AgentConfig,
    mind: &ModelMind,
    last: bool,
    state: &mut AgentState,
) -> Result<(), Stop> {
    if !last {
        return ask(config, mind, state);
    }
    let reservation = last_reservation(config, mind, state)?;
    request(config, mind, ToolChoice::None, reservation, true, state);
    Ok(())
}

/// Says whether the steps allow to ask again. A last answer may exceed them by one, and `ask` looks for itself.
pub(super) fn may_ask_again(config: &AgentConfig, last: bool, state: &AgentState) -> bool {
    !last || state.step <= config.limits.max_steps
}

/// What to do about a limit where a last answer is no choice.
pub(crate) const RAISE_THE_LIMIT: &str = "raise the limit in the agent file, or give the agent less to do";

/// What to do about a budget that has no room.
pub(crate) const RAISE_THE_BUDGET: &str =
    "start the run again when the budget renews, or raise the budget in dalsegno.toml or the tenant's file";

/// What to do about a limit where the model could give a last answer.
const OR_A_LAST_ANSWER: &str = "raise the limit in the agent file, or set `limits.on_exceeded = \"answer\"` for a last answer without tools";

/// What to do about a limit that leaves too little for the longest reply.
const ROOM_FOR_THE_REPLY: &str = "set `max_output_tokens` of the agent's model to what a reply needs, raise the limit in the \
     agent file, or set `limits.on_exceeded = \"answer\"` for a last answer without tools";

pub(crate) fn limit_stop(limit: String) -> Stop {
    Stop::failed(RunErrorCode::LimitExceeded, limit, OR_A_LAST_ANSWER)
}

/// Whether the limits leave room for a reply.
///
/// # Errors
/// When they do not: the run ends with it.
pub(super) fn has_room(config: &AgentConfig, mind: &ModelMind, state: &AgentState) -> Result<(), Stop> {
    let reserved = reserve(config, mind, Shorter::No, state);
    reserved.map(|_| ()).map_err(|short| short_stop(config, mind, short, Shorter::No, state))
}

/// Sets aside what the next completion may take.
fn reserve(
    config: &AgentConfig,
    mind: &ModelMind,
    shorter: Shorter,
    state: &AgentState,
) -> Result<Reservation, Short> {
    let left = budget::left(config, state);
    budget::reserve_alone(settings(mind, state.model), state.transcript.tokens(), shorter, left)
}

/// Whether the next reply may call tools, as the model's settings say. A tool that the agent does not have cannot be called, so
/// any other will do.
fn choice(config: &AgentConfig, mind: &ModelMind, state: &AgentState) -> ToolChoice {
    let control = &settings(mind, state.model).control;
    let own = || state.transcript.has_reply_from(state.inherited);
    let first = control.first.as_ref().filter(|_| !own());
    match first.or(control.tool_choice.as_ref()) {
        None => ToolChoice::Auto,
        Some(ToolChoice::Tool(name)) if !config.tools.tools.contains_key(name) => ToolChoice::Required,
        Some(choice) => choice.clone(),
    }
}

fn request(
    config: &AgentConfig,
    mind: &ModelMind,
    tool_choice: ToolChoice,
    reservation: Reservation,
    last: bool,
    state: &mut AgentState,
) {
    let entries = state.transcript.len();
    let completion = ModelCompletion {
        new_from: state.asked,
        entries,
        chain: chain(mind, state),
        tool_choice,
        fallback: state.model,
        max_output_tokens: reservation.max_output_tokens,
        reserved: reservation.reserved,
        purpose: Purpose::Reply,
    };
    state.asked = entries;
    complete(config, mind, Then::Reply { last }, completion, reservation.retries, state);
}

/// Mints a completion with so many attempts after the first, and waits for it.
pub(super) fn complete(
    config: &AgentConfig,
    mind: &ModelMind,
    then: Then,
    completion: ModelCompletion,
    retries: u32,
    state: &mut AgentState,
) {
    let settings = settings(mind, completion.fallback);
    let terms = Terms { retries, ..Terms::patient(settings.timeout_ms) };
    let request = Request::ModelCompletion(Arc::new(completion));
    state.wait_for(config, then, vec![(request, terms, GateState::Open)]);
}

/// The digest of settings, tools and entries. The transcript's own covers the settings of the agent's first model; those
/// of another one come on top, so that a change to a model which is never asked changes nothing.
pub(super) fn chain(mind: &ModelMind, state: &AgentState) -> Digest {
    let chain = state.transcript.chain();
    if state.model == 0 {
        return chain;
    }
    let mut canonical = Canonical::new("fallback");
    canonical.bytes(chain.as_bytes());
    settings(mind, state.model).feed(&mut canonical);
    canonical.finish()
}

/// The settings of a model; those of the agent's own where a stored state names one that there is not.
pub(super) fn settings(mind: &ModelMind, fallback: u32) -> &ModelSettings {
    mind.settings(fallback).unwrap_or(&mind.model)
}

/// Takes the model's reply: an answer, or calls.
pub(crate) fn replied(
    config: &AgentConfig,
    mind: &ModelMind,
    last: bool,
    operations: Vec<Pending>,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let mut reply = match taken(mind, operations, state) {
        Ok(reply) => reply,
        Err(Failed { over_budget: Some(limit), .. }) if config.has_third_rules() => {
            return Err(Stop::failed(RunErrorCode::LimitExceeded, limit, RAISE_THE_BUDGET));
        }
        Err(failed) => {
            return if failed.final_ {
                Err(model_stop(mind, &failed.reason, state))
            } else {
                fall_back(config, mind, last, failed.reason, state)
            };
        }
    };
    let text = reply.text();
    let calls = reply.calls().next().is_some();
    let stop = reply.stop;
    // What the shell found has served once it is decided upon; the transcript is for the model.
    let validation = reply.output.take();
    if let Some(limit) = budget::overrun(config, state) {
        keep(reply, state);
        let limit = budget::beyond(config, state, limit);
        return Err(Stop::failed(RunErrorCode::LimitExceeded, limit, RAISE_THE_LIMIT));
    }
    if calls && !last && stop != StopReason::Refusal {
        state.transcript.push(Entry::Assistant(reply));
        // The entry is shared, so that its calls need no copies.
        let reply = state.transcript.last_reply();
        return calls::begin(config, mind, reply.iter().flat_map(|entry| entry.calls()).collect(), state);
    }
    let unusable = match stop {
        StopReason::Refusal => Some("the provider withheld the reply"),
        StopReason::End | StopReason::ToolCalls if text.is_empty() => Some("the model sent an empty reply"),
        StopReason::End | StopReason::ToolCalls | StopReason::Length => None,
    };
    if let Some(reason) = unusable {
        let next = mind.settings(state.model.saturating_add(1));
        if next.is_none() || !may_ask_again(config, last, state) {
            // The last reply that there is may hold something to show.
            keep(reply, state);
            if last && stop != StopReason::Refusal {
                let message = "a limit is reached, and the model gave no last answer";
                return Err(Stop::failed(RunErrorCode::LimitExceeded, message.into(), RAISE_THE_LIMIT));
            }
        }
        return fall_back(config, mind, last, reason.into(), state);
    }
    state.transcript.push(Entry::Assistant(reply));
    if let Some(output) = &mind.output
        && !text.is_empty()
    {
        return answer::judge(config, mind, output, last, validation, text, state);
    }
    if stop == StopReason::Length {
        return Err(Stop::failed(
            RunErrorCode::LimitExceeded,
            "the reply was cut off at its length limit".into(),
            "raise `max_output_tokens` of the agent's model, or ask for a shorter answer",
        ));
    }
    let text = end::spoken(state, text);
    end::completed(state, Some(text), "the model answered");
    Ok(())
}

/// Why there is no reply.
struct Failed {
    reason: String,
    /// No other model would do better.
    final_: bool,
    /// The limit, where a budget outside of the run has no room for the request.
    over_budget: Option<String>,
}

/// The reply that a completion brought, with what it took counted.
fn taken(mind: &ModelMind, operations: Vec<Pending>, state: &mut AgentState) -> Result<ModelReply, Failed> {
    let missing = || Failed { reason: "the reply is missing".into(), final_: true, over_budget: None };
    let pending = operations.into_iter().next().ok_or_else(missing)?;
    let Request::ModelCompletion(completion) = &pending.operation.request else { return Err(missing()) };
    let settings = settings(mind, completion.fallback);
    match pending.outcome {
        Some(Outcome::ModelReplied(reply)) => {
            state.usage.add(&budget::of_reply(settings, completion, &reply));
            Ok(reply)
        }
        Some(Outcome::Failed(failure)) => {
            state.usage.add(&budget::of_failure(settings, completion, &failure));
            let reason = alloc::format!("{}: {}", failure.code.as_str(), failure.message);
            let final_ = failure.code == FailureCode::InvalidArguments;
            let over_budget = failure.is_over_budget().then_some(failure.message);
            Err(Failed { reason, final_, over_budget })
        }
        Some(
            Outcome::MemoryFound(_)
            | Outcome::MemoryCreated(_)
            | Outcome::MemoryTraversed(_)
            | Outcome::ToolReturned(_)
            | Outcome::ApiAnswered(_)
            | Outcome::EmailSent(_)
            | Outcome::TransferRequested
            | Outcome::AgentReturned(_)
            | Outcome::InputGiven(_)
            | Outcome::TimerFired,
        )
        | None => Err(missing()),
    }
}

/// Takes the text of a summary's completion; none where it failed.
pub(super) fn summary(mind: &ModelMind, operations: Vec<Pending>, state: &mut AgentState) -> Option<String> {
    let reply = taken(mind, operations, state).ok()?;
    let text = String::from(reply.text().trim());
    (reply.stop != StopReason::Refusal && !text.is_empty()).then_some(text)
}

/// Keeps a reply that ends the run, if it says anything.
pub(super) fn keep(reply: ModelReply, state: &mut AgentState) {
    if reply.calls().next().is_some() || !reply.text().is_empty() {
        state.transcript.push(Entry::Assistant(reply));
    }
}

/// Goes on with the next model, or ends the run where there is none.
fn fall_back(
    config: &AgentConfig,
    mind: &ModelMind,
    last: bool,
    reason: String,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let next = state.model.saturating_add(1);
    let Some(to) = mind.settings(next).filter(|_| may_ask_again(config, last, state)) else {
        return Err(model_stop(mind, &reason, state));
    };
    let from = settings(mind, state.model).name.clone();
    if config.has_third_rules() {
        state.unusable.push(Unusable { model: from.clone(), reason: reason.clone() });
    }
    state.decide(Decision::FallBack { from, to: to.name.clone(), reason });
    state.model = next;
    ask_again(config, mind, last, state)
}

fn model_stop(mind: &ModelMind, reason: &str, state: &AgentState) -> Stop {
    let tried = (0..=state.model).filter_map(|model| mind.settings(model));
    let tried: Vec<String> = tried.map(|settings| alloc::format!("`{}`", settings.name)).collect();
    let message = match tried.as_slice() {
        [] | [_] => String::from(reason),
        _ if !state.unusable.is_empty() => {
            let before =
                state.unusable.iter().map(|Unusable { model, reason }| (model.as_str(), reason.as_str()));
            let last = (settings(mind, state.model).name.as_str(), reason);
            let each: Vec<String> =
                before.chain([last]).map(|(model, reason)| alloc::format!("`{model}`: {reason}")).collect();
            alloc::format!("none of the models gave a usable reply: {}", each.join("; "))
        }
        _ => alloc::format!(
            "none of the models {} gave a usable reply; the last one: {reason}",
            tried.join(", ")
        ),
    };
    Stop::failed(
        RunErrorCode::ModelFailed,
        message,
        "look at the model's settings in dalsegno.toml; `dalsegno show` has the recorded exchange",
    )
}
