//! A run that goes on where another one stands: the next of a session, or a fork.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::config::Budget;
use crate::event::Outcome;
use crate::id::{OperationId, RunId};
use crate::join::find;
use crate::live::Surface;
use crate::operation::GateState;
use crate::resume::ResumeError;
use crate::state::{AgentRequest, AgentState, Phase};
use crate::transcript::Entry;

/// A state from which no other run can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// Operations of its current step are not resolved.
    #[error("step {step} still waits for operations: fork at a step whose operations are all resolved")]
    Waiting {
        /// The step.
        step: u64,
    },
    /// The run is over there.
    #[error("it is over by then: fork it at an earlier step or turn")]
    Over,
}

impl AgentState {
    /// The same new run as the next of a session: it reads on in the transcript of the one before it.
    ///
    /// A call that never got its result gets one that says so, since providers refuse a transcript without.
    #[must_use]
    pub fn following(self, predecessor: &Self, by_handoff: bool) -> Self {
        self.inheriting(predecessor.taken_over(predecessor.transcript.clone(), by_handoff))
    }

    /// Turns this state into the beginning of another run, whose operations get ids of their own from here on. What
    /// was folded so far keeps its ids. With `ask_effects` a person is asked before each unsafe or keyed effect.
    ///
    /// # Errors
    /// When the state waits for something, or its run is over.
    pub fn fork(self, run: RunId, ask_effects: bool) -> Result<Self, ForkError> {
        if self.is_over() || self.signal.is_some() {
            return Err(ForkError::Over);
        }
        if !self.is_settled() {
            return Err(ForkError::Waiting { step: self.step });
        }
        Ok(self.forked(run, ask_effects))
    }

    /// Turns the state of a call into the beginning of another call, through this surface. It continues with what was said and
    /// done so far; nothing of what was under way continues, and the live model learns that results which it waits for
    /// do not follow. With `ask_effects` a person is asked before each unsafe or keyed effect.
    ///
    /// # Errors
    /// When the run is no call, or the call is over.
    pub fn fork_call(mut self, run: RunId, ask_effects: bool, surface: Surface) -> Result<Self, ForkError> {
        if matches!(self.phase, Phase::Start) && self.request.surface.is_some() && self.signal.is_none() {
            // Nothing of it has happened.
            self.request.surface = Some(surface);
            return Ok(self.forked(run, ask_effects));
        }
        let live = self.live().filter(|live| !live.is_ending() && live.closing.is_none());
        let Some(live) = live.filter(|_| self.signal.is_none()) else { return Err(ForkError::Over) };
        let late: Vec<String> =
            live.calls().iter().filter(|call| call.is_answered()).map(|call| call.name.clone()).collect();
        let talk = &live.talk;
        let is_awaited = talk.unspoken || talk.asked.is_some() || talk.turn_until.is_some();
        self.phase = Phase::Start;
        for name in late {
            self.transcript.push(Entry::User(format!("[The result of `{name}` does not follow.]")));
        }
        self.decisions.clear();
        self.inherited = self.transcript.len();
        // Before the first words there is nothing that it could continue: it greets.
        let said = |entry: &&Entry| !matches!(entry, Entry::Instructions(_));
        let last = self.transcript.iter().rev().find(said);
        self.continues_call = last.is_some();
        self.owes_words = is_awaited || matches!(last, Some(Entry::User(_) | Entry::ToolResult { .. }));
        self.request.surface = Some(surface);
        Ok(self.forked(run, ask_effects))
    }

    fn forked(mut self, run: RunId, ask_effects: bool) -> Self {
        self.namespace = run;
        self.ask_effects = ask_effects;
        // A fork opens a session of its own, and nobody waits for it.
        self.session = self.session.own();
        self
    }

    /// Lowers what the run may still use: to the smaller of this and what it might use until now, in each part.
    pub fn narrow(&mut self, budget: Budget) {
        self.budget = Some(self.budget.map_or(budget, |known| known.min(budget)));
    }

    /// What the run may use at most besides its own limits, if that is less.
    pub fn budget(&self) -> Option<Budget> {
        self.budget
    }

    /// The same state with what another request says of the tenant, its settings and the user. What was folded before
    /// stays as it was.
    #[must_use]
    pub fn on_behalf_of(mut self, request: &AgentRequest) -> Self {
        self.request.tenant.clone_from(&request.tenant);
        self.request.tenant_settings.clone_from(&request.tenant_settings);
        self.request.user.clone_from(&request.user);
        self
    }

    /// Gives a pending operation another outcome than the one it had in the run that is forked, whatever its gate says.
    ///
    /// # Errors
    /// When no operation of the current step has this id, or the outcome answers another kind of request. The state is
    /// as it was then.
    pub fn replace(&mut self, id: OperationId, outcome: Outcome) -> Result<(), ResumeError> {
        let outcome = outcome.bounded();
        let waited = self.waits(id);
        let join = self.join(id)?;
        let pending =
            find(&mut join.operations, id).ok_or(ResumeError::UnknownOperation { operation: id })?;
        if !pending.operation.request.accepts(&outcome) {
            let expected = pending.operation.request.label();
            return Err(ResumeError::WrongOutcome { operation: id, expected });
        }
        pending.operation.gate = GateState::Answered;
        let was_open = pending.outcome.is_none();
        let before = pending.outcome.as_ref().map_or(0, Outcome::size);
        if !join.is_overfull() {
            join.bytes = join.bytes.saturating_sub(before as u64);
        }
        join.drop_parts(id);
        join.settle(id, outcome);
        if was_open {
            self.arrived(id, waited);
        }
        Ok(())
    }
}
