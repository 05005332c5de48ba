//! A server of others, started by a program in Python.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use dalsegno_testkit::memory_below;
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{UNSAID, listening};

/// The programs, and what they have in common.
const FILES: [(&str, &str); 5] = [
    ("peer_processes.py", include_str!("peer_processes.py")),
    ("peer_graphs.py", include_str!("peer_graphs.py")),
    ("peer_langgraph.py", include_str!("peer_langgraph.py")),
    ("peer_aegra.py", include_str!("peer_aegra.py")),
    ("peer_temporal.py", include_str!("peer_temporal.py")),
];

/// A server that runs. Dropped, it ends.
pub(crate) struct Peer {
    program: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// What its program says of it.
    pub(crate) told: Value,
    /// All that it writes.
    _folder: TempDir,
}

impl Peer {
    /// Starts a server with the packages of Python in this folder.
    ///
    /// # Errors
    /// It cannot be started, or does not listen.
    pub(crate) fn start(packages: &Path, program: &str, arguments: &[String]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        for (name, text) in FILES {
            fs::write(folder.path().join(name), text)?;
        }
        let log = folder.path().join("program.log");
        let program = Command::new("python3")
            .arg(folder.path().join(program))
            .args(arguments)
            .env("PYTHONPATH", packages)
            .current_dir(folder.path())
            // It ends what it has started when this ends, also if this program is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn()
            .context("`python3` cannot be started")?;
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        // From here on, a failure ends it.
        let mut peer = Self { program, address, told: Value::Null, _folder: folder };
        (peer.address, peer.told) = listening(&mut peer.program, "python3", &log)?;
        Ok(peer)
    }

    /// The version of it.
    pub(crate) fn version(&self) -> &str {
        self.told["version"].as_str().unwrap_or_default()
    }

    /// The memory that its processes have at this moment, in bytes, without the program that started them.
    ///
    /// # Errors
    /// The system does not tell it.
    pub(crate) fn memory(&self) -> anyhow::Result<u64> {
        memory_below(self.program.id()).context(UNSAID)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // This closes its input first. A program that has failed is gone already.
        let _ = self.program.wait();
    }
}
