//! The folds that a walk keeps, so that a step back is short.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};

use dalsegno_core::AgentState;

use crate::fold::Fold;

/// Records from one kept fold to the next, to begin with.
const EVERY: u64 = 256;

/// Most folds that are kept.
const MOST: usize = 512;

/// Most bytes of what no two folds share, about.
const MOST_BYTES: u64 = 64 << 20;

/// The latest folds that steps to and fro begin with.
const RECENT: usize = 4;

/// Folds, each after so many records.
pub(super) struct Kept {
    every: u64,
    folds: BTreeMap<u64, (Fold, u64)>,
    bytes: u64,
    recent: VecDeque<(u64, Fold)>,
}

impl Default for Kept {
    fn default() -> Self {
        Self { every: EVERY, folds: BTreeMap::new(), bytes: 0, recent: VecDeque::new() }
    }
}

impl Kept {
    /// The last fold of at most so many records.
    pub(super) fn nearest(&self, records: u64) -> Option<(u64, &Fold)> {
        let kept = self.folds.range(..=records).next_back().map(|(at, (fold, _))| (*at, fold));
        let recent = self.recent.iter().filter(|(at, _)| *at <= records).map(|(at, fold)| (*at, fold));
        kept.into_iter().chain(recent).max_by_key(|(at, _)| *at)
    }

    /// A fold has taken so many records: one is kept now and then.
    pub(super) fn pass(&mut self, at: u64, fold: &Fold) {
        if at.is_multiple_of(self.every) && !self.folds.contains_key(&at) {
            self.always(at, fold);
            while self.folds.len() > MOST || self.bytes > MOST_BYTES && self.folds.len() > 1 {
                self.thin();
            }
        }
    }

    /// Keeps a fold.
    pub(super) fn always(&mut self, at: u64, fold: &Fold) {
        let bytes = own_bytes(fold.state());
        self.bytes = self.bytes.saturating_add(bytes);
        if let Some((_, before)) = self.folds.insert(at, (fold.clone(), bytes)) {
            self.bytes = self.bytes.saturating_sub(before);
        }
    }

    /// Keeps a fold until some others were.
    pub(super) fn lately(&mut self, at: u64, fold: &Fold) {
        self.recent.retain(|(kept, _)| *kept != at);
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((at, fold.clone()));
    }

    /// Keeps half as many, and the first.
    fn thin(&mut self) {
        self.every = self.every.saturating_mul(2);
        let every = self.every;
        self.folds.retain(|at, _| *at == 1 || at.is_multiple_of(every));
        self.bytes = self.folds.values().map(|(_, bytes)| bytes).sum();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.folds.len()
    }
}

/// About how many bytes a state takes that it does not share with others: the transcript is shared.
fn own_bytes(state: &AgentState) -> u64 {
    let parts = (state.results(), state.vars(), state.pending(), state.session());
    let mut counter = Counter(state.transcript().len() / 8 + 4_096);
    // It counts, and never fails.
    let _ = serde_json::to_writer(&mut counter, &parts);
    counter.0
}

/// A writer that counts.
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dalsegno_core::{AgentConfig, AgentRequest, Mind, RunId, Timestamp};

    use super::*;

    #[test]
    fn a_long_run_keeps_fewer_folds_and_still_begins_with_the_nearest() {
        let plan = serde_json::from_value(serde_json::json!({"steps": []})).unwrap();
        let config = Arc::new(AgentConfig::new("agent".parse().unwrap(), Mind::Plan(plan)));
        let run = RunId::from_bytes([7; 16]);
        let state = AgentState::start(run, AgentRequest::text("x"), Timestamp::from_millis(0));
        let fold = Fold::at(config, run, state);
        let mut kept = Kept::default();
        kept.always(1, &fold);
        for at in 2..=EVERY * 600 {
            kept.pass(at, &fold);
        }
        assert!(kept.len() <= MOST && kept.len() > MOST / 4, "{}", kept.len());
        let nearest = |records| kept.nearest(records).map(|(at, _)| at);
        assert_eq!(nearest(EVERY), Some(1), "the first one stays");
        assert_eq!(nearest(2 * EVERY + 5), Some(2 * EVERY));
        assert_eq!(nearest(0), None);
    }
}
