//! The part of a file that a diagnostic shows: bounded, and screened.

use std::ops::Range;

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

use super::screen::screened;
use super::text::brief;

/// The most characters of a line that are shown.
const WIDEST: usize = 320;

/// Characters of a cut line that stand before the place.
const LEAD: usize = 80;

/// The most lines that a place may have; of a longer one its first line is shown.
const TALLEST: usize = 8;

/// The most columns of a file's name.
const LONGEST_NAME: usize = 200;

/// The lines around a place in a file.
#[derive(Debug)]
pub(crate) struct Excerpt {
    name: String,
    text: String,
    /// Lines of the file before the first one here.
    lines_before: usize,
    /// Bytes of the place's line before it, in the file.
    column: usize,
    span: Range<usize>,
}

impl Excerpt {
    /// The excerpt around a place of a text, unless the text has no such place.
    pub(crate) fn around(span: &Range<usize>, name: &str, text: &str) -> Option<Self> {
        text.get(span.clone())?;
        let first = line_start(text, span.start);
        let mut end = span.end;
        if text[span.clone()].lines().count() > TALLEST {
            end = line_end(text, span.start);
        }
        let begin = if first == 0 { 0 } else { line_start(text, first - 1) };
        let mut excerpt = String::new();
        let mut shown = 0..0;
        let mut at = begin;
        for line in text[begin..].split_inclusive('\n') {
            // One line more than the place has.
            if at > end && line_start(text, at - 1) > end {
                break;
            }
            let content = line.trim_end_matches(['\r', '\n']);
            let within = |offset: usize| offset.clamp(at, at + content.len()) - at;
            let (cut, focus) = cut(content, within(span.start)..within(end));
            let has = |offset: usize| {
                (at..at + line.len()).contains(&offset) || offset == text.len() && at + line.len() == offset
            };
            if has(span.start) {
                shown = excerpt.len() + focus.start..excerpt.len() + focus.start;
            }
            if has(end) || end > at {
                shown.end = (excerpt.len() + focus.end).max(shown.start);
            }
            excerpt.push_str(&cut);
            if line.ends_with('\n') {
                excerpt.push('\n');
            }
            at += line.len();
        }
        // A place behind the last line.
        if span.start == text.len() && (text.is_empty() || text.ends_with('\n')) {
            shown = excerpt.len()..excerpt.len();
        }
        Some(Self {
            name: brief(name, LONGEST_NAME),
            text: excerpt,
            lines_before: text[..begin].matches('\n').count(),
            column: span.start - first,
            span: shown,
        })
    }

    /// The place within the excerpt.
    pub(crate) fn span(&self) -> Range<usize> {
        self.span.clone()
    }
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let part = self.text.read_span(span, before, after)?;
        // Without lines around it, it is asked where the place is in the file.
        let column = if before == 0 { self.column } else { part.column() };
        let line = self.lines_before + part.line();
        let name = self.name.clone();
        let count = part.line_count();
        Ok(Box::new(MietteSpanContents::new_named(name, part.data(), *part.span(), line, column, count)))
    }
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline)
}

/// The part of a line that is shown, screened, and where the focus is in it.
fn cut(line: &str, focus: Range<usize>) -> (String, Range<usize>) {
    let before = line[..focus.start].char_indices().rev();
    let is_long = line.chars().nth(WIDEST).is_some();
    let from = if is_long { before.take(LEAD).last().map_or(focus.start, |(at, _)| at) } else { 0 };
    let to = line[from..].char_indices().nth(WIDEST).map_or(line.len(), |(at, _)| from + at);
    let mut shown = String::new();
    if from > 0 {
        shown.push('…');
    }
    shown.push_str(&screened(&line[from..focus.start.min(to)]));
    let start = shown.len();
    shown.push_str(&screened(&line[focus.start.min(to)..focus.end.min(to)]));
    let end = shown.len();
    shown.push_str(&screened(&line[focus.end.min(to)..to]));
    if to < line.len() {
        shown.push('…');
    }
    (shown, start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str, place: &str) -> (String, String) {
        let start = text.find(place).unwrap();
        let excerpt = Excerpt::around(&(start..start + place.len()), "f", text).unwrap();
        (excerpt.text.clone(), excerpt.text[excerpt.span()].to_owned())
    }

    #[test]
    fn the_lines_beside_the_place_are_shown() {
        let text = "one\ntwo\nthree\r\nfour\nfive\n";
        assert_eq!(marked(text, "two"), ("one\ntwo\nthree\n".to_owned(), "two".to_owned()));
        assert_eq!(marked(text, "three"), ("two\nthree\nfour\n".to_owned(), "three".to_owned()));
        assert_eq!(marked(text, "two\nthree").1, "two\nthree");
        assert_eq!(marked(text, "five"), ("four\nfive\n".to_owned(), "five".to_owned()));
        let excerpt = Excerpt::around(&(14..14), "f", text).unwrap();
        assert_eq!((excerpt.lines_before, excerpt.column), (1, 6));
    }

    #[test]
    fn the_end_of_a_file_is_a_place() {
        for text in ["", "a", "a\n", "a\nb\n"] {
            let excerpt = Excerpt::around(&(text.len()..text.len()), "f", text).unwrap();
            assert_eq!(excerpt.span(), excerpt.text.len()..excerpt.text.len(), "{text:?}");
        }
        assert!(Excerpt::around(&(1..3), "f", "ab").is_none());
        assert!(Excerpt::around(&(1..2), "f", "ü").is_none());
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let text = format!("{}HERE{}\n", "x".repeat(70_000), "y".repeat(70_000));
        let (shown, place) = marked(&text, "HERE");
        assert_eq!(place, "HERE");
        assert_eq!(shown.chars().count(), WIDEST + 3);
        assert!(shown.starts_with("…xxx") && shown.ends_with("yyy…\n"), "{shown}");
        // A place that is longer than what is shown ends with it.
        let (shown, place) = marked(&text, &text[10..100_000]);
        assert!(shown.chars().count() <= WIDEST + 3 && shown.contains(&place));
    }

    #[test]
    fn a_tall_place_is_its_first_line() {
        let text = "a\n".repeat(1_000);
        let excerpt = Excerpt::around(&(2..1_500), "f", &text).unwrap();
        assert_eq!((excerpt.text.as_str(), &excerpt.text[excerpt.span()]), ("a\na\na\n", "a"));
    }

    #[test]
    fn what_is_shown_is_screened() {
        let (shown, place) = marked("a\u{1b}[2J = \"\u{202e}x\" # \u{9b}", "\u{202e}x");
        assert_eq!(shown, "a\\u{1b}[2J = \"\\u{202e}x\" # \\u{9b}");
        assert_eq!(place, "\\u{202e}x");
        assert_eq!(Excerpt::around(&(0..0), "a\u{1b}.toml", "").unwrap().name, "a\\u{1b}.toml");
    }
}
