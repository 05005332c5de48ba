//! The arguments of `dalsegno trigger`.

use clap::{Args as ClapArgs, Subcommand};

use super::{DocumentArgs, Format};

#[derive(Debug, ClapArgs)]
pub(crate) struct TriggerArgs {
    #[command(subcommand)]
    pub(crate) verb: TriggerVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TriggerVerb {
    /// Show what a delivery would start, without starting it
    #[command(after_help = TEST_EXAMPLES)]
    Test(TriggerTestArgs),
}

impl TriggerVerb {
    pub(super) fn format(&self) -> Format {
        match self {
            Self::Test(test) => test.document.resolve(),
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TriggerTestArgs {
    /// Name of the trigger in `[triggers.NAME]` of dalsegno.toml
    pub(crate) name: String,
    /// Body of the delivery, as JSON: a text, `@FILE`, or `-` for standard input
    pub(crate) body: String,
    /// Header of the delivery; repeat for several
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) header: Vec<(String, String)>,
    /// Parameter of the address; repeat for several
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    pub(crate) query: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected a name and a value with `:` between")?;
    Ok((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected a name and a value with `=` between")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) const EXAMPLES: &str = "\
Examples:
  dalsegno trigger test issues @delivery.json --header \"X-GitHub-Event: issues\"";

const TEST_EXAMPLES: &str = "\
Examples:
  dalsegno trigger test issues @delivery.json --header \"X-GitHub-Event: issues\"
  dalsegno trigger test alerts '{\"host\": \"db-1\"}' --query severity=high --json";
