//! A process that goes on with runs that nobody performs: those whose process died, those whose time has come.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dalsegno_core::{RunId, Timestamp};
use dalsegno_store::{AcquireError, AppendError};
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use crate::engine::Engine;
use crate::error::{EngineError, RunFailure};
use crate::live::Look;
use crate::run::handle::{RunEnd, RunHandle, RunReport, Stop};

/// The first pause before a run is taken again that could not go on, or had nothing to go on with.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The time between two looks at the files of the workspace: a look at thousands of files takes milliseconds.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Most runs at once. 64 by default: a run that waits for a model costs little, and its effects have limits of their
    /// own.
    pub concurrency: usize,
    /// Whether to end when nothing can go on any more, instead of waiting for more.
    pub until_idle: bool,
    /// How often to look for runs. A quarter of a second by default, so that those of a process that died go on within a
    /// second.
    pub poll: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self { concurrency: 64, until_idle: false, poll: Duration::from_millis(250) }
    }
}

/// What happens in a worker.
#[derive(Debug)]
pub enum WorkerEvent<'a> {
    /// It goes on with a run.
    Taken {
        /// The run.
        run: RunId,
    },
    /// A run has ended, is suspended or was interrupted.
    Left {
        /// How it stands.
        report: &'a RunReport,
    },
    /// A run cannot be resumed now; it is tried again later. The same reason is told once.
    Failed {
        /// The run.
        run: RunId,
        /// Why.
        error: &'a EngineError,
    },
    /// It was told to stop: nothing new starts, and what may not be repeated finishes first.
    Stopping,
    /// Files of the workspace have changed.
    Changed {
        /// What came of it.
        look: &'a Look,
    },
    /// The store cannot be read or written now; it is tried again.
    Blind {
        /// Why.
        error: &'a EngineError,
    },
}

/// What a worker has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct WorkerReport {
    /// How often it went on with a run.
    pub taken: u64,
    /// Runs that ended.
    pub ended: u64,
    /// How often a run was suspended again.
    pub suspended: u64,
    /// Runs that were left unfinished, to go on elsewhere.
    pub interrupted: u64,
    /// Runs that could not be resumed when they were tried last.
    pub failed: u64,
}

/// What a task came to.
#[expect(clippy::large_enum_variant, reason = "there is one for each task, and it is taken apart at once")]
enum Task {
    /// A run is this process's, unless it was over when its turn came.
    Begun(Result<Option<RunHandle>, EngineError>),
    /// A run was performed.
    Over(Result<RunReport, EngineError>),
}

/// A run that is left alone for a while.
struct Pause {
    until: Instant,
    length: Duration,
    /// The number of its latest message when it was acquired: a later one ends the pause.
    newest: u64,
    /// Why it could not be resumed, if it could not. It may still belong to this process, so that no store offers it.
    failure: Option<String>,
}

/// How long a run that cannot be resumed is tried again by a worker that is to end when nothing is left to do: what is away
/// for a moment, such as a server that restarts, is back by then.
const PATIENCE: Duration = Duration::from_secs(8);

/// The runs that a worker performs, and those that it leaves alone for a while.
struct Hands {
    tasks: JoinSet<Task>,
    /// The runs of the tasks, with the number of their latest message, and what tells them to stop.
    under_way: BTreeMap<Id, (RunId, u64, watch::Sender<Stop>)>,
    pauses: BTreeMap<RunId, Pause>,
    report: WorkerReport,
}

