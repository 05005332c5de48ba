//! Documents of agents, tools and tenants: the lists of them, and the page of one with its editor.

use askama::Template;
use similar::{ChangeTag, TextDiff};

use crate::markup::Markup;
use crate::shell::Shell;
use crate::text;

/// Lines around one that has changed.
const AROUND: usize = 2;
/// Most lines of a comparison.
const DIFF_MAX: usize = 400;
/// Most lines of which hidden characters are told.
const HIDDEN_MAX: usize = 20;

/// A list of documents.
#[derive(Debug, Clone, Template)]
#[template(path = "documents.html")]
pub struct DocumentsPage {
    /// What surrounds it.
    pub shell: Shell,
    /// The heading.
    pub title: String,
    /// What one of them is called: `agent`, `tool` or `tenant`.
    pub word: &'static str,
    /// The address of the list.
    pub address: String,
    /// What there is, by name.
    pub rows: Vec<DocumentRow>,
    /// Whether new ones can be written.
    pub may_add: bool,
    /// Further places: label and address.
    pub links: Vec<(String, String)>,
    /// What has just happened.
    pub done: Option<&'static str>,
    /// What is wrong with the name of a new one.
    pub problem: Option<String>,
}

/// A document in a list.
#[derive(Debug, Clone)]
pub struct DocumentRow {
    /// Its name.
    pub name: String,
    /// The address of its page, if the person may see it.
    pub href: Option<String>,
    /// Where it comes from, such as `file`.
    pub layer: String,
    /// What it does, or what it has.
    pub words: String,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// Why it cannot be used.
    pub broken: Option<String>,
    /// The address of a conversation with it.
    pub chat: Option<String>,
}

/// A document, with its editor for those who may write it.
#[derive(Debug, Clone, Template)]
#[template(path = "document.html")]
pub struct DocumentPage {
    /// What surrounds it.
    pub shell: Shell,
    /// What it is called: `agent`, `tool` or `tenant`.
    pub word: &'static str,
    /// Its name.
    pub name: String,
    /// The address of the page.
    pub address: String,
    /// The list that it is in: label and address.
    pub up: (String, String),
    /// The file that it is, or stands in for, as diagnostics name it.
    pub file: String,
    /// The media type of its text.
    pub media_type: &'static str,
    /// Where it comes from, and who wrote it; empty where there is none yet.
    pub facts: Vec<String>,
    /// The version that the text follows from; empty where there is none yet.
    pub version: String,
    /// The text, as it is or as it was typed.
    pub text: String,
    /// Whether the person may change it.
    pub may_write: bool,
    /// Whether it can be deleted: only a document of the catalogue can.
    pub may_delete: bool,
    /// What is wrong with the text.
    pub found: Vec<Found>,
    /// Whether the text was checked.
    pub is_checked: bool,
    /// Why the last request failed.
    pub problem: Option<String>,
    /// What has just happened.
    pub done: Option<&'static str>,
    /// What changed meanwhile, where a text was to be saved over a newer version.
    pub stale: Option<Stale>,
    /// Its changes, the newest first.
    pub versions: Vec<VersionRow>,
    /// The form that tries a tool.
    pub trial: Option<Trial>,
    /// Whether this is an earlier version, to be looked at.
    pub is_earlier: bool,
}

/// Something that is wrong with a document, as far as its reader may know.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// `error`, `warning` or `note`.
    pub class: &'static str,
    /// The name of the diagnostic.
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// What stands at the place.
    pub label: Option<String>,
    /// What to do.
    pub help: Option<String>,
    /// Another document that it is about.
    pub file: Option<String>,
    /// Line and column from 1, byte and number of bytes.
    pub place: Option<[usize; 4]>,
}

/// What changed while a text was edited.
#[derive(Debug, Clone)]
pub struct Stale {
    /// Who wrote the version that is there now; or that there is none any more.
    pub words: String,
    /// What the lines are a comparison of.
    pub title: &'static str,
    /// The lines that differ, with those around them.
    pub lines: Vec<DiffLine>,
}

/// A line of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffLine {
    /// `+`, `-`, a space, or `…` where lines are left out.
    pub sign: char,
    /// The line.
    pub text: String,
}

/// A change of a document.
#[derive(Debug, Clone)]
pub struct VersionRow {
    /// The number of the change.
    pub number: u64,
    /// The address of the text; none for a deletion.
    pub href: Option<String>,
    /// The beginning of the version.
    pub short: String,
    /// When.
    pub at: String,
    /// Who.
    pub by: String,
}

