//! Text for people: shortened, free of control characters, coloured where that is allowed.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use dalsegno_core::Timestamp;
use serde_json::Value;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How a text looks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Style {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

/// A text that looks as said, where colour is allowed.
pub(crate) struct Styled<T> {
    text: T,
    style: Option<Style>,
}

impl<T: fmt::Display> fmt::Display for Styled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(style) = self.style else { return self.text.fmt(f) };
        let code = match style {
            Style::Bold => 1,
            Style::Dim => 2,
            Style::Red => 31,
            Style::Green => 32,
            Style::Yellow => 33,
            Style::Cyan => 36,
        };
        write!(f, "\u{1b}[{code}m")?;
        self.text.fmt(f)?;
        f.write_str("\u{1b}[0m")
    }
}

/// A text in this style, if colour is allowed.
pub(crate) fn styled<T: fmt::Display>(colour: bool, style: Style, text: T) -> Styled<T> {
    Styled { text, style: colour.then_some(style) }
}

/// The digits of an id that people see: unique among millions of runs, and short enough to read.
pub(crate) fn short(id: impl fmt::Display) -> String {
    id.to_string().chars().take(SHORT).collect()
}

/// The number of digits that [`short`] keeps.
pub(crate) const SHORT: usize = 12;

/// A text on one line, at most `width` columns wide.
pub(crate) fn brief(text: &str, width: usize) -> String {
    let mut line = String::new();
    let mut columns = 0;
    let mut space = false;
    for character in text.chars() {
        if character.is_whitespace() || character.is_control() {
            space = !line.is_empty();
            continue;
        }
        let needed = character.width().unwrap_or(0) + usize::from(space);
        if columns + needed > width {
            while columns + 1 > width {
                match line.pop() {
                    Some(last) => columns -= last.width().unwrap_or(0),
                    None => return line,
                }
            }
            line.truncate(line.trim_end().len());
            line.push('…');
            return line;
        }
        if std::mem::take(&mut space) {
            line.push(' ');
        }
        line.push(character);
        columns += needed;
    }
    line
}

/// A text that cannot steer a terminal: without control characters but for line breaks and tabs.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().filter(|character| !steers(*character)).collect()
}

fn steers(character: char) -> bool {
    // Marks that turn the direction of text show words in another order than they are in.
    character.is_control() && !matches!(character, '\n' | '\t')
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A JSON document that says the same and cannot steer a terminal: JSON itself escapes only the oldest control characters.
pub(crate) fn inert(json: &str) -> Cow<'_, str> {
    if !json.chars().any(steers) {
        return Cow::Borrowed(json);
    }
    let mut inert = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if steers(character) {
            // Outside of strings JSON has no such character, and all of them are in the first plane.
            inert.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            inert.push(character);
        }
    }
    Cow::Owned(inert)
}

/// A JSON value in a few words: of an object its plain members first, of lists and objects within it only the size.
pub(crate) fn gist(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let (plain, nested): (Vec<_>, Vec<_>) =
                members.iter().partition(|(_, value)| !value.is_object() && !value.is_array());
            let words = plain.into_iter().chain(nested).map(|(name, value)| match value {
                Value::Array(items) => format!("{name}=[{}]", items.len()),
                Value::Object(members) => format!("{name}={{{}}}", members.len()),
                plain => format!("{name}={plain}"),
            });
            words.collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

/// The columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// A number of things: `1 step`, `2 steps`.
pub(crate) fn count(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// A number with a comma between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A duration as people say it.
pub(crate) fn duration(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 60.. => format!("{} min {:02} s", seconds / 60, seconds % 60),
        10.. => format!("{:.1} s", duration.as_secs_f64()),
        _ => format!("{:.2} s", duration.as_secs_f64()),
    }
}

/// A point in time in UTC, to the second.
pub(crate) fn time(at: Timestamp) -> String {
    rfc3339(at, 0)
}

/// A point in time in UTC, to the millisecond.
pub(crate) fn exact_time(at: Timestamp) -> String {
    rfc3339(at, 3)
}

fn rfc3339(at: Timestamp, decimals: usize) -> String {
    let time =
        i64::try_from(at.as_millis()).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    // Only a clock that is thousands of years off has no date.
    time.map_or_else(|| format!("{} ms", at.as_millis()), |time| format!("{time:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_at_its_width() {
        assert_eq!(brief("disk  full\n on db-1 ", 20), "disk full on db-1");
        assert_eq!(brief("disk full on db-1", 17), "disk full on db-1");
        assert_eq!(brief("disk full on db-1", 10), "disk full…");
        assert_eq!(brief("日本語のテキスト", 7), "日本語…");
        assert_eq!(brief("日本", 1), "…");
        assert_eq!(brief("", 5), "");
    }

    #[test]
    fn the_gist_of_a_value_begins_with_what_is_plain() {
        let value = serde_json::json!({"factors": [1, 2], "level": "very high", "more": {}, "value": 0.9});
        assert_eq!(gist(&value), r#"level="very high" value=0.9 factors=[2] more={0}"#);
        assert_eq!(gist(&Value::from("plain text")), "plain text");
        assert_eq!(gist(&serde_json::json!([1, {"a": null}])), r#"[1,{"a":null}]"#);
    }

    #[test]
    fn no_text_can_steer_a_terminal() {
        assert_eq!(brief("a\u{1b}[2Jb", 20), "a [2Jb");
        assert_eq!(harmless("a\u{1b}[2J\nb\t\u{7}"), "a[2J\nb\t");
    }

    #[test]
    fn no_document_can_steer_a_terminal() {
        let value = serde_json::json!({"a": "x\u{9b}2J\u{7f}\u{202e}\u{1b}\n日本"});
        let json = serde_json::to_string_pretty(&value).unwrap();
        let inert = inert(&json);
        assert!(!inert.chars().any(steers), "{inert:?}");
        assert_eq!(serde_json::from_str::<Value>(&inert).unwrap(), value);
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn times_are_in_utc() {
        let at = Timestamp::from_millis(1_760_000_000_123);
        assert_eq!(time(at), "2025-10-09T08:53:20Z");
        assert_eq!(exact_time(at), "2025-10-09T08:53:20.123Z");
        assert_eq!(time(Timestamp::from_millis(u64::MAX)), "18446744073709551615 ms");
    }

    #[test]
    fn durations_are_as_precise_as_they_matter() {
        assert_eq!(duration(Duration::from_millis(123)), "0.12 s");
        assert_eq!(duration(Duration::from_millis(59_940)), "59.9 s");
        assert_eq!(duration(Duration::from_secs(125)), "2 min 05 s");
    }
}
