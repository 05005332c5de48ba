//! What a step asks for.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use dalsegno_tools::{ApiCall, Email, Transfer};
use serde::{Deserialize, Serialize};

use crate::event::Outcome;
use crate::id::{OperationId, Timestamp};
use crate::join::Pending;
use crate::live::LiveCommand;
use crate::operation::{
    AgentCall, Gate, GateState, Input, MemoryCreate, MemorySearch, MemoryTraverse, ModelCompletion,
    Operation, Request, Timer, ToolCall,
};
use crate::response::AgentResponse;
use crate::state::{AgentState, Handoff, Phase};

/// What a step asks for: the end, or something that the shell must do before the next step.
///
/// Every request carries the state to continue with, and says what is new in it. An operation is performed at most once by the
/// shell's rules for its class; its outcome goes into the state under the operation's id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentAction {
    /// The run is over, whatever the end.
    Complete {
        /// How it ended.
        response: AgentResponse,
        /// The last state.
        final_state: AgentState,
    },
    /// Asks the model for a reply.
    RequestModelCompletion {
        /// The operation's id.
        id: OperationId,
        /// What the model reads.
        completion: Arc<ModelCompletion>,
        /// The state to continue with, and what is new in it.
        continuation: Continuation,
    },
    /// Searches the memory.
    RequestMemorySearch {
        /// The operation's id.
        id: OperationId,
        /// What to search for.
        search: Arc<MemorySearch>,
        /// The state to continue with, and what is new in it.
        continuation: Continuation,
    },
    /// Adds to the memory.
    RequestMemoryCreate {
        /// The operation's id.
        id: OperationId,
        /// What to add.
        create: Arc<MemoryCreate>,
        /// The state to continue with, and what is new in it.
        continuation: Continuation,
    },
    /// Follows relations in the memory.
    RequestMemoryTraverse {
        /// The operation's id.
        id: OperationId,
        /// Where to begin and how far to go.
        traverse: Arc<MemoryTraverse>,
        /// The state to continue with, and what is new in it.
        continuation: Continuation,
    },
    /// Starts a child run, whose answer comes back.
    RequestAgent {
        /// The operation's id.
        id: OperationId,
        /// The agent, what it is asked, and what it may use.
        call: Arc<AgentCall>,
        /// The state to continue with, and what is new in it.
        continuation: Continuation,
    },
    /// Asks a person.
    RequestInput {
        /// The operation's id.
        id: OperationId,
        /// The question.
        input: Arc<Input>,
        /// The state to continue with, and what is new in it.
        continuation: Continuation,
    },
    /// Waits for a time.
    RequestTimer {
        /// The operation's id.
        id: OperationId,
        /// The time.
        timer: Timer,
        /// The state to continue with, and what is new in it.
        continuation: Continuation,
    },
    /// The run is over, and another agent goes on in the same session.
    Handoff {
        /// Who goes on, and with what.
        handoff: Handoff,
        /// The last state.
        final_state: AgentState,
    },
    /// Calls a tool.
    RequestToolCall {
        /// The operation's id.
        id: OperationId,
        /// The tool and its arguments.
        call: Arc<ToolCall>,
        /// The state to continue with, and what is new in it.
        continuation: Continuation,
    },
    /// Calls an HTTP endpoint, for a declarative tool.
    RequestApiCall {
        /// The operation's id.
        id: OperationId,
        /// The request; secrets stand in it as references.
        call: Arc<ApiCall>,
        /// The state to continue with, and what is new in it.
        continuation: Continuation,
    },
    /// Sends a mail, for a declarative tool.
    RequestEmail {
        /// The operation's id.
        id: OperationId,
        /// The mail; secrets stand in it as references.
        mail: Arc<Email>,
        /// The state to continue with, and what is new in it.
        continuation: Continuation,
    },
    /// Has the call that the run is transferred, for a declarative tool.
    RequestTransfer {
        /// The operation's id.
        id: OperationId,
        /// Where the call goes.
        transfer: Arc<Transfer>,
        /// The state to continue with, and what is new in it.
        continuation: Continuation,
    },
    /// Performs operations that do not need each other; those at a gate wait for their answer meanwhile.
    RequestParallel {
        /// The operations that have no outcome yet.
        operations: Vec<Operation>,
        /// The state to continue with, and what is new in it.
        continuation: Continuation,
    },
    /// Nothing is to be done: a declarative tool goes on with the next step at once.
    Continue {
        /// The state to continue with, and what is new in it.
        continuation: Continuation,
    },
    /// A call goes on: the session of its live model is sent commands, operations are performed, and something may follow from
    /// silence alone.
    Converse {
        /// What the session has not taken, in the order in which it is sent.
        commands: Vec<LiveCommand>,
        /// The operations that have no outcome yet; some may wait at a gate.
        operations: Vec<Operation>,
        /// When [`LiveNews::Woke`](crate::LiveNews::Woke) is to be reported, unless other news comes before; none once the call is
        /// over.
        wake_at: Option<Timestamp>,
        /// The state to continue with, and what is new in it.
        continuation: Continuation,
    },
    /// Nothing is left to do but to answer gates.
    RequestApproval {
        /// The operations that wait.
        operations: Vec<Operation>,
        /// The state to continue with, and what is new in it.
        continuation: Continuation,
    },
}

