//! Responses, and the caller's turns: never two responses, and none over the caller.

use alloc::borrow::ToOwned as _;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use dalsegno_core::{
    CommandKind, EndedBy, LiveCommand, LiveNews, LiveTokens, OperationId, ResponseEnd, TEXT_BYTES_MAX,
};

use super::{LiveSession, Output};
use crate::dialogue::{CUT, Dialogue, Item};
use crate::failure::{Meaning, OWN_MODEL_FAILED};
use crate::port::ModelSession as _;
use crate::sent;
use crate::taken::{Done, Error, Metadata, Status};

/// How long to wait before a response is asked for again, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// How often in a row the provider may refuse to answer the caller.
const REFUSALS_MAX: u32 = 3;

/// How many responses are remembered that are over.
const ENDED_MAX: usize = 32;

/// How many responses may be played one after another. They are sentences.
const SOUNDING_MAX: usize = 16;

/// How many lines of the caller wait for the end of a response.
const SAID_MAX: usize = 64;

/// Who speaks, as the provider has said.
#[derive(Debug, Clone, Default)]
pub(super) struct Talk {
    active: Option<Active>,
    /// A response was asked for and has not begun.
    asked: Option<Asked>,
    /// A response that the core asks for, and that has to wait.
    held: Option<LiveCommand>,
    /// The caller's words that are told once the response that they interrupt has ended.
    said: Vec<String>,
    /// The caller is to be answered.
    is_due: bool,
    /// How often in a row the provider refused to.
    refusals: u32,
    /// The end of the response was asked for.
    cancelling: bool,
    /// Until then nothing is asked for: the provider says that a response is active, or refused one.
    pub(super) retry_at: Option<u64>,
    /// The provider returns what came with a wish for a response.
    returns: bool,
    /// The responses that ended last.
    ended: VecDeque<String>,
    /// The responses whose words are reported as said, and are still being played.
    sounding: VecDeque<String>,
    /// The latest that were counted without being active.
    counted: VecDeque<String>,
}

/// A response that is under way.
#[derive(Debug, Clone)]
struct Active {
    id: String,
    began: u64,
    text: String,
    /// It has audio: the caller has heard it when that was played.
    spoken: bool,
    /// The caller was cut off after this much.
    heard_ms: Option<u64>,
    /// How much the caller has heard until now, where that is known.
    heard_so_far: Option<u64>,
}

impl Active {
    /// How much of it the caller has heard, in milliseconds; where nothing says so, since it began.
    fn heard(&self, now: u64) -> u64 {
        let known = self.heard_ms.or(self.heard_so_far);
        known.unwrap_or_else(|| now.saturating_sub(self.began))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Command(OperationId),
    Turn,
}

impl Talk {
    pub(super) fn holds(&self, id: OperationId) -> bool {
        self.held.as_ref().is_some_and(|held| held.id == id)
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.active.is_none()
            && self.asked.is_none()
            && self.held.is_none()
            && self.said.is_empty()
            && !self.is_due
    }

    pub(super) fn is_between(&self) -> bool {
        self.active.is_none() && self.asked.is_none()
    }

    fn is_active(&self, response: &str) -> bool {
        self.active.as_ref().is_some_and(|active| active.id == response)
    }

    /// The connection is lost, or the call is over: what was said until now is told.
    pub(super) fn break_off(&mut self, now: u64, dialogue: &mut Dialogue, output: &mut Output) {
        if let Some(active) = self.active.take() {
            let heard_ms = active.heard(now);
            tell(active.text, Some(heard_ms), dialogue, output);
        }
        self.is_due |= self.asked == Some(Asked::Turn);
        self.tell_said(dialogue, output);
        self.asked = None;
        self.held = None;
        self.cancelling = false;
        self.retry_at = None;
        self.ended.clear();
    }

    fn tell_said(&mut self, dialogue: &mut Dialogue, output: &mut Output) {
        if !self.said.is_empty() {
            output.news.push(LiveNews::SpeechStopped);
        }
        for text in self.said.drain(..) {
            dialogue.push(Item::Caller(text.clone()));
            output.news.push(LiveNews::Heard { text });
        }
    }

