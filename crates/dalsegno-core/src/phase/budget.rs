//! What a run may still use, and what is set aside before a request leaves.
//!
//! Before a model is asked, the estimated tokens of the request and the most that the reply may take are set aside, for
//! each attempt that the operation's terms allow; before a child run starts, the smaller of its own limits and a fair
//! share of what is left. Where operations of one step want more than there is, each completion has its first attempt,
//! then they have their further ones in request order, then child runs share the rest.
//!
//! What is set aside together never exceeds what is left, so the limits hold whatever comes back, as far as the estimate
//! does; see [`estimate_tokens`](crate::estimate_tokens). What is not used is free again at the join, since only what
//! was reported is counted.
//!
//! A request that brought no reply is charged with all that was set aside for it where it may have been received (see
//! [`of_failure`]): the provider may have counted it, and no answer says how much. So is a reply that the provider did not count, and
//! so are completions and child runs that are under way when the run ends.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::think;
use crate::config::{AgentConfig, Budget, Cost, Mind, ModelSettings, Price};
use crate::event::{Failure, FailureCode, Outcome};
use crate::join::{Join, Pending};
use crate::live::{LiveTokens, Surface};
use crate::operation::{AgentCall, ModelCompletion, Operation, Request, Reserved, Terms};
use crate::reply::ModelReply;
use crate::response::Usage;
use crate::state::{AgentRequest, AgentState};

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

/// What the run may still use beside what is set aside for the operations of the step that is under way.
pub(crate) fn spare(config: &AgentConfig, state: &AgentState, join: &Join) -> Budget {
    let mut left = left(config, state);
    for Pending { operation, .. } in &join.operations {
        let (calls, tokens, cost) = match &operation.request {
            Request::AgentCall(call) => {
                let Budget { max_tool_calls, max_tokens, max_cost_nano_usd } = call.budget;
                (max_tool_calls, max_tokens.unwrap_or(0), max_cost_nano_usd.unwrap_or(0))
            }
            Request::ModelCompletion(completion) => {
                let (tokens, cost) = attempts(config, completion, operation.terms.retries.saturating_add(1));
                (0, tokens, cost)
            }
            Request::MemorySearch(_)
            | Request::MemoryCreate(_)
            | Request::MemoryTraverse(_)
            | Request::ToolCall(_)
            | Request::ApiCall(_)
            | Request::Email(_)
            | Request::Transfer(_)
            | Request::Input(_)
            | Request::Timer(_) => continue,
        };
        left.max_tool_calls = left.max_tool_calls.saturating_sub(calls);
        take(&mut left.max_tokens, tokens);
        take(&mut left.max_cost_nano_usd, cost);
    }
    left
}

/// The tokens and the cost that are set aside for so many attempts of a completion.
fn attempts(config: &AgentConfig, completion: &ModelCompletion, count: u32) -> (u64, u64) {
    let Reserved { input_tokens, output_tokens } = completion.reserved;
    let price = completion.settings(config).ok().and_then(|settings| settings.price.as_ref());
    let cost = price.map_or(0, |price| price.most_nano_usd(input_tokens, output_tokens));
    let count = u64::from(count);
    (input_tokens.saturating_add(output_tokens).saturating_mul(count), cost.saturating_mul(count))
}

/// Says whether a completion may be asked for once more after `lost` attempts, each of which may be paid for: those that
/// its terms allow are set aside, and any further one needs room of its own.
pub(crate) fn has_room(
    config: &AgentConfig,
    state: &AgentState,
    join: &Join,
    operation: &Operation,
    lost: u32,
) -> bool {
    let Request::ModelCompletion(completion) = &operation.request else { return true };
    let further = lost.saturating_sub(operation.terms.retries);
    if further == 0 {
        return true;
    }
    let (tokens, cost) = attempts(config, completion, further);
    let spare = spare(config, state, join);
    spare.max_tokens.is_none_or(|left| tokens <= left)
        && spare.max_cost_nano_usd.is_none_or(|left| cost <= left)
}

