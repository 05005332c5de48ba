//! A place with an installed `dalsegno`, and what is done there.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::process::{line, output, read, said};

/// How often the start is measured; the median counts.
const STARTS: usize = 21;

/// A place with an installed `dalsegno`.
pub(super) struct Place<'p> {
    /// Returns a command that starts it there, without arguments.
    pub(super) command: Box<dyn Fn() -> Command + 'p>,
    /// A folder for a workspace, as the program sees it.
    pub(super) workspace: String,
    /// A command that starts a program that does nothing in the same way, if that way takes time by itself.
    pub(super) baseline: Option<Box<dyn Fn() -> Command + 'p>>,
}

impl Place<'_> {
    /// Creates a workspace, runs an agent, replays the run, and returns lines for the report.
    pub(super) fn journey(&self, version: &str) -> anyhow::Result<Vec<String>> {
        let first = self.says(&["--version"], &format!("dalsegno {version}"))?;
        let demo = format!("{}/demo", self.workspace);
        self.says(&["init", &demo], "made ")?;
        let ran = self
            .says(&["--workspace", &demo, "run", "notes", "the disk is full"], "Noted: the disk is full")?;
        let replayed = self.says(&["--workspace", &demo, "replay", "last"], "identical: ")?;
        // The exit code is the program's own, also behind a launcher.
        let refused = output((self.command)().arg("no-such-command"))?;
        ensure!(refused.status.code() == Some(2), "an unknown command ended with {}", refused.status);
        let start = median(|| (self.command)())?;
        let start = match &self.baseline {
            Some(baseline) => start.saturating_sub(median(baseline)?),
            None => start,
        };
        let ran = ran.lines().find(|line| line.contains("completed")).unwrap_or_default().to_owned();
        Ok(vec![first, ran, replayed, format!("starts in {:.1} ms", start.as_secs_f64() * 1000.0)])
    }

    /// Runs a command there and returns what it printed, which has to contain these words.
    fn says(&self, arguments: &[&str], words: &str) -> anyhow::Result<String> {
        let mut command = (self.command)();
        command.args(arguments);
        let output = output(&mut command)?;
        let said = said(&output);
        ensure!(
            output.status.success() && said.contains(words),
            "`{}` ended with {} and printed, instead of `{words}`:\n{said}",
            line(&command),
            output.status
        );
        Ok(said)
    }
}

/// Measures how long a command takes with `--version`.
fn median(command: impl Fn() -> Command) -> anyhow::Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let mut command = command();
        command.arg("--version");
        let start = Instant::now();
        read(&mut command)?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    times.get(STARTS / 2).copied().context("nothing was measured")
}

/// Returns a command with an environment that has nothing but a home folder and the folders of the base system.
pub(super) fn bare(program: impl AsRef<std::ffi::OsStr>, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(home).env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin");
    command
}
