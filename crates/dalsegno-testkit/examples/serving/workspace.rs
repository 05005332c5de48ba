//! A workspace that is served, with the keys of its clients.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use hyper::StatusCode;
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{ask, begin, get};
use crate::process::Running;

/// Calls of the tool in a run of `ringer`.
pub(crate) const CALLS: u64 = 400;

/// Keys that clients take turns with: the settings allow at most 100,000 requests of one key in a minute.
const KEYS: usize = 8;

/// More connections and streams than any row has, and the most requests of a key that the settings allow.
const SETTINGS: &str = "[models.long]\nprovider = \"script\"\nfile = \"script.toml\"\n\
    [serve]\nconnections = 60000\nstreams = 60000\nrequests_per_minute = 100000\n\
    [dispatch]\nconcurrency = 1000\ntenant_concurrency = 1000\n";

/// A plan of one step.
const ECHO: &str = "name = \"echo\"\ndescription = \"Says what it is asked.\"\n\
    [[steps]]\nrespond = \"You said: {{request.text}}\"\n";

/// A plan that waits for a person.
const ASKER: &str = "name = \"asker\"\ndescription = \"Waits for a number.\"\n\
    [[steps]]\nid = \"number\"\nask = \"How many?\"\n[[steps]]\nrespond = \"{{steps.number}} then\"\n";

/// An agent whose script decides how many steps there are.
const WALKER: &str = "name = \"walker\"\ndescription = \"Searches again and again.\"\n\
    instructions = \"You search.\"\n[model]\nuse = \"long\"\n[tools]\nallow = [\"memory.search\"]\n\
    [limits]\nmax_steps = 100000\nmax_tool_calls = 100000\nrepeat_limit = 0\ntimeout = \"24h\"\n";

/// A plan whose tool asks the service of this program.
const RINGER: &str = "name = \"ringer\"\ndescription = \"Rings again and again.\"\n\
    [tools]\nallow = [\"ring\"]\n[limits]\nmax_steps = 100000\nmax_tool_calls = 100000\ntimeout = \"1h\"\n";

/// A workspace in a folder of its own.
pub(crate) struct Workspace {
    folder: TempDir,
    dalsegno: PathBuf,
    /// The access keys, as clients send them.
    pub(crate) keys: Vec<String>,
}

impl Workspace {
    /// Writes one with plans that answer at once, and makes its keys.
    ///
    /// # Errors
    /// The folder cannot be written, or the command refuses it.
    pub(crate) fn new(dalsegno: &Path) -> anyhow::Result<Self> {
        Self::of(dalsegno, 0, None)
    }

    /// The same, with a run of so many steps in `walker`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn with_steps(dalsegno: &Path, steps: usize) -> anyhow::Result<Self> {
        Self::of(dalsegno, steps, None)
    }

    /// The same, with a tool in `ringer` that asks the service at this address.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn with_rings(dalsegno: &Path, rings: SocketAddr) -> anyhow::Result<Self> {
        Self::of(dalsegno, 0, Some(rings))
    }

    fn of(dalsegno: &Path, steps: usize, rings: Option<SocketAddr>) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        for name in ["agents", "tenants", "tools"] {
            fs::create_dir(folder.path().join(name))?;
        }
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text);
        write("dalsegno.toml", SETTINGS)?;
        // A reply and the call that it asks for are a step each.
        let search =
            "[[replies]]\ncalls = [{ name = \"memory.search\", arguments = { query = \"a table\" } }]\n";
        write("script.toml", &format!("{}[[replies]]\ntext = \"Done.\"\n", search.repeat(steps / 2)))?;
        for (name, text) in [("echo", ECHO), ("asker", ASKER), ("walker", WALKER)] {
            write(&format!("agents/{name}.toml"), text)?;
        }
        if let Some(rings) = rings {
            let ring = |number: u64| format!("[[steps]]\ntool = \"ring\"\nwith = {{ number = {number} }}\n");
            let steps: String = (0..CALLS).map(ring).collect();
            write("agents/ringer.toml", &format!("{RINGER}{steps}"))?;
            let url = format!("http://{rings}/ring/{{{{params.number}}}}");
            let document = format!(
                r#"{{ "name": "ring", "description": "Rings.",
  "parameters": [{{ "name": "number", "type": "integer", "required": true, "description": "Which time it is." }}],
  "actions": [{{ "type": "api_call", "method": "GET", "url": "{url}", "retry_count": 10 }}] }}"#
            );
            write("tools/ring.json", &document)?;
            write("tenants/default.toml", &format!("name = \"default\"\negress = [\"http://{rings}\"]\n"))?;
        }
        let mut workspace = Self { folder, dalsegno: dalsegno.to_owned(), keys: Vec::new() };
        workspace.read(&["check"])?;
        let scopes = ["--scope", "runs:list", "--scope", "runs:read", "--scope", "runs:write"];
        for _ in 0..KEYS {
            let added = workspace.json(&[&["key", "add", "--tenant", "default"][..], &scopes].concat())?;
            workspace.keys.push(added["key"].as_str().context("`dalsegno key add` shows no key")?.to_owned());
        }
        Ok(workspace)
    }

    /// Its folder.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A key of the default tenant.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn key(&self) -> anyhow::Result<&str> {
        self.keys.first().map(String::as_str).context("the workspace has no key")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.dalsegno);
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    /// Runs the command; what it printed.
    fn read(&self, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
        let program = self.dalsegno.display();
        let output = self.command(arguments).output();
        let output =
            output.with_context(|| format!("`{program}` cannot be started: `--dalsegno` names it"))?;
        let (words, said) = (arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "`dalsegno {words}` failed: {}", said.trim().replace('\n', "; "));
        Ok(output.stdout)
    }

    /// Runs a command that prints a JSON document.
    ///
    /// # Errors
    /// It failed, or printed something else.
    pub(crate) fn json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        Ok(serde_json::from_slice(&self.read(&[arguments, &["--json"]].concat())?)?)
    }

    /// The time of one commit of 1 KiB on this disk, in milliseconds: `F`.
    ///
    /// # Errors
    /// It cannot be measured.
    pub(crate) fn floor(&self) -> anyhow::Result<f64> {
        let measured = self.json(&["bench", "--turns", "500", "--runs", "1"])?;
        measured["floor_ms"]["all"].as_f64().context("`dalsegno bench` names no `floor_ms`")
    }

    /// Starts a server.
    ///
    /// # Errors
    /// It does not listen.
    pub(crate) fn serve(&self) -> anyhow::Result<Running> {
        self.serve_with(&[])
    }

    /// Starts a server with further arguments.
    ///
    /// # Errors
    /// It does not listen.
    pub(crate) fn serve_with(&self, more: &[&str]) -> anyhow::Result<Running> {
        let serve = ["serve", "--address", "127.0.0.1:0", "--format", "jsonl"];
        Running::start(self.command(&[&serve[..], more].concat()), &self.path().join("serve.log"))
    }

    /// Has a server perform a run of `walker`; its id, and how many steps it has.
    ///
    /// # Errors
    /// The run does not complete.
    pub(crate) async fn walk(&self, server: SocketAddr) -> anyhow::Result<(String, u64)> {
        let key = self.key()?;
        let run = begin(server, key, "walker").await?;
        loop {
            let shown = ask(server, get(&format!("/v1/runs/{run}?wait=60"), key)?, StatusCode::OK).await?;
            match shown["status"].as_str() {
                Some("running") => {}
                Some("completed") => {
                    return Ok((run, shown["steps"].as_u64().context("a run has no number of steps")?));
                }
                _ => bail!("the long run does not complete: {shown}"),
            }
        }
    }
}
