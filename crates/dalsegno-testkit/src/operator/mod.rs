//! Whoever starts processes and runs, answers questions, kills, and looks.

mod audit;
mod engine;
mod person;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{AgentRequest, RunId};
use dalsegno_runtime::{Engine, EngineError, GateInput, RunHandle, StartOptions};
use dalsegno_store::{MemoryStore, RunStatus, RunSummary};
use tokio::sync::mpsc;

use crate::error::SimulationError;
use crate::process::Process;
use crate::random::Random;
use crate::world::World;
use engine::{Host, Order};

/// Things that the operator does in one history.
const ACTIONS: usize = 60;

/// Runs that the operator starts.
const RUNS: usize = 6;

/// Processes that are meant to run at the same time.
const PROCESSES: usize = 2;

/// Longer than anything may take that has a bound: every call, and all its attempts.
const PATIENCE: Duration = Duration::from_secs(4 * 60 * 60);

/// Longer than a receiver remembers a key; twice the half is as well.
const DOWNTIME: Duration = Duration::from_secs(27 * 60 * 60);

/// A process with its engine.
#[derive(Clone)]
struct Machine {
    process: Arc<Process>,
    engine: Engine,
}

/// Whoever uses the engines.
pub(crate) struct Operator {
    world: Arc<World>,
    store: Arc<MemoryStore>,
    host: Host,
    /// Reads the journals; nothing ever goes wrong for it.
    reader: Engine,
    random: Random,
    machines: Vec<Machine>,
    /// Those that lost their lock, and go on until they find out.
    stale: Vec<Machine>,
    processes: u32,
    deaths: u64,
    roots: Vec<String>,
    keys: Vec<(String, String, String)>,
    orders: BTreeMap<RunId, mpsc::UnboundedSender<Order>>,
    clock_is_wrong: bool,
}

impl Operator {
    pub(crate) async fn new(
        world: Arc<World>,
        store: Arc<MemoryStore>,
        folder: &Path,
        roots: Vec<String>,
    ) -> Result<Self, SimulationError> {
        let host = Host::new(Arc::clone(&world), Arc::clone(&store), folder)?;
        let reader = host.engine(&Arc::new(Process::outside())).await?;
        let random = Random::new(world.seed, "operator");
        Ok(Self {
            world,
            store,
            host,
            reader,
            random,
            machines: Vec::new(),
            stale: Vec::new(),
            processes: 0,
            deaths: 0,
            roots,
            keys: Vec::new(),
            orders: BTreeMap::new(),
            clock_is_wrong: false,
        })
    }

    /// Processes that died.
    pub(crate) fn deaths(&self) -> u64 {
        self.deaths
    }

