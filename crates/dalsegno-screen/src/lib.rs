//! What may reach a reader as it is: nothing that steers a terminal, hides, or stands for something else.
//!
//! Names, answers, arguments, file contents and error texts come from other parties. A character of theirs that a person
//! cannot see is shown escaped, and none is left out: what is read is what there is.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use icu_properties::props::{
    Alphabetic, DefaultIgnorableCodePoint, Emoji, ExtendedPictographic, GeneralCategory,
};
use icu_properties::{CodePointMapData, CodePointSetData};

/// Joins the characters beside it: emoji to one, or letters of some scripts.
const JOINER: char = '\u{200d}';

/// Keeps letters of some scripts apart.
const NON_JOINER: char = '\u{200c}';

/// Asks for the colourful form of the character before it.
const EMOJI_FORM: char = '\u{fe0f}';

/// Looks like a space, and is none by its category.
const BLANK_BRAILLE: char = '\u{2800}';

/// Says whether a character shows itself: controls, formats, marks of direction, separators and spaces other than the
/// usual ones, private and unassigned code points and everything that is drawn as nothing do not.
pub fn is_plain(character: char) -> bool {
    use GeneralCategory as Category;
    match character {
        '\n' | '\t' | ' '..='~' => true,
        '\0'..='\u{9f}' | BLANK_BRAILLE => false,
        _ => {
            !matches!(
                CodePointMapData::<GeneralCategory>::new().get(character),
                Category::Control
                    | Category::Format
                    | Category::LineSeparator
                    | Category::ParagraphSeparator
                    | Category::SpaceSeparator
                    | Category::PrivateUse
                    | Category::Surrogate
                    | Category::Unassigned
            ) && !CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(character)
        }
    }
}

/// A text of which every character can be seen: all others are written as `\u{202e}`.
pub fn screened(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut screened = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        put(character, is_plain(character), &mut screened);
    }
    Cow::Owned(screened)
}

/// A JSON document that says the same, of which every character can be seen: the others are escaped as JSON does it.
pub fn inert(json: &str) -> Cow<'_, str> {
    if json.chars().all(is_plain) {
        return Cow::Borrowed(json);
    }
    let mut inert = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_plain(character) {
            inert.push(character);
            continue;
        }
        // Outside of strings JSON has no such character.
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(inert, "\\u{unit:04x}");
        }
    }
    Cow::Owned(inert)
}

fn put(character: char, plain: bool, to: &mut String) {
    if plain {
        to.push(character);
    } else {
        to.extend(character.escape_unicode());
    }
}

/// Screens running text that nobody agrees to, such as the answer of a model: what writing needs may stay. These are the
/// spaces of all scripts, line ends of two characters, and what joins emoji or letters beside it.
///
/// The text may come in pieces.
#[derive(Debug, Default)]
pub struct Prose {
    /// The last character that stands for itself.
    before: Option<char>,
    /// Its right to stay depends on what comes next.
    held: Option<char>,
}

impl Prose {
    /// Screens the whole of a text.
    #[cfg(test)]
    pub fn of(text: &str) -> String {
        let mut prose = Self::default();
        let mut screened = String::with_capacity(text.len());
        prose.push(text, &mut screened);
        prose.end(&mut screened);
        screened
    }

    /// Screens the next piece.
    pub fn push(&mut self, text: &str, to: &mut String) {
        for character in text.chars() {
            if let Some(held) = self.held.take() {
                put(held, self.may_stay(held, character), to);
            }
            if matches!(character, '\r' | JOINER | NON_JOINER) {
                self.held = Some(character);
                continue;
            }
            let form = character == EMOJI_FORM && self.before.is_some_and(is_emoji);
            put(character, form || is_space(character) || is_plain(character), to);
            if !form {
                self.before = Some(character);
            }
        }
    }

