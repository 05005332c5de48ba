//! The state of a run: all that the next step needs, and nothing that a machine could lose.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use dalsegno_tools::SessionContext;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::canonical::Digest;
use crate::config::{AgentConfig, Budget};
use crate::event::{MemoryHit, Signal, size};
use crate::id::{AgentName, OperationId, RunId, StepId, Timestamp};
use crate::join::{Join, Pending, Then};
use crate::live::Surface;
use crate::operation::{EffectClass, Gate, GateState, Operation, Request, Terms};
use crate::phase::budget;
use crate::response::{AgentResponse, Usage};
use crate::transcript::{Attachment, Transcript};

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
    /// Files that go with the text, for a model that can read them; `request.attachments` in templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// What the caller says of the user on whose behalf the run works, an object; `user` in templates and declarative
    /// tools. Secrets are not in it: the shell has put them into its secret store.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub user: Value,
    /// The tenant's settings as they were when the run started, an object; `tenant.settings` in declarative tools.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub tenant_settings: Value,
    /// Who handed the session over to this run, and with which message; `request.handoff` in templates. None for a run that
    /// a person or another run started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<HandedOver>,
    /// The agent whose run started this one: the request is in the words of its model, or its plan. None for a run that a person
    /// started, and in records of releases before this was written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called_by: Option<AgentName>,
    /// How the caller speaks with a live model, where the run is a call. None for a run in which a model is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surface: Option<Surface>,
}

/// Who handed a session over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedOver {
    /// The agent that handed over.
    pub agent: AgentName,
    /// The message for the next agent, in the words of the one before it; none where there is nothing to add to the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl AgentRequest {
    /// A request of plain text, for the default tenant.
    pub fn text(text: &str) -> Self {
        Self {
            text: text.into(),
            data: Value::Null,
            tenant: default_tenant(),
            attachments: Vec::new(),
            user: Value::Null,
            tenant_settings: Value::Null,
            handoff: None,
            called_by: None,
            surface: None,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
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
    /// The name of the run's session; `call.session` in declarative tools.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) session_name: String,
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
    /// What the agent has said besides its model: by `respond` steps, and by its tools once they have ended. A run that
    /// another one handed over to begins with what was said there.
    pub(crate) said: Vec<String>,
    /// What the user wrote in the runs of the session, the newest last, where a rule asks where arguments come from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) told: Vec<String>,
    pub(crate) usage: Usage,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) signal: Option<Signal>,
    /// Variables of a plan; `vars` in templates.
    #[serde(default)]
    pub(crate) vars: Value,
    /// Bytes of what a plan keeps, about: results, variables, what was said, the structured answer.
    #[serde(default)]
    pub(crate) kept_bytes: u64,
    /// A plan's structured answer so far.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::event::present")]
    pub(crate) output: Option<Value>,
    /// What a parent run lets this one use, besides its own limits.
    #[serde(default)]
    pub(crate) budget: Option<Budget>,
    /// Which model replies: 0 for the agent's own, then its fallbacks.
    #[serde(default)]
    pub(crate) model: u32,
    /// The models of this run that gave no usable reply, each with the reason. Since the rules of number 3.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unusable: Vec<Unusable>,
    /// How often the model was asked again for a structured answer.
    #[serde(default)]
    pub(crate) asked_again: u32,
    /// The latest calls of the model with their results, the newest last; see [`Limits::repeat_limit`](crate::Limits).
    #[serde(default)]
    pub(crate) calls: Vec<CallRecord>,
    /// What the agents of the session share and keep through declarative tools: `workflow`, `agents` and `flags`.
    #[serde(default, skip_serializing_if = "SessionContext::is_empty")]
    pub(crate) session: SessionContext,
    /// How many handoffs led to this run.
    #[serde(default)]
    pub(crate) hops: u32,
    /// How many entries of the transcript come from the session's runs before this one.
    #[serde(default)]
    pub(crate) inherited: u64,
    /// About how many bytes these take; 0 where the run's own records do not say what it began with.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) inherited_bytes: u64,
    /// Unsafe and keyed effects wait for a person, whatever the agent says: the run is a fork.
    #[serde(default)]
    pub(crate) ask_effects: bool,
    /// The run is a fork of a call: its call continues what was said there.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(crate) continues_call: bool,
    /// What was said or done last in that call waits for an answer.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(crate) owes_words: bool,
    /// Entries that no model can be sent any more stay in the transcript.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(crate) keeps_all: bool,
}

