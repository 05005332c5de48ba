//! The arguments of the verbs that start, answer, list and read runs.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args as ClapArgs, ValueEnum};
use clap_complete::ArgValueCandidates;
use dalsegno_core::{AgentName, ToolName};
use dalsegno_store::{RunStatus, Waiting};
use dalsegno_workspace::Provider;

use super::{DocumentArgs, StreamArgs};
use crate::complete;

#[derive(Debug, ClapArgs)]
pub(crate) struct RunArgs {
    /// The agent's name
    #[arg(add = ArgValueCandidates::new(complete::agents))]
    pub(crate) agent: AgentName,
    /// What to ask it: a text, `-` for standard input, `@FILE` for a file (`@@…` for a text that begins with `@`)
    pub(crate) input: Option<String>,
    /// Structured input, which templates read as `request.data`
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) data: Option<String>,
    /// What is known of the user on whose behalf it works, which templates read as `user`; `auth_token` in it is kept as a
    /// secret. Other users of this machine see command lines: give a secret in a file, `@FILE`
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) user: Option<String>,
    /// A key for this start: the same key again returns the same run
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) key: Option<String>,
    /// The tenant on whose behalf the run works
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// The session that the run belongs to; one that has runs goes on from the last [default: one of its own]
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// A file that goes with the input, for a model that can read it
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) attach: Vec<PathBuf>,
    /// Another model than the agent's own: a `[models.*]` of `dalsegno.toml`
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// An endpoint in the place of the agent's model, as PROVIDER:MODEL@URL; its key is taken from `DALSEGNO_API_KEY`
    #[arg(long, value_name = "PROVIDER:MODEL@URL", conflicts_with = "model")]
    pub(crate) endpoint: Option<Endpoint>,
    /// Keep every exchange with a model in this file; a model with `provider = "cassette"` plays it back
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) record: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
}

/// An endpoint of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) provider: Provider,
    pub(crate) model: String,
    pub(crate) url: Option<String>,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            let providers = Provider::ALL.map(Provider::as_str).join(", ");
            format!(
                "expected PROVIDER:MODEL@URL, such as openai:qwen3@http://127.0.0.1:11434/v1; providers: {providers}"
            )
        };
        let (provider, rest) = text.split_once(':').ok_or_else(expected)?;
        let known = Provider::ALL.into_iter().find(|known| known.as_str() == provider);
        // Names of models may hold an `@`; an address never begins before `@http`.
        let (model, url) = match rest.rsplit_once("@http") {
            Some((model, url)) => (model, Some(format!("http{url}"))),
            None => (rest, None),
        };
        if let Some(url) = &url {
            private(url)?;
        }
        match known {
            Some(provider) if !model.is_empty() => Ok(Self { provider, model: model.to_owned(), url }),
            Some(_) | None => Err(expected()),
        }
    }
}

/// Refuses an address that would send the key, and what is asked, unencrypted to another machine; what `dalsegno.toml`
/// refuses, an argument does not let through either.
fn private(url: &str) -> Result<(), String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(
            "the address holds a user's name or a password: give the key as `DALSEGNO_API_KEY`".to_owned()
        );
    }
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let near = host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if scheme == "https" && !host.is_empty() || scheme == "http" && near {
        return Ok(());
    }
    Err(format!(
        "`{url}` would leave this machine unencrypted: write `https://…`, or a model of `dalsegno.toml` with `allow_http`"
    ))
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ResumeArgs {
    /// The run: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs))]
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) settlement: SettlementArgs,
    /// Approve with the arguments in this file (JSON; `-` for standard input)
    #[arg(long, value_name = "FILE", requires = "approve")]
    pub(crate) edit: Option<PathBuf>,
    /// What was shown when it was decided: the digits beside it. If it waits for something else by then, nothing is
    /// answered. Without it, `--approve` shows the arguments and asks, on a terminal
    #[arg(long, value_name = "DIGITS")]
    pub(crate) shown: Option<String>,
    /// Which operation, where the run waits for several: its id, or the first 4 or more digits
    #[arg(long, value_name = "ID")]
    pub(crate) op: Option<String>,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
}

/// What somebody answers.
#[derive(Debug, ClapArgs)]
pub(crate) struct SettlementArgs {
    /// Let the operation take place
    #[arg(long, conflicts_with_all = ["deny", "answer"])]
    pub(crate) approve: bool,
    /// Do not let the operation take place
    #[arg(long, conflicts_with = "answer")]
    pub(crate) deny: bool,
    /// Why; recorded, and told to the agent when it is denied
    #[arg(long, value_name = "TEXT", conflicts_with = "answer")]
    pub(crate) reason: Option<String>,
    /// For an operation in doubt: `done`, `not-done`, `refused:WHY`, or `@FILE` with what it returned
    #[arg(long, value_name = "done|not-done|@FILE")]
    pub(crate) answer: Option<String>,
    /// For a question: the answer, a text or JSON as the question asks; `-` for standard input, `@FILE` for a file
    #[arg(long, value_name = "ANSWER|@FILE|-", conflicts_with_all = ["approve", "deny", "answer", "reason"])]
    pub(crate) reply: Option<String>,
    /// Who answers; recorded
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AnswerArgs {
    /// Answer what waits for this
    #[arg(long, value_enum, value_name = "WHAT", required = true)]
    pub(crate) waiting: QuestionArg,
    #[command(flatten)]
    pub(crate) settlement: SettlementArgs,
    /// Only runs of this agent
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::agents))]
    pub(crate) agent: Option<AgentName>,
    /// Only runs of this tenant
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<ToolName>,
    /// Answer the list that these digits stand for; without it, only say what would be answered, and the digits
    #[arg(long, value_name = "DIGITS")]
    pub(crate) yes: Option<String>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

