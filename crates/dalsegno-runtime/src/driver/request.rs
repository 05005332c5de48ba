//! What the core asks for, written down, and what comes of it.

use dalsegno_core::{Event, Failure, FailureCode, Gate, GateState, Operation, OperationId, Outcome, Request};
use dalsegno_sandbox::Received;
use dalsegno_store::{AttemptCause, Body, NewRecord, Start};

use super::admit::Ask;
use super::{Driver, Input, Running, is_waiting, situation};
use crate::error::RunFailure;
use crate::policy;
use crate::policy::AttemptError;
use crate::progress::Progress;

/// How an operation begins.
enum Beginning {
    /// It has its outcome already.
    Over(Outcome),
    /// Somebody must answer first.
    Gate,
    /// The core performs it: it asks for its parts.
    Parts,
    /// As many of its step are under way as may be.
    Queue,
    /// It wants to start.
    Ask(Ask),
}

impl Driver {
    /// Writes down that a step's operations are requested, and starts those that do not wait.
    ///
    /// All requests stand before what comes of any of them: a fold checks them against what the core asks for.
    pub(super) fn request(&mut self, operations: Vec<Operation>) -> Result<(), RunFailure> {
        let at = self.now();
        let refusals: Vec<Option<Failure>> =
            operations.iter().map(|operation| self.refuse(operation)).collect();
        let state = self.machine.state();
        let most = state.concurrency().map_or(usize::MAX, |most| most as usize);
        let mut free = most.saturating_sub(self.under_way());
        let mut beginnings = Vec::with_capacity(operations.len());
        for (operation, refusal) in operations.iter().zip(refusals) {
            let beginning = match refusal {
                Some(failure) => Beginning::Over(Outcome::Failed(failure)),
                None if is_waiting(operation) => Beginning::Gate,
                None if operation.is_declarative() => Beginning::Parts,
                None => match self.kept(operation) {
                    Some(result) => Beginning::Over(Outcome::ToolReturned(result)),
                    None if free == 0 => Beginning::Queue,
                    None => Beginning::Ask(self.ask(operation)),
                },
            };
            let start = match beginning {
                Beginning::Ask(Ask::Start) => Start::Now,
                Beginning::Over(_)
                | Beginning::Gate
                | Beginning::Parts
                | Beginning::Queue
                | Beginning::Ask(_) => Start::Deferred,
            };
            free -= usize::from(matches!(beginning, Beginning::Ask(_)));
            let body = Body::Requested {
                step: self.machine.state().step(),
                ordinal: operation.ordinal.clone(),
                label: operation.request.label(),
                digest: operation.digest,
                class: operation.terms.class,
                start,
            };
            let record = NewRecord::of(at, operation.id, body);
            self.outbox.push(match self.machine.state().parent_of(operation.id) {
                Some(tool) => record.below(tool),
                None => record,
            });
            self.progress.insert(operation.id, Progress::requested(at, start));
            beginnings.push(beginning);
        }
        for (operation, beginning) in operations.into_iter().zip(beginnings) {
            match beginning {
                Beginning::Over(outcome) => self.record_outcome(operation.id, outcome)?,
                Beginning::Gate => {
                    if let GateState::Waiting(gate) = operation.gate {
                        self.outbox.push(NewRecord::of(at, operation.id, Body::Waiting { gate }));
                    }
                }
                Beginning::Parts => {}
                Beginning::Queue => self.queue.push_back((operation.id, AttemptCause::Queued)),
                Beginning::Ask(Ask::Start) => self.starting.push((operation.id, 1)),
                Beginning::Ask(Ask::Wait(wait)) => self.wait(operation.id, 1, AttemptCause::Queued, wait),
                Beginning::Ask(Ask::Refused(error)) => self.decide(operation.id, 1, None, error)?,
            }
        }
        self.fill()
    }

