//! The arguments of `dalsegno cost`.

use clap::{Args as ClapArgs, ValueEnum};
use clap_complete::ArgValueCandidates;
use dalsegno_core::AgentName;

use super::DocumentArgs;
use super::runs::{Moment, moment};
use crate::complete;

#[derive(Debug, ClapArgs)]
pub(crate) struct CostArgs {
    /// What to group by; several, separated by commas, make one line for each combination. A day is one of the tenant's time
    /// zone, or of UTC if it has none
    #[arg(long, value_enum, value_delimiter = ',', default_value = "model", value_name = "WHAT")]
    pub(crate) by: Vec<GroupArg>,
    /// Only what was spent at this time or later: a time, a date, or how long ago, such as `7d`
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) since: Option<Moment>,
    /// Only what was spent before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) until: Option<Moment>,
    /// Filter by agent
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::agents))]
    pub(crate) agent: Option<AgentName>,
    /// Filter by tenant
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Filter by session
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

/// What lines of the table have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupArg {
    Run,
    Session,
    Agent,
    Tenant,
    Model,
    Day,
}

impl GroupArg {
    /// The word for it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Session => "session",
            Self::Agent => "agent",
            Self::Tenant => "tenant",
            Self::Model => "model",
            Self::Day => "day",
        }
    }
}

pub(super) const EXAMPLES: &str = "\
CACHED is the part of the tokens sent that the providers had in their caches. A `~` marks a cost with an estimated part.

Examples:
  dalsegno cost                                           by model
  dalsegno cost --by day --since 30d
  dalsegno cost --by tenant,model --since 2026-11-01 --until 2026-12-01
  dalsegno cost --by run --agent triage                   the most expensive runs first
  dalsegno cost --by day --json | jq '.lines[].usage.cost_nano_usd'";