/// Lowers what the child runs among these requests may use, their own limits until now, to a fair share of what is left.
///
/// Those that want the least come first, and each has what it wants or the part of what is left that falls to it, rounded
/// down: so none gets less than another but by its own limit or by what cannot be divided, and nothing stays behind that
/// one of them could use. Where a part is not bounded for this run, each keeps its own limit.
pub(crate) fn share<'r>(requests: impl Iterator<Item = &'r mut Request>, left: Budget) {
    let children = requests.filter_map(|request| match request {
        Request::AgentCall(call) => Some(&mut Arc::make_mut(call).budget),
        Request::ModelCompletion(_)
        | Request::MemorySearch(_)
        | Request::MemoryCreate(_)
        | Request::MemoryTraverse(_)
        | Request::ToolCall(_)
        | Request::ApiCall(_)
        | Request::Email(_)
        | Request::Transfer(_)
        | Request::Input(_)
        | Request::Timer(_) => None,
    });
    let children: Vec<&mut Budget> = children.collect();
    let calls = children.iter().map(|budget| Some(budget.max_tool_calls));
    let calls = shares(Some(left.max_tool_calls), calls.collect());
    let tokens = shares(left.max_tokens, children.iter().map(|budget| budget.max_tokens).collect());
    let cost = children.iter().map(|budget| budget.max_cost_nano_usd);
    let cost = shares(left.max_cost_nano_usd, cost.collect());
    for (((budget, calls), max_tokens), max_cost_nano_usd) in
        children.into_iter().zip(calls).zip(tokens).zip(cost)
    {
        *budget = Budget { max_tool_calls: calls.unwrap_or(0), max_tokens, max_cost_nano_usd };
    }
}

/// Lowers what is wanted to parts of what is left; where nothing is bounded, each may have what it wants.
fn shares(left: Option<u64>, mut wanted: Vec<Option<u64>>) -> Vec<Option<u64>> {
    let Some(mut left) = left else { return wanted };
    let mut parts: Vec<&mut Option<u64>> = wanted.iter_mut().collect();
    parts.sort_by_key(|part| part.unwrap_or(u64::MAX));
    let mut waiting = parts.len() as u64;
    for part in parts {
        let share = part.unwrap_or(u64::MAX).min(left / waiting);
        *part = Some(share);
        left -= share;
        waiting -= 1;
    }
    wanted
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
    /// Attempts after the first.
    pub(crate) retries: u32,
}

/// Why nothing can be set aside for a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Short {
    /// The limit of this name leaves too little.
    Limit(&'static str),
    /// The cost is limited, and nobody knows what the model costs.
    NoPrice,
}

impl Short {
    /// What to do about it where a last answer is no choice.
    pub(crate) const fn help(self) -> &'static str {
        match self {
            Self::Limit(_) => think::RAISE_THE_LIMIT,
            Self::NoPrice => "give the model its price in dalsegno.toml, or take the limit of the cost out",
        }
    }
}

/// Sets aside what a completion may take that is alone in its step: as many attempts as fit, one at least.
pub(crate) fn reserve_alone(
    settings: &ModelSettings,
    input_tokens: u64,
    shorter: Shorter,
    mut left: Budget,
) -> Result<Reservation, Short> {
    let reservation = reserve(settings, input_tokens, shorter, &mut left)?;
    let retries = retries(settings, reservation.reserved, &mut left);
    Ok(Reservation { retries, ..reservation })
}

/// Sets aside further attempts of a completion, as many as the settings and what is left allow.
pub(crate) fn retries(settings: &ModelSettings, reserved: Reserved, left: &mut Budget) -> u32 {
    let Reserved { input_tokens, output_tokens } = reserved;
    let tokens = input_tokens.saturating_add(output_tokens);
    let cost = most_nano_usd(settings, input_tokens, output_tokens);
    let fit = |left: Option<u64>, each: u64| left.and_then(|left| left.checked_div(each)).unwrap_or(u64::MAX);
    let most = fit(left.max_tokens, tokens).min(fit(left.max_cost_nano_usd, cost));
    let retries = u32::try_from(most).unwrap_or(u32::MAX).min(settings.retries);
    take(&mut left.max_tokens, tokens.saturating_mul(u64::from(retries)));
    take(&mut left.max_cost_nano_usd, cost.saturating_mul(u64::from(retries)));
    retries
}

