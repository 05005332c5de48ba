//! The arguments as they are typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use segno_core::AgentName;
use segno_store::RunStatus;

/// Runs agents durably: every step is recorded, and a run can be stopped, resumed, replayed and explained.
#[derive(Debug, Parser)]
#[command(name = "segno", version, max_term_width = 100, after_help = AFTER_HELP, disable_help_subcommand = true)]
pub(crate) struct Args {
    /// The workspace [default: the nearest folder upwards that has a `segno.toml`]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,

    /// Tell each step as it happens
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const AFTER_HELP: &str = "\
Examples:
  segno check                          is the workspace sound?
  segno run triage \"disk full on db-1\"
  segno show last                      what happened, and why

Exit codes:
  0 done   1 failed   2 bad input   3 diverged   4 suspended: waits for a person   130 interrupted";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Check every file of the workspace, and every agent against what its tool servers really offer
    #[command(after_help = "Examples:\n  segno check\n  segno check --json | jq '.[].message'")]
    Check(CheckArgs),
    /// Start a run of an agent and follow it to its end
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Answer what a suspended run waits for, or go on with an interrupted one
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(ResumeArgs),
    /// List runs, the newest first
    #[command(
        after_help = "Examples:\n  segno runs\n  segno runs --agent triage --status suspended\n  segno runs --json --limit 1"
    )]
    Runs(RunsArgs),
    /// Show what happened in a run: why, what was asked, what came
    #[command(
        after_help = "Examples:\n  segno show last\n  segno show 3fa94c --step 2 --state\n  segno show last --json | jq .events"
    )]
    Show(ShowArgs),
    /// Compute a recorded run again from its journal and compare every request; performs nothing
    #[command(after_help = "Examples:\n  segno replay last\n  segno replay 3fa94c --json")]
    Replay(ReplayArgs),
}

const RUN_EXAMPLES: &str = "\
Examples:
  segno run triage \"disk full on db-1\"
  segno run triage @report.txt --data '{\"severity\": 2}'
  tail -n 50 app.log | segno run triage - --json
  segno run triage \"disk full\" --key ticket-4711     the same key again gives the same run";

const RESUME_EXAMPLES: &str = "\
Examples:
  segno resume last --approve
  segno resume 3fa94c --approve --edit arguments.json
  segno resume 3fa94c --deny --reason \"not on a Friday\"
  segno resume 3fa94c --op 81c2 --answer done          it took place
  segno resume 3fa94c                                  go on with an interrupted run";

impl Verb {
    /// Says whether the verb performs a run, rather than reading files and journals.
    pub(crate) fn performs(&self) -> bool {
        match self {
            Self::Run(_) | Self::Resume(_) => true,
            Self::Check(_) | Self::Runs(_) | Self::Show(_) | Self::Replay(_) => false,
        }
    }

