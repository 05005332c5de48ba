//! The step itself: it goes through phases until something must be asked or the run is over.

use dalsegno_tools::HandoffTo;

use crate::action::{AgentAction, Continuation};
use crate::config::{AgentConfig, Mind, PlanStep, SEMANTICS, StepAction};
use crate::event::Signal;
use crate::join::Then;
use crate::phase::{self, Stop};
use crate::response::{RunError, RunErrorCode, Status};
use crate::state::{AgentState, Decision, Phase};

/// A driver that broke the protocol. Trouble inside a run is never an error: it is an outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutionError {
    /// The configuration asks for rules that this release does not have.
    #[error(
        "the configuration has semantics {found}, and this release knows 1 to {SEMANTICS}: use a newer release"
    )]
    UnknownSemantics {
        /// What the configuration asks for.
        found: u32,
    },
    /// The state belongs to an agent of another kind, or to another version of its plan.
    #[error(
        "the state waits for {expected}, which the configuration does not have: step it with its own configuration"
    )]
    WrongConfig {
        /// What the state expects.
        expected: &'static str,
    },
}

impl AgentState {
    /// The state once all that has come was looked at. A journal ends with what came last: a step that nothing followed is not in it.
    #[must_use]
    pub fn caught_up(&self, config: &AgentConfig) -> Self {
        let mut state = self.clone();
        while state.is_ready() && !state.is_over() {
            state = match execute_agent_step(config, state.clone()) {
                Ok(AgentAction::Complete { final_state, .. } | AgentAction::Handoff { final_state, .. }) => {
                    return final_state;
                }
                Ok(action) => action.into_continuation().state,
                Err(_) => return state,
            };
        }
        state
    }
}

/// Decides the next action. The same inputs give the same answer on every machine.
///
/// A state that waits for outcomes is asked for again, under the same ids; a state whose run is over completes again.
///
/// # Errors
/// Only when the driver broke the protocol: the state and the configuration do not belong together.
pub fn execute_agent_step(
    config: &AgentConfig,
    mut state: AgentState,
) -> Result<AgentAction, ExecutionError> {
    if config.semantics == 0 || config.semantics > SEMANTICS {
        return Err(ExecutionError::UnknownSemantics { found: config.semantics });
    }
    if state.is_over() {
        return Ok(AgentAction::request(Continuation::unchanged(state)));
    }
    if let Some(signal) = state.signal {
        state.decisions.clear();
        phase::end::abandon(config, &mut state);
        return Ok(complete(state, stopped_by(signal)));
    }
    if state.live().is_some() {
        return converse(config, state);
    }
    if !state.is_ready() {
        return Ok(AgentAction::request(Continuation::unchanged(state)));
    }
    if !state.is_settled() {
        return Ok(AgentAction::request(phase::declarative::advance(config, state)));
    }
    state.decisions.clear();
    if matches!(&state.phase, Phase::Waiting(join) if join.is_overfull()) {
        phase::end::abandon(config, &mut state);
        return Ok(complete(state, overfull(config)));
    }
    if let Some(handoff) = phase::declarative::fold(config, &mut state) {
        return Ok(hand_over(config, state, handoff));
    }
    loop {
        let phase = core::mem::replace(&mut state.phase, Phase::Start);
        let next = match (phase, &config.mind) {
            (Phase::Start, Mind::Model(mind)) if state.request.surface.is_some() => match &config.voice {
                Some(voice) => phase::live::begin(config, mind, voice, &mut state),
                None => return Err(ExecutionError::WrongConfig { expected: "`[voice]`" }),
            },
            (Phase::Start, Mind::Plan(_)) if state.request.surface.is_some() => {
                return Err(ExecutionError::WrongConfig { expected: "a model" });
            }
            (Phase::Start, Mind::Model(mind)) => phase::start::model(config, mind, &mut state),
            (Phase::Start, Mind::Plan(_)) => {
                state.phase = Phase::Plan { next: 0 };
                Ok(())
            }
            (Phase::Think, Mind::Model(mind)) => phase::think::ask(config, mind, &mut state),
            (Phase::Plan { next }, Mind::Plan(plan)) => phase::plan::advance(config, plan, next, &mut state),
            (Phase::Waiting(join), mind) => match (join.then, mind) {
                (Then::Recall, Mind::Model(mind)) => {
                    phase::start::recalled(config, mind, join.operations, &mut state)
                }
                (Then::Reply { last }, Mind::Model(mind)) => {
                    phase::think::replied(config, mind, last, join.operations, &mut state)
                }
                (Then::Calls { calls }, Mind::Model(mind)) => {
                    phase::calls::returned(config, mind, calls, join.operations, &mut state)
                }
                (Then::PlanStep { index, branches, fallback }, Mind::Plan(plan)) => {
                    let Some(step) = plan.steps.get(index) else {
                        return Err(ExecutionError::WrongConfig { expected: "a later plan step" });
                    };
                    let operations = join.operations;
                    if !phase::plan::has_branches(step, &branches, operations.len()) {
                        return Err(ExecutionError::WrongConfig {
                            expected: "other branches of a plan step",
                        });
                    }
                    phase::plan::returned(config, step, index, &branches, fallback, operations, &mut state)
                }
                (Then::Summary { until }, Mind::Model(mind)) => {
                    phase::compact::summarised(config, mind, until, join.operations, &mut state)
                }
                (Then::ForEach { index, concurrency, items, results, fallback }, Mind::Plan(plan)) => {
                    let Some(PlanStep { action: StepAction::ForEach(list), .. }) = plan.steps.get(index)
                    else {
                        return Err(ExecutionError::WrongConfig { expected: "a plan step over a list" });
                    };
                    let each = phase::plan::Each { index, concurrency, items, results, fallback };
                    if !each.is_for(join.operations.len()) {
                        return Err(ExecutionError::WrongConfig { expected: "other items of a list" });
                    }
                    phase::plan::each_returned(config, list, each, join.operations, &mut state)
                }
                // A call never comes here.
                (Then::Live(_), _) => return Err(ExecutionError::WrongConfig { expected: "a call" }),
                (
                    Then::Recall | Then::Reply { .. } | Then::Summary { .. } | Then::Calls { .. },
                    Mind::Plan(_),
                ) => {
                    return Err(ExecutionError::WrongConfig { expected: "a model" });
                }
                (Then::PlanStep { .. } | Then::ForEach { .. }, Mind::Model(_)) => {
                    return Err(ExecutionError::WrongConfig { expected: "a plan" });
                }
            },
            (Phase::Think, Mind::Plan(_)) => return Err(ExecutionError::WrongConfig { expected: "a model" }),
            (Phase::Plan { .. }, Mind::Model(_)) => {
                return Err(ExecutionError::WrongConfig { expected: "a plan" });
            }
            (over @ (Phase::Ended(_) | Phase::HandedOff(_)), _) => {
                state.phase = over;
                return Ok(AgentAction::request(Continuation::unchanged(state)));
            }
        };
        if let Err(stop) = next {
            return Ok(complete(state, stop));
        }
        if state.live().is_some() {
            return Ok(phase::live::converse(config, Continuation::begun(state)));
        }
        if !state.is_settled() {
            return Ok(AgentAction::request(Continuation::begun(state)));
        }
    }
}

