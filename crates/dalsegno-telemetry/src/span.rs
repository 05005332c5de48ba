//! A finished span, and what it is about.

use std::collections::BTreeMap;

use dalsegno_core::{AgentName, OperationId, RunId, Timestamp};

use crate::ids::{SpanId, TraceId};

/// One finished span.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The trace: that of the root run.
    pub trace: TraceId,
    /// The span's own id.
    pub id: SpanId,
    /// The span above; none for a root run.
    pub parent: Option<SpanId>,
    /// The name, such as `chat gpt-4o`.
    pub name: String,
    /// Where the work is done.
    pub kind: Kind,
    /// When it began.
    pub start: Timestamp,
    /// When it ended, never before it began: a clock that jumps back makes a span short, not negative.
    pub end: Timestamp,
    /// The attributes, by names of [`semconv`](crate::semconv).
    pub attributes: Vec<(&'static str, Value)>,
    /// What happened meanwhile, in the order of the journal.
    pub events: Vec<SpanEvent>,
    /// How many events there were beyond the bound.
    pub dropped_events: u32,
    /// Other spans that it has to do with.
    pub links: Vec<Link>,
    /// Whether it failed.
    pub status: Status,
    /// What it is about, for whoever counts.
    pub subject: Subject,
}

impl Span {
    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&Value> {
        self.attributes.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

/// Where the work of a span is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In this process, or below it.
    Internal,
    /// By somebody who is asked over the network.
    Client,
}

/// Whether a span failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Nothing is wrong.
    Unset,
    /// It failed. The text is the code; with content on, the message too.
    Error(String),
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// A number.
    Real(f64),
    /// Yes or no.
    Flag(bool),
    /// A list of texts.
    Texts(Vec<String>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

/// Something that happened during a span.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanEvent {
    /// When.
    pub at: Timestamp,
    /// What, by a name of [`semconv`](crate::semconv).
    pub name: &'static str,
    /// The attributes.
    pub attributes: Vec<(&'static str, Value)>,
}

/// Another span that a span has to do with.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Its trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// The attributes.
    pub attributes: Vec<(&'static str, Value)>,
}

/// What a span is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    /// A run.
    Run(RunFacts),
    /// A step of a run.
    Step {
        /// The run.
        run: RunId,
        /// The step, from 1.
        step: u64,
    },
    /// A turn of the call that a run is: of the caller, or a response of the live model.
    Turn {
        /// The run.
        run: RunId,
    },
    /// An operation.
    Operation(OperationFacts),
    /// One of an operation's several attempts.
    Attempt(AttemptFacts),
    /// What came of an operation after it had been given up, or after its run had ended.
    Late(OperationFacts),
}

/// What is known of a run that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFacts {
    /// The run.
    pub run: RunId,
    /// Its agent.
    pub agent: AgentName,
    /// How it ended: `completed`, `failed`, `cancelled` or `handed_off`.
    pub status: &'static str,
    /// The code of its error.
    pub code: Option<&'static str>,
}

/// What is known of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationFacts {
    /// The run that asked for it.
    pub run: RunId,
    /// That run's agent.
    pub agent: AgentName,
    /// The operation.
    pub operation: OperationId,
    /// Its kind.
    pub kind: OperationKind,
    /// The tool or agent that is called.
    pub object: Option<String>,
    /// The model that is asked, by its provider's name where that is known.
    pub model: Option<String>,
    /// Why it has no good outcome: a code of a failure, or `abandoned` when its run went on or ended without it.
    pub code: Option<&'static str>,
    /// How many attempts it took.
    pub attempts: u32,
    /// Model calls before the last one that may have been charged for.
    pub lost_attempts: u32,
    /// The time that was spent on it, in milliseconds, without downtime and without waiting for people.
    pub active_ms: u64,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// What the reply cost, in billionths of a US dollar, where the model's price is known.
    pub cost_nano_usd: u64,
    /// The calls of a model's reply that were refused before they were operations: the tool as the model wrote it, and why.
    pub refused: Vec<(String, &'static str)>,
    /// The gates that it waited at, in order.
    pub gates: Vec<&'static str>,
    /// What a tool's server was refused, by kind, and how often.
    pub denials: BTreeMap<&'static str, u64>,
}

/// What is known of one attempt of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptFacts {
    /// The run.
    pub run: RunId,
    /// The operation.
    pub operation: OperationId,
    /// The operation's kind.
    pub kind: OperationKind,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// Why it has no good outcome: a code of a failure, `lost` when its process ended, `in_doubt` when a person had to
    /// say, `abandoned` when its run went on or ended without it.
    pub code: Option<&'static str>,
}

/// The kinds of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationKind {
    /// A call of a model.
    Chat,
    /// A call of a tool.
    Tool,
    /// A search in the memory.
    MemorySearch,
    /// An addition to the memory.
    MemoryCreate,
    /// A walk along the memory's relations.
    MemoryTraverse,
    /// A child run.
    Agent,
    /// A question to a person.
    Question,
    /// A wait for a time.
    Timer,
    /// A call of an HTTP endpoint by a declarative tool.
    Http,
    /// A mail of a declarative tool.
    Mail,
    /// A transfer of the call that the run is.
    Transfer,
    /// A kind that this release does not know.
    Unknown,
}

impl OperationKind {
    /// Every kind.
    pub const ALL: &[Self] = &[
        Self::Chat,
        Self::Tool,
        Self::MemorySearch,
        Self::MemoryCreate,
        Self::MemoryTraverse,
        Self::Agent,
        Self::Question,
        Self::Timer,
        Self::Http,
        Self::Mail,
        Self::Transfer,
        Self::Unknown,
    ];

    /// The kind as text, such as `memory_search`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Tool => "tool",
            Self::MemorySearch => "memory_search",
            Self::MemoryCreate => "memory_create",
            Self::MemoryTraverse => "memory_traverse",
            Self::Agent => "agent",
            Self::Question => "question",
            Self::Timer => "timer",
            Self::Http => "http",
            Self::Mail => "mail",
            Self::Transfer => "transfer",
            Self::Unknown => "unknown",
        }
    }

    /// The kind, and the tool or agent, of a journal's label, such as ``tool `risk.score` ``.
    pub(crate) fn of_label(label: &str) -> (Self, Option<&str>) {
        let quoted = |prefix: &str| label.strip_prefix(prefix)?.strip_prefix(" `")?.strip_suffix('`');
        match label {
            "model completion" => (Self::Chat, None),
            "memory search" => (Self::MemorySearch, None),
            "memory create" => (Self::MemoryCreate, None),
            "memory traverse" => (Self::MemoryTraverse, None),
            "question" => (Self::Question, None),
            "timer" => (Self::Timer, None),
            _ if METHODS.iter().any(|method| label.starts_with(method)) => (Self::Http, None),
            _ if label.starts_with("mail to ") => (Self::Mail, None),
            _ if label == "transfer" || label.starts_with("transfer to ") => (Self::Transfer, None),
            _ => match (quoted("tool"), quoted("agent")) {
                (Some(tool), _) => (Self::Tool, Some(tool)),
                (None, Some(agent)) => (Self::Agent, Some(agent)),
                (None, None) => (Self::Unknown, None),
            },
        }
    }
}

/// How the label of an HTTP call begins. Its URL holds values of a run, so that it is no name of a span.
const METHODS: [&str; 5] = ["GET http", "POST http", "PUT http", "PATCH http", "DELETE http"];
