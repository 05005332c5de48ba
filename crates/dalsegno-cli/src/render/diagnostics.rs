//! Draws the problems of a workspace: each with its file, its place underlined, and what to try. The files may be anyone's:
//! all that is drawn of them is screened, and bounded.

use std::fmt;
use std::path::Path;

use dalsegno_runtime::load_workspace;
use dalsegno_workspace::{Diagnostic, Loaded, Lock, Severity, SourceFile};
use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, SourceCode};

use super::excerpt::Excerpt;
use super::output::Output;
use super::screen::screened;
use super::text::count;

/// The most characters of a message, a label or a help: what they quote may have any length.
const LONGEST: usize = 2_000;

/// Draws all of them, then says how many they are.
///
/// The sources are read again: this only happens once something is wrong, and secrets are masked in them.
pub(crate) fn draw(root: &Path, diagnostics: &[Diagnostic], output: &mut Output) {
    draw_from(root, &[], diagnostics, output);
}

/// The same, with files that are known beside those of the workspace.
pub(crate) fn draw_from(root: &Path, known: &[SourceFile], diagnostics: &[Diagnostic], output: &mut Output) {
    if diagnostics.is_empty() {
        return;
    }
    let loaded = load_workspace(root);
    let place = |diagnostic: &Diagnostic| {
        let known = known.iter().find(|source| source.file() == diagnostic.file);
        match known {
            Some(known) => excerpt(diagnostic, known.text()),
            None => source(root, &loaded, diagnostic),
        }
    };
    draw_with(diagnostics, place, output);
}

/// Draws the problems of one file, whose text is known.
pub(crate) fn draw_of(file: &Path, text: Option<&str>, diagnostics: &[Diagnostic], output: &mut Output) {
    let source = |diagnostic: &Diagnostic| {
        let text = text.filter(|_| diagnostic.file == file)?;
        excerpt(diagnostic, text)
    };
    draw_with(diagnostics, source, output);
}

fn draw_with(
    diagnostics: &[Diagnostic],
    source: impl Fn(&Diagnostic) -> Option<Excerpt>,
    output: &mut Output,
) {
    let terminal = output.stderr.terminal;
    let theme = if terminal.colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme).with_width(terminal.width).with_links(false);
    for diagnostic in diagnostics {
        let mut drawn = String::new();
        let report = Report::of(diagnostic, source(diagnostic));
        if handler.render_report(&mut drawn, &report).is_err() {
            // The words still say it.
            drawn = report.to_string();
        }
        output.drawing(drawn.trim_end());
        output.note("");
    }
}

/// The number of problems in words: `2 errors, 1 warning`.
pub(crate) fn summary(diagnostics: &[Diagnostic]) -> String {
    let counts = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")];
    let counts = counts.map(|(severity, word)| {
        let found = diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count();
        (found as u64, word)
    });
    let words: Vec<_> =
        counts.into_iter().filter(|(found, _)| *found > 0).map(|(found, word)| count(found, word)).collect();
    if words.is_empty() { "no problems".to_owned() } else { words.join(", ") }
}

fn source(root: &Path, loaded: &Loaded, diagnostic: &Diagnostic) -> Option<Excerpt> {
    let excerpt = |source: &SourceFile| excerpt(diagnostic, source.text());
    if diagnostic.file == Path::new(Lock::FILE) {
        return Lock::read(root).source.as_ref().and_then(excerpt);
    }
    loaded.source(&diagnostic.file).and_then(excerpt)
}

/// The place of a diagnostic in the text of its file; none if the file changed meanwhile and has no such place.
fn excerpt(diagnostic: &Diagnostic, text: &str) -> Option<Excerpt> {
    Excerpt::around(diagnostic.span.as_ref()?, &diagnostic.file.to_string_lossy(), text)
}

/// A diagnostic together with the excerpt of its file; all of its words are screened.
#[derive(Debug)]
struct Report {
    message: String,
    code: String,
    severity: Severity,
    label: Option<String>,
    help: Option<String>,
    source: Option<Excerpt>,
}

impl Report {
    fn of(diagnostic: &Diagnostic, source: Option<Excerpt>) -> Self {
        let Diagnostic { message, label, help, severity, code, file, .. } = diagnostic;
        let place = if source.is_some() { String::new() } else { format!("{}: ", file.display()) };
        Self {
            message: quoted(&format!("{place}{message}")),
            code: format!("{severity}[{code}]"),
            severity: *severity,
            label: label.as_deref().map(quoted),
            help: help.as_deref().map(quoted),
            source,
        }
    }
}

/// A text that may quote a file.
fn quoted(text: &str) -> String {
    let mut shown = screened(text).into_owned();
    if let Some((end, _)) = shown.char_indices().nth(LONGEST) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Report {}

impl miette::Diagnostic for Report {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
            Severity::Note => miette::Severity::Advice,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = self.source.as_ref()?.span();
        Some(Box::new(std::iter::once(LabeledSpan::new_with_span(self.label.clone(), span))))
    }
}
