//! The arguments of `dalsegno call list`, `hangup` and `check`.

use clap::Args as ClapArgs;
use clap_complete::ArgValueCandidates;

use super::DocumentArgs;
use crate::complete;

#[derive(Debug, ClapArgs)]
pub(crate) struct CallListArgs {
    /// Only calls of this line
    #[arg(long, value_name = "NAME")]
    pub(crate) line: Option<String>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CallHangupArgs {
    /// The run of the call: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs))]
    pub(crate) run: String,
    /// Reason; recorded
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Name of the person who hangs up
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CallCheckArgs {
    /// The line: a `[voice.lines.*]` of `dalsegno.toml`
    pub(crate) line: String,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

pub(super) const LIST_EXAMPLES: &str = "\
Examples:
  dalsegno call list
  dalsegno call list --line front --json";

pub(super) const HANGUP_EXAMPLES: &str = "\
Examples:
  dalsegno call hangup 4e2b
  dalsegno call hangup last --by ada --reason \"nuisance caller\"";

pub(super) const CHECK_EXAMPLES: &str = "\
Examples:
  dalsegno call check front
  dalsegno call check front --json";
