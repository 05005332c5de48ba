//! The server of the benchmark's tools: a process in Python, asked over its standard streams.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use serde_json::Value;

/// The program.
const PROGRAM: &str = include_str!("server.py");

/// The running server. Dropped, it ends.
pub(crate) struct Server {
    process: Child,
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    pub(crate) port: u16,
}

impl Server {
    /// Starts it, with the packages of this folder.
    ///
    /// # Errors
    /// Python or a package is missing.
    pub(crate) fn start(python: &Path) -> anyhow::Result<Self> {
        let mut process = Command::new("python3")
            .args(["-c", PROGRAM])
            .env("PYTHONPATH", python)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("`python3` cannot be started")?;
        let input = process.stdin.take().context("the server has no standard input")?;
        let mut output = BufReader::new(process.stdout.take().context("the server has no standard output")?);
        let mut port = String::new();
        output.read_line(&mut port)?;
        let port =
            port.trim().parse().context("the server did not print its port: is `bfcl_eval` installed?")?;
        Ok(Self { process, pipes: Mutex::new((input, output)), port })
    }

    /// Gives an order, and returns the answer.
    ///
    /// # Errors
    /// The server is gone, or failed.
    pub(crate) fn ask(&self, order: &Value) -> anyhow::Result<Value> {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        let (input, output) = &mut *pipes;
        writeln!(input, "{order}").context("the server is gone")?;
        input.flush()?;
        let mut line = String::new();
        output.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("the server answered `{line}` to {order}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended by itself where this fails.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
