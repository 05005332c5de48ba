//! The loop of one run: step, write down, perform, write down.
//!
//! One task owns the run. Every intent is committed before its effect starts and rides with the outcome before it, so
//! that a sequential step costs one commit; outcomes that are there at the same time share one. Attempts are decided
//! here and nowhere else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use segno_core::{
    AgentResponse, Answer, EffectClass, Event, Failure, FailureCode, Gate, GateState, Mind, Operation,
    OperationId, Outcome, Phase, Request, Signal, Status, Transcript,
};
use segno_models::Schemas;
use segno_sandbox::Received;
use segno_store::{AttemptCause, Body, Lease, NewRecord, Snapshot, Start, Store, WaitingFor};

use crate::attempt::{Attempt, RunContext};
use crate::engine::now;
use crate::error::RunFailure;
use crate::fold::{Advance, Fold, Machine, Progress};
use crate::handle::{RunEnd, RunEvent, RunReport, WaitingOperation};
use crate::policy::{self, AttemptError, Situation};

/// Steps between snapshots: a resume folds at most so many.
const SNAPSHOT_EVERY: u64 = 1_000;

/// A run that this process owns.
pub(crate) struct Driver {
    context: Arc<RunContext>,
    store: Arc<dyn Store>,
    lease: Lease,
    schemas: Schemas,
    machine: Machine,
    progress: BTreeMap<OperationId, Progress>,
    /// Records of the next commit.
    outbox: Vec<NewRecord>,
    /// Operations to start after the next commit, with the number of the attempt.
    starting: Vec<(OperationId, u32)>,
    tasks: JoinSet<Input>,
    /// What the tasks are for, so that a panic finds its operation and a stop finds its tasks.
    running: BTreeMap<Id, Running>,
    ended: Option<AgentResponse>,
    interrupt: watch::Receiver<bool>,
    /// The run is to be left as it is: nothing new starts.
    stopping: bool,
    began: Instant,
    active_before: Duration,
    /// The modules of tool servers; a snapshot carries them.
    modules: BTreeMap<String, String>,
    already_suspended: bool,
    snapshot_step: u64,
}

/// A task under way: an attempt, or the pause before one.
struct Running {
    operation: OperationId,
    attempt: u32,
    abort: AbortHandle,
    /// Why there will be another attempt, when this is the pause before it.
    pause: Option<AttemptCause>,
    /// It may be given up at any time, since it may be repeated.
    free: bool,
}

/// What the loop waits for.
enum Input {
    /// An attempt has ended.
    Attempted { operation: OperationId, attempt: u32, result: Result<Outcome, AttemptError> },
    /// The pause before an attempt is over, or was given up.
    Due { operation: OperationId, attempt: u32, cause: AttemptCause },
    /// An attempt was given up because the run stops.
    GivenUp,
    /// The run is to be left as it is.
    Interrupted,
    /// The run's active time is used up.
    Deadline,
}

impl Driver {
    pub(crate) fn new(
        context: Arc<RunContext>,
        store: Arc<dyn Store>,
        lease: Lease,
        fold: Fold,
        interrupt: watch::Receiver<bool>,
    ) -> Self {
        let schemas = Schemas::compile(&context.toolbox);
        let step = fold.state().step();
        let active_before = Duration::from_millis(fold.active_ms());
        Self {
            context,
            store,
            lease,
            schemas,
            progress: fold.progress,
            outbox: Vec::new(),
            starting: Vec::new(),
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            ended: if fold.closed { fold.ended } else { None },
            interrupt,
            stopping: false,
            began: Instant::now(),
            active_before,
            modules: fold.modules,
            already_suspended: fold.suspended,
            snapshot_step: step,
            machine: fold.machine,
        }
    }

