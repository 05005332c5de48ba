//! Engines for simulated processes, and whoever follows their runs.

use std::path::Path;
use std::sync::Arc;

use dalsegno_core::{Request, RunId};
use dalsegno_runtime::{Engine, EngineError, Observer, RunEvent, RunFailure, RunHandle, Watch, Watched};
use dalsegno_store::{
    AcquireError, AppendError, CreateError, MemoryStore, NewRecord, Owner, PostError, ReadError,
};
use tokio::sync::mpsc;

use super::PATIENCE;
use crate::error::SimulationError;
use crate::process::Process;
use crate::receiver::{SimulatedModel, SimulatedTool};
use crate::store::SimulatedStore;
use crate::workspace::TOOLS;
use crate::world::World;

/// What every process needs to open an engine.
pub(super) struct Host {
    world: Arc<World>,
    store: Arc<MemoryStore>,
    workspace: std::path::PathBuf,
}

impl Host {
    pub(super) fn new(
        world: Arc<World>,
        store: Arc<MemoryStore>,
        folder: &Path,
    ) -> Result<Self, SimulationError> {
        Ok(Self { world, store, workspace: folder.to_owned() })
    }

    pub(super) async fn engine(&self, process: &Arc<Process>) -> Result<Engine, SimulationError> {
        let mut builder = Engine::builder();
        for (name, class) in TOOLS {
            let tool =
                SimulatedTool { name, class, world: Arc::clone(&self.world), process: Arc::clone(process) };
            let name = name.parse().map_err(|error| self.refused(&error))?;
            builder = builder.tool(name, tool);
        }
        let model = SimulatedModel { world: Arc::clone(&self.world), process: Arc::clone(process) };
        let store =
            SimulatedStore::new(Arc::clone(&self.store), Arc::clone(&self.world), Arc::clone(process));
        // The store has the process's own lock: what the engine holds would outlive it.
        builder = builder.model("default", model).store(store, Owner::in_process());
        builder = builder.clock(self.world.clock.clone());
        builder = builder.observer(Arc::new(Witness(Arc::clone(&self.world))));
        builder.open(&self.workspace).await.map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &(impl std::fmt::Debug + std::fmt::Display)) -> SimulationError {
        SimulationError::Workspace { seed: self.world.seed, message: format!("{error}: {error:?}") }
    }
}

/// Sees what an engine says that it has written.
struct Witness(Arc<World>);

impl Observer for Witness {
    fn watch(&self, run: &Watched) -> Box<dyn Watch> {
        Box::new(WitnessOf { run: run.run, world: Arc::clone(&self.0) })
    }
}

/// Sees what it says of one run.
struct WitnessOf {
    run: RunId,
    world: Arc<World>,
}

impl Watch for WitnessOf {
    fn recorded(&mut self, seq: u64, record: &NewRecord, _request: Option<&Request>) {
        self.world.judge(|guarantees| guarantees.told(self.run, seq, record));
    }
}

/// What whoever holds a run is told.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    Interrupt,
    Cancel,
}

/// Follows a run until its process lets go of it, or dies.
pub(super) async fn follow(
    world: Arc<World>,
    reader: Engine,
    process: Arc<Process>,
    mut handle: RunHandle,
    mut orders: mpsc::UnboundedReceiver<Order>,
    mut epoch: u64,
) {
    let mut run = handle.run();
    let mut commanded = true;
    loop {
        tokio::select! {
            biased;
            () = process.gone() => return,
            order = orders.recv(), if commanded => match order {
                Some(Order::Interrupt) => handle.interrupt(),
                Some(Order::Cancel) => handle.cancel(),
                None => commanded = false,
            },
            event = handle.next_event() => match event {
                Some(RunEvent::Recorded { seq, record }) => {
                    world.judge(|guarantees| guarantees.told(run, seq, &record));
                }
                Some(RunEvent::HandedOff { run: next, .. }) => {
                    run = next;
                    epoch = world.judge(|guarantees| guarantees.epoch(run));
                }
                Some(RunEvent::Delta { .. }) => {}
                None => break,
            },
        }
    }
    let report = tokio::select! {
        biased;
        () = process.gone() => return,
        report = tokio::time::timeout(PATIENCE, handle.finish()) => report,
    };
    let alias = world.judge(|guarantees| guarantees.name(run));
    match report {
        Ok(Ok(report)) => {
            world.note(&format!("p{} lets go of {alias}: {}", process.number, word(&report.end)));
            match reader.inspect(report.run, None).await {
                Ok(inspection) => {
                    world.judge(|guarantees| guarantees.let_go(&process, &report, epoch, &inspection));
                }
                Err(error) => world.judge(|guarantees| {
                    guarantees.broken(format!("{alias} cannot be inspected: {error}: {error:?}"));
                }),
            }
        }
        Ok(Err(error)) => {
            world.note(&format!("p{} lets go of {alias}: {error}: {error:?}", process.number));
            if !is_expected_failure(&error, &process) {
                world.judge(|guarantees| guarantees.broken(format!("{alias}: {error}: {error:?}")));
            }
        }
        Err(_) => world.judge(|guarantees| guarantees.broken(format!("{alias} does not let go"))),
    }
}

fn word(end: &dalsegno_runtime::RunEnd) -> String {
    match end {
        dalsegno_runtime::RunEnd::Ended(response) => format!("{:?}", response.status),
        dalsegno_runtime::RunEnd::Suspended { waiting, wake_at } => {
            format!("suspended, {} questions, until {wake_at:?}", waiting.len())
        }
        dalsegno_runtime::RunEnd::Interrupted => "interrupted".to_owned(),
    }
}

/// Says whether an error follows from what the simulation did, and not from what the engine did.
pub(super) fn is_expected(error: &EngineError, process: &Process) -> bool {
    match error {
        EngineError::Create(CreateError::Storage(_) | CreateError::SessionBusy { .. })
        | EngineError::Acquire(AcquireError::Storage(_) | AcquireError::Owned { .. })
        | EngineError::Read(ReadError::Storage(_))
        | EngineError::Post(PostError::Storage(_) | PostError::Ended { .. })
        | EngineError::AlreadyRunning { .. }
        | EngineError::Ended { .. }
        | EngineError::Answer { .. } => true,
        EngineError::Create(CreateError::Append(error)) => is_expected_append(error, process),
        // Its message is all that is left of the error of a read.
        EngineError::Config { message, .. } => !message.contains("digest"),
        EngineError::Run(failure) => is_expected_failure(failure, process),
        _ => false,
    }
}

fn is_expected_failure(failure: &RunFailure, process: &Process) -> bool {
    match failure {
        RunFailure::Append { source, .. } => is_expected_append(source, process),
        RunFailure::Handoff { source, .. } | RunFailure::Child { source, .. } => is_expected(source, process),
        _ => false,
    }
}

fn is_expected_append(error: &AppendError, process: &Process) -> bool {
    match error {
        // What the store itself does not expect is noticed there.
        AppendError::Storage(_) | AppendError::SeqMismatch { .. } => true,
        AppendError::Fenced { .. } => !process.holds_lock(),
        _ => false,
    }
}
