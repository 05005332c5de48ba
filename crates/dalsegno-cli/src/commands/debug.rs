//! `dalsegno debug`: a run on a full screen, stepped both ways.

mod debugger;
mod edit;
mod pages;
mod screen;
mod search;

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dalsegno_debugger::{Key, Tone, Wish};

use self::debugger::Debugger;
use self::screen::Screen;
use super::journal::Kept;
use super::{Context, select};
use crate::args::DebugArgs;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::failure::with_short_ids;
use crate::render::text::short;
use crate::signal::Signals;

/// The longest wait for a key: how late a signal is noticed.
const LOOK: Duration = Duration::from_millis(200);

/// How long other work is done before a key is looked for.
const SLICE: Duration = Duration::from_millis(40);

pub(super) async fn debug(args: &DebugArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Error::NoTerminal);
    }
    let Kept { journal, .. } = context.reader().await?;
    let run = select::run(&journal, &args.run).await?;
    let colour = context.output.stdout.terminal.colour;
    let mut debugger = Debugger::open(journal, run, args.step, colour).await?;
    let is_told = told().map_err(|source| Error::Signals { source })?;
    let mut screen = Screen::enter().map_err(|source| Error::Screen { source })?;
    let ended = drive(&mut debugger, &mut screen, &is_told, context).await;
    drop(screen);
    if let Some(forked) = debugger.forked() {
        let run = short(forked);
        context.output.note(format_args!("forked as run {run}: perform it with `dalsegno resume {run}`"));
    }
    ended
}

/// Becomes true when another program asks for the end. A key is no signal while the screen is drawn.
fn told() -> io::Result<Arc<AtomicBool>> {
    let is_told = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::listen()?;
    let flag = Arc::clone(&is_told);
    tokio::spawn(async move {
        signals.next().await;
        flag.store(true, Ordering::Relaxed);
    });
    Ok(is_told)
}

async fn drive(
    debugger: &mut Debugger,
    screen: &mut Screen,
    is_told: &AtomicBool,
    context: &mut Context<'_>,
) -> Result<Exit, Error> {
    let failed = |source| Error::Screen { source };
    loop {
        debugger.turn_page().await;
        screen.draw(debugger.model_mut()).map_err(failed)?;
        let wait = if debugger.has_work() { Duration::ZERO } else { LOOK };
        match tokio::task::block_in_place(|| screen.next(wait)).map_err(failed)? {
            Some(key) => {
                if !screen.is_large_enough() && matches!(key, Key::Char('q')) {
                    return Ok(Exit::Done);
                }
                if let Some(exit) = grant(debugger.press(key), debugger, screen, context).await? {
                    return Ok(exit);
                }
            }
            None => {
                let begun = Instant::now();
                while debugger.has_work() && begun.elapsed() < SLICE {
                    debugger.work().await;
                }
                debugger.tell_work();
            }
        }
        if is_told.load(Ordering::Relaxed) {
            return Ok(Exit::Interrupted);
        }
    }
}

/// Grants a wish; an exit where it ends the command.
async fn grant(
    wish: Option<Wish>,
    debugger: &mut Debugger,
    screen: &mut Screen,
    context: &mut Context<'_>,
) -> Result<Option<Exit>, Error> {
    let failed = |source| Error::Screen { source };
    let granted = match wish {
        None => return Ok(None),
        Some(Wish::Quit) => return Ok(Some(Exit::Done)),
        Some(Wish::Suspend) => {
            screen.suspend().map_err(failed)?;
            return Ok(None);
        }
        Some(Wish::Search(text)) => {
            debugger.search(&text);
            Ok(())
        }
        Some(Wish::StopSearch) => {
            debugger.stop_search();
            Ok(())
        }
        Some(Wish::Refresh) => debugger.refresh().await,
        Some(Wish::Back) => debugger.back().await,
        Some(Wish::Cause(row)) => debugger.cause(row).await,
        Some(Wish::Compare(other)) => debugger.compare(&other).await,
        Some(Wish::Fork(row)) => edit::fork(row, debugger, screen, context).await,
    };
    if let Err(error) = granted {
        // It is said at the bottom, and the screen stays.
        let mut told = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(why) = cause {
            told.push_str(&format!(": {why}"));
            cause = why.source();
        }
        if let Some(help) = error.class().help {
            told.push_str(&format!("; {help}"));
        }
        debugger.say(Tone::Bad, &with_short_ids(&told));
    }
    Ok(None)
}
