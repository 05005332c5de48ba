//! Calls over a line, proven with what others wrote: the types and the client of the official SDK, and the mock server aimock.
//!
//! The frames that a session sends and takes, as its tests have them, must fit the types of `openai`; its client holds a call with a
//! tool at the provider of the testkit; and the command holds one at aimock.
//!
//! `cargo xtask realtime` installs what this needs, and runs it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context as _, bail, ensure};
use dalsegno_testkit::{LiveAnswer, LiveModel};
use serde_json::json;

const TYPES: &str = include_str!("types.py");
const CLIENT: &str = include_str!("client.py");

/// The frames as the tests of the pure crate have them.
const SENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dalsegno-realtime/tests/frames/sent.jsonl");
const TAKEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dalsegno-realtime/tests/frames/taken.jsonl");

/// What is asked for.
#[derive(Debug, Default)]
struct Arguments {
    dalsegno: PathBuf,
    node: PathBuf,
    aimock: PathBuf,
    python: PathBuf,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut found = Self::default();
        while let Some(word) = words.next() {
            let value = words.next().with_context(|| format!("`{word}` takes a value"))?.into();
            match word.as_str() {
                "--dalsegno" => found.dalsegno = value,
                "--node" => found.node = value,
                "--aimock" => found.aimock = value,
                "--python" => found.python = value,
                _ => bail!("`{word}` is not known: --dalsegno, --node, --aimock, --python"),
            }
        }
        Ok(found)
    }
}

fn main() -> ExitCode {
    match Arguments::parse(std::env::args().skip(1)).and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut types = python(arguments, TYPES);
    let types = types.args([SENT, TAKEN]).status().context("`python3` cannot be started")?;
    ensure!(types.success(), "frames do not fit the types of the official SDK");
    client(arguments)?;
    aimock(arguments)
}

fn python(arguments: &Arguments, program: &str) -> Command {
    let mut python = Command::new("python3");
    python.args(["-c", program]).env("PYTHONPATH", &arguments.python);
    python
}

/// The official client holds a call at the provider of the testkit.
fn client(arguments: &Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let answers = [LiveAnswer::asks("book__find", &json!({})), LiveAnswer::says("There is one at eight.")];
    let live = runtime.block_on(LiveModel::start(answers))?;
    let held =
        python(arguments, CLIENT).arg(live.base_url()).status().context("`python3` cannot be started")?;
    ensure!(held.success(), "the official client could not hold a call");
    let errors = live.book().errors;
    ensure!(errors.is_empty(), "the provider refused the official client: {errors:?}");
    Ok(())
}

/// The running program. Dropped, it ends.
struct Aimock(Child);

impl Drop for Aimock {
    fn drop(&mut self) {
        // It has ended by itself where this fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command holds a call at aimock.
fn aimock(arguments: &Arguments) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, text)
    };
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
    write("fixtures.json", &fixtures.to_string())?;
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
    write(
        "dalsegno.toml",
        &format!(
            "[models.default]\nprovider = \"script\"\nfile = \"model.toml\"\n[voice.lines.front]\nsurface = \"realtime\"\n\
             transport = \"text\"\nmodel = \"gpt-realtime-2.1\"\nbase_url = \"http://{address}/v1\"\n"
        ),
    )?;
    write("model.toml", "[[replies]]\ntext = \"Hello.\"\n")?;
    write(
        "agents/desk.toml",
        "name = \"desk\"\nversion = \"1.0.0\"\ndescription = \"Takes calls.\"\ninstructions = \"You take calls.\"\n\
         [model]\nuse = \"default\"\n[tools]\nallow = [\"memory.*\"]\n[voice]\n",
    )?;
    let said = converse(&arguments.dalsegno, folder.path(), &format!("{note}\nWhich one was it?\n"))?;
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

/// What the command says of a call with this caller.
fn converse(dalsegno: &Path, folder: &Path, caller: &str) -> anyhow::Result<String> {
    let mut call = Command::new(dalsegno)
        .args(["call", "text", "desk", "--line", "front"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("the command cannot be started")?;
    call.stdin.take().context("the command has no input")?.write_all(caller.as_bytes())?;
    let output = call.wait_with_output()?;
    ensure!(output.status.success(), "the call failed: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
