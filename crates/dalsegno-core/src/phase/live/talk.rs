//! Who speaks in a call, and when.

use alloc::string::String;
use alloc::vec::Vec;

use super::Room;
use crate::config::AgentConfig;
use crate::id::{OperationId, Timestamp};
use crate::live::{Answered, CommandKind, Line, Live, LiveCall, ResponseEnd, Stage, Talk};
use crate::response::RunErrorCode;
use crate::state::AgentState;

/// How long the model is waited for after the caller's turn: it begins to answer by itself.
const TURN_MS: u64 = 3_000;

/// Most responses that are active beside another one.
const BESIDE_MAX: usize = 16;

/// The silence after which the model says that it is still at it, and the silence after that.
const FILLER_MS: (u64, u64) = (1_500, 8_000);

/// How often it says so.
const FILLERS_MAX: u32 = 2;

/// How often in a row a response may fail before the model is not asked to speak any more.
const FAILURES_MAX: u32 = 3;

/// The pause after which keys that the caller pressed are told.
const DIGITS_MS: u64 = 1_500;

/// Most keys that are told at once.
pub(super) const DIGITS_MAX: usize = 64;

/// How long a telephone may ring before the call is missed: the provider lets go of it about then.
const RINGING_MS: u64 = 20_000;

/// How long after a transfer was asked for the call must have ended, if it was made.
const TRANSFERRED_MS: u64 = 20_000;

/// How long the end of a call that the agent ends is waited for.
const CLOSING_MS: u64 = 10_000;

/// What the model is told when a transfer was asked for and the call continues.
const NOT_TRANSFERRED: &str = "The call was not transferred: the caller is still on the line. Tell the caller so, and go on with the call yourself.";

/// A time that the call waits for.
pub(super) fn after(since: Timestamp, millis: u64) -> Timestamp {
    Timestamp::from_millis(since.as_millis().saturating_add(millis))
}

impl AgentState {
    /// The first time at which something follows in a call from silence alone; none for a run that is no call.
    pub fn wake_at(&self, config: &AgentConfig) -> Option<Timestamp> {
        let (live, voice) = (self.live()?, config.voice.as_ref()?);
        if live.over.is_some() {
            return None;
        }
        if let Some(closing) = &live.closing {
            return Some(after(closing.at, CLOSING_MS));
        }
        let filler = voice.filler.as_ref().and_then(|_| live.filler_at());
        let times = [
            Some(after(live.began, voice.max_duration_ms)),
            live.is_ringing().then(|| after(live.began, RINGING_MS)),
            live.talk.turn_until,
            live.digits.as_ref().map(|digits| after(digits.at, DIGITS_MS)),
            live.defer_at(voice.defer_after_ms),
            live.hangs_up_at(),
            live.transfer.map(|since| after(since, TRANSFERRED_MS)),
            filler,
        ];
        times.into_iter().flatten().min()
    }
}

impl Live {
    /// Whether the model may be asked to speak: it does not, and neither does the caller.
    fn is_quiet(&self) -> bool {
        let talk = &self.talk;
        self.line == Line::Open
            && self.over.is_none()
            && self.closing.is_none()
            && talk.active.is_none()
            && talk.asked.is_none()
            && self.hangs_up.is_none()
            && talk.turn_until.is_none()
            && (self.duplex || !talk.caller)
            // The model that works with the tools takes no wish while a call of it has no output.
            && !(self.duplex && self.calls.iter().any(|call| call.answered == Answered::No))
            && talk.failures < FAILURES_MAX
    }

    /// When the model is to say that it is still at it.
    fn filler_at(&self) -> Option<Timestamp> {
        let waits = self.calls.iter().any(|call| call.answered == Answered::No && self.is_started(call.work));
        // One that hears while it speaks says by itself that it is at it.
        if self.duplex || !waits || !self.is_quiet() || self.talk.unspoken || self.talk.fillers >= FILLERS_MAX
        {
            return None;
        }
        let pause = if self.talk.fillers == 0 { FILLER_MS.0 } else { FILLER_MS.1 };
        self.talk.quiet_since.map(|since| after(since, pause))
    }

    /// When the first call that waits for its result is told that it runs.
    fn defer_at(&self, defer_after_ms: u64) -> Option<Timestamp> {
        let waits = |call: &&LiveCall| call.answered == Answered::No && self.is_started(call.work);
        self.calls.iter().filter(waits).map(|call| after(call.since, defer_after_ms)).min()
    }

    pub(super) fn is_started(&self, number: u32) -> bool {
        self.works.iter().any(|work| work.number == number && matches!(work.stage, Stage::Started(_)))
    }
}

