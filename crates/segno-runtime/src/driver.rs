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
    AgentResponse, Answer, Event, Failure, FailureCode, Gate, GateState, Mind, Operation, OperationId,
    Outcome, Request, Signal, Status, Transcript,
};
use segno_models::Schemas;
use segno_sandbox::Received;
use segno_store::{Body, Lease, NewRecord, Snapshot, Start, Store, WaitingFor};

use crate::attempt::{Attempt, RunContext};
use crate::engine::now;
use crate::error::RunFailure;
use crate::fold::{Advance, Fold, Machine, Progress};
use crate::handle::{RunEnd, RunEvent, RunReport, WaitingOperation};
use crate::policy::{self, AttemptError};

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
    /// Why nothing new starts any more.
    stopping: Option<Stopping>,
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
}

/// What the loop waits for.
enum Input {
    /// An attempt has ended.
    Attempted { operation: OperationId, attempt: u32, result: Result<Outcome, AttemptError> },
    /// The pause before an attempt is over.
    Due { operation: OperationId, attempt: u32 },
    /// An attempt, or the pause before one, was given up because the run stops.
    GivenUp,
    /// The run is to be left as it is.
    Interrupted,
    /// The run's active time is used up.
    Deadline,
}

/// Why nothing new starts any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopping {
    Interrupted,
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
            stopping: None,
            began: Instant::now(),
            active_before: Duration::from_millis(fold.active_ms),
            modules: fold.modules,
            already_suspended: fold.suspended,
            snapshot_step: step,
            machine: fold.machine,
        }
    }

    /// Takes up what the journal left: asks for what was not requested, settles what a crash left in doubt.
    pub(crate) fn take_up(
        &mut self,
        expected: impl IntoIterator<Item = Operation>,
    ) -> Result<(), RunFailure> {
        self.request(expected.into_iter().collect())?;
        let open: Vec<Operation> =
            self.missing().filter(|operation| !is_waiting(operation)).cloned().collect();
        for operation in open {
            if self.starting.iter().any(|(id, _)| *id == operation.id) {
                continue;
            }
            let attempts = self.progress.get(&operation.id).map_or(0, |progress| progress.attempts);
            if attempts == 0 {
                self.attempt(operation.id, 1);
                continue;
            }
            match policy::recover(operation.id, &operation.terms, attempts) {
                policy::Verdict::Again(_) => self.attempt(operation.id, attempts + 1),
                policy::Verdict::Fail(failure) => self.resolve(operation.id, Outcome::Failed(failure))?,
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
    pub(crate) fn answer(&mut self, operation: OperationId, answer: Answer) -> Result<(), RunFailure> {
        let at = now();
        self.outbox.push(NewRecord::of(at, operation, Body::Answered { answer: answer.clone() }));
        self.resume(Event::answer(at, operation, answer))?;
        if self.is_missing(operation) {
            let attempts = self.progress.get(&operation).map_or(0, |progress| progress.attempts);
            self.attempt(operation, attempts + 1);
        }
        self.go_on()
    }

    /// Runs until the end, a suspension or an interruption.
    pub(crate) async fn drive(mut self) -> Result<RunReport, RunFailure> {
        self.go_on()?;
        loop {
            self.commit().await?;
            if self.ended.is_some() {
                break;
            }
            self.launch();
            self.snapshot().await;
            if self.tasks.is_empty() {
                match self.stopping {
                    Some(Stopping::Interrupted) => break,
                    Some(Stopping::Deadline) => {
                        self.signal(Signal::Deadline)?;
                        continue;
                    }
                    None => {}
                }
                self.suspend();
                self.commit().await?;
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

    /// Steps while nothing is missing.
    fn go_on(&mut self) -> Result<(), RunFailure> {
        while self.stopping.is_none() && self.ended.is_none() && self.machine.state().is_ready() {
            self.step()?;
        }
        Ok(())
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
            let body = Body::Requested {
                step: self.machine.state().step(),
                ordinal: operation.ordinal.clone(),
                label: operation.request.label(),
                digest: operation.digest,
                class: operation.terms.class,
                start: if starts { Start::Now } else { Start::Deferred },
            };
            self.outbox.push(NewRecord::of(at, operation.id, body));
            self.progress
                .insert(operation.id, Progress { attempts: u32::from(starts), since: at.as_millis() });
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

    /// Writes down a further attempt and starts it after the commit.
    fn attempt(&mut self, operation: OperationId, attempt: u32) {
        let at = now();
        self.outbox.push(NewRecord::of(at, operation, Body::Attempted { attempt }));
        let progress = self.progress.entry(operation).or_default();
        if progress.attempts == 0 {
            progress.since = at.as_millis();
        }
        progress.attempts = attempt;
        self.starting.push((operation, attempt));
    }

    /// Takes an outcome, and steps when it was the last that was missing.
    fn resolve(&mut self, operation: OperationId, outcome: Outcome) -> Result<(), RunFailure> {
        self.record_outcome(operation, outcome)?;
        self.go_on()
    }

    fn record_outcome(&mut self, operation: OperationId, mut outcome: Outcome) -> Result<(), RunFailure> {
        self.context.bindings.secrets().scrub(&mut outcome);
        let at = now();
        let progress = self.progress.get(&operation).copied().unwrap_or_default();
        let elapsed_ms = match progress.attempts {
            0 => 0,
            _ => at.as_millis().saturating_sub(progress.since),
        };
        let body = Body::Resolved { outcome: outcome.clone(), attempts: progress.attempts, elapsed_ms };
        self.outbox.push(NewRecord::of(at, operation, body));
        self.resume(Event::outcome(at, operation, outcome))
    }

    fn open_gate(&mut self, operation: OperationId, reason: String) -> Result<(), RunFailure> {
        let at = now();
        let mut reason = reason;
        self.context.bindings.secrets().text(&mut reason);
        let gate = Gate::InDoubt { reason };
        self.outbox.push(NewRecord::of(at, operation, Body::Waiting { gate: gate.clone() }));
        self.resume(Event::gated(at, operation, gate))
    }

    fn signal(&mut self, signal: Signal) -> Result<(), RunFailure> {
        let at = now();
        self.stopping = None;
        self.outbox.push(NewRecord::new(at, Body::Signalled { signal }));
        self.resume(Event::signal(at, signal))?;
        self.go_on()
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
            self.spawn(id, attempt, async move {
                let result = task.perform().await;
                Input::Attempted { operation: id, attempt, result }
            });
        }
    }

    fn spawn(
        &mut self,
        operation: OperationId,
        attempt: u32,
        task: impl Future<Output = Input> + Send + 'static,
    ) {
        let abort = self.tasks.spawn(task);
        self.running.insert(abort.id(), Running { operation, attempt, abort });
    }

    async fn next_input(&mut self) -> Input {
        let limit = Duration::from_millis(self.context.config.limits.timeout_ms);
        let left = limit.saturating_sub(self.active_before).saturating_sub(self.began.elapsed());
        let may_stop = self.stopping.is_none();
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
                let Running { operation, attempt, .. } =
                    self.running.remove(&error.id()).expect("every task is entered when it is spawned");
                if error.is_cancelled() {
                    return Input::GivenUp;
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
            Input::Attempted { operation, attempt, result } => self.attempted(operation, attempt, result),
            Input::Due { operation, attempt } => {
                self.attempt(operation, attempt);
                Ok(())
            }
            Input::GivenUp => Ok(()),
            Input::Interrupted => {
                self.stop(Stopping::Interrupted);
                Ok(())
            }
            Input::Deadline => {
                self.stop(Stopping::Deadline);
                Ok(())
            }
        }
    }

    fn attempted(
        &mut self,
        id: OperationId,
        attempt: u32,
        result: Result<Outcome, AttemptError>,
    ) -> Result<(), RunFailure> {
        let error = match result {
            Ok(outcome) => return self.resolve(id, outcome),
            Err(error) => error,
        };
        let Some(operation) = self.missing().find(|operation| operation.id == id) else { return Ok(()) };
        tracing::debug!(run = %self.context.run, operation = %id, attempt, code = error.failure.code.as_str(), "no answer");
        match policy::after(id, &operation.terms, attempt, error) {
            policy::Verdict::Again(pause) => {
                let attempt = attempt + 1;
                self.spawn(id, attempt, async move {
                    tokio::time::sleep(pause).await;
                    Input::Due { operation: id, attempt }
                });
                Ok(())
            }
            policy::Verdict::Fail(failure) => self.resolve(id, Outcome::Failed(failure)),
            policy::Verdict::Ask(reason) => self.open_gate(id, reason),
        }
    }

    /// Nothing new starts. What may be repeated is given up; the rest goes on to its outcome.
    fn stop(&mut self, why: Stopping) {
        self.stopping = Some(why);
        let free: Vec<OperationId> =
            self.missing().filter(|operation| is_free(operation)).map(|operation| operation.id).collect();
        for running in self.running.values().filter(|running| free.contains(&running.operation)) {
            running.abort.abort();
        }
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
            None if self.stopping.is_some() => RunEnd::Interrupted,
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

/// Says whether an attempt may be given up at any time, since it may be repeated.
fn is_free(operation: &Operation) -> bool {
    use segno_core::EffectClass::{Idempotent, Keyed, Read, Unsafe};
    match operation.terms.class {
        Read | Idempotent => true,
        Keyed | Unsafe => false,
    }
}
