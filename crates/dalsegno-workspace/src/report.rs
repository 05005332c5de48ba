//! Collects the problems of one file while it is read.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;

use toml::de::DeTable;
use toml_parser::lexer::TokenKind;

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::source::SourceFile;
use crate::text;

/// A file and what was found wrong with it. Shared by everything that reads a part of the file.
pub(crate) struct Report {
    source: SourceFile,
    found: RefCell<Vec<Diagnostic>>,
    /// The keys of the whole file that are absent at its top, and so may have landed in a table.
    absent: RefCell<BTreeSet<&'static str>>,
    /// Those of them that did.
    landed: RefCell<BTreeSet<String>>,
    /// The keys and the values of secrets in clear; the values must not be shown when the file is.
    secrets: RefCell<Vec<(Range<usize>, Range<usize>)>>,
}

/// A diagnostic that was just added, to be completed.
pub(crate) struct Added<'r> {
    report: &'r Report,
    index: usize,
}

impl Report {
    pub(crate) fn new(source: SourceFile) -> Self {
        Self {
            source,
            found: RefCell::default(),
            absent: RefCell::default(),
            landed: RefCell::default(),
            secrets: RefCell::default(),
        }
    }

    pub(crate) fn source(&self) -> &SourceFile {
        &self.source
    }

    pub(crate) fn error(&self, code: Code, span: Range<usize>, message: impl Into<String>) -> Added<'_> {
        self.add(code, Severity::Error, span, message.into())
    }

    /// Says whether there is an error among the problems that were found until now.
    pub(crate) fn has_errors(&self) -> bool {
        self.found.borrow().iter().any(Diagnostic::is_error)
    }

    /// Says how many problems were found until now.
    pub(crate) fn count(&self) -> usize {
        self.found.borrow().len()
    }

    pub(crate) fn warning(&self, code: Code, span: Range<usize>, message: impl Into<String>) -> Added<'_> {
        self.add(code, Severity::Warning, span, message.into())
    }

    pub(crate) fn note(&self, code: Code, span: Range<usize>, message: impl Into<String>) -> Added<'_> {
        self.add(code, Severity::Note, span, message.into())
    }

    /// Finds where a part of a string stands; the whole string where that is unknown.
    pub(crate) fn within(&self, string: &Range<usize>, decoded: &str, part: &Range<usize>) -> Range<usize> {
        let clamped = self.source.clamp(string.clone());
        match text::locate(self.source.slice(clamped.clone()), decoded, part) {
            Some(found) => clamped.start + found.start..clamped.start + found.end,
            None => clamped,
        }
    }

    /// Says which keys of the whole file are missing at its top.
    pub(crate) fn set_absent(&self, keys: impl Iterator<Item = &'static str>) {
        self.absent.replace(keys.collect());
    }

    /// Says whether a key that stands in a table is missing at the top; it is then not missed any more.
    pub(crate) fn has_landed(&self, key: &str) -> bool {
        let is_absent = self.absent.borrow().contains(key);
        if is_absent {
            self.landed.borrow_mut().insert(key.to_owned());
        }
        is_absent
    }

    /// Says whether a key was found in a table instead of at the top.
    pub(crate) fn is_elsewhere(&self, key: &str) -> bool {
        self.landed.borrow().contains(key)
    }

    /// Hides a secret from whoever shows the file, and remembers that its key was reported.
    pub(crate) fn conceal(&self, key: Range<usize>, secret: Range<usize>) {
        self.secrets.borrow_mut().push((key, secret));
    }

    /// Says whether the key at this place was reported as a secret in clear.
    pub(crate) fn is_concealed(&self, key: &Range<usize>) -> bool {
        self.secrets.borrow().iter().any(|(reported, _)| reported == key)
    }

    /// Parses the file as far as it can be; reports each place where it is not TOML.
    pub(crate) fn parse<'t>(&self, text: &'t str) -> Option<DeTable<'t>> {
        if let Some(span) = overlong_key(text) {
            self.error(Code::TomlSyntax, span, format!("a key has more than {KEY_PARTS_MAX} parts"));
            return None;
        }
        let (root, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            self.syntax_error(error);
        }
        Some(root.into_inner())
    }

    /// Puts two of the parser's messages into words that fit what people did.
    fn syntax_error(&self, error: &toml::de::Error) {
        let end = self.source.text().len();
        let span = self.source.clamp(error.span().unwrap_or(end..end));
        let message = error.message();
        if message == "duplicate key" {
            let key = self.source.slice(span.clone());
            let message = format!("`{key}` is given twice");
            self.error(Code::TomlSyntax, span, message).help("keep one of them");
        } else if message.starts_with("string values must be quoted") && span.is_empty() {
            self.error(Code::TomlSyntax, span, "a value is missing after `=`");
        } else {
            self.error(Code::TomlSyntax, span, format!("this is not TOML: {message}"));
        }
    }

    /// Ends the reading: the problems in the order of the file, and the file as it may be shown.
    ///
    /// In a file that is not TOML, what merely follows from the unreadable places is left out.
    pub(crate) fn finish(self) -> (SourceFile, Vec<Diagnostic>) {
        let mut found = self.found.into_inner();
        let broken_lines: BTreeSet<_> = found
            .iter()
            .filter(|diagnostic| diagnostic.code == Code::TomlSyntax)
            .filter_map(|diagnostic| Some(diagnostic.start?.line))
            .collect();
        if !broken_lines.is_empty() {
            found.retain(|diagnostic| {
                diagnostic.code == Code::TomlSyntax
                    || !may_follow(diagnostic.code)
                        && diagnostic.start.is_some_and(|start| !broken_lines.contains(&start.line))
            });
        }
        found.sort_by_key(|diagnostic| diagnostic.span.as_ref().map(|span| span.start));
        found.dedup();
        let secrets: Vec<_> = self.secrets.into_inner().into_iter().map(|(_, secret)| secret).collect();
        (self.source.masked(&secrets), found)
    }

    fn add(&self, code: Code, severity: Severity, span: Range<usize>, message: String) -> Added<'_> {
        self.push(Diagnostic::new(code, severity, self.source.file(), message).at(&self.source, span))
    }

    fn push(&self, diagnostic: Diagnostic) -> Added<'_> {
        let mut found = self.found.borrow_mut();
        found.push(diagnostic);
        Added { report: self, index: found.len() - 1 }
    }
}

