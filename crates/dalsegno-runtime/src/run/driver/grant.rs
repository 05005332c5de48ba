//! What today's workspace takes away from a run that began before.

use dalsegno_core::{Gate, GateState, Operation, Outcome};
use dalsegno_store::{AttemptCause, Body, NewRecord};

use super::Driver;
use super::request::refused;
use crate::effects::policy::is_free;
use crate::error::RunFailure;
use crate::grant::Leave;

impl Driver {
    /// Says whether an operation may start under today's workspace. One that a person has agreed to needs no second yes.
    pub(super) fn granted(&self, operation: &Operation) -> Leave {
        let state = self.machine.state();
        let above = self.call_above(operation.id);
        let grant = &self.context.grant;
        let leave = grant.leave(&operation.request, above, state.step());
        let is_held_back = grant.is_held_back(&operation.request, above, operation.terms.class);
        let leave = if leave == Leave::Granted && is_held_back { Leave::Ask } else { leave };
        if leave != Leave::Ask {
            return leave;
        }
        let tool = state.parent_of(operation.id).unwrap_or(operation.id);
        let mut pending = state.pending().iter();
        let gate =
            pending.find(|pending| pending.operation.id == tool).map(|pending| &pending.operation.gate);
        match gate {
            Some(GateState::Open) if is_read(operation) => Leave::Granted,
            Some(GateState::Open) => Leave::Ask,
            Some(GateState::Waiting(_) | GateState::Answered) | None => Leave::Granted,
        }
    }

    /// Stops an operation that is about to be attempted, where today's workspace does not let it start. Says whether it
    /// was stopped.
    pub(super) fn hold_back(
        &mut self,
        operation: &Operation,
        cause: AttemptCause,
    ) -> Result<bool, RunFailure> {
        let progress = self.progress.get(&operation.id).copied().unwrap_or_default();
        let may_have_happened = !is_free(operation.terms.class)
            && match cause {
                // A person has said that it did not take place, or agreed to it.
                AttemptCause::Answered => false,
                AttemptCause::Queued => progress.doubtful,
                AttemptCause::Recovered => progress.doubtful || progress.started,
                AttemptCause::Failed { possibly_received, .. } => progress.doubtful || possibly_received,
            };
        match self.granted(operation) {
            Leave::Granted => Ok(false),
            // What may have taken place is settled first: a no would say that it did not.
            Leave::Ask if may_have_happened => Ok(false),
            Leave::Ask => self.open_gate(operation.id, Gate::Approval).map(|()| true),
            Leave::Refused(_, message) if may_have_happened => {
                self.open_doubt(operation.id, message).map(|()| true)
            }
            Leave::Refused(code, message) => {
                self.record_outcome(operation.id, Outcome::Failed(refused(code, message)))?;
                Ok(true)
            }
        }
    }

    /// Writes down that the workspace lets the run use less by now.
    pub(crate) fn narrow(&mut self) {
        let state = self.machine.state();
        let own = self.context.config.limits.budget();
        let until_now = state.budget().map_or(own, |budget| budget.min(own));
        if state.is_over() {
            return;
        }
        if let Some(budget) = self.context.grant.narrower(until_now) {
            self.outbox.push(NewRecord::new(self.now(), Body::Narrowed { budget }));
            self.machine.narrow(budget);
        }
    }
}

/// Says whether a part of a declarative tool changes nothing: its tool's approval is for what changes something.
fn is_read(operation: &Operation) -> bool {
    operation.terms.class == dalsegno_core::EffectClass::Read && operation.arguments().is_none()
}
