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
use crate::handle::{RunEnd, RunHandle, RunReport, Stop};

/// The first pause before a run is taken again that could not go on, or had nothing to go on with.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
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
    /// A run cannot go on now; it is tried again later.
    Failed {
        /// The run.
        run: RunId,
        /// Why.
        error: &'a EngineError,
    },
    /// It was told to stop: nothing new starts, and what may not be repeated finishes first.
    Stopping,
    /// The store cannot be read now; it is tried again.
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
    /// How often a run could not go on.
    pub failed: u64,
}

/// What a task came to.
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
    /// It still belongs to this process, so that no store offers it to anybody.
    own: bool,
}

/// The runs that a worker performs, and those that it leaves alone for a while.
struct Hands {
    tasks: JoinSet<Task>,
    /// The runs of the tasks, and what tells them to stop.
    under_way: BTreeMap<Id, (RunId, watch::Sender<Stop>)>,
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
        let owner = self.owner(RunId::from_bytes([0; 16])).await?.clone();
        let mut stop = std::pin::pin!(stop);
        let mut hands = Hands {
            tasks: JoinSet::new(),
            under_way: BTreeMap::new(),
            pauses: BTreeMap::new(),
            report: WorkerReport::default(),
        };
        loop {
            let (now, looked) = (Instant::now(), self.now());
            hands.forget(now);
            let room = options.concurrency.saturating_sub(hands.tasks.len());
            if room > 0 {
                // Those that are left alone for a while are found as well, and must not hide others. All of them may be there
                // for one of four causes, each of which has a quarter of the limit.
                let limit = room.saturating_add(hands.pauses.len().saturating_mul(4));
                let limit = u32::try_from(limit).unwrap_or(u32::MAX);
                match self.store().takeable(&owner, looked, limit).await {
                    Ok(runs) => {
                        let own = hands.pauses.iter().filter(|(_, pause)| pause.own).map(|(run, _)| *run);
                        // In the store's order, which is fair to all causes.
                        let found: Vec<RunId> =
                            own.chain(runs).filter(|run| hands.may_take(*run, now)).collect();
                        let mut taken = BTreeSet::new();
                        for run in found.into_iter().filter(|run| taken.insert(*run)).take(room) {
                            hands.take(self, run);
                        }
                    }
                    Err(error) => tell(WorkerEvent::Blind { error: &error.into() }),
                }
            }
            if options.until_idle && hands.are_idle() {
                return Ok(hands.report);
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

impl Hands {
    fn may_take(&self, run: RunId, now: Instant) -> bool {
        !self.under_way.values().any(|(performed, _)| *performed == run)
            && self.pauses.get(&run).is_none_or(|pause| pause.until <= now)
    }

    /// Nothing is under way, and what could not go on was tried twice.
    fn are_idle(&self) -> bool {
        self.tasks.is_empty() && self.pauses.values().all(|pause| !pause.own || pause.length > FIRST_PAUSE)
    }

    /// Forgets pauses that are long over. One that belongs to this process is remembered here only, and stays.
    fn forget(&mut self, now: Instant) {
        self.pauses.retain(|_, pause| pause.own || pause.until + pause.length > now);
    }

    fn take(&mut self, engine: &Engine, run: RunId) {
        let engine = engine.clone();
        let task =
            self.tasks.spawn(async move { Task::Begun(engine.take_open(run, Vec::new(), true).await) });
        self.under_way.insert(task.id(), (run, watch::Sender::new(Stop::Go)));
    }

    fn perform(&mut self, handle: RunHandle, run: RunId, stop: watch::Sender<Stop>) {
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
        self.under_way.insert(task.id(), (run, stop));
    }

    fn done(&mut self, joined: Result<(Id, Task), JoinError>, tell: &mut impl FnMut(WorkerEvent<'_>)) {
        let id = joined.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let (run, stop) = self.under_way.remove(&id).expect("every task is entered when it is spawned");
        let result = match joined {
            Ok((_, Task::Begun(Ok(Some(handle))))) => {
                self.report.taken += 1;
                tell(WorkerEvent::Taken { run });
                return self.perform(handle, run, stop);
            }
            // Another process was faster, and has finished.
            Ok((_, Task::Begun(Ok(None)))) => return,
            Ok((_, Task::Begun(Err(error)))) => Err(error),
            Ok((_, Task::Over(result))) => result,
            Err(error) => Err(RunFailure::Panicked { run, message: error.to_string() }.into()),
        };
        let own = match &result {
            Ok(report) => {
                let over = match &report.end {
                    RunEnd::Ended(_) => {
                        self.report.ended += 1;
                        true
                    }
                    RunEnd::Suspended { .. } => {
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
                false
            }
            // Another process has it.
            Err(
                EngineError::Acquire(AcquireError::Owned { .. })
                | EngineError::Run(RunFailure::Append { source: AppendError::Fenced { .. }, .. }),
            ) => {
                self.pauses.remove(&run);
                return;
            }
            Err(error) => {
                self.report.failed += 1;
                tell(WorkerEvent::Failed { run, error });
                true
            }
        };
        // One that is found again right after it was left has nothing to go on with, whatever it waits for: it is left
        // alone longer each time. A sound one waits for more than a second.
        let now = Instant::now();
        let before = self.pauses.get(&run).filter(|pause| now < pause.until + pause.length);
        let length = before.map_or(FIRST_PAUSE, |pause| pause.length * 2).min(LONGEST_PAUSE);
        self.pauses.insert(run, Pause { until: now + length, length, own });
    }

    /// Lets go of all runs.
    async fn leave(mut self, tell: &mut impl FnMut(WorkerEvent<'_>)) -> WorkerReport {
        tell(WorkerEvent::Stopping);
        for (_, stop) in self.under_way.values() {
            stop.send_replace(Stop::Interrupt);
        }
        while let Some(joined) = self.tasks.join_next_with_id().await {
            self.done(joined, tell);
        }
        self.report
    }
}
