//! Whoever starts processes and runs, answers questions, kills, and looks. The runs are performed by workers.

mod audit;
mod calls;
mod chores;
mod engine;
mod pauses;
mod person;
mod trouble;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{AgentRequest, RunId};
use dalsegno_history::Journal;
use dalsegno_runtime::{Engine, EngineError, GateInput, RunHandle, StartOptions};
use dalsegno_store::{RunFilter, RunStatus, RunSummary, Store};
use tokio::sync::{mpsc, oneshot};

use crate::error::SimulationError;
use crate::process::Process;
use crate::random::Random;
use crate::workspace::Mix;
use crate::world::World;
use engine::{Host, Order};

/// Things that the operator does in one history.
pub(crate) const ACTIONS: usize = 60;

/// Runs that the operator starts.
const RUNS: usize = 6;

/// Processes that are meant to run at the same time.
const PROCESSES: usize = 2;

/// Longer than anything may take that has a bound: every call, and all its attempts.
const PATIENCE: Duration = Duration::from_secs(4 * 60 * 60);

/// A process with its engine.
#[derive(Clone)]
struct Machine {
    process: Arc<Process>,
    engine: Engine,
    /// Tells its worker to stop.
    stop: mpsc::UnboundedSender<()>,
}

/// A start, which may be made again under its key.
#[derive(Clone)]
struct Begin {
    agent: String,
    tenant: String,
    session: String,
    after: Option<RunId>,
}

/// Whoever uses the engines.
pub(crate) struct Operator {
    world: Arc<World>,
    store: Arc<dyn Store>,
    host: Host,
    /// Reads the journals; nothing ever goes wrong for it.
    reader: Journal,
    mix: Mix,
    /// Decides about the action at hand: each has numbers of its own, so that leaving one out changes no other.
    random: Random,
    /// The actions that are left out.
    left_out: BTreeSet<usize>,
    machines: Vec<Machine>,
    /// Those that lost their lock, and go on until they find out.
    stale: Vec<Machine>,
    processes: u32,
    deaths: u64,
    begins: Vec<Begin>,
    orders: BTreeMap<RunId, mpsc::UnboundedSender<Order>>,
    /// Calls, in the order in which they came.
    lines: calls::Lines,
    clock_is_wrong: bool,
    /// The journals that were looked at, as they were then.
    seen: BTreeMap<RunId, (u64, RunStatus)>,
    /// Every open run was told of the secret that was put last.
    secret_told: bool,
}

impl Operator {
    pub(crate) async fn new(
        world: Arc<World>,
        store: Arc<dyn Store>,
        folder: &Path,
        mix: Mix,
        left_out: BTreeSet<usize>,
    ) -> Result<Self, SimulationError> {
        let host = Host::new(Arc::clone(&world), Arc::clone(&store), folder, &mix)?;
        let reader = host.engine(&Arc::new(Process::outside())).await?.journal().clone();
        let random = Random::new(world.seed, "operator");
        Ok(Self {
            world,
            store,
            host,
            reader,
            mix,
            random,
            left_out,
            machines: Vec::new(),
            stale: Vec::new(),
            processes: 0,
            deaths: 0,
            begins: Vec::new(),
            orders: BTreeMap::new(),
            lines: calls::Lines::default(),
            clock_is_wrong: false,
            seen: BTreeMap::new(),
            secret_told: true,
        })
    }

    /// Processes that died.
    pub(crate) fn deaths(&self) -> u64 {
        self.deaths
    }

