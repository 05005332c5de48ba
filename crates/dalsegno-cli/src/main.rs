//! The `dalsegno` command: a thin shell around [`dalsegno_runtime::Engine`].
//!
//! Data goes to standard output, messages to standard error. Nothing happens before the arguments are parsed, and a verb
//! starts only the resources that it needs.

mod args;
mod commands;
mod complete;
mod error;
mod exit;
mod input;
mod locate;
mod render;
mod signal;
mod trust;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory, FromArgMatches};
use clap_complete::CompleteEnv;
use tracing_subscriber::EnvFilter;

use crate::args::Args;
use crate::render::output::Output;
use crate::render::screen::{Screened, is_plain, screened};

fn main() -> ExitCode {
    // A shell that completes a line asks by this variable, and ends here.
    CompleteEnv::with_factory(Args::command).var(commands::COMPLETE).complete();
    let mut command = Args::command();
    if render::terminal::is_plain() {
        command = command.color(ColorChoice::Never);
    }
    let parsed = command.try_get_matches().and_then(|matches| Args::from_arg_matches(&matches));
    let args = match parsed {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
    write_log();
    let mut output = Output::open(args.color);
    let exit = commands::dispatch(&args, &mut output);
    output.finish(exit).into()
}

/// Writes the error of the arguments, or the help that they request. An argument may be another party's text, so
/// characters that would steer a terminal are escaped.
fn refuse(error: &clap::Error) -> ExitCode {
    let plain = |argument: OsString| argument.to_string_lossy().chars().all(is_plain);
    if std::env::args_os().all(plain) {
        error.exit()
    }
    let mut stderr = Screened(std::io::stderr());
    // Standard error may be closed: the exit code still reports the error.
    let _ = write!(stderr, "{}", screened(&error.render().to_string()));
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// The log filter without `DALSEGNO_LOG`: changes to modules that this user compiled, and a server that cannot take clients.
const ALWAYS: &str = "off,dalsegno_sandbox::cache=warn,dalsegno_server::accept=warn";

/// Writes the log to standard error, filtered by `DALSEGNO_LOG` (such as `dalsegno=debug`).
fn write_log() {
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Screened(std::io::stderr()));
    match EnvFilter::try_from_env("DALSEGNO_LOG") {
        Ok(filter) => log.with_env_filter(filter).init(),
        Err(_) => log.with_env_filter(EnvFilter::new(ALWAYS)).without_time().with_target(false).init(),
    }
}
