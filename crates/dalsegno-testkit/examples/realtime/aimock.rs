//! The command holds a call at the mock server aimock.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::json;

use crate::Arguments;
use crate::process;
use crate::workspace::Workspace;

/// The running program. Dropped, it ends.
struct Aimock(Child);

impl Drop for Aimock {
    fn drop(&mut self) {
        // It has ended by itself where this fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command holds a call with a tool there.
pub(crate) fn hold(arguments: &Arguments) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let note = "Note my usual table, please.";
    let call = json!({ "id": "call_1", "name": "memory__create",
        "arguments": json!({ "entity": "table", "content": "at the window" }).to_string() });
    let fixtures = json!({ "fixtures": [
        { "match": { "userMessage": note, "hasToolResult": false },
          "response": { "content": "I note it.", "toolCalls": [call] } },
        { "match": { "userMessage": note, "hasToolResult": true },
          "response": { "content": "Noted: the table at the window." } },
        { "match": { "userMessage": "Which one was it?" }, "response": { "content": "The one at the window." } },
    ] });
    std::fs::write(folder.path().join("fixtures.json"), fixtures.to_string())?;
    let mut process = Command::new(&arguments.node)
        .arg(&arguments.aimock)
        .args(["--strict", "--validate-on-load", "--port", "0", "--fixtures"])
        .arg(folder.path().join("fixtures.json"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("aimock cannot be started")?;
    let output = process.stdout.take().context("aimock has no output")?;
    let _running = Aimock(process);
    let mut lines = BufReader::new(output).lines();
    let address = loop {
        let line = lines.next().context("aimock ended before it listened")??;
        if let Some((_, address)) = line.split_once("listening on http://") {
            break address.trim().replace("localhost", "127.0.0.1");
        }
    };
    // The pipe must not fill up.
    std::thread::spawn(move || lines.for_each(drop));
    let workspace = Workspace::new(&format!("http://{address}/v1"))?;
    let caller = format!("{note}\nWhich one was it?\n");
    let said = process::run(workspace.call(&arguments.dalsegno), &caller)?.printed;
    let expected = [
        "asks for memory__create",
        "agent: I note it.",
        "agent: Noted: the table at the window.",
        "caller: Which one was it?",
        "agent: The one at the window.",
        "the caller ends the call: hung up",
    ];
    for words in expected {
        ensure!(said.contains(words), "`{words}` was not said at aimock:\n{said}");
    }
    let version = std::fs::read_to_string(arguments.aimock.with_file_name("..").join("package.json"));
    let version: serde_json::Value = serde_json::from_str(&version.unwrap_or_default()).unwrap_or_default();
    writeln!(
        std::io::stdout(),
        "a call with a tool was held at aimock {}:\n\n{said}",
        version["version"].as_str().unwrap_or("1")
    )?;
    Ok(())
}