impl Engine {
    /// Goes on with runs that nobody performs until `stop` is done: with those whose process died, was stopped or gave
    /// them back, and with suspended ones whose time has come. Then it leaves what it performs: nothing new starts,
    /// and every run goes on at the next start, here or in another process.
    ///
    /// Trouble with one run is told and stops no other. Several workers may share a store.
    ///
    /// # Errors
    /// When this engine only reads.
    pub async fn work(
        &self,
        options: &WorkerOptions,
        stop: impl Future<Output = ()>,
        mut tell: impl FnMut(WorkerEvent<'_>),
    ) -> Result<WorkerReport, EngineError> {
        let owner = self.ports().owner().await?.clone();
        let mut stop = std::pin::pin!(stop);
        let mut hands = Hands {
            tasks: JoinSet::new(),
            under_way: BTreeMap::new(),
            pauses: BTreeMap::new(),
            report: WorkerReport::default(),
        };
        let mut next_look = Instant::now();
        loop {
            let (now, looked) = (Instant::now(), self.now());
            hands.forget(now);
            if next_look <= now {
                next_look = now + BETWEEN_LOOKS;
                match self.look().await {
                    Look::Unchanged => {}
                    look @ (Look::Taken(_) | Look::Refused(_)) => tell(WorkerEvent::Changed { look: &look }),
                }
            }
            let room = options.concurrency.saturating_sub(hands.tasks.len());
            // Something can still be done, now or soon.
            let mut waits = false;
            if room > 0 {
                // Those that are left alone for a while are found as well, and must not hide others. All of them may be there
                // for one of four causes, each of which has a quarter of the limit.
                let limit = room.saturating_add(hands.pauses.len().saturating_mul(4));
                let limit = u32::try_from(limit).unwrap_or(u32::MAX);
                match self.store().takeable(&owner, looked, limit).await {
                    Ok(runs) => {
                        let own = hands.failing().collect::<Vec<_>>();
                        // In the store's order, which is fair to all causes.
                        let mut seen = BTreeSet::new();
                        for run in own.into_iter().chain(runs).filter(|run| seen.insert(*run)) {
                            let newest = self.newest(run).await;
                            match hands.may_take(run, newest, now) {
                                Take::Now if hands.tasks.len() < options.concurrency => {
                                    hands.take(self, run, newest);
                                }
                                Take::Now | Take::Later => waits = true,
                                Take::Not => {}
                            }
                        }
                    }
                    Err(error) => {
                        waits = true;
                        tell(WorkerEvent::Blind { error: &error.into() });
                    }
                }
            }
            if options.until_idle && !waits && hands.tasks.is_empty() {
                return Ok(hands.finish());
            }
            let until = now + options.poll.min(self.until_wake(looked).await);
            loop {
                tokio::select! {
                    biased;
                    () = &mut stop => return Ok(hands.leave(&mut tell).await),
                    Some(joined) = hands.tasks.join_next_with_id() => {
                        hands.done(joined, &mut tell);
                        // There is room again, or nothing is left.
                        if room == 0 || hands.tasks.is_empty() {
                            break;
                        }
                    }
                    () = tokio::time::sleep_until(until) => break,
                }
            }
        }
    }
}

impl Engine {
    /// The number of the latest message that waits for a run; 0 without one.
    async fn newest(&self, run: RunId) -> u64 {
        let messages = self.store().inbox(run).await.unwrap_or_default();
        messages.last().map_or(0, |(number, _)| *number)
    }

    /// The time until the next suspended run wakes whose time had not come when runs were `looked` for. What woke since
    /// then is none of the past: nobody has found it.
    async fn until_wake(&self, looked: Timestamp) -> Duration {
        // Trouble with the store is told where runs are looked for.
        let at = self.store().next_wake(looked).await.ok().flatten();
        at.map_or(Duration::MAX, |at| {
            Duration::from_millis(at.as_millis().saturating_sub(self.now().as_millis()))
        })
    }
}

/// What is to become of a run that can be resumed.
enum Take {
    /// It is acquired.
    Now,
    /// It is acquired after a pause.
    Later,
    /// Nothing: it is under way, or nothing came of resuming it, more than once.
    Not,
}

impl Hands {
    fn may_take(&self, run: RunId, newest: u64, now: Instant) -> Take {
        if self.under_way.values().any(|(performed, ..)| *performed == run) {
            return Take::Not;
        }
        match self.pauses.get(&run) {
            Some(pause) if pause.until > now && newest <= pause.newest => match &pause.failure {
                Some(_) if pause.length > PATIENCE => Take::Not,
                None if pause.length > FIRST_PAUSE => Take::Not,
                Some(_) | None => Take::Later,
            },
            Some(_) | None => Take::Now,
        }
    }

    /// Runs that could not be resumed.
    fn failing(&self) -> impl Iterator<Item = RunId> {
        self.pauses.iter().filter(|(_, pause)| pause.failure.is_some()).map(|(run, _)| *run)
    }

    fn finish(mut self) -> WorkerReport {
        self.report.failed = self.failing().count() as u64;
        self.report
    }

    /// Forgets pauses that are long over. One of a run that could not be resumed may be remembered here only, and stays.
    fn forget(&mut self, now: Instant) {
        self.pauses.retain(|_, pause| pause.failure.is_some() || pause.until + pause.length > now);
    }