/// What many runs may be answered at once.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum QuestionArg {
    Approval,
    Input,
    InDoubt,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunsArgs {
    /// Only runs of this agent
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::agents))]
    pub(crate) agent: Option<AgentName>,
    /// Only runs of this tenant
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Only runs that stand here
    #[arg(long, value_enum)]
    pub(crate) status: Option<StatusArg>,
    /// Only suspended runs that wait for this, among others
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) waiting: Option<WaitingArg>,
    /// Only runs with an effect of which nobody knows whether it took place: short for `--waiting in-doubt`
    #[arg(long, conflicts_with = "waiting")]
    pub(crate) in_doubt: bool,
    /// Most lines, up to 10,000
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ShowArgs {
    /// The run: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs))]
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
    #[arg(add = ArgValueCandidates::new(complete::runs), required_unless_present = "all")]
    pub(crate) run: Option<String>,
    /// Replay every run, and count them by what came of it
    #[arg(long, conflicts_with_all = ["run", "until", "with_config"])]
    pub(crate) all: bool,
    /// No further than to this step
    #[arg(long, value_name = "N", conflicts_with = "with_config")]
    pub(crate) until: Option<u64>,
    /// Under another configuration: that of this agent file, else of the run's agent as its file is now
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub(crate) with_config: Option<Option<PathBuf>>,
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
    // As `runs` lists it.
    #[value(name = "handed_off", alias = "handed-off")]
    HandedOff,
    Abandoned,
}

impl From<StatusArg> for RunStatus {
    fn from(status: StatusArg) -> Self {
        match status {
            StatusArg::Running => Self::Running,
            StatusArg::Suspended => Self::Suspended,
            StatusArg::Completed => Self::Completed,
            StatusArg::Failed => Self::Failed,
            StatusArg::Cancelled => Self::Cancelled,
            StatusArg::HandedOff => Self::HandedOff,
            StatusArg::Abandoned => Self::Abandoned,
        }
    }
}

/// What a suspended run waits for, as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitingArg {
    Approval,
    Input,
    InDoubt,
    Secret,
    Timer,
}

impl From<QuestionArg> for Waiting {
    fn from(question: QuestionArg) -> Self {
        match question {
            QuestionArg::Approval => Self::Approval,
            QuestionArg::Input => Self::Input,
            QuestionArg::InDoubt => Self::InDoubt,
        }
    }
}

impl From<WaitingArg> for Waiting {
    fn from(waiting: WaitingArg) -> Self {
        match waiting {
            WaitingArg::Approval => Self::Approval,
            WaitingArg::Input => Self::Input,
            WaitingArg::InDoubt => Self::InDoubt,
            WaitingArg::Secret => Self::Secret,
            WaitingArg::Timer => Self::Timer,
        }
    }
}

pub(super) const RUN_EXAMPLES: &str = "\
Examples:
  dalsegno run triage \"disk full on db-1\"
  dalsegno run triage @report.txt --data '{\"severity\": 2}'
  tail -n 50 app.log | dalsegno run triage - --json
  dalsegno run triage \"disk full\" --key ticket-4711     the same key again gives the same run
  dalsegno run responder \"disk full\" --endpoint openai:qwen3:4b@http://127.0.0.1:11434/v1";

pub(super) const RESUME_EXAMPLES: &str = "\
Examples:
  dalsegno resume last --approve                          shows what is asked for, and asks
  dalsegno resume 3fa94c --approve --shown 81c2d3a54b95f7c2
  dalsegno resume 3fa94c --approve --edit arguments.json
  dalsegno resume 3fa94c --deny --reason \"not on a Friday\"
  dalsegno resume 3fa94c --answer done --shown 5be0cd19137e2179       it took place
  dalsegno resume last --reply \"the second one\"           the answer to a question
  dalsegno resume 3fa94c                                  go on with an interrupted run";

pub(super) const ANSWER_EXAMPLES: &str = "\
The answers are passed on to whoever performs the runs: a worker, or `dalsegno resume RUN`.

Examples:
  dalsegno answer --waiting approval --approve --agent triage             what would be answered
  dalsegno answer --waiting approval --approve --agent triage --by ada --yes 81c2d3a54b95f7c2
  dalsegno answer --waiting in-doubt --answer not-done --tool pager.page";

pub(super) const RUNS_EXAMPLES: &str = "\
Examples:
  dalsegno runs
  dalsegno runs --agent triage --status suspended
  dalsegno runs --in-doubt
  dalsegno runs --json --limit 1";

pub(super) const SHOW_EXAMPLES: &str = "\
Examples:
  dalsegno show last
  dalsegno show 3fa94c --step 2 --state
  dalsegno show last --json | jq .events";

pub(super) const REPLAY_EXAMPLES: &str = "\
Examples:
  dalsegno replay last
  dalsegno replay 3fa94c --json
  dalsegno replay last --until 12                         no further than to step 12
  dalsegno replay --all                                   does this release still do what was recorded?
  dalsegno replay last --with-config                      would the agent as it is now do the same?
  dalsegno replay last --with-config agents/next.toml";