    /// Settles what a crash left in doubt, and starts what had not started.
    pub(crate) fn take_up(&mut self) -> Result<(), RunFailure> {
        let open: Vec<Operation> =
            self.missing().filter(|operation| !is_waiting(operation)).cloned().collect();
        for operation in open {
            let progress = self.progress.get(&operation.id).copied().unwrap_or_default();
            let next = progress.attempts + 1;
            if !progress.started {
                // An attempt that was put off has its number already.
                self.attempt(operation.id, progress.attempts.max(1), AttemptCause::Recovered);
                continue;
            }
            match policy::recover(operation.id, &operation.terms, situation(&progress, progress.attempts)) {
                policy::Verdict::Again(_) => self.attempt(operation.id, next, AttemptCause::Recovered),
                policy::Verdict::Fail(failure) => {
                    self.record_outcome(operation.id, Outcome::Failed(failure))?;
                }
                policy::Verdict::Ask(reason) => self.open_gate(operation.id, reason)?,
            }
        }
        Ok(())
    }

    /// Writes down which tool servers have another module than before.
    pub(crate) fn rebind(&mut self, modules: BTreeMap<String, String>) {
        for (server, digest) in modules {
            self.outbox.push(NewRecord::new(
                now(),
                Body::Rebound { server: server.clone(), digest: digest.clone() },
            ));
            self.modules.insert(server, digest);
        }
    }

    /// Records an answer; the caller has checked that the operation waits for it.
    pub(crate) fn answer(&mut self, operation: OperationId, mut answer: Answer) -> Result<(), RunFailure> {
        self.context.bindings.secrets().scrub_answer(&mut answer);
        let at = now();
        self.outbox.push(NewRecord::of(at, operation, Body::Answered { answer: answer.clone() }));
        self.resume(Event::answer(at, operation, answer))?;
        if self.is_missing(operation) && !self.time_left().is_zero() {
            let attempts = self.progress.get(&operation).map_or(0, |progress| progress.attempts);
            self.attempt(operation, attempts + 1, AttemptCause::Answered);
        }
        Ok(())
    }

    /// Runs until the end, a suspension or an interruption.
    pub(crate) async fn drive(mut self) -> Result<RunReport, RunFailure> {
        if self.time_left().is_zero() {
            self.end_by_deadline()?;
        }
        self.go_on()?;
        loop {
            self.commit().await?;
            self.launch();
            if self.stopping || self.ended.is_some() {
                self.give_up();
            } else {
                self.snapshot().await;
            }
            if self.tasks.is_empty() {
                if !self.stopping && self.ended.is_none() {
                    self.suspend();
                    self.commit().await?;
                }
                break;
            }
            let input = self.next_input().await;
            self.handle(input)?;
            while let Some(joined) = self.tasks.try_join_next_with_id() {
                let input = self.joined(joined);
                self.handle(input)?;
            }
        }
        self.leave().await
    }

    /// Steps while nothing is missing, unless the run is to stop.
    fn go_on(&mut self) -> Result<(), RunFailure> {
        while self.ended.is_none() && self.machine.state().is_ready() {
            self.stopping |= *self.interrupt.borrow();
            if self.stopping {
                return Ok(());
            }
            if self.time_left().is_zero() {
                return self.end_by_deadline();
            }
            self.step()?;
        }
        Ok(())
    }

    /// Ends the run because its time is used up. What may not be repeated and is under way finishes, and is recorded as
    /// late.
    fn end_by_deadline(&mut self) -> Result<(), RunFailure> {
        if self.ended.is_some() || matches!(self.machine.state().phase(), Phase::Ended(_)) {
            return Ok(());
        }
        let at = now();
        self.starting.clear();
        self.outbox.push(NewRecord::new(at, Body::Signalled { signal: Signal::Deadline }));
        self.resume(Event::signal(at, Signal::Deadline))?;
        self.step()
    }

    fn time_left(&self) -> Duration {
        let limit = Duration::from_millis(self.context.config.limits.timeout_ms);
        limit.saturating_sub(self.active_before).saturating_sub(self.began.elapsed())
    }

