//! The arguments of `dalsegno trust`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueHint};

use super::DocumentArgs;

#[derive(Debug, ClapArgs)]
pub(crate) struct TrustArgs {
    /// Workspace to trust in its current state; without it, list the workspaces that you trust
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
    /// Stop trusting the workspace
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
