//! What is asked for.

use std::env;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};

use crate::row::Row;

/// The help text.
pub(crate) const HELP: &str = "\
Measures `dalsegno serve`: a real process, in a workspace of its own.

Usage: serving [OPTIONS]

Options:
  --dalsegno <PROGRAM>  The command to measure; without it, the one that was built beside this program
  --only <ROW>          Only this row; repeat it for several
  --requests <N>        Requests of `read` over all connections, 20000 by default; `start` makes a twentieth of them
  --connections <N>     Connections at once of `read` and `start`, 50 by default
  --streams <N>         Idle streams, 10000 by default; fewer where the system allows fewer open files
  --steps <N>           Steps of the run of `again` and `page`, 10000 by default
  --kills <N>           Kills of the server, 200 by default
  --peers <FOLDER>      Measure `peers` too, with the packages of Python in this folder; `cargo xtask serving --peers` installs them
  --json                One JSON document instead of the table
  --help                Print this text

Rows:
  read    `GET /v1/runs/{id}`, beside a bare axum route that answers the same bytes
  start   `POST /v1/runs` of a plan of one step, beside `Engine::start` without a server
  stream  From the answer of a tool to its event at the client, of a run in this process of the server and in another
  idle    Memory and processor of a server with open streams of runs that wait
  slow    100 clients that read a byte a second, and a quick client beside them
  kill    `kill -9` while a client follows a run: gaps, repetitions, and the time until the server is ready again
  again   Coming back to a run of many steps: near its end, in its middle, and from its beginning
  page    The same run in Chromium: its first rows, any of its steps, and what keeps the browser busy; only where one is installed
  peers   Starts, runs, reads and streams of LangGraph's server, of aegra and of this server, and a long history of Temporal;
          only with `--peers`, and aegra needs PostgreSQL (`apt-get install postgresql`)

The journals are in a temporary folder. `TMPDIR` chooses another disk.

Examples:
  cargo xtask serving
  cargo xtask serving --only read --only start --connections 10
  cargo xtask serving --only idle --streams 1000 --json
  TMPDIR=/var/tmp cargo xtask serving --only again --steps 2000
  cargo xtask serving --only again --only peers --peers
";

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// The command.
    pub(crate) dalsegno: PathBuf,
    /// The rows; all where there are none.
    only: Vec<Row>,
    /// Requests of `read`.
    pub(crate) requests: usize,
    /// Connections at once.
    pub(crate) connections: usize,
    /// Idle streams.
    pub(crate) streams: usize,
    /// Steps of the long run.
    pub(crate) steps: usize,
    /// Kills of the server.
    pub(crate) kills: usize,
    /// The packages of Python that are servers of others; without them, those are not measured.
    pub(crate) peers: Option<PathBuf>,
    /// One JSON document instead of the table.
    pub(crate) json: bool,
}

impl Arguments {
    /// Reads them; none where the help is asked for.
    ///
    /// # Errors
    /// An argument is not known or not possible.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> anyhow::Result<Option<Self>> {
        let mut found = Self {
            dalsegno: beside()?,
            only: Vec::new(),
            requests: 20_000,
            connections: 50,
            streams: 10_000,
            steps: 10_000,
            kills: 200,
            peers: None,
            json: false,
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--help" | "-h" => return Ok(None),
                "--json" => {
                    found.json = true;
                    continue;
                }
                _ => {}
            }
            let value = words.next().with_context(|| format!("`{word}` takes a value"));
            match word.as_str() {
                // It is started in another folder.
                "--dalsegno" => found.dalsegno = std::path::absolute(value?)?,
                "--only" => found.only.push(Row::parse(&value?)?),
                "--requests" => found.requests = number(&word, &value?, 100, 500_000)?,
                "--connections" => found.connections = number(&word, &value?, 1, 1_000)?,
                "--streams" => found.streams = number(&word, &value?, 1, 50_000)?,
                "--steps" => found.steps = number(&word, &value?, 100, 50_000)?,
                "--kills" => found.kills = number(&word, &value?, 1, 10_000)?,
                "--peers" => found.peers = Some(std::path::absolute(value?)?),
                _ => bail!("`{word}` is not known: `--help` lists what is"),
            }
        }
        ensure!(
            found.peers.is_some() || !found.only.contains(&Row::Peers),
            "`--only peers` needs `--peers`, which names the folder of their packages"
        );
        Ok(Some(found))
    }

    /// The rows to measure, in their order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> {
        Row::ALL.into_iter().filter(|row| match row {
            Row::Peers => self.peers.is_some(),
            _ => self.only.is_empty() || self.only.contains(row),
        })
    }
}

/// The command that was built beside this program, which lies in a folder of its own.
fn beside() -> anyhow::Result<PathBuf> {
    let here = env::current_exe().context("this program does not know where it lies")?;
    let folder = here.ancestors().nth(2).context("this program lies in no target folder")?;
    Ok(folder.join(format!("dalsegno{}", env::consts::EXE_SUFFIX)))
}

fn number(word: &str, value: &str, least: usize, most: usize) -> anyhow::Result<usize> {
    let number = value.parse::<usize>().ok().filter(|number| (least..=most).contains(number));
    number.with_context(|| format!("`{word}` takes a number from {least} to {most}"))
}