    /// Does this and that, while things go wrong.
    pub(crate) async fn work(&mut self) {
        for _ in 0..ACTIONS {
            self.bury().await;
            while self.machines.len() < PROCESSES {
                self.boot(true).await;
            }
            self.act().await;
            if self.world.violated() {
                return;
            }
            let pause = match self.random.below(10) {
                0..5 => self.random.millis(1, 300),
                5..9 => self.random.millis(300, 4_000),
                _ => self.random.millis(20_000, 400_000),
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn act(&mut self) {
        let faults = self.world.faults();
        if self.random.chance(faults.killed) {
            return self.kill_one("is killed").await;
        }
        if self.random.chance(faults.loses_lock) {
            return self.unlock_one();
        }
        if self.random.chance(faults.downtime) {
            return self.go_away().await;
        }
        if self.random.chance(faults.clock_jumps) {
            self.clock_is_wrong = !self.clock_is_wrong;
            self.world.clock.set_wrong_by(if self.clock_is_wrong { -3_600_000 } else { 0 });
            self.world.judge(|guarantees| guarantees.clock_was_set = true);
            return self.world.note("the clock is set");
        }
        match self.random.below(20) {
            0..5 if self.keys.len() < RUNS => self.start_new().await,
            5 => self.start_again().await,
            6..13 => self.resume_one().await,
            13..17 => self.answer_one().await,
            17 => self.cancel_one().await,
            18 => self.give_up_one().await,
            _ => self.interrupt_one(),
        }
    }

    /// Starts a process.
    async fn boot(&mut self, may_die: bool) {
        self.processes += 1;
        let dies = may_die && self.random.chance(self.world.faults().dies_at_write);
        let writes = dies.then(|| i64::try_from(1 + self.random.below(40)).unwrap_or(1));
        let process = Arc::new(Process::new(self.processes, self.world.seed, writes));
        self.world.note(&format!("p{} begins", process.number));
        match self.host.engine(&process).await {
            Ok(engine) => self.machines.push(Machine { process, engine }),
            Err(error) => self.broken(format!("an engine cannot be opened: {error}")),
        }
    }

    /// Takes note of who died, and looks at all journals then.
    async fn bury(&mut self) {
        let before = self.machines.len() + self.stale.len();
        self.machines.retain(|machine| machine.process.is_alive());
        self.stale.retain(|machine| machine.process.is_alive());
        let dead = before - self.machines.len() - self.stale.len();
        if dead > 0 {
            self.deaths += dead as u64;
            self.look().await;
        }
    }

    async fn kill_one(&mut self, how: &str) {
        let number = self.random.below(self.machines.len() + self.stale.len());
        let machine = self.machines.get(number).or_else(|| self.stale.get(number - self.machines.len()));
        if let Some(machine) = machine {
            self.world.note(&format!("p{} {how}", machine.process.number));
            machine.process.kill();
        }
        self.bury().await;
    }

    fn unlock_one(&mut self) {
        let number = self.random.below(self.machines.len());
        if number < self.machines.len() {
            let machine = self.machines.remove(number);
            self.world.note(&format!("p{} loses its lock", machine.process.number));
            machine.process.lose_lock();
            machine.process.spare();
            self.stale.push(machine);
        }
    }

    async fn kill_all(&mut self) {
        for machine in self.machines.iter().chain(&self.stale) {
            self.world.note(&format!("p{} is killed", machine.process.number));
            machine.process.kill();
        }
        self.bury().await;
    }

    async fn go_away(&mut self) {
        self.kill_all().await;
        if self.random.chance(500) {
            return self.stay_away(DOWNTIME).await;
        }
        self.stay_away(DOWNTIME / 2).await;
        // What goes on is stopped again at once.
        self.boot(false).await;
        for _ in 0..3 {
            self.resume_one().await;
        }
        let pause = self.random.millis(1, 40);
        tokio::time::sleep(pause).await;
        self.kill_all().await;
        self.stay_away(DOWNTIME / 2).await;
    }

    async fn stay_away(&self, time: Duration) {
        tokio::time::sleep(time).await;
        self.world.note("somebody comes back");
    }

    fn machine(&mut self) -> Option<Machine> {
        let number = self.random.below(self.machines.len());
        self.machines.get(number).cloned()
    }

    async fn start_new(&mut self) {
        let number = self.keys.len() + 1;
        let agent = self.random.pick(&self.roots);
        let tenant = self.random.pick(&["acme", "acme", "other"]);
        // Some runs share a session, in which one goes on at a time.
        let session = match self.random.below(4) {
            0 => format!("{agent} {tenant}"),
            _ => format!("session {number}"),
        };
        let key = (agent, tenant.to_owned(), session);
        self.keys.push(key);
        self.start(number - 1).await;
    }

    async fn start_again(&mut self) {
        if !self.keys.is_empty() {
            let number = self.random.below(self.keys.len());
            self.start(number).await;
        }
    }

    async fn start(&mut self, number: usize) {
        let Some(machine) = self.machine() else { return };
        let (agent, tenant, session) = self.keys[number].clone();
        self.world.note(&format!("somebody asks p{} for {agent}, key {number}", machine.process.number));
        let Ok(agent) = agent.parse() else { return self.broken(format!("`{agent}` is no name")) };
        let request = AgentRequest { tenant, ..AgentRequest::text(&format!("request {number}")) };
        let options = StartOptions {
            key: Some(format!("key {number}")),
            session: Some(session),
            ..StartOptions::default()
        };
        let started = machine.engine.start(&agent, request, options);
        if let Some(Ok(handle)) = self.ask(&machine, started).await {
            self.follow(&machine, handle);
        }
    }

    /// Root runs that have not ended.
    async fn open_runs(&self) -> Vec<RunSummary> {
        self.open().await.into_iter().filter(|run| run.parent.is_none()).collect()
    }

    /// Child runs whose parents ended without them: those of processes that died in between.
    async fn orphans(&self) -> Vec<RunSummary> {
        self.open().await.into_iter().filter(|run| run.parent.is_some()).collect()
    }

    /// Runs that have not ended, and that no other run waits for.
    async fn open(&self) -> Vec<RunSummary> {
        let all = dalsegno_store::RunFilter { limit: u32::MAX, ..Default::default() };
        let runs = match self.reader.runs(&all).await {
            Ok(runs) => runs,
            Err(error) => {
                self.broken(format!("the runs cannot be listed: {error}"));
                return Vec::new();
            }
        };
        let ended: BTreeMap<RunId, bool> = runs.iter().map(|run| (run.run, run.status.is_end())).collect();
        let own = |run: &RunSummary| run.parent.is_none_or(|parent| ended.get(&parent) == Some(&true));
        runs.into_iter().filter(|run| !run.status.is_end() && own(run)).collect()
    }

    async fn pick_run(&mut self) -> Option<RunSummary> {
        let mut open = self.open_runs().await;
        let number = self.random.below(open.len());
        (number < open.len()).then(|| open.swap_remove(number))
    }

    async fn resume_one(&mut self) {
        let Some(run) = self.pick_run().await else { return };
        let answers = if self.random.chance(600) { self.answers(run.run, false).await } else { Vec::new() };
        self.resume(run.run, answers).await;
    }

    async fn resume(&mut self, run: RunId, answers: Vec<GateInput>) {
        let Some(machine) = self.machine() else { return };
        self.note(&machine, "resumes", run);
        let resumed = machine.engine.resume(run, answers);
        if let Some(Ok(handle)) = self.ask(&machine, resumed).await {
            self.follow(&machine, handle);
        }
    }

    async fn answer_one(&mut self) {
        let Some(run) = self.pick_run().await else { return };
        let Some(machine) = self.machine() else { return };
        let answers = self.answers(run.run, false).await;
        if !answers.is_empty() {
            self.note(&machine, "passes answers on to", run.run);
            self.ask(&machine, machine.engine.pass_on(run.run, answers)).await;
        }
    }

    async fn cancel_one(&mut self) {
        let Some(run) = self.pick_run().await else { return };
        let Some(machine) = self.machine() else { return };
        self.note(&machine, "cancels", run.run);
        let by = Some("ada".to_owned());
        let cancelled = self.ask(&machine, machine.engine.cancel(run.run, by, None)).await;
        if let Some(Ok(cancelled)) = cancelled {
            let run = match cancelled {
                dalsegno_runtime::Cancelled::Ended(report) => report.run,
                dalsegno_runtime::Cancelled::Requested { run } => run,
            };
            self.world.judge(|guarantees| guarantees.cancel_wanted(run));
        }
    }

    async fn give_up_one(&mut self) {
        let Some(run) = self.pick_run().await else { return };
        let Some(machine) = self.machine() else { return };
        let pending = self.pending(run.run).await;
        if pending.is_empty() {
            return;
        }
        let operation = self.random.pick(&pending);
        self.note(&machine, "gives up an operation of", run.run);
        let given_up = machine.engine.give_up(run.run, vec![operation], Some("ada".into()), None);
        if let Some(Ok(Some(handle))) = self.ask(&machine, given_up).await {
            self.follow(&machine, handle);
        }
    }

    fn interrupt_one(&mut self) {
        let runs: Vec<RunId> = self.orders.keys().copied().collect();
        if runs.is_empty() {
            return;
        }
        let run = self.random.pick(&runs);
        let order = if self.random.chance(800) { Order::Interrupt } else { Order::Cancel };
        if let Some(orders) = self.orders.get(&run) {
            let alias = self.world.judge(|guarantees| guarantees.name(run));
            self.world.note(&format!("whoever holds {alias} is told: {order:?}"));
            let _ = orders.send(order);
        }
    }

    /// Waits for an engine's answer, unless its process dies first.
    async fn ask<T>(
        &self,
        machine: &Machine,
        question: impl Future<Output = Result<T, EngineError>>,
    ) -> Option<Result<T, EngineError>> {
        let answer = tokio::select! {
            biased;
            () = machine.process.gone() => None,
            answer = tokio::time::timeout(PATIENCE, question) => Some(answer),
        };
        match answer? {
            Ok(answer) => {
                if let Err(error) = &answer {
                    self.world.note(&format!("p{}: {error}", machine.process.number));
                    if !engine::is_expected(error, &machine.process) {
                        self.broken(format!("p{}: {error}: {error:?}", machine.process.number));
                    }
                }
                Some(answer)
            }
            Err(_) => {
                self.broken(format!("p{} does not answer", machine.process.number));
                None
            }
        }
    }

    /// Follows a run for as long as its process performs it.
    fn follow(&mut self, machine: &Machine, handle: RunHandle) {
        let (orders, received) = mpsc::unbounded_channel();
        self.orders.insert(handle.run(), orders);
        let (world, reader) = (Arc::clone(&self.world), self.reader.clone());
        let epoch = world.judge(|guarantees| guarantees.epoch(handle.run()));
        tokio::spawn(engine::follow(world, reader, Arc::clone(&machine.process), handle, received, epoch));
    }

    fn note(&self, machine: &Machine, what: &str, run: RunId) {
        let alias = self.world.judge(|guarantees| guarantees.name(run));
        self.world.note(&format!("somebody: p{} {what} {alias}", machine.process.number));
    }

    fn broken(&self, what: String) {
        self.world.judge(|guarantees| guarantees.broken(what));
    }

    /// The status of a run, as the store has it.
    async fn status(&self, run: RunId) -> Option<RunStatus> {
        use dalsegno_store::Store as _;
        self.store.summary(run).await.ok().map(|summary| summary.status)
    }
}
