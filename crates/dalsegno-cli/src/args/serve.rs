//! The arguments of `dalsegno serve` and `dalsegno key`.

use std::net::SocketAddr;

use clap::{Args as ClapArgs, Subcommand};
use dalsegno_access::Scope;

use super::{DocumentArgs, Format, StreamArgs, names};

#[derive(Debug, ClapArgs)]
pub(crate) struct ServeArgs {
    /// Address and port to listen at, in place of `[serve]` in dalsegno.toml; port 0 is any free one
    #[arg(long, value_name = "ADDR")]
    pub(crate) address: Option<SocketAddr>,
    /// Print a sign-in link for the browser even where the output is not a terminal, or the server is not of this machine alone
    #[arg(long)]
    pub(crate) sign_in_link: bool,
    /// Maximum number of concurrent runs that this process resumes
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrency: u16,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    pub(crate) verb: KeyVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyVerb {
    /// Make an access key and show it once
    #[command(after_help = ADD_EXAMPLES)]
    Add(KeyAddArgs),
    /// List the access keys, never the keys themselves
    #[command(after_help = LIST_EXAMPLES)]
    List(KeyListArgs),
    /// Revoke an access key: no process accepts it from then on
    #[command(after_help = REVOKE_EXAMPLES)]
    Revoke(KeyRevokeArgs),
}

impl KeyVerb {
    pub(super) fn format(&self) -> Format {
        match self {
            Self::Add(add) => add.document.resolve(),
            Self::List(list) => list.document.resolve(),
            Self::Revoke(revoke) => revoke.document.resolve(),
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct KeyAddArgs {
    /// Scope of the key: what it allows; repeat for several
    #[arg(long, value_name = "SCOPE", required = true, value_parser = names::<Scope>(Scope::ALL.iter().map(|scope| scope.as_str())))]
    pub(crate) scope: Vec<Scope>,
    /// Tenant whose runs the key reaches
    #[arg(long, value_name = "NAME", required_unless_present = "all_tenants")]
    pub(crate) tenant: Option<String>,
    /// Let the key reach the runs of all tenants
    #[arg(long, conflicts_with = "tenant")]
    pub(crate) all_tenants: bool,
    /// Name of the key for people; recorded with what it changes
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// Number of days after which the key expires; never without it
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub(crate) expires_in: Option<u32>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct KeyListArgs {
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct KeyRevokeArgs {
    /// Id of the key, or the beginning of it
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

pub(super) const SERVE_EXAMPLES: &str = "\
Examples:
  dalsegno key add --tenant default --scope runs:write --scope runs:read
  dalsegno serve
  dalsegno serve --address 127.0.0.1:9000
  dalsegno serve --sign-in-link 2> link.txt";

pub(super) const KEY_EXAMPLES: &str = "\
Examples:
  dalsegno key add --tenant acme --scope runs:write --scope runs:read
  dalsegno key list
  dalsegno key revoke 3fa94c";

const ADD_EXAMPLES: &str = "\
Scopes:
  runs:list       list runs, without what they were asked
  runs:read       read runs: requests, records, answers and questions
  runs:write      start, fork, pause and cancel runs
  runs:erase      erase the content of runs, for ever
  answers:write   answer what runs wait for, approvals included
  agents:read     list the agents; with --all-tenants, read their documents
  agents:write    change the documents of agents; only with --all-tenants
  tools:read      list tools, and read the documents of tools and tenants
  tools:write     change and try tools, and change the tenant's document but for what the next one is for
  tenants:admin   add and delete tenants, and change which hosts they reach and what they may spend
  webhooks:read   list webhooks, and how they are going
  webhooks:write  add, test, change and remove webhooks
  metrics:read    read the metrics of the server; only with --all-tenants

Examples:
  dalsegno key add --tenant acme --scope runs:write --scope runs:read --name ci
  dalsegno key add --all-tenants --scope metrics:read --expires-in 365";

const LIST_EXAMPLES: &str = "\
Examples:
  dalsegno key list
  dalsegno key list --json";

const REVOKE_EXAMPLES: &str = "\
Examples:
  dalsegno key revoke 3fa94c";
