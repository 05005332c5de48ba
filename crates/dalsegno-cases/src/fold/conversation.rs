//! A call in a case: the core, a caller and a live model that are written down, and a clock that the case moves.
//!
//! What has come is told to the core one after the other, as a journal has it. What takes time is under way until its time has come; the
//! clock then moves to what comes first. A process that dies loses what is under way, and the next one folds what was recorded.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::{
    AgentState, CommandKind, Event, Failure, FailureCode, Gate, GateState, LiveNews, News, OnIndeterminate,
    Operation, OperationId, Outcome, Timestamp, execute_agent_step,
};
use dalsegno_models::{LiveAsk, LiveScript, LiveTurn, LiveTwin, judge_call};
use dalsegno_workspace::{CaseTurn, Draft, TurnKind};

use super::{EVENTS_MAX, Folding};
use crate::talk::Talked;
use crate::trouble::Trouble;

/// Why it is unknown whether something took place whose process died.
const DIED: &str = "the process ended before an outcome was recorded";

/// The call of a case while it is folded.
pub(crate) struct Conversation {
    twin: LiveTwin,
    /// The commands that were sent since the session was there last.
    sent: BTreeSet<OperationId>,
    /// Those that are noted.
    noted: BTreeSet<OperationId>,
    /// The tools that the live model asked for, by the ids of its calls.
    asked: BTreeMap<String, String>,
    /// What is under way.
    flights: Vec<Flight>,
    /// All that the journal of the run has.
    journal: Vec<Event>,
    /// For how long the caller has waited in silence.
    silent: u64,
}

/// Something that comes later.
struct Flight {
    /// When it comes.
    due: u64,
    /// How long it takes.
    takes: u64,
    operation: Operation,
    news: News,
}

impl Conversation {
    pub(super) fn new(draft: &Draft) -> Self {
        Self {
            twin: LiveTwin::new(script(&draft.turns)),
            sent: BTreeSet::new(),
            noted: BTreeSet::new(),
            asked: BTreeMap::new(),
            flights: Vec::new(),
            journal: Vec::new(),
            silent: 0,
        }
    }

    /// How many turns were not taken.
    pub(super) fn turns_left(&self) -> usize {
        self.twin.turns_left()
    }

    fn is_under_way(&self, operation: OperationId) -> bool {
        self.flights.iter().any(|flight| flight.operation.id == operation)
    }

    /// What comes first of that whose time has come.
    fn arrived(&mut self, now: u64) -> Option<Flight> {
        let due = self.flights.iter().enumerate().filter(|(_, flight)| flight.due <= now);
        let place = due.min_by_key(|(_, flight)| flight.due).map(|(place, _)| place)?;
        Some(self.flights.remove(place))
    }
}

/// The turns of a case as a script.
fn script(turns: &[CaseTurn]) -> LiveScript {
    let turns = turns.iter().map(|turn| match turn.kind.clone() {
        TurnKind::Caller { text, after } => LiveTurn::Caller { text, after },
        TurnKind::Model { text, calls, lasts, interrupt } => {
            let calls = calls.into_iter().map(|call| LiveAsk {
                tool: call.tool,
                arguments: call.arguments,
                call_id: call.call_id,
            });
            LiveTurn::Model { text, calls: calls.collect(), lasts, interrupt }
        }
        TurnKind::Digits { digits, after } => LiveTurn::Digits { digits, after },
        TurnKind::Drop { lasts, after } => LiveTurn::Drop { lasts, after },
        TurnKind::Kill { lasts, after } => LiveTurn::Kill { lasts, after },
        TurnKind::HangUp { after } => LiveTurn::HangUp { after },
    });
    LiveScript::of_turns(turns.collect())
}

