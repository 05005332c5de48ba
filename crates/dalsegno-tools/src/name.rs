//! Names, and which known one was probably meant.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use crate::limits::MAX_NAME;

/// Reads a name: `[a-z][a-z0-9_]*`, where `-` means `_`.
pub(crate) fn normalize(text: &str) -> Option<String> {
    let name = text.replace('-', "_");
    let valid = name.len() <= MAX_NAME
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    valid.then_some(name)
}

/// Returns what `text` would be as a name, to suggest it.
pub(crate) fn as_name(text: &str) -> Option<String> {
    let replaced: String = text
        .chars()
        .take(MAX_NAME)
        .map(|char| if char.is_ascii_alphanumeric() { char.to_ascii_lowercase() } else { '_' })
        .collect();
    normalize(replaced.trim_matches('_'))
}

/// Says whether the name leads to the machinery of a JavaScript engine; such names are refused everywhere.
pub(crate) fn is_forbidden(name: &str) -> bool {
    matches!(name, "__proto__" | "constructor" | "prototype")
}

/// Returns the known name that is nearest to `text`, where it is near enough to be a slip.
pub(crate) fn nearest<'n>(text: &str, known: impl IntoIterator<Item = &'n str>) -> Option<String> {
    if text.is_empty() || text.len() > MAX_NAME {
        return None;
    }
    let most = (text.chars().count() / 3).max(1);
    known
        .into_iter()
        .filter(|name| name.len() <= MAX_NAME && *name != text)
        .map(|name| (distance(text, name), name))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, name)| name.to_owned())
}

/// The optimal string alignment distance: insertions, deletions, replacements, and neighbours exchanged. `strsim` has it
/// too, but needs `std`.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, from) in left.iter().enumerate() {
        let mut line = Vec::with_capacity(right.len() + 1);
        line.push(row + 1);
        for (column, to) in right.iter().enumerate() {
            let mut least =
                (above[column] + usize::from(from != to)).min(above[column + 1] + 1).min(line[column] + 1);
            let is_exchanged =
                row > 0 && column > 0 && left[row - 1] == *to && right[column - 1] == *from && from != to;
            if is_exchanged {
                least = least.min(before[column - 1] + 1);
            }
            line.push(least);
        }
        before = core::mem::replace(&mut above, line);
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hyphen_in_a_name_means_an_underscore() {
        assert_eq!(normalize("on-call"), Some("on_call".into()));
        for bad in ["", "2nd", "Triage", "a b", "é", "_a"] {
            assert_eq!(normalize(bad), None, "{bad}");
        }
        assert_eq!(as_name("Google Calendar"), Some("google_calendar".into()));
    }

    #[test]
    fn a_slip_is_near_and_another_word_is_not() {
        let known = ["context.set", "context.get", "api_call", "respond"];
        assert_eq!(nearest("context.ste", known), Some("context.set".into()));
        assert_eq!(nearest("apicall", known), Some("api_call".into()));
        assert_eq!(nearest("launch_rocket", known), None);
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
