//! The `segno` command: a thin shell around [`segno_runtime::Engine`].
//!
//! Data goes to standard output, words to standard error. Nothing happens before the arguments are parsed.

mod args;
mod commands;
mod error;
mod exit;
mod input;
mod locate;
mod render;
mod signal;

use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory, FromArgMatches};

use crate::args::Args;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::output::Output;

fn main() -> ExitCode {
    let mut command = Args::command();
    if render::terminal::is_plain() {
        command = command.color(ColorChoice::Never);
    }
    let args = match Args::from_arg_matches(&command.get_matches()) {
        Ok(args) => args,
        Err(error) => error.exit(),
    };
    write_log_if_asked();
    let mut output = Output::open();
    let exit = run(&args, &mut output);
    output.finish(exit).into()
}

fn run(args: &Args, output: &mut Output) -> Exit {
    // Runs wait far more than they compute: two threads keep a slow guest from holding up the terminal.
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_time();
    if args.verb.performs() {
        // Listens for signals, through a socket pair. What only reads a journal opens no socket of any kind.
        builder.enable_io();
    }
    let runtime = match builder.build() {
        Ok(runtime) => runtime,
        Err(source) => {
            return render::failure::show(&Error::Runtime { source }, None, args.verb.format(), output);
        }
    };
    let exit = runtime.block_on(commands::dispatch(args, output));
    // A thread that still compiles a module must not hold up the end.
    runtime.shutdown_background();
    exit
}

/// Writes the log to standard error, filtered by `SEGNO_LOG` (such as `segno=debug`); no log without it.
fn write_log_if_asked() {
    if let Ok(filter) = tracing_subscriber::EnvFilter::try_from_env("SEGNO_LOG") {
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(render::terminal::stderr().colour)
            .with_writer(std::io::stderr)
            .init();
    }
}
