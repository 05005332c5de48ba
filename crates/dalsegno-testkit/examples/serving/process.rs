//! Processes that listen and are measured.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use dalsegno_testkit::{memory_of, processor_of};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

/// Where the system tells nothing.
pub(crate) const UNSAID: &str = "this machine does not say what a process uses: Linux does";

/// A process that listens. Dropped, it is killed.
pub(crate) struct Running {
    process: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// All that it printed about that.
    pub(crate) told: Value,
}

impl Running {
    /// Starts a process and waits until it prints, as JSON, the `address` at which it listens. What it says to people goes to the
    /// log.
    ///
    /// # Errors
    /// It cannot be started, or ends before it listens.
    pub(crate) fn start(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let said = File::options().append(true).create(true).open(log)?;
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(said)
            .spawn()
            .with_context(|| format!("`{name}` cannot be started"))?;
        // From here on, a failure kills it.
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut running = Self { process, address, told: Value::Null };
        (running.address, running.told) = listening(&mut running.process, &name, log)?;
        Ok(running)
    }

    /// Kills it with the signal that nothing can catch.
    ///
    /// # Errors
    /// It cannot be killed.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// The memory that it has at this moment, in bytes.
    ///
    /// # Errors
    /// The system does not tell it.
    pub(crate) fn memory(&self) -> anyhow::Result<u64> {
        memory_of(&self.process.id().to_string(), "VmRSS").context(UNSAID)
    }

    /// What it has used of the processor so far.
    ///
    /// # Errors
    /// The system does not tell it.
    pub(crate) fn processor(&self) -> anyhow::Result<Duration> {
        processor_of(&self.process.id().to_string()).context(UNSAID)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until a process prints, as JSON, the `address` at which it listens; with it, all that it printed there.
///
/// # Errors
/// It ends before that, or prints something else.
pub(crate) fn listening(process: &mut Child, name: &str, log: &Path) -> anyhow::Result<(SocketAddr, Value)> {
    let output = process.stdout.take().context("a process has no output")?;
    let mut lines = BufReader::new(output).lines();
    let first = lines.next().with_context(|| {
        let said = fs::read_to_string(log).unwrap_or_default();
        format!("`{name}` ended before it listened: {}", said.trim().replace('\n', "; "))
    })??;
    let first: Value = serde_json::from_str(&first)?;
    let address = first["address"].as_str().with_context(|| format!("`{name}` names no address"))?;
    let address: SocketAddr = address.parse()?;
    // What it says further is read, so that it never waits for a reader.
    thread::spawn(move || lines.for_each(drop));
    Ok((address, first))
}

/// Lets this process and those that it starts open as many files as the system allows.
pub(crate) fn raise_files() {
    let limits = getrlimit(Resource::Nofile);
    // Where it cannot be raised, the rows that need more say so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits });
}

/// How many files this process may have open.
pub(crate) fn files() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}
