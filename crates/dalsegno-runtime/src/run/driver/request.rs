//! What the core asks for, written down, and what comes of it.

use dalsegno_core::Received;
use dalsegno_core::{Event, Failure, FailureCode, Gate, GateState, Operation, OperationId, Outcome, Request};
use dalsegno_history::{Progress, Situation};
use dalsegno_store::{AttemptCause, Body, NewRecord, Start};

use super::admit::Ask;
use super::running::Running;
use super::{Driver, Input, is_waiting};
use crate::effects::dispatch::Permit;
use crate::effects::failure::AttemptError;
use crate::effects::policy;
use crate::effects::policy::{Effect, RetryDecision};
use crate::error::RunFailure;
use crate::grant::Leave;

/// How an operation begins.
enum Beginning {
    /// It has its outcome already.
    Over(Outcome),
    /// Somebody must answer first.
    Gate,
    /// The same, since today's workspace says so.
    Approval,
    /// The core performs it: it asks for its parts.
    Parts,
    /// As many of its step are under way as may be.
    Queue,
    /// It wants to start.
    Ask(Ask),
}

/// Most characters that are recorded of the message with which an attempt failed.
const REASON_MAX: usize = 2_000;

/// What the workspace of today does not let start: nothing was sent, and nothing is paid for it. Of a limit the core would take
/// `unsent` for a budget of the workspace that has no room.
pub(super) fn refused(code: FailureCode, message: String) -> Failure {
    Failure { unsent: code != FailureCode::LimitExceeded, ..Failure::new(code, message) }
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
            let (refusal, asks) = match self.granted(operation) {
                Leave::Refused(code, message) => (Some(refused(code, message)), false),
                leave => (refusal, leave == Leave::Ask),
            };
            let beginning = match refusal {
                Some(failure) => Beginning::Over(Outcome::Failed(failure)),
                None if is_waiting(operation) => Beginning::Gate,
                None if asks => Beginning::Approval,
                None if operation.is_declarative() => Beginning::Parts,
                None => match self.kept(operation) {
                    Some((result, files)) => {
                        self.context.files.put(operation.id, files);
                        Beginning::Over(Outcome::ToolReturned(result))
                    }
                    None if free == 0 => Beginning::Queue,
                    None => Beginning::Ask(self.ask(operation)),
                },
            };
            let start = match beginning {
                Beginning::Ask(Ask::Start(_)) => Start::Now,
                Beginning::Over(_)
                | Beginning::Gate
                | Beginning::Approval
                | Beginning::Parts
                | Beginning::Queue
                | Beginning::Ask(_) => Start::Deferred,
            };
            free -= usize::from(matches!(beginning, Beginning::Ask(_)));
            let body = Body::Requested {
                step: self.machine.state().step(),
                ordinal: operation.ordinal.clone(),
                label: operation.request.label_without_values(),
                digest: operation.digest,
                class: operation.terms.class,
                start,
            };
            let record = NewRecord::of(at, operation.id, body);
            self.outbox.push(match self.machine.state().parent_of(operation.id) {
                Some(tool) => record.below(tool),
                None => record,
            });
            self.progress.insert(operation.id, Progress::requested(at, start, operation));
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
                Beginning::Approval => self.open_gate(operation.id, Gate::Approval)?,
                Beginning::Parts => {}
                Beginning::Queue => self.flights.queue(operation.id, AttemptCause::Queued),
                Beginning::Ask(Ask::Start(permit)) => self.flights.start(operation.id, 1, permit),
                Beginning::Ask(Ask::Wait(wait)) => self.wait(operation.id, 1, AttemptCause::Queued, wait),
                Beginning::Ask(Ask::Refused(error)) => {
                    self.decide(operation.id, 1, Some(AttemptCause::Queued), Err(error))?;
                }
            }
        }
        self.fill()
    }

    /// Arguments that do not fit the tool: the call fails before anybody is asked or called. Those of a plan, and of a
    /// tool that stands in for another, have no decision yet.
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
        while self.flights.has_queue() {
            if self.stopping || self.ended.is_some() || self.under_way() >= most {
                return Ok(());
            }
            let Some((operation, cause)) = self.flights.dequeue() else { return Ok(()) };
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
            let is_busy = || self.running.has(operation.id) || self.flights.is_admitting(operation.id);
            !is_waiting(operation) && (started || is_busy())
        };
        self.missing().filter(started).count()
    }

    /// Writes down a further attempt and starts it after the commit; while the run stops, it is put off.
    pub(super) fn attempt(
        &mut self,
        operation: OperationId,
        attempt: u32,
        cause: AttemptCause,
        permit: Option<Permit>,
    ) {
        let at = self.now();
        let start = if self.stopping { Start::Deferred } else { Start::Now };
        let reason = self.reasons.remove(&operation);
        self.outbox.push(NewRecord::of(at, operation, Body::Attempted { attempt, cause, start, reason }));
        self.progress.entry(operation).or_default().attempted(at, attempt, cause, start);
        self.remote.tasked.attempted(operation, cause);
        if start == Start::Now {
            self.flights.start(operation, attempt, permit);
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
        let files = self.context.files.take(operation, &outcome);
        // A kept result does not become younger when it stands for another call.
        if progress.started {
            self.keep(operation, &outcome, &files);
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
        self.outbox.push(NewRecord::of(at, operation, body).with_files(files));
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
        self.open_gate(operation, Gate::InDoubt { reason })?;
        self.verify(operation);
        Ok(())
    }

    pub(super) fn open_gate(&mut self, operation: OperationId, mut gate: Gate) -> Result<(), RunFailure> {
        self.context.bindings.secrets().scrub_gate(&mut gate);
        let at = self.now();
        self.progress.entry(operation).or_default().interpose(at);
        self.remote.tasked.gated(operation, &gate);
        self.outbox.push(NewRecord::of(at, operation, Body::Waiting { gate: gate.clone() }));
        self.resume(Event::gated(at, operation, gate))
    }

    pub(super) fn resume(&mut self, event: Event) -> Result<(), RunFailure> {
        self.machine.resume(event).map_err(|error| self.defect(&error.to_string()))
    }

    /// Takes what came of an attempt, and steps when nothing is missing any more. `unsent` says why it was to be made, where
    /// it was refused before anything was sent.
    pub(super) fn settle(
        &mut self,
        id: OperationId,
        attempt: u32,
        unsent: Option<AttemptCause>,
        result: Result<Outcome, AttemptError>,
    ) -> Result<(), RunFailure> {
        self.decide(id, attempt, unsent, result)?;
        self.fill()?;
        self.go_on()
    }

    /// Decides on an operation of which an attempt has ended.
    pub(super) fn decide(
        &mut self,
        id: OperationId,
        attempt: u32,
        unsent: Option<AttemptCause>,
        result: Result<Outcome, AttemptError>,
    ) -> Result<(), RunFailure> {
        if let Some(settlement) = self.context.tasked.owed(id, attempt) {
            self.settlements.push((id, attempt, settlement));
        }
        let Some(operation) = self.missing().find(|operation| operation.id == id) else { return Ok(()) };
        if let Err(error) = &result {
            let code = error.failure.code;
            tracing::debug!(run = %self.context.run, operation = %id, attempt, code = code.as_str(), "no answer");
        }
        let words = match &result {
            Err(error) => Some(error.failure.message.chars().take(REASON_MAX).collect()),
            Ok(Outcome::ApiAnswered(response)) => {
                Some(format!("the service answered with status {}", response.status))
            }
            Ok(_) => None,
        };
        let is_unpaid = result.as_ref().is_err_and(|error| error.received == Received::No);
        let progress = self.progress.get(&id).copied().unwrap_or_default();
        let now = match unsent {
            None => self.situation(&progress, attempt),
            Some(cause) => self.unsent(&progress, cause),
        };
        match policy::judge(Effect::from(operation), now, result) {
            RetryDecision::Again { pause, code, possibly_received } => {
                // An attempt that was refused before it was sent has its number still, and its cause.
                let (attempt, cause) = match unsent {
                    Some(cause) => (attempt, cause),
                    None => (attempt + 1, AttemptCause::Failed { code, possibly_received }),
                };
                if let Some(words) = words.filter(|_| unsent.is_none()) {
                    self.reasons.insert(id, words);
                }
                if unsent.is_some() {
                    self.progress.entry(id).or_default().refusals = now.attempt;
                }
                if self.stopping {
                    self.attempt(id, attempt, cause, None);
                    return Ok(());
                }
                self.running.spawn(Running::pause(id, attempt, cause), async move {
                    tokio::time::sleep(pause).await;
                    Input::Due { operation: id, attempt, cause }
                });
                Ok(())
            }
            RetryDecision::Take(mut outcome) => {
                if let Outcome::Failed(failure) = &mut outcome
                    && matches!(operation.request, Request::ModelCompletion(_))
                {
                    failure.unsent = is_unpaid;
                }
                self.record_outcome(id, outcome)
            }
            RetryDecision::Gate(gate) => self.open_gate(id, gate),
            RetryDecision::Ask(reason) => self.open_doubt(id, reason),
        }
    }

    /// What is known of an operation whose next attempt was refused before it was sent: what its cause says of the attempt
    /// before is in no record yet.
    fn unsent(&self, progress: &Progress, cause: AttemptCause) -> Situation {
        let now = self.situation(progress, progress.refusals + 1);
        Situation { doubtful: now.doubtful || is_doubtful(progress, cause), ..now }
    }

    /// Says whether a further attempt may still start, and settles the operation where it may not: it can have waited for
    /// longer than its receiver remembers its key.
    pub(super) fn may_start(&mut self, id: OperationId, cause: AttemptCause) -> Result<bool, RunFailure> {
        let Some(operation) = self.missing().find(|operation| operation.id == id) else { return Ok(false) };
        let progress = self.progress.get(&id).copied().unwrap_or_default();
        let now = self.unsent(&progress, cause);
        match policy::start(Effect::from(operation), now) {
            None => return Ok(true),
            Some(RetryDecision::Take(outcome)) => self.record_outcome(id, outcome)?,
            Some(RetryDecision::Gate(gate)) => self.open_gate(id, gate)?,
            Some(RetryDecision::Ask(reason)) => self.open_doubt(id, reason)?,
            Some(RetryDecision::Again { .. }) => return Ok(true),
        }
        Ok(false)
    }
}

/// Says whether the attempt before a further one may have been acted on, by the cause of that one.
fn is_doubtful(progress: &Progress, cause: AttemptCause) -> bool {
    match cause {
        AttemptCause::Failed { possibly_received, .. } => possibly_received,
        AttemptCause::Recovered => progress.started,
        AttemptCause::Answered | AttemptCause::Queued => false,
    }
}
