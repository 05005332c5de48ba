//! The fold: the core, with a case in the place of the world. Nothing is read, written, started or waited for.

mod conversation;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{replace, take};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{
    AgentAction, AgentCall, AgentConfig, AgentRequest, AgentResponse, AgentReturn, AgentState, Answer, Event,
    Failure, FailureCode, Gate, GateState, News, OnIndeterminate, Operation, OperationId, Outcome,
    RUN_DEPTH_MAX, ReplyPart, Request, RunId, Surface, Timestamp, ToolChoice, execute_agent_step,
};
use dalsegno_models::{CompletionRequest, Retry, ScriptModel, Scripted, judge_output};
use dalsegno_workspace::{Case, Located, Message, Replies};
use serde_json::Value;

use crate::asked::{Kind, Question};
use crate::cassette::{self, Cassette, Playback};
use crate::compare::shortened;
use crate::miss::missing;
use crate::prepared::Prepared;
use crate::property::{Invented, Inventor};
use crate::trajectory::{Done, End, Made, StepTaken, Trajectory};
use crate::trouble::Trouble;
use crate::world::{self, World};

/// When all runs of cases begin, unless a cassette says otherwise: the first moment of 2026.
const BEGINNING: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// The run of all cases, unless a cassette says otherwise: the keys of requests follow from it.
const RUN: RunId = RunId::from_bytes([0xca; 16]);

/// The session of all cases, unless a cassette says otherwise.
const SESSION: &str = "case";

/// Most events of a case: far more than the limits of a run allow.
const EVENTS_MAX: usize = 200_000;

/// A case while it is folded.
pub(crate) struct Folding<'c> {
    case: &'c Case,
    /// What the cases of the agent share.
    root: &'c Prepared,
    /// The same of the agent whose run is folded: that of the case, or of a child run.
    prepared: &'c Prepared,
    world: World<'c>,
    tape: Option<Playback<'c>>,
    /// What makes up the outcomes of a property.
    inventor: Option<Inventor<'c>>,
    /// The child run that is folded, where it is one.
    below: Option<Below>,
    /// The child runs that wait for a person, with what that person is asked.
    waiting: BTreeMap<OperationId, Vec<String>>,
    /// What the case gives to child runs and they never asked for.
    left: Vec<(String, Range<usize>)>,
    /// The replies that the case itself writes, as a script; those of a script file are shared.
    written: Result<ScriptModel, String>,
    /// How many of them were given.
    said: u64,
    pub(crate) trajectory: Trajectory,
    /// The gates of which it is noted that people were asked.
    noted: BTreeSet<(OperationId, usize)>,
    /// When the run began.
    began: Timestamp,
    /// The operations to which a person has agreed.
    approved: BTreeSet<OperationId>,
    now: Timestamp,
    /// How long what was just given takes, in milliseconds.
    takes: u64,
    /// The turns of the call that were not taken.
    turns_left: usize,
    events: usize,
}

/// What is given to a child run alone.
struct Below {
    /// What its models reply.
    script: ScriptModel,
    /// How many of them were given.
    said: usize,
    /// How many runs are above it.
    depth: u32,
}

impl<'c> Folding<'c> {
    pub(crate) fn new(case: &'c Case, prepared: &'c Prepared, tape: Option<&'c Cassette>) -> Self {
        Self {
            case,
            root: prepared,
            prepared,
            world: World::new(&case.draft),
            began: tape.map_or(BEGINNING, Cassette::started),
            now: tape.map_or(BEGINNING, Cassette::started),
            tape: tape.map(Cassette::play),
            inventor: None,
            below: None,
            waiting: BTreeMap::new(),
            left: Vec::new(),
            approved: BTreeSet::new(),
            written: written(case),
            said: 0,
            trajectory: Trajectory::default(),
            noted: BTreeSet::new(),
            takes: 0,
            turns_left: 0,
            events: 0,
        }
    }

