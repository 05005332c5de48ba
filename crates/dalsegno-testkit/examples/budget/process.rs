//! The processes that are measured: this program, started once more with a role.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use dalsegno_testkit::memory_of;
use serde::{Deserialize, Serialize};

use crate::line::Fault;

/// What is said where memory is not told.
const UNSAID: &str = "this machine does not say how much memory a process has";

/// The environment variable that holds a process's role.
const ROLE: &str = "DALSEGNO_BUDGET_ROLE";

/// What a process is to do in which workspace.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Start a run that adds, and stand still at this turn.
    Begin { folder: PathBuf, turn: u64 },
    /// Go on with it, and stand still at this turn.
    GoOn { folder: PathBuf, turn: u64 },
    /// Start so many runs that wait for an approval, and one that wakes.
    Suspend { folder: PathBuf, runs: u64 },
    /// Work, until the one run wakes.
    Wake { folder: PathBuf },
    /// Have a conversation with so many calls of a tool.
    Converse { folder: PathBuf, calls: u64 },
    /// Begin it or continue it, and stand still at this report.
    Stand { folder: PathBuf, number: u64, begin: bool },
}

impl Role {
    /// The role of this process, if it has one.
    pub(crate) fn of_this_process() -> Option<Self> {
        serde_json::from_str(&std::env::var(ROLE).ok()?).ok()
    }

    /// Starts a process with this role.
    pub(crate) fn spawn(&self) -> Result<Spoken, Fault> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(ROLE, serde_json::to_string(self)?);
        Spoken::of(command)
    }
}

/// A process that says how far it is.
pub(crate) struct Spoken {
    child: Child,
    words: BufReader<ChildStdout>,
    began: Instant,
}

impl Spoken {
    pub(crate) fn of(mut command: Command) -> Result<Self, Fault> {
        let began = Instant::now();
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
        let words = BufReader::new(child.stdout.take().ok_or("a process without standard output")?);
        Ok(Self { child, words, began })
    }

    /// Waits until it says a line that begins so; returns the rest of the line, and how long after its start that was.
    pub(crate) fn hear(&mut self, beginning: &str) -> Result<(String, Duration), Fault> {
        self.hear_that(|line| line.strip_prefix(beginning).map(str::to_owned))
            .map_err(|_| format!("a process ended before it said `{beginning}`").into())
    }

    /// The same for any line.
    pub(crate) fn hear_that(
        &mut self,
        is_it: impl Fn(&str) -> Option<String>,
    ) -> Result<(String, Duration), Fault> {
        loop {
            let mut line = String::new();
            if self.words.read_line(&mut line)? == 0 {
                return Err("a process ended before it said what it was to say".into());
            }
            if let Some(rest) = is_it(line.trim_end()) {
                return Ok((rest.trim().to_owned(), self.began.elapsed()));
            }
        }
    }

    /// The most memory it had at once.
    pub(crate) fn peak_memory(&self) -> Result<u64, Fault> {
        memory_of(&self.child.id().to_string(), "VmHWM").ok_or_else(|| UNSAID.into())
    }

    /// Kills it with the signal that nothing can catch.
    pub(crate) fn kill(mut self) -> Result<(), Fault> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Result<(), Fault> {
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("a process ended with {status}").into()) }
    }
}

/// Memory of this process at this moment.
pub(crate) fn resident() -> Result<u64, Fault> {
    memory_of("self", "VmRSS").ok_or_else(|| UNSAID.into())
}

/// The bytes of a journal with its log.
pub(crate) fn on_disk(folder: &Path) -> Result<u64, Fault> {
    let mut sum = 0;
    for name in ["dalsegno.db", "dalsegno.db-wal"] {
        sum += std::fs::metadata(folder.join(".dalsegno").join(name)).map_or(0, |file| file.len());
    }
    if sum == 0 { Err("there is no journal".into()) } else { Ok(sum) }
}

/// The one in the middle.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
