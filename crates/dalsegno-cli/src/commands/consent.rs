//! Asks a person for a yes: only one who is there, and has seen what it is about.

use std::io::{self, BufRead, IsTerminal};

use crate::render::output::Output;
use crate::render::terminal;

/// Asks a question that only a yes answers with yes; `None` where no person is at a terminal to answer it.
pub(super) fn ask(question: &str, output: &mut Output) -> Option<bool> {
    if !(io::stdin().is_terminal() && output.stderr.terminal.live) || terminal::is_ci() {
        return None;
    }
    output.stderr.write(&format!("{question} [y/N] "));
    output.stderr.flush();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    output.stderr.mid_line = false;
    Some(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}
