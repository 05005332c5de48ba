//! Engines for simulated processes, and whoever follows their runs.

use std::path::Path;
use std::sync::Arc;

use dalsegno_core::{Request, RunId};
use dalsegno_history::{HistoryError, Journal};
use dalsegno_runtime::{Engine, EngineError, Observer, RunEvent, RunFailure, RunHandle, Watch, Watched};
use dalsegno_secrets::{MasterKey, MemorySecrets, SecretName, Tenant};
use dalsegno_store::{
    AcquireError, AppendError, CreateError, EraseError, GcError, NewRecord, Owner, PostError, ReadError,
    Store,
};
use tokio::sync::mpsc;

use super::PATIENCE;
use super::worker::left;
use crate::endpoint::SimulatedEndpoints;
use crate::error::SimulationError;
use crate::process::Process;
use crate::receiver::{SimulatedModel, SimulatedTool};
use crate::shared::{SharedMemory, SharedSecrets};
use crate::store::SimulatedStore;
use crate::workspace::{Mix, SECRET_NAME, TENANTS, TOOLS};
use crate::world::World;

/// What every process needs to open an engine.
pub(super) struct Host {
    world: Arc<World>,
    store: Arc<dyn Store>,
    workspace: std::path::PathBuf,
    snapshot_every: u64,
    /// The secrets, which outlive every process.
    pub(super) secrets: Arc<MemorySecrets>,
    memory: SharedMemory,
}

impl Host {
    pub(super) fn new(
        world: Arc<World>,
        store: Arc<dyn Store>,
        folder: &Path,
        mix: &Mix,
    ) -> Result<Self, SimulationError> {
        let refused = |message: String| SimulationError::Workspace { seed: world.seed, message };
        let key = MasterKey::generate().map_err(|error| refused(error.to_string()))?;
        let memory = SharedMemory::new().map_err(|error| refused(error.to_string()))?;
        let secrets = Arc::new(MemorySecrets::new(&key));
        let (workspace, snapshot_every) = (folder.to_owned(), mix.snapshot_every);
        Ok(Self { world, store, workspace, snapshot_every, secrets, memory })
    }

    /// The engine of a process.
    pub(super) async fn engine(&self, process: &Arc<Process>) -> Result<Engine, SimulationError> {
        let (store, world) = (Arc::clone(&self.store), Arc::clone(&self.world));
        // The store has the process's own lock: what the engine holds would outlive it.
        let store = SimulatedStore::new(store, world, Arc::clone(process));
        self.open(process, store).await
    }

    /// An engine that has nothing but the same workspace.
    pub(super) async fn elsewhere(&self, store: Arc<dyn Store>) -> Result<Engine, SimulationError> {
        let process = Arc::new(Process::outside());
        let store = SimulatedStore::new(store, Arc::clone(&self.world), Arc::clone(&process));
        self.open(&process, store).await
    }

    async fn open(&self, process: &Arc<Process>, store: SimulatedStore) -> Result<Engine, SimulationError> {
        let mut builder = Engine::builder();
        for (name, class) in TOOLS {
            let tool =
                SimulatedTool { name, class, world: Arc::clone(&self.world), process: Arc::clone(process) };
            let name = name.parse().map_err(|error| self.refused(&error))?;
            builder = builder.tool(name, tool);
        }
        let model = SimulatedModel { world: Arc::clone(&self.world), process: Arc::clone(process) };
        let endpoints = SimulatedEndpoints { world: Arc::clone(&self.world), process: Arc::clone(process) };
        let memory = self.memory.of(&self.world, process);
        let ids = Arc::clone(&self.world);
        builder = builder.model("default", model).store(store, Owner::in_process());
        builder = builder.clock(self.world.clock.clone()).run_ids(move || ids.next_run());
        builder = builder.transport(endpoints).memory(memory).snapshot_every(self.snapshot_every);
        builder = builder.secret_store(SharedSecrets(Arc::clone(&self.secrets)));
        builder = builder.observer(Arc::new(Witness(Arc::clone(&self.world))));
        builder.open(&self.workspace).await.map_err(|error| self.refused(&error))
    }

