//! Runs that wait: what they take of memory and disk, and how soon one wakes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::AgentRequest;
use dalsegno_runtime::{Clock as _, RunEnd, StartOptions, SystemClock, WorkerOptions};
use dalsegno_store::RunFilter;
use tokio::task::JoinSet;

use crate::engine::{Add, SetClock, builder, say, workspace};
use crate::line::{Fault, Line, bytes, megabytes, millis};
use crate::process::{Role, on_disk, resident};

/// Runs under way at once while they are made.
const AT_ONCE: u64 = 200;

/// The few runs that the many are compared with.
const FEW: u64 = 10;

/// How long a worker works before the one run wakes: it has looked for runs a few times by then.
const QUIET: Duration = Duration::from_secs(3);

/// A process that starts runs which wait for an approval, and one that wakes.
pub(crate) async fn suspend(folder: &Path, runs: u64) -> Result<(), Fault> {
    let engine = builder(u64::MAX)?.open(folder).await?;
    let mut started = 0;
    let mut under_way = JoinSet::new();
    let mut warm = None;
    while started < runs || !under_way.is_empty() {
        if started < runs && (under_way.len() as u64) < AT_ONCE {
            started += 1;
            let (engine, agent) = (engine.clone(), "asker".parse()?);
            under_way.spawn(async move {
                let request = AgentRequest::text("add");
                let handle = engine.start(&agent, request, StartOptions::default()).await?;
                Ok::<_, Fault>(handle.finish().await?.end)
            });
        } else if let Some(end) = under_way.join_next().await {
            let end = end??;
            if !matches!(end, RunEnd::Suspended { .. }) {
                return Err(format!("a run that was to wait did not: {end:?}").into());
            }
        }
        if warm.is_none() && started == runs / 10 {
            warm = Some(resident()?);
        }
    }
    say(&format!("grew {}", resident()?.saturating_sub(warm.unwrap_or_default())));
    let request = AgentRequest::text("sleep");
    let handle = engine.start(&"sleeper".parse()?, request, StartOptions::default()).await?;
    let end = handle.finish().await?.end;
    if !matches!(end, RunEnd::Suspended { wake_at: Some(_), .. }) {
        return Err(format!("the run that was to sleep does not: {end:?}").into());
    }
    Ok(())
}

/// A worker whose clock shows a time shortly before the one run wakes.
pub(crate) async fn wake(folder: &Path) -> Result<(), Fault> {
    let sleeper = RunFilter { agent: Some("sleeper".parse()?), ..RunFilter::default() };
    let looker = builder(u64::MAX)?.open(folder).await?;
    let runs = looker.journal().runs(&sleeper).await?;
    drop(looker);
    let wakes = runs.first().and_then(|run| run.wake_at).ok_or("no run sleeps")?.as_millis();
    if wakes <= SystemClock.now().as_millis() {
        return Err("the run woke before it was looked at: making the others took an hour".into());
    }
    let clock = SetClock::at(wakes.saturating_sub(u64::try_from(QUIET.as_millis())?));
    let ring = Arc::new(move || say(&format!("rings {}", clock.micros_since(wakes))));
    let add = Add { stand_at: 1, say: ring };
    let builder = builder(u64::MAX)?.tool("math.add".parse()?, add).clock(clock);
    let engine = builder.open(folder).await?;
    let quiet = async {
        tokio::time::sleep(QUIET / 2).await;
        if let Ok(memory) = resident() {
            say(&format!("resident {memory}"));
        }
        std::future::pending::<()>().await;
    };
    engine.work(&WorkerOptions::default(), quiet, |_| {}).await?;
    Ok(())
}

/// What so many runs take.
struct Taken {
    memory: u64,
    /// What the process grew by that suspended nine tenths of them.
    grew: u64,
    disk: u64,
    /// How late one of them woke.
    late: Duration,
}

fn taken(runs: u64) -> Result<Taken, Fault> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().to_owned();
    workspace(&place)?;
    let mut process = Role::Suspend { folder: place.clone(), runs }.spawn()?;
    let grew = process.hear("grew")?.0.parse()?;
    process.end()?;
    let disk = on_disk(&place)?;
    let mut process = Role::Wake { folder: place }.spawn()?;
    let memory = process.hear("resident")?.0.parse()?;
    let late = Duration::from_micros(process.hear("rings")?.0.parse()?);
    process.kill()?;
    Ok(Taken { memory, grew, disk, late })
}

/// Makes so many runs that wait, and measures.
pub(crate) fn suspended(runs: u64) -> Result<Vec<Line>, Fault> {
    let (few, many) = (taken(FEW)?, taken(runs)?);
    let each = |few: u64, many: u64| many.saturating_sub(few) as f64 / (runs - FEW) as f64;
    let memory = format!("{} and {}", megabytes(few.memory as f64), megabytes(many.memory as f64));
    Ok(vec![
        Line::at_most(
            &format!("{runs} suspended runs, memory of each"),
            each(few.memory, many.memory),
            16.0,
            bytes,
        )
        .noted(&format!("a worker with few and all: {memory}")),
        Line::told("  in the process that suspended them", bytes(many.grew as f64 / (runs as f64 * 0.9))),
        Line::at_most("  disk of each, its content included", each(few.disk, many.disk), 2_000.0, bytes),
        Line::at_most("  from its time to its next call", many.late.as_secs_f64() * 1e3, 10.0, millis),
    ])
}
