//! Commands of a call, as its provider takes, acknowledges and refuses them.

use alloc::borrow::ToOwned as _;
use alloc::string::ToString as _;
use alloc::vec::Vec;

use dalsegno_core::{CommandKind, LiveCommand, LiveNews, OperationId, ResponseEnd};

use super::{Backend, Check, DuplexSession, joined, remember, sent};
use crate::dialogue::Item;
use crate::failure::Meaning;
use crate::session::Output;
use crate::taken::Error;

/// Most bytes of what the live model is told at once: its provider takes 500 tokens.
const TOLD_BYTES: usize = 1_500;

/// How long until a response is asked for again that could not be, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// The code of a refusal because the other model has too much to read.
const BUFFER_FULL: &str = "response_input_buffer_full";

/// The code of a refusal because calls of the other model have no outputs.
const OUTPUTS_REQUIRED: &str = "function_call_outputs_required";

/// What stands for an output that was too large.
const TOO_LARGE: &str = "{\"error\":{\"code\":\"too_large\",\"message\":\"The result is there, and too large to be read here.\"}}";

/// What stands for the output of a call that was not heard here.
const UNHEARD: &str = "{\"error\":{\"code\":\"cancelled\",\"message\":\"The connection was interrupted: nothing was done. Ask again if it is still needed.\"}}";

/// What the live model is told when there is something that it was told silently.
const WHAT_IS_NEW: &str = "Tell the caller what is new for them, if there is anything.";

impl DuplexSession {
    /// Sends a command of the core to a live model whose work an agent does. All of it is words for the live model.
    pub(super) fn tell(&mut self, command: &LiveCommand, output: &mut Output) {
        let id = command.id.to_string();
        let frame = match &command.kind {
            CommandKind::Output { call_id, content } => sent::commentary(&id, Some(call_id), cut(content)),
            CommandKind::Note { text } => {
                self.untold = true;
                sent::thinking(&id, cut(text))
            }
            CommandKind::Respond { instructions: Some(told), .. } => sent::commentary(&id, None, cut(told)),
            CommandKind::Respond { instructions: None, .. } if core::mem::take(&mut self.untold) => {
                sent::commentary(&id, None, WHAT_IS_NEW)
            }
            // It has it all, and says it by itself.
            CommandKind::Respond { instructions: None, .. } => {
                self.sent.push(command.clone());
                return self.is_told(command.id, output);
            }
            CommandKind::Session { .. } | CommandKind::Answer { .. } | CommandKind::Close { .. } => return,
        };
        output.frames.push(frame);
        self.sent.push(command.clone());
    }

    /// Sends a command of the core.
    pub(super) fn transmit(&mut self, command: &LiveCommand, output: &mut Output) {
        let id = command.id.to_string();
        let is_of_session = matches!(command.kind, CommandKind::Session { .. });
        if matches!(self.backend, Backend::Agent { .. }) && !is_of_session {
            return self.tell(command, output);
        }
        match &command.kind {
            CommandKind::Output { call_id, content } => {
                output.frames.push(sent::output(&id, call_id, content));
            }
            CommandKind::Note { text } => output.frames.push(sent::note(&id, text)),
            CommandKind::Respond { instructions: Some(told), .. } => {
                output.frames.push(sent::commentary(&id, None, cut(told)));
            }
            CommandKind::Respond { instructions: None, .. } => {
                if !self.streams.is_empty() || self.asked.is_some() {
                    self.held = Some(command.clone());
                    return;
                }
                self.asked = Some(command.id);
                output.frames.push(sent::respond(&id));
            }
            // What the session is told of itself cannot change.
            CommandKind::Session { .. } => {
                output.news.push(LiveNews::Taken { command: command.id });
                return;
            }
            CommandKind::Answer { .. } | CommandKind::Close { .. } => return,
        }
        self.sent.push(command.clone());
        if is_item(&command.kind) {
            // No frame says that an item is there: what comes after it is acknowledged.
            self.check(Check::Has(command.id), output);
        }
    }

    pub(super) fn acknowledge(&mut self, id: OperationId, output: &mut Output) {
        let Some(place) = self.sent.iter().position(|command| command.id == id) else { return };
        match self.sent.remove(place).kind {
            CommandKind::Output { call_id, content } => {
                self.settings.dialogue.push(Item::Output { call_id, content });
            }
            CommandKind::Note { text } => self.settings.dialogue.push(Item::Note(text)),
            CommandKind::Session { .. }
            | CommandKind::Answer { .. }
            | CommandKind::Respond { .. }
            | CommandKind::Close { .. } => {}
        }
        remember(&mut self.acknowledged, id);
        output.news.push(LiveNews::Taken { command: id });
    }