    fn take(&mut self, engine: &Engine, run: RunId, newest: u64) {
        let engine = engine.clone();
        let task =
            self.tasks.spawn(async move { Task::Begun(engine.take_open(run, Vec::new(), true).await) });
        self.under_way.insert(task.id(), (run, newest, watch::Sender::new(Stop::Go)));
    }

    fn perform(&mut self, handle: RunHandle, run: RunId, newest: u64, stop: watch::Sender<Stop>) {
        let mut stopped = stop.subscribe();
        let task = self.tasks.spawn(async move {
            let told = handle.stop.clone();
            let mut finished = std::pin::pin!(handle.finish());
            let report = tokio::select! {
                report = &mut finished => report,
                () = async { drop(stopped.wait_for(|stop| *stop != Stop::Go).await) } => {
                    told.send_replace(Stop::Interrupt);
                    finished.await
                }
            };
            Task::Over(report.map_err(EngineError::from))
        });
        self.under_way.insert(task.id(), (run, newest, stop));
    }

    fn done(&mut self, joined: Result<(Id, Task), JoinError>, tell: &mut impl FnMut(WorkerEvent<'_>)) {
        let id = joined.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let (run, newest, stop) =
            self.under_way.remove(&id).expect("every task is entered when it is spawned");
        let result = match joined {
            Ok((_, Task::Begun(Ok(Some(handle))))) => {
                self.report.taken += 1;
                tell(WorkerEvent::Taken { run });
                return self.perform(handle, run, newest, stop);
            }
            // Another process was faster, and has finished.
            Ok((_, Task::Begun(Ok(None)))) => {
                self.pauses.remove(&run);
                return;
            }
            Ok((_, Task::Begun(Err(error)))) => Err(error),
            Ok((_, Task::Over(result))) => result,
            Err(error) => Err(RunFailure::Panicked { run, message: error.to_string() }.into()),
        };
        let failure = match &result {
            Ok(report) => {
                let over = match &report.end {
                    RunEnd::Ended(_) => {
                        self.report.ended += 1;
                        true
                    }
                    RunEnd::Suspended { .. } | RunEnd::Paused { .. } => {
                        self.report.suspended += 1;
                        false
                    }
                    RunEnd::Interrupted => {
                        self.report.interrupted += 1;
                        false
                    }
                };
                tell(WorkerEvent::Left { report });
                if over {
                    self.pauses.remove(&run);
                    return;
                }
                None
            }
            // Another process has it.
            Err(
                EngineError::Acquire(AcquireError::Owned { .. })
                | EngineError::Run(RunFailure::Append { source: AppendError::Fenced { .. }, .. }),
            ) => {
                self.pauses.remove(&run);
                return;
            }
            // Its caller is at a line of another process: nothing is wrong, and there is nothing to do here.
            Err(EngineError::NoLine { .. }) => None,
            Err(error) => {
                let told = error_chain(error);
                let before = self.pauses.get(&run).and_then(|pause| pause.failure.as_ref());
                if before != Some(&told) {
                    tell(match error.is_passing() {
                        true => WorkerEvent::Blind { error },
                        false => WorkerEvent::Failed { run, error },
                    });
                }
                Some(told)
            }
        };
        // One that is found again right after it was left has nothing to do, whatever it waits for: it is left alone longer
        // each time. A sound one waits for more than a second, or has a message since.
        let now = Instant::now();
        let again = |pause: &&Pause| {
            pause.failure.is_some() == failure.is_some()
                && newest <= pause.newest
                && (failure.is_some() || now < pause.until + pause.length)
        };
        let before = self.pauses.get(&run).filter(again);
        let length = before.map_or(FIRST_PAUSE, |pause| pause.length * 2).min(LONGEST_PAUSE);
        self.pauses.insert(run, Pause { until: now + length, length, newest, failure });
    }

    /// Lets go of all runs.
    async fn leave(mut self, tell: &mut impl FnMut(WorkerEvent<'_>)) -> WorkerReport {
        tell(WorkerEvent::Stopping);
        for (_, _, stop) in self.under_way.values() {
            stop.send_replace(Stop::Interrupt);
        }
        while let Some(joined) = self.tasks.join_next_with_id().await {
            self.done(joined, tell);
        }
        self.finish()
    }
}

/// An error with its causes.
fn error_chain(error: &EngineError) -> String {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        words.push_str(": ");
        words.push_str(&cause.to_string());
        source = cause.source();
    }
    words
}

#[cfg(test)]
mod tests;
