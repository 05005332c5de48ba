//! Delta debugging: the smallest part of a set that still has a property.

use std::ops::Range;

/// Finds a part of `all` that has the property, and of which nothing can be left out, in the order of `all`. `all` has it.
///
/// This is `ddmin` of Zeller and Hildebrandt: halves are tried first, then what is left without each of them, then smaller
/// pieces. The property is asked for at most `n² + 3n` times, and about `2k log n` times where `k` of `n` items matter, each by
/// itself.
pub(crate) fn minimise(all: &[usize], mut has: impl FnMut(&[usize]) -> bool) -> Vec<usize> {
    let mut kept = all.to_vec();
    let mut pieces = 2;
    while kept.len() > 1 {
        let size = kept.len().div_ceil(pieces);
        let ranges = || (0..kept.len()).step_by(size).map(|start| start..(start + size).min(kept.len()));
        let count = ranges().len();
        if let Some(range) = ranges().find(|range| has(&kept[range.clone()])) {
            (kept, pieces) = (kept[range].to_vec(), 2);
            continue;
        }
        let without = |range: Range<usize>| [&kept[..range.start], &kept[range.end..]].concat();
        // Of two pieces, each is what is left without the other.
        let rest = if count > 2 { ranges().map(without).find(|rest| has(rest)) } else { None };
        if let Some(rest) = rest {
            (kept, pieces) = (rest, (count - 1).max(2));
            continue;
        }
        if count >= kept.len() {
            break;
        }
        pieces = (pieces * 2).min(kept.len());
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What is found has the property, and nothing of it can be left out.
        #[test]
        fn nothing_of_what_is_found_can_be_left_out(
            size in 1..24usize,
            needs in prop::collection::vec(prop::collection::btree_set(0..24usize, 1..4), 1..3),
        ) {
            let all: Vec<usize> = (0..size).collect();
            let needs: Vec<BTreeSet<usize>> = needs;
            // Any of these sets is enough, or everything is.
            let has = |part: &[usize]| {
                part.len() == all.len() || needs.iter().any(|need| need.iter().all(|item| part.contains(item)))
            };
            let found = minimise(&all, has);
            prop_assert!(has(&found));
            for left_out in &found {
                let rest: Vec<usize> = found.iter().copied().filter(|item| item != left_out).collect();
                prop_assert!(!has(&rest), "{found:?} without {left_out}");
            }
        }
    }

    #[test]
    fn a_few_items_of_many_are_found_in_few_questions() {
        let all: Vec<usize> = (0..1_000).collect();
        let mut asked = 0;
        let found = minimise(&all, |part| {
            asked += 1;
            [17, 18, 801].iter().all(|item| part.contains(item))
        });
        assert_eq!(found, [17, 18, 801]);
        assert!(asked < 150, "{asked}");
    }
}