    /// Something that was sent is in.
    pub(super) fn accepted(&mut self, now: u64, about: Option<&str>, output: &mut Output) {
        let named = about.and_then(|about| about.parse::<OperationId>().ok());
        let sent = named.and_then(|id| self.sent.iter().find(|command| command.id == id));
        if let Some(LiveCommand { id, kind }) = sent.cloned() {
            match is_item(&kind) {
                true => self.acknowledge(id, output),
                false => self.is_told(id, output),
            }
            return;
        }
        // Some servers do not name what they acknowledge: they do so in order.
        let place = match about {
            Some(about) => self.checks.iter().position(|(id, _)| id == about),
            None => (!self.checks.is_empty()).then_some(0),
        };
        let Some((_, check)) = place.and_then(|place| self.checks.remove(place)) else {
            self.counts.stray += 1;
            return;
        };
        match check {
            Check::There => self.open(now, output),
            Check::Has(id) => self.acknowledge(id, output),
            Check::Probe => self.probed = None,
        }
    }

    /// The live model is to say something, and says it when it will: for the call that is a response.
    pub(super) fn is_told(&mut self, id: OperationId, output: &mut Output) {
        self.acknowledge(id, output);
        if !self.streams.is_empty() {
            // For the call one response is under way at a time.
            self.told.push(id);
            return;
        }
        let response = alloc::format!("told-{id}");
        output.news.push(LiveNews::ResponseBegan { response: response.clone(), command: Some(id) });
        self.finish(response, ResponseEnd::Completed, output);
    }

    pub(super) fn error(&mut self, error: &Error, output: &mut Output) {
        let about = error.event_id.as_deref().unwrap_or_default();
        let command = about.parse::<OperationId>().ok();
        let command = command.filter(|id| self.sent.iter().any(|one| one.id == *id));
        let check = self.checks.iter().position(|(id, _)| id == about);
        let meaning = Meaning::of(error);
        if meaning != Meaning::Fatal && self.key_refused(about, &error.message(), output) {
            return;
        }
        match (meaning, command) {
            (Meaning::Fatal, _) => *output = joined(output, self.refused_for_good(error)),
            (Meaning::Known, Some(id)) => self.acknowledge(id, output),
            (_, Some(id)) if error.code() == BUFFER_FULL && self.shorten(id, output) => {}
            (_, Some(id))
                if error.code() == OUTPUTS_REQUIRED && self.answer_unknown(id, &error.message(), output) => {}
            (meaning, Some(id)) => {
                let place = self.sent.iter().position(|command| command.id == id);
                let refused = place.map(|place| self.sent.remove(place));
                self.checks.retain(|(_, check)| *check != Check::Has(id));
                let was_asked = self.asked.take_if(|asked| *asked == id).is_some();
                if meaning == Meaning::Busy && was_asked {
                    // It waits for the end of a response whose beginning was not seen here, or a while.
                    self.held = refused;
                    self.retry_at = Some(self.heard_at.saturating_add(RETRY_MS));
                    return;
                }
                let (code, message) = (error.code().to_owned(), error.message());
                output.news.push(LiveNews::Refused { command: id, code, message });
            }
            // It is there, which was the question.
            (_, None) if check.is_some() => {
                let check = check.and_then(|place| self.checks.remove(place));
                match check.map(|(_, check)| check) {
                    Some(Check::There) => *output = joined(output, self.refused_for_good(error)),
                    Some(Check::Has(id)) => self.acknowledge(id, output),
                    Some(Check::Probe) => self.probed = None,
                    None => {}
                }
            }
            (_, None) => self.counts.errors += 1,
        }
    }

    /// Sends a short output in the place of one that was too large, once; whether it did.
    pub(super) fn shorten(&mut self, id: OperationId, output: &mut Output) -> bool {
        let sent = self.sent.iter().find(|command| command.id == id);
        let Some(CommandKind::Output { call_id, .. }) = sent.map(|command| &command.kind) else {
            return false;
        };
        if self.shortened.contains(&id) {
            return false;
        }
        output.frames.push(sent::output(&id.to_string(), call_id, TOO_LARGE));
        self.checks.retain(|(_, check)| *check != Check::Has(id));
        self.check(Check::Has(id), output);
        remember(&mut self.shortened, id);
        true
    }

    /// The other model waits for outputs of calls that it asked for while no process listened. They are answered, and the response is asked for
    /// again; whether there are any.
    pub(super) fn answer_unknown(&mut self, id: OperationId, message: &str, output: &mut Output) -> bool {
        let words = message.split(|one: char| !one.is_ascii_alphanumeric() && one != '_' && one != '-');
        let unknown: Vec<&str> = words
            .filter(|word| word.starts_with("call_") && !self.calls.iter().any(|known| known == word))
            .collect();
        for call_id in &unknown {
            self.own += 1;
            output.frames.push(sent::output(&alloc::format!("gap{}", self.own), call_id, UNHEARD));
            remember(&mut self.calls, (*call_id).to_owned());
        }
        if !unknown.is_empty() {
            output.frames.push(sent::respond(&id.to_string()));
        }
        !unknown.is_empty()
    }
}

/// As much as the live model can be told at once.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TOLD_BYTES)]
}

/// Says whether a command becomes an item that the model reads which works with the tools.
const fn is_item(kind: &CommandKind) -> bool {
    matches!(kind, CommandKind::Output { .. } | CommandKind::Note { .. })
}
