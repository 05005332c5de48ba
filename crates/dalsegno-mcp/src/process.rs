//! A child process: started with nothing but what is listed, and ended with everything that it started.

use std::collections::VecDeque;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dalsegno_protocol::{CallErrorKind, Failure, printable};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

use crate::config::{Command, values};
use crate::wire::Wire;

/// A running child process. Dropped, it is ended with its whole group.
pub(crate) struct Process {
    group: Option<u32>,
    stderr: Arc<Mutex<Ring>>,
    /// Waits for the end of the process, and tells.
    waiting: JoinHandle<()>,
    wire: Arc<Wire>,
    /// Set when the process has ended; from then on its group may be anybody's.
    ended: Arc<AtomicBool>,
}

/// The child's ends of its pipes.
pub(crate) struct Pipes {
    pub(crate) input: ChildStdin,
    pub(crate) output: ChildStdout,
}

impl Process {
    /// Starts a process in a group of its own.
    pub(crate) async fn start(
        command: &Command,
        stderr_max: usize,
        wire: &Arc<Wire>,
    ) -> Result<(Self, Pipes), Failure> {
        let failed = |message: String| Failure::new(CallErrorKind::Start, message);
        let environment = values(&command.environment).await.map_err(failed)?;
        let shown = command.program.display();
        let program = find(&command.program)
            .ok_or_else(|| failed(format!("there is no program `{shown}`: install it, or write its path")))?;
        let mut builder = tokio::process::Command::new(program);
        builder
            .args(&command.arguments)
            .env_clear()
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(directory) = &command.directory {
            builder.current_dir(directory);
        }
        #[cfg(unix)]
        builder.process_group(0);
        let mut child =
            builder.spawn().map_err(|error| failed(format!("cannot start `{shown}`: {error}")))?;
        let group = child.id();
        let guard = group.and_then(guard);
        let (Some(input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(failed(format!("`{shown}` has no pipes")));
        };
        let stderr = Arc::new(Mutex::new(Ring::new(stderr_max)));
        let reading = tokio::spawn(read_errors(errors, Arc::clone(&stderr)));
        let ended = Arc::new(AtomicBool::new(false));
        let waiting = tokio::spawn(wait(child, guard, reading, Arc::clone(wire), Arc::clone(&ended)));
        let process = Self { group, stderr, waiting, wire: Arc::clone(wire), ended };
        Ok((process, Pipes { input, output }))
    }

    /// The end of what it wrote to standard error.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).tail()
    }

    /// Waits for a moment, in which a process whose input has ended may come to its own end.
    pub(crate) async fn grace(&self) {
        if tokio::time::timeout(CLOSE_GRACE, self.wire.failed()).await.is_err() {
            tracing::debug!("a process did not end with its input, and is ended");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(group) = self.group.filter(|_| !self.ended.load(Ordering::Acquire)) {
            kill_group(group);
        }
        self.wire.fail(Failure::new(CallErrorKind::Closed, "the engine stopped the process"));
        self.waiting.abort();
    }
}

/// Waits for the end, ends what the process left behind, and lets its last words be read before it tells.
async fn wait(
    mut child: Child,
    guard: Option<Child>,
    reading: JoinHandle<()>,
    wire: Arc<Wire>,
    ended: Arc<AtomicBool>,
) {
    let group = child.id();
    let how = child.wait().await.map_or_else(|error| error.to_string(), |status| words(&status));
    ended.store(true, Ordering::Release);
    if let Some(group) = group {
        kill_group(group);
    }
    drop(guard);
    // What it left behind may hold the pipe open.
    let _ = tokio::time::timeout(LAST_WORDS, reading).await;
    wire.fail(Failure::new(CallErrorKind::Exited, format!("the server exited ({how}) before it answered")));
}

fn words(status: &ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("code {code}"))
}

async fn read_errors(mut errors: tokio::process::ChildStderr, ring: Arc<Mutex<Ring>>) {
    let mut chunk = vec![0; 8 * 1024];
    while let Ok(count @ 1..) = errors.read(&mut chunk).await {
        ring.lock().unwrap_or_else(PoisonError::into_inner).push(&chunk[..count]);
    }
}

/// The last bytes of a stream.
struct Ring {
    bytes: VecDeque<u8>,
    max: usize,
}

impl Ring {
    fn new(max: usize) -> Self {
        Self { bytes: VecDeque::new(), max }
    }

    fn push(&mut self, chunk: &[u8]) {
        let chunk = &chunk[chunk.len().saturating_sub(self.max)..];
        let over = (self.bytes.len() + chunk.len()).saturating_sub(self.max);
        self.bytes.drain(..over);
        self.bytes.extend(chunk);
    }

    fn tail(&self) -> String {
        let skipped = self.bytes.len().saturating_sub(TAIL_BYTES);
        let bytes: Vec<u8> = self.bytes.iter().skip(skipped).copied().collect();
        printable(String::from_utf8_lossy(&bytes).trim())
    }
}

/// Looks a program up as a shell would. The child's own `PATH` may be another one, or none.
fn find(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.exists().then(|| program.to_owned());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}

/// A process that ends a group as soon as its standard input ends, which it does with this process.
///
/// A child that reads its input to the end needs none of this; one that hangs would be left behind by a crash.
#[cfg(unix)]
fn guard(group: u32) -> Option<Child> {
    let spawned = tokio::process::Command::new("/bin/sh")
        .args(["-c", "read -r _; kill -s KILL -- \"-$1\"", "dalsegno-guard", &group.to_string()])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    match spawned {
        Ok(guard) => Some(guard),
        Err(error) => {
            tracing::warn!(%error, "no shell: a server that hangs would outlive a crash");
            None
        }
    }
}

#[cfg(not(unix))]
fn guard(_group: u32) -> Option<Child> {
    None
}

#[cfg(unix)]
fn kill_group(group: u32) {
    let Some(group) = i32::try_from(group).ok().and_then(rustix::process::Pid::from_raw) else { return };
    // It may be gone already.
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
}

#[cfg(not(unix))]
fn kill_group(_group: u32) {}

/// How long a process may take to come to its end when its input has ended.
const CLOSE_GRACE: Duration = Duration::from_millis(500);

/// How long the end of standard error is waited for.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// How much of it an error shows.
const TAIL_BYTES: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    use super::Ring;

    #[test]
    fn only_the_last_bytes_are_kept() {
        let mut ring = Ring::new(8);
        for chunk in [b"abcdef".as_slice(), b"ghij", b"0123456789abcdef"] {
            ring.push(chunk);
            assert!(ring.bytes.len() <= 8);
        }
        assert_eq!(ring.tail(), "89abcdef");
    }

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        let mut ring = Ring::new(64);
        ring.push(b"red \x1b[31m alert\n");
        assert_eq!(ring.tail(), "red \u{fffd}[31m alert");
    }
}