/// Sets aside what the first attempt of a completion may take.
pub(crate) fn reserve(
    settings: &ModelSettings,
    input_tokens: u64,
    shorter: Shorter,
    left: &mut Budget,
) -> Result<Reservation, Short> {
    let want = settings.max_output_tokens.unwrap_or(OUTPUT_TOKENS);
    let retries = settings.retries;
    if left.max_tokens.is_none() && left.max_cost_nano_usd.is_none() {
        // Nothing has to hold, so nothing is set aside, and nothing that was not reported is counted.
        return Ok(Reservation { reserved: Reserved::default(), max_output_tokens: None, retries });
    }
    let least = match shorter {
        Shorter::No => want,
        Shorter::Yes => want.min(LEAST_OUTPUT_TOKENS),
    };
    let by_tokens = left.max_tokens.map_or(u64::MAX, |tokens| tokens.saturating_sub(input_tokens));
    if by_tokens < u64::from(least) {
        return Err(Short::Limit("max_tokens"));
    }
    let by_cost = match (left.max_cost_nano_usd, &settings.price) {
        (Some(cost), Some(price)) => match cost.checked_sub(price.most_nano_usd(input_tokens, 0)) {
            Some(rest) => {
                let rate = price.rates(input_tokens).output;
                rest.saturating_mul(1_000).checked_div(rate).unwrap_or(u64::MAX)
            }
            None => 0,
        },
        (Some(_), None) => return Err(Short::NoPrice),
        (None, _) => u64::MAX,
    };
    if by_cost < u64::from(least.max(1)) {
        return Err(Short::Limit("max_cost_usd"));
    }
    let output = u64::from(want).min(by_tokens).min(by_cost);
    let reserved = Reserved { input_tokens, output_tokens: output };
    take(&mut left.max_tokens, input_tokens.saturating_add(output));
    take(&mut left.max_cost_nano_usd, most_nano_usd(settings, input_tokens, output));
    // It is no more than what was wanted, which is a u32.
    let max_output_tokens =
        u32::try_from(output).ok().filter(|most| settings.max_output_tokens != Some(*most));
    Ok(Reservation { reserved, max_output_tokens, retries })
}

/// The most that one attempt of so many tokens may cost.
fn most_nano_usd(settings: &ModelSettings, input_tokens: u64, output_tokens: u64) -> u64 {
    settings.price.as_ref().map_or(0, |price| price.most_nano_usd(input_tokens, output_tokens))
}

/// What a reply took, and what attempts before it may have taken. One that the provider did not count takes what was set aside for it, or
/// what it is estimated at where nothing was.
pub(crate) fn of_reply(settings: &ModelSettings, completion: &ModelCompletion, reply: &ModelReply) -> Usage {
    let set_aside = completion.reserved;
    // No request takes nothing: its provider does not count.
    let is_counted = !reply.estimated && (reply.input_tokens, reply.output_tokens) != (0, 0);
    let own = if is_counted || set_aside == Reserved::default() {
        let (input, output) = (reply.input_tokens, reply.output_tokens);
        let cost = settings.price.as_ref().map(|price| price.cost(input, output, &reply.details));
        Taken { input, output, cost: cost.unwrap_or_default() }
    } else {
        Taken::set_aside(settings, set_aside, 1)
    };
    let mut usage =
        own.plus(Taken::set_aside(settings, set_aside, u64::from(reply.lost_attempts))).into_usage();
    usage.model_calls = 1;
    usage.details = reply.details;
    if reply.estimated {
        usage.estimated_tokens = own.input.saturating_add(own.output);
        usage.estimated_cost_nano_usd = own.cost.nano_usd();
    }
    usage
}

/// What a response of a live model took, by the price of its line when it was counted, else by the price that is known.
fn of_response(price: Option<&Price>, tokens: &LiveTokens) -> Usage {
    let LiveTokens { input, output, details, audio: _, estimated, cost_nano_usd } = *tokens;
    let cost = price.map(|price| price.cost(input, output, &details)).unwrap_or_default();
    let mut usage = Taken { input, output, cost }.into_usage();
    usage.cost_nano_usd = cost_nano_usd.unwrap_or(usage.cost_nano_usd);
    usage.model_calls = 1;
    usage.details = details;
    if estimated {
        usage.estimated_tokens = input.saturating_add(output);
        usage.estimated_cost_nano_usd = usage.cost_nano_usd;
    }
    usage
}

/// What a completion without a reply may have taken: all that was set aside, unless the failure says that the provider did
/// not process the request.
pub(crate) fn of_failure(settings: &ModelSettings, completion: &ModelCompletion, failure: &Failure) -> Usage {
    let received = match failure.code {
        FailureCode::Timeout
        | FailureCode::Protocol
        | FailureCode::NotPermitted
        | FailureCode::Indeterminate
        | FailureCode::ResultUnreadable
        | FailureCode::LimitExceeded
        | FailureCode::InvalidOutput => !failure.unsent,
        FailureCode::Unavailable
        | FailureCode::Overloaded
        | FailureCode::ToolFailed
        | FailureCode::InvalidArguments
        | FailureCode::Denied
        | FailureCode::AgentFailed
        | FailureCode::CrashLoop
        | FailureCode::Cancelled
        | FailureCode::Internal => false,
    };
    let attempts = u64::from(failure.lost_attempts).saturating_add(u64::from(received));
    Taken::set_aside(settings, completion.reserved, attempts).into_usage()
}