    /// Arguments that do not fit the tool: the call fails before anybody is asked or called. Those of a plan, and of a
    /// tool that stands in for another, have no verdict yet.
    pub(super) fn refuse(&self, operation: &Operation) -> Option<Failure> {
        let Request::ToolCall(call) = &operation.request else { return None };
        let violations = self.schemas.violations(&call.tool_name, &call.parameters);
        if violations.is_empty() {
            return None;
        }
        let message = "the arguments do not fit the tool's schema";
        Some(Failure { violations, ..Failure::new(FailureCode::InvalidArguments, message) })
    }

    /// Starts operations of the queue as long as fewer are under way than the step allows.
    pub(super) fn fill(&mut self) -> Result<(), RunFailure> {
        let most = self.machine.state().concurrency().map_or(usize::MAX, |most| most as usize);
        while let Some((operation, cause)) = self.queue.front().copied() {
            if self.stopping || self.ended.is_some() || self.under_way() >= most {
                return Ok(());
            }
            self.queue.pop_front();
            if self.is_missing(operation) {
                let attempts = self.progress.get(&operation).map_or(0, |progress| progress.attempts);
                self.admit(operation, attempts + 1, cause)?;
            }
        }
        Ok(())
    }

    /// How many operations of the step have started, or wait for their turn, and have neither an outcome nor a question.
    pub(super) fn under_way(&self) -> usize {
        let started = |operation: &&Operation| {
            let started = self.progress.get(&operation.id).is_some_and(|progress| progress.started);
            let busy = self.running.values().any(|running| running.operation == operation.id);
            !is_waiting(operation) && (started || busy || self.admitting.contains(&operation.id))
        };
        self.missing().filter(started).count()
    }

    /// Writes down a further attempt and starts it after the commit; while the run stops, it is put off.
    pub(super) fn attempt(&mut self, operation: OperationId, attempt: u32, cause: AttemptCause) {
        let at = self.now();
        let start = if self.stopping { Start::Deferred } else { Start::Now };
        self.outbox.push(NewRecord::of(at, operation, Body::Attempted { attempt, cause, start }));
        self.progress.entry(operation).or_default().attempted(at, attempt, cause, start);
        self.tasked.attempted(operation, cause);
        match start {
            Start::Now => self.starting.push((operation, attempt)),
            Start::Deferred => drop(self.permits.remove(&operation)),
        }
    }

    /// Takes an outcome, and steps when it was the last that was missing.
    pub(super) fn resolve(&mut self, operation: OperationId, outcome: Outcome) -> Result<(), RunFailure> {
        self.record_outcome(operation, outcome)?;
        self.fill()?;
        self.go_on()
    }

    pub(super) fn record_outcome(
        &mut self,
        operation: OperationId,
        outcome: Outcome,
    ) -> Result<(), RunFailure> {
        let mut outcome = self.presentable(outcome);
        let at = self.now();
        let progress = self.progress.get(&operation).copied().unwrap_or_default();
        // A kept result does not become younger when it stands for another call.
        if progress.started {
            self.keep(operation, &outcome);
        }
        let (attempts, mut elapsed_ms) = (progress.attempts, progress.elapsed_ms(at));
        match &mut outcome {
            Outcome::ModelReplied(reply) => reply.lost_attempts = progress.lost,
            Outcome::Failed(failure) => failure.lost_attempts = progress.lost,
            // Waiting for a time is no active time.
            Outcome::TimerFired => elapsed_ms = 0,
            _ => {}
        }
        let body = Body::Resolved { outcome: outcome.clone(), attempts, elapsed_ms };
        self.outbox.push(NewRecord::of(at, operation, body));
        self.resume(Event::outcome(at, operation, outcome))
    }

    /// An outcome as it may be recorded: bounded, and without secrets.
    pub(super) fn presentable(&self, outcome: Outcome) -> Outcome {
        let mut outcome = outcome.bounded();
        self.context.bindings.secrets().scrub(&mut outcome);
        outcome
    }

