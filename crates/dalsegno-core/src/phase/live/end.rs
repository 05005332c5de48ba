//! The end of a call: what is not waited for, what is, and the end of its run.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Room, error};
use crate::config::{AfterHangup, Mind, ModelMind};
use crate::event::FailureCode;
use crate::failure::HUNG_UP;
use crate::id::OperationId;
use crate::live::{CommandKind, EndedBy, LiveTokens, Over, Stage, Surface, Waits};
use crate::phase::{Stop, budget, think};
use crate::response::{RunError, RunErrorCode, Status};

/// An error that ends a run: its code, what was wrong, and what to do.
pub(super) type Why = (RunErrorCode, String, &'static str);

impl Room<'_> {
    /// The agent ends the call; the session is asked to.
    pub(super) fn close(&mut self, reason: &str, why: Option<Why>) {
        self.close_with(reason, why.map(error));
    }

    /// The agent ends the call; its run fails with this error, if there is one.
    pub(super) fn close_with(&mut self, reason: &str, error: Option<RunError>) {
        if self.live.closing.is_some() || self.live.over.is_some() {
            return;
        }
        self.emit(CommandKind::Close { reason: reason.into() });
        self.live.transfer = None;
        self.live.closing = Some(Over { at: self.at, by: EndedBy::Agent, reason: reason.into(), error });
    }

    /// A response has taken this much. A limit of tokens or cost that is reached ends the call; where the agent's own model speaks, so does
    /// one that leaves no room for its next reply.
    pub(super) fn counted(&mut self, tokens: &LiveTokens) {
        let Mind::Model(mind) = &self.config.mind else { return };
        let is_own = self.state.request.surface == Some(Surface::Model);
        let (usage, _) = self.config.usage_of_response(&self.state.request, tokens);
        self.state.usage.add(&usage);
        self.look_at_limits(mind, is_own);
    }

    /// The session has lasted this long, which costs something where it is billed by time.
    pub(super) fn lasted(&mut self, millis: u64, cost_nano_usd: Option<u64>) {
        let Mind::Model(mind) = &self.config.mind else { return };
        self.live.lasted_ms = self.live.lasted_ms.max(millis);
        let cost = cost_nano_usd.unwrap_or_default();
        self.state.usage.cost_nano_usd = self.state.usage.cost_nano_usd.saturating_add(cost);
        self.look_at_limits(mind, false);
    }

    fn look_at_limits(&mut self, mind: &ModelMind, is_own: bool) {
        let error = match budget::overrun(self.config, &self.state) {
            Some(limit) => {
                let message = budget::beyond(self.config, &self.state, limit);
                Some(error((RunErrorCode::LimitExceeded, message, think::RAISE_THE_LIMIT)))
            }
            None if is_own => think::has_room(self.config, mind, &self.state).err().map(|stop| stop.error),
            None => None,
        };
        if error.is_some() {
            self.close_with("a limit is reached", error);
        }
    }

    /// The session was asked to end, and has not said that it did.
    pub(super) fn over_without_word(&mut self) {
        if let Some(closing) = self.live.closing.take() {
            self.is_over(closing);
        }
    }

    /// The call is over.
    pub(super) fn ended(&mut self, by: EndedBy, reason: String) {
        let own = self.live.closing.take().and_then(|closing| closing.error);
        let error = own.or_else(|| {
            let broken = by == EndedBy::Provider;
            broken.then(|| {
                let message = alloc::format!("the call was broken off: {reason}");
                error((
                    RunErrorCode::ModelFailed,
                    message,
                    "call again, or look at the provider of the live model",
                ))
            })
        });
        self.is_over(Over { at: self.at, by, reason, error });
    }

    /// What is unstarted never starts, what only reads is not waited for, what waits for a person is denied unless the agent's
    /// file keeps it. What was sent has its outcome recorded.
    fn is_over(&mut self, over: Over) {
        self.live.outbox.clear();
        self.live.digits = None;
        self.live.hangs_up = None;
        self.live.over = Some(over);
        let mut ends: Vec<(OperationId, FailureCode)> = Vec::new();
        let is_denied = self.voice.after_hangup == AfterHangup::Deny;
        for pending in self.join.operations.iter().filter(|pending| pending.outcome.is_none()) {
            let id = pending.operation.id;
            match self.live.gate_of(pending) {
                Some(Waits { in_doubt: true }) => {}
                Some(Waits { in_doubt: false }) if is_denied => ends.push((id, FailureCode::Denied)),
                Some(Waits { .. }) => {}
                None if self.live.work_of(id).is_some_and(|work| work.reads) => {
                    ends.push((id, FailureCode::Cancelled));
                }
                None => {}
            }
        }
        let ended: Vec<OperationId> = ends.iter().map(|(id, _)| *id).collect();
        let gone: Vec<u32> = self
            .live
            .works
            .iter()
            .filter(|work| match work.stage {
                Stage::Held { .. } => true,
                Stage::Started(id) => ended.contains(&id),
                Stage::Done { .. } => false,
            })
            .map(|work| work.number)
            .collect();
        for (id, code) in ends {
            self.withdraw(id, code, HUNG_UP);
        }
        self.live.works.retain(|work| !gone.contains(&work.number));
        self.live.calls.retain(|call| !gone.contains(&call.work));
    }

    /// The end of the run, once the call is over and nothing is under way.
    pub(super) fn finish(&mut self) -> Option<Result<(), Stop>> {
        let over = self.live.over.as_ref()?;
        let is_under_way = self.join.operations.iter().any(|pending| pending.outcome.is_none());
        // What the core concludes is recorded before the end is.
        if is_under_way || !self.live.arrivals.is_empty() || !self.join.operations.is_empty() {
            return None;
        }
        Some(match &over.error {
            Some(error) => Err(Stop { status: Status::Failed, error: error.clone() }),
            None => Ok(()),
        })
    }
}
