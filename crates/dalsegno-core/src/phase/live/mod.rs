//! A call: a live model listens and speaks, and the core decides what may happen.
//!
//! A step takes one thing that has come, in the order of the journal, so that what follows from it does not depend on how many came
//! together. Nothing is joined: each outcome is folded when it arrives. What the live model is asked for are commands, which
//! stay in the state until its session has them.

mod calls;
mod end;
mod hangup;
mod results;
mod talk;

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::start::render;
use super::{Stop, declarative, think};
use crate::action::{AgentAction, Continuation, open};
use crate::canonical::Canonical;
use crate::config::{AgentConfig, ModelMind, VoiceSettings};
use crate::event::Outcome;
use crate::id::{OperationId, Timestamp};
use crate::join::{Join, Pending, Then};
use crate::live::{
    Answered, Arrival, CommandKind, Digits, Line, Live, LiveCommand, LiveNews, Surface, TEXT_BYTES_MAX,
};
use crate::reply::{ModelReply, ReplyPart, StopReason};
use crate::response::{RunError, RunErrorCode};
use crate::state::{AgentState, Phase};
use crate::transcript::{Entry, Transcript};

/// Most commands that a session may leave untaken.
const OUTBOX_MAX: usize = 64;

/// How many commands are remembered that the session has taken: it may say so again.
const TAKEN_MAX: usize = 64;

/// The message where a command has no place in the transcript.
const NOTHING_TAKEN: &str = "the session of the live model takes no commands";

/// Begins a call.
pub(crate) fn begin(
    config: &AgentConfig,
    mind: &ModelMind,
    voice: &VoiceSettings,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let mut head = Canonical::new("head");
    mind.model.feed(&mut head);
    config.tools.feed(&mut head);
    let instructions = match &mind.instructions {
        Some(instructions) => Some(render("instructions", instructions, state)?),
        None => None,
    };
    let greeting = match &voice.greeting {
        Some(greeting) => Some(render("voice.greeting", greeting, state)?),
        None => None,
    };
    let inherited = core::mem::take(&mut state.transcript);
    let mut transcript = Transcript::begin(head.finish(), config.tools.tokens());
    if let Some(instructions) = &instructions {
        transcript.push(Entry::Instructions(instructions.clone()));
    }
    for entry in inherited.view().iter().filter(|entry| !matches!(entry, Entry::Instructions(_))) {
        transcript.push(entry.clone());
    }
    if state.inherited > 0 {
        state.inherited = transcript.len();
    }
    state.transcript = transcript;
    state.step = state.step.saturating_add(1);
    if state.request.surface == Some(Surface::Model) {
        think::has_room(config, mind, state)?;
    }
    // A fork continues: there is nothing to greet, and what was said or done last may wait for an answer.
    let greeting = greeting.filter(|_| !state.continues_call);
    let mut live = Box::new(Live::begin(state.now, greeting));
    live.talk.unspoken = state.continues_call && state.owes_words;
    live.duplex = state.request.surface == Some(Surface::Duplex);
    let instructions = instructions.unwrap_or_default();
    let first = match state.request.surface.is_some_and(Surface::is_answered) {
        // It begins with the session that it is given.
        true => CommandKind::Answer { instructions },
        false => CommandKind::Session { instructions },
    };
    let first = LiveCommand::mint(state.namespace, 0, first);
    live.commands = 1;
    live.outbox.push(first);
    let then = Then::Live(live);
    let most_bytes = config.limits.max_state_bytes;
    state.phase =
        Phase::Waiting(Join { then, operations: Vec::new(), tools: Vec::new(), most_bytes, bytes: 0 });
    Ok(())
}

/// What a call asks for now: commands, operations, and when to look again.
pub(crate) fn converse(config: &AgentConfig, continuation: Continuation) -> AgentAction {
    let state = &continuation.state;
    AgentAction::Converse {
        commands: state.live().map(|live| live.commands().to_vec()).unwrap_or_default(),
        operations: state
            .pending()
            .iter()
            .filter(|pending| pending.outcome.is_none())
            .map(|pending| pending.operation.clone())
            .collect(),
        wake_at: state.wake_at(config),
        continuation,
    }
}

