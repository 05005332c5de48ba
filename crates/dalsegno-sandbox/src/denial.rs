//! What a server was refused: counted for the server, and told with the call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dalsegno_protocol::{Denial, DenialKind, printable};

use crate::stats::Counters;

/// The latest denials of one instance.
pub(crate) struct Denials {
    log: Mutex<Log>,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct Log {
    /// How many there ever were; the last one in the queue has this number less one.
    total: u64,
    latest: VecDeque<Denial>,
}

impl Denials {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        Self { log: Mutex::default(), counters }
    }

    /// Notes a denial.
    pub(crate) fn note(&self, kind: DenialKind, subject: &str, reason: impl Into<String>) {
        let subject: String = printable(subject).chars().take(SUBJECT_CHARS).collect();
        let reason = reason.into();
        tracing::debug!(kind = kind.as_str(), subject, reason, "denied");
        self.counters.denied(kind);
        let mut log = self.log();
        log.total += 1;
        if log.latest.len() == KEPT {
            log.latest.pop_front();
        }
        log.latest.push_back(Denial { kind, subject, reason, count: 1 });
    }

    /// How many there were so far.
    pub(crate) fn mark(&self) -> u64 {
        self.log().total
    }

    /// Those after a mark, as far as they are kept; equal ones that follow each other are one.
    pub(crate) fn since(&self, mark: u64) -> Vec<Denial> {
        let log = self.log();
        let wanted = usize::try_from(log.total.saturating_sub(mark)).unwrap_or(usize::MAX);
        let mut found: Vec<Denial> = Vec::new();
        for denial in log.latest.iter().skip(log.latest.len().saturating_sub(wanted)) {
            match found.last_mut() {
                Some(last) if last.kind == denial.kind && last.subject == denial.subject => last.count += 1,
                _ => found.push(denial.clone()),
            }
        }
        found
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many of an instance's denials are kept; a guest may ask without end.
const KEPT: usize = 32;

/// How much of the guest's own words a denial repeats.
const SUBJECT_CHARS: usize = 200;

#[cfg(test)]
mod tests {
    use super::{DenialKind, Denials, KEPT, SUBJECT_CHARS};

    #[test]
    fn a_call_learns_of_its_own_denials() {
        let denials = Denials::new(std::sync::Arc::default());
        denials.note(DenialKind::Socket, "tcp", "no");
        let mark = denials.mark();
        denials.note(DenialKind::File, "../a", "no");
        denials.note(DenialKind::File, "../a", "no");
        denials.note(DenialKind::File, "../b", "no");
        let found = denials.since(mark);
        let found: Vec<_> = found.iter().map(|denial| (denial.subject.as_str(), denial.count)).collect();
        assert_eq!(found, [("../a", 2), ("../b", 1)]);
        assert!(denials.since(denials.mark()).is_empty());
    }

    #[test]
    fn what_a_guest_asks_for_without_end_takes_no_room() {
        let denials = Denials::new(std::sync::Arc::default());
        for number in 0..1_000 {
            denials.note(DenialKind::NameLookup, &format!("{number}{}", "x".repeat(1_000)), "no");
        }
        let found = denials.since(0);
        assert_eq!(found.len(), KEPT);
        assert!(found.iter().all(|denial| denial.subject.chars().count() == SUBJECT_CHARS));
    }

    #[test]
    fn a_terminal_does_not_obey_a_denial() {
        let denials = Denials::new(std::sync::Arc::default());
        denials.note(DenialKind::File, "\x1b[2J", "no");
        assert_eq!(denials.since(0)[0].subject, "\u{fffd}[2J");
    }
}
