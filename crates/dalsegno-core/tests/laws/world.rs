//! A configuration, an answer for each operation that it may ask for, and the loop that brings the two together.

use dalsegno_core::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

/// A configuration and all that its run will meet.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) run: RunId,
    pub(crate) config: AgentConfig,
    pub(crate) request: AgentRequest,
    /// An operation's course depends on its place in the run alone, never on the order of arrival.
    pub(crate) courses: Vec<Course>,
    /// What a parent run lets it use.
    pub(crate) budget: Option<Budget>,
    /// A person is asked before each effect.
    pub(crate) asks_effects: bool,
    /// A signal in this join, after that many of its events.
    pub(crate) signal: Option<(usize, usize, Signal)>,
}

/// What one operation meets on its way, by what it turns out to be.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    /// Where it waits for approval: the shell finds its arguments invalid before anybody is asked.
    pub(crate) invalid: bool,
    /// The answer where it waits for approval.
    pub(crate) approval: Answer,
    /// In-doubt gates that open on it once it has started, each with its answer.
    pub(crate) doubts: Vec<Answer>,
    /// The secret that it needs is missing at first.
    pub(crate) missing: bool,
    pub(crate) reply: Outcome,
    pub(crate) found: Outcome,
    pub(crate) created: Outcome,
    pub(crate) traversed: Outcome,
    pub(crate) returned: Outcome,
    /// What an endpoint answers that a declarative tool calls.
    pub(crate) answered: Outcome,
    /// What a mail server says to a mail of a declarative tool.
    pub(crate) mailed: Outcome,
    pub(crate) agent: Outcome,
    /// The answer where it is a question.
    pub(crate) given: Answer,
    pub(crate) timer: Outcome,
}

/// What a whole run was.
#[derive(Debug, PartialEq)]
pub(crate) struct Trace {
    /// The state after each step, the last one included.
    pub(crate) states: Vec<AgentState>,
    /// The operations of each join, as they were first asked for.
    pub(crate) joins: Vec<Vec<Operation>>,
    /// The end; of a run that handed over, what stands for one.
    pub(crate) end: AgentResponse,
}

impl World {
    /// The state before the first step.
    pub(crate) fn start(&self) -> AgentState {
        let mut state = AgentState::start(self.run, self.request.clone(), Timestamp::from_millis(1_000));
        if let Some(budget) = self.budget {
            state = state.within(budget);
        }
        if self.asks_effects { state.asking_effects() } else { state }
    }

    /// The news of one operation, in their order.
    fn news(&self, step: u64, operation: &Operation) -> Vec<News> {
        let last = operation.ordinal.last().copied().expect("an ordinal has a place") as usize;
        let place = usize::try_from(step).expect("few steps") * 3 + last;
        let course = &self.courses[place % self.courses.len()];
        let id = operation.id;
        let mut news = Vec::new();
        if operation.gate == GateState::Waiting(Gate::Approval) {
            if course.invalid {
                let failure = Failure::new(FailureCode::InvalidArguments, "`value` is missing");
                return vec![News::Outcome { operation: id, outcome: Outcome::Failed(failure) }];
            }
            news.push(News::Answered { operation: id, answer: course.approval.clone() });
            if resolves(&course.approval, operation) {
                return news;
            }
        }
        if operation.gate == GateState::Waiting(Gate::Input) {
            return vec![News::Answered { operation: id, answer: course.given.clone() }];
        }
        // The core performs it.
        if operation.is_declarative() {
            return news;
        }
        if course.missing {
            let answer = Answer::Approved { edited: None, reason: None, by: None };
            news.push(News::Gated { operation: id, gate: Gate::Secret { name: "crm.token".into() } });
            news.push(News::Answered { operation: id, answer });
        }
        if course.missing && matches!(operation.request, Request::ToolCall(_)) {
            let question = json!({ "method": "elicitation/create", "params": { "message": "which?" } });
            let gate = Gate::Elicitation {
                requests: [("which".to_owned(), question)].into(),
                request_state: Some("ticket".to_owned()),
            };
            let answer = Answer::Supplied { value: json!({ "which": last }), by: None };
            news.push(News::Gated { operation: id, gate });
            news.push(News::Answered { operation: id, answer });
        }
        for answer in &course.doubts {
            news.push(News::Gated {
                operation: id,
                gate: Gate::InDoubt { reason: "connection lost".into() },
            });
            news.push(News::Answered { operation: id, answer: answer.clone() });
            if matches!(answer, Answer::Done { .. }) {
                return news;
            }
        }
        let outcome = match &operation.request {
            Request::ModelCompletion(_) => &course.reply,
            Request::MemorySearch(_) => &course.found,
            Request::MemoryCreate(_) => &course.created,
            Request::MemoryTraverse(_) => &course.traversed,
            Request::ToolCall(_) => &course.returned,
            Request::AgentCall(_) => &course.agent,
            Request::ApiCall(_) => &course.answered,
            Request::Email(_) => &course.mailed,
            Request::Transfer(_) => panic!("there is no call to transfer"),
            Request::Input(_) => panic!("a question waits for its answer"),
            Request::Timer(_) => &course.timer,
        };
        let mut outcome = outcome.clone();
        if let (Outcome::AgentReturned(returned), Request::AgentCall(call)) =
            (&mut outcome, &operation.request)
        {
            keep_within(call.budget, &mut returned.usage);
        }
        news.push(News::Outcome { operation: id, outcome });
        news
    }
}

