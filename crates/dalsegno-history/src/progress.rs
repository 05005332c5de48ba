//! How far an operation has come, as far as its journal knows.

use std::collections::BTreeMap;
use std::time::Duration;

use dalsegno_core::{AgentState, Operation, OperationId, Request, Timestamp};
use dalsegno_store::{AttemptCause, Start};

/// The longest pause between attempts.
pub const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

/// How often the process may die while a tool is asked about an operation, before a person is asked instead.
const LOST_QUESTIONS: u32 = 3;

/// A clock that shows less than this before the latest time of a run's own records was set right a little, in milliseconds. The
/// age of a key leaves room for as much.
const SET_BACK_MS: u64 = 3_600_000;

/// What is known of an operation when one of its attempts has ended.
#[derive(Debug, Clone, Copy)]
pub struct Situation {
    /// The attempt that has ended, from 1. Of one that was never sent, how often in a row it was refused.
    pub attempt: u32,
    /// An earlier attempt may have been acted on, and nobody has settled that.
    pub doubtful: bool,
    /// The time since the first attempt.
    pub age: Duration,
    /// The time since the operation's key was first sent.
    pub key_age: Duration,
    /// How often it was started again because its process had died.
    pub recoveries: u32,
    /// The time of day.
    pub at: Timestamp,
}

/// How far an operation of the current step has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Attempts so far; the last one may still be about to start.
    pub attempts: u32,
    /// The last attempt has started, as far as the journal knows.
    pub started: bool,
    /// An attempt before the last may have been acted on, and nobody has settled that.
    pub doubtful: bool,
    /// Attempts that ended without an answer and may have been received.
    pub lost: u32,
    /// How often it was started again because its process had died under it, since the last answer.
    pub recoveries: u32,
    /// How often in a row it was refused before anything was sent. No record says so.
    pub refusals: u32,
    /// How often a tool was asked whether it took place. No answer sets it back: a tool that always says no must not keep it
    /// going for ever.
    pub verifications: u32,
    /// A tool was asked since the question came up that it waits at.
    pub is_verified: bool,
    /// A tool is being asked, as far as the journal knows.
    pub is_asking: bool,
    /// How often the process died while a tool was asked.
    pub lost_questions: u32,
    /// When the first attempt since the last answer started, in milliseconds since the epoch; 0 before that.
    pub first: u64,
    /// When its key was first sent, in milliseconds since the epoch; 0 before that. No answer makes the key younger.
    pub key_first: u64,
    /// When its question was asked, in milliseconds since the epoch.
    pub asked: u64,
    /// When a question came up in the middle of it, in milliseconds since the epoch; 0 without one.
    pub interposed: u64,
    /// Since when the operation has been worked on without a break, in milliseconds since the epoch; 0 while it is not.
    since: u64,
    /// The time that it was worked on before that, in milliseconds.
    spent_ms: u64,
    /// The longest that an attempt may take, in milliseconds; 0 where no process works on it.
    timeout_ms: u64,
}

impl Progress {
    /// An operation that was requested.
    pub fn requested(at: Timestamp, start: Start, operation: &Operation) -> Self {
        let timeout_ms = match operation.request {
            Request::AgentCall(_) | Request::Timer(_) | Request::Input(_) => 0,
            _ => operation.terms.timeout_ms,
        };
        let mut progress = Self { asked: at.as_millis(), timeout_ms, ..Self::default() };
        if start == Start::Now {
            progress.begin(1, at);
        }
        progress
    }