    fn step(&mut self) -> Result<(), RunFailure> {
        match self.machine.advance().map_err(|error| self.defect(&error.to_string()))? {
            Advance::Asked(operations) => {
                self.progress.clear();
                self.request(operations)
            }
            Advance::Ended(response) => {
                self.end(response);
                Ok(())
            }
        }
    }

    fn end(&mut self, response: AgentResponse) {
        let body = match response.status {
            Status::Completed => Body::Completed { response: response.clone() },
            Status::Failed => Body::Failed { response: response.clone() },
            Status::Cancelled => Body::Cancelled { response: response.clone() },
        };
        self.outbox.push(NewRecord::new(now(), body));
        self.ended = Some(response);
    }

    /// Writes down that a step's operations are requested, and starts those that do not wait.
    ///
    /// All requests stand before what comes of any of them: a fold checks them against what the core asks for.
    fn request(&mut self, operations: Vec<Operation>) -> Result<(), RunFailure> {
        let at = now();
        let refusals: Vec<Option<Failure>> =
            operations.iter().map(|operation| self.refuse(operation)).collect();
        for (operation, refusal) in operations.iter().zip(&refusals) {
            let starts = refusal.is_none() && !is_waiting(operation);
            let start = if starts { Start::Now } else { Start::Deferred };
            let body = Body::Requested {
                step: self.machine.state().step(),
                ordinal: operation.ordinal.clone(),
                label: operation.request.label(),
                digest: operation.digest,
                class: operation.terms.class,
                start,
            };
            self.outbox.push(NewRecord::of(at, operation.id, body));
            self.progress.insert(operation.id, Progress::requested(at, start));
        }
        for (operation, refusal) in operations.into_iter().zip(refusals) {
            match (refusal, operation.gate) {
                (Some(failure), _) => self.record_outcome(operation.id, Outcome::Failed(failure))?,
                (None, GateState::Waiting(gate)) => {
                    self.outbox.push(NewRecord::of(at, operation.id, Body::Waiting { gate }));
                }
                (None, GateState::Open | GateState::Answered) => self.starting.push((operation.id, 1)),
            }
        }
        Ok(())
    }

    /// A plan's rendered arguments that do not fit the tool: the call fails before anybody is asked or called. A
    /// model's calls carry their verdict already.
    fn refuse(&self, operation: &Operation) -> Option<Failure> {
        let (Request::ToolCall(call), Mind::Plan(_)) = (&operation.request, &self.context.config.mind) else {
            return None;
        };
        let violations = self.schemas.violations(&call.tool_name, &call.parameters);
        if violations.is_empty() {
            return None;
        }
        let message = "the arguments do not fit the tool's schema";
        Some(Failure { violations, ..Failure::new(FailureCode::InvalidArguments, message) })
    }

    /// Writes down a further attempt and starts it after the commit; while the run stops, it is put off.
    fn attempt(&mut self, operation: OperationId, attempt: u32, cause: AttemptCause) {
        let at = now();
        let start = if self.stopping { Start::Deferred } else { Start::Now };
        self.outbox.push(NewRecord::of(at, operation, Body::Attempted { attempt, cause, start }));
        self.progress.entry(operation).or_default().attempted(at, attempt, cause, start);
        if start == Start::Now {
            self.starting.push((operation, attempt));
        }
    }

    /// Takes an outcome, and steps when it was the last that was missing.
    fn resolve(&mut self, operation: OperationId, outcome: Outcome) -> Result<(), RunFailure> {
        self.record_outcome(operation, outcome)?;
        self.go_on()
    }

    fn record_outcome(&mut self, operation: OperationId, outcome: Outcome) -> Result<(), RunFailure> {
        let outcome = self.presentable(outcome);
        let at = now();
        let progress = self.progress.get(&operation).copied().unwrap_or_default();
        let (attempts, elapsed_ms) = (progress.attempts, progress.elapsed_ms(at));
        let body = Body::Resolved { outcome: outcome.clone(), attempts, elapsed_ms };
        self.outbox.push(NewRecord::of(at, operation, body));
        self.resume(Event::outcome(at, operation, outcome))
    }

