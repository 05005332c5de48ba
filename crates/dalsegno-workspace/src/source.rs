//! The text of a workspace file, with its lines and columns.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

/// The text of a workspace file. Cheap to clone.
///
/// Secrets that were found in clear are masked, so that a rendered line does not spread them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    file: PathBuf,
    text: Arc<str>,
}

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Position {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
}

impl SourceFile {
    pub(crate) fn new(file: PathBuf, text: impl Into<Arc<str>>) -> Self {
        Self { file, text: text.into() }
    }

    /// The path, relative to the workspace.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Finds the line and the column of a byte; one past the end counts as the end.
    pub fn position(&self, offset: usize) -> Position {
        let before = &self.text[..self.floor(offset)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        Position { line, column: before[line_start..].chars().count() + 1 }
    }

    /// Returns a line without its line break, counted from 1.
    pub fn line(&self, line: usize) -> Option<&str> {
        self.text.lines().nth(line.checked_sub(1)?)
    }

    /// Brings a span inside the text and onto character boundaries.
    pub(crate) fn clamp(&self, span: Range<usize>) -> Range<usize> {
        let start = self.floor(span.start);
        start..self.floor(span.end).max(start)
    }

    /// Returns the text of a span.
    pub(crate) fn slice(&self, span: Range<usize>) -> &str {
        &self.text[self.clamp(span)]
    }

    /// Hides the text of some spans; all offsets, lines and columns stay what they are.
    pub(crate) fn masked(&self, spans: &[Range<usize>]) -> Self {
        if spans.is_empty() {
            return self.clone();
        }
        let mut text = self.text.to_string();
        for span in spans {
            let span = self.clamp(span.clone());
            let mask: String = self.text[span.clone()].chars().map(mask).collect();
            text.replace_range(span, &mask);
        }
        Self::new(self.file.clone(), text)
    }

    fn floor(&self, offset: usize) -> usize {
        self.text.floor_char_boundary(offset)
    }
}

/// A character that says nothing and takes as many bytes.
fn mask(letter: char) -> char {
    match (letter, letter.len_utf8()) {
        ('\n', _) => '\n',
        (_, 1) => '*',
        (_, 2) => '×',
        (_, 3) => '•',
        (_, _) => '🞄',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> SourceFile {
        SourceFile::new(PathBuf::from("a.toml"), text)
    }

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let source = source("é = 1\nb = 'ü'\n");
        assert_eq!(source.position(0), Position { line: 1, column: 1 });
        assert_eq!(source.position(3), Position { line: 1, column: 3 });
        assert_eq!(source.position(7), Position { line: 2, column: 1 });
        assert_eq!(source.position(999), Position { line: 3, column: 1 });
        assert_eq!(source.line(2), Some("b = 'ü'"));
        assert_eq!(source.line(0), None);
    }

    #[test]
    fn a_span_that_cuts_a_character_is_brought_to_its_boundary() {
        let source = source("'é'");
        assert_eq!(source.clamp(2..9), 1..4);
        assert_eq!(source.clamp(usize::MAX..usize::MAX), 4..4);
    }

    #[test]
    fn masking_keeps_every_offset_and_every_line() {
        let masked = source("key = 'sé'\nb = 1").masked(std::slice::from_ref(&(7..10)));
        assert_eq!(masked.text(), "key = '*×'\nb = 1");
        let masked = source("'a\nb' c").masked(std::slice::from_ref(&(0..5)));
        assert_eq!(masked.text(), "**\n** c");
    }
}
