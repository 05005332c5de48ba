//! A process that goes on with runs that nobody performs: those whose process died, those whose time has come.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use segno_core::{RunId, Timestamp};
use segno_store::{AcquireError, AppendError};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::error::{EngineError, RunFailure};
use crate::handle::{RunEnd, RunReport, Stop};

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

/// When to try a run again.
struct Pause {
    until: Instant,
    length: Duration,
}

/// The runs that a worker performs, and those that it leaves alone for a while.
struct Hands {
    tasks: JoinSet<(RunId, Result<RunReport, EngineError>)>,
    stops: BTreeMap<RunId, watch::Sender<Stop>>,
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
            stops: BTreeMap::new(),
            pauses: BTreeMap::new(),
            report: WorkerReport::default(),
        };
        loop {
            let now = Instant::now();
            hands.pauses.retain(|_, pause| pause.until + LONGEST_PAUSE > now);
            let room = options.concurrency.saturating_sub(hands.tasks.len());
            if room > 0 {
                // Those that are left alone for a while are found as well, and must not hide others.
                let limit = u32::try_from(room.saturating_add(hands.pauses.len())).unwrap_or(u32::MAX);
                match self.store().takeable(&owner, self.now(), limit).await {
                    Ok(runs) => {
                        // A run that could not go on here is still this process's own, so that it is not found.
                        let known = hands.pauses.keys().copied().collect::<Vec<_>>();
                        let all: BTreeSet<RunId> = known.into_iter().chain(runs).collect();
                        let free = all.into_iter().filter(|run| hands.may_take(*run, now)).take(room);
                        for run in free.collect::<Vec<_>>() {
                            hands.take(self, run, &mut tell);
                        }
                    }
                    Err(error) => tell(WorkerEvent::Blind { error: &error.into() }),
                }
            }
            if options.until_idle && hands.tasks.is_empty() {
                return Ok(hands.report);
            }
            let until = now + options.poll.min(self.until_wake().await);
            loop {
                tokio::select! {
                    biased;
                    () = &mut stop => return Ok(hands.leave(self, &mut tell).await),
                    Some(joined) = hands.tasks.join_next() => {
                        hands.done(joined, self.now(), &mut tell);
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
    /// The time until the next suspended run wakes.
    async fn until_wake(&self) -> Duration {
        // Trouble with the store is told where runs are looked for.
        let at = self.store().next_wake().await.ok().flatten();
        at.map_or(Duration::MAX, |at| {
            let left = at.as_millis().saturating_sub(self.now().as_millis());
            // One whose time has come and that cannot go on is no reason to look all the time.
            if left == 0 { Duration::MAX } else { Duration::from_millis(left) }
        })
    }
}

impl Hands {
    fn may_take(&self, run: RunId, now: Instant) -> bool {
        !self.stops.contains_key(&run) && self.pauses.get(&run).is_none_or(|pause| pause.until <= now)
    }

    fn take(&mut self, engine: &Engine, run: RunId, tell: &mut impl FnMut(WorkerEvent<'_>)) {
        let engine = engine.clone();
        let (sender, mut stop) = watch::channel(Stop::Go);
        self.stops.insert(run, sender);
        self.report.taken += 1;
        tell(WorkerEvent::Taken { run });
        self.tasks.spawn(async move {
            let resumed = async {
                let handle = engine.resume(run, Vec::new()).await?;
                let told = handle.stop.clone();
                let mut finished = std::pin::pin!(handle.finish());
                let report = tokio::select! {
                    report = &mut finished => report,
                    () = async { drop(stop.wait_for(|stop| *stop != Stop::Go).await) } => {
                        told.send_replace(Stop::Interrupt);
                        finished.await
                    }
                };
                report.map_err(EngineError::from)
            };
            (run, resumed.await)
        });
    }

    fn done(
        &mut self,
        joined: Result<(RunId, Result<RunReport, EngineError>), tokio::task::JoinError>,
        now: Timestamp,
        tell: &mut impl FnMut(WorkerEvent<'_>),
    ) {
        let (run, result) = match joined {
            Ok(done) => done,
            Err(error) => {
                // A panic of the engine itself: which run it was is not known, so all that are gone are let go of.
                tracing::error!(%error, "a run stopped by a defect of the engine");
                return;
            }
        };
        self.stops.remove(&run);
        let progressed = match &result {
            Ok(report) => {
                match &report.end {
                    RunEnd::Ended(_) => self.report.ended += 1,
                    RunEnd::Suspended { .. } => self.report.suspended += 1,
                    RunEnd::Interrupted => self.report.interrupted += 1,
                }
                tell(WorkerEvent::Left { report });
                match report.end {
                    RunEnd::Ended(_) => true,
                    RunEnd::Suspended { wake_at, .. } => wake_at.is_none_or(|at| at > now),
                    RunEnd::Interrupted => false,
                }
            }
            // Another worker was faster.
            Err(EngineError::Acquire(AcquireError::Owned { .. })) => return,
            Err(EngineError::Run(RunFailure::Append { source: AppendError::Fenced { .. }, .. })) => return,
            Err(error) => {
                self.report.failed += 1;
                tell(WorkerEvent::Failed { run, error });
                false
            }
        };
        if progressed {
            self.pauses.remove(&run);
            return;
        }
        // One that could not go on is found again at once, and must not be tried again at once.
        let length = self.pauses.get(&run).map_or(FIRST_PAUSE, |pause| pause.length * 2).min(LONGEST_PAUSE);
        self.pauses.insert(run, Pause { until: Instant::now() + length, length });
    }

    /// Lets go of all runs.
    async fn leave(mut self, engine: &Engine, tell: &mut impl FnMut(WorkerEvent<'_>)) -> WorkerReport {
        for stop in self.stops.values() {
            stop.send_replace(Stop::Interrupt);
        }
        while let Some(joined) = self.tasks.join_next().await {
            self.done(joined, engine.now(), tell);
        }
        self.report
    }
}
