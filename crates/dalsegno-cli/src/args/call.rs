//! The arguments of `dalsegno call`.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args as ClapArgs, Subcommand};
use clap_complete::ArgValueCandidates;
use dalsegno_core::AgentName;

use super::telephone::{
    CHECK_EXAMPLES, CallCheckArgs, CallHangupArgs, CallListArgs, HANGUP_EXAMPLES, LIST_EXAMPLES,
};
use super::{DocumentArgs, Format, StreamArgs};
use crate::complete;

#[derive(Debug, ClapArgs)]
pub(crate) struct CallArgs {
    #[command(subcommand)]
    pub(crate) verb: CallVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CallVerb {
    /// Call an agent that has `[voice]` in text: over a line, to a real live model, or with a script that says what both do
    ///
    /// With `--line` you are the caller: each line that you type is said, and interrupts the live model if it speaks; Ctrl-D
    /// hangs up. Lines of a pipe, and the caller's turns of a script, wait for their turn. With `--script` alone, a script says
    /// what the caller and the live model do. The tools are real in both cases.
    #[command(after_help = TEXT_EXAMPLES)]
    Text(CallTextArgs),
    /// List the calls that are open
    #[command(after_help = LIST_EXAMPLES)]
    List(CallListArgs),
    /// Hang up: the call ends for its caller, and its run is cancelled
    ///
    /// What was sent and may not be repeated finishes, and is recorded. `dalsegno cancel` does the same where a process carries the
    /// call.
    #[command(after_help = HANGUP_EXAMPLES)]
    Hangup(CallHangupArgs),
    /// Check whether a line works: its provider, its secrets, and who answers at its numbers
    ///
    /// A session of the live model is opened, and closed at once.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CallCheckArgs),
    /// Give the live model of a call that is under way a note: it speaks of it at the next pause
    ///
    /// The caller does not hear the note itself. It is recorded with the call.
    #[command(after_help = SAY_EXAMPLES)]
    Say(CallSayArgs),
}

impl CallArgs {
    pub(super) fn format(&self) -> Format {
        match &self.verb {
            CallVerb::Text(text) => text.stream.resolve(),
            CallVerb::List(list) => list.document.resolve(),
            CallVerb::Hangup(hangup) => hangup.document.resolve(),
            CallVerb::Check(check) => check.document.resolve(),
            CallVerb::Say(say) => say.document.resolve(),
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CallTextArgs {
    /// The agent's name
    #[arg(add = ArgValueCandidates::new(complete::agents))]
    pub(crate) agent: AgentName,
    /// The line to call over: a `[voice.lines.*]` of `dalsegno.toml`
    #[arg(long, value_name = "NAME")]
    pub(crate) line: Option<String>,
    /// What the caller and the live model do, as TOML: one `[[turns]]` for each thing. With `--line`, only what the caller does
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) script: Option<PathBuf>,
    /// Structured input, which templates read as `request.data`
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) data: Option<String>,
    /// Data about the caller, which templates read as `user`; `auth_token` in it is kept as a secret
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) user: Option<String>,
    /// The tenant that is called
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Session of the call [default: a session of its own]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,
    /// Idempotency key: the same key again gives the same call, and over a line attaches to it if its process has ended
    #[arg(long = "idempotency-key", value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CallSayArgs {
    /// The run of the call: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs))]
    pub(crate) run: String,
    /// The words
    #[arg(value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) text: String,
    /// Name of the person who gives the note
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

const SAY_EXAMPLES: &str = "\
Examples:
  dalsegno call say last 'The kitchen closes in ten minutes.'
  dalsegno call say 3fa94c 'Offer the table at the window.' --by ada --json";

pub(super) const EXAMPLES: &str = "\
Examples:
  dalsegno call text desk --line front
  dalsegno call text desk --script calls/table.toml
  dalsegno call list
  dalsegno call check front";

const TEXT_EXAMPLES: &str = "\
Examples:
  dalsegno call text desk --line front                                 you are the caller
  printf 'A table for two?\\n' | dalsegno call text desk --line front
  dalsegno call text desk --line front --script calls/table.toml       the script is the caller
  dalsegno call text desk --script calls/table.toml
  dalsegno call text desk --script calls/table.toml --tenant acme
  dalsegno call text desk --script calls/table.toml --format jsonl";