    /// Ends the text.
    pub fn end(&mut self, to: &mut String) {
        if let Some(held) = self.held.take() {
            put(held, false, to);
        }
        self.before = None;
    }

    fn may_stay(&self, held: char, next: char) -> bool {
        let both = |fits: fn(char) -> bool| self.before.is_some_and(fits) && fits(next);
        match held {
            '\r' => next == '\n',
            JOINER => both(|one| is_emoji(one) && !one.is_ascii()) || both(is_foreign_letter),
            _ => both(is_foreign_letter),
        }
    }
}

fn is_space(character: char) -> bool {
    CodePointMapData::<GeneralCategory>::new().get(character) == GeneralCategory::SpaceSeparator
}

fn is_emoji(character: char) -> bool {
    CodePointSetData::new::<ExtendedPictographic>().contains(character)
        || CodePointSetData::new::<Emoji>().contains(character)
}

/// A letter or a mark of a script in which joiners have a meaning: of none that is written with ASCII.
fn is_foreign_letter(character: char) -> bool {
    use GeneralCategory as Category;
    let is_mark = |character| {
        matches!(
            CodePointMapData::<GeneralCategory>::new().get(character),
            Category::NonspacingMark | Category::SpacingMark
        )
    };
    !character.is_ascii()
        && (CodePointSetData::new::<Alphabetic>().contains(character) || is_mark(character))
        && !CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(character)
}

/// A writer of text lines that are screened: each write is one text, as the log does it.
pub struct Screened<W>(pub W);

