//! Processes that are measured.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use dalsegno_testkit::{memory_of, processor_of, processor_of_ended};

/// What a process did until it ended.
pub(crate) struct Ended {
    /// What it printed.
    pub(crate) printed: String,
    /// What it used of the processor, where the system tells it.
    pub(crate) processor: Option<Duration>,
    /// The most memory that it had at once, in bytes, where the system tells it.
    pub(crate) memory: Option<u64>,
}

/// A process that runs. Dropped, it ends.
pub(crate) struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
}

/// How often the memory is looked at.
const LOOK: Duration = Duration::from_millis(20);

impl Running {
    /// Starts a process.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start(mut command: Command) -> anyhow::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("`{name}` cannot be started"))?;
        let output = child.stdout.take().context("a process has no output")?;
        let (sender, lines) = mpsc::channel();
        // The pipe must not fill up.
        thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        Ok(Self { child, lines })
    }

    /// The next line that it prints.
    ///
    /// # Errors
    /// It prints nothing more.
    pub(crate) fn line(&self) -> anyhow::Result<String> {
        self.lines.recv().context("a process ended before it printed what was waited for")
    }

    /// Says whether it has ended.
    ///
    /// # Errors
    /// The system does not tell it.
    pub(crate) fn has_ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// What it and the processes that it has waited for have used of the processor so far, where the system tells it.
    pub(crate) fn processor(&self) -> Option<Duration> {
        let process = self.child.id().to_string();
        Some(processor_of(&process)? + processor_of_ended(&process)?)
    }

    /// The most memory that it ever had, in bytes, where the system tells it.
    pub(crate) fn memory(&self) -> Option<u64> {
        memory_of(&self.child.id().to_string(), "VmHWM")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended by itself where this fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a process that reads this.
///
/// # Errors
/// It cannot be started, or failed.
pub(crate) fn run(command: Command, input: &str) -> anyhow::Result<Ended> {
    let name = command.get_program().to_string_lossy().into_owned();
    let before = processor_of_ended("self");
    let mut running = Running::start(command)?;
    let sent = running.child.stdin.take().context("a process has no input")?.write_all(input.as_bytes());
    let mut most = None;
    let status = loop {
        // The most that it ever had: the last look tells it.
        most = running.memory().or(most);
        match running.child.try_wait()? {
            Some(status) => break status,
            None => thread::sleep(LOOK),
        }
    };
    let printed: String = running.lines.iter().map(|line| line + "\n").collect();
    ensure!(status.success(), "`{name}` failed: {status}\n{printed}");
    sent.with_context(|| format!("`{name}` did not read its input"))?;
    let used = before.zip(processor_of_ended("self")).map(|(before, after)| after.saturating_sub(before));
    Ok(Ended { printed, processor: used, memory: most })
}
