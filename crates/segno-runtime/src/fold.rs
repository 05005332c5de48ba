//! The fold of the core over a journal: where a run stands, or where its journal and the core part.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use segno_core::{
    AgentAction, AgentConfig, AgentResponse, AgentState, Event, ExecutionError, Gate, GateState, Handoff,
    Operation, OperationId, Outcome, RunId, Timestamp,
};
use segno_store::{AttemptCause, Body, Record, Start, WaitingFor};

/// A core with its state, stepped whenever nothing is missing. Runs, replays and recoveries all go through it.
pub(crate) struct Machine {
    config: Arc<AgentConfig>,
    /// `None` only while a step is computed.
    state: Option<AgentState>,
}

/// What a step asks for.
pub(crate) enum Advance {
    /// These operations, which are new.
    Asked(Vec<Operation>),
    /// Nothing: the run is over.
    Ended(End),
}

/// How a run is over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum End {
    /// With a response.
    Response(AgentResponse),
    /// Another agent goes on.
    Handoff(Handoff),
}

impl End {
    /// The response, unless another agent goes on.
    pub(crate) fn response(&self) -> Option<&AgentResponse> {
        match self {
            Self::Response(response) => Some(response),
            Self::Handoff(_) => None,
        }
    }
}

impl Machine {
    pub(crate) fn new(config: Arc<AgentConfig>, state: AgentState) -> Self {
        Self { config, state: Some(state) }
    }

    pub(crate) fn state(&self) -> &AgentState {
        self.state.as_ref().expect("a machine whose step failed is not used again")
    }

    pub(crate) fn into_state(self) -> AgentState {
        self.state.expect("a machine whose step failed is not used again")
    }

    pub(crate) fn resume(&mut self, event: Event) -> Result<(), segno_core::ResumeError> {
        self.state.as_mut().expect("a machine whose step failed is not used again").resume(event)
    }

    fn replace(&mut self, id: OperationId, outcome: Outcome) -> Result<(), segno_core::ResumeError> {
        self.state.as_mut().expect("a machine whose step failed is not used again").replace(id, outcome)
    }

    /// Computes a step; only when the state is ready.
    pub(crate) fn advance(&mut self) -> Result<Advance, ExecutionError> {
        let state = self.state.take().expect("a machine whose step failed is not used again");
        match segno_core::execute_agent_step(&self.config, state)? {
            AgentAction::Complete { response, final_state } => {
                self.state = Some(final_state);
                Ok(Advance::Ended(End::Response(response)))
            }
            AgentAction::Handoff { handoff, final_state } => {
                self.state = Some(final_state);
                Ok(Advance::Ended(End::Handoff(handoff)))
            }
            action => {
                let (operations, state) = action.into_operations();
                self.state = Some(state);
                Ok(Advance::Asked(operations))
            }
        }
    }
}

/// The first difference between a journal and the core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// The run's step.
    pub step: u64,
    /// The record, by its place in the journal.
    pub seq: u64,
    /// What the journal has.
    pub expected: String,
    /// What the core says.
    pub got: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "step {}, record {}: the journal has {}, the core {}",
            self.step, self.seq, self.expected, self.got
        )
    }
}

/// Why a journal cannot be folded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FoldError {
    /// The journal and the core part.
    #[error("run {run} does not replay: {divergence}")]
    Diverged {
        /// The run.
        run: RunId,
        /// Where.
        divergence: Divergence,
    },
    /// The journal does not begin with its start.
    #[error("the journal of run {run} does not begin with `started`: restore the store from a backup")]
    NoStart {
        /// The run.
        run: RunId,
    },
    /// The run began as a fork of another at a place where that one cannot be forked.
    #[error("run {run} began as a fork of run {of}, which does not fit: {source}")]
    Fork {
        /// The run.
        run: RunId,
        /// The run that it began as a copy of.
        of: RunId,
        /// Why.
        source: segno_core::ForkError,
    },
    /// The core refused the run's configuration.
    #[error("run {run} cannot be stepped: {source}")]
    Execution {
        /// The run.
        run: RunId,
        /// Why.
        source: ExecutionError,
    },
}

