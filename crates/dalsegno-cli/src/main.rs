//! The `dalsegno` command: a thin shell around [`dalsegno_runtime::Engine`].
//!
//! Data goes to standard output, words to standard error. Nothing happens before the arguments are parsed, and of the
//! machine only what a verb needs is started.

mod args;
mod commands;
mod complete;
mod error;
mod exit;
mod input;
mod locate;
mod render;
mod signal;

use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory, FromArgMatches};
use clap_complete::CompleteEnv;

use crate::args::Args;
use crate::render::output::Output;

fn main() -> ExitCode {
    // A shell that completes a line asks by this variable, and ends here.
    CompleteEnv::with_factory(Args::command).var(commands::COMPLETE).complete();
    let mut command = Args::command();
    if render::terminal::is_plain() {
        command = command.color(ColorChoice::Never);
    }
    let args = match Args::from_arg_matches(&command.get_matches()) {
        Ok(args) => args,
        Err(error) => error.exit(),
    };
    write_log_if_asked();
    let mut output = Output::open(args.color);
    let exit = commands::dispatch(&args, &mut output);
    output.finish(exit).into()
}

/// Writes the log to standard error, filtered by `DALSEGNO_LOG` (such as `dalsegno=debug`); no log without it.
fn write_log_if_asked() {
    if let Ok(filter) = tracing_subscriber::EnvFilter::try_from_env("DALSEGNO_LOG") {
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(render::terminal::stderr().colour)
            .with_writer(std::io::stderr)
            .init();
    }
}
