//! The arguments of `dalsegno tools`.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args as ClapArgs, Subcommand, ValueHint};
use dalsegno_core::ToolName;
use dalsegno_workspace::batteries;

use super::{DocumentArgs, Format};

#[derive(Debug, ClapArgs)]
pub(crate) struct ToolsArgs {
    #[command(subcommand)]
    pub(crate) verb: ToolsVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsVerb {
    /// List all tools: built-in ones, agents, and those of every tool server
    #[command(after_help = LIST_EXAMPLES)]
    List(ToolsListArgs),
    /// Show one tool: its parameters, whether a call may be repeated, and the agents that may use it
    #[command(after_help = INSPECT_EXAMPLES)]
    Inspect(ToolsInspectArgs),
    /// Call one tool, outside of any run; the arguments are checked against its schema first
    #[command(after_help = CALL_EXAMPLES)]
    Call(ToolsCallArgs),
    /// Try one declarative tool, outside of any run, and report what each action does; by default it reads answers from a
    /// recording and sends nothing
    #[command(after_help = TEST_EXAMPLES)]
    Test(ToolsTestArgs),
    /// Add a declarative tool that comes with Dalsegno: it becomes a file in `tools/` that you can change
    #[command(after_help = ADD_EXAMPLES)]
    Add(ToolsAddArgs),
    /// Write the tools of the catalogue, which were changed by API, into files, so that you can review and commit them
    #[command(after_help = PULL_EXAMPLES)]
    Pull(ToolsPullArgs),
}

impl ToolsVerb {
    pub(super) fn format(&self) -> Format {
        match self {
            Self::List(list) => list.document.resolve(),
            Self::Inspect(inspect) => inspect.document.resolve(),
            Self::Call(call) => call.document.resolve(),
            Self::Test(test) => test.document.resolve(),
            Self::Add(add) => add.document.resolve(),
            Self::Pull(pull) => pull.document.resolve(),
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ToolsListArgs {
    /// Tenant whose tools are listed, its own ones included
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) tenant: String,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ToolsInspectArgs {
    /// The tool, such as `memory.search`
    pub(crate) name: ToolName,
    /// Tenant whose tool it is, if it has one of its own
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) tenant: String,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ToolsCallArgs {
    /// The tool, such as `memory.search`
    pub(crate) name: ToolName,
    /// The arguments, an object [default: an empty one]
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) args: Option<String>,
    /// User data for a declarative tool, which reads it as `user`, an object; a secret in it is not stored. Other users of
    /// this machine can see command lines: pass a secret in a file, `@FILE`
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) user: Option<String>,
    /// Tenant that the call is for: its own tools, settings, secrets, permitted destinations and memory
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) tenant: String,
    /// Call the tool without asking, even if calling it twice may be wrong; otherwise a terminal asks first
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Maximum time for the call, in seconds; the server's own limit applies as well
    #[arg(long, value_name = "SECONDS", default_value = "30")]
    pub(crate) timeout: NonZeroU64,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ToolsTestArgs {
    /// The document, such as `tools/save_meal.json`
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Action of a toolkit; not needed for a document with one tool
    #[arg(long, value_name = "NAME")]
    pub(crate) action: Option<String>,
    /// The arguments, an object [default: an empty one]
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) params: Option<String>,
    /// User data, which the tool reads as `user`, an object; a secret in it is not stored. Other users of this machine can
    /// see command lines: pass a secret in a file, `@FILE`
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) user: Option<String>,
    /// Tenant whose settings, secrets and permitted destinations the tool uses
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) tenant: String,
    /// Perform the actions: send requests and mails
    #[arg(long)]
    pub(crate) live: bool,
    /// Perform the actions, and write every request with its answer to this file, without secrets
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) record: Option<PathBuf>,
    /// Read the answers from this file, and send nothing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["live", "record"])]
    pub(crate) replay: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ToolsAddArgs {
    /// The tool
    #[arg(value_parser = known())]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ToolsPullArgs {
    /// Names of documents [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Only documents of this tenant
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Agents and tenants as well
    #[arg(long)]
    pub(crate) all: bool,
    /// Overwrite files that have another content
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

/// The tools that come with Dalsegno.
fn known() -> PossibleValuesParser {
    let values = batteries().iter().map(|battery| PossibleValue::new(battery.name).help(battery.about));
    PossibleValuesParser::new(values)
}

pub(super) const EXAMPLES: &str = "\
Examples:
  dalsegno tools list
  dalsegno tools inspect memory.search
  dalsegno tools call memory.search --args '{\"query\": \"disk full\"}'";

const LIST_EXAMPLES: &str = "\
Examples:
  dalsegno tools list
  dalsegno tools list --tenant acme
  dalsegno tools list --json | jq -r '.[].name'";

const INSPECT_EXAMPLES: &str = "\
Examples:
  dalsegno tools inspect memory.create
  dalsegno tools inspect transfer.request_transfer --tenant acme
  dalsegno tools inspect memory.create --json | jq .input_schema";

const ADD_EXAMPLES: &str = "\
Examples:
  dalsegno tools add google_calendar
  dalsegno check";

const PULL_EXAMPLES: &str = "\
Examples:
  dalsegno tools pull
  dalsegno tools pull save_meal --tenant acme
  dalsegno tools pull --all --force && git diff";

const TEST_EXAMPLES: &str = "\
Examples:
  dalsegno tools test tools/save_meal.json --params '{\"dishes\": [\"soup\"]}' --record meal.json
  dalsegno tools test tools/save_meal.json --params '{\"dishes\": [\"soup\"]}' --replay meal.json
  dalsegno tools test tools/google_calendar.json --action list_events --params @span.json --live --json";

const CALL_EXAMPLES: &str = "\
Examples:
  dalsegno tools call memory.search --args '{\"query\": \"disk full\"}'
  dalsegno tools call memory.create --args @observation.json --yes
  dalsegno tools call crm.find --args '{\"name\": \"ada\"}' --tenant acme
  jq -n '{query: \"disk\"}' | dalsegno tools call memory.search --args - --json";
