//! The live model hangs up: once its last words were played, and unless the caller speaks before. Or it transfers the call.

use alloc::vec::Vec;

use super::Room;
use super::talk::after;
use crate::event::{FailureCode, Outcome};
use crate::id::{OperationId, Timestamp};
use crate::live::{HangsUp, Live, ResponseEnd, Surface};
use crate::operation::Request;
use crate::phase::admit::Refusal;
use crate::reply::CallRequest;
use crate::state::Decision;

/// How long the last words are waited for at most.
const PLAYED_MS: u64 = 10_000;

impl Live {
    /// When the call ends at the latest, since the live model hangs up.
    pub(super) fn hangs_up_at(&self) -> Option<Timestamp> {
        self.hangs_up.as_ref()?.since.map(|since| after(since, PLAYED_MS))
    }
}

impl Room<'_> {
    /// Says whether what the live model says is played to the caller after it was said: its provider tells when that has ended.
    pub(super) fn plays(&self) -> bool {
        self.state.request.surface.is_some_and(Surface::outlives_its_process)
    }

    /// The model asks for the end of the call. It gets no output, unless the call continues.
    pub(super) fn hang_up(&mut self, response: &str, call: CallRequest) {
        if self.live.transfer.is_some() || self.join.transfers() {
            let message = "the call is being transferred: it ends by itself";
            return self.refuse(&call, Refusal::new("not_permitted", message));
        }
        if self.live.hangs_up.is_some() {
            return self.refuse(&call, Refusal::new("overloaded", "the call ends already"));
        }
        self.state.decide(Decision::CallTools { names: Vec::from([call.name.clone()]) });
        let ended = self.live.talk.ended.as_ref().filter(|(ended, _)| ended == response);
        let end = ended.map(|(_, end)| *end);
        let CallRequest { call_id, name, arguments, validation: _ } = call;
        self.live.hangs_up =
            Some(HangsUp { call_id, name, arguments, response: response.into(), since: None, said: false });
        match end {
            Some(ResponseEnd::Completed) => self.goodbye(response),
            Some(ResponseEnd::Interrupted | ResponseEnd::Failed) => self.broken_off(response),
            None => {}
        }
    }

    /// A part of a tool has its outcome. If it is a transfer that may have been heard, the call is on its way.
    pub(super) fn look_at_transfer(&mut self, id: OperationId) {
        let pending = self.join.operations.iter().find(|pending| pending.operation.id == id);
        let target = pending.and_then(|pending| {
            let is_heard = match &pending.outcome {
                Some(Outcome::Failed(failure)) => failure.code == FailureCode::Indeterminate,
                Some(_) => true,
                None => false,
            };
            match &pending.operation.request {
                Request::Transfer(transfer) if is_heard => Some(transfer.target.clone()),
                _ => None,
            }
        });
        if target.is_some() {
            self.stay("the call is being transferred: it ends by itself");
            self.live.transfer = Some(self.at);
            self.live.transfer_to = target;
        }
    }

    /// A response has completed: if it hangs up, all of it was said.
    pub(super) fn goodbye(&mut self, response: &str) {
        let at = self.at;
        if let Some(hangs_up) = self.live.hangs_up.as_mut().filter(|hangs_up| hangs_up.response == response) {
            hangs_up.since.get_or_insert(at);
        }
    }

    /// The call continues, although the model asked for its end.
    pub(super) fn stay(&mut self, why: &str) {
        if self.live.closing.is_some() {
            return;
        }
        if let Some(HangsUp { call_id, name, arguments, .. }) = self.live.hangs_up.take() {
            self.output(&call_id, &name, &arguments, Refusal::new("cancelled", why).into_settled());
        }
    }

    /// Ends the call if the model hangs up and the caller has heard it to the end.
    pub(super) fn look_at_hanging_up(&mut self) {
        let Some(at_latest) = self.live.hangs_up_at().filter(|_| !self.join.transfers()) else { return };
        // One that hears while it speaks says its last words after the response that hangs up.
        let is_due = self.live.duplex && self.live.hangs_up.as_ref().is_some_and(|hangs_up| !hangs_up.said);
        let speaks = is_due || self.live.talk.active.is_some() || self.live.talk.sounding.is_some();
        if !speaks || at_latest <= self.at {
            self.close("the agent hung up", None);
        }
    }
}
