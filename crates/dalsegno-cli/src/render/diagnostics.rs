//! Draws the problems of a workspace: each with its file, its place underlined, and what to try.

use std::fmt;
use std::path::Path;

use dalsegno_workspace::{Diagnostic, Loaded, Lock, Severity, SourceFile, Workspace};
use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};

use super::output::Output;
use super::text::count;

/// Draws all of them, then says how many they are.
///
/// The sources are read again: this only happens once something is wrong, and secrets are masked in them.
pub(crate) fn draw(root: &Path, diagnostics: &[Diagnostic], output: &mut Output) {
    if diagnostics.is_empty() {
        return;
    }
    let loaded = Workspace::load(root);
    draw_with(diagnostics, |diagnostic| source(root, &loaded, diagnostic), output);
}

/// Draws the problems of one file, whose text is known.
pub(crate) fn draw_of(file: &Path, text: Option<&str>, diagnostics: &[Diagnostic], output: &mut Output) {
    let source = |diagnostic: &Diagnostic| {
        let text = text.filter(|_| diagnostic.file == file)?;
        Some(NamedSource::new(file.to_string_lossy(), text.to_owned()))
    };
    draw_with(diagnostics, source, output);
}

fn draw_with(
    diagnostics: &[Diagnostic],
    source: impl Fn(&Diagnostic) -> Option<NamedSource<String>>,
    output: &mut Output,
) {
    let terminal = output.stderr.terminal;
    let theme = if terminal.colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme).with_width(terminal.width).with_links(false);
    for diagnostic in diagnostics {
        let mut drawn = String::new();
        let report = Report { diagnostic, source: source(diagnostic) };
        if handler.render_report(&mut drawn, &report).is_err() {
            // A span that does not fit its file, which changed meanwhile: the words still say it.
            drawn = format!("{diagnostic}\n");
        }
        output.note(drawn.trim_end());
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

fn source(root: &Path, loaded: &Loaded, diagnostic: &Diagnostic) -> Option<NamedSource<String>> {
    let named =
        |source: &SourceFile| NamedSource::new(diagnostic.file.to_string_lossy(), source.text().to_owned());
    if diagnostic.file == Path::new(Lock::FILE) {
        return Lock::read(root).source.as_ref().map(named);
    }
    loaded.source(&diagnostic.file).map(named)
}

/// A diagnostic together with its file.
#[derive(Debug)]
struct Report<'d> {
    diagnostic: &'d Diagnostic,
    source: Option<NamedSource<String>>,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.diagnostic.span.is_none() || self.source.is_none() {
            write!(f, "{}: ", self.diagnostic.file.display())?;
        }
        f.write_str(&self.diagnostic.message)
    }
}

impl std::error::Error for Report<'_> {}

impl miette::Diagnostic for Report<'_> {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(format!("{}[{}]", self.diagnostic.severity, self.diagnostic.code)))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.diagnostic.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
            Severity::Note => miette::Severity::Advice,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.diagnostic.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = self.diagnostic.span.clone()?;
        self.source.as_ref()?;
        Some(Box::new(std::iter::once(LabeledSpan::new_with_span(self.diagnostic.label.clone(), span))))
    }
}