/// Takes the next thing that has come, or lets declarative tools continue. Returns why the run fails, if it does.
pub(crate) fn advance(
    config: &AgentConfig,
    voice: &VoiceSettings,
    mut state: AgentState,
) -> (Continuation, Option<Stop>) {
    // What follows from one thing comes before the next.
    if matches!(&state.phase, Phase::Waiting(join) if join.stirs()) {
        return (stirred(config, state), None);
    }
    let Phase::Waiting(Join { then: Then::Live(live), operations, tools, most_bytes, bytes }) =
        core::mem::replace(&mut state.phase, Phase::Start)
    else {
        return (Continuation::unchanged(state), None);
    };
    let join = Join { then: Then::Recall, operations, tools, most_bytes, bytes };
    let before: BTreeSet<OperationId> = open(&join.operations).collect();
    let mut room = Room { config, voice, live, join, state, at: Timestamp::default() };
    room.retire();
    let end = room.next();
    let Room { live, join, mut state, .. } = room;
    state.phase = Phase::Waiting(Join { then: Then::Live(live), ..join });
    match end {
        None => (Continuation::moved(state, &before), None),
        Some(Ok(())) => {
            let answer = state.transcript.last_text_from(state.inherited);
            let is_transferred = state.live().is_some_and(Live::is_transferred);
            let reason = if is_transferred { "the call was transferred" } else { "the call is over" };
            super::end::completed(&mut state, answer, reason);
            (Continuation::unchanged(state), None)
        }
        Some(Err(stop)) => (Continuation::unchanged(state), Some(stop)),
    }
}

/// Lets declarative tools continue; those that have ended are folded by the steps after this one, before what has come since.
fn stirred(config: &AgentConfig, state: AgentState) -> Continuation {
    let mut continuation = declarative::advance(config, state);
    let mut ended: Vec<OperationId> = continuation.concluded().map(|(id, _)| id).collect();
    let state = &mut continuation.state;
    ended.retain(|id| state.parent_of(*id).is_none());
    if let Some(live) = state.live_mut() {
        let at = live.looked_at;
        live.arrivals.splice(0..0, ended.into_iter().map(|id| (at, Arrival::Settled(id))));
    }
    continuation
}

/// All that a step works on.
struct Room<'c> {
    config: &'c AgentConfig,
    voice: &'c VoiceSettings,
    live: Box<Live>,
    join: Join,
    state: AgentState,
    /// The time of what is looked at.
    at: Timestamp,
}

