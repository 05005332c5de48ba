//! Looking at everything, and leading everything to its end.

use std::time::Duration;

use dalsegno_core::RunId;
use dalsegno_runtime::{EngineError, RunEnd, RunFailure};
use dalsegno_store::{AcquireError, RunFilter, Store as _};

use super::{Machine, Operator, PATIENCE};

/// Turns in which a diligent operator must have led every run to its end.
const TURNS: usize = 60;

/// Longer than any message is on its way.
const SILENCE: Duration = Duration::from_secs(60);

impl Operator {
    /// Compares every journal with what was written, and folds it.
    pub(super) async fn look(&self) {
        let all = RunFilter { limit: u32::MAX, ..RunFilter::default() };
        let Ok(runs) = self.store.runs(&all).await else {
            return self.broken("the store cannot be listed".into());
        };
        for summary in runs {
            let run = summary.run;
            match self.store.read(run, 0).await {
                Ok(records) => {
                    self.world.judge(|guarantees| guarantees.compare(run, &records, &summary));
                }
                Err(error) => self.broken(format!("run {run} cannot be read: {error}")),
            }
            let (replay, inspection) = (self.reader.replay(run).await, self.reader.inspect(run, None).await);
            match (replay, inspection) {
                (Ok(replay), Ok(inspection)) => {
                    self.world.judge(|guarantees| guarantees.folded(run, &replay, &inspection));
                }
                (Err(error), _) | (_, Err(error)) => {
                    self.broken(format!("run {run} cannot be folded: {error}: {error:?}"));
                }
            }
        }
    }

    /// Nothing goes wrong any more: one process leads every run to its end.
    pub(crate) async fn finish(&mut self) {
        self.world.note("from here on nothing goes wrong");
        self.world.calm();
        self.kill_all().await;
        self.world.clock.set_wrong_by(0);
        tokio::time::sleep(SILENCE).await;
        self.look().await;
        self.boot(false).await;
        let Some(machine) = self.machine() else { return };
        for _ in 0..TURNS {
            for orphan in self.orphans().await {
                self.note(&machine, "ends what was left behind,", orphan.run);
                self.ask(&machine, machine.engine.cancel(orphan.run, None, None)).await;
            }
            let open = self.open_runs().await;
            if open.is_empty() || self.world.violated() {
                break;
            }
            let mut wakes = Vec::new();
            for run in open {
                wakes.extend(self.lead(&machine, run.run).await);
            }
            // Timers, and what a receiver has not got yet.
            let now = dalsegno_runtime::Clock::now(&self.world.clock).as_millis();
            let soonest = wakes.into_iter().min().unwrap_or(now).saturating_sub(now);
            tokio::time::sleep(Duration::from_millis(soonest) + SILENCE).await;
        }
        if self.world.violated() {
            return;
        }
        self.look().await;
        self.ask_again(&machine).await;
        let load = machine.engine.load();
        if load.under_way != 0 || load.queued != 0 {
            self.broken(format!("nothing goes on, and the engine says {load:?}"));
        }
        self.world.judge(crate::guarantees::Guarantees::close);
    }

    /// Goes on with a run, with all answers; says when it wakes.
    async fn lead(&mut self, machine: &Machine, run: RunId) -> Option<u64> {
        if self.status(run).await.is_none_or(|status| status.is_end()) {
            return None;
        }
        let answers = self.answers(run, true).await;
        self.note(machine, "leads", run);
        let handle = self.ask(machine, machine.engine.resume(run, answers)).await?.ok()?;
        let mut epoch = self.world.judge(|guarantees| guarantees.epoch(run));
        match tokio::time::timeout(PATIENCE, handle.finish()).await {
            Ok(Ok(report)) => {
                if report.run != run {
                    epoch = self.world.judge(|guarantees| guarantees.epoch(report.run));
                }
                match self.reader.inspect(report.run, None).await {
                    Ok(inspection) => self.world.judge(|guarantees| {
                        guarantees.let_go(&machine.process, &report, epoch, &inspection);
                    }),
                    Err(error) => self.broken(format!("run {run} cannot be inspected: {error}")),
                }
                match report.end {
                    RunEnd::Suspended { wake_at, .. } => wake_at.map(dalsegno_core::Timestamp::as_millis),
                    RunEnd::Ended(_) => None,
                    RunEnd::Interrupted => {
                        self.broken(format!("run {run} was interrupted, and nobody wanted that"));
                        None
                    }
                }
            }
            // One who gives an operation up ends its child run, which may be taken for that moment.
            Ok(Err(RunFailure::Child { source, .. }))
                if matches!(*source, EngineError::Acquire(AcquireError::Owned { .. })) =>
            {
                None
            }
            Ok(Err(error)) => {
                self.broken(format!("run {run}, with nothing wrong: {error}: {error:?}"));
                None
            }
            Err(_) => {
                self.broken(format!("run {run} hangs"));
                None
            }
        }
    }

    /// Whoever asks for a run that has ended is told its end.
    async fn ask_again(&self, machine: &Machine) {
        let all = RunFilter { limit: u32::MAX, ..RunFilter::default() };
        for run in self.store.runs(&all).await.unwrap_or_default() {
            let Some(Ok(handle)) = self.ask(machine, machine.engine.resume(run.run, Vec::new())).await else {
                self.broken(format!("run {} cannot be asked for again", run.run));
                continue;
            };
            match handle.finish().await.map(|report| (report.run, report.end)) {
                Ok((run, RunEnd::Ended(response))) => {
                    self.world.judge(|guarantees| guarantees.ended_again(run, &response));
                }
                other => self.broken(format!("run {} had ended: {other:?}", run.run)),
            }
        }
    }
}