    /// Asks whether an effect took place.
    pub(super) fn open_doubt(&mut self, operation: OperationId, reason: String) -> Result<(), RunFailure> {
        let mut reason = reason;
        self.context.bindings.secrets().text(&mut reason);
        self.open_gate(operation, Gate::InDoubt { reason })
    }

    fn open_gate(&mut self, operation: OperationId, mut gate: Gate) -> Result<(), RunFailure> {
        self.context.bindings.secrets().scrub_gate(&mut gate);
        let at = self.now();
        self.progress.entry(operation).or_default().interpose(at);
        self.tasked.gated(operation, &gate);
        self.outbox.push(NewRecord::of(at, operation, Body::Waiting { gate: gate.clone() }));
        self.resume(Event::gated(at, operation, gate))
    }

    pub(super) fn resume(&mut self, event: Event) -> Result<(), RunFailure> {
        self.machine.resume(event).map_err(|error| self.defect(&error.to_string()))
    }

    /// Takes an attempt that brought no answer, and steps when nothing is missing any more.
    pub(super) fn unanswered(
        &mut self,
        id: OperationId,
        attempt: u32,
        unsent: Option<AttemptCause>,
        error: AttemptError,
    ) -> Result<(), RunFailure> {
        self.decide(id, attempt, unsent, error)?;
        self.fill()?;
        self.go_on()
    }

    /// Decides on an operation whose attempt brought no answer.
    pub(super) fn decide(
        &mut self,
        id: OperationId,
        attempt: u32,
        unsent: Option<AttemptCause>,
        error: AttemptError,
    ) -> Result<(), RunFailure> {
        let Some(operation) = self.missing().find(|operation| operation.id == id) else { return Ok(()) };
        let code = error.failure.code;
        tracing::debug!(run = %self.context.run, operation = %id, attempt, code = code.as_str(), "no answer");
        let progress = self.progress.get(&id).copied().unwrap_or_default();
        // An attempt that was not admitted is in no record: what is said of the one before it goes on to the next.
        let doubt = match unsent {
            Some(AttemptCause::Failed { possibly_received, .. }) => possibly_received,
            Some(AttemptCause::Recovered) => progress.started,
            Some(AttemptCause::Answered | AttemptCause::Queued) | None => false,
        };
        let possibly_received = doubt || error.received == Received::Possibly;
        let cause = AttemptCause::Failed { code, possibly_received };
        let mut now = situation(self.now(), &progress, attempt);
        now.doubtful |= doubt;
        // Of a call whose key it knows, the server has just said that it waits; of any other that may have been acted on
        // before, a person must know.
        let is_known = operation.terms.class.may_repeat();
        if let Some(gate) = &error.gate
            && (!now.doubtful || (is_known && matches!(**gate, Gate::Elicitation { .. })))
        {
            return self.open_gate(id, (**gate).clone());
        }
        match policy::after(id, &operation.terms, now, error) {
            policy::Verdict::Again(_) if self.stopping => {
                self.attempt(id, attempt + 1, cause);
                Ok(())
            }
            policy::Verdict::Again(pause) => {
                let attempt = attempt + 1;
                let pausing =
                    move |abort| Running { pause: Some(cause), ..Running::busy(id, attempt, true)(abort) };
                self.spawn(pausing, async move {
                    tokio::time::sleep(pause).await;
                    Input::Due { operation: id, attempt, cause }
                });
                Ok(())
            }
            policy::Verdict::Fail(failure) => self.record_outcome(id, Outcome::Failed(failure)),
            policy::Verdict::Ask(reason) => self.open_doubt(id, reason),
        }
    }

    /// Keeps an outcome that came after the run had ended.
    pub(super) fn record_late(&mut self, operation: OperationId, outcome: Outcome) {
        let outcome = self.presentable(outcome);
        self.outbox.push(NewRecord::of(self.now(), operation, Body::Late { outcome }));
    }
}