    /// An outcome as it may be recorded: bounded, and without secrets.
    fn presentable(&self, outcome: Outcome) -> Outcome {
        let mut outcome = outcome.bounded();
        self.context.bindings.secrets().scrub(&mut outcome);
        outcome
    }

    fn open_gate(&mut self, operation: OperationId, reason: String) -> Result<(), RunFailure> {
        let at = now();
        let mut reason = reason;
        self.context.bindings.secrets().text(&mut reason);
        self.progress.entry(operation).or_default().pause(at);
        let gate = Gate::InDoubt { reason };
        self.outbox.push(NewRecord::of(at, operation, Body::Waiting { gate: gate.clone() }));
        self.resume(Event::gated(at, operation, gate))
    }

    fn resume(&mut self, event: Event) -> Result<(), RunFailure> {
        self.machine.resume(event).map_err(|error| self.defect(&error.to_string()))
    }

    /// Commits what is in the outbox, all or nothing.
    async fn commit(&mut self) -> Result<(), RunFailure> {
        if self.outbox.is_empty() {
            return Ok(());
        }
        self.already_suspended = false;
        let records = std::mem::take(&mut self.outbox);
        let listeners = self.context.events.receiver_count() > 0;
        let copies = if listeners { records.clone() } else { Vec::new() };
        let run = self.context.run;
        let seqs = self
            .store
            .append(&mut self.lease, records)
            .await
            .map_err(|source| RunFailure::Append { run, source })?;
        for (seq, record) in seqs.into_iter().zip(copies) {
            // Whoever listened may have gone meanwhile.
            let _ = self.context.events.send(RunEvent::Recorded { seq, record: Arc::new(record) });
        }
        Ok(())
    }

    /// Starts what the last commit announced.
    fn launch(&mut self) {
        for (id, attempt) in std::mem::take(&mut self.starting) {
            let Some(operation) = self.missing().find(|operation| operation.id == id) else { continue };
            let task = Attempt {
                context: Arc::clone(&self.context),
                step: self.machine.state().step(),
                at: self.machine.state().now().as_millis(),
                operation: id,
                attempt,
                terms: operation.terms,
                request: operation.request.clone(),
                transcript: match operation.request {
                    Request::ModelCompletion(_) => self.machine.state().transcript().clone(),
                    Request::MemorySearch(_) | Request::MemoryCreate(_) | Request::ToolCall(_) => {
                        Transcript::default()
                    }
                },
            };
            tracing::debug!(run = %self.context.run, operation = %id, attempt, request = %task.request.label(), "attempt");
            let free = is_free(operation.terms.class);
            self.spawn(id, attempt, free, None, async move {
                let result = task.perform().await;
                Input::Attempted { operation: id, attempt, result }
            });
        }
    }

    fn spawn(
        &mut self,
        operation: OperationId,
        attempt: u32,
        free: bool,
        pause: Option<AttemptCause>,
        task: impl Future<Output = Input> + Send + 'static,
    ) {
        let abort = self.tasks.spawn(task);
        self.running.insert(abort.id(), Running { operation, attempt, abort, pause, free });
    }

    /// Gives up what may be given up: pauses, and attempts that may be repeated.
    fn give_up(&self) {
        for running in self.running.values().filter(|running| running.free || running.pause.is_some()) {
            running.abort.abort();
        }
    }

    async fn next_input(&mut self) -> Input {
        let left = self.time_left();
        let may_stop = !self.stopping && self.ended.is_none();
        let joined = tokio::select! {
            biased;
            Some(joined) = self.tasks.join_next_with_id() => joined,
            Ok(_) = self.interrupt.wait_for(|interrupted| *interrupted), if may_stop => return Input::Interrupted,
            () = tokio::time::sleep(left), if may_stop => return Input::Deadline,
        };
        self.joined(joined)
    }

