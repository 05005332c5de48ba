//! Commits: records, handoffs, suspensions, snapshots.

use std::sync::Arc;

use segno_core::Handoff;
use segno_store::{Body, Created, NewRecord, Snapshot, WaitingFor};

use super::{Driver, SNAPSHOT_EVERY};
use crate::engine::now;
use crate::error::{EngineError, RunFailure};
use crate::fold::Fold;
use crate::handle::RunEvent;
use crate::lineage;
use crate::start::{Prepared, Successor, successor_run};

impl Driver {
    /// Commits what is in the outbox, all or nothing.
    pub(super) async fn commit(&mut self) -> Result<(), RunFailure> {
        if let Some(handoff) = self.handing.take() {
            return self.hand_over(handoff).await;
        }
        if self.outbox.is_empty() {
            return Ok(());
        }
        self.already_suspended = false;
        let records = std::mem::take(&mut self.outbox);
        let consumed = std::mem::take(&mut self.consumed);
        let copies = self.copies(&records);
        let run = self.context.run;
        let seqs = self
            .store
            .append_with(&mut self.lease, records, consumed)
            .await
            .map_err(|source| RunFailure::Append { run, source })?;
        self.tell(seqs, copies);
        Ok(())
    }

    /// Ends the run with a handoff, in one commit with the start of the run that goes on.
    pub(super) async fn hand_over(&mut self, handoff: Handoff) -> Result<(), RunFailure> {
        let run = self.context.run;
        let failed = |source: EngineError| RunFailure::Handoff {
            run,
            target: handoff.target.clone(),
            source: Box::new(source),
        };
        let state = self.machine.state();
        let prepared = self.context.engine.prepare_successor(&self.context, &handoff, &state.usage()).await;
        let Prepared { new, config, context, reader: _reader } = prepared.map_err(failed)?;
        let next = successor_run(run);
        let origin = lineage::successor(&new, state).map_err(|error| failed(error.into()))?;
        let body = Body::HandedOff {
            target: handoff.target.clone(),
            run: next,
            response: None,
            message: handoff.message.clone(),
        };
        self.outbox.push(NewRecord::new(now(), body));
        let records = std::mem::take(&mut self.outbox);
        let copies = self.copies(&records);
        let first = self.lease.next_seq();
        let created = self.store.hand_off(&mut self.lease, records, new).await;
        let created = created.map_err(|error| failed(error.into()))?;
        self.tell((first..).take(copies.len()).collect(), copies);
        let _ = self.context.events.send(RunEvent::HandedOff { target: handoff.target.clone(), run: next });
        if let Created::New(lease) = created {
            self.successor = Some(Successor { context, lease, fold: Fold::at(config, next, origin) });
        }
        Ok(())
    }

    /// Copies for whoever listens.
    pub(super) fn copies(&self, records: &[NewRecord]) -> Vec<NewRecord> {
        if self.context.events.receiver_count() > 0 { records.to_vec() } else { Vec::new() }
    }

    pub(super) fn tell(&self, seqs: Vec<u64>, copies: Vec<NewRecord>) {
        for (seq, record) in seqs.into_iter().zip(copies) {
            // Whoever listened may have gone meanwhile.
            let _ = self.context.events.send(RunEvent::Recorded { seq, record: Arc::new(record) });
        }
    }

    /// Writes down that the run waits, unless that is the last thing the journal says already.
    pub(super) fn suspend(&mut self) {
        if self.already_suspended {
            return;
        }
        let at = now();
        self.progress.values_mut().for_each(|progress| progress.pause(at));
        let waiting_for = self.waiting().into_iter().map(|waiting| WaitingFor {
            kind: waiting.kind().to_owned(),
            operation: waiting.operation,
            question: waiting.question,
        });
        let body = Body::Suspended { waiting_for: waiting_for.collect(), wake_at: self.wake_at() };
        self.outbox.push(NewRecord::new(at, body));
    }

    /// Saves the state now and then, right after a step was requested, when nothing of the step has come in yet.
    pub(super) async fn snapshot(&mut self) {
        let state = self.machine.state();
        let fresh = state.pending().iter().all(|pending| {
            pending.outcome.is_none()
                && self.progress.get(&pending.operation.id).is_some_and(|one| one.attempts <= 1)
        });
        if !fresh || state.step() < self.snapshot_step + SNAPSHOT_EVERY {
            return;
        }
        self.snapshot_step = state.step();
        let active = self.active_before.saturating_add(self.began.elapsed());
        let snapshot = Snapshot {
            seq: self.lease.next_seq(),
            state: state.clone(),
            active_ms: u64::try_from(active.as_millis()).unwrap_or(u64::MAX),
            modules: self.modules.clone(),
        };
        if let Err(error) = self.store.save_snapshot(&self.lease, snapshot).await {
            // A snapshot is only a cache: without it a resume folds more of the journal.
            tracing::warn!(run = %self.context.run, %error, "the snapshot was not saved");
        }
    }
}