    fn has_ended(&mut self, response: String) {
        if self.ended.len() >= ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(response);
    }
}

/// Tells what the live model said.
fn tell(text: String, heard_ms: Option<u64>, dialogue: &mut Dialogue, output: &mut Output) {
    if !text.is_empty() {
        let cut = if heard_ms.is_some() { CUT } else { "" };
        dialogue.push(Item::Agent(alloc::format!("{text}{cut}")));
        output.news.push(LiveNews::Said { text, heard_ms });
    }
}

impl LiveSession {
    /// The caller says something.
    pub(super) fn speak(&mut self, now: u64, line: String, output: &mut Output) {
        if self.talk.said.is_empty() {
            output.news.push(LiveNews::SpeechStarted);
        }
        let id = self.own_id("said");
        output.frames.push(sent::item(&id, &id, &Item::Caller(line.clone())));
        if self.talk.said.len() < SAID_MAX {
            self.talk.said.push(line);
        }
        self.talk.is_due = true;
        self.talk.refusals = 0;
        self.cancel(output);
        self.settle(now, output);
    }

    /// Ends what the live model says, if it does.
    pub(crate) fn cancel(&mut self, output: &mut Output) {
        let speaks = self.talk.active.is_some() || self.talk.asked.is_some();
        if speaks && !self.talk.cancelling {
            self.talk.cancelling = true;
            let id = self.own_id("cancel");
            let response = self.talk.active.as_ref().map(|active| active.id.as_str());
            output.frames.push(sent::cancel(&id, response));
        }
    }

    /// The core wants a response.
    pub(super) fn respond(&mut self, now: u64, command: &LiveCommand, output: &mut Output) {
        if self.talk.active.is_some() {
            output.news.push(busy(command.id));
        } else {
            self.talk.held = Some(command.clone());
            self.settle(now, output);
        }
    }

    /// Asks for the next response, once none is under way.
    pub(super) fn settle(&mut self, now: u64, output: &mut Output) {
        if !self.is_open() {
            return;
        }
        let talk = &mut self.talk;
        if talk.active.is_some() || talk.asked.is_some() {
            return;
        }
        talk.tell_said(&mut self.settings.dialogue, output);
        if talk.retry_at.is_some_and(|retry| now < retry) {
            return;
        }
        if core::mem::take(&mut talk.is_due) {
            talk.asked = Some(Asked::Turn);
            let id = self.own_id("turn");
            output.frames.push(sent::turn(&id));
        } else if let Some(command) = talk.held.take() {
            self.ask(command, output);
        }
    }

    fn ask(&mut self, command: LiveCommand, output: &mut Output) {
        let CommandKind::Respond { instructions, tools } = &command.kind else { return };
        // What a response is told takes the place of all that the session was told.
        let told = instructions.as_ref().map(|told| match &self.settings.instructions {
            Some(own) if !own.is_empty() => alloc::format!("{own}\n\n{told}"),
            Some(_) | None => told.clone(),
        });
        output.frames.push(sent::respond(command.id, told.as_deref(), *tools));
        self.talk.asked = Some(Asked::Command(command.id));
        self.sent.push(command);
    }

    pub(super) fn response_created(
        &mut self,
        now: u64,
        response: String,
        metadata: &Metadata,
        output: &mut Output,
    ) {
        if self.talk.is_active(&response) || self.talk.ended.contains(&response) {
            self.counts.stray += 1;
            return;
        }
        if let Some(active) = self.talk.active.take() {
            // Its end was missed: what it asked for does not start.
            self.finish(now, active, Status::Failed, String::new(), output);
        }
        let named = metadata.command.as_ref().and_then(|id| id.parse::<OperationId>().ok());
        let ours = named.filter(|id| self.sent.iter().any(|command| command.id == *id));
        let is_named = metadata.command.is_some() || metadata.is_turn;
        self.talk.returns |= ours.is_some() || metadata.is_turn;
        // Some servers do not return what came with the wish.
        let may_be = !is_named && !self.talk.returns;
        let (command, is_ours) = match self.talk.asked {
            Some(Asked::Command(id)) if ours == Some(id) || may_be => (Some(id), true),
            Some(Asked::Turn) => (None, metadata.is_turn || may_be),
            // One that the provider began by itself.
            Some(Asked::Command(_)) | None => (None, false),
        };
        if let Some(id) = command {
            self.acknowledge(id, output);
        }
        if is_ours {
            self.talk.asked = None;
            self.talk.refusals = 0;
        }
        self.talk.retry_at = None;
        self.unread = false;
        output.news.push(LiveNews::ResponseBegan { response: response.clone(), command });
        self.talk.active = Some(Active {
            id: response,
            began: now,
            text: String::new(),
            spoken: false,
            heard_ms: None,
            heard_so_far: None,
        });
        if let Some(held) = self.talk.held.take() {
            output.news.push(busy(held.id));
        }
        if self.talk.is_due {
            // The caller spoke before it began.
            self.cancel(output);
        }
    }

