//! A person pauses the run: what is under way finishes, and nothing new starts until a person continues it.
//!
//! The wish stays in the inbox until the journal says that the run stands still: a process that dies in between leaves it to the
//! one after it.

use dalsegno_core::{OperationId, Request};
use dalsegno_history::{Pause, child_run};
use dalsegno_store::{Body, Message, NewRecord};

use super::Driver;
use crate::error::RunFailure;
use crate::run::handle::Stop;

/// Whether the run is to stand still.
#[derive(Default)]
pub(super) enum Standstill {
    /// It is not.
    #[default]
    None,
    /// A person wants it, by the message with this number.
    Wanted { message: u64, pause: Pause },
    /// The journal says so.
    Written(Pause),
}

impl Standstill {
    pub(super) const fn is_wanted(&self) -> bool {
        matches!(self, Self::Wanted { .. })
    }

    /// Says whether nothing new may start.
    pub(super) const fn holds(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Who paused the run, once the journal says so.
    pub(super) const fn written(&self) -> Option<&Pause> {
        match self {
            Self::Written(pause) => Some(pause),
            Self::None | Self::Wanted { .. } => None,
        }
    }
}

impl Driver {
    /// Has the run paused before anything of it starts, if that is what its inbox says.
    pub(crate) fn foresee_pause(&mut self, messages: &[(u64, Message)]) -> Result<(), RunFailure> {
        if self.standstill.holds() {
            return Ok(());
        }
        self.take_words(&mut messages.to_vec())
    }

    /// Takes the messages out of these by which the run is paused or continues. The last one counts.
    pub(super) fn take_words(&mut self, messages: &mut Vec<(u64, Message)>) -> Result<(), RunFailure> {
        let is_word = |(_, message): &mut (u64, Message)| {
            matches!(message, Message::Pause { .. } | Message::Continue { .. })
        };
        let mut words: Vec<(u64, Message)> = messages.extract_if(.., is_word).collect();
        let Some((number, last)) = words.pop() else { return Ok(()) };
        let is_leaving = *self.stop.borrow() != Stop::Go || self.trouble.is_some();
        match (&self.standstill, last) {
            // It is too late for both.
            _ if self.ended.is_some() => self.mailbox.consumed.push(number),
            // What is under way finishes first. They stay in the inbox until then, or for the process that takes the run over.
            (Standstill::Wanted { .. }, _) => return Ok(()),
            (Standstill::None, Message::Pause { .. }) if is_leaving => return Ok(()),
            // The caller of a call would hear nothing: whoever wants an end of it hangs up.
            (Standstill::None, Message::Pause { by, reason }) if !self.has_open_call() => {
                self.standstill = Standstill::Wanted { message: number, pause: Pause { by, reason } };
                self.stopping = true;
            }
            (Standstill::Written(_), Message::Continue { by }) => {
                self.mailbox.consumed.push(number);
                self.go_on_after_pause(is_leaving, by)?;
            }
            (Standstill::None | Standstill::Written(_), _) => self.mailbox.consumed.push(number),
        }
        self.mailbox.consumed.extend(words.into_iter().map(|(number, _)| number));
        Ok(())
    }

    fn go_on_after_pause(&mut self, is_leaving: bool, mut by: Option<String>) -> Result<(), RunFailure> {
        self.standstill = Standstill::None;
        self.stopping = is_leaving;
        by.iter_mut().for_each(|by| self.context.bindings.secrets().text(by));
        let at = self.now();
        self.machine.pass_time(at);
        self.outbox.push(NewRecord::new(at, Body::Continued { by: by.clone() }));
        self.word_below = Some(Message::Continue { by });
        self.take_up()
    }

    /// The process leaves the run: the wish for a pause stays in the inbox for the one that takes the run over.
    pub(super) fn leave_pause(&mut self) {
        if self.standstill.is_wanted() {
            self.standstill = Standstill::None;
        }
    }

    /// The next commit says that the run stands still.
    pub(super) fn write_pause(&mut self) {
        if let Standstill::Wanted { message, pause } = &self.standstill {
            self.mailbox.consumed.push(*message);
            self.standstill = Standstill::Written(pause.clone());
        }
    }

    /// Tells the child runs what the run was told: before the journal of the run says that it was done, so that no process that dies
    /// in between leaves one of them behind. One that has just begun may not be there yet, and is told at the next look.
    pub(super) async fn tell_below(&mut self) {
        let word = match &self.standstill {
            Standstill::Wanted { pause, .. } if std::mem::take(&mut self.pauses_below) => {
                Some(Message::Pause { by: pause.by.clone(), reason: pause.reason.clone() })
            }
            _ => self.word_below.take(),
        };
        let Some(word) = word else { return };
        let calls = self.missing().filter(|operation| matches!(operation.request, Request::AgentCall(_)));
        let begun = |id: &OperationId| self.progress.get(id).is_some_and(|progress| progress.started);
        let children: Vec<OperationId> = calls.map(|operation| operation.id).filter(begun).collect();
        for operation in children {
            self.context.runs.pass_word(child_run(operation), &word).await;
        }
    }
}
