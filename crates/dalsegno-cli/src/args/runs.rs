//! The arguments of the verbs that start, answer, list and read runs.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args as ClapArgs, ValueEnum};
use clap_complete::ArgValueCandidates;
use dalsegno_core::{AgentName, Timestamp, ToolName};
use dalsegno_store::{RunStatus, Waiting};
use dalsegno_workspace::Provider;

use super::{DocumentArgs, StreamArgs, TokenArgs};
use crate::complete;

#[derive(Debug, ClapArgs)]
pub(crate) struct RunArgs {
    /// The agent's name
    #[arg(add = ArgValueCandidates::new(complete::agents))]
    pub(crate) agent: AgentName,
    /// Input: a text, `-` for standard input, `@FILE` for a file (`@@…` for a text that begins with `@`)
    pub(crate) input: Option<String>,
    /// Structured input, which templates read as `request.data`
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) data: Option<String>,
    /// Data about the user on whose behalf the run works, which templates read as `user`; `auth_token` in it is kept as a
    /// secret. Other users of this machine can see command lines: pass a secret in a file, `@FILE`
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) user: Option<String>,
    /// Idempotency key: a second start with the same key returns the same run
    #[arg(long = "idempotency-key", value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) key: Option<String>,
    /// The tenant on whose behalf the run works
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Session of the run; in a session that has runs, it continues from the last [default: a session of its own]
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// File to attach to the input, for a model that can read it
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) attach: Vec<PathBuf>,
    /// Model to use instead of the agent's own: a `[models.*]` of `dalsegno.toml`
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Endpoint to use instead of the agent's model, as PROVIDER:MODEL@URL; its key comes from `DALSEGNO_API_KEY`
    #[arg(long, value_name = "PROVIDER:MODEL@URL", conflicts_with = "model")]
    pub(crate) endpoint: Option<Endpoint>,
    /// Record every exchange with a model in this file; a model with `provider = "cassette"` plays it back
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) record: Option<PathBuf>,
    /// Keep what comes of all requests of the run, to models, tools, memory and people, in this file, without secrets; a case of
    /// `dalsegno test` plays it as its `cassette`
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with_all = ["session", "key"])]
    pub(crate) record_run: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
    #[command(flatten)]
    pub(crate) events: TokenArgs,
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
        match &url {
            Some(url) => private(url)?,
            None if known == Some(Provider::Bedrock) => return Err(BEDROCK_ADDRESS.to_owned()),
            None => {}
        }
        match known {
            Some(provider) if !model.is_empty() => Ok(Self { provider, model: model.to_owned(), url }),
            Some(_) | None => Err(expected()),
        }
    }
}

/// Bedrock has no address without a region.
const BEDROCK_ADDRESS: &str = "`bedrock` needs the address of a region, such as \
                               bedrock:amazon.nova-lite-v1:0@https://bedrock-runtime.eu-central-1.amazonaws.com";

/// Refuses an address that would send the key and the requests unencrypted to another machine, as `dalsegno.toml` does.
fn private(url: &str) -> Result<(), String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(
            "the address holds a user name or a password: pass the key in `DALSEGNO_API_KEY`".to_owned()
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
        "requests to `{url}` would be unencrypted: use `https://…`, or a model of `dalsegno.toml` with `allow_http`"
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
    /// Digits shown beside the operation that you answer. If the run waits for something else by then, nothing is
    /// answered. Without it, `--approve` shows the arguments and asks, on a terminal
    #[arg(long, value_name = "DIGITS")]
    pub(crate) shown: Option<String>,
    /// Operation to answer, if the run waits for several: its id, or the first 4 or more digits
    #[arg(long, value_name = "ID")]
    pub(crate) op: Option<String>,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
    #[command(flatten)]
    pub(crate) events: TokenArgs,
}

