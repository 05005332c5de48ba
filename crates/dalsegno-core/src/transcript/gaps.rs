//! Entries that a transcript no longer keeps.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::Entry;

/// Entries of a transcript that no model can be sent any more and that are not kept. All others keep their indices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gap {
    /// The index of the first one. That of the first gap is the index of the first reply.
    pub(crate) at: u64,
    /// How many there are.
    pub(crate) count: u64,
}

impl Gap {
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The index of the first entry after it.
    const fn end(self) -> u64 {
        self.at.saturating_add(self.count)
    }
}

/// The gaps of a transcript, in order; none touches another one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Gaps(Vec<Gap>);

impl Gaps {
    /// These gaps, without those that are empty.
    pub(crate) fn new(gaps: impl IntoIterator<Item = Gap>) -> Self {
        Self(gaps.into_iter().filter(|gap| !gap.is_empty()).collect())
    }

    /// The gaps between the kept entries of a transcript of so many entries, by the indices of the kept ones.
    pub(super) fn between(kept: impl Iterator<Item = u64>, len: u64) -> Self {
        let mut next = 0;
        Self::new(kept.chain([len]).map(|index| {
            let gap = Gap { at: next, count: index.saturating_sub(next) };
            next = index.saturating_add(1);
            gap
        }))
    }

    /// The first one; an empty one where there is none.
    pub(crate) fn first(&self) -> Gap {
        self.0.first().copied().unwrap_or_default()
    }

    /// Those after the first one.
    pub(crate) fn rest(&self) -> &[Gap] {
        self.0.get(1..).unwrap_or_default()
    }

    /// How many entries are not kept.
    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|gap| gap.count).fold(0, u64::saturating_add)
    }

    /// The place among the kept entries of the entry with this index, or of the first one after it that is kept.
    pub(super) fn place(&self, index: u64) -> u64 {
        let before = self.0.iter().take_while(|gap| gap.at < index);
        let missing = before.map(|gap| gap.end().min(index) - gap.at);
        index.saturating_sub(missing.fold(0, u64::saturating_add))
    }

    /// The index of the entry at this place.
    pub(crate) fn index(&self, place: u64) -> u64 {
        self.0.iter().fold(place, |index, gap| match index < gap.at {
            true => index,
            false => index.saturating_add(gap.count),
        })
    }
}

/// What still matters of the entries that are not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Released {
    /// The index of the last reply among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reply: Option<u64>,
    /// The last text that the model said in them, with the index of its entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<(u64, String)>,
}

impl Released {
    pub(super) const fn is_empty(&self) -> bool {
        self.reply.is_none() && self.text.is_none()
    }

    /// Takes note of an entry that is not kept any more; they come in order.
    pub(super) fn add(&mut self, index: u64, entry: &Entry) {
        let Entry::Assistant(reply) = entry else { return };
        self.reply = Some(index);
        let text = reply.text();
        if !text.is_empty() {
            self.text = Some((index, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_and_places_of_kept_entries_belong_together() {
        for kept in [
            alloc::vec![0, 1, 5, 9, 10],
            alloc::vec![0, 1, 2],
            alloc::vec![3, 4],
            alloc::vec![0, 7],
            Vec::new(),
        ] {
            let gaps = Gaps::between(kept.iter().copied(), 12);
            assert_eq!(gaps.count(), 12 - kept.len() as u64);
            for (place, index) in (0..).zip(&kept) {
                assert_eq!((gaps.place(*index), gaps.index(place)), (place, *index), "{kept:?}");
            }
            for index in 0..12 {
                let first = kept.iter().filter(|one| **one < index).count() as u64;
                assert_eq!(gaps.place(index), first, "{index} of {kept:?}");
            }
            assert_eq!(Gaps::new([gaps.first()].into_iter().chain(gaps.rest().iter().copied())), gaps);
        }
    }
}
