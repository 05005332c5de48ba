//! Processes that are measured.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use dalsegno_testkit::memory_of;

/// What a process did until it ended.
pub(crate) struct Ended {
    /// What it printed.
    pub(crate) printed: String,
    /// What it used of the processor, where the system tells it.
    pub(crate) processor: Option<Duration>,
    /// The most memory that it had at once, in bytes, where the system tells it.
    pub(crate) memory: Option<u64>,
}

/// How often the memory is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Runs a process that reads this.
///
/// # Errors
/// It cannot be started, or failed.
pub(crate) fn run(mut command: Command, input: &str) -> anyhow::Result<Ended> {
    let name = command.get_program().to_string_lossy().into_owned();
    let before = processor();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{name}` cannot be started"))?;
    let mut output = child.stdout.take().context("a process has no output")?;
    let reads = thread::spawn(move || {
        let mut printed = String::new();
        output.read_to_string(&mut printed).map(|_| printed)
    });
    let sent = child.stdin.take().context("a process has no input")?.write_all(input.as_bytes());
    let mut most = None;
    let status = loop {
        // The most that it ever had: the last look tells it.
        most = memory_of(&child.id().to_string(), "VmHWM").or(most);
        match child.try_wait()? {
            Some(status) => break status,
            None => thread::sleep(LOOK),
        }
    };
    let printed = reads.join().map_err(|_| anyhow::anyhow!("the output cannot be read"))??;
    ensure!(status.success(), "`{name}` failed: {status}\n{printed}");
    sent.with_context(|| format!("`{name}` did not read its input"))?;
    let used = before.zip(processor()).map(|(before, after)| after.saturating_sub(before));
    Ok(Ended { printed, processor: used, memory: most })
}

/// What all processes that were waited for have used of the processor.
fn processor() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may have spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 =
        fields.split_whitespace().skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}
