//! Calls over a line, proven with what others wrote: types and clients of live models, and the mock server aimock.
//!
//! The frames that a session sends and takes, as its tests have them, must fit the types of `openai`; clients of others and the
//! command hold the same call at the provider of the testkit, which measures them; some of them hold many calls at once, and calls
//! whose callers interrupt; and the command holds one at aimock.
//!
//! `cargo xtask realtime` installs what this needs, and runs it.

mod aimock;
mod clients;
mod interruptions;
mod many;
mod process;
mod provider;
mod workspace;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};

const TYPES: &str = include_str!("types.py");

/// The frames as the tests of the pure crate have them.
const FRAMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dalsegno-realtime/tests/frames");

/// What is asked for.
#[derive(Debug, Default)]
struct Arguments {
    dalsegno: PathBuf,
    node: PathBuf,
    aimock: PathBuf,
    /// A folder with what others wrote: `python` and `node_modules`.
    voices: PathBuf,
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
                "--voices" => found.voices = value,
                _ => bail!("`{word}` is not known: --dalsegno, --node, --aimock, --voices"),
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
    let mut types = clients::python(&arguments.voices.join("python"), TYPES);
    let types = types.arg(FRAMES).status().context("`python3` cannot be started")?;
    ensure!(types.success(), "frames do not fit the types of the official SDK");
    aimock::hold(arguments)?;
    clients::hold(arguments)?;
    many::hold(arguments)?;
    interruptions::hold(arguments)
}
