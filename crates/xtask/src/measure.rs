//! What takes minutes: kills, soaks, and the table of budgets.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::build;
use crate::conformance::packages;
use crate::process::{cargo, perform, read, root};

/// The crash tests, as `cargo test` runs them, with everything that they say. Of the whole workspace, as everywhere: for a
/// part of it other features are chosen, and all that it needs is built once more.
fn crash_tests(instants: Option<u64>, seed: Option<u64>) -> Command {
    let mut command = cargo();
    command.args(["test", "--locked", "--workspace", "--test", "crash", "--", "--nocapture"]);
    for (name, number) in [("DALSEGNO_CRASH_INSTANTS", instants), ("DALSEGNO_CRASH_SEED", seed)] {
        if let Some(number) = number {
            command.env(name, number.to_string());
        }
    }
    command
}

/// Kills processes of real runs.
///
/// # Errors
/// Something was lost or repeated, or the tests could not be built.
pub(crate) fn crash(instants: Option<u64>, seed: Option<u64>) -> anyhow::Result<()> {
    perform(&mut crash_tests(instants, seed))
}

/// Soaks. In the profile of the tests: what is checked there is that nothing breaks or grows, for which the checks of that
/// profile help and speed does not.
///
/// # Errors
/// A promise did not hold, memory grew, or the program could not be built.
pub(crate) fn soak(arguments: &[OsString]) -> anyhow::Result<()> {
    let run = ["run", "--locked", "--quiet", "--example", "soak", "--"];
    // The C library keeps memory apart for each thread, and the threads of a soak come and go with its processes: with
    // one arena for all of them, what is measured is what is in use. Other systems ignore it.
    perform(cargo().args(run).args(arguments).env("MALLOC_ARENA_MAX", "1"))
}

/// Runs the tasks of a public benchmark while processes are killed. In the release profile: thousands of processes start.
///
/// # Errors
/// An end state was not the benchmark's own, something was repeated, or something could not be installed or built.
pub(crate) fn crashbench(arguments: &[OsString]) -> anyhow::Result<()> {
    let python = packages::benchmark(&root().join("target/crashbench"))?;
    let run = ["run", "--release", "--locked", "--quiet", "--example", "crashbench", "--", "--python"];
    perform(cargo().args(run).arg(python).args(arguments))
}

/// Runs the command over every wire, at aimock and at a server of ours, while processes are killed and runs are forked.
///
/// # Errors
/// A cell of the table is wrong, or something could not be installed or built.
pub(crate) fn wires(arguments: &[OsString]) -> anyhow::Result<()> {
    let folder = root().join("target/wires");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let node = packages::node(&folder)?;
    let aimock = packages::aimock(&folder, &node)?;
    let python = packages::model_sdks(&folder)?;
    eprintln!("building …");
    // Together, so that what they share is built once.
    perform(cargo().args(["build", "--locked", "--quiet", "--workspace"]).args([
        "--bin",
        "dalsegno",
        "--example",
        "wires",
    ]))?;
    let debug = target()?.join("debug");
    let mut table = Command::new(debug.join("examples").join(program("wires")));
    table.current_dir(root()).arg("--dalsegno").arg(debug.join(program("dalsegno")));
    table.arg("--node").arg(&node.program).arg("--aimock").arg(aimock);
    table.arg("--python").arg(python).args(arguments);
    perform(&mut table)
}

/// Checks the frames of calls against the types of the official SDK, and holds calls with what others wrote and at aimock.
///
/// # Errors
/// A frame does not fit, a call could not be held, or something could not be installed or built.
pub(crate) fn realtime() -> anyhow::Result<()> {
    let (wires, voices) = (root().join("target/wires"), root().join("target/voices"));
    fs::create_dir_all(&wires).with_context(|| format!("cannot make `{}`", wires.display()))?;
    let node = packages::node(&wires)?;
    let aimock = packages::aimock(&wires, &node)?;
    packages::voices(&voices, &node)?;
    eprintln!("building …");
    let parts = ["--workspace", "--bin", "dalsegno", "--example", "realtime"];
    perform(cargo().args(["build", "--release", "--locked", "--quiet"]).args(parts))?;
    let release = target()?.join("release");
    let mut calls = Command::new(release.join("examples").join(program("realtime")));
    calls.current_dir(root()).arg("--dalsegno").arg(release.join(program("dalsegno")));
    calls.arg("--node").arg(&node.program).arg("--aimock").arg(aimock).arg("--voices").arg(voices);
    perform(&mut calls)
}

