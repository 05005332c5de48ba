//! The state of a run: all that the next step needs, and nothing that a machine could lose.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::{MemoryHit, Outcome, Signal};
use crate::id::{OperationId, RunId, StepId, Timestamp};
use crate::operation::{GateState, Operation, Request, Terms};
use crate::response::{AgentResponse, Usage};
use crate::transcript::Transcript;

/// What a run was started with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRequest {
    /// What the user said; `request.text` in templates.
    pub text: String,
    /// Structured input; `request.data` in templates.
    #[serde(default)]
    pub data: Value,
    /// The tenant on whose behalf the run works; `tenant.name` in templates.
    #[serde(default = "default_tenant")]
    pub tenant: String,
}

impl AgentRequest {
    /// A request of plain text, for the default tenant.
    pub fn text(text: &str) -> Self {
        Self { text: text.into(), data: Value::Null, tenant: default_tenant() }
    }
}

fn default_tenant() -> String {
    "default".into()
}

/// The state of a run.
///
/// It goes into a step by value and comes out new. It can be saved and loaded at any point ([`Envelope`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentState {
    /// What operation ids are derived from. Starts as the run's id.
    pub(crate) namespace: RunId,
    pub(crate) request: AgentRequest,
    pub(crate) phase: Phase,
    pub(crate) step: u64,
    pub(crate) now: Timestamp,
    pub(crate) transcript: Transcript,
    /// How many entries the last model completion covered.
    pub(crate) asked: u64,
    /// What recall found; `memory.hits` in templates.
    pub(crate) recalled: Vec<MemoryHit>,
    /// Results of plan steps; `steps` in templates.
    pub(crate) results: Value,
    /// What a plan's `respond` steps said.
    pub(crate) said: Vec<String>,
    pub(crate) usage: Usage,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) signal: Option<Signal>,
}

impl AgentState {
    /// The state of a new run.
    pub fn start(run: RunId, request: AgentRequest, at: Timestamp) -> Self {
        Self {
            namespace: run,
            request,
            phase: Phase::Start,
            step: 0,
            now: at,
            transcript: Transcript::default(),
            asked: 0,
            recalled: Vec::new(),
            results: Value::Object(Map::new()),
            said: Vec::new(),
            usage: Usage::default(),
            decisions: Vec::new(),
            signal: None,
        }
    }

    /// What the run was started with.
    pub fn request(&self) -> &AgentRequest {
        &self.request
    }

    /// Where the run stands.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// The number of steps so far. A step is one model reply or one group of operations.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The latest time that any event brought.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// What the model reads.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Results of plan steps so far, an object by step id.
    pub fn results(&self) -> &Value {
        &self.results
    }

    /// What the run used so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Why the current action was chosen, in order.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The operations of the current step, with what has come of them; none when the run does not wait.
    pub fn pending(&self) -> &[Pending] {
        match &self.phase {
            Phase::Waiting(join) => &join.operations,
            Phase::Start | Phase::Think | Phase::Plan { .. } | Phase::Ended(_) => &[],
        }
    }

    /// Says whether a step would go on: nothing is missing, or a signal ends the run.
    pub fn is_ready(&self) -> bool {
        self.signal.is_some() || self.pending().iter().all(|pending| pending.outcome.is_some())
    }

    pub(crate) fn decide(&mut self, decision: Decision) {
        self.decisions.push(decision);
    }

    /// Mints a step's operations and waits for them.
    pub(crate) fn wait_for(&mut self, then: Then, requests: Vec<(Request, Terms, GateState)>) {
        self.step = self.step.saturating_add(1);
        let operations = requests.into_iter().zip(0u32..).map(|((request, terms, gate), index)| {
            let operation = Operation::mint(self.namespace, self.step, alloc::vec![index], request, terms);
            Pending { operation: Operation { gate, ..operation }, outcome: None }
        });
        let operations = operations.collect();
        self.phase = Phase::Waiting(Join { then, operations });
    }
}

/// Where a run stands; each variant holds exactly its own data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Nothing has happened.
    Start,
    /// The model is to be asked.
    Think,
    /// A plan goes on with this step.
    Plan {
        /// Index of the step.
        next: usize,
    },
    /// Operations are on their way.
    Waiting(Join),
    /// The run is over.
    Ended(AgentResponse),
}

