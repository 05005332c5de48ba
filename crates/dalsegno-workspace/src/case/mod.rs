//! Cases: agents tested like functions, in `tests/*.toml`.
//!
//! A case says what an agent is asked, what comes of everything that it asks for, and what must hold of the run. The files are
//! read here; the crate `dalsegno-cases` folds them.

pub(crate) mod check;
pub(crate) mod expect;
mod form;
mod in_code;
mod keys;
mod load;
pub(crate) mod outcome;
mod read;
mod turn;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use dalsegno_core::{AgentConfig, AgentName, EndedBy, FailureCode, RunErrorCode, ToolPattern};
use dalsegno_expr::Expression;
use regex::Regex;
use serde_json::Value;

pub use self::check::slug;
pub(crate) use self::keys::{CHECKS, FILE, WRITTEN_CHECKS};
pub(crate) use self::load::FOLDER;
pub use self::turn::{CaseAsk, CaseTurn, TurnKind};
use crate::agent::CallRule;
use crate::diagnostic::Diagnostic;
use crate::section::Located;
use crate::source::SourceFile;

/// The cases of a workspace, and what is wrong with their files.
#[derive(Debug, Clone, Default)]
pub struct Cases {
    /// The files whose cases can be run, in the order of their names. A file with an error has none.
    pub files: Vec<CaseFile>,
    /// All problems, each file in its own order.
    pub diagnostics: Vec<Diagnostic>,
    /// The files that were read, to show the diagnostics.
    pub sources: Vec<SourceFile>,
}

/// A file of cases.
#[derive(Debug, Clone)]
pub struct CaseFile {
    /// The file itself.
    pub source: SourceFile,
    /// Its cases, in order.
    pub cases: Vec<Case>,
}

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    /// What its file says.
    pub draft: Draft,
    /// The agent as a run of today has it.
    pub config: Arc<AgentConfig>,
    /// The tenant's settings as a run of today has them.
    pub tenant_settings: Value,
    /// The agents whose runs are part of the case, since a result gives what their models reply.
    pub agents: BTreeMap<AgentName, Arc<AgentConfig>>,
}

/// What a file says of a case.
#[derive(Debug, Clone)]
pub struct Draft {
    /// What it shows, in words.
    pub name: Located<String>,
    /// The agent.
    pub agent: Located<AgentName>,
    /// The tenant on whose behalf it works.
    pub tenant: String,
    /// What is known of the user.
    pub user: Value,
    /// What the user says; earlier messages of the conversation come first.
    pub messages: Vec<Message>,
    /// The structured input.
    pub data: Value,
    /// What the caller and the live model do; nothing for a case that is no call.
    pub turns: Vec<CaseTurn>,
    /// What the models reply.
    pub replies: Replies,
    /// The recorded outcomes of a run.
    pub cassette: Option<Located<PathBuf>>,
    /// What comes of the other requests: each is used once, in order.
    pub results: Vec<CaseResult>,
    /// The same for all cases of the file: each as often as it is asked for.
    pub shared: Vec<CaseResult>,
    /// What people answer.
    pub answers: Vec<CaseAnswer>,
    /// What must hold.
    pub expect: Expectations,
    /// What makes it a property; none for a case.
    pub property: Option<Property>,
}

/// A case whose outcomes are made up, again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// How many runs are made up.
    pub runs: u32,
    /// How a run may end; in any way when empty.
    pub ends: Vec<Ends>,
}

impl Property {
    /// How many runs are made up where nothing else is said.
    pub const RUNS: u32 = 100;
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// By the user.
    User(String),
    /// By the agent.
    Assistant(String),
}

/// What the models of a case reply.
#[derive(Debug, Clone)]
pub enum Replies {
    /// These, in order, in the form that a script has.
    Written(Vec<Located<Value>>),
    /// Those of a script.
    Script(PathBuf),
}

/// What comes of a request.
#[derive(Debug, Clone)]
pub struct CaseResult {
    /// Which requests it answers.
    pub of: Asked,
    /// What the arguments must hold, at least; null for any.
    pub with: Value,
    /// What comes of it.
    pub gives: Gives,
    /// Whether it answers all further requests, too.
    pub repeat: bool,
    /// How long it takes in a call, in milliseconds.
    pub takes_ms: u64,
    /// Where it stands.
    pub span: Range<usize>,
}

/// Which requests a result answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Calls of a tool.
    Tool(String),
    /// A memory operation: `search`, `create` or `traverse`.
    Memory(String),
    /// HTTP requests of a declarative tool: the method and the address, which may end with `*`.
    Http(String),
    /// Mails of a declarative tool, to this recipient, or to any with `*`.
    Mail(String),
    /// Transfers of the call to this address, or to any with `*`.
    Transfer(String),
    /// Child runs of an agent.
    Agent(String),
}

