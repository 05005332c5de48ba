//! A secret that a program prints: an access token, as cloud providers' command lines make them.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::Mutex;
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::{Reveal, RevealError, SHORTEST, Secret, VALUE_BYTES_MAX};

/// A program, and how long what it prints counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommandSettings {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: PathBuf,
    /// Its arguments. No shell reads them.
    pub arguments: Vec<String>,
    /// The folder that it is started in; that of this process by default.
    pub directory: Option<PathBuf>,
    /// The variables that it does not see. It has all others of this process, since it needs its own configuration.
    pub hidden_variables: Vec<String>,
    /// How long a value is used, from the start of the program that printed it.
    pub ttl: Duration,
    /// The longest that the program may take.
    pub timeout: Duration,
}

/// A secret that a program prints to its standard output. Clones share the value.
///
/// The value is kept in memory for its time, and one start serves everyone who waits for it. A start that has begun is
/// finished, even if no caller waits any more, unless the process ends. The program's standard error is not read: it could hold
/// what the standard output should.
#[derive(Clone)]
pub struct CommandSecret {
    settings: Arc<CommandSettings>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The value, and until when it is used.
    kept: Option<(Secret, Instant)>,
    /// When the program was last done, and with what error.
    last: Option<(Instant, Result<(), RevealError>)>,
    /// When it was started for values that were refused, in the last minute.
    refusals: VecDeque<Instant>,
}

impl CommandSecret {
    /// A secret that this program prints. Nothing is started yet.
    pub fn new(settings: CommandSettings) -> Self {
        Self { settings: Arc::new(settings), state: Arc::default() }
    }

    /// The value that is good, and is not `refused`; none if the program has no other.
    async fn value(&self, refused: Option<&Secret>) -> Result<Option<Secret>, RevealError> {
        let asked = Instant::now();
        let is_other = |secret: &Secret| refused.is_none_or(|refused| refused.expose() != secret.expose());
        let mut state = Arc::clone(&self.state).lock_owned().await;
        if let Some((secret, until)) = &state.kept
            && Instant::now() < *until
            && is_other(secret)
        {
            return Ok(Some(secret.clone()));
        }
        // What the program did while this caller waited is the answer to it as well.
        if let Some((done, outcome)) = &state.last
            && *done >= asked
        {
            outcome.clone()?;
            let kept = state.kept.as_ref().map(|(secret, _)| secret.clone());
            return Ok(kept.filter(is_other));
        }
        if refused.is_some() {
            // A receiver that takes no value at all must not have the program started by each request.
            state.refusals.retain(|then| then.elapsed() < Duration::from_secs(60));
            if state.refusals.len() >= REFUSALS_PER_MINUTE {
                return Ok(None);
            }
            state.refusals.push_back(asked);
        }
        let settings = Arc::clone(&self.settings);
        let running = tokio::spawn(async move {
            let began = Instant::now();
            let printed = settings.run().await;
            state.last = Some((Instant::now(), printed.as_ref().map(drop).map_err(Clone::clone)));
            state.kept = printed.as_ref().ok().map(|secret| (secret.clone(), began + settings.ttl));
            printed
        });
        let stopped = |_| RevealError::new("the task that waits for the program has ended");
        let secret = running.await.map_err(stopped)??;
        Ok(Some(secret).filter(is_other))
    }
}

#[async_trait]
impl Reveal for CommandSecret {
    async fn reveal(&self) -> Result<Secret, RevealError> {
        let value = self.value(None).await?;
        value.ok_or_else(|| RevealError::new("the program printed no secret"))
    }

    async fn renew(&self, refused: &Secret) -> Result<Option<Secret>, RevealError> {
        self.value(Some(refused)).await
    }
}

impl CommandSettings {
    /// The command as a person would write it, for errors.
    fn shown(&self) -> String {
        let words = std::iter::once(self.program.display().to_string()).chain(self.arguments.iter().cloned());
        words.collect::<Vec<_>>().join(" ")
    }

    /// Starts the program and takes what it prints.
    async fn run(&self) -> Result<Secret, RevealError> {
        let failed = |what: String| RevealError::new(format!("`{}` {what}", self.shown()));
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.kill_on_drop(true);
        for name in &self.hidden_variables {
            command.env_remove(name);
        }
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| {
            failed(format!("cannot be started: {error}; install the program, or write its path"))
        })?;
        let group = Group(child.id());
        let printed = tokio::time::timeout(self.timeout, printed(&mut child)).await;
        drop(group);
        let passing = |what: String| RevealError { transient: true, ..failed(what) };
        let (status, output) = match printed {
            Err(_) => return Err(passing(format!("was not done within {:?}, and was ended", self.timeout))),
            Ok(Err(Unprinted::TooLong)) => {
                return Err(failed(format!(
                    "printed more than {VALUE_BYTES_MAX} bytes: expected the secret alone"
                )));
            }
            Ok(Err(Unprinted::Broken(error))) => {
                return Err(passing(format!("cannot be read: {error}")));
            }
            Ok(Ok(printed)) => printed,
        };
        if !status.success() {
            return Err(passing(format!(
                "failed ({status}); run it yourself to see why: its standard error is not shown, since it could hold a \
                 secret"
            )));
        }
        let secret =
            Secret::from_bytes(output).ok_or_else(|| failed("printed what is not UTF-8".to_owned()))?;
        let secret = secret.trimmed();
        match secret.expose().len() {
            0 => Err(failed("printed nothing: expected the secret on its standard output".to_owned())),
            bytes if bytes < SHORTEST => Err(failed(format!(
                "printed {bytes} bytes, which is too short to be scrubbed: expected at least {SHORTEST}"
            ))),
            _ => Ok(secret),
        }
    }
}

/// Why there is no output.
enum Unprinted {
    TooLong,
    Broken(std::io::Error),
}

/// How a program ended, and what it printed.
async fn printed(child: &mut Child) -> Result<(ExitStatus, Zeroizing<Vec<u8>>), Unprinted> {
    // It grows nowhere, so that no copy is left behind.
    let mut output = Zeroizing::new(Vec::with_capacity(VALUE_BYTES_MAX + 1));
    let Some(mut pipe) = child.stdout.take() else {
        return Err(Unprinted::Broken(std::io::Error::other("it has no standard output")));
    };
    let status = {
        let mut reading = std::pin::pin!(read(&mut pipe, &mut output));
        tokio::select! {
            biased;
            read = &mut reading => {
                read?;
                child.wait().await
            }
            status = child.wait() => {
                // What it left behind may hold the pipe open.
                if let Ok(read) = tokio::time::timeout(LAST_WORDS, reading).await {
                    read?;
                }
                status
            }
        }
    };
    Ok((status.map_err(Unprinted::Broken)?, output))
}

async fn read(pipe: &mut ChildStdout, output: &mut Vec<u8>) -> Result<(), Unprinted> {
    while output.len() <= VALUE_BYTES_MAX {
        let room = VALUE_BYTES_MAX + 1 - output.len();
        let mut part = pipe.take(u64::try_from(room).unwrap_or(u64::MAX));
        if part.read_buf(output).await.map_err(Unprinted::Broken)? == 0 {
            return Ok(());
        }
    }
    Err(Unprinted::TooLong)
}

/// The group of a process, which is ended with all that it started.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.0.and_then(|group| i32::try_from(group).ok())
            && let Some(group) = rustix::process::Pid::from_raw(group)
        {
            // It may be gone already.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// How long the rest of the output is waited for when the program has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How often in a minute the program is started because a receiver refused its value.
const REFUSALS_PER_MINUTE: usize = 5;

#[cfg(all(test, unix))]
mod tests;
