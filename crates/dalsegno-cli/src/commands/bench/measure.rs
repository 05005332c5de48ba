//! One measurement: F, half of the turns, F, the other half, F again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dalsegno_core::{AgentRequest, RunId, Status};
use dalsegno_runtime::{Engine, RunEnd, RunFailure, RunReport, StartOptions};
use tokio::task::JoinSet;

use super::figures::{Figures, Floors};
use super::floor::{floor, median};
use super::folder::Folder;
use super::load::{self, Adder, Load};
use super::machine;
use crate::error::Error;

/// Why there are no figures.
type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Measures; stops early when the load is told to.
pub(super) async fn measure(load: &Arc<Load>, folder: &Folder) -> Result<Figures, Error> {
    match figures(load, folder).await {
        // What went wrong after a wish to stop follows from it.
        _ if load.is_stopped() => Err(Error::StoppedMeasuring),
        Ok(figures) => Ok(figures),
        Err(source) => Err(Error::NotMeasured { place: folder.beside().to_owned(), source }),
    }
}

async fn figures(load: &Arc<Load>, folder: &Folder) -> Result<Figures, Fault> {
    load::workspace(folder.path(), load.turns(), load.runs())?;
    let engine = Engine::builder()
        .model(load::MODEL, Adder(Arc::clone(load)))
        .tool(load::TOOL.parse()?, load::Add)
        .open(folder.path())
        .await?;
    let journal = engine.workspace().settings.store.clone();
    let before = floor_of(load, folder).await?;
    let commits = machine::commits(&journal);

    let mut meter = Meter::begin();
    let mut runs = Runs::default();
    for number in 0..load.runs() {
        let request = AgentRequest::text(&number.to_string());
        let handle = engine.start(&load::AGENT.parse()?, request, StartOptions::default()).await?;
        runs.first.get_or_insert(handle.run());
        runs.under_way.spawn(handle.finish());
    }
    tokio::select! {
        () = load.all_arrived() => {}
        // It ends before its middle only if something is wrong.
        Some(ended) = runs.under_way.join_next() => runs.count(ended?, load),
    }
    meter.pause();
    let middle = floor_of(load, folder).await?;
    meter.go_on();
    load.go_on();
    while let Some(ended) = runs.under_way.join_next().await {
        runs.count(ended?, load);
    }
    if let Some(fault) = runs.fault {
        return Err(fault);
    }
    meter.pause();
    let commits = machine::commits(&journal).zip(commits).map(|(after, before)| after - before);
    let after = floor_of(load, folder).await?;
    // Before anything that a run by itself would not do.
    let peak_memory = machine::peak_memory();

    let first = runs.first.ok_or("no run was started")?;
    let begin = Instant::now();
    let replay = engine.journal().replay(first).await?;
    let replayed = replay.steps as f64 / begin.elapsed().as_secs_f64();
    if !replay.identical {
        return Err(format!("the replay of run {first} differs from its journal").into());
    }
    let state = engine.journal().inspect(first, None).await?.state;
    let transcript: Vec<_> = state.transcript().iter().collect();
    let transcript = serde_json::to_vec(&transcript)?.len() as u64;
    drop(engine);
    let disk = on_disk(&journal)?;

    let times = load.times();
    let tenth = usize::try_from(load.turns() / 10)?;
    let part = |take: fn(&[Duration], usize) -> &[Duration]| {
        median(times.iter().flat_map(|run| take(run, tenth)).copied().collect())
    };
    Ok(Figures {
        place: folder.beside().to_owned(),
        turns: load.turns(),
        runs: load.runs(),
        steps: runs.steps,
        took: meter.took,
        first_tenth: part(|run, tenth| &run[..tenth.min(run.len())]),
        last_tenth: part(|run, tenth| &run[run.len().saturating_sub(tenth)..]),
        turn: part(|run, _| run),
        floor: Floors::of(before, middle, after),
        cpu: meter.cpu,
        commits,
        disk,
        transcript,
        peak_memory,
        replayed,
    })
}

/// The runs that go on, and what came of those that have ended.
#[derive(Default)]
struct Runs {
    under_way: JoinSet<Result<RunReport, RunFailure>>,
    first: Option<RunId>,
    steps: u64,
    /// Why the first one failed that did.
    fault: Option<Fault>,
}

impl Runs {
    /// Counts a run that has ended. After one that failed the others are ended too, so that none writes any more when the
    /// folder is removed.
    fn count(&mut self, ended: Result<RunReport, RunFailure>, load: &Load) {
        let fault: Fault = match ended {
            Err(fault) => fault.into(),
            Ok(RunReport { end: RunEnd::Ended(response), steps, .. })
                if response.status == Status::Completed =>
            {
                self.steps += steps;
                return;
            }
            Ok(RunReport { end: RunEnd::Ended(response), run, .. }) => {
                let why = response.error.map(|error| error.message).unwrap_or_default();
                format!("run {run} did not complete: {why}").into()
            }
            Ok(RunReport { end, run, .. }) => format!("run {run} did not end: {end:?}").into(),
        };
        self.fault.get_or_insert(fault);
        load.give_up();
    }
}

/// F as it is now. The engine rests meanwhile.
async fn floor_of(load: &Arc<Load>, folder: &Folder) -> Result<Vec<Duration>, Fault> {
    let (load, file) = (Arc::clone(load), folder.path().join("floor.db"));
    Ok(tokio::task::spawn_blocking(move || floor(&file, || load.is_stopped())).await??)
}

/// The bytes of a journal that nobody has open, its log included.
fn on_disk(journal: &PathBuf) -> Result<u64, Fault> {
    rusqlite::Connection::open(journal)?.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(std::fs::metadata(journal)?.len())
}

/// Time and processor time, but for what is measured in between.
struct Meter {
    begun: (Instant, Option<Duration>),
    took: Duration,
    cpu: Option<Duration>,
}

impl Meter {
    fn begin() -> Self {
        Self { begun: (Instant::now(), machine::cpu()), took: Duration::ZERO, cpu: Some(Duration::ZERO) }
    }

    fn pause(&mut self) {
        let (begun, cpu) = self.begun;
        self.took += begun.elapsed();
        let spent = machine::cpu().zip(cpu).map(|(now, before)| now.saturating_sub(before));
        self.cpu = self.cpu.zip(spent).map(|(sum, spent)| sum + spent);
    }

    fn go_on(&mut self) {
        self.begun = (Instant::now(), machine::cpu());
    }
}
