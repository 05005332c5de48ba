//! A workspace whose agent takes calls.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The number at which the agent answers.
pub(crate) const NUMBER: &str = "+33176540001";

/// The secret of the webhooks.
pub(crate) const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// The authentication token of the carrier.
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A workspace with an agent that remembers, and a line to a live model.
pub(crate) struct Workspace(TempDir);

impl Workspace {
    /// Writes it, for the provider at this address.
    pub(crate) fn new(base_url: &str) -> anyhow::Result<Self> {
        Self::of(base_url, "transport = \"text\"\n")
    }

    /// The same with a number, at which it answers so many calls at once.
    pub(crate) fn with_number(base_url: &str, calls: u32) -> anyhow::Result<Self> {
        Self::answers(base_url, "sip", SECRET, calls)
    }

    /// The same with a number of a carrier, whose sound passes through.
    pub(crate) fn with_carrier(base_url: &str, calls: u32) -> anyhow::Result<Self> {
        Self::answers(base_url, "media", TOKEN, calls)
    }

    fn answers(base_url: &str, transport: &str, secret: &str, calls: u32) -> anyhow::Result<Self> {
        let line = format!(
            "transport = \"{transport}\"\nwebhook_secrets = [{{ file = \"secret\" }}]\nmax_calls = {calls}\n\
             [voice.lines.front.numbers]\n\"{NUMBER}\" = {{ agent = \"desk\" }}\n"
        );
        let workspace = Self::of(base_url, &line)?;
        fs::write(workspace.path().join("secret"), secret)?;
        Ok(workspace)
    }

    fn of(base_url: &str, line: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("agents"))?;
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text);
        write(
            "dalsegno.toml",
            &format!(
                "[models.default]\nprovider = \"script\"\nfile = \"model.toml\"\n[voice.lines.front]\nsurface = \"realtime\"\n\
                 model = \"gpt-realtime-2.1\"\nbase_url = \"{base_url}\"\n{line}"
            ),
        )?;
        write("model.toml", "[[replies]]\ntext = \"Hello.\"\n")?;
        write(
            "agents/desk.toml",
            "name = \"desk\"\nversion = \"1.0.0\"\ndescription = \"Takes calls.\"\ninstructions = \"You take calls.\"\n\
             [model]\nuse = \"default\"\n[tools]\nallow = [\"memory.*\"]\n[limits]\nmax_tool_calls = 1000\n[voice]\nfiller = false\n",
        )?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The command that holds a call: it says what it reads, and prints what is said.
    pub(crate) fn call(&self, dalsegno: &Path) -> Command {
        let mut call = Command::new(dalsegno);
        call.args(["call", "text", "desk", "--line", "front"]).current_dir(self.path());
        call
    }

    /// The command that answers telephones, and prints where it listens.
    pub(crate) fn serve(&self, dalsegno: &Path) -> Command {
        let mut serve = Command::new(dalsegno);
        serve.args(["serve", "--address", "127.0.0.1:0", "--format", "jsonl"]).current_dir(self.path());
        // Where it listens is told to people as well.
        serve.stderr(Stdio::null());
        serve
    }
}
