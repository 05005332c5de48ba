//! A workspace whose agent takes calls.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// A workspace with an agent that remembers, and a line to a live model.
pub(crate) struct Workspace(TempDir);

impl Workspace {
    /// Writes it, for the provider at this address.
    pub(crate) fn new(base_url: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("agents"))?;
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text);
        write(
            "dalsegno.toml",
            &format!(
                "[models.default]\nprovider = \"script\"\nfile = \"model.toml\"\n[voice.lines.front]\nsurface = \"realtime\"\n\
                 transport = \"text\"\nmodel = \"gpt-realtime-2.1\"\nbase_url = \"{base_url}\"\n"
            ),
        )?;
        write("model.toml", "[[replies]]\ntext = \"Hello.\"\n")?;
        write(
            "agents/desk.toml",
            "name = \"desk\"\nversion = \"1.0.0\"\ndescription = \"Takes calls.\"\ninstructions = \"You take calls.\"\n\
             [model]\nuse = \"default\"\n[tools]\nallow = [\"memory.*\"]\n[limits]\nmax_tool_calls = 1000\n[voice]\n",
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
}