    /// One run of a property, whose outcomes are made up.
    pub(crate) fn inventing(case: &'c Case, prepared: &'c Prepared, inventor: Inventor<'c>) -> Self {
        Self { inventor: Some(inventor), ..Self::new(case, prepared, None) }
    }

    /// What was made up, as a case would give it.
    pub(crate) fn invented(self) -> (Trajectory, Invented) {
        (self.trajectory, self.inventor.map(|inventor| inventor.made).unwrap_or_default())
    }

    /// Folds the case to its end, or to where it cannot continue.
    pub(crate) fn fold(&mut self) -> Result<(), Trouble> {
        let state = self.begin()?;
        if self.case.draft.turns.is_empty() { self.fold_from(state) } else { self.converse(state) }
    }

    /// Folds a run from this state.
    fn fold_from(&mut self, state: AgentState) -> Result<(), Trouble> {
        let mut state = state;
        let config = &self.prepared.config;
        loop {
            let before = state.step();
            let action = step(config, state)?;
            self.note_steps(&action, before);
            if self.over(&action) {
                return Ok(());
            }
            state = action.into_state();
            let went_on = self.answer_all(&mut state)?;
            self.trajectory.usage = state.usage();
            if !went_on && !state.is_ready() {
                self.wait_for_people(&state);
                return Ok(());
            }
        }
    }

    /// Notes the end of the run, if this is it.
    fn over(&mut self, action: &AgentAction) -> bool {
        let end = match action {
            AgentAction::Complete { response, .. } => End::Ended(Box::new(response.clone())),
            AgentAction::Handoff { handoff, .. } => End::HandedOff(Box::new(handoff.clone())),
            _ => return false,
        };
        self.end(end);
        true
    }

    /// Nothing continues before a person says something.
    fn wait_for_people(&mut self, state: &AgentState) {
        let open = state.pending().iter().filter(|pending| pending.outcome.is_none());
        let questions = open.flat_map(|pending| {
            let below = self.waiting.get(&pending.operation.id).into_iter().flatten().cloned();
            pending.operation.question().into_iter().chain(below)
        });
        let questions = questions.collect();
        self.end(End::Suspended(questions));
    }

    fn end(&mut self, end: End) {
        if let Some(response) = end.response() {
            self.trajectory.usage = response.usage;
        }
        self.trajectory.waited =
            Duration::from_millis(self.now.as_millis().saturating_sub(self.began.as_millis()));
        self.trajectory.end = Some(end);
    }

    /// The first turn of the call that was not taken: its number, and where it stands.
    pub(crate) fn unreached(&self) -> Option<(usize, Range<usize>)> {
        let turns = &self.case.draft.turns;
        let first = turns.len().checked_sub(self.turns_left)?;
        turns.get(first).map(|turn| (first + 1, turn.span.clone()))
    }

    /// What the case gives and the run has not asked for.
    pub(crate) fn unused(&self) -> Vec<(String, Range<usize>)> {
        let replies = match &self.case.draft.replies {
            Replies::Written(replies) => replies.get(self.said as usize..).unwrap_or_default(),
            Replies::Script(_) => &[],
        };
        let replies = replies.iter().map(|reply| ("a reply of the model".to_owned(), reply.span.clone()));
        self.world.unused().chain(replies).chain(self.left.clone()).collect()
    }