/// The state to continue with, and what a step has added to it: what a journal records before anything is performed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Continuation {
    /// The state to continue with.
    pub state: AgentState,
    /// The operations that no step has asked for before, in their order in the state.
    asked: Vec<OperationId>,
    /// The calls of declarative tools that have ended in this step, in their order in the state.
    concluded: Vec<OperationId>,
}

impl Continuation {
    /// Nothing is new: the state was asked for again.
    pub(crate) fn unchanged(state: AgentState) -> Self {
        Self { state, asked: Vec::new(), concluded: Vec::new() }
    }

    /// All that the state waits for is new: a step has begun.
    pub(crate) fn begun(state: AgentState) -> Self {
        let asked = open(state.pending()).collect();
        Self { state, asked, concluded: Vec::new() }
    }

    /// The declarative tools of a step went on, which waited for `before`.
    pub(crate) fn moved(state: AgentState, before: &BTreeSet<OperationId>) -> Self {
        let asked = open(state.pending()).filter(|id| !before.contains(id)).collect();
        let settled = state.pending().iter().filter(|pending| pending.outcome.is_some());
        let concluded =
            settled.map(|pending| pending.operation.id).filter(|id| before.contains(id)).collect();
        Self { state, asked, concluded }
    }

    /// The operations that the step asks for and no step before it has, in request order. Some wait at a gate, and the call of a
    /// declarative tool is never performed by a shell: [`AgentAction::into_operations`] has what is to be performed.
    pub fn asked(&self) -> impl Iterator<Item = &Operation> {
        among(self.state.pending(), &self.asked).map(|pending| &pending.operation)
    }

    /// The calls of declarative tools that have ended in this step, with their outcomes.
    pub fn concluded(&self) -> impl Iterator<Item = (OperationId, &Outcome)> {
        let ended = among(self.state.pending(), &self.concluded);
        ended.filter_map(|pending| Some((pending.operation.id, pending.outcome.as_ref()?)))
    }
}

/// The operations without an outcome.
pub(crate) fn open(pending: &[Pending]) -> impl Iterator<Item = OperationId> {
    pending.iter().filter(|pending| pending.outcome.is_none()).map(|pending| pending.operation.id)
}

/// Those of the operations that have one of these ids, which come in the same order.
fn among<'a>(pending: &'a [Pending], ids: &'a [OperationId]) -> impl Iterator<Item = &'a Pending> {
    let mut ids = ids.iter().peekable();
    pending.iter().filter(move |pending| ids.next_if_eq(&&pending.operation.id).is_some())
}

