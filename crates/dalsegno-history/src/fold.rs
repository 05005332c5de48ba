//! The fold of the core over a journal: where a run stands, or where its journal and the core part.

mod needs;
mod stands;
#[cfg(test)]
mod tests;
mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use dalsegno_core::{
    AgentAction, AgentConfig, AgentResponse, AgentState, Budget, Event, ExecutionError, Gate, GateState,
    Handoff, Operation, OperationId, Outcome, Pending, RunId, Timestamp,
};
use dalsegno_store::{Body, Record, Snapshot, Start};

use crate::doubt::LeftOpen;
use crate::progress::{self, Progress};
use crate::tasks::Tasks;

pub(crate) use self::needs::needs_step;
pub use self::stands::{Pause, Suspension};
use self::words::{clip, short};
pub(crate) use self::words::{describe, difference};

/// A core with its state, stepped whenever nothing is missing. Runs, replays and recoveries all go through it.
#[derive(Clone)]
pub struct Machine {
    config: Arc<AgentConfig>,
    /// `None` only while a step is computed.
    state: Option<AgentState>,
}

/// What a step comes to.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is taken apart at once")]
pub enum Advance {
    /// The run's next step asks for these operations.
    Asked(Vec<Operation>),
    /// Declarative tools of the same step went on.
    Moved(Moved),
    /// Nothing: the run is over.
    Ended(End),
}

/// What declarative tools came to.
pub struct Moved {
    /// Their outcomes, with the operations that they are of.
    pub concluded: Vec<(OperationId, Outcome)>,
    /// What they ask for; each is below the operation of its tool.
    pub asked: Vec<Operation>,
}

/// How a run is over.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// With a response.
    Response(AgentResponse),
    /// Another agent goes on.
    Handoff(Handoff),
}

impl End {
    /// The response, unless another agent goes on.
    pub fn response(&self) -> Option<&AgentResponse> {
        match self {
            Self::Response(response) => Some(response),
            Self::Handoff(_) => None,
        }
    }
}

impl Machine {
    /// A core in this state.
    pub fn new(config: Arc<AgentConfig>, state: AgentState) -> Self {
        Self { config, state: Some(state) }
    }

    /// The state.
    ///
    /// # Panics
    /// When a step has failed before; so do all other methods.
    pub fn state(&self) -> &AgentState {
        self.state.as_ref().expect("a machine whose step failed is not used again")
    }

    /// The state, for good.
    pub fn into_state(self) -> AgentState {
        self.state.expect("a machine whose step failed is not used again")
    }

    /// Gives the core an event.
    ///
    /// # Errors
    /// When the core does not wait for it.
    pub fn resume(&mut self, event: Event) -> Result<(), dalsegno_core::ResumeError> {
        self.state.as_mut().expect("a machine whose step failed is not used again").resume(event)
    }

    /// Lowers what the run may still use.
    pub fn narrow(&mut self, budget: Budget) {
        self.state.as_mut().expect("a machine whose step failed is not used again").narrow(budget);
    }

    fn replace(&mut self, id: OperationId, outcome: Outcome) -> Result<(), dalsegno_core::ResumeError> {
        self.state.as_mut().expect("a machine whose step failed is not used again").replace(id, outcome)
    }

    /// Computes a step; only when the state is ready.
    ///
    /// # Errors
    /// When the state is not ready, or the core cannot execute the configuration.
    pub fn advance(&mut self) -> Result<Advance, ExecutionError> {
        let state = self.state.take().expect("a machine whose step failed is not used again");
        let step = state.step();
        match dalsegno_core::execute_agent_step(&self.config, state)? {
            AgentAction::Complete { response, final_state } => {
                self.state = Some(final_state);
                Ok(Advance::Ended(End::Response(response)))
            }
            AgentAction::Handoff { handoff, final_state } => {
                self.state = Some(final_state);
                Ok(Advance::Ended(End::Handoff(handoff)))
            }
            action => {
                let continuation = action.into_continuation();
                let asked = continuation.asked().cloned().collect();
                let concluded = continuation.concluded().map(|(id, outcome)| (id, outcome.clone())).collect();
                let state = self.state.insert(continuation.state);
                if state.step() == step {
                    Ok(Advance::Moved(Moved { concluded, asked }))
                } else {
                    Ok(Advance::Asked(asked))
                }
            }
        }
    }
}