    pub(super) fn model_said(&mut self, response: &str, text: &str, spoken: bool) {
        match &mut self.talk.active {
            Some(active) if active.id == response => {
                let room = TEXT_BYTES_MAX.saturating_sub(active.text.len());
                if !active.text.is_empty() && room > 0 && !text.is_empty() {
                    active.text.push(' ');
                }
                active.text.push_str(&text[..text.floor_char_boundary(room.saturating_sub(1))]);
                active.spoken |= spoken;
            }
            Some(_) | None => self.counts.stray += 1,
        }
    }

    /// The caller has heard this much of a response, and will hear no more of it.
    pub(crate) fn cut(&mut self, response: &str, heard_ms: u64, output: &mut Output) {
        if let Some(active) = self.talk.active.as_mut().filter(|active| active.id == response) {
            active.heard_ms = Some(heard_ms);
        } else if let Some(place) = self.talk.sounding.iter().position(|sounding| sounding == response) {
            // The words of later responses stand behind its own.
            self.settings.dialogue.cut(self.talk.sounding.len() - 1 - place);
            self.talk.sounding.remove(place);
            output.news.push(LiveNews::Cut { response: response.to_owned(), heard_ms });
        }
    }

    /// The caller will hear no more of what the live model says, or has said last: where the provider does not say of which response.
    pub(super) fn cut_last(&mut self, heard_ms: u64, output: &mut Output) {
        let active = self.talk.active.as_ref().map(|active| &active.id);
        if let Some(response) = active.or(self.talk.sounding.back()).cloned() {
            self.cut(&response, heard_ms, output);
        }
    }

    /// How much of the active response the caller has heard until now.
    pub(crate) fn note_heard(&mut self, heard_ms: u64) {
        if let Some(active) = &mut self.talk.active {
            active.heard_so_far = Some(heard_ms);
        }
    }

    /// The response that is active.
    pub(crate) fn active(&self) -> Option<&str> {
        self.talk.active.as_ref().map(|active| active.id.as_str())
    }

    /// Says whether the words of a response are reported as said, and it is not reported that they were played.
    pub(crate) fn is_sounding(&self, response: &str) -> bool {
        self.talk.sounding.iter().any(|sounding| sounding == response)
    }

    /// The caller has heard the last of a response.
    pub(crate) fn played(&mut self, response: String, output: &mut Output) {
        self.talk.sounding.retain(|sounding| *sounding != response);
        output.news.push(LiveNews::Played { response });
    }

    /// Says whether a response may still ask for tools. One whose beginning was missed begins now.
    pub(super) fn may_ask(&mut self, now: u64, response: &str, output: &mut Output) -> bool {
        if self.talk.is_active(response) || self.talk.ended.back().is_some_and(|last| last == response) {
            return true;
        }
        if self.talk.active.is_some()
            || response.is_empty()
            || self.talk.ended.iter().any(|id| id == response)
        {
            return false;
        }
        self.response_created(now, response.to_owned(), &Metadata::default(), output);
        true
    }

    pub(super) fn response_done(&mut self, now: u64, done: Done, output: &mut Output) {
        self.talk.retry_at = None;
        let Done { response, status, text, error, tokens } = done;
        match self.talk.active.take_if(|active| active.id == response) {
            Some(active) => {
                if let Some(tokens) = tokens.filter(|tokens| *tokens != LiveTokens::default()) {
                    self.count(response, tokens, output);
                }
                self.finish(now, active, status, text, output);
            }
            None => {
                self.counts.stray += 1;
                self.count_late(response, tokens, output);
            }
        }
        if let Some(error) = error.filter(|error| Meaning::of(error) == Meaning::Fatal) {
            let end = self.refused_for_good(now, &error);
            output.news.extend(end.news);
            output.close = true;
            return;
        }
        self.settle(now, output);
    }

    /// What a response took whose beginning this process has not seen, or of which it was cut off, in a session that outlives its
    /// sockets: it is paid for as well.
    fn count_late(&mut self, response: String, tokens: Option<LiveTokens>, output: &mut Output) {
        let Some(tokens) = tokens.filter(|tokens| *tokens != LiveTokens::default()) else { return };
        let is_known = self.talk.ended.contains(&response) || self.talk.counted.contains(&response);
        if !self.settings.outlives || is_known {
            return;
        }
        if self.talk.counted.len() >= ENDED_MAX {
            self.talk.counted.pop_front();
        }
        self.talk.counted.push_back(response.clone());
        self.count(response, tokens, output);
    }