impl Talk {
    /// A response is not active any more. Returns it with its number if it was.
    fn end(&mut self, response: &str) -> Option<(String, u64)> {
        if let Some(place) = self.beside.iter().position(|(beside, _)| beside == response) {
            return Some(self.beside.remove(place));
        }
        let active = self.active.take_if(|(active, _)| active == response);
        if active.is_some() {
            self.active = self.beside.pop();
        }
        active
    }
}

impl Room<'_> {
    /// Has the model speak of what no response has read, once for all there is.
    pub(super) fn speak(&mut self) {
        if self.live.talk.unspoken && self.live.is_quiet() {
            self.live.talk.unspoken = false;
            self.respond(None, true);
        }
    }

    fn respond(&mut self, instructions: Option<String>, tools: bool) {
        self.live.talk.asked = self.emit(CommandKind::Respond { instructions, tools });
    }

    /// The session refuses to speak, since it has a response under way: one whose beginning no news told is waited for, as one that
    /// follows from the caller's turn.
    pub(super) fn wait_for_unseen(&mut self) {
        if self.live.talk.active.is_none() {
            self.live.talk.turn_until = Some(after(self.at, TURN_MS));
        }
    }

    /// The first words of the agent.
    pub(super) fn greet(&mut self) {
        if let Some(greeting) = self.live.greeting.take()
            && self.live.is_quiet()
        {
            self.respond(Some(greeting), false);
        }
    }

    /// The response that words belong to: the one under way, or the one that ended last.
    pub(super) fn spoken_now(&self) -> Option<String> {
        let talk = &self.live.talk;
        let active = talk.active.as_ref().map(|(response, _)| response);
        active.or_else(|| talk.ended.as_ref().map(|(response, _)| response)).cloned()
    }

    /// The caller says or presses something. It is a turn of its own if the model has spoken since the last one.
    pub(super) fn callers_turn(&mut self) {
        let talk = &mut self.live.talk;
        if core::mem::take(&mut talk.replied) {
            talk.turns = talk.turns.saturating_add(1);
        }
    }

    /// The live model has said something.
    pub(super) fn words_are_said(&mut self) {
        self.live.talk.replied |= core::mem::take(&mut self.live.talk.untold);
        if let Some(hangs_up) = self.live.hangs_up.as_mut().filter(|hangs_up| hangs_up.since.is_some()) {
            hangs_up.said = true;
        }
    }

    pub(super) fn caller_speaks(&mut self) {
        self.callers_turn();
        self.stay("the caller speaks: the call continues");
        let talk = &mut self.live.talk;
        talk.caller = true;
        talk.sounding = None;
        talk.turn_until = None;
        talk.quiet_since = None;
        talk.failures = 0;
    }

    pub(super) fn caller_stops(&mut self) {
        let is_duplex = self.live.duplex;
        let talk = &mut self.live.talk;
        talk.caller = false;
        talk.quiet_since = Some(self.at);
        if talk.active.is_none() && !is_duplex {
            talk.turn_until = Some(after(self.at, TURN_MS));
        }
    }

    pub(super) fn response_began(&mut self, response: String, command: Option<OperationId>) {
        let unread = self.live.outbox.iter().any(|command| command.kind.is_read());
        let is_duplex = self.live.duplex;
        let talk = &mut self.live.talk;
        // Results that are on their way are not spoken of by it.
        talk.replied |= !is_duplex && !unread;
        talk.responses = talk.responses.saturating_add(1);
        let before = talk.active.replace((response, talk.responses));
        let before = before
            .filter(|(before, _)| is_duplex && talk.active.as_ref().is_some_and(|(now, _)| now != before));
        if talk.beside.len() < BESIDE_MAX {
            talk.beside.extend(before);
        }
        if unread {
            // Results may be on their way: this response has not read them.
            let began = talk.responses;
            for work in &mut self.live.works {
                if let Stage::Done { after, .. } = &mut work.stage {
                    *after = began.max(*after);
                }
            }
        }
        let talk = &mut self.live.talk;
        if command.is_some() && talk.asked == command {
            talk.asked = None;
        }
        talk.turn_until = None;
        talk.quiet_since = None;
        talk.unspoken = unread;
    }

    pub(super) fn response_ended(&mut self, response: &str, end: ResponseEnd) {
        let active = self.live.talk.end(response);
        if active.is_some() && self.live.talk.active.is_none() {
            self.live.talk.quiet_since = Some(self.at).filter(|_| !self.live.talk.caller);
        }
        let is_news = self.live.talk.ended.as_ref().is_none_or(|(ended, _)| ended != response);
        if active.is_none() && is_news && end != ResponseEnd::Interrupted {
            // Its beginning was missed, and it is what the session was busy with.
            self.live.talk.turn_until = None;
        }
        match end {
            ResponseEnd::Completed => {
                self.live.talk.failures = 0;
                // What it has come to is said from now on.
                self.live.talk.untold = self.live.duplex;
                if let Some((_, number)) = active {
                    let heard = |stage: &Stage| matches!(stage, Stage::Done { after, .. } if *after < number);
                    self.live.works.retain(|work| !heard(&work.stage));
                }
                self.completed(response);
                self.goodbye(response);
            }
            ResponseEnd::Interrupted => {
                if active.is_some() && !self.live.talk.caller && !self.live.duplex {
                    self.live.talk.turn_until = Some(after(self.at, TURN_MS));
                }
                self.broken_off(response);
            }
            ResponseEnd::Failed => {
                self.live.talk.failures = self.live.talk.failures.saturating_add(1);
                self.live.talk.unspoken = true;
                self.broken_off(response);
            }
        }
        self.live.talk.ended = Some((response.into(), end));
    }

    /// The session is there again. What happened meanwhile is unknown: who speaks, and which responses have ended.
    pub(super) fn attached(&mut self) {
        self.live.line = Line::Open;
        let works = &self.live.works;
        let is_held = |number| {
            works.iter().any(|work| work.number == number && matches!(work.stage, Stage::Held { .. }))
        };
        let held = self.live.calls.iter().filter(|call| is_held(call.work)).map(|call| call.response.clone());
        let mut gone: Vec<String> = held.collect();
        let active =
            core::mem::take(&mut self.live.talk.beside).into_iter().chain(self.live.talk.active.take());
        gone.extend(active.map(|(response, _)| response));
        for response in gone {
            self.broken_off(&response);
        }
        let live = &mut self.live;
        let asked = live.talk.asked.filter(|id| live.outbox.iter().any(|command| command.id == *id));
        live.talk.asked = asked;
        live.talk.caller = false;
        live.talk.sounding = None;
        live.talk.turn_until = Some(after(self.at, TURN_MS)).filter(|_| !live.duplex);
        live.talk.quiet_since = Some(self.at);
        self.note(
            "The connection was interrupted. If you asked for a tool and have no result of it, ask again."
                .into(),
        );
    }

    /// Tells the model which keys the caller pressed.
    pub(super) fn tell_digits(&mut self) {
        if let Some(digits) = self.live.digits.take() {
            self.note(alloc::format!("The caller pressed the keys {}.", digits.keys));
        }
    }

    /// A time has come: what follows from silence until now.
    pub(super) fn woke(&mut self) {
        let at = self.at;
        if self.live.closing.as_ref().is_some_and(|closing| after(closing.at, CLOSING_MS) <= at) {
            self.over_without_word();
            return;
        }
        if self.live.closing.is_none() && after(self.live.began, self.voice.max_duration_ms) <= at {
            let lasts = match self.voice.max_duration_ms {
                ms @ ..60_000 => alloc::format!("{} s", ms / 1_000),
                ms => alloc::format!("{} min", ms / 60_000),
            };
            let message = alloc::format!("the call lasted longer than `voice.max_duration` ({lasts})");
            let help = "raise `voice.max_duration` in the agent file";
            self.close("the call has lasted too long", Some((RunErrorCode::LimitExceeded, message, help)));
            return;
        }
        if self.live.is_ringing() && after(self.live.began, RINGING_MS) <= at {
            let seconds = RINGING_MS / 1_000;
            let message = alloc::format!("the call was not answered within {seconds} s");
            let help = "look whether the provider of the line was reachable";
            self.close("missed", Some((RunErrorCode::ModelFailed, message, help)));
            return;
        }
        if self.live.talk.turn_until.is_some_and(|until| until <= at) {
            self.live.talk.turn_until = None;
        }
        if self.live.digits.as_ref().is_some_and(|digits| after(digits.at, DIGITS_MS) <= at) {
            self.tell_digits();
        }
        if self.live.transfer.is_some_and(|since| after(since, TRANSFERRED_MS) <= at) {
            self.live.transfer = None;
            self.note(NOT_TRANSFERRED.into());
        }
        let defer_after_ms = self.voice.defer_after_ms;
        while let Some(place) = self.live.calls.iter().position(|call| {
            call.answered == Answered::No
                && self.live.is_started(call.work)
                && after(call.since, defer_after_ms) <= at
        }) {
            self.answer_later(place, super::results::RUNS);
        }
        if self.live.filler_at().is_some_and(|time| time <= at)
            && let Some(filler) = self.voice.filler.clone()
        {
            self.live.talk.fillers = self.live.talk.fillers.saturating_add(1);
            self.respond(Some(filler), false);
        }
    }
}
