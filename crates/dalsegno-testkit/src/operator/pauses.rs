//! A person pauses runs, and has them continue.

use dalsegno_core::RunId;
use dalsegno_runtime::Pausing;
use dalsegno_store::{RunFilter, RunSummary, Waiting};

use super::Operator;
use crate::random::Random;

/// How often a run is paused or continues, of 1,000 actions.
const OFTEN: u32 = 80;

impl Operator {
    /// Pauses a run, or has a paused one continue, or neither. It decides apart from the action that follows.
    pub(super) async fn pause_or_continue(&mut self, number: usize) {
        let mut random = Random::new(self.world.seed, &format!("pause {number}"));
        if !random.chance(OFTEN) {
            return;
        }
        let all = RunFilter { limit: u32::MAX, ..RunFilter::default() };
        let mut open = self.listed(&all).await;
        open.retain(|run| !run.status.is_end());
        let (paused, mut others): (Vec<RunSummary>, Vec<RunSummary>) =
            open.into_iter().partition(|run| run.waiting.contains(&Waiting::Paused));
        if random.chance(700) {
            others.retain(|run| run.parent.is_none());
        }
        match (random.chance(500), random.below(paused.len()), random.below(others.len())) {
            // It is told again and again that it continue, also before it stands still.
            (true, number, _) if number < paused.len() => self.continue_one(paused[number].run).await,
            (_, _, number) if number < others.len() => {
                let (run, is_child) = (others[number].run, others[number].parent.is_some());
                self.pause_one(run, is_child).await;
                if random.chance(300) {
                    let pause = random.millis(0, 400);
                    tokio::time::sleep(pause).await;
                    self.continue_one(run).await;
                } else if self.world.faults().killed > 0 && random.chance(300) {
                    let pause = random.millis(0, 300);
                    tokio::time::sleep(pause).await;
                    self.kill_one().await;
                }
            }
            _ => {}
        }
    }

    async fn pause_one(&mut self, run: RunId, is_child: bool) {
        let Some(machine) = self.machine() else { return };
        self.world.count("action", if is_child { "pause a child run" } else { "pause" });
        self.note(&machine, "pauses", run);
        let paused = machine.engine.pause(run, Some("ada".into()), Some("an audit".into()));
        match self.ask(&machine, paused).await {
            Some(Ok(Pausing::Paused { run })) => self.world.judge(|guarantees| guarantees.stands_still(run)),
            Some(Ok(Pausing::Requested { run })) => {
                self.world.judge(|guarantees| guarantees.pause_wanted(run, true));
            }
            Some(Ok(Pausing::Ended(_)) | Err(_)) | None => {}
        }
    }

    async fn continue_one(&mut self, run: RunId) {
        let Some(machine) = self.machine() else { return };
        self.world.count("action", "continue");
        self.note(&machine, "continues", run);
        // From here on it may be taken back, also where no answer comes.
        self.world.judge(|guarantees| guarantees.pause_wanted(run, false));
        self.ask(&machine, machine.engine.unpause(run, Some("ada".into()))).await;
    }

    /// Has every run continue that stands still, or is to.
    pub(super) async fn continue_all(&mut self, open: &[RunSummary]) {
        for run in open {
            let Some(machine) = self.machine() else { return };
            if machine.engine.is_paused(run.run).await.unwrap_or_default() {
                self.continue_one(run.run).await;
            }
        }
    }
}
