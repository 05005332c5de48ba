//! Measures `dalsegno serve` from outside: a real process, in a workspace that this program makes.
//!
//! Each row has a server of its own. What depends on the machine is compared with something in the same run: reads with a bare
//! route that answers the same bytes, starts with the engine without a server, a quick client with itself. What depends on the disk
//! stands beside `F`, the time of one commit of 1 KiB, as `dalsegno bench` measures it.
//!
//! `cargo xtask serving` builds what this needs, and runs it. `--help` lists the rows. With `--peers`, it installs servers of others
//! as well, which are asked for the same.

mod again;
mod arguments;
mod bare;
#[expect(dead_code, reason = "most of it is for the tests of the pages")]
#[expect(clippy::unwrap_used, reason = "a browser that fails ends its row")]
#[path = "../../../dalsegno-cli/tests/browser/chromium.rs"]
mod chromium;
mod client;
mod idle;
mod kill;
mod line;
mod page;
mod peer;
mod peers;
mod process;
mod read;
mod rings;
mod row;
mod slow;
mod start;
mod stream;
mod times;
mod workspace;

use std::io::Write as _;
use std::process::ExitCode;

use crate::arguments::{Arguments, HELP};
use crate::line::Table;

fn main() -> ExitCode {
    if let Some(body) = bare::body_of_this_process() {
        return match bare::serve(body) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        };
    }
    match Arguments::parse(std::env::args().skip(1)) {
        Ok(None) => {
            let _ = write!(std::io::stdout(), "{HELP}");
            ExitCode::SUCCESS
        }
        Ok(Some(arguments)) => match run(&arguments) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => failed(&error),
        },
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "error: {error:#}");
    ExitCode::from(2)
}

/// Measures the rows that were asked for, prints them, and says whether every budget was measured and kept.
fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let mut notes = std::io::stderr();
    if cfg!(debug_assertions) {
        writeln!(notes, "this is no release build: the figures say nothing")?;
    }
    // Before the first process is started: it has the same limit.
    process::raise_files();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut table = Table::default();
    for row in arguments.rows() {
        writeln!(notes, "measuring: {} …", row.name())?;
        table.add(row.name(), runtime.block_on(row.measure(arguments)));
    }
    let said = if arguments.json { table.json() } else { table.text() };
    writeln!(std::io::stdout(), "{said}")?;
    Ok(table.is_kept())
}