    /// Does this and that, while things go wrong.
    pub(crate) async fn work(&mut self) {
        for number in 0..ACTIONS {
            self.random = Random::new(self.world.seed, &format!("action {number}"));
            self.bury().await;
            while self.machines.len() < PROCESSES {
                if !self.boot(true).await {
                    return;
                }
            }
            self.attend_calls(number).await;
            if !self.left_out.contains(&number) {
                Box::pin(self.pause_or_continue(number)).await;
                self.act().await;
            }
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
        if self.trouble().await {
            return;
        }
        match self.random.below(32) {
            0..8 if self.begins.len() < RUNS => self.start_new().await,
            8 => self.start_again().await,
            9..16 => self.answer_one().await,
            16 => self.cancel_one().await,
            17..19 => self.give_up_one().await,
            19 => self.interrupt_one(),
            20 => self.stop_one(),
            21..23 => self.change_secret().await,
            23 => self.fork_one().await,
            24 => self.erase_one().await,
            25 => self.collect_garbage().await,
            26 => self.export_one().await,
            27 => {
                self.world.count("action", "look");
                self.look(true).await;
            }
            _ if self.mix.resumes => self.resume_one().await,
            _ => self.answer_one().await,
        }
    }

    /// Starts a process with a worker; says whether it could be.
    async fn boot(&mut self, may_die: bool) -> bool {
        self.processes += 1;
        let mut random = Random::new(self.world.seed, &format!("boot {}", self.processes));
        let dies = may_die && random.chance(self.world.faults().dies_at_write);
        let most = random.pick(&[4, 12, 40]);
        let writes = dies.then(|| i64::try_from(1 + random.below(most)).unwrap_or(1));
        let process = Arc::new(Process::new(self.processes, self.world.seed, writes));
        self.world.note(&format!("p{} begins", process.number));
        self.world.judge(|guarantees| guarantees.begins(&process));
        match self.host.engine(&process).await {
            Ok(engine) => {
                let (world, lines) = (Arc::clone(&self.world), self.lines.clone());
                let exchange = calls::Exchange { world, process: Arc::clone(&process), lines };
                engine.set_switchboard(Arc::new(exchange));
                let (stop, stopped) = mpsc::unbounded_channel();
                let machine = Machine { process, engine, stop };
                self.employ(&machine, stopped, random.pick(&self.mix.polls));
                self.machines.push(machine);
                true
            }
            Err(error) => {
                self.broken(format!("an engine cannot be opened: {error}"));
                false
            }
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
            self.look(false).await;
        }
    }

    /// A process that does something: no frozen one would.
    fn machine(&mut self) -> Option<Machine> {
        let awake: Vec<&Machine> =
            self.machines.iter().filter(|machine| !machine.process.is_frozen()).collect();
        let number = self.random.below(awake.len());
        awake.get(number).map(|machine| (*machine).clone())
    }

    async fn start_new(&mut self) {
        let number = self.begins.len() + 1;
        let agent = self.random.pick(&self.mix.roots);
        let tenant = self.random.pick(&["acme", "acme", "other"]).to_owned();
        // Some runs share a session, in which one goes on at a time.
        let session = match self.random.below(4) {
            0 => format!("{agent} {tenant}"),
            _ => format!("session {number}"),
        };
        let mut begin = Begin { agent, tenant, session, after: None };
        if self.random.chance(150)
            && let Some(after) = self.ended_root(&begin.tenant).await
        {
            begin.after = Some(after);
        }
        self.world.count("action", if begin.after.is_some() { "start after" } else { "start" });
        self.begins.push(begin);
        self.start(number - 1).await;
    }

    /// A root run that has ended, after which another one may go on.
    async fn ended_root(&mut self, tenant: &str) -> Option<RunId> {
        let filter = RunFilter {
            tenant: Some(tenant.to_owned()),
            roots_only: true,
            limit: u32::MAX,
            ..RunFilter::default()
        };
        let mut ended = self.listed(&filter).await;
        ended.retain(|run| run.status.is_end() && run.status != RunStatus::HandedOff);
        ended.retain(|run| !self.world.judge(|guarantees| guarantees.rests_on_erased(run.run)));
        let number = self.random.below(ended.len());
        (number < ended.len()).then(|| ended.swap_remove(number).run)
    }

    async fn start_again(&mut self) {
        if !self.begins.is_empty() {
            self.world.count("action", "start again");
            let number = self.random.below(self.begins.len());
            self.start(number).await;
        }
    }

    async fn start(&mut self, number: usize) {
        let Some(machine) = self.machine() else { return };
        let Begin { agent, tenant, session, after } = self.begins[number].clone();
        self.world.note(&format!("somebody asks p{} for {agent}, key {number}", machine.process.number));
        let Ok(agent) = agent.parse() else { return self.broken(format!("`{agent}` is no name")) };
        let request = AgentRequest { tenant, ..AgentRequest::text(&format!("request {number}")) };
        let key = format!("key {number}");
        if after.is_some() {
            self.world.judge(|guarantees| guarantees.goes_after(&request.tenant, &key));
        }
        let options =
            StartOptions { key: Some(key), session: Some(session), after, ..StartOptions::default() };
        let started = machine.engine.start(&agent, request, options);
        if let Some(Ok(handle)) = self.ask(&machine, started).await {
            self.follow(&machine, handle);
        }
    }

    /// Root runs that have not ended.
    async fn open_runs(&self) -> Vec<RunSummary> {
        let filter = RunFilter { roots_only: true, limit: u32::MAX, ..RunFilter::default() };
        let mut runs = self.listed(&filter).await;
        runs.retain(|run| !run.status.is_end());
        runs
    }

    async fn listed(&self, filter: &RunFilter) -> Vec<RunSummary> {
        match self.reader.runs(filter).await {
            Ok(runs) => runs,
            Err(error) => {
                self.broken(format!("the runs cannot be listed: {error}"));
                Vec::new()
            }
        }
    }

    async fn pick_run(&mut self) -> Option<RunSummary> {
        let mut open = self.open_runs().await;
        let number = self.random.below(open.len());
        (number < open.len()).then(|| open.swap_remove(number))
    }

    async fn resume_one(&mut self) {
        let Some(run) = self.pick_run().await else { return };
        self.world.count("action", "resume");
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
        let answers = self.answers(run.run, false).await;
        self.pass_on(run.run, answers).await;
    }

    /// Posts answers, for whoever performs the run or takes it next.
    async fn pass_on(&mut self, run: RunId, answers: Vec<GateInput>) {
        let Some(machine) = self.machine() else { return };
        if !answers.is_empty() {
            self.world.count("action", "answer");
            self.note(&machine, "passes answers on to", run);
            self.ask(&machine, machine.engine.pass_on(run, answers)).await;
        }
    }

    /// A root run to end: often one whose child runs go on.
    async fn pick_for_end(&mut self) -> Option<RunSummary> {
        let all = RunFilter { limit: u32::MAX, ..RunFilter::default() };
        let runs = self.listed(&all).await;
        let above: BTreeSet<RunId> =
            runs.iter().filter(|run| !run.status.is_end()).filter_map(|run| run.parent).collect();
        let mut parents = runs;
        parents.retain(|run| run.parent.is_none() && !run.status.is_end() && above.contains(&run.run));
        if parents.is_empty() || self.random.chance(500) {
            return self.pick_run().await;
        }
        let number = self.random.below(parents.len());
        Some(parents.swap_remove(number))
    }

    async fn cancel_one(&mut self) {
        let Some(run) = self.pick_for_end().await else { return };
        let Some(machine) = self.machine() else { return };
        self.world.count("action", "cancel");
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
        // What an end has to do besides is what a death at this moment would lose.
        if self.world.faults().killed > 0 && self.random.chance(400) {
            let pause = self.random.millis(0, 300);
            tokio::time::sleep(pause).await;
            self.kill_one().await;
        }
    }

    async fn give_up_one(&mut self) {
        let Some(run) = self.pick_run().await else { return };
        let Some(machine) = self.machine() else { return };
        let pending = self.pending(run.run).await;
        if pending.is_empty() {
            return;
        }
        self.world.count("action", "give up");
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
        self.world.count("action", "interrupt");
        let run = self.random.pick(&runs);
        let order = if self.random.chance(800) { Order::Interrupt } else { Order::Cancel };
        if let Some(orders) = self.orders.get(&run) {
            let alias = self.world.judge(|guarantees| guarantees.name(run));
            self.world.note(&format!("whoever holds {alias} is told: {order:?}"));
            let _ = orders.send(order);
        }
    }

    /// Tells a worker to stop: its process ends when it has let go of everything.
    fn stop_one(&mut self) {
        if let Some(machine) = self.machine() {
            self.world.count("action", "stop a worker");
            self.world.note(&format!("p{} is told to stop", machine.process.number));
            let _ = machine.stop.send(());
        }
    }

    /// Waits for an engine's answer, unless its process dies first.
    async fn ask<T, E: Into<EngineError>>(
        &self,
        machine: &Machine,
        question: impl Future<Output = Result<T, E>>,
    ) -> Option<Result<T, EngineError>> {
        let answer = tokio::select! {
            biased;
            () = machine.process.gone() => None,
            answer = tokio::time::timeout(PATIENCE, question) => Some(answer),
        };
        match answer? {
            Ok(answer) => {
                let answer = answer.map_err(Into::into);
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
        tokio::spawn(engine::follow(world, reader, Arc::clone(&machine.process), handle, received));
    }

    fn note(&self, machine: &Machine, what: &str, run: RunId) {
        let alias = self.world.judge(|guarantees| guarantees.name(run));
        self.world.note(&format!("somebody: p{} {what} {alias}", machine.process.number));
    }

    fn broken(&self, what: String) {
        self.world.judge(|guarantees| guarantees.broken(what));
    }
}

/// Waits for a word, and for ever when nobody is left to say it.
async fn told(mut words: mpsc::UnboundedReceiver<()>) {
    if words.recv().await.is_none() {
        let (_sender, never) = oneshot::channel::<()>();
        let _ = never.await;
        std::future::pending::<()>().await;
    }
}