impl Added<'_> {
    /// Says what to write beside the underlined place.
    pub(crate) fn label(self, label: impl Into<String>) -> Self {
        self.change(|diagnostic| diagnostic.with_label(label))
    }

    /// Says what to try.
    pub(crate) fn help(self, help: impl Into<String>) -> Self {
        self.change(|diagnostic| diagnostic.with_help(help))
    }

    fn change(self, change: impl FnOnce(Diagnostic) -> Diagnostic) -> Self {
        if let Some(diagnostic) = self.report.found.borrow_mut().get_mut(self.index) {
            *diagnostic = change(diagnostic.clone());
        }
        self
    }
}

/// Problems that a part of the file may cause by not being readable elsewhere.
fn may_follow(code: Code) -> bool {
    matches!(
        code,
        Code::MissingKey | Code::ModelOrSteps | Code::StepAction | Code::UnknownStep | Code::ToolNotAllowed
    )
}

/// Finds a key with too many parts. Each part becomes a table within a table, and whoever frees or walks those
/// recurses.
fn overlong_key(text: &str) -> Option<Range<usize>> {
    let (mut dots, mut start) = (0, None);
    for token in toml_parser::Source::new(text).lex() {
        match token.kind() {
            TokenKind::Dot => {
                dots += 1;
                let start = *start.get_or_insert(token.span().start());
                if dots >= KEY_PARTS_MAX {
                    return Some(start..token.span().end());
                }
            }
            TokenKind::Atom | TokenKind::BasicString | TokenKind::LiteralString | TokenKind::Whitespace => {
                start.get_or_insert(token.span().start());
            }
            _ => (dots, start) = (0, None),
        }
    }
    None
}

/// Real keys have up to four parts.
const KEY_PARTS_MAX: usize = 32;
