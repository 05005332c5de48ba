//! What a step asks for.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use dalsegno_tools::{ApiCall, Email};
use serde::{Deserialize, Serialize};

use crate::id::OperationId;
use crate::operation::{
    AgentCall, Gate, GateState, Input, MemoryCreate, MemorySearch, MemoryTraverse, ModelCompletion,
    Operation, Request, Timer, ToolCall,
};
use crate::response::AgentResponse;
use crate::state::{AgentState, Handoff, Phase};

/// What a step asks for: the end, or something that the shell must do before the next step.
///
/// Every request carries the state to continue with. An operation is performed at most once by the shell's rules for
/// its class; its outcome goes into the state under the operation's id.
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
        /// The state to continue with.
        continuation_state: AgentState,
    },
    /// Searches the memory.
    RequestMemorySearch {
        /// The operation's id.
        id: OperationId,
        /// What to search for.
        search: Arc<MemorySearch>,
        /// The state to continue with.
        continuation_state: AgentState,
    },
    /// Adds to the memory.
    RequestMemoryCreate {
        /// The operation's id.
        id: OperationId,
        /// What to add.
        create: Arc<MemoryCreate>,
        /// The state to continue with.
        continuation_state: AgentState,
    },
    /// Follows relations in the memory.
    RequestMemoryTraverse {
        /// The operation's id.
        id: OperationId,
        /// Where to begin and how far to go.
        traverse: Arc<MemoryTraverse>,
        /// The state to continue with.
        continuation_state: AgentState,
    },
    /// Starts a child run, whose answer comes back.
    RequestAgent {
        /// The operation's id.
        id: OperationId,
        /// The agent, what it is asked, and what it may use.
        call: Arc<AgentCall>,
        /// The state to continue with.
        continuation_state: AgentState,
    },
    /// Asks a person.
    RequestInput {
        /// The operation's id.
        id: OperationId,
        /// The question.
        input: Arc<Input>,
        /// The state to continue with.
        continuation_state: AgentState,
    },
    /// Waits for a time.
    RequestTimer {
        /// The operation's id.
        id: OperationId,
        /// The time.
        timer: Timer,
        /// The state to continue with.
        continuation_state: AgentState,
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
        /// The state to continue with.
        continuation_state: AgentState,
    },
    /// Calls an HTTP endpoint, for a declarative tool.
    RequestApiCall {
        /// The operation's id.
        id: OperationId,
        /// The request; secrets stand in it as references.
        call: Arc<ApiCall>,
        /// The state to continue with.
        continuation_state: AgentState,
    },
    /// Sends a mail, for a declarative tool.
    RequestEmail {
        /// The operation's id.
        id: OperationId,
        /// The mail; secrets stand in it as references.
        mail: Arc<Email>,
        /// The state to continue with.
        continuation_state: AgentState,
    },
    /// Performs operations that do not need each other; those at a gate wait for their answer meanwhile.
    RequestParallel {
        /// The operations that have no outcome yet.
        operations: Vec<Operation>,
        /// The state to continue with.
        continuation_state: AgentState,
    },
    /// Nothing is to be done: a declarative tool goes on with the next step at once.
    Continue {
        /// The state to continue with.
        continuation_state: AgentState,
    },
    /// Nothing is left to do but to answer gates.
    RequestApproval {
        /// The operations that wait.
        operations: Vec<Operation>,
        /// The state to continue with.
        continuation_state: AgentState,
    },
}