/// A model that gave no usable reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unusable {
    /// The workspace's name of the model.
    pub(crate) model: String,
    /// Why it is not asked any more.
    pub(crate) reason: String,
}

/// A call of the model and what came of it, for finding repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallRecord {
    /// The digest of tool and arguments.
    pub(crate) call: Digest,
    /// The digest of the result.
    pub(crate) result: Digest,
    /// The model was warned at this call.
    pub(crate) warned: bool,
}

impl AgentState {
    /// The state of a new run.
    pub fn start(run: RunId, request: AgentRequest, at: Timestamp) -> Self {
        Self {
            namespace: run,
            session_name: String::new(),
            request,
            phase: Phase::Start,
            step: 0,
            now: at,
            transcript: Transcript::default(),
            asked: 0,
            recalled: Vec::new(),
            results: Value::Object(Map::new()),
            said: Vec::new(),
            told: Vec::new(),
            usage: Usage::default(),
            decisions: Vec::new(),
            signal: None,
            vars: Value::Object(Map::new()),
            kept_bytes: 0,
            output: None,
            budget: None,
            model: 0,
            unusable: Vec::new(),
            asked_again: 0,
            calls: Vec::new(),
            session: SessionContext::default(),
            hops: 0,
            inherited: 0,
            inherited_bytes: 0,
            ask_effects: false,
            continues_call: false,
            owes_words: false,
            keeps_all: false,
        }
    }

    /// The same new run with a transcript that keeps what no model can be sent any more. Its steps are the same.
    #[must_use]
    pub fn keeping_all(mut self) -> Self {
        self.keeps_all = true;
        self
    }

    /// The same new run in a session of this name.
    #[must_use]
    pub fn in_session(mut self, name: &str) -> Self {
        self.session_name = name.into();
        self
    }

