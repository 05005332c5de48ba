//! The arguments of `dalsegno eval`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueHint};

use super::DocumentArgs;
use super::gate::dollars;

#[derive(Debug, ClapArgs)]
pub(crate) struct EvalArgs {
    /// The eval file, such as `tests/evals/desk.toml`
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Compare with this version of the workspace: a revision of Git, such as `origin/main`, or a folder
    #[arg(long, value_name = "REVISION|FOLDER")]
    pub(crate) base: Option<String>,
    /// Try each item so often, each way, in place of what the file says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) trials: Option<u32>,
    /// Try so many items at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_items: Option<u32>,
    /// Try only the item with this id
    #[arg(long, value_name = "ID", conflicts_with = "max_items")]
    pub(crate) item: Option<String>,
    /// Try so many items at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) jobs: u32,
    /// Begin no further item once the next one might pass this amount, with all that the eval has cost until now
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) max_cost_usd: Option<u64>,
    /// The pass rate that must be reached, such as `0.9`, in place of what the file says
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) at_least: Option<f64>,
    /// Try all items, and do not stop as soon as the answer is known
    #[arg(long)]
    pub(crate) all: bool,
    /// Also write the report as one HTML file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.0..=1.0).contains(rate));
    rate.ok_or_else(|| "expected a rate from 0 to 1, such as 0.9".to_owned())
}

pub(super) const EXAMPLES: &str = "\
Examples:
  dalsegno eval tests/evals/desk.toml     each item of the data set through the agent
  dalsegno eval tests/evals/desk.toml --at-least 0.9
                                          does the agent pass nine of ten?
  dalsegno eval tests/evals/desk.toml --base origin/main --trials 3
                                          is it better than before the change?
  dalsegno eval tests/evals/desk.toml --max-cost-usd 5 --report desk.html
  dalsegno eval tests/evals/desk.toml --item INC-7
                                          one item, to see why it does not pass

Trials are runs in a journal of their own. After a crash or Ctrl-C, the same command performs only what is missing.

Exit codes:
  0 done, reached, better or as good   2 bad input, nothing was started   3 worse, or not reached   5 inconclusive";
