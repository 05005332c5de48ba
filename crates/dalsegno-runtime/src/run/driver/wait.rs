//! What a run waits for: people, times, child runs; and what happens when nobody answers, or somebody gives an operation up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{
    Answer, Failure, FailureCode, Gate, GateState, OperationId, Outcome, Request, Timestamp,
};
use dalsegno_history::{WaitingOperation, child_run, waiting};

use super::inbox::Ending;
use super::running::Running;
use super::{Driver, HOLD, Input};
use crate::effects::policy::is_free;
use crate::error::RunFailure;
use crate::run::expiry::expiry;

/// Who answers when no person does.
const NOBODY: &str = "dalsegno";

impl Driver {
    pub(super) fn waiting(&self) -> Vec<WaitingOperation> {
        let own = waiting(self.context.run, self.machine.state());
        let below = self.flights.suspended().flat_map(|(_, paused)| paused.waiting.iter().cloned());
        own.into_iter().chain(below).collect()
    }

    /// The first time at which something goes on by itself.
    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        let timers = self.missing().filter_map(|operation| Some(operation.request.as_timer()?.until));
        let paused = self.flights.suspended().filter_map(|(_, paused)| paused.wake_at);
        let later = self.flights.later().map(|(_, at)| at);
        timers.chain(paused).chain(later).chain(self.expiries().map(|(_, at)| at)).min()
    }

    /// When the first question without an answer is answered with a no.
    pub(super) fn answer_by(&self) -> Option<Timestamp> {
        let paused = self.flights.suspended().filter_map(|(_, paused)| paused.answer_by);
        paused.chain(self.expiries().map(|(_, at)| at)).min()
    }

    /// Takes up what comes soon, so that the run is not suspended for a moment; says whether there is something.
    pub(super) fn wake(&mut self) -> bool {
        let soon = self.now().as_millis().saturating_add(u64::try_from(HOLD.as_millis()).unwrap_or(u64::MAX));
        let soon = |at: Timestamp| at.as_millis() <= soon;
        let timers = self.missing().filter_map(|operation| match &operation.request {
            Request::Timer(timer) if soon(timer.until) => Some(operation.id),
            _ => None,
        });
        let mut due: Vec<OperationId> = timers.collect();
        let children = self.flights.suspended().filter(|(_, paused)| paused.wake_at.is_some_and(soon));
        due.extend(children.map(|(id, _)| id));
        for id in &due {
            let attempt = self.progress.get(id).map_or(1, |progress| progress.attempts.max(1));
            self.flights.start(*id, attempt, None);
        }
        let later: Vec<(OperationId, Timestamp)> = self.flights.later().filter(|(_, at)| soon(*at)).collect();
        for (id, at) in &later {
            let attempt = self.progress.get(id).map_or(1, |progress| progress.attempts.max(1));
            self.flights.start_at(*id, attempt, *at);
        }
        !due.is_empty() || !later.is_empty()
    }

    /// When the questions that people may leave unanswered are answered with a no. A clock that jumps forward while this
    /// process lives takes nothing from the time to answer.
    fn expiries(&self) -> impl Iterator<Item = (OperationId, Timestamp)> {
        let limit = self.context.grant.answer_timeout_ms(self.context.config.limits.answer_timeout_ms);
        self.missing().filter_map(move |operation| {
            let progress = self.progress.get(&operation.id)?;
            Some((operation.id, expiry(&self.context.ports, limit, operation, progress)?))
        })
    }

    /// Answers the questions whose time to be answered is over, unless the run stands still.
    pub(super) fn expire(&mut self) -> Result<(), RunFailure> {
        if self.standstill.holds() {
            return Ok(());
        }
        let now = self.now();
        let expired: Vec<OperationId> =
            self.expiries().filter(|(_, at)| *at <= now).map(|(operation, _)| operation).collect();
        let limit = self
            .context
            .grant
            .answer_timeout_ms(self.context.config.limits.answer_timeout_ms)
            .unwrap_or_default();
        let limit =
            if limit.is_multiple_of(1_000) { format!("{} s", limit / 1_000) } else { format!("{limit} ms") };
        for operation in expired {
            let reason = Some(format!("no answer within {limit}"));
            self.answer(operation, Answer::Denied { reason, by: Some(NOBODY.to_owned()) })?;
        }
        Ok(())
    }

    /// Lets operations go on whose secret is there now.
    pub(super) async fn look_for_secrets(&mut self) -> Result<(), RunFailure> {
        let waiting = self.missing().filter_map(|operation| match &operation.gate {
            GateState::Waiting(Gate::Secret { name }) => Some((operation.id, name.clone())),
            _ => None,
        });
        for (operation, name) in waiting.collect::<Vec<_>>() {
            // Trouble with the store is told by the attempt that needs the secret.
            if self.context.bindings.vault().is_stored(&name).await {
                let reason = Some("the secret is there".to_owned());
                let answer = Answer::Approved { edited: None, reason, by: Some(NOBODY.to_owned()) };
                self.answer(operation, answer)?;
            }
        }
        Ok(())
    }

    /// Takes up a child run again that nobody performs here, to see how it stands.
    pub(super) fn look_at_child(&mut self, operation: OperationId, attempt: u32) {
        let is_here = self.running.has(operation) || self.flights.is_starting(operation);
        // When a run continues that stands still, it looks at them all.
        if self.ended.is_none() && !self.standstill.holds() && !is_here && self.is_missing(operation) {
            self.flights.start(operation, attempt.max(1), None);
        }
    }

    /// Takes up all child runs again that are suspended. One that is under way here may be about to say that it is
    /// suspended, as it was before the news: it is looked at again then.
    pub(super) fn look_at_children(&mut self) {
        let children = self.missing().filter(|operation| matches!(operation.request, Request::AgentCall(_)));
        let under_way = children.map(|operation| operation.id).filter(|id| self.running.has(*id)).collect();
        self.flights.note_news(under_way);
        let suspended: Vec<OperationId> = self.flights.suspended().map(|(operation, _)| operation).collect();
        for operation in suspended {
            let attempt = self.progress.get(&operation).map_or(1, |progress| progress.attempts);
            self.look_at_child(operation, attempt);
        }
    }

    /// Takes an answer that another process passed on. One that comes too late is dropped: somebody else was faster.
    pub(super) fn take_answer(
        &mut self,
        operation: OperationId,
        attempts: u32,
        answer: Answer,
    ) -> Result<(), RunFailure> {
        let gate = self.missing().find(|missing| missing.id == operation).map(|missing| &missing.gate);
        let fits = match (gate, &answer) {
            (
                Some(GateState::Waiting(Gate::Approval | Gate::Secret { .. })),
                Answer::Approved { .. } | Answer::Denied { .. },
            )
            | (Some(GateState::Waiting(Gate::Input)), Answer::Given { .. } | Answer::Denied { .. })
            | (
                Some(GateState::Waiting(Gate::Elicitation { .. })),
                Answer::Supplied { .. } | Answer::Denied { .. },
            )
            | (
                Some(GateState::Waiting(Gate::InDoubt { .. })),
                Answer::Done { .. } | Answer::NotDone { .. },
            ) => true,
            (
                Some(GateState::Waiting(_) | GateState::Open | GateState::Answered) | None,
                Answer::Approved { .. }
                | Answer::Denied { .. }
                | Answer::Given { .. }
                | Answer::Supplied { .. }
                | Answer::Done { .. }
                | Answer::NotDone { .. },
            ) => false,
        };
        // What was in doubt after one attempt says nothing of a later one.
        let same = self.progress.get(&operation).is_some_and(|progress| progress.attempts == attempts);
        if !(fits && same) {
            tracing::info!(run = %self.context.run, %operation, "an answer came too late");
            return Ok(());
        }
        self.answer(operation, answer)
    }

    /// Gives operations up for somebody: questions are answered with a no, child runs are ended, and what has not
    /// started or may be repeated gets no outcome but this. An effect that may not be repeated and has started
    /// finishes, and its outcome is kept. Returns the operations that get their outcome later.
    pub(super) fn give_up_operations(
        &mut self,
        operations: &[OperationId],
        by: Option<&String>,
        reason: Option<&String>,
    ) -> Result<BTreeSet<OperationId>, RunFailure> {
        let parts = self.parts(operations);
        let words = reason.map_or(String::new(), |reason| format!(": {reason}"));
        let words = format!("it was given up{words}");
        let mut later = BTreeSet::new();
        for id in &parts {
            let Some(operation) = self.missing().find(|operation| operation.id == *id) else { continue };
            let operation = operation.clone();
            let progress = self.progress.get(id).copied().unwrap_or_default();
            match (&operation.gate, &operation.request) {
                (
                    GateState::Waiting(
                        Gate::Approval | Gate::Input | Gate::Secret { .. } | Gate::Elicitation { .. },
                    ),
                    _,
                ) => {
                    let reason = Some(reason.cloned().unwrap_or_else(|| "it was given up".to_owned()));
                    self.answer(*id, Answer::Denied { reason, by: by.cloned() })?;
                }
                (GateState::Waiting(Gate::InDoubt { .. }), _) => {}
                (GateState::Open | GateState::Answered, Request::AgentCall(_)) if progress.started => {
                    // It must not be started while it is being ended.
                    self.flights.hold(*id);
                    let ending = Ending { by: by.cloned(), reason: reason.cloned(), words: words.clone() };
                    self.end_child(*id, progress.attempts, ending, Duration::ZERO);
                    later.insert(*id);
                }
                (GateState::Open | GateState::Answered, _) if self.give_up_task(*id, &words) => {
                    later.insert(*id);
                }
                (GateState::Open | GateState::Answered, _) => {
                    let pausing = |running: &Running| running.pause.is_some() && !running.may_be_lost();
                    let is_unsent = self.flights.is_starting(*id);
                    let stops = !progress.doubtful
                        && (is_free(operation.terms.class)
                            || !progress.started
                            || is_unsent
                            || self.running.of(*id).any(pausing));
                    if !stops {
                        continue;
                    }
                    for running in self.running.of(*id) {
                        running.abort.abort();
                    }
                    self.flights.give_up(*id);
                    let failure = Failure::new(FailureCode::Cancelled, words.clone());
                    if let Some(task) = self.idle_task(*id) {
                        self.release(task, false);
                    }
                    self.record_outcome(*id, Outcome::Failed(failure))?;
                }
            }
        }
        self.fill()?;
        self.go_on()?;
        Ok(later)
    }
}

impl Driver {
    /// Has the child run of an operation ended that somebody gave up, after a pause.
    pub(super) fn end_child(
        &mut self,
        operation: OperationId,
        attempt: u32,
        ending: Ending,
        pause: Duration,
    ) {
        let (runs, child) = (Arc::clone(&self.context.runs), child_run(operation));
        self.running.spawn(Running::idle(operation, attempt), async move {
            tokio::time::sleep(pause).await;
            let given_up = runs.give_up_child(child, ending.by.clone(), ending.reason.clone()).await;
            Input::ChildGivenUp { operation, attempt, given_up, ending }
        });
    }

    /// These operations, with what a declarative tool asks for in the place of the tool: that is what can be given up.
    fn parts(&self, operations: &[OperationId]) -> Vec<OperationId> {
        let mut parts = Vec::new();
        let mut left: Vec<OperationId> = operations.iter().rev().copied().collect();
        while let Some(id) = left.pop() {
            let below = self.machine.state().parts_of(id);
            if below.is_empty() { parts.push(id) } else { left.extend(below) }
        }
        parts
    }
}