impl Folding<'_> {
    /// Folds a call to its end, or to where nothing more comes of itself.
    pub(super) fn converse(&mut self, state: AgentState) -> Result<(), Trouble> {
        let mut call = Conversation::new(&self.case.draft);
        let folded = self.carry(&mut call, state);
        self.turns_left = call.turns_left();
        folded
    }

    fn carry(&mut self, call: &mut Conversation, state: AgentState) -> Result<(), Trouble> {
        let Some(mut state) = self.rest(state)? else { return Ok(()) };
        loop {
            self.events += 1;
            if self.events > EVENTS_MAX {
                return Err(Trouble::Endless);
            }
            let mut moved = self.send(call, &state);
            moved |= self.begin_flights(call, &state)?;
            let now = self.now.as_millis();
            for news in call.twin.advance(now) {
                moved = true;
                match self.tell(call, state, news)? {
                    Some(next) => state = next,
                    None => return Ok(()),
                }
            }
            if call.twin.died() {
                self.die(call, &state)?;
                continue;
            }
            if moved {
                continue;
            }
            if let Some(flight) = call.arrived(now) {
                match self.land(call, state, flight)? {
                    Some(next) => state = next,
                    None => return Ok(()),
                }
                continue;
            }
            let wake_at = state.wake_at(&self.prepared.config).map(Timestamp::as_millis);
            if wake_at.is_some_and(|at| at <= now) {
                match self.tell(call, state, LiveNews::Woke)? {
                    Some(next) => state = next,
                    None => return Ok(()),
                }
                continue;
            }
            let lands = call.flights.iter().map(|flight| flight.due).min();
            let Some(next) = [call.twin.wakes_at(), lands, wake_at].into_iter().flatten().min() else {
                self.wait_for_people(&state);
                return Ok(());
            };
            self.pass(call, next);
        }
    }

    /// Moves the clock.
    fn pass(&mut self, call: &mut Conversation, to: u64) {
        let to = to.max(self.now.as_millis());
        call.silent = match call.twin.is_awaited() {
            true => call.silent + (to - self.now.as_millis()),
            false => 0,
        };
        let talk = &mut self.trajectory.talk;
        talk.silence_ms = talk.silence_ms.max(call.silent);
        self.now = Timestamp::from_millis(to);
    }

    /// Steps until the run waits; nothing once it is over.
    fn rest(&mut self, mut state: AgentState) -> Result<Option<AgentState>, Trouble> {
        loop {
            let before = state.step();
            let action = super::step(&self.prepared.config, state)?;
            self.note_steps(&action, before);
            if self.over(&action) {
                return Ok(None);
            }
            state = action.into_state();
            self.trajectory.usage = state.usage();
            if !state.is_ready() {
                return Ok(Some(state));
            }
        }
    }

    /// Sends what the session was not sent.
    fn send(&mut self, call: &mut Conversation, state: &AgentState) -> bool {
        let Some(live) = state.live().filter(|live| !live.is_lost()) else { return false };
        let mut sent = false;
        for command in live.commands() {
            if !call.sent.insert(command.id) {
                continue;
            }
            sent = true;
            call.twin.take(command);
            if !call.noted.insert(command.id) {
                continue;
            }
            let spoken = &mut self.trajectory.talk.spoken;
            match &command.kind {
                CommandKind::Output { call_id, content } => spoken.push(Talked::Output {
                    call_id: call_id.clone(),
                    tool: call.asked.get(call_id).cloned().unwrap_or_default(),
                    content: content.clone(),
                }),
                CommandKind::Session { instructions: text } | CommandKind::Answer { instructions: text }
                    if !text.is_empty() =>
                {
                    spoken.push(Talked::Told(text.clone()));
                }
                CommandKind::Note { text } | CommandKind::Respond { instructions: Some(text), .. } => {
                    spoken.push(Talked::Told(text.clone()));
                }
                CommandKind::Session { .. }
                | CommandKind::Answer { .. }
                | CommandKind::Respond { .. }
                | CommandKind::Close { .. } => {}
            }
        }
        sent
    }

    /// Starts what the run asks for and is not under way.
    fn begin_flights(&mut self, call: &mut Conversation, state: &AgentState) -> Result<bool, Trouble> {
        // What the core does not wait for any more is let go.
        let open: Vec<Operation> = state
            .pending()
            .iter()
            .filter(|pending| pending.outcome.is_none())
            .map(|pending| pending.operation.clone())
            .collect();
        call.flights.retain(|flight| open.iter().any(|operation| operation.id == flight.operation.id));
        let mut began = false;
        for operation in open {
            if call.is_under_way(operation.id) || self.waiting.contains_key(&operation.id) {
                continue;
            }
            let before = self.now;
            self.takes = 0;
            let event = self.answer_one(state, &operation)?;
            self.now = before;
            let Some(Event { news, .. }) = event else { continue };
            began = true;
            if let Some(done) = self.trajectory.done(operation.id) {
                // It comes when its time has come.
                done.outcome = None;
            }
            let takes = self.takes;
            call.flights.push(Flight { due: before.as_millis() + takes, takes, operation, news });
        }
        Ok(began)
    }

    /// What was under way has come.
    fn land(
        &mut self,
        call: &mut Conversation,
        mut state: AgentState,
        flight: Flight,
    ) -> Result<Option<AgentState>, Trouble> {
        let Flight { operation, news, .. } = flight;
        let event = Event { at: self.now, news };
        if let News::Outcome { outcome, .. } = &event.news {
            self.got(&operation, outcome.clone());
        }
        state.resume(event.clone()).map_err(|error| Trouble::Defect(error.to_string()))?;
        self.settled(&state, &operation);
        call.journal.push(event);
        self.rest(state)
    }

    /// Tells the run what happens in the call, as far as it can take it.
    fn tell(
        &mut self,
        call: &mut Conversation,
        mut state: AgentState,
        mut news: LiveNews,
    ) -> Result<Option<AgentState>, Trouble> {
        if let LiveNews::Asked { call: asked, .. } = &mut news {
            let validation = judge_call(&self.prepared.toolbox, &asked.name, &asked.arguments, false);
            asked.validation = Some(validation);
        }
        let Some(news) = news.bounded().filter(|news| state.admits(news).is_ok()) else {
            return Ok(Some(state));
        };
        match &news {
            LiveNews::Attached => call.sent.clear(),
            LiveNews::SpeechStarted | LiveNews::ResponseBegan { .. } => call.silent = 0,
            LiveNews::Asked { call: asked, .. } => {
                call.asked.insert(asked.call_id.clone(), asked.name.clone());
            }
            _ => {}
        }
        self.trajectory.talk.note(&news);
        let event = Event::live(self.now, news);
        state.resume(event.clone()).map_err(|error| Trouble::Defect(error.to_string()))?;
        call.journal.push(event);
        self.rest(state)
    }

    /// The process dies: another one folds what was recorded, and performs again what may be repeated.
    fn die(&mut self, call: &mut Conversation, state: &AgentState) -> Result<(), Trouble> {
        self.trajectory.talk.spoken.push(Talked::Died);
        if self.refolded(&call.journal)? != *state {
            let message = "the state that the journal of the call folds to is not the one that was lost";
            return Err(Trouble::Defect(message.to_owned()));
        }
        if let Some(at) = call.twin.wakes_at() {
            self.now = self.now.max(Timestamp::from_millis(at));
        }
        let now = self.now.as_millis();
        for flight in &mut call.flights {
            let terms = flight.operation.terms;
            let repeats = terms.class.may_repeat()
                || (terms.on_indeterminate == OnIndeterminate::Retry && terms.retries > 0);
            // A person's answer waits for the process that asks.
            if matches!(flight.operation.gate, GateState::Waiting(_)) {
                continue;
            }
            if repeats {
                flight.due = now + flight.takes;
                continue;
            }
            let operation = flight.operation.id;
            flight.due = now;
            flight.news = match terms.on_indeterminate {
                OnIndeterminate::Report => {
                    let failure = Failure::new(FailureCode::Indeterminate, DIED);
                    News::Outcome { operation, outcome: Outcome::Failed(failure) }
                }
                OnIndeterminate::Ask | OnIndeterminate::Retry => {
                    News::Gated { operation, gate: Gate::InDoubt { reason: DIED.to_owned() } }
                }
            };
        }
        Ok(())
    }

    /// The state to which a journal folds.
    fn refolded(&self, journal: &[Event]) -> Result<AgentState, Trouble> {
        let config = &self.prepared.config;
        let defect =
            |error: String| Trouble::Defect(format!("the journal of the call does not fold: {error}"));
        let rest = |mut state: AgentState| loop {
            let action = execute_agent_step(config, state).map_err(|error| defect(error.to_string()))?;
            state = action.into_state();
            if !state.is_ready() {
                return Ok(state);
            }
        };
        let mut state = rest(self.begin()?)?;
        for event in journal {
            state.resume(event.clone()).map_err(|error| defect(error.to_string()))?;
            state = rest(state)?;
        }
        Ok(state)
    }
}
