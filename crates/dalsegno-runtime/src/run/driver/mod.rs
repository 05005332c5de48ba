//! The loop of one run: step, write down, perform, write down.
//!
//! One task owns the run. Every intent is committed before its effect starts and rides with the outcome before it, so
//! that a sequential step costs one commit; outcomes that are there at the same time share one. Attempts are decided
//! here and nowhere else.

mod admit;
mod commit;
mod end;
mod flight;
mod grant;
mod inbox;
mod live;
mod pause;
mod perform;
mod request;
mod running;
mod spoken;
mod store;
mod tasks;
mod verify;
mod wait;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{
    Answer, Event, Failure, FailureCode, Gate, GateState, Handoff, LiveNews, Operation, OperationId, Outcome,
    Request, Status, Timestamp,
};
use dalsegno_history::{Advance, End, Fold, Machine, Moved, Progress, Situation, Suspension};
use dalsegno_models::Schemas;
use dalsegno_store::{AttemptCause, Body, Lease, Message, NewRecord, Store};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::effects::budget::Settlement;
use crate::effects::dispatch::Permit;
use crate::effects::failure::AttemptError;
use crate::effects::policy::{self, Effect, RetryDecision};
use crate::error::{EngineError, RunFailure};
use crate::observer::Watches;
use crate::run::context::{GivenUp, RunContext};
use crate::run::converse::Line;
use crate::run::handle::{RunReport, Stop};

use self::end::Closing;
pub(crate) use self::end::Why;
use self::flight::{Flights, Paused};
use self::inbox::{Ending, Mailbox};
use self::pause::Standstill;
use self::running::RunningTasks;
use self::spoken::Spoken;
use self::tasks::RemoteTasks;

/// The longest that a process stays for a timer when nothing else is left to do; for a longer one the run is suspended.
const HOLD: Duration = Duration::from_secs(30);

/// A run that goes on where another one handed over; this process owns it.
pub(crate) struct Successor {
    pub(crate) context: Arc<RunContext>,
    pub(crate) lease: Lease,
    pub(crate) fold: Fold,
    pub(crate) watches: Watches,
}

/// A run that this process owns.
pub(crate) struct Driver {
    context: Arc<RunContext>,
    store: Arc<dyn Store>,
    lease: Lease,
    watches: Watches,
    schemas: Schemas,
    machine: Machine,
    /// What the journal knows of the open operations.
    progress: BTreeMap<OperationId, Progress>,
    /// Why the last attempt at an operation failed, until its next one is recorded.
    reasons: BTreeMap<OperationId, String>,
    /// What this process does with them.
    flights: Flights,
    running: RunningTasks,
    remote: RemoteTasks,
    /// Records of the next commit.
    outbox: Vec<NewRecord>,
    /// What tasks of attempts cost whose ends the journal does not have yet.
    settlements: Vec<(OperationId, u32, Settlement)>,
    mailbox: Mailbox,
    /// Questions about operations in doubt, to be asked after the next commit.
    questions: Vec<verify::Question>,
    ended: Option<End>,
    closing: Closing,
    handover: Handover,
    /// Why the run cannot continue here.
    trouble: Option<EngineError>,
    stop: watch::Receiver<Stop>,
    /// What child runs are told.
    below: watch::Sender<Stop>,
    /// The run is to be left as it is: nothing new starts.
    stopping: bool,
    /// Whether a person wants the run to stand still.
    standstill: Standstill,
    /// It is time to tell the child runs so, too.
    pauses_below: bool,
    /// What child runs are told before the next commit.
    word_below: Option<Message>,
    active: ActiveTime,
    /// The modules of tool servers; a snapshot carries them.
    modules: BTreeMap<String, String>,
    /// What the journal says last that the run waits for, if that is what it says last.
    suspension: Option<Suspension>,
    snapshot_step: u64,
    spoken: Spoken,
    /// The surface of the call that the run is.
    line: Option<Line>,
    /// The latest time of the call's news, and when this process learned of it.
    pace: (Timestamp, Instant),
}