/// An answer to an operation that waits.
#[derive(Debug, ClapArgs)]
pub(crate) struct SettlementArgs {
    /// Approve the operation
    #[arg(long, conflicts_with_all = ["deny", "outcome"])]
    pub(crate) approve: bool,
    /// Deny the operation
    #[arg(long, conflicts_with = "outcome")]
    pub(crate) deny: bool,
    /// Reason; recorded, and passed to the agent if you deny
    #[arg(long, value_name = "TEXT", conflicts_with = "outcome")]
    pub(crate) reason: Option<String>,
    /// Outcome of an operation in doubt: `happened`, `not-happened`, `refused:WHY`, or `@FILE` with its result
    #[arg(long, value_name = "happened|not-happened|@FILE")]
    pub(crate) outcome: Option<String>,
    /// Answer to a question: text or JSON, as the question requires; `-` for standard input, `@FILE` for a file
    #[arg(long, value_name = "ANSWER|@FILE|-", conflicts_with_all = ["approve", "deny", "outcome", "reason"])]
    pub(crate) answer: Option<String>,
    /// Name of the person who answers; recorded
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AnswerArgs {
    /// Kind of question to answer
    #[arg(long, value_enum, value_name = "WHAT", required = true)]
    pub(crate) waiting: QuestionArg,
    #[command(flatten)]
    pub(crate) settlement: SettlementArgs,
    /// Filter by agent
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::agents))]
    pub(crate) agent: Option<AgentName>,
    /// Filter by tenant
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Filter by tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<ToolName>,
    /// Answer the list with these digits; without it, only report what would be answered, and the digits
    #[arg(long, value_name = "DIGITS")]
    pub(crate) yes: Option<String>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

/// A kind of question that can be answered for many runs at once.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum QuestionArg {
    Approval,
    Input,
    InDoubt,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunsArgs {
    /// Filter by agent
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::agents))]
    pub(crate) agent: Option<AgentName>,
    /// Filter by tenant
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Filter by session
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Filter by status; `interrupted` is a run whose process died or left it
    #[arg(long, value_enum)]
    pub(crate) status: Option<StatusArg>,
    /// Only runs that began at this time or later: a time, a date, or how long ago, such as `2h`
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) since: Option<Moment>,
    /// Only runs that began before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) until: Option<Moment>,
    /// Only runs whose request has this text, in capital or small letters
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Only child runs of this run
    #[arg(long, value_name = "RUN", add = ArgValueCandidates::new(complete::runs))]
    pub(crate) parent: Option<String>,
    /// Only forks of this run
    #[arg(long, value_name = "RUN", add = ArgValueCandidates::new(complete::runs))]
    pub(crate) fork_of: Option<String>,
    /// Only runs that wait for this, alone or among others
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) waiting: Option<WaitingArg>,
    /// Only runs with an effect in doubt: short for `--waiting in-doubt`
    #[arg(long, conflicts_with = "waiting")]
    pub(crate) in_doubt: bool,
    /// Maximum number of runs to list, up to 10,000
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    /// Continue a list behind this run, its last one
    #[arg(long, value_name = "RUN", add = ArgValueCandidates::new(complete::runs))]
    pub(crate) after: Option<String>,
    /// Also list what runs cost that have not ended; this reads all their records
    #[arg(long)]
    pub(crate) cost: bool,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

/// A point in time, as an argument.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment {
    /// At this time.
    At(Timestamp),
    /// So long before now.
    Ago(Duration),
}

impl Moment {
    /// The time that it means, now being `now`.
    pub(crate) fn before(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(ago) => {
                let ago = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
                Timestamp::from_millis(now.as_millis().saturating_sub(ago))
            }
        }
    }
}