impl<W: Write> Write for Screened<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(screened(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A writer of JSON lines, each of which is made inert.
pub struct InertLines<W> {
    to: W,
    line: Vec<u8>,
}

impl<W: Write> InertLines<W> {
    /// Writes to `to`.
    pub fn new(to: W) -> Self {
        Self { to, line: Vec::new() }
    }
}

impl<W: Write> Write for InertLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        // A character may be in two writes, and is never in two lines.
        if let Some(end) = self.line.iter().rposition(|byte| *byte == b'\n') {
            let lines: Vec<u8> = self.line.drain(..=end).collect();
            self.to.write_all(inert(&String::from_utf8_lossy(&lines)).as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// What must never be shown as it is, and the name by which people know it.
    const HOSTILE: &[(&str, &str)] = &[
        ("escape", "\u{1b}]0;OWNED\u{7}"),
        ("bell", "\u{7}"),
        ("backspace", "\u{8}"),
        ("carriage return", "harmless\rrm -rf"),
        ("C1 control", "\u{9b}2J"),
        ("next line", "\u{85}"),
        ("delete", "\u{7f}"),
        ("override of direction", "\u{202e}MOC"),
        ("isolate", "\u{2066}x\u{2069}"),
        ("mark of direction", "\u{200e}\u{200f}\u{61c}"),
        ("zero-width space", "\u{200b}"),
        ("zero-width joiner", "a\u{200d}b"),
        ("zero-width non-joiner", "a\u{200c}b"),
        ("word joiner", "\u{2060}"),
        ("byte order mark", "\u{feff}"),
        ("soft hyphen", "\u{ad}"),
        ("line separator", "\u{2028}"),
        ("paragraph separator", "\u{2029}"),
        ("variation selector", "a\u{fe00}"),
        ("late variation selector", "a\u{e0100}"),
        ("tags", "\u{e0068}\u{e0069}"),
        ("Hangul filler", "\u{3164}"),
        ("half-width Hangul filler", "\u{ffa0}"),
        ("grapheme joiner", "\u{34f}"),
        ("invisible times", "\u{2062}"),
        ("annotation", "\u{fff9}x\u{fffb}"),
        ("private use", "\u{e000}\u{10fffd}"),
        ("no character", "\u{fdd0}\u{1ffff}\u{ffff}"),
        ("blank braille", "\u{2800}"),
    ];

    /// Spaces, which only running text may have.
    const SPACES: &[&str] = &["\u{a0}", "\u{2003}", "\u{202f}", "\u{3000}", "\u{1680}"];

    #[test]
    fn nothing_hidden_passes_and_nothing_is_left_out() {
        let all = HOSTILE.iter().map(|(_, text)| *text).chain(SPACES.iter().copied());
        for text in all {
            let shown = screened(&format!("<{text}>")).into_owned();
            assert!(shown.chars().all(is_plain), "{shown:?}");
            let hidden = text.chars().filter(|character| !is_plain(*character));
            for character in hidden {
                assert!(shown.contains(&character.escape_unicode().to_string()), "{shown:?}");
            }
            assert_eq!(screened(&shown), shown, "what is screened stays as it is");
        }
        assert_eq!(screened("a\u{202e}b\u{1b}[2J\n\tc"), "a\\u{202e}b\\u{1b}[2J\n\tc");
    }

    #[test]
    fn writing_of_all_scripts_passes() {
        for text in [
            "plain",
            "Grüße: „ja“ – 5 €",
            "日本語のテキスト、",
            "नमस्ते",
            "שלום",
            "مرحبا",
            "👍🏽 ✓ │ ╭─",
            "a\u{301}",
        ] {
            assert_eq!(screened(text), text);
            assert_eq!(Prose::of(text), text);
        }
    }

    #[test]
    fn prose_keeps_what_writing_needs_and_nothing_else() {
        for (name, text) in HOSTILE {
            assert!(Prose::of(text).chars().all(is_plain), "{name}");
        }
        let family = "👩\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3}";
        let persian = "می\u{200c}خواهم";
        for text in [family, persian, "un\u{a0}: 1\u{202f}000", "日本\u{3000}語", "two\r\nlines"] {
            assert_eq!(Prose::of(text), text);
        }
        // What is agreed to is not prose.
        assert!(screened(family).contains("\\u{200d}") && screened(persian).contains("\\u{200c}"));
        assert_eq!(Prose::of("x\u{fe0f} 👩\u{200d}"), "x\\u{fe0f} 👩\\u{200d}");
        assert_eq!(Prose::of("👩\u{200d}\u{200d}👧"), "👩\\u{200d}\u{200d}👧");
    }

    #[test]
    fn prose_may_come_in_pieces() {
        let text = "a 👩\u{200d}👧 می\u{200c}خ\r\nb\u{200d}c \u{1b}[2J ❤\u{fe0f}";
        let mut prose = Prose::default();
        let mut pieces = String::new();
        for character in text.chars() {
            prose.push(character.encode_utf8(&mut [0; 4]), &mut pieces);
        }
        prose.end(&mut pieces);
        assert_eq!(pieces, Prose::of(text));
    }

    #[test]
    fn a_document_says_the_same() {
        let hostile: String = HOSTILE.iter().map(|(_, text)| *text).chain(SPACES.iter().copied()).collect();
        let value = serde_json::json!({"a": hostile, "\u{202e}\u{e0068}": "日本"});
        for json in [serde_json::to_string_pretty(&value).unwrap(), value.to_string()] {
            let inert = inert(&json);
            assert!(inert.chars().all(is_plain), "{inert:?}");
            assert_eq!(serde_json::from_str::<Value>(&inert).unwrap(), value);
        }
    }

    #[test]
    fn a_log_is_screened() {
        let mut log = Screened(Vec::new());
        log.write_all("name=\u{1b}[2J\u{202e}\n".as_bytes()).unwrap();
        let mut lines = InertLines::new(Vec::new());
        for byte in "{\"a\":\"\u{202e}ü\"}\n".bytes() {
            lines.write_all(&[byte]).unwrap();
        }
        assert_eq!(lines.to, "{\"a\":\"\\u202eü\"}\n".as_bytes());
        assert_eq!(log.0, "name=\\u{1b}[2J\\u{202e}\n".as_bytes());
    }
}