    /// The first state, with the conversation before it.
    fn begin(&self) -> Result<AgentState, Trouble> {
        let draft = &self.case.draft;
        let tape = self.tape.as_ref().map(Playback::cassette);
        let request = |text: &str| AgentRequest {
            data: draft.data.clone(),
            tenant: draft.tenant.clone(),
            user: draft.user.clone(),
            tenant_settings: self.case.tenant_settings.clone(),
            attachments: tape.map(|tape| tape.request().attachments.clone()).unwrap_or_default(),
            handoff: tape.and_then(|tape| tape.request().handoff.clone()),
            surface: (!draft.turns.is_empty()).then_some(Surface::Script),
            ..AgentRequest::text(text)
        };
        let run = tape.map_or(RUN, Cassette::run);
        let session = tape.map_or(SESSION, Cassette::session);
        let begin = |text: &str| AgentState::start(run, request(text), self.began).in_session(session);
        if !draft.turns.is_empty() {
            return Ok(begin(""));
        }
        let mut before: Option<AgentState> = None;
        let mut messages = draft.messages.chunks(2);
        loop {
            let (text, reply) = match messages.next() {
                Some([Message::User(text), Message::Assistant(reply)]) => (text, Some(reply)),
                Some([Message::User(text)]) => (text, None),
                _ => return Err(Trouble::Defect("the messages are no conversation".to_owned())),
            };
            let state = match &before {
                Some(before) => begin(text).following(before, false),
                None => begin(text),
            };
            match reply {
                None => return Ok(state),
                Some(reply) => before = Some(earlier(&self.prepared.config, state, reply)?),
            }
        }
    }

    /// Notes what a step asks for and why. A run that only waits is stepped again, and then nothing is new.
    fn note_steps(&mut self, action: &AgentAction, before: u64) {
        let state = action.state();
        let is_over = state.is_over();
        if state.step() != before || is_over || self.trajectory.steps.is_empty() {
            let why: Vec<String> = state.decisions().iter().map(ToString::to_string).collect();
            if !(is_over && why.is_empty()) {
                self.trajectory.steps.push(StepTaken { number: state.step(), why, operations: Vec::new() });
            }
        }
        self.trajectory.count = state.step();
        let Some(step) = self.trajectory.steps.last_mut() else { return };
        for pending in state.pending() {
            let operation = &pending.operation;
            if is_over || step.operations.iter().any(|done| done.id == operation.id) {
                continue;
            }
            step.operations.push(Done {
                id: operation.id,
                question: cassette::question(&self.prepared.config, state, operation),
                is_part: pending.parent.is_some(),
                people: Vec::new(),
                run: None,
                outcome: None,
            });
        }
        // What the core itself concluded: the calls of declarative tools.
        for pending in state.pending().iter().filter(|pending| pending.outcome.is_some()) {
            if let Some(done) = step.operations.iter_mut().find(|done| done.id == pending.operation.id) {
                done.outcome.clone_from(&pending.outcome);
            }
        }
    }

    /// Answers all that can be answered now; says whether anything was.
    fn answer_all(&mut self, state: &mut AgentState) -> Result<bool, Trouble> {
        let open = state.pending().iter().filter(|pending| pending.outcome.is_none());
        let open = open.map(|pending| pending.operation.clone());
        let open: Vec<Operation> = open.filter(|one| !self.waiting.contains_key(&one.id)).collect();
        let mut went_on = false;
        for operation in open {
            self.events += 1;
            if self.events > EVENTS_MAX {
                return Err(Trouble::Endless);
            }
            if let Some(event) = self.answer_one(state, &operation)? {
                went_on = true;
                state.resume(event).map_err(|error| Trouble::Defect(error.to_string()))?;
                self.settled(state, &operation);
            }
        }
        Ok(went_on)
    }

    /// What comes of an operation, or what a person says about it; nothing where neither is there.
    fn answer_one(&mut self, state: &AgentState, operation: &Operation) -> Result<Option<Event>, Trouble> {
        if let Some(failure) = self.refusal(operation) {
            let outcome = self.got(operation, Outcome::Failed(failure));
            return Ok(Some(Event::outcome(self.now, operation.id, outcome)));
        }
        match &operation.gate {
            GateState::Waiting(gate) => self.at_gate(operation, gate),
            GateState::Open | GateState::Answered if operation.is_declarative() => {
                self.note_call(state, operation, false);
                Ok(None)
            }
            GateState::Open | GateState::Answered => self.perform(state, operation),
        }
    }

