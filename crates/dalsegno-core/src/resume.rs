//! News goes into a state.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Value, json};

use crate::canonical::print_json;
use crate::event::{Answer, Event, Failure, FailureCode, MAX_DEPTH, News, Outcome, Signal, depth};
use crate::id::{OperationId, Timestamp};
use crate::join::{Join, find};
use crate::live::{Arrival, LiveNews, Waits};
use crate::operation::{Gate, GateState, Operation, Request, ToolCall, ToolInput};
use crate::reply::Validation;
use crate::state::{AgentState, Phase};

/// News that a state cannot take. The state is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// No operation of the current step has this id: it was folded already, or never requested.
    #[error("no pending operation has the id {operation}: record the outcome as late")]
    UnknownOperation {
        /// The id.
        operation: OperationId,
    },
    /// The run is over.
    #[error("the run is over: record the event as late")]
    Ended,
    /// The operation has another outcome already.
    #[error("operation {operation} has another outcome already: an operation resolves once")]
    Conflict {
        /// The id.
        operation: OperationId,
    },
    /// The outcome answers another kind of request.
    #[error("operation {operation} is a {expected}, which cannot have such an outcome")]
    WrongOutcome {
        /// The id.
        operation: OperationId,
        /// What was requested.
        expected: String,
    },
    /// The operation waits at a gate, so it cannot have an outcome yet.
    #[error("operation {operation} waits for an answer: answer its gate first")]
    Gated {
        /// The id.
        operation: OperationId,
    },
    /// The gate is for another kind of request.
    #[error("operation {operation} is a {expected}, which cannot wait at such a gate")]
    WrongGate {
        /// The id.
        operation: OperationId,
        /// What was requested.
        expected: String,
    },
    /// The operation does not wait, or not for such an answer.
    #[error("operation {operation} does not wait for {what}")]
    NotWaiting {
        /// The id.
        operation: OperationId,
        /// What kind of answer came.
        what: &'static str,
    },
    /// The run is no call, or the call is over.
    #[error("the run has no call that could report `{news}`: drop it")]
    NoCall {
        /// The kind of news.
        news: &'static str,
    },
    /// The session of a call says that it has a command which it was never sent.
    #[error("the call has no command {command}: it was never sent")]
    UnknownCommand {
        /// The id.
        command: OperationId,
    },
    /// The news has parts that no state can hold, or too much news waits for a step.
    #[error("the call cannot take `{news}`: an id in it is too long, or too much waits for the next step")]
    Unusable {
        /// The kind of news.
        news: &'static str,
    },
}

impl AgentState {
    /// Takes one outcome, answer or signal. Outcomes may come in any order; the same again is ignored.
    ///
    /// # Errors
    /// When the news does not belong to this state, which then is as it was.
    pub fn resume(&mut self, event: Event) -> Result<(), ResumeError> {
        let Event { at, news } = event;
        let about = match &news {
            News::Outcome { operation, .. }
            | News::Gated { operation, .. }
            | News::Answered { operation, .. } => Some(*operation),
            News::Signalled(_) | News::Live(_) => None,
        };
        let was_open = about.is_some_and(|id| self.lacks_outcome(id));
        let waited = about.and_then(|id| self.waits(id));
        match news {
            News::Outcome { operation, outcome } => self.take_outcome(operation, outcome)?,
            News::Gated { operation, gate } => self.take_gate(operation, gate)?,
            News::Answered { operation, answer } => self.take_answer(operation, answer)?,
            News::Signalled(signal) => self.take_signal(signal)?,
            News::Live(news) => self.take_live(at, news)?,
        }
        self.now = self.now.max(at);
        if let Some(operation) = about.filter(|_| was_open) {
            self.arrived(operation, waited);
        }
        Ok(())
    }

    /// Time has passed without news, such as in a pause: the next step is computed as of this time.
    pub fn pass_time(&mut self, at: Timestamp) {
        self.now = self.now.max(at);
    }

