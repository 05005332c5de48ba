//! What a journal holds: one record for each thing that happened to a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use dalsegno_core::{
    AgentName, AgentRequest, AgentResponse, Answer, Budget, Digest, EffectClass, FailureCode, Gate,
    Inherited, LiveNews, OperationId, Outcome, RunId, SessionContext, Signal, Timestamp, ToolName,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bytes::{Checksum, Link};

/// One record of a run's journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its place in the run, from 0.
    pub seq: u64,
    /// When the shell learned of it.
    pub at: Timestamp,
    /// The operation that it is about.
    pub operation: Option<OperationId>,
    /// The operation below which that operation runs.
    pub parent: Option<OperationId>,
    /// What happened.
    pub body: Body,
    /// The hash of the encoded body.
    pub checksum: Checksum,
    /// The link in the run's hash chain: it covers the link before it, the run and all fields above.
    pub link: Link,
}

/// A record that is to be appended.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRecord {
    /// When the shell learned of it.
    pub at: Timestamp,
    /// The operation that it is about.
    pub operation: Option<OperationId>,
    /// The operation below which that operation runs.
    pub parent: Option<OperationId>,
    /// What happened.
    pub body: Body,
    /// Files that the body refers to, by the digests of their bytes ([`digest_bytes`](crate::digest_bytes)); at most 32 MiB
    /// each. They are stored in the same commit. What the store has already need not be here.
    pub files: Vec<(Digest, Arc<[u8]>)>,
}

impl NewRecord {
    /// A record about the run.
    pub const fn new(at: Timestamp, body: Body) -> Self {
        Self { at, operation: None, parent: None, body, files: Vec::new() }
    }

    /// A record about an operation.
    pub const fn of(at: Timestamp, operation: OperationId, body: Body) -> Self {
        Self { at, operation: Some(operation), parent: None, body, files: Vec::new() }
    }

    /// The same record with the bytes of files that it refers to.
    #[must_use]
    pub fn with_files(self, files: Vec<(Digest, Arc<[u8]>)>) -> Self {
        Self { files, ..self }
    }

    /// The same record below a parent operation.
    #[must_use]
    pub fn below(self, parent: OperationId) -> Self {
        Self { parent: Some(parent), ..self }
    }
}

