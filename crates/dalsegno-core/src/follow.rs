//! A run that goes on where another one stands: the next of a session, or a fork.

use crate::config::Budget;
use crate::event::Outcome;
use crate::id::{OperationId, RunId};
use crate::join::find;
use crate::operation::GateState;
use crate::resume::ResumeError;
use crate::state::{AgentRequest, AgentState};

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
    #[error("the run is over: fork at one of its steps")]
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
    pub fn fork(mut self, run: RunId, ask_effects: bool) -> Result<Self, ForkError> {
        if self.is_over() || self.signal.is_some() {
            return Err(ForkError::Over);
        }
        if !self.is_settled() {
            return Err(ForkError::Waiting { step: self.step });
        }
        self.namespace = run;
        self.ask_effects = ask_effects;
        // A fork opens a session of its own, and nobody waits for it.
        self.session = self.session.own();
        Ok(self)
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
        let join = self.join(id)?;
        let pending =
            find(&mut join.operations, id).ok_or(ResumeError::UnknownOperation { operation: id })?;
        if !pending.operation.request.accepts(&outcome) {
            let expected = pending.operation.request.label();
            return Err(ResumeError::WrongOutcome { operation: id, expected });
        }
        pending.operation.gate = GateState::Answered;
        let before = pending.outcome.as_ref().map_or(0, Outcome::size);
        if !join.is_overfull() {
            join.bytes = join.bytes.saturating_sub(before as u64);
        }
        join.drop_parts(id);
        join.settle(id, outcome);
        Ok(())
    }
}
