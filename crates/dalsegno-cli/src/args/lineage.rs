//! The arguments of the verbs that chain, fork, compare, end and move runs.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use clap_complete::ArgValueCandidates;
use dalsegno_core::AgentName;

use super::{DocumentArgs, StreamArgs, TokenArgs};
use crate::complete;

#[derive(Debug, ClapArgs)]
pub(crate) struct ChatArgs {
    /// The agent's name
    #[arg(add = ArgValueCandidates::new(complete::agents))]
    pub(crate) agent: AgentName,
    /// Session to chat in; a session that has runs continues [default: a new one]
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// The tenant on whose behalf the runs work
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Data about the user, which templates read as `user`; `auth_token` in it is kept as a secret. Other users of this
    /// machine can see command lines: pass a secret in a file, `@FILE`
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) user: Option<String>,
    /// Structured input of every message, which templates read as `request.data`
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) data: Option<String>,
    /// Accept commands (`/undo`) and approvals from input that is not typed on a terminal: for a script of yours, never
    /// for another party's text
    #[arg(long)]
    pub(crate) script: bool,
    /// Do not recall messages of earlier conversations, and keep none of this one
    #[arg(long)]
    pub(crate) no_history: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ForkArgs {
    /// The run: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs))]
    pub(crate) run: String,
    /// First step to run again, or first turn of a call that is not shared [default: the step after the replaced outcomes]
    #[arg(long, value_name = "N")]
    pub(crate) at: Option<u64>,
    /// Replace the outcome of an operation: its id or the first 4 or more digits, and a file (JSON, else text; `-` for
    /// standard input)
    #[arg(long, value_name = "OP=FILE", value_parser = replacement)]
    pub(crate) set: Vec<(String, String)>,
    /// What the caller says first, where a call is forked
    #[arg(long, value_name = "TEXT")]
    pub(crate) say: Option<String>,
    /// The line over which a forked call continues; without it, the agent's own model speaks
    #[arg(long, value_name = "NAME")]
    pub(crate) line: Option<String>,
    /// What the caller of a forked call and, without `--line`, the live model do, as for `call text`
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) script: Option<PathBuf>,
    /// Continue with another model, a `[models.*]` of `dalsegno.toml`
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Continue with the agent's current file, not with the one that the run started with
    #[arg(long)]
    pub(crate) current: bool,
    /// Whether unsafe and keyed effects ask you first
    #[arg(long, value_enum, default_value_t = EffectsArg::Ask, value_name = "ask|live")]
    #[arg(hide_possible_values = true)]
    pub(crate) effects: EffectsArg,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
    #[command(flatten)]
    pub(crate) events: TokenArgs,
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
pub(crate) struct WhyArgs {
    /// The run: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs))]
    pub(crate) run: String,
    /// The operation: its id, or the first 4 or more digits; with `.NAME`, only this argument
    #[arg(value_name = "OP[.ARGUMENT]")]
    pub(crate) operation: String,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CancelArgs {
    /// The run: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs), required_unless_present = "session")]
    pub(crate) run: Option<String>,
    /// Cancel the open run of this session
    #[arg(long, value_name = "NAME", conflicts_with = "run")]
    pub(crate) session: Option<String>,
    /// Tenant of the session
    #[arg(long, value_name = "NAME", requires = "session")]
    pub(crate) tenant: Option<String>,
    /// Cancel only this operation: its id, or the first 4 or more digits; the run continues
    #[arg(long, value_name = "ID")]
    pub(crate) op: Vec<String>,
    /// Reason for the cancellation
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Name of the person who cancels
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PauseArgs {
    /// The run: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs))]
    pub(crate) run: String,
    /// Reason for the pause
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Name of the person who pauses
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AbandonArgs {
    /// The run: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs))]
    pub(crate) run: String,
    /// Reason; recorded
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) reason: String,
    /// Name of the person who abandons the run
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    /// Abandon the run even if it can be cancelled
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ExportArgs {
    /// The run: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs))]
    pub(crate) run: String,
    /// The file; `-` for standard output [default: the run's short id with `.dalsegno`, or with `.html`]
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// Write a report: one HTML page that shows, replays and compares the run in a browser without a network
    #[arg(long)]
    pub(crate) html: bool,
    /// With `--html`: compare with this run as well
    #[arg(long, value_name = "RUN", requires = "html", add = ArgValueCandidates::new(complete::runs))]
    pub(crate) with: Option<String>,
    /// Overwrite an existing file
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ImportArgs {
    /// The file: an archive or a report; `-` for standard input
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Adopt the imported runs that have not ended, as `dalsegno adopt` does
    #[arg(long)]
    pub(crate) adopt: bool,
    /// With `--adopt`: adopt even if this workspace does not know who signed the file
    #[arg(long, requires = "adopt")]
    pub(crate) unknown_signer: bool,
    /// With `--adopt`: name of the person who adopts them
    #[arg(long, value_name = "NAME", requires = "adopt")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AdoptArgs {
    /// The foreign run: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs))]
    pub(crate) run: String,
    /// Adopt the run even if this workspace does not know who signed its archive
    #[arg(long)]
    pub(crate) unknown_signer: bool,
    /// Name of the person who adopts the run
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

pub(super) const ADOPT_EXAMPLES: &str = "\
The run continues with this workspace's agent. Dalsegno asks you before each effect that may not
be repeated: the original run may have performed it, or may still perform it.

Examples:
  dalsegno adopt 3fa94c
  dalsegno adopt 3fa94c --by eve && dalsegno resume last";

pub(super) const CHAT_EXAMPLES: &str = "\
Examples:
  dalsegno chat support
  dalsegno chat support --session ticket-4711             continue where you left off
  printf 'hello\\n/show\\n' | dalsegno chat support --script";

pub(super) const FORK_EXAMPLES: &str = "\
Examples:
  dalsegno fork last --at 2                               run step 2 again
  dalsegno fork last --set 81c2=outcome.json              with another outcome
  dalsegno fork 3fa94c --at 1 --model local --effects live
  dalsegno fork last --at 4 --say 'For two, please.'      of a call: another fourth turn";

pub(super) const DIFF_EXAMPLES: &str = "\
Examples:
  dalsegno diff 3fa94c last
  dalsegno diff 3fa94c 81c2d0 --json | jq .first

Exit codes:
  0 they are the same   3 they differ";

pub(super) const WHY_EXAMPLES: &str = "\
A value is looked for as a whole in all that the run had read when it asked. `dalsegno show RUN --full`
lists the operations.

Examples:
  dalsegno why last 81c2                                  all values of the request
  dalsegno why last 81c2.to                               only the argument `to`
  dalsegno why 3fa94c 81c2.orders[0].id --json";

pub(super) const CANCEL_EXAMPLES: &str = "\
Examples:
  dalsegno cancel last
  dalsegno cancel --session ticket-4711
  dalsegno cancel 3fa94c --op 81c2                        the run continues without it
  dalsegno cancel 3fa94c --reason \"wrong customer\" --by eve";

pub(super) const PAUSE_EXAMPLES: &str = "\
Examples:
  dalsegno pause last
  dalsegno pause 3fa94c --reason \"the warehouse is closed\" --by eve
  dalsegno runs --waiting paused
  dalsegno resume 3fa94c                                  it continues";

pub(super) const ABANDON_EXAMPLES: &str = "\
Examples:
  dalsegno abandon 3fa94c --reason \"its records are damaged\"
  dalsegno abandon 3fa94c --reason \"the run before it was erased\" --by eve --json";

pub(super) const EXPORT_EXAMPLES: &str = "\
Examples:
  dalsegno export last
  dalsegno export 3fa94c run.dalsegno
  dalsegno export --html last                             a page for a bug report
  dalsegno export --html 3fa94c report.html --with 81d07e
  dalsegno export last - | ssh other dalsegno import -";

pub(super) const IMPORT_EXAMPLES: &str = "\
Examples:
  dalsegno import run.dalsegno
  dalsegno import run.dalsegno && dalsegno replay last
  dalsegno import run.dalsegno --adopt                    adopt its open runs";