/// How far an operation of the current step has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Attempts so far; the last one may still be about to start.
    pub(crate) attempts: u32,
    /// The last attempt has started, as far as the journal knows.
    pub(crate) started: bool,
    /// An attempt before the last may have been acted on, and nobody has settled that.
    pub(crate) doubtful: bool,
    /// Attempts that ended without an answer and may have been received.
    pub(crate) lost: u32,
    /// When the first attempt since the last answer started, in milliseconds since the epoch; 0 before that.
    pub(crate) first: u64,
    /// When its question was asked, in milliseconds since the epoch.
    pub(crate) asked: u64,
    /// Since when the operation has been worked on without a break, in milliseconds since the epoch; 0 while it is not.
    since: u64,
    /// The time that it was worked on before that, in milliseconds.
    spent_ms: u64,
}

impl Progress {
    /// An operation that was requested.
    pub(crate) fn requested(at: Timestamp, start: Start) -> Self {
        let mut progress = Self { asked: at.as_millis(), ..Self::default() };
        if start == Start::Now {
            progress.begin(1, at);
        }
        progress
    }

    /// Takes an `attempted` record.
    pub(crate) fn attempted(&mut self, at: Timestamp, attempt: u32, cause: AttemptCause, start: Start) {
        match cause {
            AttemptCause::Answered => {
                self.doubtful = false;
                self.first = 0;
            }
            // A deferred attempt never left its process.
            AttemptCause::Recovered => self.lose(self.started),
            AttemptCause::Failed { possibly_received, .. } => self.lose(possibly_received),
            AttemptCause::Queued => {}
        }
        match (cause, start) {
            (AttemptCause::Failed { .. }, Start::Now) => {
                self.attempts = attempt;
                self.started = true;
            }
            (AttemptCause::Answered | AttemptCause::Recovered | AttemptCause::Queued, Start::Now) => {
                self.begin(attempt, at);
            }
            (_, Start::Deferred) => {
                self.pause(at);
                self.attempts = attempt;
                self.started = false;
            }
        }
    }

    /// Its question was answered, and it goes on: whatever was in doubt is settled, and nothing has started since.
    pub(crate) fn settled(&mut self) {
        self.started = false;
        self.doubtful = false;
        self.first = 0;
    }

    fn lose(&mut self, possibly_received: bool) {
        self.doubtful |= possibly_received;
        self.lost = self.lost.saturating_add(u32::from(possibly_received));
    }

    /// Nobody works on it from here on: it waits for a person, or its process stops.
    pub(crate) fn pause(&mut self, at: Timestamp) {
        self.spent_ms = self.elapsed_ms(at);
        self.since = 0;
    }

    /// The time that was spent on it, without downtime and without waiting for people.
    pub(crate) fn elapsed_ms(&self, at: Timestamp) -> u64 {
        let stretch = if self.since == 0 { 0 } else { at.as_millis().saturating_sub(self.since) };
        self.spent_ms + stretch
    }

    fn begin(&mut self, attempt: u32, at: Timestamp) {
        self.attempts = attempt;
        self.started = true;
        self.since = at.as_millis();
        if self.first == 0 {
            self.first = self.since;
        }
    }
}

/// What a suspended run waits for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Suspension {
    pub(crate) waiting_for: Vec<WaitingFor>,
    pub(crate) wake_at: Option<Timestamp>,
}

/// A journal, folded record by record.
pub(crate) struct Fold {
    run: RunId,
    pub(crate) machine: Machine,
    /// Operations that the core asked for and the journal has not recorded yet.
    expected: VecDeque<Operation>,
    /// Operations of the current step that are recorded.
    pub(crate) progress: BTreeMap<OperationId, Progress>,
    /// The end, once the core came to it.
    pub(crate) ended: Option<End>,
    /// Whether the journal has recorded the end.
    pub(crate) closed: bool,
    /// The modules that tool servers were bound to last.
    pub(crate) modules: BTreeMap<String, String>,
    /// The active time of earlier steps, in milliseconds.
    active_ms: u64,
    /// The active time of the current step: that of its longest operation.
    step_ms: u64,
    /// What the last record says that the run waits for, if that is what it says.
    pub(crate) suspended: Option<Suspension>,
}

