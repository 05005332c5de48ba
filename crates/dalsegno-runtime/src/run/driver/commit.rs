//! Commits: records, handoffs, suspensions, snapshots.

use std::sync::Arc;
use std::time::Instant;

use dalsegno_core::{AgentState, Handoff, LiveNews, OperationId};
use dalsegno_history::{Fold, Pause, Progress, Suspension, successor, suspend};
use dalsegno_store::{Body, Created, NewRecord, Snapshot, WaitingFor};

use super::{Driver, Handover, Successor, is_waiting};
use crate::effects::budget::{self, Settlement};
use crate::error::{EngineError, RunFailure};
use crate::run::context::Prepared;
use crate::run::handle::RunEvent;

/// What a run waits for whose child run another process performs.
const CHILD_RUN: &str = "child_run";

/// The fewest steps from one snapshot to the next.
const SNAPSHOT_STEPS_MIN: u64 = 64;

/// How many steps apart the snapshots of a transcript of so many entries are: a long one costs more to save. So it costs a step no
/// more than sixteen entries, and a resume folds few steps where the transcript is short.
fn snapshot_pause(entries: u64) -> u64 {
    (entries / 16).max(SNAPSHOT_STEPS_MIN)
}

/// What the responses and the time of a call cost that a record counts, in billionths of a US dollar.
fn cost_of_call(record: &NewRecord) -> u64 {
    let Body::Conversed { news } = &record.body else { return 0 };
    let costs = news.iter().filter_map(|news| match news {
        LiveNews::Counted { tokens, .. } => tokens.cost_nano_usd,
        LiveNews::Lasted { cost_nano_usd, .. } => *cost_nano_usd,
        _ => None,
    });
    costs.fold(0, u64::saturating_add)
}

impl Driver {
    /// Commits what is in the outbox, all or nothing.
    pub(super) async fn commit(&mut self) -> Result<(), RunFailure> {
        if let Some(handoff) = self.handover.take_wish() {
            return self.hand_over(handoff).await;
        }
        self.commit_outbox().await?;
        self.speak();
        Ok(())
    }

    /// Tells whoever listens what the agent has said since the last commit.
    fn speak(&mut self) {
        let secrets = self.context.bindings.secrets();
        for mut text in self.spoken.news(self.machine.state()) {
            secrets.text(&mut text);
            // Whoever listened may have gone meanwhile.
            let _ = self.context.events.send(RunEvent::Said { text });
        }
    }

    async fn commit_outbox(&mut self) -> Result<(), RunFailure> {
        // Messages wait for records: taken out alone, they would be lost with this process.
        if self.outbox.is_empty() {
            return Ok(());
        }
        self.settle_held();
        let mut records = std::mem::take(&mut self.outbox);
        self.scrub(&mut records);
        self.suspension = records.last().and_then(|last| suspension_of(&last.body));
        let consumed = std::mem::take(&mut self.mailbox.consumed);
        let copies = self.copies(&records);
        let (count, since) = (records.len(), Instant::now());
        let cost = records.iter().map(cost_of_call).fold(0, u64::saturating_add);
        // Before it is written down: a process that dies in between has counted it once too often, and not too seldom.
        budget::spend(&self.context.ports, &self.context.tenant, cost).await;
        let seqs = self.append(records, consumed).await?;
        for observer in &self.context.ports.observers {
            observer.committed(count, since.elapsed());
        }
        self.pay().await;
        self.tell(seqs, copies);
        self.wake_followers();
        Ok(())
    }

    /// Settles what tasks cost whose ends are written down. A process that dies in between has counted all that was set aside.
    async fn pay(&mut self) {
        let (written, open) =
            std::mem::take(&mut self.settlements).into_iter().partition(|(operation, attempt, _)| {
                let attempts = self.progress.get(operation).map_or(0, |progress| progress.attempts);
                attempts > *attempt || !self.is_missing(*operation)
            });
        self.settlements = open;
        let written: Vec<(OperationId, u32, Settlement)> = written;
        for (_, _, settlement) in written {
            settlement.settle().await;
        }
    }

