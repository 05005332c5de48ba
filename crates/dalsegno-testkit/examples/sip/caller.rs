//! Telephones that call: the program `sipp`, with scenarios of ours.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

/// Someone calls: an INVITE with SDP.
const CALLS: &str = include_str!("scenarios/calls.xml");

/// The call rings, is answered, and the caller confirms that.
const IS_ANSWERED: &str = include_str!("scenarios/is_answered.xml");

/// The caller hangs up after a pause.
const HANGS_UP: &str = include_str!("scenarios/hangs_up.xml");

/// The caller is hung up.
const IS_HUNG_UP: &str = include_str!("scenarios/is_hung_up.xml");

/// The caller is told to call another address, and says what comes of that.
const IS_REFERRED: &str = include_str!("scenarios/is_referred.xml");

/// The caller has reached the other address.
const NOTIFIES: &str = include_str!("scenarios/notifies.xml");

/// The call gets a final status.
const IS_REFUSED: &str = include_str!("scenarios/is_refused.xml");

/// The caller gives up after a pause, while it rings.
const CANCELS: &str = include_str!("scenarios/cancels.xml");

/// After how many seconds a caller that waits for what does not come has failed.
const PATIENCE: &str = "45";

/// How many calls a second are begun at most.
const RATE: &str = "100";

/// Most characters of what is said of a call that failed.
const WHY: usize = 240;

/// What happens to a caller after the call was made, and what the caller does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Then {
    /// It is answered, and the caller hangs up after so many milliseconds.
    HangsUp(u32),
    /// It is answered, and hung up from there.
    IsHungUp,
    /// It is answered, and the caller is transferred.
    IsTransferred,
    /// It is answered, the caller's telephone refuses to be transferred, and is hung up later.
    RefusesTransfer,
    /// It is refused with this status.
    IsRefused(u16),
    /// The caller gives up after so many milliseconds, while it rings.
    Cancels(u32),
}

impl Then {
    /// The scenario of `sipp`.
    fn scenario(self) -> String {
        let set = |part: &str, name: &str, value: &dyn ToString| part.replace(name, &value.to_string());
        let parts = match self {
            Self::HangsUp(pause) => [IS_ANSWERED.to_owned(), set(HANGS_UP, "$PAUSE", &pause)].concat(),
            Self::IsHungUp => [IS_ANSWERED, IS_HUNG_UP].concat(),
            Self::IsTransferred => {
                let referred = set(IS_REFERRED, "$REFERRED", &"202 Accepted");
                [IS_ANSWERED, &referred, NOTIFIES, &set(HANGS_UP, "$PAUSE", &0)].concat()
            }
            Self::RefusesTransfer => {
                [IS_ANSWERED, &set(IS_REFERRED, "$REFERRED", &"603 Decline"), IS_HUNG_UP].concat()
            }
            Self::IsRefused(status) => set(IS_REFUSED, "$STATUS", &status),
            Self::Cancels(pause) => {
                [set(CANCELS, "$PAUSE", &pause), set(IS_REFUSED, "$STATUS", &487)].concat()
            }
        };
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<scenario name=\"a call\">\n{CALLS}{parts}</scenario>\n"
        )
    }
}

/// Calls that are made, all alike.
#[derive(Debug, Clone)]
pub(crate) struct Calls {
    /// The number that is called.
    pub(crate) called: &'static str,
    /// `From`, without its tag.
    pub(crate) from: String,
    /// Headers besides, one a line.
    pub(crate) headers: &'static str,
    /// How many there are, all at once.
    pub(crate) times: u32,
    pub(crate) then: Then,
}

impl Calls {
    /// One call to a number, by a caller that is as it should be.
    pub(crate) fn one(called: &'static str, then: Then) -> Self {
        let from = format!("\"A caller\" <sip:{CALLER}@pbx.example>");
        Self { called, from, headers: "Subject: a call", times: 1, then }
    }
}

/// The number of a caller that is as it should be.
pub(crate) const CALLER: &str = "+4915112345678";

/// What makes calls, and keeps what came of them.
#[derive(Debug)]
pub(crate) struct Sipp {
    folder: TempDir,
    trunk: SocketAddr,
    count: u32,
}

/// Calls that are under way. Dropped, they are broken off.
#[derive(Debug)]
pub(crate) struct Calling {
    process: Child,
    scenario: PathBuf,
}

impl Sipp {
    /// One that calls this address.
    pub(crate) fn new(trunk: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self { folder: tempfile::tempdir()?, trunk, count: 0 })
    }

    /// The version that it says of itself.
    pub(crate) fn version() -> anyhow::Result<String> {
        let told = Command::new("sipp").arg("-v").output().context("`sipp` cannot be started")?;
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let version = told.split_whitespace().find_map(|word| word.strip_prefix('v'));
        Ok(version.context("`sipp -v` names no version")?.trim_end_matches('.').to_owned())
    }

    /// Begins calls.
    pub(crate) fn begins(&mut self, calls: &Calls) -> anyhow::Result<Calling> {
        self.count += 1;
        let scenario = self.folder.path().join(format!("{}.xml", self.count));
        let text = calls.then.scenario().replace("$CALLED", calls.called);
        fs::write(&scenario, text.replace("$FROM", &calls.from).replace("$HEADERS", calls.headers))?;
        let times = calls.times.to_string();
        let mut sipp = Command::new("sipp");
        sipp.arg(self.trunk.to_string()).arg("-sf").arg(&scenario).args(["-i", "127.0.0.1", "-nostdin"]);
        sipp.args(["-m", &times, "-l", &times, "-r", RATE, "-timeout", PATIENCE, "-timeout_error"]);
        sipp.arg("-trace_logs").arg("-log_file").arg(scenario.with_extension("log"));
        sipp.arg("-trace_err").arg("-error_file").arg(scenario.with_extension("errors"));
        sipp.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = sipp.spawn().context("`sipp` cannot be started")?;
        Ok(Calling { process, scenario })
    }
}

impl Calling {
    /// Waits until the calls are over; what the callers saw.
    pub(crate) fn ends(mut self) -> anyhow::Result<Vec<String>> {
        let status = self.process.wait()?;
        let errors = read(&self.scenario.with_extension("errors"))?;
        let why = errors.lines().find(|line| line.contains("expecting")).or(errors.lines().last());
        let why: String = why.unwrap_or_default().chars().take(WHY).collect();
        ensure!(status.success(), "`sipp` ended with {status}: {why}");
        let seen = read(&self.scenario.with_extension("log"))?;
        Ok(seen.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        // One that has ended is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a file says; nothing where it was not written.
fn read(file: &Path) -> anyhow::Result<String> {
    match fs::read(file) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read `{}`", file.display())),
    }
}
