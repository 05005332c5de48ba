//! The list of escalations: one JSON line for each decision, in a folder that the host may grant.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};

use schemars::JsonSchema;
use serde::Serialize;

/// One line of the list. It holds no time: this guest is given a fixed clock.
#[derive(Debug, Serialize)]
pub(crate) struct Escalation {
    pub(crate) incident: String,
    pub(crate) risk: f64,
    pub(crate) decision: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
    /// The caller's operation, so that a line can be traced back to the run that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) operation: Option<String>,
}

/// Where a decision was written.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Recorded {
    /// The file, as this server sees it.
    path: String,
    /// The line, counted from 1.
    line_number: u64,
}

/// Appends one line and makes it durable before it answers.
pub(crate) fn append(escalation: &Escalation) -> Result<Recorded, String> {
    // JSON escapes line breaks, so that one record is one line whatever it says.
    let mut line =
        serde_json::to_string(escalation).map_err(|error| format!("cannot write the record: {error}"))?;
    line.push('\n');
    let line_number = write(line.as_bytes()).map_err(|error| {
        format!(
            "cannot append to `{PATH}`: {error}; grant this server a folder: \
             files = [{{ host = \"…\", guest = \"{FOLDER}\", access = \"write\" }}]"
        )
    })?;
    Ok(Recorded { path: PATH.to_owned(), line_number })
}

fn write(line: &[u8]) -> io::Result<u64> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(PATH)?;
    let mut lines = 0;
    let mut chunk = [0; 4096];
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        lines += chunk[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
    }
    // One write of the whole line: a reader sees it or does not, never a part of it.
    file.write_all(line)?;
    file.sync_all()?;
    Ok(lines + 1)
}

const FOLDER: &str = "/incidents";
const PATH: &str = "/incidents/escalations.jsonl";
