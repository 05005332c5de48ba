//! Writing to a store that may be busy, full or failing, for a process that may have been stopped meanwhile.
//!
//! The driver lets go of a run only when it has lost it. Until then it keeps its records, its effects under way and its
//! ownership, and repeats the same conditional append.

use std::time::Duration;

use dalsegno_history::gates;
use dalsegno_store::{AppendError, CreateError, Created, NewRecord, NewRun, StorageError};
use tokio::time::Instant;

use super::{Driver, Input};
use crate::error::RunFailure;
use crate::run::handle::{RunEvent, Stop};

/// The pause after the first write that failed; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two writes: a store that works again is noticed soon, and one that does not is left alone.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A process that took longer than this to write may have been stopped, and asks whether the run is still its own before it
/// starts anything. Longer than a commit takes on a busy machine, shorter than a person notices.
const SUSPICIOUS: Duration = Duration::from_secs(1);

/// A write that is repeated.
struct Repeated {
    began: Instant,
    pause: Duration,
}

impl Repeated {
    fn new() -> Self {
        Self { began: Instant::now(), pause: FIRST_PAUSE }
    }
}

impl Driver {
    /// Appends records, however long the store cannot be written.
    pub(super) async fn append(
        &mut self,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
    ) -> Result<Vec<u64>, RunFailure> {
        let first = self.lease.next_seq();
        self.lease.waits_for(gates(self.machine.state()));
        let mut repeated = Repeated::new();
        loop {
            let appended = self.store.append_with(&mut self.lease, records.clone(), consumed.clone()).await;
            match appended {
                // A lease that has moved on says that the records may be there.
                Err(AppendError::Storage(error)) if error.is_passing() && self.lease.next_seq() == first => {
                    self.wait_for_store(&error, &mut repeated).await;
                }
                Err(source) => return Err(RunFailure::Append { run: self.context.run, source }),
                Ok(seqs) => return Ok(seqs),
            }
        }
    }

    /// RunningTasks over, however long the store cannot be written.
    pub(super) async fn hand_off(
        &mut self,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
        new: NewRun,
    ) -> Result<Created, CreateError> {
        let first = self.lease.next_seq();
        let mut repeated = Repeated::new();
        loop {
            let (records, consumed, new) = (records.clone(), consumed.clone(), new.clone());
            match self.store.hand_off_with(&mut self.lease, records, consumed, new).await {
                Err(CreateError::Storage(error) | CreateError::Append(AppendError::Storage(error)))
                    if error.is_passing() && self.lease.next_seq() == first =>
                {
                    self.wait_for_store(&error, &mut repeated).await;
                }
                done => return done,
            }
        }
    }

    /// Tells that the store cannot be written, and waits for a while. That is no active time of the run.
    async fn wait_for_store(&mut self, error: &StorageError, repeated: &mut Repeated) {
        let run = self.context.run;
        let waited = repeated.began.elapsed();
        tracing::warn!(%run, %error, ?waited, "the journal cannot be written now: the run waits, and tries again");
        for observer in &self.context.ports.observers {
            observer.unwritable(run, error.kind(), waited);
        }
        // A run need not have a reader.
        let _ = self.context.events.send(RunEvent::Unwritable { kind: error.kind(), waited });
        let since = Instant::now();
        tokio::time::sleep(repeated.pause).await;
        self.active.leave_out(since.elapsed());
        repeated.pause = (repeated.pause * 2).min(LONGEST_PAUSE);
    }

    /// Makes sure that the run is still this process's before effects start, where it took long to write them down or this
    /// process no longer shows that it lives: another process may have acquired the run meanwhile.
    pub(super) async fn confirm(&self, since: Instant) -> Result<(), RunFailure> {
        let run = self.context.run;
        let failed = |source| RunFailure::Append { run, source };
        let Ok(owner) = self.context.ports.owner().await else { return Ok(()) };
        if !self.flights.has_starting() || (owner.is_shown() && since.elapsed() < SUSPICIOUS) {
            return Ok(());
        }
        let mut pause = FIRST_PAUSE;
        loop {
            owner.show();
            let asked = Instant::now();
            match self.store.summary(run).await {
                Ok(summary) if summary.owner != Some(self.lease.owner()) => {
                    let epoch = self.lease.epoch();
                    return Err(failed(AppendError::Fenced { run, epoch, current: epoch + 1 }));
                }
                // The answer is as old as the question.
                Ok(_) if asked.elapsed() < SUSPICIOUS => return Ok(()),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%run, %error, "nothing starts before it is known whose the run is");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }
    /// After a commit that took long, reads what people asked of the run meanwhile, before effects start and before a call takes
    /// what has come: a cancelled run asks for nothing more. Returns whether there is something to write down first.
    pub(super) async fn catch_up(&mut self, since: Instant) -> Result<bool, RunFailure> {
        if self.ended.is_some() || since.elapsed() < SUSPICIOUS {
            return Ok(false);
        }
        if *self.stop.borrow() == Stop::Cancel {
            self.cancel()?;
        }
        let messages = self.look().await;
        self.handle(Input::Inbox(messages))?;
        Ok(!self.outbox.is_empty() || self.handover.is_wanted())
    }
}
