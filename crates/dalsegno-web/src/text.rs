//! Numbers and times as people read them.

use dalsegno_core::{Timestamp, Usage};
use dalsegno_screen::screened;

/// The digits of an id that people see.
const SHORT: usize = 12;

/// The beginning of an id.
pub fn short(id: impl std::fmt::Display) -> String {
    id.to_string().chars().take(SHORT).collect()
}

/// A number with its noun, such as `1 step` or `2,000 steps`.
pub fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// A number with a comma between groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A span of time, such as `40 ms`, `12 s` or `3 min 5 s`.
pub fn duration(millis: u64) -> String {
    let seconds = millis / 1_000;
    match seconds {
        0 => format!("{millis} ms"),
        1..10 => format!("{}.{:02} s", seconds, millis % 1_000 / 10),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..172_800 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => count(seconds / 86_400, "day"),
    }
}

/// How long ago a time was, roughly.
pub fn ago(at: Timestamp, now: u64) -> String {
    let seconds = now.saturating_sub(at.as_millis()) / 1_000;
    match seconds {
        0..5 => "just now".to_owned(),
        5..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} ago", count(seconds / 86_400, "day")),
    }
}

/// A time in UTC to the second, such as `2026-11-26 14:28:35`.
pub fn clock(at: Timestamp) -> String {
    dalsegno_wire::time::rfc3339(at, 0).replace('T', " ").replace('Z', " UTC")
}

/// What a run cost; with a `~` where a part of it is estimated. None where it cost nothing.
pub fn cost(usage: &Usage) -> Option<String> {
    let nano = usage.cost_nano_usd;
    let estimated = if usage.estimated_cost_nano_usd > 0 { "~" } else { "" };
    (nano > 0).then(|| format!("{estimated}${}.{:04}", nano / 1_000_000_000, nano % 1_000_000_000 / 100_000))
}

/// What was used, in a few words; what was not is left out.
pub fn used(usage: &Usage) -> Vec<String> {
    let calls =
        [(usage.model_calls, "model call"), (usage.tool_calls, "tool call"), (usage.tokens(), "token")];
    let mut parts: Vec<String> = calls
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, noun)| count(number, noun))
        .collect();
    parts.extend(cost(usage));
    parts
}

/// A text of another party with every hidden character visible, at most so many characters.
pub fn shown(text: &str, most: usize) -> String {
    let text = screened(text);
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

/// A text in parts: what stands between backticks is code.
pub fn parts(text: &str) -> Vec<(bool, String)> {
    let parts = text.split('`').enumerate().map(|(index, part)| (index % 2 == 1, part.to_owned()));
    parts.filter(|(_, part)| !part.is_empty()).collect()
}

/// The same on one line.
pub fn line(text: &str, most: usize) -> String {
    let end = text.char_indices().nth(most.saturating_mul(4)).map_or(text.len(), |(end, _)| end);
    let words: Vec<&str> = text[..end].split_whitespace().collect();
    shown(&words.join(" "), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_short() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 45, 9_999, 10_000, 61_000, 3_660_000, 200_000_000].map(duration),
            ["0 ms", "45 ms", "9.99 s", "10 s", "1 min 1 s", "1 h 1 min", "2 days"]
        );
        let at = Timestamp::from_millis(1_000_000);
        assert_eq!(
            [0, 30, 90, 7_200, 90_000].map(|s| ago(at, 1_000_000 + s * 1_000)),
            ["just now", "30 s ago", "1 min ago", "2 h ago", "1 day ago"]
        );
        assert_eq!(ago(at, 0), "just now", "a clock that is behind");
        let usage = Usage { model_calls: 1, cost_nano_usd: 20_000_000, ..Usage::default() };
        assert_eq!(used(&usage), ["1 model call", "$0.0200"]);
    }

    #[test]
    fn hidden_characters_are_seen_and_long_texts_are_cut() {
        assert_eq!(shown("a\u{202e}b", 99), "a\\u{202e}b");
        assert_eq!(line("a\n  b\tc", 99), "a b c");
        assert_eq!(line("abcdef", 3), "abc…");
        let code = |text: &str| (true, text.to_owned());
        assert_eq!(
            parts("run `past` <b>"),
            [(false, "run ".to_owned()), code("past"), (false, " <b>".to_owned())]
        );
    }
}
