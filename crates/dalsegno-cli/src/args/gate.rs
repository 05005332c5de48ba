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
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  dalsegno gate                           what would recorded runs do under the files as they are now?
  dalsegno gate --base origin/main        only what the changes since `origin/main` alter
  dalsegno gate --agent desk --since 30d
  dalsegno gate --sample 500 --json

Nothing is performed and no model is asked. The changed lines are found with Git.

Exit codes:
  0 no run would differ   2 bad input   3 a run would differ   5 no run could be compared";