    /// An answer of a person may settle an operation at once.
    fn settled(&mut self, state: &AgentState, operation: &Operation) {
        let pending = state.pending().iter().find(|pending| pending.operation.id == operation.id);
        if let Some(outcome) = pending.and_then(|pending| pending.outcome.clone()) {
            self.got(operation, outcome);
        }
    }

    /// Arguments that do not fit the tool: the call fails before a person is asked, as in a shell.
    fn refusal(&self, operation: &Operation) -> Option<Failure> {
        let Request::ToolCall(call) = &operation.request else { return None };
        let violations = self.prepared.schemas.violations(&call.tool_name, &call.parameters);
        let message = "the arguments do not fit the tool's schema";
        (!violations.is_empty())
            .then(|| Failure { violations, ..Failure::new(FailureCode::InvalidArguments, message) })
    }

    /// What a person says at a gate; none where the case has no answer.
    fn at_gate(&mut self, operation: &Operation, gate: &Gate) -> Result<Option<Event>, Trouble> {
        let times = self.trajectory.done(operation.id).map_or(0, |done| done.people.len());
        if self.noted.insert((operation.id, times)) {
            self.trajectory.asks.push(Question::of(&operation.request).called());
        }
        let schemas = &self.prepared.schemas;
        let answer = match self.world.answer(operation, gate) {
            Some(given) => {
                self.takes = given.after_ms;
                world::answer(given, operation, schemas)?
            }
            None => match self.tape.as_mut().and_then(|tape| tape.answer(operation)) {
                Some((recorded, took_ms)) => {
                    self.takes = took_ms;
                    recorded
                }
                None => match self.inventor.as_mut().and_then(|inventor| inventor.says(operation, gate)) {
                    Some(given) => world::answer(&given, operation, schemas)?,
                    None => return Ok(None),
                },
            },
        };
        if matches!((gate, &answer), (Gate::Approval, Answer::Approved { .. })) {
            self.approved.insert(operation.id);
        }
        if let Some(done) = self.trajectory.done(operation.id) {
            done.people.push(format!(
                "{} {}",
                operation.question().unwrap_or_default(),
                crate::render::answer(&answer)
            ));
        }
        Ok(Some(Event::answer(self.now, operation.id, answer)))
    }

    /// What comes of an operation; nothing where a child run waits for a person.
    fn perform(&mut self, state: &AgentState, operation: &Operation) -> Result<Option<Event>, Trouble> {
        self.note_call(state, operation, true);
        let question = cassette::question(&self.prepared.config, state, operation);
        if let Request::AgentCall(call) = &operation.request
            && let Some((replies, takes_ms)) = self.world.run_of(&question)
        {
            self.takes = takes_ms;
            let outcome = self.child(state, operation, call, replies)?;
            let outcome = outcome.map(|outcome| self.got(operation, outcome));
            return Ok(outcome.map(|outcome| Event::outcome(self.now, operation.id, outcome)));
        }
        let outcome = match &operation.request {
            Request::ModelCompletion(_) => self.reply(state, operation)?,
            Request::Timer(timer) => {
                self.now = self.now.max(timer.until);
                Some(Outcome::TimerFired)
            }
            _ => self.own_result(&question, operation)?,
        };
        let outcome = match outcome {
            Some(outcome) => outcome,
            None => match self.tape.as_mut().and_then(|tape| tape.news(operation)) {
                Some((event, took_ms)) => {
                    self.takes = took_ms;
                    self.now = self.now.max(event.at);
                    if let News::Outcome { outcome, .. } = &event.news {
                        self.got(operation, outcome.clone());
                    }
                    return Ok(Some(event));
                }
                None => match self.inventor.as_mut().and_then(|one| one.result(&question, operation)) {
                    Some(made) => world::outcome(&made, operation, &self.prepared.config)?,
                    None => self.shared_result(&question, state, operation)?,
                },
            },
        };
        let is_doubtful =
            matches!(&outcome, Outcome::Failed(failure) if failure.code == FailureCode::Indeterminate);
        if is_doubtful && operation.terms.on_indeterminate == OnIndeterminate::Ask {
            let reason = match outcome {
                Outcome::Failed(failure) => failure.message,
                _ => String::new(),
            };
            return Ok(Some(Event::gated(self.now, operation.id, Gate::InDoubt { reason })));
        }
        let outcome = self.got(operation, outcome);
        Ok(Some(Event::outcome(self.now, operation.id, outcome)))
    }

