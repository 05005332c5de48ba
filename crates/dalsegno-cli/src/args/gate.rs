//! The arguments of `dalsegno gate`.

use clap::Args as ClapArgs;
use clap_complete::ArgValueCandidates;
use dalsegno_core::AgentName;

use super::DocumentArgs;
use super::runs::{Moment, moment};
use crate::complete;

#[derive(Debug, ClapArgs)]
pub(crate) struct GateArgs {
    /// Compare with this version, and not with what each run began with: a revision of Git, such as `origin/main`, or a folder
    #[arg(long, value_name = "REVISION|FOLDER")]
    pub(crate) base: Option<String>,
    /// Only runs of this agent
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::agents))]
    pub(crate) agent: Option<AgentName>,
    /// Only runs of this tenant
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Only runs that began at this time or later: a time, a date, or how long ago, such as `7d`
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) since: Option<Moment>,
    /// Only so many runs, evenly spread over all of them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) sample: Option<u32>,
    /// Where a request to a model has changed, ask the model, as before and as now: does it decide otherwise? Costs tokens, and calls
    /// no tool
    #[arg(long, group = "models")]
    pub(crate) teacher_forced: bool,
    /// Fork the runs that would differ at their first difference, at most so many times each way, and let models decide to the end:
    /// do they end otherwise? Costs tokens. Tools answer with what was recorded; only what reads is called
    #[arg(long, value_name = "N", group = "models", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) live: Option<u64>,
    /// Ask so many times each way at most
    #[arg(long, value_name = "N", requires = "teacher_forced", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) asks: u64,
    /// Do not ask again once this has been spent
    #[arg(long, value_name = "USD", requires = "models", value_parser = dollars)]
    pub(crate) max_cost_usd: Option<u64>,
    /// The smallest difference that counts, in percentage points of all decisions
    #[arg(long, value_name = "POINTS", requires = "models", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=50))]
    pub(crate) smallest: u8,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

/// An amount of US dollars, in billionths.
pub(super) fn dollars(text: &str) -> Result<u64, String> {
    let amount: f64 =
        text.parse().map_err(|_| "expected an amount in US dollars, such as 2.50".to_owned())?;
    if !(0.0..=1_000_000.0).contains(&amount) {
        return Err("expected an amount from 0 to 1000000".to_owned());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was compared just now")]
    Ok((amount * 1e9).round() as u64)
}

pub(super) const EXAMPLES: &str = "\
Examples:
  dalsegno gate                           what would recorded runs do under the files as they are now?
  dalsegno gate --base origin/main        only what the changes since `origin/main` alter
  dalsegno gate --agent desk --since 30d
  dalsegno gate --sample 500 --json
  dalsegno gate --teacher-forced --max-cost-usd 2
                                          does the changed prompt change what the model decides?
  dalsegno gate --live 50 --max-cost-usd 5
                                          and what becomes of the runs then?

Nothing is performed, and no model is asked without `--teacher-forced` or `--live`. The changed lines are found with Git.

Exit codes:
  0 no run would differ   2 bad input   3 a run would differ   5 inconclusive";