    /// Says whether the run can take this news of a call: it is one that is not over, and has sent what is acknowledged.
    pub fn admits(&self, news: &LiveNews) -> Result<(), ResumeError> {
        let kind = news.kind();
        let live = self.live().filter(|live| !live.is_ending()).ok_or(ResumeError::NoCall { news: kind })?;
        if news.clone().bounded().is_none() || !live.has_room() {
            return Err(ResumeError::Unusable { news: kind });
        }
        match news {
            LiveNews::Taken { command } if !live.knows(*command) => {
                Err(ResumeError::UnknownCommand { command: *command })
            }
            LiveNews::Refused { command, .. } if !live.has_sent(*command) => {
                Err(ResumeError::UnknownCommand { command: *command })
            }
            _ => Ok(()),
        }
    }

    fn take_live(&mut self, at: Timestamp, news: LiveNews) -> Result<(), ResumeError> {
        self.admits(&news)?;
        if let (Some(live), Some(news)) = (self.live_mut(), news.bounded()) {
            live.arrivals.push((at, Arrival::News(news)));
        }
        Ok(())
    }

    fn lacks_outcome(&self, id: OperationId) -> bool {
        self.pending().iter().any(|pending| pending.operation.id == id && pending.outcome.is_none())
    }

    /// What an operation waits at, if it does.
    pub(crate) fn waits(&self, id: OperationId) -> Option<Waits> {
        let mut pending = self.pending().iter();
        pending.find(|pending| pending.operation.id == id).and_then(Waits::of)
    }

    /// Notes in a call that an operation has its outcome, or waits at a gate, and what it waited at before.
    pub(crate) fn arrived(&mut self, id: OperationId, waited: Option<Waits>) {
        let at = self.now;
        let mut root = id;
        while let Some(above) = self.parent_of(root) {
            root = above;
        }
        let mut pending = self.pending().iter();
        let Some(pending) = pending.find(|pending| pending.operation.id == id) else { return };
        let arrival = match (&pending.outcome, &pending.operation.gate) {
            (Some(_), _) if root == id => Arrival::Settled(id),
            (Some(_), _) => Arrival::Part(id),
            (None, GateState::Waiting(_)) => Arrival::Gated(id),
            (None, GateState::Answered) => Arrival::Answered(id),
            (None, GateState::Open) => return,
        };
        let passed = waited.map(|Waits { in_doubt }| Arrival::Passed { operation: id, in_doubt });
        let passed = passed.filter(|_| !matches!(arrival, Arrival::Gated(_)));
        if let Some(live) = self.live_mut() {
            live.arrivals.extend(passed.into_iter().chain([arrival]).map(|arrival| (at, arrival)));
        }
    }

    fn take_outcome(&mut self, id: OperationId, outcome: Outcome) -> Result<(), ResumeError> {
        let outcome = outcome.bounded();
        let join = self.join(id)?;
        let is_overfull = join.is_overfull();
        let pending =
            find(&mut join.operations, id).ok_or(ResumeError::UnknownOperation { operation: id })?;
        if let Some(known) = &pending.outcome {
            let outcome = if is_overfull { outcome.hollow() } else { outcome };
            return if *known == outcome { Ok(()) } else { Err(ResumeError::Conflict { operation: id }) };
        }
        if !pending.operation.request.accepts(&outcome) {
            let expected = pending.operation.request.label();
            return Err(ResumeError::WrongOutcome { operation: id, expected });
        }
        // A call may fail before anybody is asked: an approval is never asked for arguments that do not fit, nor for a call
        // that the workspace does not allow any more.
        let refused = matches!(&outcome, Outcome::Failed(failure)
            if matches!(failure.code, FailureCode::InvalidArguments | FailureCode::NotPermitted));
        match &pending.operation.gate {
            GateState::Waiting(Gate::Approval) if refused => {}
            GateState::Waiting(_) => return Err(ResumeError::Gated { operation: id }),
            GateState::Open | GateState::Answered => {}
        }
        join.settle(id, outcome);
        Ok(())
    }