impl AgentAction {
    /// The action for a state that is over, or that waits: what is missing.
    pub(crate) fn request(state: AgentState) -> Self {
        match &state.phase {
            Phase::Ended(response) => {
                return Self::Complete { response: response.clone(), final_state: state };
            }
            Phase::HandedOff(handoff) => {
                return Self::Handoff { handoff: handoff.clone(), final_state: state };
            }
            Phase::Start | Phase::Think | Phase::Plan { .. } | Phase::Waiting(_) => {}
        }
        if state.is_ready() {
            return Self::Continue { continuation_state: state };
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
            return Self::RequestInput { id, input, continuation_state: state };
        }
        if all_wait {
            return Self::RequestApproval { operations, continuation_state: state };
        }
        if operations.len() > 1 {
            return Self::RequestParallel { operations, continuation_state: state };
        }
        match operations.pop() {
            Some(Operation { id, request, .. }) => match request {
                Request::ModelCompletion(completion) => {
                    Self::RequestModelCompletion { id, completion, continuation_state: state }
                }
                Request::MemorySearch(search) => {
                    Self::RequestMemorySearch { id, search, continuation_state: state }
                }
                Request::MemoryCreate(create) => {
                    Self::RequestMemoryCreate { id, create, continuation_state: state }
                }
                Request::MemoryTraverse(traverse) => {
                    Self::RequestMemoryTraverse { id, traverse, continuation_state: state }
                }
                Request::ToolCall(call) => Self::RequestToolCall { id, call, continuation_state: state },
                Request::ApiCall(call) => Self::RequestApiCall { id, call, continuation_state: state },
                Request::Email(mail) => Self::RequestEmail { id, mail, continuation_state: state },
                Request::AgentCall(call) => Self::RequestAgent { id, call, continuation_state: state },
                Request::Input(input) => Self::RequestInput { id, input, continuation_state: state },
                Request::Timer(timer) => Self::RequestTimer { id, timer, continuation_state: state },
            },
            None => Self::RequestParallel { operations: vec![], continuation_state: state },
        }
    }

    /// The operations that still have no outcome, and the state to continue with. No operations when the run is over.
    pub fn into_operations(self) -> (Vec<Operation>, AgentState) {
        let state = self.into_state();
        let missing = state.pending().iter().filter(|pending| pending.outcome.is_none());
        (missing.map(|pending| pending.operation.clone()).collect(), state)
    }

    /// The state to continue with, or the last one.
    pub fn into_state(self) -> AgentState {
        match self {
            Self::Complete { final_state: state, .. }
            | Self::Handoff { final_state: state, .. }
            | Self::RequestMemoryTraverse { continuation_state: state, .. }
            | Self::RequestAgent { continuation_state: state, .. }
            | Self::RequestInput { continuation_state: state, .. }
            | Self::RequestTimer { continuation_state: state, .. }
            | Self::RequestModelCompletion { continuation_state: state, .. }
            | Self::RequestMemorySearch { continuation_state: state, .. }
            | Self::RequestMemoryCreate { continuation_state: state, .. }
            | Self::RequestToolCall { continuation_state: state, .. }
            | Self::RequestApiCall { continuation_state: state, .. }
            | Self::RequestEmail { continuation_state: state, .. }
            | Self::RequestParallel { continuation_state: state, .. }
            | Self::Continue { continuation_state: state }
            | Self::RequestApproval { continuation_state: state, .. } => state,
        }
    }

    /// The state to continue with, or the last one.
    pub fn state(&self) -> &AgentState {
        match self {
            Self::Complete { final_state: state, .. }
            | Self::Handoff { final_state: state, .. }
            | Self::RequestMemoryTraverse { continuation_state: state, .. }
            | Self::RequestAgent { continuation_state: state, .. }
            | Self::RequestInput { continuation_state: state, .. }
            | Self::RequestTimer { continuation_state: state, .. }
            | Self::RequestModelCompletion { continuation_state: state, .. }
            | Self::RequestMemorySearch { continuation_state: state, .. }
            | Self::RequestMemoryCreate { continuation_state: state, .. }
            | Self::RequestToolCall { continuation_state: state, .. }
            | Self::RequestApiCall { continuation_state: state, .. }
            | Self::RequestEmail { continuation_state: state, .. }
            | Self::RequestParallel { continuation_state: state, .. }
            | Self::Continue { continuation_state: state }
            | Self::RequestApproval { continuation_state: state, .. } => state,
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