    /// Folds the run of another agent, with what the case gives it: its replies are its own, and all else is given to both. Nothing
    /// comes of it yet where it waits for a person.
    fn child(
        &mut self,
        state: &AgentState,
        operation: &Operation,
        call: &AgentCall,
        replies: &'c [Located<Value>],
    ) -> Result<Option<Outcome>, Trouble> {
        let name = &call.agent;
        let Some(prepared) = self.root.agents.get(name) else {
            return Err(Trouble::Defect(format!("there is no agent `{name}`")));
        };
        let depth = self.below.as_ref().map_or(1, |below| below.depth + 1);
        if depth > RUN_DEPTH_MAX {
            let message = format!("a run of `{name}` would be the child of {RUN_DEPTH_MAX} others");
            return Ok(Some(Outcome::Failed(Failure::new(FailureCode::LimitExceeded, message))));
        }
        let values: Vec<Value> = replies.iter().map(|reply| reply.value.clone()).collect();
        let script = ScriptModel::of_replies(name.as_str(), &values);
        let script = script.map_err(|error| Trouble::Source(error.to_string()))?;
        let request = AgentRequest {
            data: call.data.clone(),
            tenant: self.case.draft.tenant.clone(),
            user: self.case.draft.user.clone(),
            tenant_settings: self.case.tenant_settings.clone(),
            called_by: Some(self.prepared.config.name.clone()),
            ..AgentRequest::text(&call.text)
        };
        let run = RunId::from_bytes(*operation.id.as_bytes());
        let mut begun = AgentState::start(run, request, self.now)
            .in_session(state.session_name())
            .within(call.budget)
            .sharing(state.session());
        if state.asks_effects() {
            begun = begun.asking_effects();
        }
        let below = Some(Below { script, said: 0, depth });
        let above = (
            replace(&mut self.prepared, prepared),
            replace(&mut self.below, below),
            take(&mut self.trajectory),
        );
        // It waits for itself, and not for what its parent waited for.
        let began = replace(&mut self.began, self.now);
        let folded = self.fold_from(begun);
        self.takes = self.takes.saturating_add(self.now.as_millis().saturating_sub(self.began.as_millis()));
        self.began = began;
        self.prepared = above.0;
        let said = replace(&mut self.below, above.1).map_or(0, |below| below.said);
        let trajectory = replace(&mut self.trajectory, above.2);
        self.trajectory.asks.extend(trajectory.asks.iter().cloned());
        let (end, usage) = (trajectory.end.clone(), trajectory.usage);
        if let Some(done) = self.trajectory.done(operation.id) {
            done.run = Some(Box::new(trajectory));
        }
        folded?;
        if let Some(reply) = replies.get(said) {
            self.left.push((format!("a reply of the model of `{name}`"), reply.span.clone()));
        }
        match end {
            Some(End::Ended(response)) => {
                let AgentResponse { status, answer, output, error, writes, .. } = *response;
                Ok(Some(Outcome::AgentReturned(AgentReturn {
                    run,
                    status,
                    answer,
                    output,
                    error,
                    usage,
                    writes,
                })))
            }
            Some(End::Suspended(questions)) => {
                self.waiting.insert(operation.id, questions);
                Ok(None)
            }
            Some(End::HandedOff(handoff)) => Err(Trouble::Source(format!(
                "the run of `{name}` hands over to `{}`: give its answer instead, `text` or `returns`",
                handoff.target
            ))),
            None => Err(Trouble::Defect(format!("the run of `{name}` has no end"))),
        }
    }

