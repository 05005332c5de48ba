//! Measures every line of the budget, and prints them as one table.
//!
//! `cargo xtask budget` builds what this needs and starts it; by itself it is of little use. A figure of a disk says
//! nothing without the floor that was measured beside it, in the same run: the line `F`.

mod conversation;
mod declared;
mod engine;
mod figures;
mod line;
mod peer;
mod process;
mod restart;
mod suspended;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use line::{Fault, Line, Standing};
use process::Role;

/// Where everything is.
#[derive(Default)]
struct Arguments {
    dalsegno: PathBuf,
    guest: PathBuf,
    script: PathBuf,
    criterion: PathBuf,
    /// What the crash tests printed.
    crash: PathBuf,
    suspended: u64,
    /// The packages of Python that have the long conversation, too; without them it is not compared.
    peer: Option<PathBuf>,
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments { suspended: 100_000, ..Arguments::default() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("`{word}` takes a value"))?;
        match word.as_str() {
            "--dalsegno" => found.dalsegno = value.into(),
            "--guest" => found.guest = value.into(),
            "--script" => found.script = value.into(),
            "--criterion" => found.criterion = value.into(),
            "--crash" => found.crash = value.into(),
            "--peer" => found.peer = Some(value.into()),
            "--suspended" => {
                let number = value.parse().ok().filter(|number| (1_000..=10_000_000).contains(number));
                found.suspended = number.ok_or("`--suspended` takes a number from 1000 to 10000000")?;
            }
            _ => return Err(format!("`{word}` is not known: start this with `cargo xtask budget`")),
        }
    }
    Ok(found)
}

/// Plays a role until its end, or until it is killed.
fn play(role: Role) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        match role {
            Role::Begin { folder, turn } => restart::begin(&folder, turn).await,
            Role::GoOn { folder, turn } => restart::go_on(&folder, turn).await,
            Role::Suspend { folder, runs } => suspended::suspend(&folder, runs).await,
            Role::Wake { folder } => suspended::wake(&folder).await,
            Role::Converse { folder, calls } => conversation::converse(&folder, calls).await,
            Role::Stand { folder, number, begin } => conversation::stand(&folder, number, begin).await,
        }
    })
}

fn measure(arguments: &Arguments) -> Vec<Line> {
    let mut all = Vec::new();
    let mut add = |what: &str, measured: &dyn Fn() -> Result<Vec<Line>, Fault>| {
        let _ = writeln!(std::io::stderr(), "measuring: {what} …");
        all.extend(line::lines(what, measured()));
    };
    let crash = || Ok::<_, Fault>(std::fs::read_to_string(&arguments.crash)?);
    add("core step", &|| figures::core(&arguments.criterion));
    add("durable turn, one run", &|| figures::one_run(&arguments.dalsegno));
    add("a declarative tool", &|| declared::call(&arguments.dalsegno));
    add("100 runs x 500 turns", &|| figures::many_runs(&arguments.dalsegno));
    add("process start to the first tool's answer", &|| {
        restart::first_call(&arguments.dalsegno, &arguments.guest)
    });
    add("`dalsegno --version`", &|| figures::version(&arguments.dalsegno, &arguments.script));
    add("restart after SIGKILL at turn 100", &|| restart::after(100));
    add("restart after SIGKILL at turn 10000", &|| restart::after(10_000));
    add("effects repeated unknowingly", &|| figures::repeated(&crash()?));
    add("a long conversation", &|| conversation::lines(&arguments.dalsegno, arguments.peer.as_deref()));
    add("suspended runs", &|| suspended::suspended(arguments.suspended));
    all
}

fn main() -> ExitCode {
    let mut out = std::io::stdout().lock();
    if let Some(role) = Role::of_this_process() {
        drop(out);
        return match play(role) {
            Ok(()) => ExitCode::SUCCESS,
            Err(fault) => {
                let _ = writeln!(std::io::stderr(), "{fault}: {fault:?}");
                ExitCode::FAILURE
            }
        };
    }
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(message) => {
            let _ = writeln!(out, "{message}");
            return ExitCode::from(2);
        }
    };
    if cfg!(debug_assertions) {
        let _ = writeln!(std::io::stderr(), "this is no release build: the figures say nothing");
    }
    let lines = measure(&arguments);
    let _ = write!(out, "{}", line::table(&lines));
    let count = |standing| lines.iter().filter(|line| line.standing == standing).count();
    let (kept, missed, unknown) = (count(Standing::Kept), count(Standing::Missed), count(Standing::Unknown));
    let _ = writeln!(out, "{kept} kept, {missed} missed, {unknown} not measured");
    if missed + unknown == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
