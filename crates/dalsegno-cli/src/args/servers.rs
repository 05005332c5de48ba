//! The arguments of `dalsegno servers`.

use clap::{Args as ClapArgs, Subcommand};

use super::{DocumentArgs, Format};

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ServersArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<ServersVerb>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServersVerb {
    /// Start one server, check its tools and their schemas, and measure it
    #[command(after_help = CHECK_EXAMPLES)]
    Check(ServersCheckArgs),
}

impl ServersArgs {
    pub(super) fn format(&self) -> Format {
        match &self.verb {
            None => self.document.resolve(),
            Some(ServersVerb::Check(check)) => check.document.resolve(),
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ServersCheckArgs {
    /// The server, as dalsegno.toml names it
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  dalsegno servers
  dalsegno servers check risk
  dalsegno servers --json | jq -r '.[] | .name, .grants[]'";

const CHECK_EXAMPLES: &str = "\
Examples:
  dalsegno servers check risk
  dalsegno servers check risk --json | jq -r .digest";
