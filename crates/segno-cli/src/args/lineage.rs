//! The arguments of the verbs that chain, fork, compare, end and move runs.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use clap_complete::ArgValueCandidates;
use segno_core::AgentName;

use super::{DocumentArgs, StreamArgs};
use crate::complete;

#[derive(Debug, ClapArgs)]
pub(crate) struct ChatArgs {
    /// The agent's name
    #[arg(add = ArgValueCandidates::new(complete::agents))]
    pub(crate) agent: AgentName,
    /// The session; one that has runs is gone on with [default: a new one]
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// The tenant on whose behalf the runs work
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ForkArgs {
    /// The run: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs))]
    pub(crate) run: String,
    /// The step that is asked for anew [default: the one after the replaced outcomes]
    #[arg(long, value_name = "N")]
    pub(crate) at: Option<u64>,
    /// Another outcome for an operation: its id or the first 4 or more digits, and a file (JSON, else text; `-` for
    /// standard input)
    #[arg(long, value_name = "OP=FILE", value_parser = replacement)]
    pub(crate) set: Vec<(String, String)>,
    /// Go on with another model, a `[models.*]` of `segno.toml`
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Go on with the agent as its file is now, not as it was when the run began
    #[arg(long)]
    pub(crate) current: bool,
    /// Whether unsafe and keyed effects ask a person first
    #[arg(long, value_enum, default_value_t = EffectsArg::Ask, value_name = "ask|live")]
    #[arg(hide_possible_values = true)]
    pub(crate) effects: EffectsArg,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
}

/// What a fork does about effects that may not be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EffectsArg {
    Ask,
    Live,
}

fn replacement(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((op, file)) if !op.is_empty() && !file.is_empty() => Ok((op.to_owned(), file.to_owned())),
        _ => Err("expected OP=FILE, such as 81c2=outcome.json".to_owned()),
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DiffArgs {
    /// The first run: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs))]
    pub(crate) left: String,
    /// The second run
    #[arg(add = ArgValueCandidates::new(complete::runs))]
    pub(crate) right: String,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CancelArgs {
    /// The run: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs), required_unless_present = "session")]
    pub(crate) run: Option<String>,
    /// The run that goes on in this session
    #[arg(long, value_name = "NAME", conflicts_with = "run")]
    pub(crate) session: Option<String>,
    /// The tenant whose session it is
    #[arg(long, value_name = "NAME", requires = "session")]
    pub(crate) tenant: Option<String>,
    /// Give up only this operation: its id, or the first 4 or more digits; the run goes on
    #[arg(long, value_name = "ID")]
    pub(crate) op: Vec<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Who ends it
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ExportArgs {
    /// The run: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs))]
    pub(crate) run: String,
    /// The file; `-` for standard output [default: the run's short id with `.segno`]
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// Write over a file that is there
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ImportArgs {
    /// The file; `-` for standard input
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

pub(super) const CHAT_EXAMPLES: &str = "\
Examples:
  segno chat support
  segno chat support --session ticket-4711             go on where it was left
  printf 'hello\\n/show\\n' | segno chat support";

pub(super) const FORK_EXAMPLES: &str = "\
Examples:
  segno fork last --at 2                               ask for step 2 anew
  segno fork last --set 81c2=outcome.json              what if this had come instead?
  segno fork 3fa94c --at 1 --model local --effects live";

pub(super) const DIFF_EXAMPLES: &str = "\
Examples:
  segno diff 3fa94c last
  segno diff 3fa94c 81c2d0 --json | jq .first";

pub(super) const CANCEL_EXAMPLES: &str = "\
Examples:
  segno cancel last
  segno cancel --session ticket-4711
  segno cancel 3fa94c --op 81c2                        the run goes on without it
  segno cancel 3fa94c --reason \"wrong customer\" --by eve";

pub(super) const EXPORT_EXAMPLES: &str = "\
Examples:
  segno export last
  segno export 3fa94c run.segno
  segno export last - | ssh other segno import -";

pub(super) const IMPORT_EXAMPLES: &str = "\
Examples:
  segno import run.segno
  segno import run.segno && segno replay last";
