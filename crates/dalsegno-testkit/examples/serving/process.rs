//! Processes that listen and are measured.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use dalsegno_testkit::memory_of;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

/// The field of `/proc/PID/stat` behind the name, from which on it tells what a process has used of the processor: in programs
/// and in the system.
const PROCESSOR: usize = 11;

/// A process that listens. Dropped, it is killed.
pub(crate) struct Running {
    process: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
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
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(said)
            .spawn()
            .with_context(|| format!("`{name}` cannot be started"))?;
        let output = process.stdout.take().context("a process has no output")?;
        // From here on, a failure kills it.
        let mut running = Self { process, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let mut lines = BufReader::new(output).lines();
        let first = lines.next().with_context(|| {
            let said = fs::read_to_string(log).unwrap_or_default();
            format!("`{name}` ended before it listened: {}", said.trim().replace('\n', "; "))
        })??;
        let first: Value = serde_json::from_str(&first)?;
        let address = first["address"].as_str().with_context(|| format!("`{name}` names no address"))?;
        running.address = address.parse()?;
        // What it says further is read, so that it never waits for a reader.
        thread::spawn(move || lines.for_each(drop));
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
        memory_of(&self.process.id().to_string(), "VmRSS")
            .context("this machine does not say how much memory a process has")
    }

    /// What it has used of the processor so far.
    ///
    /// # Errors
    /// The system does not tell it.
    pub(crate) fn processor(&self) -> anyhow::Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id()))
            .context("this machine does not say what a process has used of the processor")?;
        // Behind the name, which may have spaces.
        let (_, behind) = stat.rsplit_once(')').context("`/proc/PID/stat` has no name")?;
        let fields = behind.split_whitespace().skip(PROCESSOR).take(2);
        let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
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