/// A group of operations that a step waits for, folded in this order when all have an outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Join {
    /// What the outcomes are for.
    pub then: Then,
    /// The operations in request order.
    pub operations: Vec<Pending>,
}

/// What a group's outcomes are for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// The search before the first model call.
    Recall,
    /// A reply of the model.
    Reply {
        /// Tools were off: whatever the model says ends the run.
        last: bool,
    },
    /// The calls of a reply, in its order; those refused at once carry their result.
    Calls {
        /// One for each call.
        calls: Vec<CallSlot>,
    },
    /// A step of a plan.
    PlanStep {
        /// Index of the step.
        index: usize,
        /// One for each operation: which branch of a parallel step it is; 0 for a single operation.
        branches: Vec<usize>,
    },
}

/// One call of a model's reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSlot {
    /// The provider's id of the call.
    pub call_id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The refusal, when the call never left the core; else an operation of the group answers it.
    pub refused: Option<String>,
}

/// One operation on its way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// The operation.
    pub operation: Operation,
    /// What came of it, once that is known.
    pub outcome: Option<Outcome>,
}

/// Why an action was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The agent's configuration asks for a recall.
    Recall,
    /// The model is asked.
    AskModel,
    /// A limit was reached; the model is asked once more, with tools off.
    AskLast {
        /// The limit.
        limit: String,
    },
    /// The model asked for these tools.
    CallTools {
        /// Their names.
        names: Vec<String>,
    },
    /// A call of the model was refused.
    Refuse {
        /// The tool's name as the model wrote it.
        name: String,
        /// Why.
        reason: String,
    },
    /// A call waits for a person.
    AskApproval {
        /// The tool.
        name: String,
    },
    /// A step of the plan runs.
    RunStep {
        /// Its index, from 0.
        index: usize,
        /// Its id, if it has one.
        id: Option<StepId>,
    },
    /// A step of the plan is skipped.
    SkipStep {
        /// Its index, from 0.
        index: usize,
        /// Its id, if it has one.
        id: Option<StepId>,
        /// The condition that does not hold.
        when: String,
    },
    /// The run ends.
    End {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recall => f.write_str("recall what the memory knows"),
            Self::AskModel => f.write_str("ask the model"),
            Self::AskLast { limit } => write!(f, "ask the model once more without tools: {limit}"),
            Self::CallTools { names } => write!(f, "the model asked for {}", names.join(", ")),
            Self::Refuse { name, reason } => write!(f, "refuse `{name}`: {reason}"),
            Self::AskApproval { name } => write!(f, "`{name}` waits for a person"),
            Self::RunStep { index, id: Some(id) } => write!(f, "run plan step {} `{id}`", index + 1),
            Self::RunStep { index, id: None } => write!(f, "run plan step {}", index + 1),
            Self::SkipStep { index, id: Some(id), when } => {
                write!(f, "skip plan step {} `{id}`: not {when}", index + 1)
            }
            Self::SkipStep { index, id: None, when } => write!(f, "skip plan step {}: not {when}", index + 1),
            Self::End { reason } => write!(f, "end: {reason}"),
        }
    }
}

/// A state as it is stored: with the version of its form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    version: u32,
    state: AgentState,
}

/// A stored state that this release cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the stored state has version {found}, and this release reads {}: use the release that wrote it, or rebuild the \
     state from the journal",
    Envelope::VERSION
)]
pub struct EnvelopeError {
    found: u32,
}

impl Envelope {
    /// The version that this release writes.
    pub const VERSION: u32 = 1;

    /// Wraps a state.
    pub fn new(state: AgentState) -> Self {
        Self { version: Self::VERSION, state }
    }

    /// Unwraps the state.
    ///
    /// # Errors
    /// When the state was written by a release with another form.
    pub fn open(self) -> Result<AgentState, EnvelopeError> {
        if self.version == Self::VERSION {
            Ok(self.state)
        } else {
            Err(EnvelopeError { found: self.version })
        }
    }
}

/// Finds the pending operation with this id.
pub(crate) fn find(operations: &mut [Pending], id: OperationId) -> Option<&mut Pending> {
    operations.iter_mut().find(|pending| pending.operation.id == id)
}