/// The form that tries a tool, and what came of it.
#[derive(Debug, Clone, Default)]
pub struct Trial {
    /// The actions that the tool in use has.
    pub actions: Vec<String>,
    /// The action, as it was typed.
    pub action: String,
    /// The arguments, as they were typed.
    pub params: String,
    /// The tenant on whose behalf; none where the document belongs to one.
    pub tenant: Option<String>,
    /// The recording that answers its requests, as it was typed.
    pub recording: String,
    /// Whether its requests may be sent.
    pub may_live: bool,
    /// Whether they were to be sent.
    pub is_live: bool,
    /// Why it was not performed.
    pub problem: Option<String>,
    /// The outcome.
    pub outcome: Option<Markup>,
    /// What it would remember.
    pub writes: Option<Markup>,
    /// Its requests with their answers, to be played back.
    pub recorded: Option<String>,
}

impl DocumentPage {
    /// The text in lines, each in parts with the class of what is wrong there.
    pub fn lines(&self) -> Vec<Vec<(&'static str, &str)>> {
        let mut lines = Vec::new();
        let mut start = 0;
        for line in self.text.split('\n') {
            lines.push(self.parts(line, start));
            start += line.len() + 1;
        }
        lines
    }

    /// A line that begins at this byte, cut where something wrong begins and ends.
    fn parts<'t>(&self, line: &'t str, start: usize) -> Vec<(&'static str, &'t str)> {
        let mut parts = Vec::new();
        let mut at = 0;
        let marks = self.found.iter().filter(|found| found.file.is_none());
        let mut marks: Vec<(usize, usize, &'static str)> = marks
            .filter_map(|found| {
                found.place.map(|[_, _, from, length]| (from, from + length.max(1), found.class))
            })
            .filter(|(from, to, _)| *to > start && *from <= start + line.len())
            .collect();
        marks.sort_unstable();
        for (from, to, class) in marks {
            let from = floor(line, from.saturating_sub(start)).max(at);
            let to = floor(line, to.saturating_sub(start)).max(from);
            if to > from {
                parts.push(("", &line[at..from]));
                parts.push((class, &line[from..to]));
                at = to;
            }
        }
        parts.push(("", &line[at..]));
        parts.retain(|(_, part)| !part.is_empty());
        parts
    }

    /// The lines with characters that cannot be seen, with these escaped: a text that is edited is shown as it is.
    pub fn hidden(&self) -> Vec<(usize, String)> {
        let lines = self.text.split('\n').enumerate();
        let hidden = lines.filter(|(_, line)| text::shown(line, usize::MAX) != *line);
        hidden.map(|(index, line)| (index + 1, text::shown(line, 200))).take(HIDDEN_MAX).collect()
    }

    /// The text for a person who only reads it.
    pub fn read_only(&self) -> String {
        text::shown(&self.text, usize::MAX)
    }

    /// How many errors there are, in words.
    pub fn verdict(&self) -> String {
        let errors = self.found.iter().filter(|found| found.class == "error").count() as u64;
        match errors {
            0 if self.found.is_empty() => "No problems.".to_owned(),
            0 => "It can be saved.".to_owned(),
            errors => format!("{}: it cannot be saved so.", text::count(errors, "error")),
        }
    }
}

/// The end of a character at or before a byte.
fn floor(line: &str, byte: usize) -> usize {
    let mut byte = byte.min(line.len());
    while !line.is_char_boundary(byte) {
        byte -= 1;
    }
    byte
}

/// Compares two texts line by line.
pub fn diff(before: &str, after: &str) -> Vec<DiffLine> {
    let diff = TextDiff::from_lines(before, after);
    let mut lines = Vec::new();
    for (index, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if index > 0 {
            lines.push(DiffLine { sign: '…', text: String::new() });
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            lines.push(DiffLine { sign, text: text::shown(change.value().trim_end_matches('\n'), 400) });
        }
    }
    if lines.len() > DIFF_MAX {
        lines.truncate(DIFF_MAX);
        lines.push(DiffLine { sign: '…', text: String::new() });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_shown_with_the_lines_around_it() {
        let lines = diff("a\nb\nc\nd\n", "a\nb\nC\nd\n");
        let signs: String = lines.iter().map(|line| line.sign).collect();
        assert_eq!(signs, "  -+ ");
        assert_eq!(lines[3].text, "C");
        assert!(diff("a\n", "a\n").is_empty());
    }
}
