//! What follows from each frame of the provider.

use alloc::borrow::ToOwned as _;
use alloc::string::String;

use dalsegno_core::{CallRequest, CommandKind, LiveNews, OperationId};

use super::{EARLY_MAX, LiveSession, Output, RESTORED, Update};
use crate::dialogue::Item;
use crate::failure::Meaning;
use crate::taken::{Call, Error, Taken};

/// How many calls are remembered.
const CALLS_MAX: usize = 256;

/// What the caller said where the provider did not understand it.
const INAUDIBLE: &str = "[inaudible]";

impl LiveSession {
    /// Says whether a frame is kept until a session that was there before has answered.
    pub(super) fn keeps_early(&self, taken: &Taken) -> bool {
        self.settings.outlives && taken.is_of_a_call() && self.early.len() < EARLY_MAX
    }

    /// A change of the session is acknowledged.
    pub(super) fn updated(&mut self, now: u64, output: &mut Output) {
        match self.updates.pop_front() {
            Some(Update::Command(id)) => self.acknowledge(id, output),
            Some(Update::Restored) => {
                self.is_set_up = true;
                self.open(now, output);
            }
            Some(Update::Probe) => self.probed = None,
            None => self.counts.stray += 1,
        }
    }

    pub(super) fn take(&mut self, now: u64, taken: Taken, output: &mut Output) {
        match taken {
            Taken::ItemAdded { id, output_of, is_note } => {
                if let Some(command) = self.added(&id, output_of.as_deref(), is_note) {
                    self.acknowledge(command, output);
                }
            }
            Taken::ItemDeleted { id } => {
                if let Some(place) = self.calls.iter().position(|(item, _)| *item == id)
                    && let Some((_, call_id)) = self.calls.remove(place)
                {
                    self.open.remove(&call_id);
                    self.settings.dialogue.withdraw(&call_id);
                    output.news.push(LiveNews::Withdrawn { call_id });
                }
            }
            // What passes through here was cut here.
            Taken::Truncated { heard_ms } if !self.settings.sound => self.cut_last(heard_ms, output),
            Taken::Truncated { .. } => {}
            Taken::Transcribed(text) => {
                let text = text.unwrap_or_else(|| INAUDIBLE.to_owned());
                self.settings.dialogue.push(Item::Caller(text.clone()));
                output.news.push(LiveNews::Heard { text });
            }
            Taken::SpeechStarted => output.news.push(LiveNews::SpeechStarted),
            Taken::SpeechStopped => output.news.push(LiveNews::SpeechStopped),
            Taken::Digits(digits) => {
                output.news.extend(digits.chars().take(64).map(|digit| LiveNews::Digit { digit }));
            }
            Taken::ResponseCreated { response, metadata } => {
                self.response_created(now, response, &metadata, output);
            }
            Taken::Called { response, item, call } => self.called(now, response, item, call, output),
            Taken::Said { response, text, spoken } => {
                // Of a session that was there before, the beginning may have been missed.
                let is_known = !self.settings.outlives || self.may_ask(now, &response, output);
                self.model_said(if is_known { &response } else { "" }, &text, spoken);
            }
            Taken::ResponseDone(done) => self.response_done(now, done, output),
            Taken::Stopped { response } => self.played(response, output),
            Taken::SessionCreated
            | Taken::SessionUpdated
            | Taken::Error(_)
            | Taken::Nothing
            | Taken::Part
            | Taken::Unknown
            | Taken::Garbage => {}
        }
    }

    /// The command that put an item into the conversation. Some servers give items ids of their own: then it is found by what it is.
    fn added(&self, id: &str, output_of: Option<&str>, is_note: bool) -> Option<OperationId> {
        let named = id.parse::<OperationId>().ok();
        let is_its = |kind: &CommandKind| match kind {
            CommandKind::Output { call_id, .. } => output_of == Some(call_id),
            CommandKind::Note { .. } => is_note,
            CommandKind::Session { .. }
            | CommandKind::Answer { .. }
            | CommandKind::Respond { .. }
            | CommandKind::Close { .. } => false,
        };
        let mut sent = self.sent.iter().filter(|command| is_its(&command.kind));
        let by_name = sent.clone().find(|command| Some(command.id) == named);
        by_name.or_else(|| sent.next()).map(|command| command.id)
    }

    /// The live model asks for a tool.
    fn called(&mut self, now: u64, response: String, item: String, call: Call, output: &mut Output) {
        let Call { call_id, name, arguments } = call;
        let is_known = self.calls.iter().any(|(_, known)| *known == call_id);
        if is_known || !self.may_ask(now, &response, output) {
            self.counts.stray += 1;
            return;
        }
        if self.calls.len() >= CALLS_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back((item, call_id.clone()));
        if self.open.len() < CALLS_MAX {
            self.open.insert(call_id.clone());
        }
        let said = Item::Call { call_id: call_id.clone(), name: name.clone(), arguments: arguments.clone() };
        self.settings.dialogue.push(said);
        let call = CallRequest { call_id, name, arguments, validation: None };
        output.news.push(LiveNews::Asked { response, call });
    }

    pub(super) fn error(&mut self, now: u64, error: &Error, output: &mut Output) {
        let about = error.event_id.as_deref().unwrap_or_default();
        let command = about.parse::<OperationId>().ok();
        let command = command.filter(|id| self.sent.iter().any(|one| one.id == *id));
        let meaning = Meaning::of(error);
        match (meaning, command) {
            (Meaning::Fatal, _) => *output = self.refused_for_good(now, error),
            (_, Some(id)) if self.was_asked_by(id) => self.response_refused(now, error, output),
            (Meaning::Known, Some(id)) => self.acknowledge(id, output),
            (_, Some(command)) => {
                self.forget(command);
                self.updates.retain(|update| *update != Update::Command(command));
                let (code, message) = (error.code().to_owned(), error.message());
                output.news.push(LiveNews::Refused { command, code, message });
            }
            (_, None) if about.starts_with("turn") => self.response_refused(now, error, output),
            (Meaning::Busy, None) if about.is_empty() && self.has_asked() => {
                self.response_refused(now, error, output);
            }
            (Meaning::NothingToCancel, None) => self.nothing_to_cancel(now, output),
            (_, None) if about.starts_with("cancel") => self.nothing_to_cancel(now, output),
            (_, None) if about.starts_with("probe") => {
                // It is there, which was the question.
                self.probed = None;
                self.updates.retain(|update| *update != Update::Probe);
            }
            (_, None) if about == RESTORED => *output = self.refused_for_good(now, error),
            (_, None) => self.counts.errors += 1,
        }
    }
}
