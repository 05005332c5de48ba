//! The end of a run: what ends with it, what is still under way, and how this process releases it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dalsegno_core::{
    Event, Failure, FailureCode, Gate, GateState, Operation, OperationId, Outcome, Request, Signal,
};
use dalsegno_history::{End, LeftOpen, child_run, is_indeterminate, is_unrepeatable};
use dalsegno_store::{Body, NewRecord, Start};

use super::running::Running;
use super::{Driver, Input, Successor};
use crate::effects::policy;
use crate::error::RunFailure;
use crate::run::handle::{RunEnd, RunReport};

/// What is recorded of an effect that is under way when its run ends, until its outcome is known.
const UNDER_WAY: &str = "it was under way when the run ended";

/// Who wants a run to end, and why.
#[derive(Debug, Default)]
pub(crate) struct Why {
    pub(crate) by: Option<String>,
    pub(crate) reason: Option<String>,
}

/// The end of a run, from the wish for it until all that was under way is over.
#[derive(Default)]
pub(super) struct Closing {
    /// Who wants the run to end, and why.
    pub(super) why: Why,
    /// The run is ended before anything else is done with it.
    pub(super) is_doomed: bool,
    /// The operations of child runs that are to end with this run.
    orphans: Vec<OperationId>,
    /// Effects that may not be repeated and whose outcome is unknown, once the run has ended.
    unsettled: BTreeSet<OperationId>,
    /// Operations that had no outcome when the run ended: the results of those under way are recorded as late.
    pub(super) left: BTreeMap<OperationId, Operation>,
}

/// Operations that were about to start when the run ended.
struct Withdrawn {
    /// No record says that they start.
    unwritten: BTreeSet<OperationId>,
    /// The journal says that they start.
    unsent: BTreeSet<OperationId>,
}

impl Driver {
    /// Has the run ended before anything else is done with it.
    pub(crate) fn doom(&mut self, why: Why) {
        self.closing.why = why;
        self.closing.is_doomed = true;
    }

    /// Ends the run because somebody wants it to end.
    pub(super) fn cancel(&mut self) -> Result<(), RunFailure> {
        if self.ended.is_some() || self.machine.state().is_over() {
            return Ok(());
        }
        self.signal(Signal::Cancel)
    }

    /// Ends the run because its time is used up.
    pub(super) fn end_by_deadline(&mut self) -> Result<(), RunFailure> {
        if self.ended.is_some() || self.machine.state().is_over() {
            return Ok(());
        }
        self.signal(Signal::Deadline)
    }

    /// Ends the run. An effect that is under way and may not be repeated finishes. Until its outcome is recorded, the journal
    /// says that it was under way, so that it is known to be in doubt should this process die. What a crash or a lost
    /// attempt left in doubt is recorded as well.
    fn signal(&mut self, signal: Signal) -> Result<(), RunFailure> {
        // How much of what has come a call had looked at is in no record: it looks at all of it.
        while self.machine.state().live().is_some() && self.machine.state().is_ready() {
            self.step()?;
        }
        if self.ended.is_some() {
            return Ok(());
        }
        let at = self.now();
        let Withdrawn { unwritten, unsent } = self.withdraw();
        self.questions.clear();
        let children = self.missing().filter(|operation| matches!(operation.request, Request::AgentCall(_)));
        self.closing.orphans = children.map(|operation| operation.id).collect();
        self.closing.left = self.missing().map(|operation| (operation.id, operation.clone())).collect();
        let idle: Vec<Operation> =
            self.missing().filter_map(|operation| self.idle_task(operation.id)).collect();
        // Its server will say what became of it.
        for operation in idle {
            self.release(operation, true);
        }
        let (unsent, open) = self.open_effects(&unwritten, &unsent);
        let Why { mut by, mut reason } = std::mem::take(&mut self.closing.why);
        for text in [&mut by, &mut reason].into_iter().flatten() {
            self.context.bindings.secrets().text(text);
        }
        // An attempt that waits to begin would reach the model or a tool while the end is written down.
        self.give_up_free();
        self.outbox.push(NewRecord::new(at, Body::Signalled { signal, by, reason }));
        self.resume(Event::signal(at, signal))?;
        self.step()?;
        for operation in unsent {
            let failure = Failure::new(FailureCode::Cancelled, "the run ended before it started");
            self.record_late(operation, Outcome::Failed(failure));
        }
        self.closing.unsettled.extend(open.iter().map(|(operation, _)| *operation));
        for (operation, is_under_way) in open {
            let reason =
                if is_under_way { UNDER_WAY } else { "the run ended before an outcome was recorded" };
            self.record_late(operation, Outcome::Failed(policy::indeterminate(reason)));
        }
        Ok(())
    }

    /// Takes back what was to start with the next commit, or after the last one: none of it has begun.
    fn withdraw(&mut self) -> Withdrawn {
        let mut unsent: BTreeSet<OperationId> = self.flights.withdraw().into_iter().collect();
        let mut unwritten = BTreeSet::new();
        self.outbox.retain_mut(|record| {
            let Some(operation) = record.operation.filter(|operation| unsent.contains(operation)) else {
                return true;
            };
            match &mut record.body {
                Body::Attempted { start: Start::Now, .. } => {
                    unwritten.insert(operation);
                    false
                }
                Body::Requested { start, .. } if *start == Start::Now => {
                    *start = Start::Deferred;
                    unwritten.insert(operation);
                    true
                }
                _ => true,
            }
        });
        unsent.retain(|operation| !unwritten.contains(operation));
        Withdrawn { unwritten, unsent }
    }

