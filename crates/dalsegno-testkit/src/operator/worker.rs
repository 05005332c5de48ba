//! The worker of a simulated process, and what is made of what it says.

use std::sync::Arc;
use std::time::Duration;

use dalsegno_history::Journal;
use dalsegno_runtime::{EngineError, RunFailure, RunReport, WorkerEvent, WorkerOptions};
use dalsegno_store::AcquireError;
use tokio::sync::mpsc;

use super::engine::{is_expected, word};
use super::{Machine, Operator, told};
use crate::process::Process;
use crate::world::World;

impl Operator {
    /// Lets a worker perform the runs that nobody performs, until its process dies or it is told to stop.
    pub(super) fn employ(&self, machine: &Machine, stop: mpsc::UnboundedReceiver<()>, poll: Duration) {
        let (world, reader) = (Arc::clone(&self.world), self.reader.clone());
        let Machine { process, engine, .. } = machine.clone();
        let options = WorkerOptions { concurrency: self.mix.concurrency, until_idle: false, poll };
        tokio::spawn(async move {
            let report =
                engine.work(&options, told(stop), |event| tell(&world, &reader, &process, &event)).await;
            process.breathe().await;
            match report {
                Ok(report) => world.note(&format!("p{} has stopped: {report:?}", process.number)),
                Err(error) => world.judge(|guarantees| {
                    guarantees.broken(format!("p{}: its worker fails: {error}", process.number));
                }),
            }
            // A process ends with its worker.
            world.judge(|guarantees| guarantees.stopped(&process));
            process.kill();
        });
    }
}

fn tell(world: &Arc<World>, reader: &Journal, process: &Arc<Process>, event: &WorkerEvent<'_>) {
    let number = process.number;
    match event {
        WorkerEvent::Taken { run } => {
            let alias = world.judge(|guarantees| guarantees.name(*run));
            world.note(&format!("p{number} works on {alias}"));
        }
        WorkerEvent::Left { report } => left(world, reader, process, (*report).clone()),
        WorkerEvent::Failed { run, error } => {
            let alias = world.judge(|guarantees| guarantees.name(*run));
            world.note(&format!("p{number} cannot go on with {alias}: {error}: {error:?}"));
            let waits = matches!(error, EngineError::Run(RunFailure::Child { source, .. })
                if matches!(**source, EngineError::Acquire(AcquireError::Owned { .. })));
            if waits {
                let what = format!("{alias} is said to have failed, and only waits for its child run");
                world.judge(|guarantees| guarantees.broken(what));
            } else if !is_expected(error, process) {
                world.judge(|guarantees| guarantees.broken(format!("{alias}: {error}: {error:?}")));
            }
        }
        // The files of a simulated workspace stay as they are.
        WorkerEvent::Changed { .. } => {}
        WorkerEvent::Stopping => world.note(&format!("p{number} stops")),
        WorkerEvent::Blind { error } => world.note(&format!("p{number} cannot look for runs: {error}")),
    }
}

/// A process lets go of a run: what it says of it must be what the journal says.
pub(super) fn left(world: &Arc<World>, reader: &Journal, process: &Arc<Process>, report: RunReport) {
    let (world, reader, process) = (Arc::clone(world), reader.clone(), Arc::clone(process));
    tokio::spawn(async move {
        let (alias, epoch) = world
            .judge(|guarantees| (guarantees.name(report.run), guarantees.epoch_of(report.run, &process)));
        world.note(&format!("p{} lets go of {alias}: {}", process.number, word(&report.end)));
        match reader.inspect(report.run, None).await {
            Ok(inspection) => {
                world.judge(|guarantees| guarantees.let_go(&process, &report, epoch, &inspection));
            }
            Err(error) => world.judge(|guarantees| {
                if !guarantees.rests_on_erased(report.run) {
                    guarantees.broken(format!("{alias} cannot be inspected: {error}: {error:?}"));
                }
            }),
        }
    });
}