    /// Ends the run with a handoff, in one commit with the start of the run that goes on. When that run cannot be started,
    /// what was to be recorded is recorded without the handoff, and the run can be resumed.
    pub(super) async fn hand_over(&mut self, handoff: Handoff) -> Result<(), RunFailure> {
        let (prepared, origin) = match self.prepare(&handoff).await {
            Ok(prepared) => prepared,
            Err(error) => {
                self.commit_outbox().await?;
                return Err(self.no_handoff(&handoff, error));
            }
        };
        let Prepared { new, config, modules, context, reader: _reader, mut watches } = prepared;
        let next = new.run;
        let beginning = self.copies(&new.records);
        let before = self.outbox.clone();
        let body = Body::HandedOff {
            target: handoff.target.clone(),
            run: next,
            response: None,
            message: handoff.message.clone(),
        };
        self.outbox.push(NewRecord::new(self.now(), body));
        let mut records = std::mem::take(&mut self.outbox);
        self.scrub(&mut records);
        let copies = self.copies(&records);
        let first = self.lease.next_seq();
        self.settle_held();
        // What still waits in the inbox moves on: whoever wants this run to end means the one that goes on.
        let consumed = self.mailbox.consumed.clone();
        let created = match self.hand_off(records, consumed, new).await {
            Ok(created) => created,
            Err(error) => {
                self.outbox = before;
                self.commit_outbox().await?;
                return Err(self.no_handoff(&handoff, error.into()));
            }
        };
        self.mailbox.consumed.clear();
        self.pay().await;
        self.tell((first..).take(copies.len()).collect(), copies);
        self.wake_followers();
        self.speak();
        let _ = self.context.events.send(RunEvent::HandedOff { target: handoff.target.clone(), run: next });
        if let Created::New(lease) = created {
            for (record, seq) in beginning.iter().zip(0..) {
                watches.began(seq, record);
            }
            let fold = Fold::at(config, next, origin).with_modules(modules);
            self.handover = Handover::Made(Box::new(Successor { context, lease, fold, watches }));
        }
        Ok(())
    }

    async fn prepare(&self, handoff: &Handoff) -> Result<(Prepared, AgentState), EngineError> {
        let state = self.machine.state();
        let runs = &self.context.runs;
        let mut prepared = runs.prepare_successor(&self.context, handoff, &state.usage()).await?;
        let origin = successor(&mut prepared.new, state)?;
        Ok((prepared, origin))
    }

    fn no_handoff(&self, handoff: &Handoff, source: EngineError) -> RunFailure {
        let (run, target) = (self.context.run, handoff.target.clone());
        RunFailure::Handoff { run, target, source: Box::new(source) }
    }

    /// Takes known secrets out of what others said: the last door before the journal.
    fn scrub(&self, records: &mut [NewRecord]) {
        let secrets = self.context.bindings.secrets();
        records.iter_mut().for_each(|record| secrets.record(&mut record.body));
    }

    /// Copies for whoever listens.
    pub(super) fn copies(&self, records: &[NewRecord]) -> Vec<NewRecord> {
        let anybody = self.context.events.receiver_count() > 0 || !self.watches.is_empty();
        if anybody { records.to_vec() } else { Vec::new() }
    }

    /// Wakes those who follow the run.
    fn wake_followers(&self) {
        self.context.ports.tails.recorded(self.context.run, self.lease.next_seq());
    }

    pub(super) fn tell(&mut self, seqs: Vec<u64>, copies: Vec<NewRecord>) {
        for (seq, record) in seqs.into_iter().zip(copies) {
            self.watches.recorded(seq, &record, self.machine.state());
            // Whoever listened may have gone meanwhile.
            let _ = self.context.events.send(RunEvent::Recorded { seq, record: Arc::new(record) });
        }
    }

