//! All trials, two at a time, and the table of what came of them.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::Context as _;
use serde_json::json;

use crate::Arguments;
use crate::server::Server;
use crate::trial::{self, Setting, Tally, Task};

/// The settings under which processes are killed, in turn.
const SETTINGS: [Setting; 4] = [
    Setting { kills: true, keyed: false, faults: false },
    Setting { kills: true, keyed: false, faults: true },
    Setting { kills: true, keyed: true, faults: false },
    Setting { kills: true, keyed: true, faults: true },
];

/// First all tasks without a kill, then under kills until there were enough.
///
/// Returns whether every end state was the benchmark's own and nothing was repeated.
///
/// # Errors
/// The server or a process could not do its work.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let began = Instant::now();
    let server = Server::start(&arguments.python)?;
    let mut names: Vec<String> = serde_json::from_value(server.ask(&json!({ "do": "tasks" }))?)?;
    names.truncate(arguments.tasks.unwrap_or(usize::MAX));
    let tasks = names.into_iter().map(|name| {
        let task = serde_json::from_value(server.ask(&json!({ "do": "task", "task": name }))?)
            .with_context(|| format!("the task {name} cannot be read"))?;
        Ok((name, task))
    });
    let tasks = tasks.collect::<anyhow::Result<Vec<(String, Task)>>>()?;
    let calm = Setting { kills: false, keyed: false, faults: false };
    let mut rows = vec![("no kills", rounds(&server, &tasks, &[calm], arguments, 0)?)];
    let killed = rounds(&server, &tasks, &SETTINGS, arguments, arguments.kills)?;
    let names = ["unsafe", "unsafe, server faults", "keyed", "keyed, server faults"];
    rows.extend(names.into_iter().zip(killed).map(|(name, tally)| (name, vec![tally])));
    let rows: Vec<(&str, Tally)> =
        rows.into_iter().map(|(name, mut tallies)| (name, tallies.remove(0))).collect();
    let mut all = Tally::default();
    for (_, tally) in &rows {
        all.add(tally.clone());
    }
    let table = table(&tasks, &rows, &all, arguments.seed, began.elapsed().as_secs());
    let mut out = std::io::stdout().lock();
    writeln!(out, "{table}")?;
    for wrong in all.wrong.iter().take(20) {
        writeln!(out, "WRONG: {wrong}")?;
    }
    if let Some(file) = &arguments.table {
        std::fs::write(file, &table).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    Ok(all.wrong.is_empty() && all.equal == all.trials)
}

/// Runs every task in these settings, in turn, until there were enough kills: each task at least once.
fn rounds(
    server: &Server,
    tasks: &[(String, Task)],
    settings: &[Setting],
    arguments: &Arguments,
    kills: u64,
) -> anyhow::Result<Vec<Tally>> {
    let next = AtomicUsize::new(0);
    let killed = AtomicU64::new(0);
    let tallies = Mutex::new(vec![Tally::default(); settings.len()]);
    let work = || -> anyhow::Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::SeqCst);
            if number >= tasks.len() && killed.load(Ordering::SeqCst) >= kills {
                return Ok(());
            }
            let (name, task) = &tasks[number % tasks.len()];
            // Each round begins with another setting, so that each task meets all of them.
            let setting = (number + number / tasks.len()) % settings.len();
            let seed = fastrand::Rng::with_seed(arguments.seed ^ ((number as u64) << 20)).u64(..);
            let tally = trial::run(server, name, task, settings[setting], seed)
                .with_context(|| format!("{name}, seed {seed}, {:?}", settings[setting]))?;
            let done = killed.fetch_add(tally.kills(), Ordering::SeqCst) + tally.kills();
            tallies.lock().unwrap_or_else(PoisonError::into_inner)[setting].add(tally);
            if (number + 1).is_multiple_of(50) {
                let _ = writeln!(std::io::stderr(), "{} trials, {done} of {kills} kills", number + 1);
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    Ok(tallies.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn table(tasks: &[(String, Task)], rows: &[(&str, Tally)], all: &Tally, seed: u64, seconds: u64) -> String {
    let mut table = String::from(
        "| setting | trials | end state is the benchmark's | killed before / after a commit / at a random instant | calls performed | repeated | known by key | asked: had taken place / had not |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let total = [("all", all.clone())];
    for (name, tally) in rows.iter().chain(&total) {
        let [before, after, random] = tally.killed;
        let [true_doubts, false_doubts] = tally.doubts;
        let _ = writeln!(
            table,
            "| {name} | {} | {} | {before} / {after} / {random} | {} | {} | {} | {true_doubts} / {false_doubts} |",
            tally.trials, tally.equal, tally.calls, tally.repeated, tally.deduplicated,
        );
    }
    let _ = write!(
        table,
        "\n{} tasks, {} kills, {} processes, seed {seed}, {seconds} s",
        tasks.len(),
        all.kills(),
        all.processes
    );
    table
}