/// What the journal has to say before anything else.
#[derive(Clone)]
enum Expected {
    /// The core asks for this.
    Request(Operation),
    /// A declarative tool has this outcome.
    Conclusion(OperationId, Outcome),
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
    #[error("the replay of run {run} differs from its journal: {divergence}")]
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
    #[error("run {run} began as a fork of run {of}, whose records do not fit: {source}")]
    Fork {
        /// The run.
        run: RunId,
        /// The run that it began as a copy of.
        of: RunId,
        /// Why.
        source: dalsegno_core::ForkError,
    },
    /// The core refused the run's configuration.
    #[error("cannot compute the next step of run {run}: {source}")]
    Execution {
        /// The run.
        run: RunId,
        /// Why.
        source: ExecutionError,
    },
}

/// A journal, folded record by record.
#[derive(Clone)]
pub struct Fold {
    run: RunId,
    /// The core, in the state so far.
    pub machine: Machine,
    /// What the core asked for or concluded and the journal has not recorded yet.
    expected: VecDeque<Expected>,
    /// Operations of the current step that are recorded.
    pub progress: BTreeMap<OperationId, Progress>,
    /// The tasks of those that have one at their server.
    pub tasked: Tasks,
    /// The end, once the core came to it.
    pub ended: Option<End>,
    /// Whether the journal has recorded the end.
    pub closed: bool,
    /// The modules that tool servers were bound to last.
    pub modules: BTreeMap<String, String>,
    /// The active time of earlier steps, in milliseconds.
    active_ms: u64,
    /// The active time of each operation of the current step, with what is below it; in milliseconds.
    spent_ms: BTreeMap<OperationId, u64>,
    /// Declarative tools whose outcomes a fork replaces, and all that they asked for.
    left_out: BTreeSet<OperationId>,
    /// What the last record says that the run waits for, if that is what it says.
    pub suspended: Option<Suspension>,
    /// Who paused the run; none once it continues.
    pub paused: Option<Pause>,
    /// Once the run was told to end: what was open then, and what is in doubt since.
    pub left: LeftOpen,
}

impl Expected {
    fn in_words(&self) -> String {
        match self {
            Self::Request(operation) => format!("asks for {}", describe(operation)),
            Self::Conclusion(id, outcome) => {
                format!("has the outcome of {id}: {}", clip(&format!("{outcome:?}")))
            }
        }
    }
}

impl Fold {
    /// Begins with a run's first record and the state that it began in.
    ///
    /// # Errors
    /// When the record is another one.
    pub fn begin(
        config: Arc<AgentConfig>,
        run: RunId,
        first: &Record,
        origin: AgentState,
    ) -> Result<Self, FoldError> {
        let Body::Started(started) = &first.body else { return Err(FoldError::NoStart { run }) };
        let modules = started.modules.clone();
        Ok(Self { modules, ..Self::at(config, run, origin) })
    }

    /// Begins with a state that was saved right after its step was requested: the questions of the step are as old as that.
    pub fn restored(config: Arc<AgentConfig>, run: RunId, snapshot: Snapshot) -> Self {
        let Snapshot { seq: _, state, at, active_ms, modules } = snapshot;
        let requested = state.pending().iter().map(|pending| {
            let start = if pending.operation.gate == GateState::Open { Start::Now } else { Start::Deferred };
            (pending.operation.id, Progress::requested(at, start, &pending.operation))
        });
        let progress = requested.collect();
        Self { progress, active_ms, modules, ..Self::at(config, run, state) }
    }

    /// Begins with a state that waits for nothing.
    pub fn at(config: Arc<AgentConfig>, run: RunId, state: AgentState) -> Self {
        Self {
            run,
            expected: VecDeque::new(),
            progress: BTreeMap::new(),
            tasked: Tasks::default(),
            ended: None,
            closed: false,
            modules: BTreeMap::new(),
            active_ms: 0,
            spent_ms: BTreeMap::new(),
            left_out: BTreeSet::new(),
            suspended: None,
            paused: None,
            left: LeftOpen::default(),
            machine: Machine::new(config, state),
        }
    }

