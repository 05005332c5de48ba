//! Halves of characters in events.
//!
//! JSON escapes a character beyond the sixteenth bit as two, and some servers cut their text between the two: one event ends
//! with `\ud83d`, the next begins with `\ude00`. Neither is JSON by itself.

use std::borrow::Cow;

/// Joins the halves of characters across the events of one stream.
#[derive(Default)]
pub(super) struct Surrogates {
    /// The first half, which the last event ended with.
    pending: Option<u16>,
}

impl Surrogates {
    /// The event with whole characters: a first half at the end of a text waits for the second one, and a half without
    /// another becomes U+FFFD.
    pub(super) fn join<'d>(&mut self, data: &'d str) -> Cow<'d, str> {
        let Some(start) = data.find('\\').filter(|_| data.contains("\\ud") || data.contains("\\uD")) else {
            return Cow::Borrowed(data);
        };
        let (before, mut rest) = data.split_at(start);
        let mut joined = before.to_owned();
        while let Some(at) = rest.find('\\') {
            joined.push_str(&rest[..at]);
            rest = &rest[at..];
            let Some(unit) = half(rest) else {
                // Any other escape: two characters, of which the second may be a backslash.
                let taken = rest.chars().take(2).map(char::len_utf8).sum();
                joined.push_str(&rest[..taken]);
                rest = &rest[taken..];
                continue;
            };
            let (escape, after) = rest.split_at(ESCAPE);
            rest = after;
            if is_second(unit) {
                match self.pending.take().filter(|_| joined.ends_with('"')) {
                    Some(first) => joined.push_str(&format!("\\u{first:04x}{escape}")),
                    None => joined.push_str(LOST),
                }
            } else if half(after).is_some_and(is_second) {
                joined.push_str(escape);
                joined.push_str(&after[..ESCAPE]);
                rest = &after[ESCAPE..];
            } else if after.starts_with('"') {
                self.pending = Some(unit);
            } else {
                joined.push_str(LOST);
            }
        }
        joined.push_str(rest);
        Cow::Owned(joined)
    }
}

/// The half of a character that a text begins with, as an escape.
fn half(text: &str) -> Option<u16> {
    let digits = text
        .strip_prefix("\\u")?
        .get(..4)
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u16::from_str_radix(digits, 16).ok().filter(|unit| (0xd800..=0xdfff).contains(unit))
}

fn is_second(unit: u16) -> bool {
    unit >= 0xdc00
}

/// The bytes of an escape.
const ESCAPE: usize = 6;

/// What stands for a half without another.
const LOST: &str = "\\ufffd";

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(events: &[&str]) -> Vec<String> {
        let mut surrogates = Surrogates::default();
        let texts = events.iter().map(|event| {
            let event = surrogates.join(event);
            serde_json::from_str::<serde_json::Value>(&event).unwrap()["t"].as_str().unwrap().to_owned()
        });
        texts.collect()
    }

    #[test]
    fn halves_are_joined_across_events() {
        assert_eq!(joined(&[r#"{"t":"a\ud83d"}"#, r#"{"t":"\ude00b"}"#]), ["a", "\u{1f600}b"]);
        assert_eq!(
            joined(&[r#"{"t":"\uD83D"}"#, r#"{"t":"", "u":1}"#, r#"{"t":"\uDE00"}"#]),
            ["", "", "\u{1f600}"]
        );
        assert_eq!(joined(&[r#"{"t":"\ud83d\ude00\n"}"#]), ["\u{1f600}\n"]);
    }

    #[test]
    fn a_half_without_another_is_replaced() {
        assert_eq!(joined(&[r#"{"t":"\ude00b"}"#, r#"{"t":"a\ud83db"}"#]), ["\u{fffd}b", "a\u{fffd}b"]);
        assert_eq!(joined(&[r#"{"t":"\ud83d"}"#, r#"{"t":"a\ude00"}"#]), ["", "a\u{fffd}"]);
        assert_eq!(joined(&[r#"{"t":"\ud83d\ud83d\ude00"}"#]), ["\u{fffd}\u{1f600}"]);
    }

    #[test]
    fn what_is_no_escape_is_left_alone() {
        assert_eq!(joined(&[r#"{"t":"\\ud83d"}"#, r#"{"t":"\u00e9\\\ud83d"}"#]), ["\\ud83d", "\u{e9}\\"]);
        let mut surrogates = Surrogates::default();
        assert!(matches!(surrogates.join(r#"{"t":"\u00e9 caf"}"#), Cow::Borrowed(_)));
        for broken in ["\\u", "\\ud8", "\\ud83d", "\\ud83\u{e9}", "\"\\"] {
            surrogates.join(broken);
        }
    }
}