/// Reads a time such as `2026-11-24T09:00:00Z`, a date such as `2026-11-24` (its beginning in UTC), or an age such as `2h`.
pub(super) fn moment(text: &str) -> Result<Moment, String> {
    let at = |time: jiff::Timestamp| {
        u64::try_from(time.as_millisecond()).map(|millis| Moment::At(Timestamp::from_millis(millis)))
    };
    let expected = "expected a time such as `2026-11-24T09:00:00Z`, a date such as `2026-11-24`, or how long ago, such as `2h`";
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return at(time).map_err(|_| expected.to_owned());
    }
    if let Ok(date) = text.parse::<jiff::civil::Date>() {
        let time = date.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| expected.to_owned())?;
        return at(time.timestamp()).map_err(|_| expected.to_owned());
    }
    dalsegno_workspace::age(text).map(Moment::Ago).map_err(|_| expected.to_owned())
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DebugArgs {
    /// The run: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs))]
    pub(crate) run: String,
    /// Open the run at this step
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ShowArgs {
    /// The run: its id, the first 4 or more digits of it, or `last`
    #[arg(add = ArgValueCandidates::new(complete::runs))]
    pub(crate) run: String,
    /// Show only this step
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    /// Show requests, results and errors in full, with every attempt and answer
    #[arg(long)]
    pub(crate) full: bool,
    /// Show only this operation, in full: its id, or the first 4 or more digits
    #[arg(long, value_name = "ID")]
    pub(crate) op: Option<String>,
    /// Show what the model was sent: for the last model call, or for that of `--step` or `--op`
    #[arg(long, conflicts_with_all = ["full", "state"])]
    pub(crate) prompt: bool,
    /// Follow a run that another process performs, until it ends or waits
    #[arg(long, conflicts_with_all = ["step", "op", "prompt", "state"])]
    pub(crate) follow: bool,
    /// Also show the agent's state: as of that step, else the latest
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
    /// Replay every run, and count the runs by result
    #[arg(long, conflicts_with_all = ["run", "until", "with_config"])]
    pub(crate) all: bool,
    /// Replay no further than this step
    #[arg(long, value_name = "N", conflicts_with = "with_config")]
    pub(crate) until: Option<u64>,
    /// Replay with another configuration: this agent file, else the current file of the run's agent
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub(crate) with_config: Option<Option<PathBuf>>,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

/// The status of a run, as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusArg {
    Running,
    Interrupted,
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
            StatusArg::Running | StatusArg::Interrupted => Self::Running,
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
    Paused,
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
            WaitingArg::Paused => Self::Paused,
        }
    }
}

pub(super) const RUN_EXAMPLES: &str = "\
Examples:
  dalsegno run triage \"disk full on db-1\"
  dalsegno run triage @report.txt --data '{\"severity\": 2}'
  tail -n 50 app.log | dalsegno run triage - --json
  dalsegno run triage \"disk full\" --idempotency-key ticket-4711     the same key again gives the same run
  dalsegno run responder \"disk full\" --endpoint openai:qwen3:4b@http://127.0.0.1:11434/v1";

pub(super) const RESUME_EXAMPLES: &str = "\
Examples:
  dalsegno resume last --approve                          shows the arguments, then asks
  dalsegno resume 3fa94c --approve --shown 81c2d3a54b95f7c2
  dalsegno resume 3fa94c --approve --edit arguments.json
  dalsegno resume 3fa94c --deny --reason \"not on a Friday\"
  dalsegno resume 3fa94c --outcome happened --shown 5be0cd19137e2179       it took place
  dalsegno resume last --answer \"the second one\"           the answer to a question
  dalsegno resume 3fa94c                                  resume an interrupted run";

pub(super) const ANSWER_EXAMPLES: &str = "\
Answers are passed to the process that performs the run: a worker, or `dalsegno resume RUN`.

Examples:
  dalsegno answer --waiting approval --approve --agent triage             what would be answered
  dalsegno answer --waiting approval --approve --agent triage --by ada --yes 81c2d3a54b95f7c2
  dalsegno answer --waiting in-doubt --outcome not-happened --tool pager.page";

pub(super) const RUNS_EXAMPLES: &str = "\
Examples:
  dalsegno runs
  dalsegno runs --agent triage --status suspended
  dalsegno runs --in-doubt
  dalsegno runs --since 2h --text \"disk full\" --cost
  dalsegno runs --after 3fa94c                            the next page
  dalsegno runs --json --limit 1";

pub(super) const SHOW_EXAMPLES: &str = "\
Examples:
  dalsegno show last
  dalsegno show last --full                               whole arguments, results and errors
  dalsegno show 3fa94c --op 81c2                          one operation, with its attempts and answers
  dalsegno show last --prompt                             what the model was sent
  dalsegno show last --follow                             while another process performs it
  dalsegno show 3fa94c --step 2 --state
  dalsegno show last --json | jq .events";

pub(super) const DEBUG_EXAMPLES: &str = "\
It needs a terminal of at least 60 columns and 10 lines. Press ? in it for the keys.
Nothing is performed: a fork that you make there waits until you resume it.

Examples:
  dalsegno debug last
  dalsegno debug 3fa94c --step 12";

pub(super) const REPLAY_EXAMPLES: &str = "\
Examples:
  dalsegno replay last
  dalsegno replay 3fa94c --json
  dalsegno replay last --until 12                         no further than step 12
  dalsegno replay --all                                   does this release reproduce all runs?
  dalsegno replay last --with-config                      with the agent's current file
  dalsegno replay last --with-config agents/next.toml";