    /// The state so far.
    pub fn state(&self) -> &AgentState {
        self.machine.state()
    }

    /// The same fold of a run that begins with these modules.
    #[must_use]
    pub fn with_modules(mut self, modules: BTreeMap<String, String>) -> Self {
        self.modules = modules;
        self
    }

    /// Active time in milliseconds: for each step that of its longest operation, so that downtime and waiting for people
    /// do not count.
    pub fn active_ms(&self) -> u64 {
        self.active_ms + self.spent_ms.values().copied().max().unwrap_or(0)
    }

    /// Active time in milliseconds, with what attempts can have taken that nobody saw end: a run whose attempts bring its
    /// process down uses its time up all the same.
    pub fn most_active_ms(&self, now: Timestamp) -> u64 {
        let mut spent_ms = self.spent_ms.clone();
        for pending in self.state().pending().iter().filter(|pending| pending.outcome.is_none()) {
            let Some(progress) = self.progress.get(&pending.operation.id) else { continue };
            let spent = spent_ms.entry(self.root_of(pending.operation.id)).or_default();
            *spent = spent.saturating_add(progress.at_most_spent_ms(now));
        }
        self.active_ms + spent_ms.values().copied().max().unwrap_or(0)
    }

    /// The operation of the step below which an operation is, or itself.
    fn root_of(&self, id: OperationId) -> OperationId {
        let mut root = id;
        let pending = self.machine.state().pending();
        while let Some(above) =
            pending.iter().find(|pending| pending.operation.id == root).and_then(|pending| pending.parent)
        {
            root = above;
        }
        root
    }