    /// Notes the call of a tool or of an agent.
    fn note_call(&mut self, state: &AgentState, operation: &Operation, again: bool) {
        let question = Question::of(&operation.request);
        let is_call = question.is_call(state.call_id_of(operation.id).is_some());
        // A declarative tool is looked at each time that one of its parts is answered.
        if is_call && (again || self.noted.insert((operation.id, usize::MAX))) {
            let is_approved = |operation| self.approved.contains(&operation);
            // What a declarative tool asks for is agreed to with it.
            let approved =
                is_approved(operation.id) || state.parent_of(operation.id).is_some_and(is_approved);
            let changes = question.changes(&self.prepared.config);
            let (tool, arguments) = (question.called(), question.arguments);
            self.trajectory.calls.push(Made { tool, arguments, approved, changes });
        }
    }

    /// Notes an outcome.
    fn got(&mut self, operation: &Operation, outcome: Outcome) -> Outcome {
        if let Some(done) = self.trajectory.done(operation.id) {
            done.outcome = Some(outcome.clone());
        }
        outcome
    }

    /// The outcome that the case gives of its own, if there is one.
    fn own_result(&mut self, question: &Question, operation: &Operation) -> Result<Option<Outcome>, Trouble> {
        let found = self.world.own(question);
        self.takes = found.map_or(0, |result| result.takes_ms);
        found.map(|result| world::outcome(result, operation, &self.prepared.config)).transpose()
    }

    /// The outcome that the file gives to all of its cases.
    fn shared_result(
        &mut self,
        question: &Question,
        state: &AgentState,
        operation: &Operation,
    ) -> Result<Outcome, Trouble> {
        match self.world.shared(question) {
            Some(result) => {
                self.takes = result.takes_ms;
                world::outcome(result, operation, &self.prepared.config)
            }
            None => Err(self.miss(question, state, operation)),
        }
    }

    fn miss(&self, question: &Question, state: &AgentState, operation: &Operation) -> Trouble {
        let mut missing = missing(&self.world, question, operation, &self.prepared.config, state.step());
        if self.below.is_some() {
            let name = &self.prepared.config.name;
            missing.asked += &format!(" in the run of `{name}`");
            if question.kind == Kind::Model {
                missing.write = format!(
                    "replies = [{{ text = \"…\" }}]\nas another reply in the result of the agent `{name}`"
                );
            }
        }
        if let Some(recorded) = self.tape.as_ref().and_then(|tape| tape.nearest(question)) {
            (missing.nearest, missing.span) = (Some(recorded), None);
        }
        Trouble::Missing(Box::new(missing))
    }

