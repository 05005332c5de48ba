//! The one door of what starts programs: the person who runs the command has agreed to them.

use std::io::{self, BufRead, IsTerminal};

use dalsegno_workspace::Settings;

use super::Context;
use crate::error::Error;
use crate::render::terminal;
use crate::trust;

/// Lets a workspace pass that starts no programs, or only those that were agreed to: before, by `--trust`, or now, on a
/// terminal. An answer there is remembered.
pub(super) fn admit(settings: &Settings, context: &mut Context<'_>) -> Result<(), Error> {
    if is_admitted(settings, context) {
        return Ok(());
    }
    let programs = trust::programs(settings);
    let refused = || Error::Programs { root: context.root.clone(), programs: programs.clone() };
    if terminal::is_ci() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(refused());
    }
    context.output.note("this workspace starts programs on this machine, with all rights that you have:");
    for program in &programs {
        context.output.note(format_args!("  {}", program));
    }
    context.output.stderr.write("start them, now and later, [y]es or [n]o: ");
    context.output.stderr.flush();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    if read.is_err() || !["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()) {
        return Err(refused());
    }
    trust::agree(&context.root, settings)
}

/// Says whether a workspace starts no programs, or only those that were agreed to.
pub(super) fn is_admitted(settings: &Settings, context: &Context<'_>) -> bool {
    context.trust || trust::may_start(&context.root, settings)
}
