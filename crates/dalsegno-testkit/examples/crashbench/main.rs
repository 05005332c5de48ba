//! CrashBench: the multi-turn tasks of BFCL under SIGKILL and a misbehaving server.
//!
//! Each task of the benchmark becomes an agent whose model follows the benchmark's own answer, call by call and turn by
//! turn in one session. Its tools are the benchmark's, behind one MCP server that outlives the engine. The engine's process
//! is killed before and after commits and at random instants, and a new one resumes, until all turns are over. Then the
//! state of the tools must be the one that the benchmark's own executor reaches.
//!
//! `cargo xtask crashbench` installs what this needs, and runs it.

mod bench;
mod host;
mod server;
mod store;
mod trial;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// The folder with the packages of Python.
    pub(crate) python: PathBuf,
    /// How many tasks; all when absent.
    pub(crate) tasks: Option<usize>,
    /// Kill points to reach before it ends.
    pub(crate) kills: u64,
    /// Seeds what is drawn.
    pub(crate) seed: u64,
    /// A file for the table.
    pub(crate) table: Option<PathBuf>,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut python = None;
        let mut found = Self { python: PathBuf::new(), tasks: None, kills: 20_000, seed: 1, table: None };
        while let Some(word) = words.next() {
            let value = words.next().with_context(|| format!("`{word}` takes a value"))?;
            let number =
                || value.parse::<u64>().with_context(|| format!("`{word}` takes a number, not `{value}`"));
            match word.as_str() {
                "--python" => python = Some(PathBuf::from(&value)),
                "--tasks" => found.tasks = Some(usize::try_from(number()?)?),
                "--kills" => found.kills = number()?,
                "--seed" => found.seed = number()?,
                "--table" => found.table = Some(PathBuf::from(&value)),
                _ => {
                    bail!("`{word}` is not known: --python DIR, --tasks N, --kills N, --seed N, --table FILE")
                }
            }
        }
        found.python =
            python.context("`--python DIR` is missing: the folder in which `bfcl_eval` is installed")?;
        Ok(found)
    }
}

fn main() -> ExitCode {
    let done = match std::env::var(host::ORDERS) {
        Ok(orders) => serde_json::from_str(&orders)
            .context("the orders cannot be read")
            .and_then(|orders| host::live(&orders))
            .and_then(|said| host::print(&said))
            .map(|()| true),
        Err(_) => Arguments::parse(std::env::args().skip(1)).and_then(|arguments| bench::run(&arguments)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(2)
        }
    }
}