    /// Tells what a response took, and what that cost.
    fn count(&self, response: String, tokens: LiveTokens, output: &mut Output) {
        let cost_nano_usd = self.settings.price.map(|price| price.nano_usd(&tokens));
        output.news.push(LiveNews::Counted { response, tokens: LiveTokens { cost_nano_usd, ..tokens } });
    }

    fn finish(&mut self, now: u64, active: Active, status: Status, text: String, output: &mut Output) {
        self.talk.cancelling = false;
        let heard = active.heard(now);
        let Active { id, text: said, spoken, heard_ms, .. } = active;
        let said = if said.is_empty() { text } else { said };
        let end = match status {
            Status::Completed => ResponseEnd::Completed,
            Status::Cancelled => ResponseEnd::Interrupted,
            Status::Failed => ResponseEnd::Failed,
        };
        // One that completed may have been cut off before: it is made faster than it is played.
        let is_cut = status != Status::Completed || heard_ms.is_some();
        let cut = is_cut.then_some(heard);
        tell(said, cut, &mut self.settings.dialogue, output);
        output.news.push(LiveNews::ResponseEnded { response: id.clone(), end });
        if status == Status::Completed && !spoken {
            self.played(id.clone(), output);
        } else if !is_cut {
            if self.talk.sounding.len() >= SOUNDING_MAX {
                self.talk.sounding.pop_front();
            }
            self.talk.sounding.push_back(id.clone());
        }
        self.talk.has_ended(id);
    }

    /// An error about a response that was asked for.
    pub(super) fn response_refused(&mut self, now: u64, error: &Error, output: &mut Output) {
        let meaning = Meaning::of(error);
        let Some(asked) = self.talk.asked.take() else { return };
        match (asked, meaning) {
            (_, Meaning::Fatal) => {
                let end = self.refused_for_good(now, error);
                output.news.extend(end.news);
                output.close = true;
            }
            (Asked::Command(id), Meaning::Busy) => {
                // It waits for the end of that response, or a while.
                if let Some(place) = self.sent.iter().position(|command| command.id == id) {
                    self.talk.held = Some(self.sent.remove(place));
                }
                self.talk.retry_at = Some(now + RETRY_MS);
            }
            (Asked::Command(id), _) => {
                self.sent.retain(|command| command.id != id);
                let (code, message) = (error.code().to_owned(), error.message());
                output.news.push(LiveNews::Refused { command: id, code, message });
                self.settle(now, output);
            }
            (Asked::Turn, meaning) => {
                if meaning != Meaning::Busy {
                    self.talk.refusals += 1;
                }
                if self.talk.refusals >= REFUSALS_MAX {
                    let reason = alloc::format!("no response: {}: {}", error.code(), error.message());
                    let end = self.end(now, EndedBy::Provider, &reason);
                    output.news.extend(end.news);
                    output.close = true;
                    return;
                }
                self.talk.is_due = true;
                self.talk.retry_at = Some(now + RETRY_MS);
            }
        }
    }

    /// Whether a response was asked for by this command, and has not begun.
    pub(super) fn was_asked_by(&self, id: OperationId) -> bool {
        self.talk.asked == Some(Asked::Command(id))
    }

    /// Whether some response was asked for and has not begun.
    pub(super) fn has_asked(&self) -> bool {
        self.talk.asked.is_some()
    }

    /// There was nothing to cancel: the response had ended, or had not begun.
    pub(super) fn nothing_to_cancel(&mut self, now: u64, output: &mut Output) {
        self.talk.cancelling = false;
        self.settle(now, output);
    }

    pub(super) fn refused_for_good(&mut self, now: u64, error: &Error) -> Output {
        let reason = match error.code() {
            // The message names the model.
            OWN_MODEL_FAILED => error.message(),
            code => alloc::format!("{code}: {}", error.message()),
        };
        self.end(now, EndedBy::Provider, &reason)
    }
}

/// A response that cannot be asked for now, since one is active. The core knows of that one.
fn busy(command: OperationId) -> LiveNews {
    let (code, message) = ("busy".to_owned(), "a response is active".to_owned());
    LiveNews::Refused { command, code, message }
}
