//! How several causes share what a worker asks for.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use dalsegno_core::RunId;

/// The causes for which a run can be taken: it was given back, its owner died, its time has come, messages wait for it.
pub(crate) const CAUSES: usize = 4;

/// Whose turn it is to come first. So each cause has a share even of a single run.
#[derive(Debug, Default)]
pub(crate) struct Turn(AtomicUsize);

impl Turn {
    pub(crate) fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed) % CAUSES
    }
}

/// Deals runs of all causes in turn, beginning with this one, each run once. Every cause comes with its first `limit`
/// runs, so that what one of them does not use is left to the others.
pub(crate) fn deal(causes: [Vec<RunId>; CAUSES], first: usize, limit: usize) -> Vec<RunId> {
    let mut causes = causes.map(Vec::into_iter);
    causes.rotate_left(first % CAUSES);
    let (mut seen, mut dealt) = (BTreeSet::new(), Vec::new());
    loop {
        let mut is_over = true;
        for cause in &mut causes {
            if dealt.len() == limit {
                return dealt;
            }
            // One that has another cause too has been dealt already, and takes no share of this one.
            if let Some(run) = cause.find(|run| seen.insert(*run)) {
                is_over = false;
                dealt.push(run);
            }
        }
        if is_over {
            return dealt;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(numbers: std::ops::Range<u8>) -> Vec<RunId> {
        numbers.map(|number| RunId::from_bytes([number; 16])).collect()
    }

    #[test]
    fn every_cause_has_its_share_and_leaves_what_it_does_not_use() {
        let causes = || [runs(0..20), runs(20..22), runs(0..0), runs(40..60)];
        let dealt = deal(causes(), 0, 12);
        let of =
            |range: std::ops::Range<u8>| dealt.iter().filter(|run| runs(range.clone()).contains(run)).count();
        assert_eq!((of(0..20), of(20..22), of(40..60)), (5, 2, 5));
        assert_eq!(deal(causes(), 0, 100).len(), 42, "nothing is left when there is room for all");
        assert!(deal(causes(), 0, 0).is_empty());
    }

    #[test]
    fn a_single_run_is_of_another_cause_each_time() {
        let turn = Turn::default();
        let causes = || [runs(0..9), runs(10..19), runs(20..29), runs(30..39)];
        let dealt: Vec<RunId> = (0..5).flat_map(|_| deal(causes(), turn.next(), 1)).collect();
        assert_eq!(dealt, [0, 10, 20, 30, 0].map(|number| RunId::from_bytes([number; 16])));
    }

    #[test]
    fn a_run_of_two_causes_is_dealt_once() {
        assert_eq!(deal([runs(0..3), runs(0..4), runs(0..0), runs(2..3)], 1, 10).len(), 4);
    }
}
