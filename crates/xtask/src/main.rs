//! The project's own chores, as `cargo xtask`.
//!
//! Two commands do everything on a machine that has only rustup's Rust: `cargo xtask run triage "…"` builds what the
//! demo needs and starts it, and `cargo xtask test` is the check that a commit has to pass.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

mod arguments;
mod build;
mod conformance;
mod dist;
mod doors;
mod http;
mod measure;
mod process;
mod programs;
mod stage;
mod toolchain;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use crate::arguments::{USAGE, Verb};
use crate::process::{cargo, perform};
use crate::stage::Stage;

fn main() -> ExitCode {
    match dispatch(env::args_os().skip(1).collect()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Does what the arguments ask for.
fn dispatch(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    match Verb::parse(arguments)? {
        Verb::Dalsegno(arguments) => {
            build::guests()?;
            let binary = build::dalsegno()?;
            return process::become_command(process::command(binary).args(arguments));
        }
        Verb::Test(stages) => stage::run_all(&stages)?,
        Verb::Lint => stage::run_all(&[Stage::Fmt, Stage::Clippy])?,
        Verb::Doors => stage::run_all(&[Stage::Doors])?,
        Verb::Guests => build::guests()?,
        Verb::Report => doors::report()?,
        Verb::Fmt => {
            perform(cargo().args(["fmt", "--all"]))?;
            perform(cargo().args(["fmt", "--all"]).args(build::GUESTS))?;
        }
        Verb::Bench(arguments) => {
            perform(cargo().args(["bench", "--locked", "--workspace", "--bench", "step"]).args(arguments))?;
            // The durable turn, beside the floor of this disk: what a user can measure as well.
            for load in [["--turns", "10000", "--runs", "1"], ["--turns", "500", "--runs", "100"]] {
                let bench = ["run", "--release", "--locked", "--quiet", "--bin", "dalsegno", "--", "bench"];
                perform(cargo().args(bench).args(load))?;
            }
        }
        Verb::Api { update } => {
            let test = ["test", "--locked", "--workspace", "--test", "api", "--", "--include-ignored"];
            let mut command = cargo();
            command.args(test);
            if update {
                command.env("UPDATE", "1");
            }
            perform(&mut command)?;
        }
        Verb::Screenshots(folder) => {
            let folder = std::path::absolute(folder)?;
            std::fs::create_dir_all(&folder)?;
            let test = ["test", "--locked", "--workspace", "--test", "browser", "--bin", "dalsegno", "--"];
            let only = ["--ignored", "--exact", "pictures::of_all_pages"];
            perform(cargo().args(test).args(only).env("DALSEGNO_SCREENSHOTS", &folder))?;
            println!("the pictures are in {}", folder.display());
        }
        Verb::Dist(arguments) => return dist::run(arguments),
        Verb::Conformance => conformance::run()?,
        Verb::Http(arguments) => http::run(&arguments)?,
        Verb::Crash(instants, seed) => measure::crash(instants, seed)?,
        Verb::Crashbench(arguments) => measure::crashbench(&arguments)?,
        Verb::Wires(arguments) => measure::wires(&arguments)?,
        Verb::Realtime => measure::realtime()?,
        Verb::Sip => measure::sip()?,
        Verb::Serving(arguments) => measure::serving(&arguments)?,
        Verb::SmallModel(arguments) => measure::small_model(&arguments)?,
        Verb::Soak(arguments) => measure::soak(&arguments)?,
        Verb::Budget(suspended) => measure::budget(suspended)?,
        Verb::Simulation(example, arguments) => {
            let run = ["run", "--locked", "--quiet", "--example", example, "--"];
            perform(cargo().args(run).args(arguments))?;
        }
        Verb::Note(arguments) => return programs::note(arguments),
        Verb::Help => print!("{USAGE}"),
    }
    Ok(ExitCode::SUCCESS)
}
