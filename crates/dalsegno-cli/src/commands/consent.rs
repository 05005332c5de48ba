//! Asks a person for a yes: only one who is there, and has seen what it is about.

use std::io::{self, BufRead, IsTerminal};

use crate::render::output::Output;
use crate::render::terminal;

/// Asks a question that only a yes answers with yes; `None` where no person is at a terminal to answer it.
pub(super) fn ask(question: &str, output: &mut Output) -> Option<bool> {
    pose(question, output)?;
    let agreed = read();
    output.stderr.mid_line = false;
    Some(agreed)
}

/// The same for a command that has more to wait for than the answer: a thread reads it.
pub(super) fn question(question: &str, output: &mut Output) -> Option<impl Future<Output = bool> + use<>> {
    pose(question, output)?;
    let answer = tokio::task::spawn_blocking(read);
    Some(async { answer.await.unwrap_or(false) })
}

fn pose(question: &str, output: &mut Output) -> Option<()> {
    if !(io::stdin().is_terminal() && output.stderr.terminal.live) || terminal::is_ci() {
        return None;
    }
    discard_typed_ahead();
    output.stderr.write(&format!("{question} [y/N] "));
    output.stderr.flush();
    Some(())
}

/// What was typed before the question is no answer to it.
#[cfg(unix)]
pub(super) fn discard_typed_ahead() {
    // A terminal that refuses keeps what was typed, as every program does.
    let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
}

#[cfg(not(unix))]
pub(super) fn discard_typed_ahead() {}

fn read() -> bool {
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