    /// What the model replies by the words of the case or by a script; nothing where neither has a reply.
    fn reply(&mut self, state: &AgentState, operation: &Operation) -> Result<Option<Outcome>, Trouble> {
        let Request::ModelCompletion(completion) = &operation.request else {
            return Err(Trouble::Defect("only models reply".to_owned()));
        };
        let config = &self.prepared.config;
        let reading =
            state.reading(config, completion).map_err(|error| Trouble::Defect(error.to_string()))?;
        let schema = reading.schema;
        let mut request = CompletionRequest {
            settings: reading.settings,
            transcript: reading.transcript,
            tools: if reading.tools { Arc::clone(&self.prepared.toolbox) } else { Arc::default() },
            tool_choice: completion.tool_choice.clone(),
            operation: operation.id,
            attempt: 1,
            attachments: Arc::default(),
            output_schema: schema.clone().map(Arc::new),
        };
        let invented;
        let (script, number) = match &self.case.draft.replies {
            // What the case says of a child run is no part of what is made up.
            _ if let Some(below) = &mut self.below => {
                if below.said >= below.script.len() {
                    return Ok(None);
                }
                below.said += 1;
                (&below.script, below.said as u64 - 1)
            }
            _ if let Some(inventor) = &mut self.inventor => {
                let calls = reading.tools && completion.tool_choice != ToolChoice::None;
                let value = inventor.reply(schema.as_deref(), calls);
                let script = ScriptModel::of_replies(&self.case.draft.name.value, &[value]);
                invented = script.map_err(|error| Trouble::Defect(error.to_string()))?;
                (&invented, 0)
            }
            Replies::Script(file) => {
                (self.prepared.script(file).map_err(Trouble::Source)?, request.transcript.replies())
            }
            Replies::Written(written) if (self.said as usize) < written.len() => {
                let number = self.said;
                self.said += 1;
                (self.written.as_ref().map_err(|message| Trouble::Source(message.clone()))?, number)
            }
            Replies::Written(_) => return Ok(None),
        };
        let mut lost = None;
        for attempt in 1..=operation.terms.retries.saturating_add(1) {
            request.attempt = attempt;
            match script.say(number, &request) {
                Err(error) => return Err(Trouble::Source(error.message)),
                Ok(Scripted::Replies(mut reply)) => {
                    if let Some(schema) = &schema
                        && !reply.parts.iter().any(|part| matches!(part, ReplyPart::Call(_)))
                    {
                        reply.output = Some(judge_output(schema, &reply.text()));
                    }
                    return Ok(Some(Outcome::ModelReplied(reply)));
                }
                Ok(Scripted::Fails(error)) => {
                    let is_last = error.retry == Retry::Never;
                    lost = Some(Failure::new(error.kind.code(), error.message));
                    if is_last {
                        break;
                    }
                }
            }
        }
        Ok(lost.map(Outcome::Failed))
    }
}

/// The replies that a case itself writes, read once.
fn written(case: &Case) -> Result<ScriptModel, String> {
    let values: Vec<_> = match &case.draft.replies {
        Replies::Written(written) => written.iter().map(|reply| reply.value.clone()).collect(),
        Replies::Script(_) => Vec::new(),
    };
    ScriptModel::of_replies(&case.draft.name.value, &values).map_err(|error| error.to_string())
}

fn step(config: &AgentConfig, state: AgentState) -> Result<AgentAction, Trouble> {
    execute_agent_step(config, state).map_err(|error| Trouble::Defect(error.to_string()))
}

/// An earlier turn of the conversation, in which the model said this and nothing else took place.
fn earlier(config: &AgentConfig, state: AgentState, reply: &str) -> Result<AgentState, Trouble> {
    let mut state = state;
    loop {
        let action = step(config, state)?;
        if let AgentAction::Complete { final_state, .. } | AgentAction::Handoff { final_state, .. } = action {
            return Ok(final_state);
        }
        let (operations, next) = action.into_operations();
        state = next;
        if operations.is_empty() && !state.is_ready() {
            return Ok(state);
        }
        for operation in operations {
            let outcome = match &operation.request {
                Request::ModelCompletion(_) => {
                    let parts = vec![ReplyPart::Text(reply.to_owned())];
                    let mut said = dalsegno_core::ModelReply::new(parts, dalsegno_core::StopReason::End);
                    if let Request::ModelCompletion(completion) = &operation.request
                        && let Ok(reading) = state.reading(config, completion)
                        && let Some(schema) = &reading.schema
                    {
                        said.output = Some(judge_output(schema, reply));
                    }
                    Outcome::ModelReplied(said)
                }
                Request::MemorySearch(_) => Outcome::MemoryFound(Vec::new()),
                other => {
                    let message =
                        format!("an earlier message of the case asks for {}", shortened(&other.label()));
                    return Err(Trouble::Source(format!(
                        "{message}: `messages` is for agents with a model, whose earlier turns are texts alone"
                    )));
                }
            };
            let at = state.now();
            state
                .resume(Event::outcome(at, operation.id, outcome))
                .map_err(|error| Trouble::Defect(error.to_string()))?;
        }
    }
}