/// What a completion may take that nobody waits for any more: which of its attempts is under way, nobody says.
pub(crate) fn of_lost(settings: &ModelSettings, completion: &ModelCompletion, terms: &Terms) -> Usage {
    let attempts = u64::from(terms.retries).saturating_add(1);
    Taken::set_aside(settings, completion.reserved, attempts).into_usage()
}

/// Counts what a child run may use that nobody waits for any more, as far as it is bounded. Nobody knows which of its
/// tokens are received ones: all count as sent.
pub(crate) fn charge_child(state: &mut AgentState, call: &AgentCall) {
    let Budget { max_tool_calls, max_tokens, max_cost_nano_usd } = call.budget;
    state.usage.add(&Usage {
        tool_calls: max_tool_calls,
        input_tokens: max_tokens.unwrap_or(0),
        cost_nano_usd: max_cost_nano_usd.unwrap_or(0),
        ..Usage::default()
    });
}

impl AgentConfig {
    /// What a response of the live model counts in the usage of the call that this request began, and whether its price is known.
    pub fn usage_of_response(&self, request: &AgentRequest, tokens: &LiveTokens) -> (Usage, bool) {
        let own = match &self.mind {
            Mind::Model(mind) if request.surface == Some(Surface::Model) => mind.model.price.as_ref(),
            Mind::Model(_) | Mind::Plan(_) => None,
        };
        (of_response(own, tokens), own.is_some() || tokens.cost_nano_usd.is_some())
    }

    /// What a model completion of this agent counts in the usage of its run: by its outcome, or, without one, when the run
    /// ends while it is under way. Nothing for other operations.
    pub fn usage_of(&self, operation: &Operation, outcome: Option<&Outcome>) -> Usage {
        let Request::ModelCompletion(completion) = &operation.request else { return Usage::default() };
        let Ok(settings) = completion.settings(self) else { return Usage::default() };
        match outcome {
            Some(Outcome::ModelReplied(reply)) => of_reply(settings, completion, reply),
            Some(Outcome::Failed(failure)) => of_failure(settings, completion, failure),
            Some(_) => Usage::default(),
            None => of_lost(settings, completion, &operation.terms),
        }
    }
}

/// What requests took.
#[derive(Debug, Clone, Copy)]
struct Taken {
    input: u64,
    output: u64,
    cost: Cost,
}

impl Taken {
    /// What was set aside for so many attempts.
    fn set_aside(settings: &ModelSettings, each: Reserved, attempts: u64) -> Self {
        let Reserved { input_tokens, output_tokens } = each;
        let cost = settings.price.as_ref().map(|price| price.most(input_tokens, output_tokens));
        Self {
            input: input_tokens.saturating_mul(attempts),
            output: output_tokens.saturating_mul(attempts),
            cost: cost.unwrap_or_default().times(attempts),
        }
    }

    const fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cost: self.cost.plus(other.cost),
        }
    }

    fn into_usage(self) -> Usage {
        let Self { input: input_tokens, output: output_tokens, cost } = self;
        Usage { input_tokens, output_tokens, cost_nano_usd: cost.nano_usd(), ..Usage::default() }
    }
}

/// Says why nothing can be set aside for a request of so many tokens and a reply of this model.
pub(crate) fn too_little(
    config: &AgentConfig,
    state: &AgentState,
    settings: &ModelSettings,
    (short, shorter): (Short, Shorter),
    input_tokens: u64,
) -> String {
    let limit = match short {
        Short::Limit(limit) => limit,
        Short::NoPrice => {
            return alloc::format!("the cost is limited, and the model `{}` has no price", settings.name);
        }
    };
    let (tokens, reply) = match config.has_third_rules() {
        true => (input_tokens, reply(settings, shorter)),
        false => (state.transcript.tokens(), "its reply".into()),
    };
    let what = alloc::format!("leaves too little for a request of about {tokens} tokens and {reply}");
    describe(config, state, limit, &what)
}

/// The reply that a limit must have room for, and where its size comes from.
fn reply(settings: &ModelSettings, shorter: Shorter) -> String {
    match (shorter, settings.max_output_tokens) {
        (Shorter::Yes, most) => {
            alloc::format!("a reply of {} tokens", most.unwrap_or(OUTPUT_TOKENS).min(LEAST_OUTPUT_TOKENS))
        }
        (Shorter::No, Some(most)) => alloc::format!("a reply of {most} tokens (`max_output_tokens`)"),
        (Shorter::No, None) => alloc::format!(
            "a reply of {OUTPUT_TOKENS} tokens, which is reckoned where `max_output_tokens` is not set"
        ),
    }
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
