//! The arguments of `dalsegno webhook`.

use clap::{Args as ClapArgs, Subcommand};
use dalsegno_webhooks::Event;

use super::{DocumentArgs, Format, names};

#[derive(Debug, ClapArgs)]
pub(crate) struct WebhookArgs {
    #[command(subcommand)]
    pub(crate) verb: WebhookVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WebhookVerb {
    /// Add a webhook and show its signing secret once
    #[command(after_help = ADD_EXAMPLES)]
    Add(WebhookAddArgs),
    /// List the webhooks, and how their deliveries are going
    #[command(after_help = LIST_EXAMPLES)]
    List(WebhookListArgs),
    /// Send a test to a webhook, once, and say what the receiver answered
    #[command(after_help = TEST_EXAMPLES)]
    Test(WebhookOneArgs),
    /// Turn a webhook on again; what happened while it was off is delivered
    #[command(after_help = ENABLE_EXAMPLES)]
    Enable(WebhookOneArgs),
    /// Give a webhook another secret and show it once; the old one signs as well for 24 hours
    #[command(after_help = ROTATE_EXAMPLES)]
    Rotate(WebhookOneArgs),
    /// Remove a webhook with all that waits for it
    #[command(after_help = REMOVE_EXAMPLES)]
    Remove(WebhookOneArgs),
}

impl WebhookVerb {
    pub(super) fn format(&self) -> Format {
        match self {
            Self::Add(add) => add.document.resolve(),
            Self::List(list) => list.document.resolve(),
            Self::Test(one) | Self::Enable(one) | Self::Rotate(one) | Self::Remove(one) => {
                one.document.resolve()
            }
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct WebhookAddArgs {
    /// Where deliveries go: `https` at a public address, or one of `webhooks` in `[serve]` of dalsegno.toml
    pub(crate) url: String,
    /// Event that it wants; repeat for several, all without it
    #[arg(long, value_name = "EVENT", value_parser = names::<Event>(Event::ALL.iter().map(|event| event.as_str())))]
    pub(crate) event: Vec<Event>,
    /// Tenant whose runs it is about
    #[arg(long, value_name = "NAME", required_unless_present = "all_tenants")]
    pub(crate) tenant: Option<String>,
    /// Tell it of the runs of all tenants
    #[arg(long, conflicts_with = "tenant")]
    pub(crate) all_tenants: bool,
    /// Only runs of this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<dalsegno_core::AgentName>,
    /// Only runs that no other run started
    #[arg(long)]
    pub(crate) root: bool,
    /// Send along what a run says: its answer, its error, what it waits for
    #[arg(long)]
    pub(crate) content: bool,
    /// Name of the webhook for people
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct WebhookListArgs {
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct WebhookOneArgs {
    /// Id of the webhook, or the beginning of it
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  dalsegno webhook add https://hooks.example.com/dalsegno --tenant acme
  dalsegno webhook list
  dalsegno webhook test 3fa94c
  dalsegno webhook remove 3fa94c";

const ADD_EXAMPLES: &str = "\
Examples:
  dalsegno webhook add https://hooks.example.com/dalsegno --tenant acme
  dalsegno webhook add https://hooks.example.com/ends --tenant acme --event run.completed --event run.failed --content
  dalsegno webhook add https://hooks.example.com/all --all-tenants --root --name billing";

const LIST_EXAMPLES: &str = "\
Examples:
  dalsegno webhook list
  dalsegno webhook list --json";

const TEST_EXAMPLES: &str = "\
Examples:
  dalsegno webhook test 3fa94c";

const ENABLE_EXAMPLES: &str = "\
Examples:
  dalsegno webhook enable 3fa94c";

const ROTATE_EXAMPLES: &str = "\
Examples:
  dalsegno webhook rotate 3fa94c";

const REMOVE_EXAMPLES: &str = "\
Examples:
  dalsegno webhook remove 3fa94c";
