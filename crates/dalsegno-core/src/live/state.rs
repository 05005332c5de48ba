//! Where a call stands.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::command::{CommandKind, LiveCommand};
use super::news::{EndedBy, LiveNews, ResponseEnd};
use crate::canonical::Digest;
use crate::id::{OperationId, Timestamp};
use crate::join::{Join, Pending, Then};
use crate::operation::{Gate, GateState, Request, Terms};
use crate::response::RunError;
use crate::state::{AgentState, Phase};

/// Most news that may wait for a step.
const ARRIVALS_MAX: usize = 1_024;

/// Where a call stands: all that the next step of it needs, and no more than its limits allow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// When the call began.
    pub(crate) began: Timestamp,
    pub(crate) line: Line,
    /// The live model hears while it speaks: it does not wait for silence.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(crate) duplex: bool,
    /// The time of what a step has looked at last.
    #[serde(default)]
    pub(crate) looked_at: Timestamp,
    /// What has come and no step has looked at, in the order of the journal.
    pub(crate) arrivals: Vec<(Timestamp, Arrival)>,
    /// Calls that have no output, or whose result follows.
    pub(crate) calls: Vec<LiveCall>,
    /// What the calls ask for: one for each thing to do.
    pub(crate) works: Vec<Work>,
    pub(crate) talk: Talk,
    /// What the session has not taken.
    pub(crate) outbox: Vec<LiveCommand>,
    /// The commands that it took last.
    pub(crate) taken: Vec<OperationId>,
    /// How many commands there were: the place of the next one.
    pub(crate) commands: u64,
    /// How many works there were: the number and the ordinal of the next one.
    pub(crate) asked: u32,
    /// The ids of the last calls, hashed.
    pub(crate) known: Vec<Digest>,
    /// Calls of which it will never be known whether they took place.
    pub(crate) doubtful: Vec<Digest>,
    /// What the live model is told to say first.
    pub(crate) greeting: Option<String>,
    pub(crate) digits: Option<Digits>,
    /// Calls that were answered by what another call had begun.
    #[serde(default)]
    pub(crate) joined: u64,
    /// Bytes of what was said and heard.
    pub(crate) bytes: u64,
    /// How long the session has lasted, as its provider counts, in milliseconds.
    #[serde(default, skip_serializing_if = "crate::response::is_zero")]
    pub(crate) lasted_ms: u64,
    /// The live model hangs up, once its last words were played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hangs_up: Option<HangsUp>,
    /// Since when the call is being transferred, as far as anybody knows: its provider was asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) transfer: Option<Timestamp>,
    /// Where it is being transferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) transfer_to: Option<String>,
    /// The agent ends the call.
    pub(crate) closing: Option<Over>,
    /// The call is over, and the run ends when its effects have their outcomes.
    pub(crate) over: Option<Over>,
}

/// The connection to the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// Not yet.
    Waiting,
    Open,
    Lost,
}

/// Something that has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Arrival {
    News(LiveNews),
    /// An operation has its outcome.
    Settled(OperationId),
    /// A part of a declarative tool has its outcome.
    Part(OperationId),
    /// An operation waits at a gate.
    Gated(OperationId),
    /// An operation waits at its gate no more.
    Passed {
        operation: OperationId,
        in_doubt: bool,
    },
    /// A person answered at an operation's gate, and it may continue.
    Answered(OperationId),
}

/// An operation waits at a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waits {
    /// It is not known whether it took place.
    pub(crate) in_doubt: bool,
}

impl Waits {
    /// What an operation waits at, if it does.
    pub(crate) fn of(pending: &Pending) -> Option<Self> {
        match &pending.operation.gate {
            GateState::Waiting(gate) if pending.outcome.is_none() => {
                Some(Self { in_doubt: matches!(gate, Gate::InDoubt { .. }) })
            }
            GateState::Waiting(_) | GateState::Open | GateState::Answered => None,
        }
    }
}

/// One call of a tool by the live model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveCall {
    /// The provider's id of the call.
    pub call_id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them.
    pub(crate) arguments: String,
    /// The response that asked.
    pub(crate) response: String,
    /// The number of the work that answers it.
    pub(crate) work: u32,
    /// Since when it waits.
    pub(crate) since: Timestamp,
    pub(crate) answered: Answered,
}

/// What the model has of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answered {
    /// No output.
    No,
    /// Its output says that it runs, or that it is in doubt; the result follows.
    Later,
}