    /// Takes the next record.
    ///
    /// The core is stepped only when a record needs it: a run that stopped between an outcome and its next step was
    /// not stepped either.
    ///
    /// # Errors
    /// When the journal and the core part, or the core refuses the configuration.
    pub fn apply(&mut self, record: &Record) -> Result<(), FoldError> {
        self.suspended = None;
        while self.ended.is_none()
            && self.expected.is_empty()
            && self.state().is_ready()
            && needs_step(record, self.state())
        {
            self.advance()?;
            // A call takes what has come one by one, and not all of it is followed by a record.
            if self.state().live().is_none() {
                break;
            }
        }
        match &record.body {
            Body::Started(_) => return Err(self.diverged(record, "a second start", "has started already")),
            Body::Requested { label, digest, start, .. } => {
                let recorded = || format!("a request, {label} ({})", short(digest));
                let operation = match self.expected.pop_front() {
                    Some(Expected::Request(operation)) => operation,
                    Some(expected) => return Err(self.diverged(record, recorded(), expected.in_words())),
                    None => return Err(self.diverged(record, recorded(), "asks for nothing more")),
                };
                if record.operation != Some(operation.id) {
                    return Err(self.diverged(
                        record,
                        recorded(),
                        format!("asks for {}", describe(&operation)),
                    ));
                }
                self.progress.insert(operation.id, Progress::requested(record.at, *start, &operation));
            }
            Body::Attempted { attempt, cause, start, .. } => {
                self.progress(record)?.attempted(record.at, *attempt, *cause, *start);
                self.tasked.attempted(self.operation(record)?, *cause);
            }
            Body::Waiting { gate: Gate::Approval } if self.is_open(record) => {
                // Not the agent's own approval, which its request has: one that the workspace asks for by now.
                self.progress(record)?.interpose(record.at);
                let id = self.operation(record)?;
                self.tasked.gated(id, &Gate::Approval);
                self.take(record, Event::gated(record.at, id, Gate::Approval))?;
            }
            Body::Waiting { gate: Gate::Approval | Gate::Input } => {
                self.progress(record)?;
            }
            Body::Waiting {
                gate: gate @ (Gate::InDoubt { .. } | Gate::Secret { .. } | Gate::Elicitation { .. }),
            } => {
                self.progress(record)?.interpose(record.at);
                let id = self.operation(record)?;
                self.tasked.gated(id, gate);
                self.take(record, Event::gated(record.at, id, gate.clone()))?;
            }
            Body::Answered { answer } => {
                let id = self.operation(record)?;
                self.take(record, Event::answer(record.at, id, answer.clone()))?;
                if let Some(progress) = self.progress.get_mut(&id) {
                    progress.settled();
                }
            }
            Body::Resolved { outcome, .. }
                if matches!(self.expected.front(), Some(Expected::Conclusion(..))) =>
            {
                self.conclude(record, outcome)?;
            }
            Body::Resolved { outcome, elapsed_ms, .. } => {
                let id = self.operation(record)?;
                self.spend(id, *elapsed_ms);
                self.take(record, Event::outcome(record.at, id, outcome.clone()))?;
            }
            Body::Conversed { news } => {
                for news in news {
                    self.take(record, Event::live(record.at, news.clone()))?;
                }
            }
            Body::Signalled { signal, .. } => {
                self.left = LeftOpen::of(self.state().pending());
                self.paused = None;
                self.take(record, Event::signal(record.at, *signal))?;
            }
            Body::Rebound { server, digest } => {
                self.modules.insert(server.clone(), digest.clone());
            }
            Body::Suspended { waiting_for, wake_at } => {
                self.suspended = Some(Suspension { waiting_for: waiting_for.clone(), wake_at: *wake_at });
                progress::suspend(&mut self.progress, self.machine.state(), record.at);
            }
            Body::Paused { by, reason, waiting_for } => {
                self.paused = Some(Pause { by: by.clone(), reason: reason.clone() });
                self.suspended = Some(Suspension { waiting_for: waiting_for.clone(), wake_at: None });
                progress::suspend(&mut self.progress, self.machine.state(), record.at);
            }
            Body::Continued { .. } => {
                // What the next step waits for begins after the pause.
                self.paused = None;
                self.machine.pass_time(record.at);
            }
            Body::Verified { tries: 0, .. } => self.progress(record)?.asks(),
            Body::Verified { .. } => self.progress(record)?.verified(),
            Body::Tasked { task, .. } => {
                if let Some(id) = record.operation.filter(|id| self.progress.contains_key(id)) {
                    self.tasked.note(id, task.clone(), record.at);
                    if progress::comes_later(self.machine.state(), id) {
                        self.progress(record)?.pause(record.at);
                    }
                }
            }
            Body::Late { outcome, .. } => {
                if let Some(id) = record.operation {
                    self.left.take(id, outcome);
                }
            }
            Body::Denied { .. } => {}
            Body::Completed { response } | Body::Failed { response } | Body::Cancelled { response } => {
                self.close(record, response)?;
            }
            Body::Narrowed { budget } => {
                self.nothing_expected(record)?;
                self.machine.narrow(*budget);
            }
            // What it says is in the state that the run began in.
            Body::Forked { .. } | Body::Adopted { .. } | Body::Inherited(_) if record.seq == 1 => {}
            Body::Forked { .. } | Body::Adopted { .. } | Body::Inherited(_) => {
                let recorded = format!("`{}`", record.body.kind());
                return Err(self.diverged(record, recorded, "has gone on already"));
            }
            // Nobody looked at what it had come to.
            Body::Abandoned { .. } => {
                self.expected.clear();
                self.paused = None;
                self.closed = true;
            }
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
            let open = |pending: &Pending| pending.operation.id == id && pending.outcome.is_none();
            if self.state().pending().iter().any(open) {
                let replaced = self.machine.replace(id, outcome);
                replaced.map_err(|error| {
                    self.diverged(record, "a replaced outcome", format!("refuses it: {error}"))
                })?;
            }
        }
        Ok(())
    }

    /// Has a call look at all that has come, for one that is forked here. What it asks for then is not recorded.
    pub(crate) fn catch_up(&mut self) -> Result<(), FoldError> {
        while self.ended.is_none() && self.state().live().is_some() && self.state().is_ready() {
            self.advance()?;
        }
        Ok(())
    }

