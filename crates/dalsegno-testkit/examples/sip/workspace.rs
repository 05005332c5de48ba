//! A workspace with lines that ring, and the processes that serve it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tempfile::TempDir;

/// The secret of the webhooks.
pub(crate) const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// The number at which the desk answers, with room for many calls.
pub(crate) const NUMBER: &str = "+33176540001";

/// A number of a line that has room for one call.
pub(crate) const NARROW: &str = "+33176540002";

/// The line of each.
pub(crate) const LINES: [&str; 2] = ["front", "narrow"];

/// Where the desk transfers to: the name of the destination, the address as the tenant has it, and as a telephone is told it.
pub(crate) const DESTINATIONS: [(&str, &str, &str); 3] = [
    ("sip", "sip:staff@pbx.example", "<sip:staff@pbx.example>"),
    ("tel", "tel:+33176540009", "<tel:+33176540009>"),
    ("bare", "+33176540008", "<tel:+33176540008>"),
];

/// How long is waited for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const DESK: &str = "name = \"desk\"\nversion = \"1.0.0\"\ndescription = \"Takes calls.\"\n\
    instructions = \"You are the desk. The caller is [{{user.caller}}].\"\n[model]\nuse = \"default\"\n\
    [tools]\nallow = [\"call.hang_up\", \"transfer.*\"]\n[voice]\ngreeting = \"Greet.\"\n";

/// A workspace in a folder of its own.
pub(crate) struct Workspace {
    folder: TempDir,
    dalsegno: PathBuf,
}

/// A server process, and where it listens. Dropped, it is gone.
pub(crate) struct Served {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Workspace {
    /// Writes one, for the provider at this address.
    pub(crate) fn new(dalsegno: PathBuf, base_url: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        for name in ["agents", "tenants"] {
            fs::create_dir(folder.path().join(name))?;
        }
        let line = |name: &str, max_calls: u32, number: &str, keys: &str| {
            format!(
                "[voice.lines.{name}]\nsurface = \"realtime\"\ntransport = \"sip\"\nmodel = \"gpt-realtime-2.1\"\n\
                 base_url = \"{base_url}\"\nwebhook_secrets = [{{ file = \"secret\" }}]\nmax_calls = {max_calls}\n\
                 [voice.lines.{name}.numbers]\n\"{number}\" = {{ agent = \"desk\"{keys} }}\n"
            )
        };
        let allowed = DESTINATIONS.map(|(_, address, _)| format!("\"{address}\"")).join(", ");
        let [front, narrow] = LINES;
        let destinations = DESTINATIONS.map(|(name, address, _)| {
            format!(
                "[[features.refer.destinations]]\ndestination_id = \"{name}\"\ntarget_uri = \"{address}\"\n"
            )
        });
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text);
        write(
            "dalsegno.toml",
            &[
                "[models.default]\nprovider = \"script\"\nfile = \"model.toml\"\n".to_owned(),
                line(front, 32, NUMBER, &format!(", transfer_to = [{allowed}]")),
                line(narrow, 1, NARROW, ""),
            ]
            .concat(),
        )?;
        write("secret", SECRET)?;
        write("model.toml", "[[replies]]\ntext = \"Hello.\"\n")?;
        write("agents/desk.toml", DESK)?;
        write(
            "tenants/default.toml",
            &format!(
                "name = \"default\"\n[features.refer]\nrequire_confirmation = false\n{}",
                destinations.concat()
            ),
        )?;
        let workspace = Self { folder, dalsegno };
        workspace.read(&["check"])?;
        Ok(workspace)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.dalsegno);
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    /// Runs the command; what it printed.
    pub(crate) fn read(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.command(arguments).output().context("`dalsegno` cannot be started")?;
        let words = arguments.join(" ");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "`dalsegno {words}` failed: {}", said.trim());
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The run of a call, once it has ended.
    pub(crate) fn ended(&self, line: &str, call: &str) -> anyhow::Result<Run> {
        let session = format!("call-{line}-{call}");
        let begun = Instant::now();
        loop {
            let runs = self.all()?;
            let run = runs.iter().find(|run| run["session"] == *session);
            let status = run.and_then(|run| run["status"].as_str()).unwrap_or("not begun");
            if let Some(run) = run
                && ["completed", "failed", "cancelled"].contains(&status)
            {
                let id = run["run_id"].as_str().context("a run has no id")?;
                return Ok(Run { status: status.to_owned(), shown: self.read(&["show", id])? });
            }
            ensure!(begun.elapsed() < PATIENCE, "the run of the call `{call}` does not end: it is {status}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// How many runs there are.
    pub(crate) fn runs(&self) -> anyhow::Result<usize> {
        Ok(self.all()?.len())
    }

    /// Replays all runs; how many there are.
    pub(crate) fn replays(&self) -> anyhow::Result<usize> {
        let runs = self.all()?;
        for run in &runs {
            let id = run["run_id"].as_str().context("a run has no id")?;
            let replayed: Value = serde_json::from_str(&self.read(&["replay", id, "--json"])?)?;
            ensure!(replayed["identical"] == true, "the run {id} does not replay: {replayed}");
        }
        Ok(runs.len())
    }

    fn all(&self) -> anyhow::Result<Vec<Value>> {
        Ok(serde_json::from_str(&self.read(&["runs", "--json", "--limit", "1000"])?)?)
    }

    /// What the servers logged.
    pub(crate) fn log(&self) -> anyhow::Result<String> {
        Ok(fs::read_to_string(self.folder.path().join("serve.log"))?)
    }
}

/// A run that has ended.
pub(crate) struct Run {
    pub(crate) status: String,
    /// As `dalsegno show` shows it.
    pub(crate) shown: String,
}

impl Served {
    /// Starts a server.
    pub(crate) fn start(workspace: &Workspace) -> anyhow::Result<Self> {
        let mut command = workspace.command(&["serve", "--address", "127.0.0.1:0", "--format", "jsonl"]);
        let log = workspace.folder.path().join("serve.log");
        let log = fs::File::options().append(true).create(true).open(log)?;
        let mut process =
            command.stdout(Stdio::piped()).stderr(log).spawn().context("`dalsegno` cannot be started")?;
        let output = process.stdout.take().context("a process has no output")?;
        // From here on it is stopped whatever happens.
        let mut served = Self { process, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let mut lines = BufReader::new(output).lines();
        let first = lines.next().context("the server says nothing")??;
        let first: Value = serde_json::from_str(&first)?;
        served.address = first["address"].as_str().context("the server names no address")?.parse()?;
        // What it says further is read, so that it never waits for a reader.
        thread::spawn(move || lines.for_each(drop));
        Ok(served)
    }

    /// Asks it to stop. It takes no connection from then on.
    pub(crate) fn asks_to_stop(&self) -> anyhow::Result<()> {
        let process = rustix::process::Pid::from_child(&self.process);
        Ok(rustix::process::kill_process(process, rustix::process::Signal::TERM)?)
    }

    /// Waits until it has stopped.
    pub(crate) fn stops(mut self) -> anyhow::Result<()> {
        let status = self.process.wait()?;
        ensure!(status.success(), "the server stopped with {status}");
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // One that was stopped is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
