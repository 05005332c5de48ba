//! The arguments of `dalsegno auth`.

use std::num::NonZeroU64;

use clap::Args as ClapArgs;
use dalsegno_core::AgentName;

use super::{DocumentArgs, Format};

#[derive(Debug, ClapArgs)]
pub(crate) struct AuthArgs {
    /// Toolkit with `auth = "oauth2"`, or tool server with `[servers.NAME.oauth]`
    pub(crate) name: String,
    /// Tenant that gets access to the toolkit; access to a tool server applies to all tenants
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) tenant: String,
    /// Agent that gets access of its own, if the tenant's file allows it (`own_access`)
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<AgentName>,
    /// Do not wait for the browser: paste the address it was redirected to, such as when it runs on another machine
    #[arg(long)]
    pub(crate) no_listen: bool,
    /// Local port for the login redirect, for a service that must know it in advance [default: any]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Maximum time to wait for the answer, in seconds
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
Writes an address for you to open in a browser. The tokens that the service grants are kept and
refreshed in the secret store, and never enter a journal.

Examples:
  dalsegno auth google_calendar
  dalsegno auth google_calendar --tenant acme --no-listen
  dalsegno auth tickets";
