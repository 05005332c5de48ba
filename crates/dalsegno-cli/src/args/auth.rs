//! The arguments of `dalsegno auth`.

use std::num::NonZeroU64;

use clap::Args as ClapArgs;
use dalsegno_core::AgentName;

use super::{DocumentArgs, Format};

#[derive(Debug, ClapArgs)]
pub(crate) struct AuthArgs {
    /// The toolkit, whose `auth` is `oauth2`, or the tool server, which has `[servers.NAME.oauth]`
    pub(crate) name: String,
    /// The tenant for whom access to a toolkit is given; access to a tool server counts for all
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) tenant: String,
    /// The agent for which alone access is given, where the tenant's file says so (`own_access`)
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<AgentName>,
    /// Do not wait for the browser: paste the address that it was sent to, as one does where it runs on another machine
    #[arg(long)]
    pub(crate) no_listen: bool,
    /// The port of this machine that the browser is sent back to, where the service wants to know it before [default: any]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// The longest to wait for the answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "300")]
    pub(crate) timeout: NonZeroU64,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

impl AuthArgs {
    pub(super) fn format(&self) -> Format {
        self.document.resolve()
    }
}

pub(super) const EXAMPLES: &str = "\
Writes an address, which a person opens in a browser. What the service gives for the consent stands
in the secret store from then on, is refreshed there, and is in no journal.

Examples:
  dalsegno auth google_calendar
  dalsegno auth google_calendar --tenant acme --no-listen
  dalsegno auth tickets";
