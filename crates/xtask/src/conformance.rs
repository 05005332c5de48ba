//! The official conformance suite, the reference servers of MCP, and the Python SDK, against this project's client and
//! guests.
//!
//! They are JavaScript and Python, so this needs a network once, a Python 3.10 or later with pip, and Node 22 or later:
//! that of this machine, or one from PyPI.

mod agent;
pub(crate) mod packages;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::build::{GUEST_FOLDER, GUESTS};
use crate::process::{cargo, command, perform, root};

/// The revisions whose scenarios are run.
const REVISIONS: [&str; 2] = ["2026-07-28", "2025-11-25"];

/// The reference servers, each with a tool, and its arguments.
const SERVERS: [(&str, &str, &str); 3] = [
    ("mcp-server-everything", "echo", r#"{"message":"hello"}"#),
    ("mcp-server-filesystem", "list_directory", r#"{"path":"."}"#),
    ("mcp-server-memory", "read_graph", "{}"),
];

/// What is called of the server of the Python SDK.
const CALL: [&str; 2] = ["add", r#"{"a":2,"b":3}"#];

/// Runs everything, and fails if a scenario failed that is not in the list of expected failures.
///
/// # Errors
/// Something could not be installed, built or started, or a scenario or a server failed.
pub(crate) fn run() -> anyhow::Result<()> {
    let folder = root().join("target/conformance");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let node = packages::node(&folder)?;
    packages::npm(&folder, &node)?;
    let python = packages::python(&folder)?;
    // The features of the whole workspace, so that nothing is compiled again: see `build::dalsegno`.
    perform(cargo().args(["build", "--locked", "--quiet", "--workspace", "--test", "doors"]).args([
        "--example",
        "conformance",
        "--example",
        "reference",
    ]))?;
    let examples = root().join("target/debug/examples");
    let modules = folder.join("node_modules");

    let mut failed = Vec::new();
    let mut check = |what: &str, outcome: anyhow::Result<()>| {
        if let Err(error) = outcome {
            println!("{what} FAILED: {error:#}");
            failed.push(format!("{what}: {error:#}"));
        }
    };
    for revision in REVISIONS {
        println!("\nconformance, requirements of {revision}:");
        let expected = root().join(format!("crates/dalsegno-mcp/tests/conformance/{revision}.yaml"));
        let mut suite = node.command();
        suite
            .arg(modules.join("@modelcontextprotocol/conformance/dist/index.js"))
            .args(["client", "--requirements", revision, "--command"])
            .arg(examples.join("conformance"))
            .arg("--expected-failures")
            .arg(expected)
            .arg("--output-dir")
            .arg(folder.join("results").join(revision));
        check(revision, perform(&mut suite));
    }
    for (server, tool, arguments) in SERVERS {
        println!("\n{server}:");
        let mut started = node.with_path(command(examples.join("reference")));
        started.args([tool, arguments]).arg(&node.program).arg(modules.join(".bin").join(server));
        if server == "mcp-server-filesystem" {
            started.arg(&folder);
            started.current_dir(&folder);
        }
        check(server, perform(&mut started));
    }

    let script = root().join("crates/dalsegno-mcp/tests/conformance/server.py");
    println!("\nthe Python SDK's server, over stdio:");
    let mut started = command(examples.join("reference"));
    started.args(CALL).arg("python3").arg(&script).env("PYTHONPATH", &python);
    check("Python, stdio", perform(&mut started));

    println!("\nthe Python SDK's server, over streamable HTTP:");
    let web = Web::start(&script, &python)?;
    let mut asked = command(examples.join("reference"));
    asked.args(CALL).arg(&web.address);
    check("Python, HTTP", perform(&mut asked));

    println!("\nan agent that visits all of them:");
    check("agent", agent::run(&folder, &node, &python, &web.address));
    drop(web);

    println!("\nthe Python SDK's client with `risk`, built for this machine:");
    check("Python client", client(&python));
    if failed.is_empty() {
        println!("\nall of it passed");
        return Ok(());
    }
    bail!("{}", failed.join("\n"))
}

/// Builds a guest for this machine, and has the Python SDK's client call it.
fn client(python: &Path) -> anyhow::Result<()> {
    perform(cargo().args(["build", "--locked", "--quiet", "-p", "risk"]).args(GUESTS).args(GUEST_FOLDER))?;
    let script = root().join("crates/dalsegno-mcp/tests/conformance/client.py");
    let mut client = command("python3");
    client.arg(script).args(["score", r#"{"text":"the database is down"}"#, "level"]);
    client.arg(root().join("tool-servers/target/debug/risk")).env("PYTHONPATH", python);
    perform(&mut client)
}

/// The server of the Python SDK over HTTP. Dropped, it ends.
struct Web {
    process: Child,
    address: String,
}

impl Web {
    fn start(script: &Path, python: &Path) -> anyhow::Result<Self> {
        // Free now, and nobody else on this machine is likely to take it before the server does.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut started = command("python3");
        started.arg(script).args(["--http", &port.to_string()]).env("PYTHONPATH", python);
        let process = started.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let web = Self { process, address: format!("http://127.0.0.1:{port}/mcp") };
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > deadline {
                bail!("the server of the Python SDK did not listen within {START_TIMEOUT:?}");
            }
            sleep(Duration::from_millis(100));
        }
        Ok(web)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // It has ended by itself where this fails.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Python needs seconds for its imports on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
