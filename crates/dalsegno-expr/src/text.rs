//! Text counted in UTF-16 units, as JavaScript counts it.

use alloc::borrow::{Cow, ToOwned};
use alloc::string::String;
use core::cmp::Ordering;

/// Returns the length in UTF-16 units.
pub(crate) fn length(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(char::len_utf16).sum() }
}

/// Returns the units from `start` to `end`, which are at most the length.
///
/// Half of a surrogate pair becomes U+FFFD: text cannot hold it, and so lengths stay what they are.
pub(crate) fn slice(text: Cow<'_, str>, start: usize, end: usize) -> Cow<'_, str> {
    if start >= end {
        return Cow::Borrowed("");
    }
    let (first, splits_first) = byte_index(&text, start);
    let (last, splits_last) = byte_index(&text, end);
    if !splits_first && !splits_last {
        return match text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[first..last]),
            Cow::Owned(text) => Cow::Owned(text[first..last].to_owned()),
        };
    }
    let mut sliced = String::new();
    // A split character starts at the index found; its second half is what a slice starts with, its first half
    // what a slice ends with.
    let mut first = first;
    if splits_first {
        sliced.push(char::REPLACEMENT_CHARACTER);
        first += SURROGATE_PAIR_BYTES;
    }
    if first < last {
        sliced.push_str(&text[first..last]);
    }
    if splits_last && first <= last {
        sliced.push(char::REPLACEMENT_CHARACTER);
    }
    Cow::Owned(sliced)
}

/// Returns the position of `needle` in units, at or after `from` units, as `indexOf` does.
pub(crate) fn find(text: &str, needle: &str, from: usize) -> Option<usize> {
    // The empty text is found anywhere, inside a pair and past the end too.
    if needle.is_empty() {
        return Some(from.min(length(text)));
    }
    let (mut start, is_split) = byte_index(text, from);
    if is_split {
        start += SURROGATE_PAIR_BYTES;
    }
    let found = start + text.get(start..)?.find(needle)?;
    Some(length(&text[..found]))
}

/// Tells whether `needle` stands at a position in units. Half of a pair equals no text.
pub(crate) fn starts_with(text: &str, needle: &str, start: usize) -> bool {
    let (start, is_split) = byte_index(text, start);
    needle.is_empty() || (!is_split && text[start..].starts_with(needle))
}

/// Tells whether `needle` ends at a position in units. Half of a pair equals no text.
pub(crate) fn ends_with(text: &str, needle: &str, end: usize) -> bool {
    let (end, is_split) = byte_index(text, end);
    needle.is_empty() || (!is_split && text[..end].ends_with(needle))
}

/// Orders by UTF-16 units, which differs from the order of characters above U+FFFF.
pub(crate) fn compare(left: &str, right: &str) -> Ordering {
    left.encode_utf16().cmp(right.encode_utf16())
}

/// Returns the byte where a unit starts, or where its character starts if the unit is the second of a pair.
fn byte_index(text: &str, unit: usize) -> (usize, bool) {
    if text.is_ascii() {
        return (unit.min(text.len()), false);
    }
    let mut units = 0;
    for (index, character) in text.char_indices() {
        if units >= unit {
            return (index, false);
        }
        if units + 1 == unit && character.len_utf16() == 2 {
            return (index, true);
        }
        units += character.len_utf16();
    }
    (text.len(), false)
}

/// A character of two UTF-16 units has four bytes in UTF-8.
const SURROGATE_PAIR_BYTES: usize = 4;