    /// What a task came to; a panic is an attempt that was possibly received.
    fn joined(&mut self, joined: Result<(Id, Input), JoinError>) -> Input {
        match joined {
            Ok((id, input)) => {
                self.running.remove(&id);
                input
            }
            Err(error) => {
                let Running { operation, attempt, pause, .. } =
                    self.running.remove(&error.id()).expect("every task is entered when it is spawned");
                if error.is_cancelled() {
                    return match pause {
                        Some(cause) => Input::Due { operation, attempt, cause },
                        None => Input::GivenUp,
                    };
                }
                let failure = Failure::new(FailureCode::Internal, format!("the tool stopped: {error}"));
                let error =
                    AttemptError { failure, received: Received::Possibly, transient: false, after: None };
                Input::Attempted { operation, attempt, result: Err(error) }
            }
        }
    }

    fn handle(&mut self, input: Input) -> Result<(), RunFailure> {
        match input {
            Input::Attempted { operation, result: Ok(outcome), .. } if self.ended.is_some() => {
                self.record_late(operation, outcome);
                Ok(())
            }
            Input::Attempted { operation, attempt, result: Err(error) } if self.ended.is_some() => {
                let message = format!("attempt {attempt} had no answer ({})", error.failure.message);
                let failure = match error.received {
                    Received::No => error.failure,
                    Received::Possibly => policy::indeterminate(&message),
                };
                self.record_late(operation, Outcome::Failed(failure));
                Ok(())
            }
            Input::Attempted { operation, result: Ok(outcome), .. } => self.resolve(operation, outcome),
            Input::Attempted { operation, attempt, result: Err(error) } => {
                self.unanswered(operation, attempt, error)
            }
            Input::Due { operation, attempt, cause } => {
                if self.ended.is_none() {
                    self.attempt(operation, attempt, cause);
                }
                Ok(())
            }
            Input::GivenUp => Ok(()),
            Input::Interrupted => {
                self.stopping = true;
                Ok(())
            }
            Input::Deadline => self.end_by_deadline(),
        }
    }

    /// Decides on an operation whose attempt brought no answer.
    fn unanswered(&mut self, id: OperationId, attempt: u32, error: AttemptError) -> Result<(), RunFailure> {
        let Some(operation) = self.missing().find(|operation| operation.id == id) else { return Ok(()) };
        let code = error.failure.code;
        tracing::debug!(run = %self.context.run, operation = %id, attempt, code = code.as_str(), "no answer");
        let cause = AttemptCause::Failed { code, possibly_received: error.received == Received::Possibly };
        let progress = self.progress.get(&id).copied().unwrap_or_default();
        match policy::after(id, &operation.terms, situation(&progress, attempt), error) {
            policy::Verdict::Again(_) if self.stopping => {
                self.attempt(id, attempt + 1, cause);
                Ok(())
            }
            policy::Verdict::Again(pause) => {
                let attempt = attempt + 1;
                self.spawn(id, attempt, true, Some(cause), async move {
                    tokio::time::sleep(pause).await;
                    Input::Due { operation: id, attempt, cause }
                });
                Ok(())
            }
            policy::Verdict::Fail(failure) => self.resolve(id, Outcome::Failed(failure)),
            policy::Verdict::Ask(reason) => self.open_gate(id, reason),
        }
    }

    /// Keeps an outcome that came after the run had ended.
    fn record_late(&mut self, operation: OperationId, outcome: Outcome) {
        let outcome = self.presentable(outcome);
        self.outbox.push(NewRecord::of(now(), operation, Body::Late { outcome }));
    }

    /// Writes down that the run waits, unless that is the last thing the journal says already.
    fn suspend(&mut self) {
        if self.already_suspended {
            return;
        }
        let waiting_for = self.waiting().into_iter().map(|waiting| WaitingFor {
            kind: waiting.kind().to_owned(),
            operation: waiting.operation,
            question: waiting.question,
        });
        let body = Body::Suspended { waiting_for: waiting_for.collect(), wake_at: None };
        self.outbox.push(NewRecord::new(now(), body));
    }

