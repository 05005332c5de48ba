//! `dalsegno bench`: what a durable turn costs on this disk, beside what the disk itself costs.
//!
//! A scripted model without latency asks for one addition a turn, which a tool in this process performs: what is left is
//! the engine and the disk. All of it happens in a folder of its own beside the workspace's journal, which is gone in
//! the end; the journal itself is not touched.

mod figures;
mod floor;
mod folder;
mod load;
mod machine;
mod measure;

use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_workspace::Workspace;
use tokio::time::MissedTickBehavior;

use self::folder::Folder;
use self::load::Load;
use crate::args::{BenchArgs, Format};
use crate::error::Error;
use crate::exit::Exit;
use crate::locate;
use crate::render::bench::{document, table};
use crate::render::output::Output;
use crate::render::text::{count, grouped};
use crate::signal::Signals;

pub(crate) use self::figures::{Budget, Figures, Floors};

/// The time between two updates of the line that says how far it is.
const BETWEEN_UPDATES: Duration = Duration::from_millis(200);

pub(super) async fn bench(
    args: &BenchArgs,
    named: Option<&Path>,
    format: Format,
    output: &mut Output,
) -> Result<Exit, Error> {
    let mut signals = Signals::listen().map_err(|source| Error::Signals { source })?;
    let place = place(named)?;
    let folder = Folder::make(&place)?;
    let runs = count(args.runs, "run");
    output.note(format_args!(
        "measuring the disk of `{}`: {runs} of {} turns",
        folder.beside().display(),
        grouped(args.turns)
    ));
    if cfg!(debug_assertions) {
        output.note("this is a debug build: its figures say little about a release");
    }
    let load = Arc::new(Load::new(args.turns, args.runs));
    let measured = follow(&load, &folder, &mut signals, output).await;
    let figures = match (measured, folder.remove()) {
        // Whoever stopped it is told that nothing was left behind, which must be so.
        (Err(Error::StoppedMeasuring), Err(left)) => return Err(left),
        (measured, removed) => {
            let figures = measured?;
            removed?;
            figures
        }
    };
    match format {
        Format::Text => table(&figures, output),
        Format::Json | Format::Jsonl => document(&figures, output),
    }
    Ok(Exit::Done)
}

/// Waits for the figures, says how far they are, and stops when somebody wishes it.
async fn follow(
    load: &Arc<Load>,
    folder: &Folder,
    signals: &mut Signals,
    output: &mut Output,
) -> Result<Figures, Error> {
    let mut measured = std::pin::pin!(measure::measure(load, folder));
    let mut updates = tokio::time::interval(BETWEEN_UPDATES);
    updates.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let shown = output.stderr.terminal.progress;
    let result = loop {
        tokio::select! {
            result = &mut measured => break result,
            _ = updates.tick(), if shown => {
                let (done, all) = load.progress();
                output.stderr.steer("\r");
                output.stderr.write(&format!("{} of {} turns", grouped(done), grouped(all)));
                output.stderr.flush();
            }
            () = signals.next() => {
                if load.stop() {
                    // Somebody is in a hurry: what may be left is told, since nothing else tidies it up.
                    let _ = folder.remove();
                    process::exit(Exit::Interrupted.code().into());
                }
            }
        }
    };
    if shown {
        // Back to the beginning of the line, and nothing on it.
        output.stderr.steer("\r\u{1b}[K");
        output.stderr.mid_line = false;
    }
    result
}

/// The folder to measure in: that of the workspace's journal, else the current one.
fn place(named: Option<&Path>) -> Result<Place, Error> {
    match locate::workspace(named) {
        Ok(root) => {
            let store = Workspace::load(&root).settings.map(|settings| settings.store);
            let beside = store.as_deref().and_then(Path::parent).map(Path::to_path_buf);
            Ok(Place { folder: beside.unwrap_or(root), name: "bench" })
        }
        Err(Error::NoWorkspace { here }) => Ok(Place { folder: here, name: ".dalsegno-bench" }),
        Err(error) => Err(error),
    }
}

/// Where the folder is made, and how its name begins.
struct Place {
    folder: PathBuf,
    name: &'static str,
}