impl AgentAction {
    /// The action for a state that is over, or that waits: what is missing.
    pub(crate) fn request(continuation: Continuation) -> Self {
        let state = &continuation.state;
        match &state.phase {
            Phase::Ended(response) => {
                return Self::Complete { response: response.clone(), final_state: continuation.state };
            }
            Phase::HandedOff(handoff) => {
                return Self::Handoff { handoff: handoff.clone(), final_state: continuation.state };
            }
            Phase::Start | Phase::Think | Phase::Plan { .. } | Phase::Waiting(_) => {}
        }
        if state.is_ready() {
            return Self::Continue { continuation };
        }
        // What a declarative tool does is asked for part by part.
        let performed = |operation: &Operation| {
            operation.is_declarative() && !matches!(operation.gate, GateState::Waiting(_))
        };
        let missing = || {
            let missing = state.pending().iter().filter(|pending| pending.outcome.is_none());
            missing.filter(|pending| !performed(&pending.operation))
        };
        let waits = |operation: &Operation| matches!(operation.gate, GateState::Waiting(_));
        let all_wait = missing().all(|pending| waits(&pending.operation));
        let mut operations: Vec<Operation> = missing().map(|pending| pending.operation.clone()).collect();
        if let [Operation { id, request: Request::Input(input), gate: GateState::Waiting(Gate::Input), .. }] =
            operations.as_slice()
        {
            let (id, input) = (*id, Arc::clone(input));
            return Self::RequestInput { id, input, continuation };
        }
        if all_wait {
            return Self::RequestApproval { operations, continuation };
        }
        if operations.len() > 1 {
            return Self::RequestParallel { operations, continuation };
        }
        match operations.pop() {
            Some(Operation { id, request, .. }) => match request {
                Request::ModelCompletion(completion) => {
                    Self::RequestModelCompletion { id, completion, continuation }
                }
                Request::MemorySearch(search) => Self::RequestMemorySearch { id, search, continuation },
                Request::MemoryCreate(create) => Self::RequestMemoryCreate { id, create, continuation },
                Request::MemoryTraverse(traverse) => {
                    Self::RequestMemoryTraverse { id, traverse, continuation }
                }
                Request::ToolCall(call) => Self::RequestToolCall { id, call, continuation },
                Request::ApiCall(call) => Self::RequestApiCall { id, call, continuation },
                Request::Email(mail) => Self::RequestEmail { id, mail, continuation },
                Request::Transfer(transfer) => Self::RequestTransfer { id, transfer, continuation },
                Request::AgentCall(call) => Self::RequestAgent { id, call, continuation },
                Request::Input(input) => Self::RequestInput { id, input, continuation },
                Request::Timer(timer) => Self::RequestTimer { id, timer, continuation },
            },
            None => Self::RequestParallel { operations: vec![], continuation },
        }
    }

    /// The operations to perform now, and the state to continue with: what has no outcome yet, without the calls of declarative
    /// tools, which the core performs, and without what waits for an answer. No operations when the run is over.
    pub fn into_operations(self) -> (Vec<Operation>, AgentState) {
        let state = self.into_continuation().state;
        let open = state.pending().iter().filter(|pending| {
            let operation = &pending.operation;
            let waits = matches!(operation.gate, GateState::Waiting(_));
            pending.outcome.is_none() && !waits && !operation.is_declarative()
        });
        (open.map(|pending| pending.operation.clone()).collect(), state)
    }

    /// The state to continue with, and what is new in it; the last state, with nothing new, when the run is over.
    pub fn into_continuation(self) -> Continuation {
        match self {
            Self::Complete { final_state: state, .. } | Self::Handoff { final_state: state, .. } => {
                Continuation::unchanged(state)
            }
            Self::RequestMemoryTraverse { continuation, .. }
            | Self::RequestAgent { continuation, .. }
            | Self::RequestInput { continuation, .. }
            | Self::RequestTimer { continuation, .. }
            | Self::RequestModelCompletion { continuation, .. }
            | Self::RequestMemorySearch { continuation, .. }
            | Self::RequestMemoryCreate { continuation, .. }
            | Self::RequestToolCall { continuation, .. }
            | Self::RequestApiCall { continuation, .. }
            | Self::RequestEmail { continuation, .. }
            | Self::RequestTransfer { continuation, .. }
            | Self::RequestParallel { continuation, .. }
            | Self::RequestApproval { continuation, .. }
            | Self::Converse { continuation, .. }
            | Self::Continue { continuation } => continuation,
        }
    }

    /// The state to continue with, or the last one.
    pub fn into_state(self) -> AgentState {
        self.into_continuation().state
    }

    /// The state to continue with, or the last one.
    pub fn state(&self) -> &AgentState {
        match self {
            Self::Complete { final_state: state, .. } | Self::Handoff { final_state: state, .. } => state,
            Self::RequestMemoryTraverse { continuation, .. }
            | Self::RequestAgent { continuation, .. }
            | Self::RequestInput { continuation, .. }
            | Self::RequestTimer { continuation, .. }
            | Self::RequestModelCompletion { continuation, .. }
            | Self::RequestMemorySearch { continuation, .. }
            | Self::RequestMemoryCreate { continuation, .. }
            | Self::RequestToolCall { continuation, .. }
            | Self::RequestApiCall { continuation, .. }
            | Self::RequestEmail { continuation, .. }
            | Self::RequestTransfer { continuation, .. }
            | Self::RequestParallel { continuation, .. }
            | Self::RequestApproval { continuation, .. }
            | Self::Converse { continuation, .. }
            | Self::Continue { continuation } => &continuation.state,
        }
    }

    /// The end of the run, if this is it.
    pub fn response(&self) -> Option<&AgentResponse> {
        match &self.state().phase {
            Phase::Ended(response) => Some(response),
            Phase::Start | Phase::Think | Phase::Plan { .. } | Phase::Waiting(_) | Phase::HandedOff(_) => {
                None
            }
        }
    }
}