    /// Writes down that the run waits, unless that is the last thing the journal says already and no message was read
    /// since then.
    pub(super) fn suspend(&mut self) {
        let secrets = self.context.bindings.secrets();
        let waiting_for = self.waiting().into_iter().map(|waiting| {
            let mut question = waiting.question.clone();
            secrets.text(&mut question);
            WaitingFor { kind: waiting.kind().to_owned(), operation: waiting.operation, question }
        });
        let elsewhere =
            self.flights.suspended().filter(|(_, paused)| paused.elsewhere).map(|(operation, _)| {
                let question = "another process performs this child run, or it is paused".to_owned();
                WaitingFor { kind: CHILD_RUN.to_owned(), operation, question }
            });
        let waiting_for = waiting_for.chain(elsewhere).collect();
        // A run that stands still wakes at no time.
        let wake_at = if self.standstill.holds() { None } else { self.wake_at() };
        let suspension = Suspension { waiting_for, wake_at };
        self.settle_held();
        self.write_pause();
        if self.suspension.as_ref() == Some(&suspension) && self.mailbox.consumed.is_empty() {
            return;
        }
        let at = self.now();
        suspend(&mut self.progress, self.machine.state(), at);
        let Suspension { waiting_for, wake_at } = suspension;
        let body = match self.standstill.written() {
            Some(Pause { by, reason }) => {
                Body::Paused { by: by.clone(), reason: reason.clone(), waiting_for }
            }
            None => Body::Suspended { waiting_for, wake_at },
        };
        self.outbox.push(NewRecord::new(at, body));
    }

    /// Saves the state now and then, right after a step was requested, when nothing of the step has come in yet.
    pub(super) async fn snapshot(&mut self) {
        let state = self.machine.state();
        let pause = snapshot_pause(state.transcript().kept()).min(self.context.ports.snapshot_every);
        if state.step() < self.snapshot_step.saturating_add(pause) {
            return;
        }
        let fresh = !self.flights.has_queue()
            && self.remote.tasked.is_empty()
            && state.pending().iter().all(|pending| {
                // A snapshot does not hold attempts: one that is in doubt, or waits in the middle of an attempt, would lose them.
                let waits = is_waiting(&pending.operation);
                let first = |one: &Progress| match waits {
                    true => one.attempts == 0,
                    false => one.started && one.attempts == 1 && !one.doubtful,
                };
                let is_new = self.progress.get(&pending.operation.id).is_some_and(first);
                pending.outcome.is_none() && is_new
            });
        if !fresh {
            return;
        }
        self.snapshot_step = state.step();
        let active = self.active.so_far();
        let snapshot = Snapshot {
            seq: self.lease.next_seq(),
            state: state.clone(),
            at: self.now(),
            active_ms: u64::try_from(active.as_millis()).unwrap_or(u64::MAX),
            modules: self.modules.clone(),
        };
        if let Err(error) = self.store.save_snapshot(&self.lease, snapshot).await {
            // A snapshot is only a cache: without it a resume folds more of the journal.
            tracing::warn!(run = %self.context.run, %error, "the snapshot was not saved");
        }
    }
}

/// How a run waits, as its last record says.
fn suspension_of(body: &Body) -> Option<Suspension> {
    let (waiting_for, wake_at) = match body {
        Body::Suspended { waiting_for, wake_at } => (waiting_for, *wake_at),
        Body::Paused { waiting_for, .. } => (waiting_for, None),
        _ => return None,
    };
    Some(Suspension { waiting_for: waiting_for.clone(), wake_at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_transcript_is_saved_less_often() {
        for (entries, steps) in [(0, 64), (1_024, 64), (2_600, 162), (20_000, 1_250)] {
            assert_eq!(snapshot_pause(entries), steps, "{entries}");
        }
    }
}