    /// Takes an `attempted` record.
    pub fn attempted(&mut self, at: Timestamp, attempt: u32, cause: AttemptCause, start: Start) {
        match cause {
            AttemptCause::Answered => {
                self.doubtful = false;
                self.first = 0;
                self.recoveries = 0;
            }
            // A deferred attempt never left its process.
            AttemptCause::Recovered => {
                self.lose(self.started);
                // A process that stopped in good order has put it off; one that died has not.
                self.recoveries =
                    self.recoveries.saturating_add(u32::from(self.started && start == Start::Now));
                self.spent_ms = self.at_most_spent_ms(at);
                self.since = 0;
            }
            AttemptCause::Failed { possibly_received, .. } => self.lose(possibly_received),
            AttemptCause::Queued => {}
        }
        match (cause, start) {
            (AttemptCause::Failed { .. }, Start::Now) => {
                self.attempts = attempt;
                self.started = true;
                self.refusals = 0;
                if self.first == 0 || self.since == 0 {
                    self.begin(attempt, at);
                }
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
    pub fn settled(&mut self) {
        self.started = false;
        self.doubtful = false;
        self.first = 0;
        self.recoveries = 0;
        self.refusals = 0;
    }

    /// Its process died once too often, and it is not started again: what that attempt may have taken is lost.
    pub fn given_up(&mut self, at: Timestamp) {
        self.spent_ms = self.at_most_spent_ms(at);
        self.since = 0;
        self.lose(true);
    }

    fn lose(&mut self, possibly_received: bool) {
        self.doubtful |= possibly_received;
        self.lost = self.lost.saturating_add(u32::from(possibly_received));
    }

    /// Another process goes on with the attempt that was under way: the time in between was not spent on it.
    pub fn taken_up(&mut self, at: Timestamp) {
        self.since = at.as_millis();
    }

    /// A question came up that a person must answer before it goes on.
    pub fn interpose(&mut self, at: Timestamp) {
        self.is_verified = false;
        self.is_asking = false;
        // Where its process died meanwhile, the time since then was not spent on it.
        let pause_ms = u64::try_from(LONGEST_BACKOFF.as_millis()).unwrap_or(u64::MAX);
        let most_ms = u64::from(self.attempts).saturating_mul(self.timeout_ms.saturating_add(pause_ms));
        self.spent_ms = self.elapsed_ms(at).min(self.spent_ms.saturating_add(most_ms));
        self.since = 0;
        self.interposed = at.as_millis();
    }

    /// A tool is about to be asked whether it took place.
    pub fn asks(&mut self) {
        self.lost_questions = self.lost_questions.saturating_add(u32::from(self.is_asking));
        self.is_asking = true;
    }

    /// Whether a tool may be asked: not after it was asked as often as an attempt may be repeated, nor when asking it brings
    /// the process down.
    pub fn may_ask(&self, retries: u32) -> bool {
        let lost = self.lost_questions.saturating_add(u32::from(self.is_asking));
        self.verifications <= retries && lost < LOST_QUESTIONS
    }

    /// A tool was asked whether it took place.
    pub fn verified(&mut self) {
        self.is_asking = false;
        self.is_verified = true;
        self.verifications = self.verifications.saturating_add(1);
    }

    /// Nobody works on it from here on: it waits for a person, or its process stops.
    pub fn pause(&mut self, at: Timestamp) {
        self.spent_ms = self.elapsed_ms(at);
        self.since = 0;
    }

    /// It is a child run that waits. Its time is counted in its own run: from here nobody can tell how much of the time since
    /// then the child run, or any process, was not at work.
    fn set_aside(&mut self) {
        self.since = 0;
    }

    /// The time that was spent on it, without downtime and without waiting for people.
    pub fn elapsed_ms(&self, at: Timestamp) -> u64 {
        let stretch = if self.since == 0 { 0 } else { at.as_millis().saturating_sub(self.since) };
        self.spent_ms + stretch
    }

    /// The most time that can have been spent on it when its process died some time before: an attempt that nobody saw end
    /// counts with all that it may take.
    pub fn at_most_spent_ms(&self, at: Timestamp) -> u64 {
        let stretch =
            if self.since == 0 || !self.started { 0 } else { at.as_millis().saturating_sub(self.since) };
        self.spent_ms.saturating_add(stretch.min(self.timeout_ms))
    }

    /// The time since it was asked for, in milliseconds, waiting for people included.
    pub fn age_ms(&self, at: Timestamp) -> u64 {
        at.as_millis().saturating_sub(self.asked)
    }

    /// What is known of it when an attempt has ended `at` this time of day. A clock that was set back makes nothing younger than
    /// the run's own records say, the `latest` of which is of that time.
    pub fn situation(&self, attempt: u32, at: Timestamp, latest: Timestamp) -> Situation {
        let now = at.max(latest).as_millis();
        let since =
            |first: u64| Duration::from_millis(if first == 0 { 0 } else { now.saturating_sub(first) });
        // A clock that was set back by much may have been wrong for any time: the age is unknown.
        let set_back_ms = latest.as_millis().saturating_sub(at.as_millis());
        let is_ageless = self.key_first > 0 && set_back_ms > SET_BACK_MS;
        Situation {
            attempt,
            doubtful: self.doubtful,
            age: since(self.first),
            key_age: if is_ageless { Duration::MAX } else { since(self.key_first) },
            recoveries: self.recoveries,
            at,
        }
    }

    fn begin(&mut self, attempt: u32, at: Timestamp) {
        self.attempts = attempt;
        self.started = true;
        self.refusals = 0;
        self.since = at.as_millis();
        if self.first == 0 {
            self.first = self.since;
        }
        if self.key_first == 0 {
            self.key_first = self.since;
        }
    }
}

/// Says whether no process works on an operation once it has a task: the provider of a model replies when it has room, and is
/// only asked how it stands.
pub fn comes_later(state: &AgentState, operation: OperationId) -> bool {
    let mut pending = state.pending().iter();
    pending.any(|pending| {
        pending.operation.id == operation && matches!(pending.operation.request, Request::ModelCompletion(_))
    })
}

/// The run of these operations is suspended.
pub fn suspend(operations: &mut BTreeMap<OperationId, Progress>, state: &AgentState, at: Timestamp) {
    for pending in state.pending() {
        let Some(progress) = operations.get_mut(&pending.operation.id) else { continue };
        match pending.operation.request {
            Request::AgentCall(_) => progress.set_aside(),
            _ => progress.pause(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use dalsegno_core::FailureCode;

    use super::*;

    const TIMEOUT: u64 = 5_000;

    fn recovered(progress: &mut Progress, at: u64, attempt: u32) {
        progress.attempted(Timestamp::from_millis(at), attempt, AttemptCause::Recovered, Start::Now);
    }

    fn under_way() -> Progress {
        let mut progress = Progress { timeout_ms: TIMEOUT, ..Progress::default() };
        progress.begin(1, Timestamp::from_millis(1_000));
        progress
    }

    #[test]
    fn attempts_that_no_process_saw_end_are_charged_with_what_they_may_have_taken() {
        let mut progress = under_way();
        // Its process died, and another one takes it up 2 s later: it may have been at work for all of that.
        recovered(&mut progress, 3_000, 2);
        assert_eq!(progress.elapsed_ms(Timestamp::from_millis(3_000)), 2_000);
        // An hour of downtime costs what an attempt may take, and no more.
        recovered(&mut progress, 3_603_000, 3);
        assert_eq!(progress.elapsed_ms(Timestamp::from_millis(3_603_000)), 2_000 + TIMEOUT);
        progress.given_up(Timestamp::from_millis(7_203_000));
        assert_eq!(progress.elapsed_ms(Timestamp::from_millis(7_203_000)), 2_000 + 2 * TIMEOUT);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_key_younger() {
        let mut progress = under_way();
        let (hour, latest) = (3_600_000, Timestamp::from_millis(24 * 3_600_000));
        let age = |progress: &Progress, at| progress.situation(1, Timestamp::from_millis(at), latest).key_age;
        // A clock that advances, one that was set back a little, and one that was set back by too much to know the age.
        assert_eq!(age(&progress, 25 * hour), Duration::from_millis(25 * hour - 1_000));
        assert_eq!(age(&progress, 23 * hour), Duration::from_millis(24 * hour - 1_000));
        assert_eq!(age(&progress, 23 * hour - 1), Duration::MAX);
        // What has no key yet has no age.
        progress.key_first = 0;
        assert_eq!(age(&progress, hour), Duration::ZERO);
    }

    #[test]
    fn a_key_is_as_old_as_its_first_attempt_whatever_was_answered_since() {
        let mut progress = under_way();
        progress.settled();
        progress.attempted(Timestamp::from_millis(9_000), 2, AttemptCause::Answered, Start::Now);
        assert_eq!((progress.first, progress.key_first), (9_000, 1_000));
        let failed = AttemptCause::Failed { code: FailureCode::Timeout, possibly_received: true };
        progress.pause(Timestamp::from_millis(9_500));
        progress.attempted(Timestamp::from_millis(10_000), 3, failed, Start::Now);
        assert_eq!((progress.first, progress.key_first), (9_000, 1_000), "since the last answer");
    }

    #[test]
    fn an_attempt_whose_process_died_is_in_doubt_once_it_has_started_and_no_sooner() {
        let mut progress = under_way();
        recovered(&mut progress, 2_000, 2);
        assert_eq!((progress.doubtful, progress.lost, progress.recoveries), (true, 1, 1));
        // A person settles it, and the next attempt is put off: its process dies before anything was sent.
        progress.settled();
        let deferred = |progress: &mut Progress, attempt| {
            let at = Timestamp::from_millis(3_000);
            progress.attempted(at, attempt, AttemptCause::Answered, Start::Deferred);
        };
        deferred(&mut progress, 3);
        assert!(!progress.started);
        recovered(&mut progress, 4_000, 3);
        assert_eq!((progress.doubtful, progress.lost, progress.recoveries), (false, 1, 0));
        // That one has started, and its process dies as well.
        recovered(&mut progress, 5_000, 4);
        assert_eq!((progress.doubtful, progress.lost, progress.recoveries), (true, 2, 1));
    }
}