impl Room<'_> {
    /// Forgets operations that the step before this one concluded.
    fn retire(&mut self) {
        let arrivals = &self.live.arrivals;
        let comes = |id: OperationId| arrivals.iter().any(|(_, arrival)| *arrival == Arrival::Settled(id));
        self.join.operations.retain(|pending| {
            pending.outcome.is_none() || pending.parent.is_some() || comes(pending.operation.id)
        });
    }

    /// Takes the first thing that has come; returns how the run is over if it is.
    fn next(&mut self) -> Option<Result<(), Stop>> {
        if self.live.arrivals.is_empty() {
            return self.finish();
        }
        let (at, arrival) = self.live.arrivals.remove(0);
        self.at = at;
        self.live.looked_at = at;
        match arrival {
            Arrival::News(news) => self.news(news),
            Arrival::Settled(operation) => self.settled(operation),
            Arrival::Part(operation) => self.look_at_transfer(operation),
            Arrival::Gated(operation) => self.gated(operation),
            Arrival::Passed { .. } => {}
            // A tool that was agreed to begins before anything else is looked at.
            Arrival::Answered(_) => {}
        }
        if !self.live.calls.iter().any(|call| call.answered == Answered::No) {
            self.live.talk.fillers = 0;
        }
        self.look_at_hanging_up();
        self.speak();
        self.finish()
    }

    fn news(&mut self, news: LiveNews) {
        let at = self.at;
        match news {
            LiveNews::Connected => {
                self.live.line = Line::Open;
                self.live.talk.quiet_since = Some(at);
                self.greet();
            }
            LiveNews::Lost { reason: _ } => self.live.line = Line::Lost,
            LiveNews::Attached => self.attached(),
            LiveNews::SpeechStarted => self.caller_speaks(),
            LiveNews::SpeechStopped => self.caller_stops(),
            LiveNews::Heard { text } => {
                self.count(&text);
                self.state.transcript.push(Entry::User(text));
            }
            LiveNews::Said { mut text, heard_ms } => {
                self.live.talk.sounding = self.spoken_now().filter(|_| heard_ms.is_none() && self.plays());
                self.words_are_said();
                if heard_ms.is_some() {
                    text.push_str(" […]");
                }
                self.count(&text);
                let reply = ModelReply::new(Vec::from([ReplyPart::Text(text)]), StopReason::End);
                self.state.transcript.push(Entry::Assistant(reply));
            }
            LiveNews::ResponseBegan { response, command } => self.response_began(response, command),
            LiveNews::ResponseEnded { response, end } => self.response_ended(&response, end),
            LiveNews::Counted { response: _, tokens } => self.counted(&tokens),
            LiveNews::Lasted { millis, cost_nano_usd } => self.lasted(millis, cost_nano_usd),
            LiveNews::Asked { response, call } => self.asked(response, call),
            LiveNews::Withdrawn { call_id } => self.withdrawn(&call_id),
            LiveNews::Digit { digit } => {
                self.callers_turn();
                let digits = self.live.digits.get_or_insert_with(|| Digits { keys: String::new(), at });
                digits.keys.push(digit);
                digits.at = at;
                if digit == '#' || digits.keys.len() >= talk::DIGITS_MAX {
                    self.tell_digits();
                }
            }
            LiveNews::Told { text, by: _ } => self.note(text),
            LiveNews::Taken { command } => {
                self.live.outbox.retain(|one| one.id != command);
                if !self.live.taken.contains(&command) {
                    if self.live.taken.len() >= TAKEN_MAX {
                        self.live.taken.remove(0);
                    }
                    self.live.taken.push(command);
                }
            }
            LiveNews::Refused { command, code, message } => self.refused(command, &code, &message),
            LiveNews::Played { response } => {
                self.live.talk.sounding.take_if(|sounding| *sounding == response);
                if self.live.talk.quiet_since.is_some() {
                    self.live.talk.quiet_since = Some(at);
                }
            }
            LiveNews::Cut { response, heard_ms } => {
                self.live.talk.sounding.take_if(|sounding| *sounding == response);
                let (s, tenths) = (heard_ms / 1_000, heard_ms % 1_000 / 100);
                let note = alloc::format!("[The caller interrupted this: {s}.{tenths} s of it were heard.]");
                self.count(&note);
                self.state.transcript.push(Entry::User(note));
            }
            LiveNews::Woke => self.woke(),
            LiveNews::Ended { by, reason } => self.ended(by, reason),
        }
    }

    /// The session has refused a command.
    fn refused(&mut self, command: OperationId, code: &str, message: &str) {
        let Some(place) = self.live.outbox.iter().position(|one| one.id == command) else { return };
        let refused = self.live.outbox.remove(place);
        match refused.kind {
            CommandKind::Respond { tools, .. } => {
                if self.live.talk.asked == Some(command) {
                    self.live.talk.asked = None;
                }
                if code == BUSY {
                    // Once the active response has ended. What only fills a silence is of no use any more.
                    self.live.talk.unspoken |= tools;
                    self.wait_for_unseen();
                } else {
                    self.live.talk.failures = self.live.talk.failures.saturating_add(1);
                }
            }
            CommandKind::Session { .. } => {
                let message = alloc::format!("the live model's session was refused: {code}: {message}");
                let help = "look at the agent's instructions and at the settings of the line";
                self.close("the session was refused", Some((RunErrorCode::ModelFailed, message, help)));
            }
            CommandKind::Answer { .. } => {
                let message = alloc::format!("the call could not be answered: {code}: {message}");
                let help = "look at the key and the model of the line, and at the agent's instructions";
                self.close("it could not be answered", Some((RunErrorCode::ModelFailed, message, help)));
            }
            // The session has ended.
            CommandKind::Close { .. } => {}
            // The model cannot be told of it; the journal has it.
            CommandKind::Output { .. } | CommandKind::Note { .. } => {}
        }
    }

    /// Asks the session for something. Nothing is asked of a session that is about to end.
    fn emit(&mut self, kind: CommandKind) -> Option<OperationId> {
        if self.live.over.is_some() || self.live.closing.is_some() {
            return None;
        }
        if self.live.outbox.len() >= OUTBOX_MAX && !matches!(kind, CommandKind::Close { .. }) {
            let message = alloc::format!("{NOTHING_TAKEN}: {OUTBOX_MAX} of them wait");
            let help = "look whether the provider of the live model is reachable";
            self.close(NOTHING_TAKEN, Some((RunErrorCode::ModelFailed, message, help)));
            return None;
        }
        let command = LiveCommand::mint(self.state.namespace, self.live.commands, kind);
        let id = command.id;
        self.live.commands = self.live.commands.saturating_add(1);
        self.live.talk.unspoken |= command.kind.is_read();
        self.live.outbox.push(command);
        Some(id)
    }

    /// Tells the model something of its own accord; it speaks of it at the next pause.
    fn note(&mut self, text: String) {
        self.count(&text);
        self.state.transcript.push(Entry::User(alloc::format!("[{text}]")));
        self.emit(CommandKind::Note { text });
    }

    /// Counts what the transcript of the call takes. One that is too long ends the call.
    fn count(&mut self, text: &str) {
        self.live.bytes = self.live.bytes.saturating_add(text.len() as u64);
        let most = self.config.limits.max_state_bytes;
        if self.live.bytes > most {
            let message = alloc::format!("the call has more bytes of words than `limits.max_state` ({most})");
            let help = "raise the limit in the agent file";
            self.close("the call is too long", Some((RunErrorCode::LimitExceeded, message, help)));
        }
    }

    /// Gives an operation the outcome that the core itself comes to.
    fn conclude(&mut self, id: OperationId, outcome: Outcome) {
        self.join.drop_parts(id);
        if let Some(pending) = self.pending_mut(id) {
            pending.outcome = Some(outcome);
        }
    }

    fn pending_mut(&mut self, id: OperationId) -> Option<&mut Pending> {
        self.join.operations.iter_mut().find(|pending| pending.operation.id == id)
    }

    fn is_open(&self, id: OperationId) -> bool {
        let mut pending = self.join.operations.iter();
        pending.any(|pending| pending.operation.id == id && pending.outcome.is_none())
    }

    /// Says whether no step has looked at the outcome of an operation: it may have come meanwhile.
    fn is_under_way(&self, id: OperationId) -> bool {
        self.is_open(id) || self.live.arrivals.iter().any(|(_, arrival)| *arrival == Arrival::Settled(id))
    }
}

/// The code of a refusal because a response was active.
const BUSY: &str = "busy";

/// The words of an error that ends a run.
fn error((code, message, help): (RunErrorCode, String, &str)) -> RunError {
    RunError { code, message, help: help.into() }
}

/// A text that is no longer than an output may be.
fn fitting(text: String) -> String {
    cut_to(text, TEXT_BYTES_MAX)
}

/// A text of at most so many bytes.
fn cut_to(mut text: String, most: usize) -> String {
    if text.len() > most {
        let note = alloc::format!(" [… {} bytes in all]", text.len());
        text.truncate(text.floor_char_boundary(most.saturating_sub(note.len())));
        text.push_str(&note);
    }
    text
}
