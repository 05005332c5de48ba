//! The arguments of `dalsegno trust`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueHint};

use super::DocumentArgs;

#[derive(Debug, ClapArgs)]
pub(crate) struct TrustArgs {
    /// The workspace to trust as it is now; without it, list those that you trust
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
    /// Trust it no longer
    #[arg(long, requires = "dir")]
    pub(crate) revoke: bool,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  dalsegno trust                          which workspaces do you trust?
  dalsegno trust .                        this one, with the programs that it starts
  dalsegno trust /srv/agents --revoke";
