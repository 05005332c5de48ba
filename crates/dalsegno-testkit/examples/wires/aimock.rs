//! aimock, with a fixture for each turn of each cell.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use crate::cell::{Cell, Source};
use crate::row::{Manner, Turn};
use crate::wire::{SIGNATURE, Stop};

/// The running program. Dropped, it ends.
pub(crate) struct Aimock {
    process: Child,
    pub(crate) address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Aimock {
    /// Starts it.
    ///
    /// # Errors
    /// It cannot be started, or refuses a fixture.
    pub(crate) fn start(node: &Path, program: &Path, cells: &[Cell]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let cells = cells.iter().filter(|cell| cell.source == Source::Aimock);
        let fixtures: Vec<Value> = cells.flat_map(fixtures).collect();
        let file = folder.path().join("cells.json");
        std::fs::write(&file, json!({ "fixtures": fixtures }).to_string())?;
        let mut process = Command::new(node)
            .arg(program)
            .args(["--strict", "--validate-on-load", "--port", "0", "--chunk-size", "5", "--fixtures"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .context("aimock cannot be started")?;
        let output = process.stdout.take().context("aimock has no output")?;
        let mut lines = BufReader::new(output).lines();
        while let Some(line) = lines.next() {
            if let Some((_, address)) = line?.split_once("listening on http://") {
                let address = address.trim().replace("localhost", "127.0.0.1");
                let address = address.parse().context("aimock did not say its address")?;
                // The pipe must not fill up.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(Self { process, address, _folder: folder });
            }
        }
        bail!("aimock ended before it listened")
    }
}

impl Drop for Aimock {
    fn drop(&mut self) {
        // It has ended by itself where this fails.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The fixtures of a cell. A failure comes once: what stands behind it answers from then on.
fn fixtures(cell: &Cell) -> Vec<Value> {
    let mut has_result = false;
    let turns = cell.turns();
    let made = turns.iter().map(|turn| {
        let mut found = json!({ "userMessage": cell.message(), "hasToolResult": has_result });
        has_result |= !turn.reply.calls.is_empty();
        if !matches!(turn.manner, Manner::Plain | Manner::Pieces(_)) {
            found["sequenceIndex"] = json!(0);
        }
        let mut fixture = json!({ "match": found, "response": response(turn) });
        match turn.manner {
            Manner::Pieces(size) => fixture["chunkSize"] = json!(size),
            Manner::Cut => {
                fixture["latency"] = json!(5);
                fixture["truncateAfterChunks"] = json!(3);
            }
            Manner::Plain | Manner::TooOften | Manner::Overloaded => {}
        }
        fixture
    });
    made.collect()
}

fn response(turn: &Turn) -> Value {
    let failure = |status: u16, kind: &str| json!({ "error": { "message": "Not now.", "type": kind }, "status": status });
    match turn.manner {
        Manner::TooOften => {
            let mut response = failure(429, "rate_limit_error");
            response["retryAfter"] = json!(1);
            return response;
        }
        Manner::Overloaded => return failure(503, "server_error"),
        Manner::Plain | Manner::Pieces(_) | Manner::Cut => {}
    }
    let reply = &turn.reply;
    let mut response = json!({ "usage": { "prompt_tokens": 100, "completion_tokens": 20, "input_tokens": 100, "output_tokens": 20 } });
    if !reply.text.is_empty() {
        response["content"] = json!(reply.text);
    }
    if !reply.calls.is_empty() {
        let call = |(id, arguments): &(&str, String)| json!({ "id": id, "name": reply.tool(), "arguments": arguments });
        response["toolCalls"] = reply.calls.iter().map(call).collect();
    }
    if reply.thinks {
        response["reasoning"] = json!("Let me see.");
        response["reasoningSignature"] = json!(SIGNATURE);
    }
    if reply.stop == Stop::Length {
        response["finishReason"] = json!("length");
    }
    response
}
