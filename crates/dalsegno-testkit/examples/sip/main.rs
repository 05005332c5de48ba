//! Telephone calls over SIP: `sipp` calls a user agent made with `rsipstack`, behind which are the provider of the testkit and a
//! real `dalsegno serve`.
//!
//! Callers are answered, transferred, hung up and refused, give up, forge headers and come all at once. What their telephones saw
//! and what the runs say is compared with what it must be.
//!
//! `cargo xtask sip` runs this.

mod caller;
mod trials;
mod trunk;
mod workspace;
mod world;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::ensure;

use caller::Sipp;
use trials::{TRIALS, Tried, forged};
use world::World;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let dalsegno = match words.as_slice() {
        [flag, dalsegno] if flag == "--dalsegno" => std::path::absolute(dalsegno)?,
        _ => anyhow::bail!("`--dalsegno <PROGRAM>` is needed, and nothing else"),
    };
    let mut out = std::io::stdout();
    let versions =
        [format!("sipp {}", Sipp::version()?), rsipstack::VERSION.replace('/', " "), "dalsegno".to_owned()];
    writeln!(
        out,
        "{} calls {} before {} {}\n",
        versions[0],
        versions[1],
        versions[2],
        env!("CARGO_PKG_VERSION")
    )?;
    let mut world = World::new(dalsegno)?;
    let (mut tried, mut failed) = (0, Vec::new());
    let mut write = |name: &str, outcome: Tried| -> anyhow::Result<()> {
        tried += 1;
        match outcome {
            Ok((saw, came)) => writeln!(out, "{name:<62} | {saw:<52} | {came}")?,
            Err(error) => {
                writeln!(out, "{name:<62} | FAILED: {error:#}")?;
                failed.push(name.to_owned());
            }
        }
        Ok(())
    };
    for (name, trial) in TRIALS {
        write(name, trial(&mut world))?;
    }
    for header in forged() {
        write(header.name, header.tried(&mut world))?;
    }
    // After all of these, the next caller is answered.
    let (name, ordinary) = TRIALS[0];
    write(&format!("{name}, after all that"), ordinary(&mut world))?;
    write("every run", world.is_sound())?;
    ensure!(failed.is_empty(), "{} of {tried} are not as they must be: {}", failed.len(), failed.join("; "));
    writeln!(out, "\nall {tried} are as they must be")?;
    Ok(())
}

impl World {
    /// All runs replay, and nothing was refused or panicked.
    fn is_sound(&self) -> Tried {
        let runs = self.workspace.replays()?;
        let log = self.workspace.log()?;
        let panic = log.lines().find(|line| line.contains("panicked"));
        ensure!(panic.is_none(), "the server panicked: {}", panic.unwrap_or_default());
        let errors = self.errors();
        ensure!(errors.is_empty(), "the provider refused {errors:?}");
        Ok((
            String::new(),
            format!("{runs} runs replay, the provider refused no frame, and no process panicked"),
        ))
    }
}
