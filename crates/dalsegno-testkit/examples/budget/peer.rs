//! The long conversation elsewhere: LangGraph with its SQLite saver, in the same run and on the same disk.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::figures::figure;
use crate::line::{Fault, Line, megabytes};

/// What has the conversation with LangGraph.
const PROGRAM: &str = include_str!("peer.py");

/// A conversation that has taken so many bytes is stopped: each checkpoint there holds all that was said before it.
const MOST_BYTES: u64 = 4_000_000_000;

/// The longest that it may take, in seconds.
const MOST_SECONDS: u64 = 180;

/// Has the conversation with the packages of Python in this folder.
pub(crate) fn converse(packages: &Path, calls: u64) -> Result<Vec<Line>, Fault> {
    let folder = tempfile::tempdir()?;
    let output = Command::new("python3")
        .args(["-c", PROGRAM])
        .arg(folder.path())
        .args([calls, MOST_BYTES, MOST_SECONDS].map(|number| number.to_string()))
        .env("PYTHONPATH", packages)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let found: Value = serde_json::from_slice(&output.stdout)?;
    let of = |name| figure(&found, name);
    let (made, memory) = (of("calls")?, megabytes(of("memory")?));
    let ended = if made < calls as f64 { format!(", stopped at call {made}") } else { String::new() };
    let turn = format!("first tenth {:.1} ms, last {:.1} ms, memory {memory}", of("first")?, of("last")?);
    let what = format!("  LangGraph, {calls} calls{ended}, on disk");
    Ok(vec![Line::told(&what, megabytes(of("bytes")?)).noted(&turn)])
}
