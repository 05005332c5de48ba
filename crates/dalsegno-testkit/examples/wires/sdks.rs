//! The requests of all cells, held against the types of the official SDKs, and one against what they send.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cell::{Cell, Finding};

/// The program that knows the types.
const PROGRAM: &str = include_str!("sdks.py");

/// What the types say.
#[derive(Debug, Deserialize)]
pub(crate) struct Judgement {
    pub(crate) requests: usize,
    /// Conversations that the SDKs sent as well.
    pub(crate) compared: usize,
    /// The version of each SDK.
    pub(crate) types: BTreeMap<String, String>,
    pub(crate) wrong: Vec<String>,
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<String> =
            self.types.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let fit = if self.wrong.is_empty() { "all fit" } else { "not all fit" };
        write!(f, "{} different requests, {fit} the types of {}", self.requests, types.join(" and "))?;
        write!(f, "; {} were compared with what these send", self.compared)?;
        self.wrong.iter().try_for_each(|wrong| write!(f, "\n- {wrong}"))
    }
}

/// Holds each different request against its type, by the packages of Python in this folder.
///
/// # Errors
/// Python or a package is missing.
pub(crate) fn check(python: &Path, cells: &[Cell], findings: &[Finding]) -> anyhow::Result<Judgement> {
    let mut lines = BTreeSet::new();
    for (cell, finding) in cells.iter().zip(findings) {
        for body in &finding.bodies {
            let body: Value = serde_json::from_str(body).context("a request is no JSON")?;
            let (wire, row) = (cell.wire.provider(), cell.row.name);
            lines.insert(json!({ "wire": wire, "row": row, "body": body }).to_string());
        }
    }
    let mut process = Command::new("python3")
        .args(["-c", PROGRAM])
        .env("PYTHONPATH", python)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("`python3` cannot be started")?;
    let mut input = process.stdin.take().context("Python has no standard input")?;
    for line in lines {
        // It reads all of it before it writes.
        writeln!(input, "{line}")
            .context("Python ended early: are `openai`, `anthropic` and `botocore` installed?")?;
    }
    drop(input);
    let output = process.wait_with_output()?;
    ensure!(output.status.success(), "the types of the SDKs could not be read: {}", output.status);
    serde_json::from_slice(&output.stdout).context("the types of the SDKs said no JSON")
}
