//! Other programs: how they are started, and what is said when they fail.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context as _, ensure};

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    // Cargo sets the variable for `cargo run`, and then it is right even after the checkout has moved.
    let here = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&here).ancestors().nth(2).expect("this package lies two folders below the root").to_owned()
}

/// Returns a command that starts in the root of the repository.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// Returns a command for the cargo that started this program.
///
/// What Cargo told this program about its own package is left out: some libraries are compiled anew when it changes, and with them
/// all that depends on them. So `cargo xtask test` and `cargo test` share their builds.
pub(crate) fn cargo() -> Command {
    let mut command = command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let told = |name: &str| name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_");
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(told)) {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end. It reads nothing, and writes where this program writes.
///
/// # Errors
/// It could not be started, or it failed.
pub(crate) fn perform(command: &mut Command) -> anyhow::Result<()> {
    let status = command.stdin(Stdio::null()).status().with_context(|| not_started(command))?;
    ensure!(status.success(), "`{}` ended with {status}", line(command));
    Ok(())
}

/// Runs a command of the compiler to its end, as [`perform`] does. A warning is a failure.
///
/// Cargo repeats the warnings of what it does not compile again, so that they fail each time.
///
/// # Errors
/// It could not be started, it failed, or it warned.
pub(crate) fn perform_unwarned(command: &mut Command) -> anyhow::Result<()> {
    let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.with_context(|| not_started(command))?;
    let mut warned = false;
    let complaint = child.stderr.take().context("a pipe that was asked for")?;
    for said in BufReader::new(complaint).lines() {
        let said = said.with_context(|| format!("cannot read what `{}` prints", line(command)))?;
        warned |= said.starts_with("warning");
        eprintln!("{said}");
    }
    let status = child.wait().with_context(|| format!("cannot wait for `{}`", line(command)))?;
    ensure!(status.success(), "`{}` ended with {status}", line(command));
    ensure!(!warned, "`{}` warns: mend what it says above", line(command));
    Ok(())
}

/// Runs a command to its end and returns what it printed.
///
/// # Errors
/// It could not be started, it failed, or it printed something that is not UTF-8.
pub(crate) fn read(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| not_started(command))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "`{}` ended with {}: {}",
        line(command),
        output.status,
        complaint.trim()
    );
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

/// Turns this process into the command, so that signals, terminal and exit code are the command's own.
///
/// # Errors
/// It could not be started.
#[cfg(unix)]
pub(crate) fn become_command(command: &mut Command) -> anyhow::Result<ExitCode> {
    use std::os::unix::process::CommandExt as _;
    Err(command.exec()).with_context(|| not_started(command))
}

/// Runs the command to its end and passes its exit code on.
///
/// # Errors
/// It could not be started.
#[cfg(not(unix))]
pub(crate) fn become_command(command: &mut Command) -> anyhow::Result<ExitCode> {
    let status = command.status().with_context(|| not_started(command))?;
    Ok(passed_on(status))
}

/// The exit code of a command as one's own; a failure if a signal ended it.
pub(crate) fn passed_on(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Says which command could not be started.
fn not_started(command: &Command) -> String {
    format!("cannot start `{}`", line(command))
}

/// Shows a command as one would type it.
fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_stem().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("crates/xtask/Cargo.toml").is_file());
    }

    #[test]
    fn a_failed_command_is_shown_as_one_would_type_it() {
        let mut command = cargo();
        command.args(["no-such-command", "--quiet"]).stderr(Stdio::null());
        let error = perform(&mut command).unwrap_err().to_string();
        assert!(error.starts_with("`cargo no-such-command --quiet` ended with exit"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = read(&mut command("no-such-program")).unwrap_err().to_string();
        assert_eq!(error, "cannot start `no-such-program`");
    }
}
