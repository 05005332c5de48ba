//! Real time, a real disk, many runs at once, and things that go wrong: for as long as one likes.
//!
//! Processes are parts of this one, with an engine, a journal and a runtime of their own each, so that one number says
//! what all of it takes of memory. (Real ones are killed by the crash tests of the runtime.)

mod agents;
mod audit;
mod book;
mod clerk;
mod host;
mod report;
mod tools;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dalsegno_core::{AgentRequest, RunId};
use dalsegno_runtime::Engine;
use dalsegno_store::{RunStatus, SqliteStore, Store as _};
use serde_json::json;
use tokio::sync::{mpsc, watch};

pub use report::{Effects, MemoryUse, SoakReport, SoakSample};

use crate::error::SimulationError;
use crate::faults::Faults;
use crate::random::Random;
use crate::usage::memory_of;
use host::{Host, Word};
use tools::Outside;

/// Processes at a time.
const PROCESSES: usize = 3;
/// How often people look at what waits.
const LOOK: Duration = Duration::from_millis(300);
/// How often memory is noted.
const SAMPLE: Duration = Duration::from_secs(2);
/// After so long without a word, a start is made again under its key.
const START: Duration = Duration::from_secs(3);
/// How long everything may take to come to its end when nothing goes wrong any more: longer than a sleeper sleeps.
const PATIENCE: Duration = Duration::from_secs(180);
/// Soaks that are shorter have no runs that sleep.
const SLEEPERS: Duration = Duration::from_secs(60);

/// Many runs at once on a real store, started anew as they end, while things go wrong.
#[derive(Debug, Clone, Copy)]
pub struct Soak {
    length: Duration,
    runs: usize,
    seed: u64,
    faults: u32,
}

impl Soak {
    /// So many runs at once for so long, with the usual share of calls that fail.
    #[must_use]
    pub fn new(length: Duration, runs: usize) -> Self {
        Self { length, runs, seed: 1, faults: Faults::default().call_fails }
    }

    /// What goes wrong follows from this seed; when it does, from the machine.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Lets everything happen. It takes runtimes of its own, so it must not be called within one.
    ///
    /// # Errors
    /// When the folder cannot be made or an engine cannot be opened. What engines do wrong is in the report.
    pub fn run(self, tell: impl FnMut(&SoakSample)) -> Result<SoakReport, SimulationError> {
        let folder = tempfile::tempdir()?;
        agents::write(folder.path())?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let outside = Arc::new(Outside::new(self.seed, self.faults, runtime.handle().clone()));
        runtime.block_on(async {
            let mut operator = Operator::new(self, outside, folder.path()).await?;
            operator.work(tell).await?;
            operator.finish().await
        })
    }
}

/// A run that has not been audited yet.
struct Open {
    run: Option<RunId>,
    /// When it was asked for last.
    asked: Instant,
}

/// Whoever starts runs and processes, and looks.
struct Operator<'a> {
    soak: Soak,
    folder: &'a Path,
    outside: Arc<Outside>,
    /// Reads, and passes answers on; it performs nothing before the time is up.
    desk: Engine,
    store: SqliteStore,
    random: Random,
    hosts: Vec<(Host, Instant)>,
    open: BTreeMap<u64, Open>,
    sender: mpsc::UnboundedSender<Word>,
    words: mpsc::UnboundedReceiver<Word>,
    began: Instant,
    samples: Vec<SoakSample>,
    report: SoakReport,
}

impl<'a> Operator<'a> {
    async fn new(soak: Soak, outside: Arc<Outside>, folder: &'a Path) -> Result<Self, SimulationError> {
        let desk = host::engine(&outside, folder).await?;
        let path = desk.workspace().settings.store.clone();
        let store = SqliteStore::open(path).map_err(|error| SimulationError::Workspace {
            seed: soak.seed,
            message: format!("{error}: {error:?}"),
        })?;
        let (sender, words) = mpsc::unbounded_channel();
        let report = SoakReport {
            length: Duration::ZERO,
            started: 0,
            ended: BTreeMap::new(),
            steps: 0,
            records: 0,
            calls: 0,
            effects: Effects::default(),
            answered: BTreeMap::new(),
            stopped: 0,
            killed: 0,
            waited: BTreeMap::new(),
            memory: None,
            broken: Vec::new(),
        };
        Ok(Self {
            soak,
            folder,
            outside,
            desk,
            store,
            random: Random::new(soak.seed, "soak"),
            hosts: Vec::new(),
            open: BTreeMap::new(),
            sender,
            words,
            began: Instant::now(),
            samples: Vec::new(),
            report,
        })
    }