    /// Saves the state now and then, right after a step was requested, when nothing of the step has come in yet.
    async fn snapshot(&mut self) {
        let state = self.machine.state();
        let fresh = state.pending().iter().all(|pending| {
            pending.outcome.is_none()
                && self.progress.get(&pending.operation.id).is_some_and(|one| one.attempts <= 1)
        });
        if !fresh || state.step() < self.snapshot_step + SNAPSHOT_EVERY {
            return;
        }
        self.snapshot_step = state.step();
        let active = self.active_before.saturating_add(self.began.elapsed());
        let snapshot = Snapshot {
            seq: self.lease.next_seq(),
            state: state.clone(),
            active_ms: u64::try_from(active.as_millis()).unwrap_or(u64::MAX),
            modules: self.modules.clone(),
        };
        if let Err(error) = self.store.save_snapshot(&self.lease, snapshot).await {
            // A snapshot is only a cache: without it a resume folds more of the journal.
            tracing::warn!(run = %self.context.run, %error, "the snapshot was not saved");
        }
    }

    async fn leave(self) -> Result<RunReport, RunFailure> {
        let run = self.context.run;
        let end = match self.ended.clone() {
            Some(response) => RunEnd::Ended(response),
            None if self.stopping => RunEnd::Interrupted,
            None => RunEnd::Suspended(self.waiting()),
        };
        let state = self.machine.state();
        let (steps, usage) = (state.step(), state.usage());
        self.context.sessions.close().await;
        self.store.release(self.lease).await.map_err(|source| RunFailure::Append { run, source })?;
        Ok(RunReport { run, agent: self.context.config.name.clone(), end, steps, usage })
    }

    fn waiting(&self) -> Vec<WaitingOperation> {
        waiting(self.machine.state())
    }

    fn missing(&self) -> impl Iterator<Item = &Operation> {
        let pending = self.machine.state().pending().iter();
        pending.filter(|pending| pending.outcome.is_none()).map(|pending| &pending.operation)
    }

    fn is_missing(&self, id: OperationId) -> bool {
        self.missing().any(|operation| operation.id == id)
    }

    fn defect(&self, message: &str) -> RunFailure {
        RunFailure::Defect { run: self.context.run, message: message.to_owned() }
    }
}

/// The operations that wait for an answer.
pub(crate) fn waiting(state: &segno_core::AgentState) -> Vec<WaitingOperation> {
    let pending = state.pending().iter().filter(|pending| pending.outcome.is_none());
    let waiting = pending.filter_map(|pending| match &pending.operation.gate {
        GateState::Waiting(gate) => Some(WaitingOperation {
            operation: pending.operation.id,
            gate: gate.clone(),
            question: pending.operation.question().unwrap_or_default(),
            tool: match &pending.operation.request {
                Request::ToolCall(call) => Some(call.tool_name.clone()),
                Request::ModelCompletion(_) | Request::MemorySearch(_) | Request::MemoryCreate(_) => None,
            },
            arguments: pending.operation.arguments().cloned(),
        }),
        GateState::Open | GateState::Answered => None,
    });
    waiting.collect()
}

fn is_waiting(operation: &Operation) -> bool {
    matches!(operation.gate, GateState::Waiting(_))
}

/// What is known of an operation when one of its attempts has ended.
fn situation(progress: &Progress, attempt: u32) -> Situation {
    let age = now().as_millis().saturating_sub(progress.first);
    Situation { attempt, doubtful: progress.doubtful, age: Duration::from_millis(age) }
}

/// Says whether an attempt may be given up at any time, since it may be repeated.
pub(crate) fn is_free(class: EffectClass) -> bool {
    match class {
        EffectClass::Read | EffectClass::Idempotent => true,
        EffectClass::Keyed | EffectClass::Unsafe => false,
    }
}
