//! How far an operation has come, as far as its journal knows.

use dalsegno_core::Timestamp;
use dalsegno_store::{AttemptCause, Start};

/// How far an operation of the current step has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Attempts so far; the last one may still be about to start.
    pub(crate) attempts: u32,
    /// The last attempt has started, as far as the journal knows.
    pub(crate) started: bool,
    /// An attempt before the last may have been acted on, and nobody has settled that.
    pub(crate) doubtful: bool,
    /// Attempts that ended without an answer and may have been received.
    pub(crate) lost: u32,
    /// When the first attempt since the last answer started, in milliseconds since the epoch; 0 before that.
    pub(crate) first: u64,
    /// When its question was asked, in milliseconds since the epoch.
    pub(crate) asked: u64,
    /// When a question came up in the middle of it, in milliseconds since the epoch; 0 without one.
    pub(crate) interposed: u64,
    /// Since when the operation has been worked on without a break, in milliseconds since the epoch; 0 while it is not.
    since: u64,
    /// The time that it was worked on before that, in milliseconds.
    spent_ms: u64,
}

impl Progress {
    /// An operation that was requested.
    pub(crate) fn requested(at: Timestamp, start: Start) -> Self {
        let mut progress = Self { asked: at.as_millis(), ..Self::default() };
        if start == Start::Now {
            progress.begin(1, at);
        }
        progress
    }

    /// Takes an `attempted` record.
    pub(crate) fn attempted(&mut self, at: Timestamp, attempt: u32, cause: AttemptCause, start: Start) {
        match cause {
            AttemptCause::Answered => {
                self.doubtful = false;
                self.first = 0;
            }
            // A deferred attempt never left its process.
            AttemptCause::Recovered => self.lose(self.started),
            AttemptCause::Failed { possibly_received, .. } => self.lose(possibly_received),
            AttemptCause::Queued => {}
        }
        match (cause, start) {
            (AttemptCause::Failed { .. }, Start::Now) => {
                self.attempts = attempt;
                self.started = true;
            }
            (AttemptCause::Answered | AttemptCause::Recovered | AttemptCause::Queued, Start::Now) => {
                self.begin(attempt, at);
            }
            (_, Start::Deferred) => {
                self.pause(at);
                self.attempts = attempt;
                self.started = false;
            }
        }
    }

    /// Its question was answered, and it goes on: whatever was in doubt is settled, and nothing has started since.
    pub(crate) fn settled(&mut self) {
        self.started = false;
        self.doubtful = false;
        self.first = 0;
    }

    fn lose(&mut self, possibly_received: bool) {
        self.doubtful |= possibly_received;
        self.lost = self.lost.saturating_add(u32::from(possibly_received));
    }

    /// Another process goes on with the attempt that was under way: the time in between was not spent on it.
    pub(crate) fn taken_up(&mut self, at: Timestamp) {
        self.since = at.as_millis();
    }

    /// A question came up that a person must answer before it goes on.
    pub(crate) fn interpose(&mut self, at: Timestamp) {
        self.pause(at);
        self.interposed = at.as_millis();
    }

    /// Nobody works on it from here on: it waits for a person, or its process stops.
    pub(crate) fn pause(&mut self, at: Timestamp) {
        self.spent_ms = self.elapsed_ms(at);
        self.since = 0;
    }

    /// The time that was spent on it, without downtime and without waiting for people.
    pub(crate) fn elapsed_ms(&self, at: Timestamp) -> u64 {
        let stretch = if self.since == 0 { 0 } else { at.as_millis().saturating_sub(self.since) };
        self.spent_ms + stretch
    }

    /// The time since it was asked for, in milliseconds, waiting for people included.
    pub(crate) fn age_ms(&self, at: Timestamp) -> u64 {
        at.as_millis().saturating_sub(self.asked)
    }

    fn begin(&mut self, attempt: u32, at: Timestamp) {
        self.attempts = attempt;
        self.started = true;
        self.since = at.as_millis();
        if self.first == 0 {
            self.first = self.since;
        }
    }
}