    fn take_gate(&mut self, id: OperationId, gate: Gate) -> Result<(), ResumeError> {
        let join = self.join(id)?;
        let pending =
            find(&mut join.operations, id).ok_or(ResumeError::UnknownOperation { operation: id })?;
        if pending.outcome.is_some() {
            return Err(ResumeError::Conflict { operation: id });
        }
        let fits = match (&gate, &pending.operation.request) {
            (Gate::Input, request) => matches!(request, Request::Input(_)),
            (Gate::Elicitation { .. }, request) => matches!(request, Request::ToolCall(_)),
            (Gate::Approval | Gate::InDoubt { .. } | Gate::Secret { .. }, _) => true,
        };
        if !fits {
            let expected = pending.operation.request.label();
            return Err(ResumeError::WrongGate { operation: id, expected });
        }
        match &pending.operation.gate {
            GateState::Waiting(known) if *known == gate => {}
            // Another question must not stand in for one that was asked, least of all for an approval.
            GateState::Waiting(_) => return Err(ResumeError::Gated { operation: id }),
            GateState::Open | GateState::Answered => pending.operation.gate = GateState::Waiting(gate),
        }
        Ok(())
    }

    fn take_answer(&mut self, id: OperationId, answer: Answer) -> Result<(), ResumeError> {
        let join = self.join(id)?;
        let pending =
            find(&mut join.operations, id).ok_or(ResumeError::UnknownOperation { operation: id })?;
        if pending.outcome.is_some() {
            return Err(ResumeError::Conflict { operation: id });
        }
        let what = match &answer {
            Answer::Approved { .. } | Answer::Denied { .. } => "an approval",
            Answer::Given { .. } => "the answer to a question",
            Answer::Supplied { .. } => "what a server asks for",
            Answer::Done { .. } | Answer::NotDone { .. } => "word on whether it was done",
        };
        let GateState::Waiting(gate) = &pending.operation.gate else {
            return Err(ResumeError::NotWaiting { operation: id, what });
        };
        let settled = answer.outcome().map(Outcome::bounded);
        let outcome = match (gate, answer) {
            (Gate::Approval, Answer::Approved { edited, .. }) => match edited {
                None => None,
                Some(validation) => edit(&mut pending.operation, validation),
            },
            (Gate::Secret { .. }, Answer::Approved { edited: None, .. }) => None,
            (Gate::Elicitation { requests, request_state }, Answer::Supplied { value, .. }) => {
                let input =
                    ToolInput { responses: responses(requests, value), request_state: request_state.clone() };
                pending.operation.request = supplied(&pending.operation.request, input);
                None
            }
            (
                Gate::Approval | Gate::Input | Gate::Secret { .. } | Gate::Elicitation { .. },
                Answer::Denied { .. },
            )
            | (Gate::Input, Answer::Given { .. })
            | (Gate::InDoubt { .. }, Answer::Done { .. } | Answer::NotDone { .. }) => settled,
            (
                Gate::Approval,
                Answer::Given { .. } | Answer::Supplied { .. } | Answer::Done { .. } | Answer::NotDone { .. },
            )
            | (
                Gate::Input,
                Answer::Approved { .. }
                | Answer::Supplied { .. }
                | Answer::Done { .. }
                | Answer::NotDone { .. },
            )
            | (
                Gate::InDoubt { .. },
                Answer::Approved { .. }
                | Answer::Denied { .. }
                | Answer::Given { .. }
                | Answer::Supplied { .. },
            )
            | (
                Gate::Secret { .. },
                Answer::Approved { .. }
                | Answer::Given { .. }
                | Answer::Supplied { .. }
                | Answer::Done { .. }
                | Answer::NotDone { .. },
            )
            | (
                Gate::Elicitation { .. },
                Answer::Approved { .. } | Answer::Given { .. } | Answer::Done { .. } | Answer::NotDone { .. },
            ) => {
                return Err(ResumeError::NotWaiting { operation: id, what });
            }
        };
        pending.operation.gate = GateState::Answered;
        if let Some(outcome) = outcome {
            join.settle(id, outcome);
        }
        Ok(())
    }

    fn take_signal(&mut self, signal: Signal) -> Result<(), ResumeError> {
        if self.is_over() {
            return Err(ResumeError::Ended);
        }
        self.signal.get_or_insert(signal);
        Ok(())
    }

    /// The operations of the current step.
    pub(crate) fn join(&mut self, id: OperationId) -> Result<&mut Join, ResumeError> {
        match &mut self.phase {
            Phase::Waiting(join) => Ok(join),
            Phase::Ended(_) | Phase::HandedOff(_) => Err(ResumeError::Ended),
            Phase::Start | Phase::Think | Phase::Plan { .. } => {
                Err(ResumeError::UnknownOperation { operation: id })
            }
        }
    }
}