    /// The effects that may not be repeated and that the journal says have begun: those that were never sent, and those
    /// that are open, each with whether its outcome is still to come.
    fn open_effects(
        &self,
        unwritten: &BTreeSet<OperationId>,
        unsent: &BTreeSet<OperationId>,
    ) -> (Vec<OperationId>, Vec<(OperationId, bool)>) {
        let released = self.released();
        let mut never = Vec::new();
        let unrepeatable = self.missing().filter(|operation| is_unrepeatable(operation.terms.class));
        let open = unrepeatable.filter_map(|operation| {
            let id = operation.id;
            let progress = self.progress.get(&id)?;
            let started = progress.started && !unwritten.contains(&id);
            if released.contains(&id) {
                return Some((id, true));
            }
            // One that was put off after an attempt in doubt is in doubt still.
            if !started && !progress.doubtful {
                return None;
            }
            // Its attempt ended with the question, and nothing took place.
            let asks =
                matches!(&operation.gate, GateState::Waiting(gate) if !matches!(gate, Gate::InDoubt { .. }));
            if asks && !progress.doubtful {
                return None;
            }
            if unsent.contains(&id) && !progress.doubtful {
                never.push(id);
                return None;
            }
            match self.running.of(id).next() {
                None => Some((id, false)),
                Some(running) if running.pause.is_none() => Some((id, true)),
                Some(running) if progress.doubtful || running.may_be_lost() => Some((id, false)),
                // Its last attempt was certainly not received.
                Some(_) => None,
            }
        });
        let open = open.collect();
        (never, open)
    }

    /// Records what came of an effect after the run had ended. A repeated word replaces the one before.
    pub(super) fn record_late(&mut self, operation: OperationId, outcome: Outcome) {
        let mut outcome = self.presentable(outcome);
        if let Outcome::ToolReturned(returned) = &mut outcome {
            // No model reads it any more.
            returned.files.clear();
        }
        if !is_indeterminate(&outcome) {
            self.closing.unsettled.remove(&operation);
        }
        let open = u32::try_from(self.closing.unsettled.len()).unwrap_or(u32::MAX);
        self.outbox.push(NewRecord::of(self.now(), operation, Body::Late { outcome, open, by: None }));
    }

    /// Resumes a run that has ended and whose process died while effects were under way. Nothing is performed: the server
    /// of a task is asked what became of it, and everything else is in doubt until a person settles it.
    pub(crate) fn take_up_end(&mut self, left: LeftOpen) {
        self.closing.unsettled = left.in_doubt.keys().copied().collect();
        for (id, (operation, reason)) in left.in_doubt {
            self.closing.left.insert(id, operation.clone());
            if self.remote.tasked.get(id).is_some() {
                self.release(operation, true);
            } else if reason.contains(UNDER_WAY) {
                let failure = policy::indeterminate("the process ended before an outcome was recorded");
                self.record_late(id, Outcome::Failed(failure));
            }
        }
    }

    /// Ends the child runs that this process does not perform, after the commit that ends the run. Should it die before,
    /// the same commit has told them.
    pub(super) fn end_children(&mut self) {
        for id in std::mem::take(&mut self.closing.orphans) {
            if self.running.has(id) {
                // It is told to end where it runs.
                continue;
            }
            let runs = Arc::clone(&self.context.runs);
            self.running.spawn(Running::busy(id, 1, false), async move {
                runs.end_below(child_run(id)).await;
                Input::Look
            });
        }
    }

    /// Releases the run and says how it stands.
    pub(super) async fn leave(self) -> Result<(RunReport, Option<Successor>), RunFailure> {
        let run = self.context.run;
        let end = match self.ended.clone() {
            Some(End::Response(response)) => RunEnd::Ended(response),
            // The run that goes on says how it ends.
            Some(End::Handoff(_)) => RunEnd::Interrupted,
            None if self.trouble.is_none()
                && let Some(pause) = self.standstill.written() =>
            {
                RunEnd::Paused { pause: pause.clone(), waiting: self.waiting() }
            }
            None if self.stopping => RunEnd::Interrupted,
            None => RunEnd::Suspended {
                waiting: self.waiting(),
                wake_at: self.wake_at(),
                answer_by: self.answer_by(),
            },
        };
        let state = self.machine.state();
        let (steps, usage) = (state.step(), state.usage());
        self.context.sessions.close().await;
        self.context.ports.release(self.lease).await?;
        if let Some(source) = self.trouble {
            return Err(RunFailure::Child { run, source: Box::new(source) });
        }
        let agent = self.context.config.name.clone();
        Ok((RunReport { run, agent, end, steps, usage, before: Vec::new() }, self.handover.successor()))
    }

    /// Releases a run that cannot be performed here, so that another process may resume it: this one lives, and would keep
    /// it.
    pub(super) async fn abandon(mut self) {
        self.running.shut_down().await;
        self.context.sessions.close().await;
        let run = self.context.run;
        if let Err(error) = self.context.ports.release(self.lease).await {
            tracing::debug!(%run, %error, "the run is not released");
        }
    }
}
