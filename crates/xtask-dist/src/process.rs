//! Other programs: how they are started, and what is said when they fail.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs};

use anyhow::{Context as _, ensure};

/// Returns the root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    // Cargo sets the variable for `cargo run`, and then it is right even after the checkout has moved.
    let here = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&here).ancestors().nth(2).expect("this package lies two folders below the root").to_owned()
}

/// Returns a command for the cargo that started this program, in the root of the repository.
#[must_use]
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // What Cargo told this program about its own package would have libraries compiled anew.
    let told = |name: &str| name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_");
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(told)) {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end and returns what it printed to standard output.
///
/// # Errors
/// It could not be started, it failed, or it printed something that is not UTF-8.
pub fn read(command: &mut Command) -> anyhow::Result<String> {
    let output = output(command)?;
    ensure!(output.status.success(), "`{}` failed with {}:\n{}", line(command), output.status, said(&output));
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs a command to its end, whether it succeeds or not. It reads nothing.
///
/// # Errors
/// It could not be started.
pub fn output(command: &mut Command) -> anyhow::Result<Output> {
    command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{}`", line(command)))
}

/// Returns what a command printed, both streams, without blanks at the ends.
#[must_use]
pub fn said(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    both.concat().trim().to_owned()
}

/// Shows a command as one would type it.
#[must_use]
pub fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Finds a program in the folders of `PATH`.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Reads a file, and says which one cannot be read.
///
/// # Errors
/// It cannot be read.
pub fn file(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))
}