/// Replaces a call's arguments by edited ones; edits that do not fit resolve the call.
fn edit(operation: &mut Operation, validation: Validation) -> Option<Outcome> {
    let failure = match validation {
        Validation::Valid { arguments } if depth(&arguments) > MAX_DEPTH => {
            let message = alloc::format!("the edited arguments are nested more than {MAX_DEPTH} deep");
            Failure::new(FailureCode::InvalidArguments, message)
        }
        Validation::Valid { arguments } => match &operation.request {
            Request::ToolCall(call) => {
                let tool_name = call.tool_name.clone();
                let call = ToolCall { tool_name, parameters: arguments, input: None };
                operation.request = Request::ToolCall(call.into());
                return None;
            }
            Request::ModelCompletion(_)
            | Request::MemorySearch(_)
            | Request::MemoryCreate(_)
            | Request::MemoryTraverse(_)
            | Request::ApiCall(_)
            | Request::Email(_)
            | Request::Transfer(_)
            | Request::AgentCall(_)
            | Request::Input(_)
            | Request::Timer(_) => {
                Failure::new(FailureCode::InvalidArguments, "only the arguments of a tool can be edited")
            }
        },
        Validation::Invalid { violations } => Failure {
            violations,
            ..Failure::new(FailureCode::InvalidArguments, "the edited arguments do not fit the tool's schema")
        },
        Validation::Malformed { message } => Failure::new(FailureCode::InvalidArguments, message),
        Validation::Truncated => {
            Failure::new(FailureCode::InvalidArguments, "the edited arguments are incomplete")
        }
    };
    Some(Outcome::Failed(failure))
}

/// What a server is told for a value that answers its questions: a single one takes it as it is, several take it by name.
fn responses(requests: &BTreeMap<String, Value>, value: Value) -> BTreeMap<String, Value> {
    let accepted = |content: Value| json!({ "action": "accept", "content": content });
    if let (1, Some(name)) = (requests.len(), requests.keys().next()) {
        return BTreeMap::from([(name.clone(), accepted(value))]);
    }
    let response = |name: &String| {
        let response =
            value.get(name).map_or_else(|| json!({ "action": "decline" }), |own| accepted(own.clone()));
        (name.clone(), response)
    };
    requests.keys().map(response).collect()
}

/// The call with answers to what its server asked.
fn supplied(request: &Request, input: ToolInput) -> Request {
    match request {
        Request::ToolCall(call) => {
            Request::ToolCall(ToolCall { input: Some(input), ..(**call).clone() }.into())
        }
        other => other.clone(),
    }
}

/// What a person sees of a gate.
impl Operation {
    /// The question that the operation's gate asks, if it waits.
    pub fn question(&self) -> Option<String> {
        let GateState::Waiting(gate) = &self.gate else { return None };
        Some(match (gate, &self.request) {
            (Gate::Approval, Request::ToolCall(call)) => {
                alloc::format!("may `{}` be called with {}?", call.tool_name, print_json(&call.parameters))
            }
            (Gate::Input, Request::Input(input)) => input.question.clone(),
            (Gate::Approval, Request::MemoryCreate(create)) => {
                alloc::format!("may this be remembered of `{}`: {}?", create.entity, create.content)
            }
            (Gate::Approval, Request::AgentCall(call)) => {
                alloc::format!("may the agent `{}` be started with: {}?", call.agent, call.text)
            }
            (Gate::Approval | Gate::Input, request) => alloc::format!("may this {} go on?", request.label()),
            (Gate::InDoubt { reason }, request) => {
                alloc::format!("was the {} done? {reason}", request.label())
            }
            (Gate::Secret { name }, request) => {
                alloc::format!("the secret `{name}` is missing, which the {} needs", request.label())
            }
            (Gate::Elicitation { requests, .. }, request) => {
                let said = requests.values().filter_map(|one| one["params"]["message"].as_str());
                let said: Vec<&str> = said.collect();
                alloc::format!("the server of the {} asks: {}", request.label(), said.join("; "))
            }
        })
    }

    /// The arguments of the tool call, if it is one.
    pub fn arguments(&self) -> Option<&Value> {
        self.request.as_tool_call().map(|call| &call.parameters)
    }
}
