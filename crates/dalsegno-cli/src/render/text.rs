//! Text for people: shortened, with numbers, times and styles as people read them.

use std::fmt;
use std::time::Duration;

use dalsegno_core::Timestamp;
use dalsegno_store::Evidence;
use serde_json::Value;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::screen::screened;

/// How a text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

impl Style {
    /// The number by which a terminal knows it.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Bold => 1,
            Self::Dim => 2,
            Self::Red => 31,
            Self::Green => 32,
            Self::Yellow => 33,
            Self::Cyan => 36,
        }
    }
}

/// A text for people, parts of which have a style.
///
/// The styles are beside the text and not in it: the stream that writes it screens the text first, and then puts the
/// styles on where colour is allowed.
#[derive(Debug, Default)]
pub(crate) struct Words(Vec<(Option<Style>, String)>);

impl Words {
    /// The same with more behind it.
    pub(crate) fn and(mut self, more: impl Into<Self>) -> Self {
        self.0.extend(more.into().0);
        self
    }

    /// The parts, in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Option<Style>, &str)> {
        self.0.iter().map(|(style, text)| (*style, text.as_str()))
    }
}

impl From<String> for Words {
    fn from(text: String) -> Self {
        Self(vec![(None, text)])
    }
}

impl From<&str> for Words {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<&String> for Words {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}

impl From<fmt::Arguments<'_>> for Words {
    fn from(text: fmt::Arguments<'_>) -> Self {
        text.to_string().into()
    }
}

/// A text in this style.
pub(crate) fn styled(style: Style, text: impl fmt::Display) -> Words {
    Words(vec![(Some(style), text.to_string())])
}

/// The digits of an id that people see: unique among millions of runs, and short enough to read.
pub(crate) fn short(id: impl fmt::Display) -> String {
    id.to_string().chars().take(SHORT).collect()
}

/// The number of digits that [`short`] keeps.
pub(crate) const SHORT: usize = 12;

/// A text on one line, at most `width` columns wide, in which every character can be seen.
pub(crate) fn brief(text: &str, width: usize) -> String {
    let mut line = String::new();
    let mut columns = 0;
    let mut space = false;
    // The end of a line may have two characters, and is a space here.
    for character in screened(&text.replace("\r\n", "\n")).chars() {
        if matches!(character, ' ' | '\n' | '\t') {
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

/// A text in lines of at most `width` columns, broken at spaces where there are some. Every character can be seen.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in screened(text).split_whitespace() {
        let needed = self::width(word);
        if used > 0 && used + 1 + needed > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        } else if used > 0 {
            line.push(' ');
            used += 1;
        }
        for character in word.chars() {
            let columns = character.width().unwrap_or(0);
            // A word that is longer than a line is cut.
            if used > 0 && used + columns > width {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(character);
            used += columns;
        }
    }
    lines.push(line);
    lines
}

/// A JSON value on one line: of an object its plain members first, lists and objects within it as JSON.
pub(crate) fn gist(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let (plain, nested): (Vec<_>, Vec<_>) =
                members.iter().partition(|(_, value)| !value.is_object() && !value.is_array());
            let words = plain.into_iter().chain(nested).map(|(name, value)| format!("{name}={value}"));
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
        seconds @ 86_400.. => format!("{} d {:02} h", seconds / 86_400, seconds / 3_600 % 24),
        seconds @ 3_600.. => format!("{} h {:02} min", seconds / 3_600, seconds / 60 % 60),
        seconds @ 60.. => format!("{} min {:02} s", seconds / 60, seconds % 60),
        10.. => format!("{:.1} s", duration.as_secs_f64()),
        _ => format!("{:.2} s", duration.as_secs_f64()),
    }
}

/// An amount in US dollars, given in billionths of one: to the cent from a dollar on, and to four digits below.
pub(crate) fn dollars(nano: u64) -> String {
    let dollars = nano as f64 / 1e9;
    match dollars {
        1.0.. => format!("${dollars:.2}"),
        0.0001.. => format!("${dollars:.4}"),
        _ if nano == 0 => "$0".to_owned(),
        _ => format!("${dollars:.9}").trim_end_matches('0').to_owned(),
    }
}

/// A point in time in UTC, to the second.
pub(crate) fn time(at: Timestamp) -> String {
    dalsegno_wire::time::rfc3339(at, 0)
}

/// What a tool says of an operation in doubt.
pub(crate) fn evidence(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Happened => "it took place",
        Evidence::NotHappened => "it did not take place",
        Evidence::Unknown => "it does not know",
    }
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
        assert_eq!(gist(&value), r#"level="very high" value=0.9 factors=[1,2] more={}"#);
        assert_eq!(gist(&Value::from("plain text")), "plain text");
        assert_eq!(gist(&serde_json::json!([1, {"a": null}])), r#"[1,{"a":null}]"#);
    }

    #[test]
    fn a_short_text_hides_nothing() {
        assert_eq!(brief("a\u{1b}[2Jb\r\nc\u{202e}", 40), "a\\u{1b}[2Jb c\\u{202e}");
        assert_eq!(brief("a\u{1b}[2Jb", 6), "a\\u{1…");
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn times_are_in_utc() {
        let at = Timestamp::from_millis(1_760_000_000_123);
        assert_eq!(time(at), "2025-10-09T08:53:20Z");
        assert_eq!(time(Timestamp::from_millis(u64::MAX)), "18446744073709551615 ms");
    }

    #[test]
    fn durations_are_as_precise_as_they_matter() {
        assert_eq!(duration(Duration::from_millis(123)), "0.12 s");
        assert_eq!(duration(Duration::from_millis(59_940)), "59.9 s");
        assert_eq!(duration(Duration::from_secs(125)), "2 min 05 s");
        assert_eq!(duration(Duration::from_secs(7_384)), "2 h 03 min");
        assert_eq!(duration(Duration::from_secs(100_000)), "1 d 03 h");
    }

    #[test]
    fn a_text_is_broken_at_spaces_and_long_words_are_cut() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefghij k", 4), ["abcd", "efgh", "ij k"]);
        assert_eq!(wrapped("one\ntwo", usize::MAX), ["one two"]);
        assert_eq!(wrapped("日本語", 4), ["日本", "語"]);
        assert_eq!(wrapped("", 4), [""]);
    }

    #[test]
    fn an_amount_is_never_rounded_to_nothing() {
        let told = [0, 120, 8_193_250, 12_345_678_901].map(dollars);
        assert_eq!(told, ["$0", "$0.00000012", "$0.0082", "$12.35"]);
    }
}