impl Fold {
    /// Begins with a run's first record and the state that it began in.
    pub(crate) fn begin(
        config: Arc<AgentConfig>,
        run: RunId,
        first: &Record,
        origin: AgentState,
    ) -> Result<Self, FoldError> {
        let Body::Started(started) = &first.body else { return Err(FoldError::NoStart { run }) };
        let modules = started.modules.clone();
        Ok(Self { modules, ..Self::at(config, run, origin) })
    }

    /// Begins with a state that was saved right after its step was requested.
    pub(crate) fn at(config: Arc<AgentConfig>, run: RunId, state: AgentState) -> Self {
        let requested = state.pending().iter().map(|pending| {
            let start = if pending.operation.gate == GateState::Open { Start::Now } else { Start::Deferred };
            (pending.operation.id, Progress::requested(state.now(), start))
        });
        Self {
            run,
            expected: VecDeque::new(),
            progress: requested.collect(),
            ended: None,
            closed: false,
            modules: BTreeMap::new(),
            active_ms: 0,
            step_ms: 0,
            suspended: None,
            machine: Machine::new(config, state),
        }
    }

    pub(crate) fn state(&self) -> &AgentState {
        self.machine.state()
    }

    /// Carries over what a snapshot kept beside the state.
    pub(crate) fn carry(&mut self, active_ms: u64, modules: BTreeMap<String, String>) {
        self.active_ms = active_ms;
        self.modules = modules;
    }

    /// Active time in milliseconds: for each step that of its longest operation, so that downtime and waiting for people
    /// do not count.
    pub(crate) fn active_ms(&self) -> u64 {
        self.active_ms + self.step_ms
    }