    /// The name of the secret that the endpoints want, with everybody who may keep it.
    pub(super) fn secret(&self) -> (Vec<Tenant>, SecretName) {
        let tenants = ["(workspace)"].into_iter().chain(TENANTS);
        let tenants = tenants.map(|tenant| tenant.parse().expect("a tenant")).collect();
        (tenants, SECRET_NAME.parse().expect("a name"))
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
    reader: Journal,
    process: Arc<Process>,
    mut handle: RunHandle,
    mut orders: mpsc::UnboundedReceiver<Order>,
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
                Some(RunEvent::HandedOff { run: next, .. }) => run = next,
                Some(RunEvent::Said { .. } | RunEvent::Delta { .. } | RunEvent::Unwritable { .. }) => {}
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
        Ok(Ok(report)) => left(&world, &reader, &process, report),
        Ok(Err(error)) => {
            world.note(&format!("p{} lets go of {alias}: {error}: {error:?}", process.number));
            if !is_expected_failure(&error, &process) {
                world.judge(|guarantees| guarantees.broken(format!("{alias}: {error}: {error:?}")));
            }
        }
        Err(_) => world.judge(|guarantees| guarantees.broken(format!("{alias} does not let go"))),
    }
}

pub(super) fn word(end: &dalsegno_runtime::RunEnd) -> String {
    match end {
        dalsegno_runtime::RunEnd::Ended(response) => format!("{:?}", response.status),
        dalsegno_runtime::RunEnd::Suspended { waiting, wake_at, .. } => {
            format!("suspended, {} questions, until {wake_at:?}", waiting.len())
        }
        dalsegno_runtime::RunEnd::Paused { waiting, .. } => format!("paused, {} questions", waiting.len()),
        dalsegno_runtime::RunEnd::Interrupted => "interrupted".to_owned(),
    }
}

/// Says whether an error follows from what the simulation did, and not from what the engine did.
pub(super) fn is_expected(error: &EngineError, process: &Process) -> bool {
    match error {
        EngineError::Create(CreateError::Storage(_) | CreateError::SessionBusy { .. })
        | EngineError::Acquire(AcquireError::Storage(_) | AcquireError::Owned { .. })
        | EngineError::Post(PostError::Storage(_) | PostError::Ended { .. })
        | EngineError::AlreadyRunning { .. }
        // A carrier's call waits for its carrier.
        | EngineError::NoLine { .. }
        | EngineError::Ended { .. }
        // The operator asks whatever a run is, and somebody else may have been faster.
        | EngineError::PausedCall { .. }
        | EngineError::NotPaused { .. }
        | EngineError::Answer { .. } => true,
        EngineError::Create(CreateError::Append(error)) => is_expected_append(error, process),
        EngineError::History(error) => is_expected_reading(error),
        EngineError::Run(failure) => is_expected_failure(failure, process),
        _ => false,
    }
}

/// Says whether an error of a journal follows from what the simulation did.
fn is_expected_reading(error: &HistoryError) -> bool {
    match error {
        HistoryError::Erase(
            EraseError::Storage(_)
            | EraseError::UnknownRun { .. }
            | EraseError::Needed { .. }
            | EraseError::UnderWay { .. },
        )
        | HistoryError::Gc(GcError::Storage(_))
        // Only the operator erases and prunes.
        | HistoryError::Read(
            ReadError::Storage(_) | ReadError::Erased { .. } | ReadError::UnknownRun { .. },
        ) => true,
        // Its message is all that is left of the error of a read.
        HistoryError::Config { message, .. } => !message.contains("digest"),
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
        // Once another has its runs, they may also end and be pruned.
        AppendError::Fenced { .. } | AppendError::UnknownRun { .. } => !process.holds_lock(),
        _ => false,
    }
}