/// Has `sipp` call the command by telephone.
///
/// # Errors
/// A call is not as it must be, `sipp` is not installed, or something could not be built.
pub(crate) fn sip() -> anyhow::Result<()> {
    let sipp = Command::new("sipp").arg("-v").stdout(Stdio::null()).status();
    sipp.context("`sipp` cannot be started: install it with `apt-get install sip-tester`")?;
    eprintln!("building …");
    let parts = ["--workspace", "--bin", "dalsegno", "--example", "sip"];
    perform(cargo().args(["build", "--locked", "--quiet"]).args(parts))?;
    let debug = target()?.join("debug");
    let mut calls = Command::new(debug.join("examples").join(program("sip")));
    perform(calls.current_dir(root()).arg("--dalsegno").arg(debug.join(program("dalsegno"))))
}

/// Measures `dalsegno serve`, and servers of others with `--peers`. In the release profile: what is measured is speed and memory.
///
/// # Errors
/// A budget is missed or could not be measured, or something could not be installed or built.
pub(crate) fn serving(arguments: &[OsString]) -> anyhow::Result<()> {
    let with_peers = arguments.iter().any(|argument| argument == "--peers");
    let peers = with_peers.then(|| packages::servers(&root().join("target/servers"))).transpose()?;
    eprintln!("building …");
    let parts = ["--workspace", "--bin", "dalsegno", "--example", "serving"];
    perform(cargo().args(["build", "--release", "--locked", "--quiet"]).args(parts))?;
    let release = target()?.join("release");
    let mut table = Command::new(release.join("examples").join(program("serving")));
    table.current_dir(root()).arg("--dalsegno").arg(release.join(program("dalsegno")));
    if let Some(peers) = peers {
        table.arg("--peers").arg(peers);
    }
    perform(table.args(arguments.iter().filter(|argument| *argument != "--peers")))
}

/// Evaluates agents with a small model that runs on this machine.
///
/// # Errors
/// Equal agents were told apart or different ones were not, or something could not be installed or built.
pub(crate) fn small_model(arguments: &[OsString]) -> anyhow::Result<()> {
    let python = packages::small_model(&root().join("target/small-model"))?;
    eprintln!("building …");
    let parts = ["--workspace", "--bin", "dalsegno", "--example", "small_model"];
    perform(cargo().args(["build", "--locked", "--quiet"]).args(parts))?;
    let debug = target()?.join("debug");
    let mut comparisons = Command::new(debug.join("examples").join(program("small_model")));
    comparisons.arg("--dalsegno").arg(debug.join(program("dalsegno")));
    perform(comparisons.arg("--python").arg(python).args(arguments))
}

/// Measures every budget.
///
/// # Errors
/// A budget is missed or could not be measured, or something could not be built.
pub(crate) fn budget(suspended: Option<u64>) -> anyhow::Result<()> {
    build::guests()?;
    eprintln!("building …");
    // Together, so that what they share is built once.
    let parts = ["--workspace", "--bin", "dalsegno", "--example", "budget"];
    perform(cargo().args(["build", "--release", "--locked"]).args(parts))?;
    let target = target()?;
    let root = root();

    eprintln!("killing …");
    let killed = target.join("budget-crash.txt");
    // What went wrong is a line of the table as well.
    let said = read(&mut crash_tests(None, None)).unwrap_or_else(|error| {
        eprintln!("{error:#}");
        String::new()
    });
    fs::write(&killed, said).with_context(|| format!("cannot write `{}`", killed.display()))?;

    eprintln!("measuring the core …");
    perform(cargo().args(["bench", "--locked", "--workspace", "--bench", "step"]))?;

    let release = target.join("release");
    let mut table = Command::new(release.join("examples").join(program("budget")));
    table.current_dir(&root).arg("--dalsegno").arg(release.join(program("dalsegno")));
    table.arg("--guest").arg(root.join("tool-servers/target/wasm32-wasip2/release/risk.wasm"));
    table.arg("--script").arg(root.join("crates/dalsegno-cli/benches/start.sh"));
    table.arg("--criterion").arg(target.join("criterion")).arg("--crash").arg(killed);
    match packages::peer(&root.join("target/peer")) {
        Ok(peer) => {
            table.arg("--peer").arg(peer);
        }
        Err(error) => eprintln!("{error:#}; the long conversation is not compared"),
    }
    if let Some(suspended) = suspended {
        table.arg("--suspended").arg(suspended.to_string());
    }
    perform(&mut table)
}

/// The folder of everything that is built: this program lies in a folder of it.
fn target() -> anyhow::Result<PathBuf> {
    let here = env::current_exe().context("this program does not know where it lies")?;
    let target = here.ancestors().nth(2).context("this program lies in no target folder")?;
    Ok(target.to_owned())
}

/// The file name of a program.
fn program(name: &str) -> String {
    format!("{name}{}", env::consts::EXE_SUFFIX)
}