    /// Takes the next record.
    ///
    /// The core is stepped only when a record needs it: a run that stopped between an outcome and its next step was
    /// not stepped either.
    pub(crate) fn apply(&mut self, record: &Record) -> Result<(), FoldError> {
        self.suspended = None;
        match &record.body {
            Body::Signalled { .. }
            | Body::Rebound { .. }
            | Body::Suspended { .. }
            | Body::Late { .. }
            | Body::Forked { .. } => {}
            _ if self.ended.is_none() && self.state().is_ready() => self.advance()?,
            _ => {}
        }
        match &record.body {
            Body::Started(_) => return Err(self.diverged(record, "a second start", "has started already")),
            Body::Requested { label, digest, start, .. } => {
                let recorded = || format!("a request, {label} ({})", short(digest));
                let Some(operation) = self.expected.pop_front() else {
                    return Err(self.diverged(record, recorded(), "asks for nothing more"));
                };
                if record.operation != Some(operation.id) {
                    return Err(self.diverged(
                        record,
                        recorded(),
                        format!("asks for {}", describe(&operation)),
                    ));
                }
                self.progress.insert(operation.id, Progress::requested(record.at, *start));
            }
            Body::Attempted { attempt, cause, start } => {
                self.progress(record)?.attempted(record.at, *attempt, *cause, *start);
            }
            Body::Waiting { gate: Gate::Approval | Gate::Input } => {
                self.progress(record)?;
            }
            Body::Waiting { gate: gate @ (Gate::InDoubt { .. } | Gate::Secret { .. }) } => {
                self.progress(record)?.pause(record.at);
                let id = self.operation(record)?;
                self.take(record, Event::gated(record.at, id, gate.clone()))?;
            }
            Body::Answered { answer } => {
                let id = self.operation(record)?;
                self.take(record, Event::answer(record.at, id, answer.clone()))?;
                if let Some(progress) = self.progress.get_mut(&id) {
                    progress.settled();
                }
            }
            Body::Resolved { outcome, elapsed_ms, .. } => {
                let id = self.operation(record)?;
                self.step_ms = self.step_ms.max(*elapsed_ms);
                self.take(record, Event::outcome(record.at, id, outcome.clone()))?;
            }
            Body::Signalled { signal, .. } => self.take(record, Event::signal(record.at, *signal))?,
            Body::Rebound { server, digest } => {
                self.modules.insert(server.clone(), digest.clone());
            }
            Body::Suspended { waiting_for, wake_at } => {
                self.suspended = Some(Suspension { waiting_for: waiting_for.clone(), wake_at: *wake_at });
                self.progress.values_mut().for_each(|progress| progress.pause(record.at));
            }
            Body::Late { .. } => {}
            Body::Completed { response } | Body::Failed { response } | Body::Cancelled { response } => {
                self.close(record, response)?;
            }
            // What it says is in the state that the run began in.
            Body::Forked { .. } if record.seq == 1 => {}
            Body::Forked { .. } => return Err(self.diverged(record, "a fork", "has gone on already")),
            Body::HandedOff { target, .. } => {
                self.nothing_expected(record)?;
                match &self.ended {
                    Some(End::Handoff(handoff)) if handoff.target == *target => self.closed = true,
                    Some(End::Handoff(handoff)) => {
                        let got = format!("hands over to `{}`", handoff.target);
                        return Err(self.diverged(record, format!("a handoff to `{target}`"), got));
                    }
                    Some(End::Response(_)) => {
                        return Err(self.diverged(
                            record,
                            format!("a handoff to `{target}`"),
                            "ends by itself",
                        ));
                    }
                    None => {
                        return Err(self.diverged(
                            record,
                            format!("a handoff to `{target}`"),
                            "still waits for outcomes",
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Gives operations that never had an outcome the one that a fork replaces it with.
    pub(crate) fn replace_rest(
        &mut self,
        record: &Record,
        replaced: BTreeMap<OperationId, Outcome>,
    ) -> Result<(), FoldError> {
        for (id, outcome) in replaced {
            let open =
                |pending: &segno_core::Pending| pending.operation.id == id && pending.outcome.is_none();
            if self.state().pending().iter().any(open) {
                let replaced = self.machine.replace(id, outcome);
                replaced.map_err(|error| {
                    self.diverged(record, "a replaced outcome", format!("refuses it: {error}"))
                })?;
            }
        }
        Ok(())
    }

    /// Takes a record of the prefix that a fork shares, with some outcomes replaced.
    pub(crate) fn apply_replaced(
        &mut self,
        record: &Record,
        replaced: &BTreeMap<OperationId, Outcome>,
    ) -> Result<(), FoldError> {
        let Some((id, outcome)) = record.operation.and_then(|id| replaced.get_key_value(&id)) else {
            return self.apply(record);
        };
        let settles = match &record.body {
            Body::Resolved { .. } => true,
            Body::Answered { answer } => answer.outcome().is_some(),
            _ => false,
        };
        if !settles {
            return self.apply(record);
        }
        self.nothing_expected(record)?;
        let replaced = self.machine.replace(*id, outcome.clone());
        replaced.map_err(|error| self.diverged(record, "a replaced outcome", format!("refuses it: {error}")))
    }

    /// How far the operation of a record has come.
    fn progress(&mut self, record: &Record) -> Result<&mut Progress, FoldError> {
        let id = self.operation(record)?;
        let unknown = self.diverged(record, format!("`{}`", record.body.kind()), "has no such operation");
        self.progress.get_mut(&id).ok_or(unknown)
    }

    /// The operation of a record, when everything that the core asked for before has been recorded.
    fn operation(&self, record: &Record) -> Result<OperationId, FoldError> {
        self.nothing_expected(record)?;
        record.operation.ok_or_else(|| {
            self.diverged(record, format!("`{}` of no operation", record.body.kind()), "needs one")
        })
    }

    fn nothing_expected(&self, record: &Record) -> Result<(), FoldError> {
        match self.expected.front() {
            Some(operation) => {
                let recorded = format!("`{}`", record.body.kind());
                Err(self.diverged(record, recorded, format!("asks for {}", describe(operation))))
            }
            None => Ok(()),
        }
    }

    fn take(&mut self, record: &Record, event: Event) -> Result<(), FoldError> {
        self.nothing_expected(record)?;
        let resumed = self.machine.resume(event);
        resumed.map_err(|error| {
            self.diverged(record, format!("`{}`", record.body.kind()), format!("refuses it: {error}"))
        })
    }

    fn advance(&mut self) -> Result<(), FoldError> {
        self.active_ms += std::mem::take(&mut self.step_ms);
        let run = self.run;
        match self.machine.advance().map_err(|source| FoldError::Execution { run, source })? {
            Advance::Asked(operations) => {
                self.progress.clear();
                self.expected = operations.into();
            }
            Advance::Ended(response) => self.ended = Some(response),
        }
        Ok(())
    }

    /// Compares the recorded end with the core's.
    fn close(&mut self, record: &Record, recorded: &AgentResponse) -> Result<(), FoldError> {
        self.nothing_expected(record)?;
        match &self.ended {
            Some(End::Response(response)) if response == recorded => {
                self.closed = true;
                Ok(())
            }
            Some(End::Handoff(handoff)) => {
                Err(self.diverged(record, "the end", format!("hands over to `{}`", handoff.target)))
            }
            Some(End::Response(response)) => {
                let (expected, got) = difference(recorded, response);
                Err(self.diverged(record, format!("the end {expected}"), format!("ends {got}")))
            }
            None => Err(self.diverged(record, "the end", "still waits for outcomes")),
        }
    }

    /// A journal that ends here is whole: nothing is asked for that it does not have.
    pub(crate) fn finish(&self, last: &Record) -> Result<(), FoldError> {
        match self.expected.front() {
            Some(operation) => {
                Err(self.diverged(last, "no further request", format!("asks for {}", describe(operation))))
            }
            None if !self.closed => Err(self.diverged(last, "no end", "goes on")),
            None => Ok(()),
        }
    }

    fn diverged(&self, record: &Record, expected: impl Into<String>, got: impl Into<String>) -> FoldError {
        let step = self.machine.state().step();
        let divergence = Divergence { step, seq: record.seq, expected: expected.into(), got: got.into() };
        FoldError::Diverged { run: self.run, divergence }
    }
}

/// An operation in words, with its arguments where it has some.
pub(crate) fn describe(operation: &Operation) -> String {
    let label = operation.request.label();
    let digest = short(&operation.digest);
    match operation.arguments() {
        Some(arguments) => format!("{label} ({digest}) with {}", clip(&arguments.to_string())),
        None => format!("{label} ({digest})"),
    }
}

/// The first difference of two ends, in words.
pub(crate) fn difference(recorded: &AgentResponse, response: &AgentResponse) -> (String, String) {
    if recorded.status != response.status {
        return (
            format!("{:?}", recorded.status).to_lowercase(),
            format!("{:?}", response.status).to_lowercase(),
        );
    }
    if recorded.answer != response.answer {
        let words = |answer: &Option<String>| match answer {
            Some(answer) => format!("with the answer `{}`", clip(answer)),
            None => "without an answer".to_owned(),
        };
        return (words(&recorded.answer), words(&response.answer));
    }
    let words = |response: &AgentResponse| match &response.error {
        Some(error) => format!("with the error {}: {}", error.code.as_str(), clip(&error.message)),
        None => format!("after {:?}", response.usage),
    };
    match (words(recorded), words(response)) {
        (recorded, response) if recorded != response => (recorded, response),
        // What differs has no words of its own: the whole ends are shown.
        _ => (format!("{recorded:?}"), format!("{response:?}")),
    }
}

/// Enough of a text to recognise it.
fn clip(text: &str) -> String {
    const LENGTH: usize = 200;
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The first digits of a digest, enough to tell two apart.
fn short(digest: &segno_core::Digest) -> String {
    digest.to_string()[..8].to_owned()
}