/// What happened.
///
/// Bodies are stored as MessagePack maps with named fields, so a field can be added with a default and older records
/// are read for ever.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// The run began. Always and only the first record.
    Started(Started),
    /// The run asked for an operation. The request itself is not stored: it follows from the records before it.
    Requested {
        /// The run's step.
        step: u64,
        /// The place within the step.
        ordinal: Vec<u32>,
        /// The request in a few words.
        label: String,
        /// The digest of the request, which a replay compares.
        digest: Digest,
        /// What may repeat.
        class: EffectClass,
        /// Whether the effect starts with this commit.
        start: Start,
    },
    /// An attempt is about to start, or to wait for its start.
    Attempted {
        /// Which one, from 1.
        attempt: u32,
        /// Why there is another one.
        cause: AttemptCause,
        /// Whether it starts with this commit. A deferred one was put off because its process stops.
        start: Start,
        /// The message with which the attempt before it failed; absent where none did, and in records of earlier releases.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The operation waits at a gate.
    Waiting {
        /// What must be answered.
        gate: Gate,
    },
    /// Somebody answered at the operation's gate.
    Answered {
        /// The answer.
        answer: Answer,
    },
    /// A tool's server wanted what it is not granted, in the middle of an attempt. The outcome follows. Replays skip it.
    Denied {
        /// The server.
        server: String,
        /// What it was refused, in order.
        denials: Vec<Denial>,
    },
    /// A tool's server made a task of an attempt, and answers when it is asked about that. Whoever goes on with the run asks
    /// about the same task, and the work is not begun twice. Replays skip it.
    Tasked {
        /// The attempt, from 1.
        attempt: u32,
        /// The server.
        server: String,
        /// The id of the task at the server, in the server's own words.
        task: String,
        /// When the server may have forgotten it, if it said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
    },
    /// The engine asked a tool whether an operation in doubt took place. An answer follows where the tool knew; else a
    /// person is asked. One with no tries says that the tool is about to be asked. Replays skip both.
    Verified {
        /// The tool that was asked.
        tool: ToolName,
        /// How often; 0 before it is asked.
        tries: u32,
        /// What it said last.
        evidence: Evidence,
        /// Its last result, where it had one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        /// Why nobody knows, where the tool or what it said was of no use.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The operation has its outcome.
    Resolved {
        /// The outcome.
        outcome: Outcome,
        /// How many attempts it took.
        attempts: u32,
        /// How long it took from the first attempt on, in milliseconds.
        elapsed_ms: u64,
    },
    /// An outcome that came after its operation was folded or the run ended. Replays skip it.
    ///
    /// The end of a run records it for each effect that is under way or in doubt then, with an outcome that says so. A later
    /// record of the same operation replaces it.
    Late {
        /// The outcome.
        outcome: Outcome,
        /// How many effects of the ended run have no known outcome after this record. 0 by default: releases that did not
        /// count them asked nobody about them.
        #[serde(default, skip_serializing_if = "is_zero")]
        open: u32,
        /// The person who said it, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The run received a signal.
    Signalled {
        /// The signal.
        signal: Signal,
        /// Who sent it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The run began as a copy of another up to a step. Stands right after `started`.
    Forked {
        /// The other run.
        run: RunId,
        /// The number of its records that are shared.
        seq: u64,
        /// How many of the news in the record after these are shared as well: a call is forked between two of its turns.
        #[serde(default, skip_serializing_if = "is_zero")]
        within: u32,
        /// The step whose requests are minted anew: the first one that is this run's own.
        #[serde(default, skip_serializing_if = "is_zero")]
        step: u64,
        /// The operations whose outcomes were replaced.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        overrides: Vec<OperationId>,
        /// What they were replaced with, in the order of `overrides`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outcomes: Vec<Outcome>,
        /// Whether effects that cannot be repeated ask first, since the other run had them already.
        #[serde(default, skip_serializing_if = "is_false")]
        ask_effects: bool,
        /// Whether the other run is foreign: then what is known of the user and the tenant comes from `started` and not
        /// from the shared records.
        #[serde(default, skip_serializing_if = "is_false")]
        foreign: bool,
    },
    /// The run began as the continuation of one that an archive brought: it shares that one's records up to its open step,
    /// which is asked for anew under ids of this run's own, with the agent of this workspace. Effects that change something
    /// ask first. Stands right after `started`.
    Adopted {
        /// The foreign run.
        run: RunId,
        /// The number of its records that are shared.
        seq: u64,
        /// The step whose requests are minted anew.
        step: u64,
        /// The key of whoever signed the archive, if somebody did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signer: Option<String>,
        /// Who adopted it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Something happened in the call that the run is. What the core asks of the live model thereupon is not recorded: it follows
    /// from the records before it.
    Conversed {
        /// What happened, in order. What came together stands together.
        news: Vec<LiveNews>,
    },
    /// What the run took over from the one before it in its session. Stands right after `started`; a run that has it needs
    /// no other run.
    Inherited(Box<Inherited>),
    /// The workspace allows the run less from here on than it began with.
    Narrowed {
        /// What it may use at most from here on, together with what it has used.
        budget: Budget,
    },
    /// A tool server's module changed under the same catalogue.
    Rebound {
        /// The server.
        server: String,
        /// The digest of the module from here on.
        digest: String,
    },
    /// The run waits for people or time and holds no process. Not an end.
    Suspended {
        /// All that it waits for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        waiting_for: Vec<WaitingFor>,
        /// When it wakes by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wake_at: Option<Timestamp>,
    },
    /// A person paused the run: it stands still and holds no process until a person continues it. Not an end.
    Paused {
        /// Who paused it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// What it waits for besides, once it continues.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        waiting_for: Vec<WaitingFor>,
    },
    /// A person continued a run that was paused.
    Continued {
        /// Who continued it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The run ended with an answer.
    Completed {
        /// The response.
        response: AgentResponse,
    },
    /// The run ended with an error.
    Failed {
        /// The response.
        response: AgentResponse,
    },
    /// Somebody ended the run.
    Cancelled {
        /// The response.
        response: AgentResponse,
    },
    /// A person ended the run without looking at what it had done: its records could not be folded, or nobody wanted them to
    /// be.
    Abandoned {
        /// Why.
        reason: String,
        /// Who did it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Another agent goes on.
    HandedOff {
        /// The other agent.
        target: AgentName,
        /// Its run.
        run: RunId,
        /// How this run ended, with what it used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response: Option<AgentResponse>,
        /// What the other agent is told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
}

impl Body {
    /// An outcome that came late, with which no effect of its run is in doubt.
    pub const fn late(outcome: Outcome) -> Self {
        Self::Late { outcome, open: 0, by: None }
    }

    /// A signal from nobody in particular.
    pub const fn signalled(signal: Signal) -> Self {
        Self::Signalled { signal, by: None, reason: None }
    }

    /// The kind of record.
    pub const fn kind(&self) -> RecordKind {
        match self {
            Self::Started(_) => RecordKind::Started,
            Self::Requested { .. } => RecordKind::Requested,
            Self::Attempted { .. } => RecordKind::Attempted,
            Self::Waiting { .. } => RecordKind::Waiting,
            Self::Answered { .. } => RecordKind::Answered,
            Self::Denied { .. } => RecordKind::Denied,
            Self::Tasked { .. } => RecordKind::Tasked,
            Self::Verified { .. } => RecordKind::Verified,
            Self::Resolved { .. } => RecordKind::Resolved,
            Self::Late { .. } => RecordKind::Late,
            Self::Signalled { .. } => RecordKind::Signalled,
            Self::Forked { .. } => RecordKind::Forked,
            Self::Adopted { .. } => RecordKind::Adopted,
            Self::Inherited(_) => RecordKind::Inherited,
            Self::Conversed { .. } => RecordKind::Conversed,
            Self::Narrowed { .. } => RecordKind::Narrowed,
            Self::Rebound { .. } => RecordKind::Rebound,
            Self::Suspended { .. } => RecordKind::Suspended,
            Self::Paused { .. } => RecordKind::Paused,
            Self::Continued { .. } => RecordKind::Continued,
            Self::Completed { .. } => RecordKind::Completed,
            Self::Failed { .. } => RecordKind::Failed,
            Self::Cancelled { .. } => RecordKind::Cancelled,
            Self::Abandoned { .. } => RecordKind::Abandoned,
            Self::HandedOff { .. } => RecordKind::HandedOff,
        }
    }
}

/// How a run began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// The agent.
    pub agent: AgentName,
    /// The digest of its configuration, which the store keeps.
    pub config: Digest,
    /// The version of the core's meaning under which the run began and stays.
    pub semantics: u32,
    /// What it was asked.
    pub request: AgentRequest,
    /// The session that the run belongs to.
    pub session: String,
    /// The run before it in the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predecessor: Option<RunId>,
    /// The caller's key for this start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_key: Option<String>,
    /// The modules of the tool servers that it may use: server and digest. A later change is a [`Body::Rebound`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub modules: BTreeMap<String, String>,
    /// The operation that this run performs; none for a root run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// How many runs are above it: 0 for a root run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// What it may use at most of what it shares with the runs above it; no bound beside its own limits when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The context of its parent's session, in which a child run works; none for other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<SessionContext>>,
    /// Whether the predecessor handed over to it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub by_handoff: bool,
    /// Whether effects that cannot be repeated ask first.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ask_effects: bool,
}

/// The operation of another run that a child run performs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Parent {
    /// The other run.
    pub run: RunId,
    /// Its operation.
    pub operation: OperationId,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Why an operation is attempted by a record of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptCause {
    /// Its gate was answered: whatever was in doubt is settled.
    Answered,
    /// It was put off because enough of its step were under way, and now it is its turn.
    Queued,
    /// The process of the attempt before it ended without an outcome.
    Recovered,
    /// The attempt before it had no answer.
    Failed {
        /// The kind of failure.
        code: FailureCode,
        /// Whether the receiver may have acted on it.
        possibly_received: bool,
    },
}

/// Whether an effect starts with the commit of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// It may be under way from here on.
    Now,
    /// A gate or a limit is in front of it: an `attempted` record says when it starts.
    Deferred,
}

/// One thing that a suspended run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingFor {
    /// What kind of thing, such as `approval`.
    pub kind: String,
    /// The operation that waits.
    pub operation: OperationId,
    /// The question for whoever answers.
    pub question: String,
}

/// What a tool says of an operation in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// It took place.
    Happened,
    /// It did not take place.
    NotHappened,
    /// Nothing.
    Unknown,
}

/// Something that a tool's server wanted and was not granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// What kind of thing, such as `network` or `file`.
    pub kind: String,
    /// What it asked for, in its own words.
    pub subject: String,
    /// Why it was refused.
    pub reason: String,
    /// How often, one after another.
    pub count: u64,
}

macro_rules! record_kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// The kinds of record. The numbers are part of the stored form and never change their meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[repr(u8)]
        pub enum RecordKind {
            $($(#[$doc])* $name = $number,)*
        }

        impl RecordKind {
            /// Every kind, in the order of the numbers.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The kind as text, such as `handed_off`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

record_kinds! {
    /// The run began.
    Started = 1, "started";
    /// The run asked for an operation.
    Requested = 2, "requested";
    /// An attempt is about to start.
    Attempted = 3, "attempted";
    /// The operation waits at a gate.
    Waiting = 4, "waiting";
    /// Somebody answered at a gate.
    Answered = 5, "answered";
    /// The operation has its outcome.
    Resolved = 6, "resolved";
    /// An outcome that came too late.
    Late = 7, "late";
    /// The run received a signal.
    Signalled = 8, "signalled";
    /// The run is a copy of another up to a step.
    Forked = 9, "forked";
    /// A tool server's module changed.
    Rebound = 10, "rebound";
    /// The run waits and holds no process.
    Suspended = 11, "suspended";
    /// The run ended with an answer.
    Completed = 12, "completed";
    /// The run ended with an error.
    Failed = 13, "failed";
    /// Somebody ended the run.
    Cancelled = 14, "cancelled";
    /// Another agent goes on.
    HandedOff = 15, "handed_off";
    /// A tool's server wanted what it is not granted.
    Denied = 16, "denied";
    /// A tool's server made a task of an attempt.
    Tasked = 17, "tasked";
    /// A tool was asked whether an operation in doubt took place.
    Verified = 18, "verified";
    /// What the run took over from the one before it.
    Inherited = 19, "inherited";
    /// The run is the continuation of one that an archive brought.
    Adopted = 20, "adopted";
    /// The workspace allows the run less than it began with.
    Narrowed = 21, "narrowed";
    /// A person ended the run, whatever it had done.
    Abandoned = 22, "abandoned";
    /// Something happened in the call that the run is.
    Conversed = 23, "conversed";
    /// A person paused the run.
    Paused = 24, "paused";
    /// A person continued a run that was paused.
    Continued = 25, "continued";
}

impl std::fmt::Display for RecordKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