/// What comes of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Gives {
    /// An answer.
    Answer {
        /// The structured part; none where the case has none.
        returns: Option<Value>,
        /// The text.
        text: Option<String>,
        /// The status of an HTTP answer.
        status: u16,
    },
    /// An error in the receiver's own words.
    Error(String),
    /// There is no answer.
    Fails {
        /// The kind of failure.
        code: FailureCode,
        /// What went wrong.
        message: String,
    },
    /// The run of an agent is part of the case: this is what its models reply, in order, in the form that a script has.
    Run(Vec<Located<Value>>),
}

/// What a person answers.
#[derive(Debug, Clone)]
pub struct CaseAnswer {
    /// The tool that it is about, or words of the question; any when absent.
    pub to: Option<String>,
    /// The answer.
    pub says: Says,
    /// How long after the question it comes in a call, in milliseconds.
    pub after_ms: u64,
    /// Where it stands.
    pub span: Range<usize>,
}

/// What a person says.
#[derive(Debug, Clone, PartialEq)]
pub enum Says {
    /// Yes.
    Approve,
    /// No, for this reason.
    Deny(String),
    /// Yes, with other arguments.
    Edit(Value),
    /// The answer to a question.
    Give(Value),
    /// In doubt: it was done, with this result.
    Done(Value),
    /// In doubt: it was not done.
    NotDone,
}

/// What must hold of a run.
#[derive(Debug, Clone, Default)]
pub struct Expectations {
    /// How it ends; `completed` when absent.
    pub ends: Option<Located<Ends>>,
    /// The error that ends it.
    pub error: Option<Located<RunErrorCode>>,
    /// The tools that are called, all of them, in order.
    pub calls: Option<Located<Vec<ExpectedCall>>>,
    /// The same of those calls alone that change something.
    pub effects: Option<Located<Vec<ExpectedCall>>>,
    /// What must hold of a call alone.
    pub talk: TalkExpectations,
    /// The tools that no call may be of.
    pub never_calls: Vec<Located<ToolPattern>>,
    /// The calls that must not take place.
    pub never: Vec<CallRule>,
    /// Conditions on the whole run, each with its place.
    pub always: Vec<Located<Expression>>,
    /// What people are asked about, all of it, in order.
    pub asks: Option<Located<Vec<String>>>,
    /// The next agent.
    pub hands_over_to: Option<Located<AgentName>>,
    /// The whole answer.
    pub answer: Option<Located<String>>,
    /// Texts that the answer has.
    pub answer_contains: Vec<Located<String>>,
    /// What matches the answer.
    pub answer_matches: Option<Located<Regex>>,
    /// The structured answer.
    pub output: Option<Located<Value>>,
    /// Most steps.
    pub max_steps: Option<Located<u64>>,
    /// Most tokens.
    pub max_tokens: Option<Located<u64>>,
    /// Most cost, in billionths of a US dollar.
    pub max_cost_nano_usd: Option<Located<u64>>,
    /// Whether the run is compared with a snapshot.
    pub snapshot: bool,
}

/// What must hold of a call.
#[derive(Debug, Clone, Default)]
pub struct TalkExpectations {
    /// The outputs that the live model gets for its calls of tools, all of them, in order.
    pub outputs: Option<Located<Vec<ExpectedOutput>>>,
    /// What matches something that the live model says.
    pub said: Vec<Located<Regex>>,
    /// What matches something that the live model is told: its instructions, notes, what it is to say.
    pub told: Vec<Located<Regex>>,
    /// The longest time for which the caller waits in silence, in milliseconds.
    pub max_silence_ms: Option<Located<u64>>,
    /// Who ends the call.
    pub ended_by: Option<Located<EndedBy>>,
}

/// An output that a call of a tool must get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedOutput {
    /// The tool.
    pub tool: String,
    /// A text that the output has; any when absent.
    pub says: Option<String>,
}

/// A call that must take place.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedCall {
    /// The tool.
    pub tool: String,
    /// What the arguments must hold, at least; null for any.
    pub with: Value,
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// The agent answered.
    Completed,
    /// An error or a limit ended it.
    Failed,
    /// It waits for a person.
    Suspended,
    /// Another agent continues.
    HandedOff,
}

impl Ends {
    /// Every end.
    pub const ALL: [Self; 4] = [Self::Completed, Self::Failed, Self::Suspended, Self::HandedOff];

    /// The end as text, such as `handed_off`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Suspended => "suspended",
            Self::HandedOff => "handed_off",
        }
    }
}