/// A child run uses no more than it may.
fn keep_within(budget: Budget, usage: &mut Usage) {
    usage.tool_calls = usage.tool_calls.min(budget.max_tool_calls);
    if let Some(most) = budget.max_tokens {
        usage.input_tokens = usage.input_tokens.min(most);
        usage.output_tokens = usage.output_tokens.min(most - usage.input_tokens);
    }
    usage.cost_nano_usd = usage.cost_nano_usd.min(budget.max_cost_nano_usd.unwrap_or(u64::MAX));
}

/// Says whether an answer to an approval resolves the operation, so that it is never performed.
fn resolves(answer: &Answer, operation: &Operation) -> bool {
    match answer {
        Answer::Approved { edited: None, .. } => false,
        Answer::Approved { edited: Some(Validation::Valid { arguments }), .. } => {
            !matches!(operation.request, Request::ToolCall(_)) || depth(arguments) > MAX_DEPTH
        }
        Answer::Approved { .. }
        | Answer::Denied { .. }
        | Answer::Given { .. }
        | Answer::Supplied { .. }
        | Answer::Done { .. }
        | Answer::NotDone { .. } => true,
    }
}

/// How deep the core lets another party's JSON be.
pub(crate) const MAX_DEPTH: usize = 96;

/// How deep a value is nested; a scalar is 0.
pub(crate) fn depth(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        serde_json::Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Takes a world to its end. `visit` sees every state on the way and says with which one to go on; `order` decides
/// which of several operations hears its news first.
pub(crate) fn drive(world: &World, order: u64, visit: impl FnMut(AgentState) -> AgentState) -> Trace {
    drive_from(world, world.start(), order, visit)
}

/// The same from a state on the way.
pub(crate) fn drive_from(
    world: &World,
    start: AgentState,
    order: u64,
    mut visit: impl FnMut(AgentState) -> AgentState,
) -> Trace {
    let mut random = order;
    let (mut last, mut count, mut queues) = (u64::MAX, 0, Vec::new());
    let mut states = Vec::new();
    let mut joins: Vec<Vec<Operation>> = Vec::new();
    let mut state = visit(start);
    loop {
        let action = execute_agent_step(&world.config, state).expect("a state of this configuration");
        states.push(action.state().clone());
        let action = match action {
            AgentAction::Complete { response, final_state } => {
                visit(final_state);
                return Trace { states, joins, end: response };
            }
            AgentAction::Handoff { handoff, final_state } => {
                let end = AgentResponse {
                    status: Status::HandedOff,
                    answer: handoff.message,
                    output: None,
                    error: None,
                    usage: final_state.usage(),
                    writes: Vec::new(),
                };
                visit(final_state);
                return Trace { states, joins, end };
            }
            action => action,
        };
        let performed = action.clone().into_operations().0;
        let is_performed = |operation: &Operation| {
            !matches!(operation.gate, GateState::Waiting(_)) && !operation.is_declarative()
        };
        assert!(performed.iter().all(is_performed), "a shell performs neither what waits nor a document");
        let continuation = action.into_continuation();
        let operations: Vec<Operation> = continuation.asked().cloned().collect();
        assert!(joins.len() as u64 <= world.config.limits.max_steps, "the run goes on past its limit");
        state = visit(continuation.state);
        let step = state.step();
        // Else declarative tools of the same step went on.
        if step != last {
            (last, count) = (step, 0);
            queues.clear();
            joins.push(Vec::new());
        }
        queues.extend(operations.iter().map(|operation| world.news(step, operation).into_iter()));
        joins.last_mut().expect("a step has begun").extend(operations);
        while !state.is_ready() {
            if let Some((join, after, signal)) = world.signal
                && (join + 1, after) == (joins.len(), count)
            {
                state.resume(Event::signal(at(step, 9), signal)).expect("a run that goes on");
                state = visit(state);
                continue;
            }
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            queues.retain(|queue| queue.len() > 0);
            let index = (random >> 33) as usize % queues.len();
            let news = queues[index].next().expect("news that are left");
            state
                .resume(Event { at: at(step, queues[index].len() as u64), news })
                .expect("news of this state");
            state = visit(state);
            count += 1;
        }
    }
}

fn at(step: u64, place: u64) -> Timestamp {
    Timestamp::from_millis(2_000 + step * 10 + place)
}

/// The news of the operations that a state waits for, with which it would become ready.
pub(crate) fn expected(world: &World, state: &AgentState) -> Vec<News> {
    let missing = state.pending().iter().filter(|pending| pending.outcome.is_none());
    missing.flat_map(|pending| world.news(state.step(), &pending.operation)).collect()
}

/// MessagePack, as a store writes it.
pub(crate) fn packed<T: Serialize>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("a value with a MessagePack form")
}

pub(crate) fn unpacked<T: DeserializeOwned>(bytes: &[u8]) -> T {
    rmp_serde::from_slice(bytes).expect("what was written reads back from MessagePack")
}

/// JSON, as a person reads it.
pub(crate) fn printed<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("a value with a JSON form")
}

pub(crate) fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> T {
    serde_json::from_slice(bytes).expect("what was written reads back from JSON")
}