/// The time that a run was worked on, without its waiting for times and for the store.
struct ActiveTime {
    began: Instant,
    before: Duration,
}

impl ActiveTime {
    fn so_far(&self) -> Duration {
        self.before.saturating_add(self.began.elapsed())
    }

    /// Does not count this time, which has just passed.
    fn leave_out(&mut self, time: Duration) {
        self.began += time;
    }
}

/// Whether the run ends with a handoff.
#[derive(Default)]
enum Handover {
    #[default]
    None,
    /// The next commit makes it, together with the run that continues.
    Wanted(Box<Handoff>),
    /// The run that continues was started.
    Made(Box<Successor>),
}

impl Handover {
    const fn is_wanted(&self) -> bool {
        matches!(self, Self::Wanted(_))
    }

    fn take_wish(&mut self) -> Option<Handoff> {
        match std::mem::take(self) {
            Self::Wanted(handoff) => Some(*handoff),
            other => {
                *self = other;
                None
            }
        }
    }

    fn successor(self) -> Option<Successor> {
        match self {
            Self::Made(successor) => Some(*successor),
            Self::None | Self::Wanted(_) => None,
        }
    }
}

/// What the loop waits for.
enum Input {
    /// An attempt has ended.
    Attempted { operation: OperationId, attempt: u32, result: Result<Outcome, AttemptError> },
    /// The receiver of an attempt works on it, and is asked again after a pause.
    Later { operation: OperationId, pause: Duration },
    /// The pause before an attempt is over, or was given up.
    Due { operation: OperationId, attempt: u32, cause: AttemptCause },
    /// There is room for an attempt, or there will be none.
    Admitted {
        operation: OperationId,
        attempt: u32,
        cause: AttemptCause,
        result: Result<Permit, AttemptError>,
    },
    /// A tool was asked whether an operation in doubt took place.
    Verified { operation: OperationId, attempts: u32, found: verify::Found },
    /// A child run was told to end, since somebody gave its operation up.
    ChildGivenUp { operation: OperationId, attempt: u32, given_up: GivenUp, ending: Ending },
    /// A child run is suspended, or another process performs it.
    Paused { operation: OperationId, paused: Paused },
    /// A child run cannot be performed here now.
    Trouble(EngineError),
    /// An attempt was told of a task.
    Tasked,
    /// Something happened in the call; nothing where its surface has gone.
    News(Vec<LiveNews>),
    /// A time has come that the call waits for.
    Woke,
    /// Messages of other processes.
    Inbox(Vec<(u64, Message)>),
    /// It is time to look for such.
    Look,
    /// Somebody wants the run to end.
    Cancelled,
    /// An attempt was given up because the run stops.
    GivenUp,
    /// An attempt that may be repeated was given up because the run stops; nothing went wrong with it.
    PutOff { operation: OperationId, attempt: u32 },
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
        watches: Watches,
        stop: watch::Receiver<Stop>,
    ) -> Self {
        let schemas = Schemas::compile(&context.toolbox);
        let step = fold.state().step();
        let spoken = Spoken::until(fold.state());
        let before = Duration::from_millis(fold.most_active_ms(context.ports.now()));
        let active = ActiveTime { began: Instant::now(), before };
        Self {
            context,
            store,
            lease,
            watches,
            schemas,
            progress: fold.progress,
            reasons: BTreeMap::new(),
            flights: Flights::default(),
            running: RunningTasks::default(),
            remote: RemoteTasks::new(fold.tasked),
            outbox: Vec::new(),
            settlements: Vec::new(),
            mailbox: Mailbox::new(),
            questions: Vec::new(),
            ended: if fold.closed { fold.ended } else { None },
            closing: Closing::default(),
            handover: Handover::default(),
            trouble: None,
            stop,
            below: watch::channel(Stop::Go).0,
            stopping: fold.paused.is_some(),
            standstill: fold.paused.map_or(Standstill::None, Standstill::Written),
            pauses_below: true,
            word_below: None,
            active,
            modules: fold.modules,
            suspension: fold.suspended,
            snapshot_step: step,
            spoken,
            line: None,
            pace: (fold.machine.state().now(), Instant::now()),
            machine: fold.machine,
        }
    }

    /// Settles what a crash left in doubt, and starts what had not started. Of a run that stands still nothing does, until it continues.
    pub(crate) fn take_up(&mut self) -> Result<(), RunFailure> {
        if self.standstill.written().is_some() {
            return Ok(());
        }
        let doubts = self.missing().filter(|operation| {
            matches!(operation.gate, GateState::Waiting(Gate::InDoubt { .. }))
                && self.progress.get(&operation.id).is_some_and(|progress| !progress.is_verified)
        });
        for operation in doubts.map(|operation| operation.id).collect::<Vec<_>>() {
            self.verify(operation);
        }
        let open: Vec<Operation> =
            self.missing().filter(|operation| !is_waiting(operation)).cloned().collect();
        for operation in open {
            if operation.is_declarative() {
                // Only what it asks for is attempted.
                continue;
            }
            let progress = self.progress.get(&operation.id).copied().unwrap_or_default();
            // An attempt that was put off has its number already, and did not begin.
            let (begun, next) = match progress.started {
                true => (progress.attempts, progress.attempts + 1),
                false => (progress.attempts.saturating_sub(1), progress.attempts.max(1)),
            };
            if matches!(operation.request, Request::Timer(_)) {
                // A time that comes is no attempt.
                self.flights.start(operation.id, progress.attempts.max(1), None);
                continue;
            }
            if matches!(operation.request, Request::AgentCall(_)) && progress.started {
                // The same child run goes on: that is no attempt either. The time in between was not spent on it.
                let at = self.now();
                self.progress.entry(operation.id).or_default().taken_up(at);
                self.flights.start(operation.id, progress.attempts.max(1), None);
                continue;
            }
            if progress.started && self.remote.tasked.get(operation.id).is_some() {
                // Its server works on it: the same attempt goes on.
                let at = self.now();
                self.progress.entry(operation.id).or_default().taken_up(at);
                self.flights.start(operation.id, progress.attempts.max(1), None);
                continue;
            }
            if !progress.started && !progress.doubtful && operation.gate == GateState::Answered {
                self.flights.queue(operation.id, AttemptCause::Answered);
                continue;
            }
            if !progress.started && progress.attempts == 0 && self.machine.state().concurrency().is_some() {
                self.flights.queue(operation.id, AttemptCause::Queued);
                continue;
            }
            if !progress.started && !progress.doubtful {
                self.admit(operation.id, next, AttemptCause::Recovered)?;
                continue;
            }
            let lost = progress.lost.saturating_add(u32::from(progress.started));
            if !self.machine.state().has_room(&self.context.config, &operation, lost) {
                let message = format!(
                    "its process died during attempt {begun}, and the run's limits have no room for another one"
                );
                let failure = Failure::new(FailureCode::CrashLoop, message);
                self.record_lost(&operation, failure)?;
                continue;
            }
            match policy::recover(Effect::from(&operation), self.situation(&progress, begun)) {
                RetryDecision::Again { .. } => self.admit(operation.id, next, AttemptCause::Recovered)?,
                RetryDecision::Take(Outcome::Failed(failure)) => self.record_lost(&operation, failure)?,
                RetryDecision::Take(outcome) => self.record_outcome(operation.id, outcome)?,
                RetryDecision::Gate(gate) => self.open_gate(operation.id, gate)?,
                RetryDecision::Ask(reason) => self.open_doubt(operation.id, reason)?,
            }
        }
        self.fill()?;
        Ok(())
    }

    /// Gives an operation up whose process died once too often: the attempt under way then is lost as well.
    fn record_lost(&mut self, operation: &Operation, failure: Failure) -> Result<(), RunFailure> {
        let at = self.now();
        if let Some(progress) = self.progress.get_mut(&operation.id).filter(|progress| progress.started) {
            progress.given_up(at);
        }
        self.record_outcome(operation.id, Outcome::Failed(failure))
    }

    /// Writes down which tool servers turned out to have another module than the journal says.
    fn record_rebounds(&mut self) {
        for (server, digest) in self.context.bound.take_news() {
            if self.ended.is_some() {
                continue;
            }
            self.outbox.push(NewRecord::new(
                self.now(),
                Body::Rebound { server: server.clone(), digest: digest.clone() },
            ));
            self.modules.insert(server, digest);
        }
    }

    /// Records an answer; the caller has checked that the operation waits for it.
    pub(crate) fn answer(&mut self, operation: OperationId, mut answer: Answer) -> Result<(), RunFailure> {
        self.context.bindings.secrets().scrub_answer(&mut answer);
        let at = self.now();
        let task = self.idle_task(operation);
        self.outbox.push(NewRecord::of(at, operation, Body::Answered { answer: answer.clone() }));
        self.resume(Event::answer(at, operation, answer))?;
        if let Some(task) = task.filter(|_| !self.is_missing(operation)) {
            // A no is the outcome, and nobody waits for the task any more.
            self.release(task, false);
        }
        if let Some(progress) = self.progress.get_mut(&operation) {
            progress.settled();
        }
        let goes_on = self.missing().any(|missing| missing.id == operation && !missing.is_declarative());
        if goes_on && !self.time_left().is_zero() {
            self.flights.queue(operation, AttemptCause::Answered);
            self.fill()?;
        }
        Ok(())
    }

    /// Runs until the end, a suspension or an interruption.
    pub(crate) async fn drive(mut self) -> Result<(RunReport, Option<Successor>), RunFailure> {
        match self.perform().await {
            Ok(()) => self.leave().await,
            Err(failure) => {
                self.abandon().await;
                Err(failure)
            }
        }
    }

    async fn perform(&mut self) -> Result<(), RunFailure> {
        if self.closing.is_doomed || *self.stop.borrow() == Stop::Cancel {
            self.cancel()?;
        }
        let messages = self.look().await;
        self.handle(Input::Inbox(messages))?;
        if self.time_left().is_zero() && !self.standstill.holds() {
            self.end_by_deadline()?;
        }
        self.go_on()?;
        self.end_without_line()?;
        loop {
            if std::mem::take(&mut self.mailbox.told) && self.ended.is_none() {
                self.look_for_secrets().await?;
            }
            self.tell_below().await;
            let since = Instant::now();
            self.commit().await?;
            self.confirm(since).await?;
            if self.catch_up(since).await? {
                continue;
            }
            self.launch();
            if self.ended.is_some() {
                self.tell_line();
                self.end_children();
            }
            if self.stopping || self.ended.is_some() {
                self.give_up();
            } else {
                self.snapshot().await;
            }
            if self.running.is_empty() && !self.is_conversing() {
                let leaves = self.ended.is_some() || self.stopping && !self.standstill.holds();
                if leaves || self.trouble.is_some() || !self.can_continue().await? {
                    return Ok(());
                }
                continue;
            }
            let input = self.next_input().await;
            self.handle(input)?;
            while let Some(joined) = self.running.try_next() {
                let input = self.joined(joined);
                self.handle(input)?;
            }
        }
    }

    /// Looks once more at everything that could wake the run, and suspends it when there is nothing.
    async fn can_continue(&mut self) -> Result<bool, RunFailure> {
        let messages = self.look().await;
        self.handle(Input::Inbox(messages))?;
        if !self.is_idle() {
            return Ok(true);
        }
        if self.standstill.holds() {
            return self.stand_still().await;
        }
        if self.wake() {
            return Ok(true);
        }
        if self.time_left().is_zero() && self.has_more_to_start() {
            // It was answered when there was no time left to start it, and nothing else would wake the run.
            self.end_by_deadline()?;
            return Ok(true);
        }
        self.suspend();
        self.commit().await?;
        // A secret that came in between was told to the runs that waited for it then, and this was none of them. A process
        // that dies here has not released the run, so that another one looks.
        self.look_for_secrets().await?;
        Ok(!self.is_idle())
    }

    /// Writes down that the run stands still; says whether something is to be done before it is left.
    async fn stand_still(&mut self) -> Result<bool, RunFailure> {
        // What came while it was wanted is looked at once more, such as the wish that it continue.
        let was_wanted = self.standstill.is_wanted();
        self.suspend();
        self.commit().await?;
        Ok(was_wanted || !self.is_idle())
    }

    /// Says whether there is an operation that waits for nothing outside of the run.
    fn has_more_to_start(&self) -> bool {
        self.missing().any(|operation| {
            let waits = is_waiting(operation) || matches!(operation.request, Request::Timer(_));
            let goes_on_elsewhere =
                self.flights.is_suspended(operation.id) || self.flights.is_later(operation.id);
            !waits && !operation.is_declarative() && !goes_on_elsewhere
        })
    }

    /// Nothing is to be recorded, started or looked at.
    fn is_idle(&self) -> bool {
        self.ended.is_none()
            && !self.mailbox.told
            && self.outbox.is_empty()
            && !self.flights.has_starting()
            && self.questions.is_empty()
            && !self.remote.has_releases()
            && !self.is_conversing()
            && self.running.is_empty()
    }

    /// Steps while nothing is missing, unless the run is to stop.
    fn go_on(&mut self) -> Result<(), RunFailure> {
        while self.ended.is_none() && self.machine.state().is_ready() {
            let stop = *self.stop.borrow();
            match stop {
                Stop::Go => {}
                Stop::Interrupt => self.interrupt(),
                Stop::Cancel => return self.cancel(),
            }
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

    fn time_left(&self) -> Duration {
        let limit = self.context.grant.timeout_ms(self.context.config.limits.timeout_ms);
        let limit = Duration::from_millis(limit);
        limit.saturating_sub(self.active.so_far())
    }

    fn step(&mut self) -> Result<(), RunFailure> {
        match self.machine.advance().map_err(|error| self.defect(&error.to_string()))? {
            Advance::Asked(operations) => {
                self.progress.clear();
                self.reasons.clear();
                self.context.files.clear();
                self.remote.tasked.clear();
                self.flights.clear();
                self.request(operations)
            }
            Advance::Moved(Moved { concluded, asked }) => {
                let at = self.now();
                let mut ended = Vec::with_capacity(concluded.len());
                for (operation, outcome) in concluded {
                    self.log(operation, &outcome);
                    let elapsed_ms = self.progress.get(&operation).map_or(0, |progress| progress.age_ms(at));
                    let body = Body::Resolved { outcome, attempts: 1, elapsed_ms };
                    self.outbox.push(NewRecord::of(at, operation, body));
                    ended.push(operation);
                }
                self.let_go(&ended);
                self.request(asked)
            }
            Advance::Ended(end) => {
                self.end(end);
                Ok(())
            }
        }
    }

    fn end(&mut self, end: End) {
        match &end {
            End::Response(response) => {
                let body = match response.status {
                    Status::Completed => Body::Completed { response: response.clone() },
                    Status::Failed => Body::Failed { response: response.clone() },
                    Status::Cancelled | Status::HandedOff => Body::Cancelled { response: response.clone() },
                };
                self.outbox.push(NewRecord::new(self.now(), body));
            }
            End::Handoff(handoff) => self.handover = Handover::Wanted(Box::new(handoff.clone())),
        }
        self.ended = Some(end);
    }

    /// What tells the run to stop.
    pub(crate) fn stop(&self) -> watch::Receiver<Stop> {
        self.stop.clone()
    }

    fn now(&self) -> Timestamp {
        self.context.ports.now()
    }

    /// What is known of an operation when one of its attempts has ended.
    fn situation(&self, progress: &Progress, attempt: u32) -> Situation {
        progress.situation(attempt, self.now(), self.machine.state().now())
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

fn is_waiting(operation: &Operation) -> bool {
    matches!(operation.gate, GateState::Waiting(_))
}