    /// The same new run as a child, which may use no more than this besides its own limits.
    #[must_use]
    pub fn within(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// The same new run as a child, in the session of its parent as it was when the parent's step asked for it. What the
    /// child writes there is in its response, for [`AgentReturn::writes`](crate::AgentReturn::writes).
    #[must_use]
    pub fn sharing(mut self, session: &SessionContext) -> Self {
        self.session = session.lend();
        self
    }

    /// The same new run with a person asked before each unsafe or keyed effect.
    #[must_use]
    pub fn asking_effects(mut self) -> Self {
        self.ask_effects = true;
        self
    }

    /// The same run with other settings of its tenant, to see what it would ask for under these.
    #[must_use]
    pub fn with_tenant_settings(mut self, settings: Value) -> Self {
        self.request.tenant_settings = settings;
        self
    }

    /// The name of the run's session; empty for a state that was never given one.
    pub fn session_name(&self) -> &str {
        &self.session_name
    }

    /// What the run was started with.
    pub fn request(&self) -> &AgentRequest {
        &self.request
    }

    /// Says whether the limits of tokens and cost have room for one more attempt at an operation of the current step, when
    /// `lost` attempts before it may be paid for already. Only a model's completion takes room.
    pub fn has_room(&self, config: &AgentConfig, operation: &Operation, lost: u32) -> bool {
        match &self.phase {
            Phase::Waiting(join) => budget::has_room(config, self, join, operation, lost),
            _ => true,
        }
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

    /// What the agent has said to the user besides its model's text, in order; a part of the answer. What the declarative
    /// tools of the current step say is not among it yet: see [`saying`](Self::saying).
    pub fn said(&self) -> &[String] {
        &self.said
    }

    /// What the declarative tools of the current step have said to the user so far.
    pub fn saying(&self) -> impl Iterator<Item = &str> {
        self.join_of().into_iter().flat_map(Join::saying)
    }

    /// What the agents of the session share and keep.
    pub fn session(&self) -> &SessionContext {
        &self.session
    }

    /// What the run used so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Why the current action was chosen, in order.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The operations of the current step, with what has come of them; none when the run does not wait. Those of the step
    /// itself come first, in request order; then those that its declarative tools ask for.
    pub fn pending(&self) -> &[Pending] {
        match &self.phase {
            Phase::Waiting(join) => &join.operations,
            Phase::Start | Phase::Think | Phase::Plan { .. } | Phase::Ended(_) | Phase::HandedOff(_) => &[],
        }
    }

    /// The call of a declarative tool that asks for this operation, if that is what it is.
    pub fn parent_of(&self, id: OperationId) -> Option<OperationId> {
        self.pending().iter().find(|pending| pending.operation.id == id)?.parent
    }

    /// The model's own id of the call that an operation of the current step performs, or is a part of; none in a plan.
    pub fn call_id_of(&self, id: OperationId) -> Option<&str> {
        self.join_of()?.call_id(id)
    }

    /// What the call of a declarative tool waits for.
    pub fn parts_of(&self, id: OperationId) -> Vec<OperationId> {
        let parts = self.pending().iter().filter(|pending| pending.parent == Some(id));
        parts.map(|pending| pending.operation.id).collect()
    }

    /// How many operations of the current step may run at the same time; no bound when absent.
    pub fn concurrency(&self) -> Option<u32> {
        match &self.phase {
            Phase::Waiting(Join { then: Then::ForEach { concurrency, .. }, .. }) => {
                Some((*concurrency).max(1))
            }
            Phase::Waiting(_)
            | Phase::Start
            | Phase::Think
            | Phase::Plan { .. }
            | Phase::Ended(_)
            | Phase::HandedOff(_) => None,
        }
    }

    /// Says whether the run is over, by an end or by a handoff.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Ended(_) | Phase::HandedOff(_))
    }

    /// How many handoffs led to this run.
    pub fn hops(&self) -> u32 {
        self.hops
    }

    /// Says whether a person is asked before each unsafe or keyed effect.
    pub fn asks_effects(&self) -> bool {
        self.ask_effects
    }

    /// Variables of a plan so far, an object by name.
    pub fn vars(&self) -> &Value {
        &self.vars
    }

    /// Says whether a step would go on: nothing is missing, a declarative tool can go on, or a signal ends the run.
    pub fn is_ready(&self) -> bool {
        self.signal.is_some()
            || self.is_settled()
            || self.join_of().is_some_and(Join::stirs)
            || self.live().is_some_and(|live| live.has_more(self.pending()))
    }

    /// Says whether every operation of the current step has its outcome. A call is never settled before it is over.
    pub fn is_settled(&self) -> bool {
        self.live().is_none() && self.pending().iter().all(|pending| pending.outcome.is_some())
    }

    /// The group that the run waits for.
    pub(crate) fn join_of(&self) -> Option<&Join> {
        match &self.phase {
            Phase::Waiting(join) => Some(join),
            Phase::Start | Phase::Think | Phase::Plan { .. } | Phase::Ended(_) | Phase::HandedOff(_) => None,
        }
    }

    pub(crate) fn decide(&mut self, decision: Decision) {
        self.decisions.push(decision);
    }

    /// The gate of a new operation: in a fork, effects that may not be repeated ask first.
    pub(crate) fn gate(&self, gate: GateState, terms: &Terms) -> GateState {
        let effect = matches!(terms.class, EffectClass::Unsafe | EffectClass::Keyed);
        match gate {
            GateState::Open if effect && self.ask_effects => GateState::Waiting(Gate::Approval),
            gate => gate,
        }
    }

    /// Mints a step's operations and waits for them.
    pub(crate) fn wait_for(
        &mut self,
        config: &AgentConfig,
        then: Then,
        requests: Vec<(Request, Terms, GateState)>,
    ) {
        self.step = self.step.saturating_add(1);
        let ordinal = |place: usize| match &then {
            // The place of an item is below its plan step.
            Then::ForEach { index, items, .. } => {
                Vec::from([*index, items.get(place).copied().unwrap_or(place)])
            }
            Then::Recall
            | Then::Reply { .. }
            | Then::Summary { .. }
            | Then::Calls { .. }
            | Then::PlanStep { .. }
            | Then::Live(_) => Vec::from([place]),
        };
        let operations = requests.into_iter().enumerate().map(|(place, (request, terms, gate))| {
            let ordinal =
                ordinal(place).into_iter().map(|at| u32::try_from(at).unwrap_or(u32::MAX)).collect();
            let operation = Operation::mint(self.namespace, self.step, ordinal, request, terms);
            let gate = self.gate(gate, &terms);
            Pending { operation: Operation { gate, ..operation }, outcome: None, parent: None }
        });
        let operations = operations.collect();
        let held = match &then {
            Then::ForEach { results, .. } => results.iter().map(size).sum::<usize>() as u64,
            // Those of a tool's siblings wait while another one stands in for it.
            Then::Calls { calls } => {
                let settled = calls.iter().filter_map(|call| call.settled.as_ref());
                settled.map(|settled| settled.content.len()).sum::<usize>() as u64
            }
            Then::Recall
            | Then::Reply { .. }
            | Then::Summary { .. }
            | Then::PlanStep { .. }
            | Then::Live(_) => 0,
        };
        let most_bytes = config.limits.max_state_bytes.saturating_sub(self.kept_bytes.saturating_add(held));
        let tools = Vec::new();
        self.phase = Phase::Waiting(Join { then, operations, tools, most_bytes, bytes: 0 });
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
    /// The run is over, and another agent goes on.
    HandedOff(Handoff),
}

/// What the next agent of a session is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Handoff {
    /// The agent.
    pub target: AgentName,
    /// What it is told, in the words of the agent before it. What a declarative tool says with its `handoff` is not for the
    /// next agent but for the user: it is in `said`.
    pub message: Option<String>,
    /// What its run is started with.
    pub request: AgentRequest,
    /// What was said to the user before: a part of the answer of the run that goes on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<String>,
}

impl Handoff {
    /// Most handoffs in a row: agents that pass a request to each other would never end.
    pub const MAX_HOPS: u32 = 8;
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
        /// The rule about its arguments that demands it, if one does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
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
    /// The model's reply was not usable; another one is asked.
    FallBack {
        /// The model that failed.
        from: String,
        /// The model that is asked.
        to: String,
        /// Why.
        reason: String,
    },
    /// A tool failed; another one is called in its place.
    FallBackTool {
        /// The tool that failed.
        from: String,
        /// The tool that is called.
        to: String,
        /// Why.
        reason: String,
    },
    /// The structured answer does not fit; the model is asked again.
    AskAgain {
        /// What does not fit.
        reason: String,
    },
    /// The transcript has grown too long for the model; it is sent less of it.
    Compact {
        /// The estimated tokens of the request before.
        from_tokens: u64,
        /// The estimated tokens after.
        to_tokens: u64,
    },
    /// The transcript has grown too long for the model; a summary of its oldest part is asked for.
    Summarise {
        /// The number of entries that the summary covers.
        until: u64,
    },
    /// The model repeats itself and is told so.
    Warn {
        /// What it repeats.
        reason: String,
    },
    /// Another agent goes on.
    HandOff {
        /// The agent.
        target: AgentName,
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
            Self::AskApproval { name, rule: None } => write!(f, "`{name}` waits for a person"),
            Self::AskApproval { name, rule: Some(rule) } => {
                write!(f, "`{name}` waits for a person by the rule {rule}")
            }
            Self::RunStep { index, id: Some(id) } => write!(f, "run plan step {} `{id}`", index + 1),
            Self::RunStep { index, id: None } => write!(f, "run plan step {}", index + 1),
            Self::SkipStep { index, id: Some(id), when } => {
                write!(f, "skip plan step {} `{id}`: not {when}", index + 1)
            }
            Self::SkipStep { index, id: None, when } => write!(f, "skip plan step {}: not {when}", index + 1),
            Self::FallBack { from, to, reason } => write!(f, "ask `{to}` instead of `{from}`: {reason}"),
            Self::FallBackTool { from, to, reason } => write!(f, "call `{to}` instead of `{from}`: {reason}"),
            Self::AskAgain { reason } => write!(f, "ask the model again: {reason}"),
            Self::Compact { from_tokens, to_tokens } => {
                write!(
                    f,
                    "send the model less of the transcript: about {to_tokens} tokens, not {from_tokens}"
                )
            }
            Self::Summarise { until } => write!(f, "summarise the first {until} entries of the transcript"),
            Self::Warn { reason } => write!(f, "warn the model: {reason}"),
            Self::HandOff { target } => write!(f, "hand over to `{target}`"),
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
    pub const VERSION: u32 = 2;

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