/// One thing to do for one or several calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) number: u32,
    /// Tool and arguments.
    pub(crate) digest: Digest,
    /// A repeated call is answered by it.
    pub(crate) join: bool,
    /// It changes nothing.
    pub(crate) reads: bool,
    /// It runs on when the model is interrupted.
    pub(crate) keep: bool,
    pub(crate) stage: Stage,
}

/// How far a work has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    /// It starts when the response that asked for it has completed.
    Held { request: Request, terms: Terms, gate: GateState },
    /// It is an operation of the run.
    Started(OperationId),
    /// It has its result, which the model has not heard: no response has completed that began after it came.
    Done {
        content: String,
        /// It failed, or it is not known whether it did.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        is_error: bool,
        /// How many responses had begun then.
        after: u64,
    },
}

/// Who speaks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Talk {
    /// The response that is active, and its number: the last that began, where several are.
    pub(crate) active: Option<(String, u64)>,
    /// The others that are active, where the live model leaves work to several at once; the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) beside: Vec<(String, u64)>,
    /// The response that ended last: a call of it may come after it.
    pub(crate) ended: Option<(String, ResponseEnd)>,
    /// How many responses have begun.
    pub(crate) responses: u64,
    /// The command by which the model was asked to speak and has not begun.
    pub(crate) asked: Option<OperationId>,
    /// The caller speaks.
    pub(crate) caller: bool,
    /// The caller has had a turn: until then the model is expected to answer by itself.
    pub(crate) turn_until: Option<Timestamp>,
    /// There are results or notes that no response has read.
    pub(crate) unspoken: bool,
    /// Since when neither speaks.
    pub(crate) quiet_since: Option<Timestamp>,
    /// How often the model said that it is still at it, since the last call without an output.
    pub(crate) fillers: u32,
    /// How many responses failed one after another.
    pub(crate) failures: u32,
    /// The response whose words are being played to the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sounding: Option<String>,
    /// How many turns the caller has had after the first one. What is said or pressed before the model has spoken again belongs to the same
    /// turn.
    #[serde(default)]
    pub(crate) turns: u64,
    /// The model has begun to speak since the caller's last turn began.
    #[serde(default)]
    pub(crate) replied: bool,
    /// A response has completed that the live model has not told the caller of.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(crate) untold: bool,
}

/// A call of `call.hang_up`, which has no output as long as it may come to the end of the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HangsUp {
    pub(crate) call_id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// The response that asked for it.
    pub(crate) response: String,
    /// When that response completed.
    pub(crate) since: Option<Timestamp>,
    /// The live model has said something since then.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(crate) said: bool,
}

/// Keys that the caller pressed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Digits {
    pub(crate) keys: String,
    /// When the last one was pressed.
    pub(crate) at: Timestamp,
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Over {
    pub(crate) at: Timestamp,
    pub(crate) by: EndedBy,
    pub(crate) reason: String,
    /// Why the run fails, if it does.
    pub(crate) error: Option<RunError>,
}

impl Live {
    pub(crate) fn begin(at: Timestamp, greeting: Option<String>) -> Self {
        Self {
            began: at,
            duplex: false,
            looked_at: at,
            line: Line::Waiting,
            arrivals: Vec::new(),
            calls: Vec::new(),
            works: Vec::new(),
            talk: Talk::default(),
            outbox: Vec::new(),
            taken: Vec::new(),
            commands: 0,
            asked: 0,
            known: Vec::new(),
            doubtful: Vec::new(),
            greeting,
            digits: None,
            joined: 0,
            bytes: 0,
            lasted_ms: 0,
            hangs_up: None,
            transfer: None,
            transfer_to: None,
            closing: None,
            over: None,
        }
    }

    /// What the session has not taken, in the order in which it is sent.
    pub fn commands(&self) -> &[LiveCommand] {
        &self.outbox
    }

    /// The calls that have no output, and those whose result follows.
    pub fn calls(&self) -> &[LiveCall] {
        &self.calls
    }

    /// Says whether the call rings: it was not answered yet.
    pub fn is_ringing(&self) -> bool {
        self.line == Line::Waiting
            && self.outbox.iter().any(|command| matches!(command.kind, CommandKind::Answer { .. }))
    }

    /// How many calls were answered by what another call had begun.
    pub fn joined(&self) -> u64 {
        self.joined
    }

    /// How long the session has lasted, as its provider counts, in milliseconds; zero where it does not bill by time.
    pub fn lasted_ms(&self) -> u64 {
        self.lasted_ms
    }