/// A call takes what has come.
fn converse(config: &AgentConfig, mut state: AgentState) -> Result<AgentAction, ExecutionError> {
    let Some(voice) = &config.voice else {
        return Err(ExecutionError::WrongConfig { expected: "`[voice]`" });
    };
    if !state.is_ready() {
        return Ok(phase::live::converse(config, Continuation::unchanged(state)));
    }
    state.decisions.clear();
    let (continuation, stop) = phase::live::advance(config, voice, state);
    Ok(match stop {
        Some(stop) => complete(continuation.state, stop),
        None if continuation.state.is_over() => AgentAction::request(continuation),
        None => phase::live::converse(config, continuation),
    })
}

/// A declarative tool hands the session over; what its siblings brought is kept.
fn hand_over(config: &AgentConfig, mut state: AgentState, handoff: HandoffTo) -> AgentAction {
    phase::end::abandon(config, &mut state);
    let Some(target) = phase::declarative::target(config, &handoff) else {
        let message = alloc::format!("there is no agent `{}` to hand over to", handoff.target_agent);
        return complete(
            state,
            Stop::failed(RunErrorCode::AgentFailed, message, "correct the tool's document"),
        );
    };
    // Its message was said to the user, and is no request to the next agent.
    let message = handoff.message.filter(|_| !config.has_second_rules());
    match phase::end::handed_off(config, &mut state, target.clone(), message, None) {
        Ok(()) => AgentAction::request(Continuation::unchanged(state)),
        Err(stop) => complete(state, stop),
    }
}

fn stopped_by(signal: Signal) -> Stop {
    let (status, code, message, help) = match signal {
        Signal::Cancel => (
            Status::Cancelled,
            RunErrorCode::Cancelled,
            "the run was cancelled",
            "start a new run to try again",
        ),
        Signal::Deadline => (
            Status::Failed,
            RunErrorCode::Timeout,
            "the run's active time is used up",
            "raise `limits.timeout` in the agent file, or give the agent less to do",
        ),
    };
    Stop { status, error: RunError { code, message: message.into(), help: help.into() } }
}

fn overfull(config: &AgentConfig) -> Stop {
    let most = config.limits.max_state_bytes;
    Stop::failed(
        RunErrorCode::LimitExceeded,
        alloc::format!("what came of the step has more bytes than `limits.max_state` ({most}) has room for"),
        "ask for less at a time, such as a part of the list, or raise the limit in the agent file",
    )
}

/// Ends the run: with an error, and with whatever the agent has said so far.
fn complete(mut state: AgentState, stop: Stop) -> AgentAction {
    state.decide(Decision::End { reason: stop.error.message.clone() });
    let response = phase::end::stopped(&state, stop);
    state.phase = Phase::Ended(response.clone());
    AgentAction::Complete { response, final_state: state }
}