    /// Takes a record of the prefix that a fork shares, with some outcomes replaced.
    pub(crate) fn apply_replaced(
        &mut self,
        record: &Record,
        replaced: &BTreeMap<OperationId, Outcome>,
    ) -> Result<(), FoldError> {
        if self.is_below(record, replaced) {
            return Ok(());
        }
        let Some((id, outcome)) = record.operation.and_then(|id| replaced.get_key_value(&id)) else {
            return self.apply(record);
        };
        if let Body::Requested { .. } = &record.body {
            self.apply(record)?;
            let mut pending = self.state().pending().iter();
            if !pending.any(|pending| pending.operation.id == *id && pending.operation.is_declarative()) {
                return Ok(());
            }
            // What it asked for is left out together with it.
            self.left_out.insert(*id);
        } else if self.left_out.contains(id) {
            return Ok(());
        }
        let settles = match &record.body {
            Body::Requested { .. } => true,
            Body::Resolved { .. } => true,
            Body::Answered { answer } => answer.outcome().is_some(),
            _ => false,
        };
        if !settles {
            return self.apply(record);
        }
        if !self.left_out.contains(id) {
            self.nothing_expected(record)?;
        }
        let replaced = self.machine.replace(*id, outcome.clone());
        replaced.map_err(|error| self.diverged(record, "a replaced outcome", format!("refuses it: {error}")))
    }

    /// Says whether a record is about something that a replaced declarative tool asked for.
    fn is_below(&mut self, record: &Record, replaced: &BTreeMap<OperationId, Outcome>) -> bool {
        let Some(id) = record.operation.filter(|id| !replaced.contains_key(id)) else { return false };
        if record.parent.is_some_and(|parent| self.left_out.contains(&parent)) {
            self.left_out.insert(id);
        }
        self.left_out.contains(&id)
    }

    /// Says whether nothing has to be answered before the operation of a record goes on, as far as is known.
    fn is_open(&self, record: &Record) -> bool {
        let mut pending = self.state().pending().iter();
        pending.any(|pending| {
            Some(pending.operation.id) == record.operation && pending.operation.gate == GateState::Open
        })
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
            Some(expected) => {
                let recorded = format!("`{}`", record.body.kind());
                Err(self.diverged(record, recorded, expected.in_words()))
            }
            None => Ok(()),
        }
    }

    /// Compares the recorded outcome of a declarative tool with what the core came to.
    fn conclude(&mut self, record: &Record, recorded: &Outcome) -> Result<(), FoldError> {
        let Some(Expected::Conclusion(id, outcome)) = self.expected.pop_front() else { return Ok(()) };
        if record.operation == Some(id) && outcome.is_recorded_as(recorded) {
            return Ok(());
        }
        let words = |id: Option<OperationId>, outcome: &Outcome| {
            let id = id.map_or_else(|| "nothing".to_owned(), |id| id.to_string());
            format!("for {id} the outcome {}", clip(&format!("{outcome:?}")))
        };
        Err(self.diverged(record, words(record.operation, recorded), words(Some(id), &outcome)))
    }

    /// Counts the active time of an operation. What declarative tools ask for comes one after the other.
    fn spend(&mut self, id: OperationId, elapsed_ms: u64) {
        let root = self.root_of(id);
        let spent = self.spent_ms.entry(root).or_default();
        *spent = spent.saturating_add(elapsed_ms);
    }

    fn take(&mut self, record: &Record, event: Event) -> Result<(), FoldError> {
        self.nothing_expected(record)?;
        let resumed = self.machine.resume(event);
        resumed.map_err(|error| {
            self.diverged(record, format!("`{}`", record.body.kind()), format!("refuses it: {error}"))
        })
    }

    fn advance(&mut self) -> Result<(), FoldError> {
        let run = self.run;
        let active_ms = self.active_ms();
        match self.machine.advance().map_err(|source| FoldError::Execution { run, source })? {
            Advance::Asked(operations) => {
                self.progress.clear();
                self.tasked.clear();
                self.spent_ms.clear();
                self.active_ms = active_ms;
                self.expected = operations.into_iter().map(Expected::Request).collect();
            }
            Advance::Moved(Moved { concluded, asked }) => {
                let concluded = concluded.into_iter().map(|(id, outcome)| Expected::Conclusion(id, outcome));
                self.expected.extend(concluded.chain(asked.into_iter().map(Expected::Request)));
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
            Some(expected) => Err(self.diverged(last, "no further request", expected.in_words())),
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