    /// Says whether the session was open once.
    pub fn has_begun(&self) -> bool {
        self.line != Line::Waiting
    }

    /// Says whether the connection to the session is lost: nothing is sent before it is there again.
    pub fn is_lost(&self) -> bool {
        self.line == Line::Lost
    }

    /// Says whether the call is over. Effects of it may still be under way.
    pub fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// How many turns the caller has had after the first one.
    pub(crate) fn turns(&self) -> u64 {
        self.talk.turns
    }

    /// Says whether the call may be transferred now: it continues, and is not on its way elsewhere.
    pub(crate) fn may_be_transferred(&self) -> bool {
        self.transfer.is_none() && self.closing.is_none() && self.over.is_none()
    }

    /// Where the call is being transferred as far as that is known; none where it is not.
    pub fn transfer_to(&self) -> Option<&str> {
        self.transfer_to.as_deref().filter(|_| self.transfer.is_some())
    }

    /// Says whether the call is being transferred as far as anybody knows, or was until it ended.
    pub fn is_transferred(&self) -> bool {
        self.transfer.is_some()
    }

    /// Says whether something waits for a step: something has come, or the call is over and nothing is under way.
    pub(crate) fn has_more(&self, pending: &[Pending]) -> bool {
        let is_under_way = || pending.iter().any(|pending| pending.outcome.is_none());
        !self.arrivals.is_empty() || (self.over.is_some() && !is_under_way())
    }

    /// Says whether the call is over, or the news that it is waits for a step.
    pub(crate) fn is_ending(&self) -> bool {
        let ends =
            |(_, arrival): &(Timestamp, Arrival)| matches!(arrival, Arrival::News(LiveNews::Ended { .. }));
        self.over.is_some() || self.arrivals.iter().any(ends)
    }

    /// Says whether a part of a declarative tool has an outcome that no step has looked at, or an operation an answer.
    pub(crate) fn has_not_looked_at(&self, operation: OperationId) -> bool {
        let of_it = [Arrival::Part(operation), Arrival::Answered(operation)];
        self.arrivals.iter().any(|(_, arrival)| of_it.contains(arrival))
    }

    /// The gate at which an operation waits as far as steps have looked: what comes next must not depend on how much has come since.
    pub(crate) fn gate_of(&self, pending: &Pending) -> Option<Waits> {
        let id = pending.operation.id;
        let change = self.arrivals.iter().find_map(|(_, arrival)| match arrival {
            Arrival::Gated(operation) if *operation == id => Some(None),
            Arrival::Passed { operation, in_doubt } if *operation == id => {
                Some(Some(Waits { in_doubt: *in_doubt }))
            }
            _ => None,
        });
        change.unwrap_or_else(|| Waits::of(pending))
    }

    /// Says whether more news may wait for a step.
    pub(crate) fn has_room(&self) -> bool {
        self.arrivals.len() < ARRIVALS_MAX
    }

    /// Says whether a command was sent and is not taken.
    pub(crate) fn has_sent(&self, command: OperationId) -> bool {
        self.outbox.iter().any(|one| one.id == command)
    }

    /// Says whether a command was sent. One that was taken long ago is forgotten.
    pub(crate) fn knows(&self, command: OperationId) -> bool {
        self.has_sent(command) || self.taken.contains(&command)
    }

    /// The work that an operation is.
    pub(crate) fn work_of(&self, operation: OperationId) -> Option<&Work> {
        self.works.iter().find(|work| matches!(work.stage, Stage::Started(id) if id == operation))
    }

    /// The first call that an operation performs.
    pub(crate) fn call_of(&self, operation: OperationId) -> Option<&LiveCall> {
        let number = self.work_of(operation)?.number;
        self.calls.iter().find(|call| call.work == number)
    }
}

impl LiveCall {
    /// The arguments as the model wrote them.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// Says whether the call has its output. One that said that it takes longer is an output, too.
    pub fn is_answered(&self) -> bool {
        self.answered == Answered::Later
    }
}

impl AgentState {
    /// Where the call stands, if the run is one that has begun and is not over.
    pub fn live(&self) -> Option<&Live> {
        match &self.join_of()?.then {
            Then::Live(live) => Some(live),
            _ => None,
        }
    }

    pub(crate) fn live_mut(&mut self) -> Option<&mut Live> {
        match &mut self.phase {
            Phase::Waiting(Join { then: Then::Live(live), .. }) => Some(live),
            _ => None,
        }
    }
}
