//! The arguments of `dalsegno bench`.

use clap::Args as ClapArgs;

use super::DocumentArgs;

#[derive(Debug, ClapArgs)]
pub(crate) struct BenchArgs {
    /// Number of turns of each run, 10 to 40,000; a turn is one model call and one tool call
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(10..=40_000))]
    pub(crate) turns: u64,
    /// Number of concurrent runs, 1 to 1,000
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(crate) runs: u64,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  dalsegno bench                          one run on the disk of this workspace
  dalsegno bench --turns 500 --runs 100   many runs share each flush of the disk
  dalsegno bench --json | jq .ratio_to_2f";
