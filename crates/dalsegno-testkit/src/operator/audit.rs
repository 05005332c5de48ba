//! Looking at everything, and waiting for everything to end.

use std::collections::BTreeSet;
use std::time::Duration;

use dalsegno_core::{Entry, RunId};
use dalsegno_runtime::{Clock as _, RunEnd};
use dalsegno_store::{ReadError, RunFilter, RunSummary, digest_bytes};

use super::{Machine, Operator, PROCESSES};

/// Turns in which everything must end, once everything is answered.
const TURNS: usize = 60;

/// Longer than any message is on its way, than a worker leaves a run alone, and than it waits before it looks again.
const SILENCE: Duration = Duration::from_secs(400);

/// Longer than what starts or waits by a time takes when that has come.
const MOMENT: Duration = Duration::from_secs(60);

impl Operator {
    /// Compares every journal with what was written, and folds it; those that have changed since the last look, or all.
    pub(super) async fn look(&mut self, all_of_them: bool) {
        let all = RunFilter { limit: u32::MAX, ..RunFilter::default() };
        let Ok(runs) = self.store.runs(&all).await else {
            return self.broken("the store cannot be listed".into());
        };
        let found: BTreeSet<RunId> = runs.iter().map(|run| run.run).collect();
        self.world.judge(|guarantees| guarantees.are_there(&found));
        for summary in runs {
            let state = (summary.records, summary.status);
            if self.seen.insert(summary.run, state) != Some(state) || all_of_them {
                self.look_at(&summary).await;
            }
        }
    }

    async fn look_at(&self, summary: &RunSummary) {
        let run = summary.run;
        let erased = self.world.judge(|guarantees| guarantees.runs.get(&run).is_some_and(|line| line.erased));
        match self.store.read(run, 0).await {
            Ok(records) => self.world.judge(|guarantees| guarantees.compare(run, &records, summary)),
            Err(ReadError::Erased { .. }) if erased => {}
            Err(error) => self.broken(format!("run {run} cannot be read: {error}")),
        }
        if self.world.judge(|guarantees| guarantees.rests_on_erased(run)) {
            return;
        }
        let (replay, inspection) = (self.reader.replay(run).await, self.reader.inspect(run, None).await);
        match (replay, inspection) {
            (Ok(replay), Ok(inspection)) => {
                self.world.judge(|guarantees| guarantees.folded(run, &replay, &inspection));
                let named = inspection.state.transcript().iter().flat_map(Entry::files);
                for digest in named.map(|file| file.digest).collect::<BTreeSet<_>>() {
                    if !matches!(self.store.blob(digest).await, Ok(Some(bytes)) if digest_bytes(&bytes) == digest)
                    {
                        self.broken(format!(
                            "run {run} has seen the file {digest}, which is not in the store"
                        ));
                    }
                }
            }
            (Err(error), _) | (_, Err(error)) => {
                self.broken(format!("run {run} cannot be folded: {error}: {error:?}"));
            }
        }
    }

    /// Nothing goes wrong any more. People answer everything, and workers lead every run to its end: nobody resumes one, and
    /// nobody looks after what another one left behind.
    pub(crate) async fn finish(&mut self) {
        self.world.note("from here on nothing goes wrong");
        self.world.calm();
        self.thaw_all();
        self.end_calls().await;
        self.kill_all().await;
        self.world.clock.set_wrong_by(0);
        self.world.judge(|guarantees| guarantees.clock_is_set(0));
        tokio::time::sleep(SILENCE).await;
        self.look(true).await;
        for _ in 0..PROCESSES {
            if !self.boot(false).await {
                return;
            }
        }
        for turn in 0..TURNS {
            self.random = crate::random::Random::new(self.world.seed, &format!("turn {turn}"));
            let all = RunFilter { limit: u32::MAX, ..RunFilter::default() };
            let mut open = self.listed(&all).await;
            open.retain(|run| !run.status.is_end());
            if open.is_empty() || self.world.violated() {
                break;
            }
            self.settle_secret().await;
            self.continue_all(&open).await;
            for run in open.iter().filter(|run| run.parent.is_none()) {
                let answers = self.answers(run.run, true).await;
                self.pass_on(run.run, answers).await;
            }
            // Timers, and what a receiver has not got yet.
            let now = self.world.clock.now().as_millis();
            let soonest = open.iter().filter_map(|run| run.wake_at).map(|at| at.as_millis()).min();
            let until = Duration::from_millis(soonest.unwrap_or(now).saturating_sub(now));
            tokio::time::sleep(SILENCE.max(until + MOMENT)).await;
        }
        if self.world.violated() {
            return;
        }
        self.look(true).await;
        self.world.judge(crate::guarantees::Guarantees::close);
        self.compare_accounts().await;
        let Some(machine) = self.machine() else { return };
        self.ask_again(&machine).await;
        for machine in self.machines.clone() {
            let load = machine.engine.load();
            if load.under_way != 0 || load.queued != 0 {
                self.broken(format!("nothing goes on, and the engine says {load:?}"));
            }
            let _ = machine.stop.send(());
        }
        tokio::time::sleep(MOMENT).await;
        if let Some(machine) = self.machines.iter().find(|machine| machine.process.is_alive()) {
            self.broken(format!("p{} does not stop", machine.process.number));
        }
    }

    /// What the journal says of every account is what was set aside and spent.
    async fn compare_accounts(&self) {
        for (account, day, sum) in self.world.judge(|guarantees| guarantees.accounts()) {
            match self.store.spent(&account, &day).await {
                Ok(found) if found == sum => {}
                found => {
                    self.broken(format!("`{account}` has spent {sum} on {day}, and the store has {found:?}"));
                }
            }
        }
    }

    /// Whoever asks for a run that has ended is told its end.
    async fn ask_again(&self, machine: &Machine) {
        let all = RunFilter { limit: u32::MAX, ..RunFilter::default() };
        for run in self.store.runs(&all).await.unwrap_or_default() {
            if self.world.judge(|guarantees| guarantees.leads_to_erased(run.run)) {
                continue;
            }
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