    /// What the verb writes to standard output.
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Check(CheckArgs { document }) => document.resolve(),
            Self::Run(run) => run.stream.resolve(),
            Self::Resume(resume) => resume.stream.resolve(),
            Self::Runs(runs) => runs.document.resolve(),
            Self::Show(show) => show.document.resolve(),
            Self::Replay(replay) => replay.document.resolve(),
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunArgs {
    /// The agent's name
    pub(crate) agent: AgentName,
    /// What to ask it: a text, `-` for standard input, `@FILE` for a file (`@@…` for a text that begins with `@`)
    pub(crate) input: Option<String>,
    /// Structured input, which templates read as `request.data`
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) data: Option<String>,
    /// A key for this start: the same key again returns the same run
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// The tenant on whose behalf the run works
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// The session that the run belongs to [default: one of its own]
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ResumeArgs {
    /// The run: its id, the first 4 or more digits of it, or `last`
    pub(crate) run: String,
    /// Let the operation take place
    #[arg(long, conflicts_with_all = ["deny", "answer"])]
    pub(crate) approve: bool,
    /// Approve with the arguments in this file (JSON; `-` for standard input)
    #[arg(long, value_name = "FILE", requires = "approve")]
    pub(crate) edit: Option<PathBuf>,
    /// Do not let the operation take place
    #[arg(long, conflicts_with = "answer")]
    pub(crate) deny: bool,
    /// Why; recorded, and told to the agent when it is denied
    #[arg(long, value_name = "TEXT", conflicts_with = "answer")]
    pub(crate) reason: Option<String>,
    /// For an operation in doubt: `done`, `not-done`, or `@FILE` with what it returned
    #[arg(long, value_name = "done|not-done|@FILE")]
    pub(crate) answer: Option<String>,
    /// Which operation, where the run waits for several: its id, or the first 4 or more digits
    #[arg(long, value_name = "ID")]
    pub(crate) op: Option<String>,
    /// Who answers; recorded
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunsArgs {
    /// Only runs of this agent
    #[arg(long)]
    pub(crate) agent: Option<AgentName>,
    /// Only runs that stand here
    #[arg(long, value_enum)]
    pub(crate) status: Option<StatusArg>,
    /// Most lines
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ShowArgs {
    /// The run: its id, the first 4 or more digits of it, or `last`
    pub(crate) run: String,
    /// Only this step
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    /// The agent's state as well: as of that step, else the latest
    #[arg(long)]
    pub(crate) state: bool,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReplayArgs {
    /// The run: its id, the first 4 or more digits of it, or `last`
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

/// Where a run stands, as an argument.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum StatusArg {
    Running,
    Suspended,
    Completed,
    Failed,
    Cancelled,
}

impl From<StatusArg> for RunStatus {
    fn from(status: StatusArg) -> Self {
        match status {
            StatusArg::Running => Self::Running,
            StatusArg::Suspended => Self::Suspended,
            StatusArg::Completed => Self::Completed,
            StatusArg::Failed => Self::Failed,
            StatusArg::Cancelled => Self::Cancelled,
        }
    }
}

/// What goes to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text for people.
    Text,
    /// One JSON document.
    Json,
    /// One JSON object for each journal event, as it is recorded.
    Jsonl,
}

/// The output of a verb that tells one thing.
#[derive(Debug, ClapArgs)]
pub(crate) struct DocumentArgs {
    /// Write one JSON document: short for `--format json`
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// What to write to standard output
    #[arg(long, value_enum, default_value_t = DocumentFormat::Text, hide_possible_values = true, value_name = "text|json")]
    format: DocumentFormat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DocumentFormat {
    Text,
    Json,
}

impl DocumentArgs {
    fn resolve(&self) -> Format {
        match self.format {
            _ if self.json => Format::Json,
            DocumentFormat::Text => Format::Text,
            DocumentFormat::Json => Format::Json,
        }
    }
}

/// The output of a verb that follows a run.
#[derive(Debug, ClapArgs)]
pub(crate) struct StreamArgs {
    /// Write one JSON document at the end: short for `--format json`
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// What to write to standard output; `jsonl` streams the journal's events as they are recorded
    #[arg(long, value_enum, default_value_t = StreamFormat::Text, hide_possible_values = true, value_name = "text|json|jsonl")]
    format: StreamFormat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StreamFormat {
    Text,
    Json,
    Jsonl,
}

impl StreamArgs {
    fn resolve(&self) -> Format {
        match self.format {
            _ if self.json => Format::Json,
            StreamFormat::Text => Format::Text,
            StreamFormat::Json => Format::Json,
            StreamFormat::Jsonl => Format::Jsonl,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn json_is_short_for_format_json() {
        let format = |line: &str| Args::try_parse_from(line.split(' ')).unwrap().verb.format();
        assert_eq!(format("segno check"), Format::Text);
        assert_eq!(format("segno check --json"), Format::Json);
        assert_eq!(format("segno run a --format jsonl"), Format::Jsonl);
        assert_eq!(format("segno show last --format json"), Format::Json);
        assert!(Args::try_parse_from("segno run a --json --format jsonl".split(' ')).is_err());
    }

    #[test]
    fn answers_that_contradict_each_other_are_refused() {
        for line in ["--approve --deny", "--deny --answer done", "--edit a.json", "--answer done --reason x"]
        {
            let line = format!("segno resume last {line}");
            assert!(Args::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