    /// Keeps so many runs going until the time is up.
    async fn work(&mut self, mut tell: impl FnMut(&SoakSample)) -> Result<(), SimulationError> {
        let (mut look, mut sample) = (Instant::now(), Instant::now());
        while self.began.elapsed() < self.soak.length {
            self.replace_hosts().await?;
            self.listen();
            self.start();
            if look.elapsed() >= LOOK {
                look = Instant::now();
                self.answer(250).await;
                self.audit().await;
            }
            if sample.elapsed() >= SAMPLE.min(self.soak.length / 10) {
                sample = Instant::now();
                let now = self.sample();
                tell(&now);
                self.samples.push(now);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.report.length = self.began.elapsed();
        Ok(())
    }

    fn sample(&self) -> SoakSample {
        SoakSample {
            after: self.began.elapsed(),
            memory: memory_of("self", "VmRSS"),
            started: self.report.started,
            ended: self.report.started - self.open.len() as u64,
            broken: self.outside.book().broken.len(),
        }
    }

    /// Stops or kills processes whose time has come, and starts others in their place.
    async fn replace_hosts(&mut self) -> Result<(), SimulationError> {
        let now = Instant::now();
        while let Some(place) = self.hosts.iter().position(|(_, until)| *until <= now) {
            let (host, _) = self.hosts.swap_remove(place);
            if self.random.chance(500) {
                self.report.stopped += 1;
                // It may take as long as its slowest call.
                tokio::spawn(host.stop());
            } else {
                self.report.killed += 1;
                host.kill();
            }
        }
        while self.hosts.len() < PROCESSES {
            let host = Host::boot(&self.outside, self.folder, self.sender.clone()).await?;
            // Short soaks see some of it as well.
            let longest =
                u64::try_from((self.soak.length / 3).as_millis()).unwrap_or(u64::MAX).clamp(500, 20_000);
            self.hosts.push((host, now + self.random.millis(longest / 4, longest)));
        }
        Ok(())
    }

    /// Takes in which start has which run.
    fn listen(&mut self) {
        while let Ok(word) = self.words.try_recv() {
            match word {
                Word::Started(number, run) => {
                    if let Some(open) = self.open.get_mut(&number)
                        && let Some(before) = open.run.replace(run)
                        && before != run
                    {
                        let what = format!("start {number} is run {before}, and run {run} as well");
                        self.outside.book().break_promise(what);
                    }
                }
                Word::NotStarted(number) => {
                    if let Some(open) = self.open.get_mut(&number) {
                        open.asked = Instant::now();
                    }
                }
            }
        }
    }

    /// Starts as many runs as are missing, and asks again for those of which nothing was heard.
    fn start(&mut self) {
        let silent = self.open.iter().filter(|(_, open)| open.run.is_none() && open.asked.elapsed() > START);
        let mut numbers: Vec<u64> = silent.map(|(number, _)| *number).collect();
        while self.open.len() < self.soak.runs {
            self.report.started += 1;
            self.open.insert(self.report.started, Open { run: None, asked: Instant::now() });
            numbers.push(self.report.started);
        }
        for number in numbers {
            self.ask_for(number);
        }
    }

    fn ask_for(&mut self, number: u64) {
        // What is asked for follows from the number, so that it is the same when it is asked for again.
        let mut random = Random::new(self.soak.seed, &format!("start {number}"));
        let agent = random.pick(&agents::ROOTS);
        let sleeps = self.soak.length >= SLEEPERS && random.chance(50);
        let data = json!({ "gated": random.chance(400), "sleeps": sleeps });
        let tenant = random.pick(&["acme", "acme", "other"]).to_owned();
        let request = AgentRequest { data, tenant, ..AgentRequest::text(&format!("request {number}")) };
        let host = self.random.below(self.hosts.len());
        if let (Some((host, _)), Some(open)) = (self.hosts.get(host), self.open.get_mut(&number)) {
            open.asked = Instant::now();
            host.start(number, agent, request);
        }
    }

    /// Answers to so many of a thousand runs that wait; some answers are passed on for whoever goes on with the run.
    async fn answer(&mut self, per_mille: u32) {
        for run in clerk::suspended(self.desk.journal(), &self.outside).await {
            if !self.random.chance(per_mille) {
                continue;
            }
            let answers =
                clerk::answers(self.desk.journal(), &self.outside, run, &mut self.report.answered).await;
            if answers.is_empty() {
                continue;
            }
            let host = self.random.below(2 * self.hosts.len());
            if let Some((host, _)) = self.hosts.get(host) {
                host.resume(run, answers);
            } else if let Err(error) = self.desk.pass_on(run, answers).await {
                host::notice(&self.outside, &error);
            }
        }
    }

    /// Checks the runs that have ended, and forgets them.
    async fn audit(&mut self) {
        let mut ended = Vec::new();
        for (number, open) in &self.open {
            let Some(run) = open.run else { continue };
            match self.store.summary(run).await {
                Ok(summary) if summary.status.is_end() && self.outside.book().is_settled(run) => {
                    ended.push((*number, run));
                }
                Ok(_) => {}
                Err(error) => {
                    self.outside.book().break_promise(format!("run {run} is lost: {error}: {error:?}"));
                }
            }
        }
        for (number, run) in ended {
            self.open.remove(&number);
            let family = self.outside.book().close(run);
            let found = audit::audit(self.desk.journal(), &family).await;
            self.report.steps += found.steps;
            for status in found.ended {
                *self.report.ended.entry(status).or_default() += 1;
            }
            let mut book = self.outside.book();
            found.records.into_iter().for_each(|(run, records)| book.closed(run, records));
            found.broken.into_iter().for_each(|what| book.break_promise(what));
        }
    }

    /// The time is up: whatever can go on does, what cannot must say why, and then everything is led to its end.
    async fn finish(mut self) -> Result<SoakReport, SimulationError> {
        for (host, _) in std::mem::take(&mut self.hosts) {
            self.report.stopped += 1;
            host.stop().await;
        }
        self.outside.fails.store(0, Ordering::Relaxed);
        // Starts of which nothing was heard, for the last time.
        let host = Host::boot(&self.outside, self.folder, self.sender.clone()).await?;
        self.hosts.push((host, self.began + self.soak.length + 2 * PATIENCE));
        let until = Instant::now() + PATIENCE;
        loop {
            self.listen();
            let silent: Vec<u64> =
                self.open.iter().filter(|(_, open)| open.run.is_none()).map(|(number, _)| *number).collect();
            if silent.is_empty() || Instant::now() > until {
                break;
            }
            for number in silent {
                self.ask_for(number);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        if let Some((host, _)) = self.hosts.pop() {
            host.stop().await;
        }
        self.work_off().await;
        self.note_what_waits().await;
        // People answer everything, and timers ring.
        while !self.open.is_empty() && Instant::now() < until {
            self.answer(1_000).await;
            self.work_off().await;
            self.audit().await;
        }
        let left: Vec<_> = self.open.iter().map(|(number, open)| (*number, open.run)).collect();
        for (number, run) in left {
            let how = match run {
                Some(run) => audit::standing(self.desk.journal(), run).await,
                None => format!("start {number} was never answered"),
            };
            self.outside.book().break_promise(format!("{how}, and does not come to its end"));
        }
        self.report.memory = MemoryUse::of(&self.samples);
        let book = self.outside.book();
        let report = SoakReport {
            records: book.records,
            calls: book.calls,
            effects: book.effects,
            broken: book.broken.clone(),
            ..self.report.clone()
        };
        Ok(report)
    }

    /// Goes on with everything until nothing can go on.
    async fn work_off(&self) {
        let stop = watch::Sender::new(false);
        host::work(self.desk.clone(), Arc::clone(&self.outside), stop.subscribe(), true).await;
    }

    /// Counts what runs wait for that have not ended: each waits for something.
    async fn note_what_waits(&mut self) {
        for open in self.open.values() {
            let Some(run) = open.run else { continue };
            let why = match self.store.summary(run).await {
                Ok(summary) if summary.status.is_end() => "ended".to_owned(),
                Ok(summary) if summary.status == RunStatus::Suspended && !summary.waiting.is_empty() => {
                    let kinds: Vec<&str> = summary.waiting.iter().map(|waiting| waiting.as_str()).collect();
                    format!("wait for {}", kinds.join(" and "))
                }
                other => {
                    self.outside
                        .book()
                        .break_promise(format!("run {run} neither ends nor says why: {other:?}"));
                    continue;
                }
            };
            *self.report.waited.entry(why).or_default() += 1;
        }
    }
}
