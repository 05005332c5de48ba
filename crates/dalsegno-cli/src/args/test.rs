//! The arguments of `dalsegno test`.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueHint};
use clap_complete::ArgValueCandidates;

use super::DocumentArgs;
use crate::complete;

#[derive(Debug, ClapArgs)]
pub(crate) struct TestArgs {
    /// Run only the cases whose name, file or agent contains one of these texts
    #[arg(value_name = "FILTER")]
    pub(crate) filters: Vec<String>,
    /// Accept the runs as they are now as the snapshots of their cases
    #[arg(long)]
    pub(crate) accept: bool,
    /// Run the cases again whenever a file changes that they depend on, until you press Ctrl-C
    #[arg(long, conflicts_with = "accept")]
    pub(crate) watch: bool,
    /// Make up other runs of properties: a number, the same one always the same runs, or `random`
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = seed)]
    pub(crate) seed: u64,
    /// How many runs of each property are made up, in place of what its file says
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: Option<u32>,
    /// Also write the results as JUnit XML, for a build server
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) junit: Option<PathBuf>,
    /// Make a case of a recorded run: its outcomes become a cassette in `tests/cassettes`
    #[arg(long, value_name = "RUN", add = ArgValueCandidates::new(complete::runs), conflicts_with_all = ["filters", "accept", "junit", "seed", "runs", "watch"])]
    pub(crate) from_run: Option<String>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

/// Reads a seed.
fn seed(text: &str) -> Result<u64, String> {
    if text == "random" {
        // The keys of the standard library's hash tables are random.
        return Ok(RandomState::new().build_hasher().finish());
    }
    text.parse().map_err(|_| "expected a whole number from 0 on, or `random`".to_owned())
}

pub(super) const EXAMPLES: &str = "\
Examples:
  dalsegno test                           all cases of tests/*.toml, offline
  dalsegno test refund                    those with `refund` in name, file or agent
  dalsegno test --verbose                 what happened in each of them
  dalsegno test --watch                   again after each change
  dalsegno test --seed random --runs 10000
                                          look longer for a run that breaks a property
  dalsegno test --accept                  the runs are right: keep them as snapshots
  dalsegno test --junit report.xml
  dalsegno test --from-run last           make a case of a recorded run

Exit codes:
  0 all cases hold   2 a file has errors, nothing was run   3 a case does not hold";
