//! Whole workspaces, right and wrong. Each wrong one has one fault, which its folder's name tells.
#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use dalsegno_workspace::{Catalogue, Code, Diagnostic, Loaded, SourceFile, Workspace};

/// A workspace and its lock file, and what is wrong with either or with both together.
struct Checked {
    loaded: Loaded,
    diagnostics: Vec<Diagnostic>,
}

impl Checked {
    fn new(root: &Path) -> Self {
        let loaded = Workspace::load(root);
        let mut diagnostics = loaded.diagnostics.clone();
        diagnostics.extend(loaded.lock.diagnostics.clone());
        if let (Some(workspace), Some(lock)) = (&loaded.workspace, &loaded.lock.lock) {
            diagnostics.extend(workspace.check(lock, &Catalogue::new()));
        }
        Self { loaded, diagnostics }
    }

    fn source(&self, file: &Path) -> &SourceFile {
        self.loaded.source(file).unwrap()
    }

    fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Draws diagnostics as text: what is wrong, where, the line underlined, what was expected, what to do.
fn render(checked: &Checked) -> String {
    let mut text = String::new();
    for diagnostic in &checked.diagnostics {
        writeln!(text, "{diagnostic}").unwrap();
        if let (Some(start), Some(span)) = (diagnostic.start, &diagnostic.span) {
            let source = checked.source(&diagnostic.file);
            let line = source.line(start.line).unwrap_or_default();
            let width = source.text()[span.clone()].lines().next().unwrap_or_default().chars().count().max(1);
            let underline = format!("{}{}", " ".repeat(start.column - 1), "^".repeat(width));
            writeln!(text, "  | {line}").unwrap();
            writeln!(text, "  | {underline} {}", diagnostic.label.as_deref().unwrap_or_default()).unwrap();
        }
        if let Some(help) = &diagnostic.help {
            writeln!(text, "  help: {help}").unwrap();
        }
    }
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn samples(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(kind);
    let mut samples: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    samples.sort();
    assert!(!samples.is_empty(), "{}", folder.display());
    samples
}

fn name(sample: &Path) -> String {
    sample.file_name().unwrap().to_string_lossy().into_owned()
}

/// Compares the diagnostics of every sample of a kind with what they should be.
fn check(kind: &str, expected: fn(&Checked) -> bool) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(format!("snapshots/{kind}"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for sample in samples(kind) {
        let checked = Checked::new(&sample);
        let text = render(&checked);
        assert!(expected(&checked), "{}: {text}", name(&sample));
        settings.bind(|| insta::assert_snapshot!(name(&sample), text));
    }
}

#[test]
fn a_wrong_workspace_is_refused_with_words_for_its_fault() {
    check("invalid", |checked| checked.has_errors());
}

#[test]
fn a_doubtful_workspace_loads_with_warnings() {
    check("doubtful", |checked| {
        checked.loaded.workspace.is_some() && !checked.has_errors() && !checked.diagnostics.is_empty()
    });
}

#[test]
fn a_right_workspace_loads_without_a_word() {
    for sample in samples("valid") {
        let checked = Checked::new(&sample);
        assert_eq!(render(&checked), "", "{}", name(&sample));
        assert!(checked.loaded.workspace.is_some(), "{}", name(&sample));
    }
}

/// What no file shows that is kept as text: bytes that are none.
const ELSEWHERE: &[Code] = &[Code::UnreadableFile];

#[test]
fn every_code_has_a_sample() {
    let mut missing: Vec<_> = Code::ALL.iter().filter(|code| !ELSEWHERE.contains(code)).collect();
    for sample in samples("invalid").into_iter().chain(samples("doubtful")) {
        let checked = Checked::new(&sample);
        missing.retain(|code| checked.diagnostics.iter().all(|diagnostic| diagnostic.code != **code));
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_code_of_a_fault_stands_in_its_folder_name() {
    for sample in samples("invalid") {
        let checked = Checked::new(&sample);
        let is_named = |diagnostic: &Diagnostic| name(&sample).starts_with(diagnostic.code.as_str());
        assert!(
            checked.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).all(is_named),
            "{}: {:?}",
            name(&sample),
            checked.diagnostics
        );
    }
}

#[test]
fn every_code_says_in_a_sentence_what_it_means() {
    for code in Code::ALL {
        let summary = code.summary();
        assert!(summary.ends_with('.') && summary.starts_with(char::is_uppercase), "{code}: {summary}");
    }
}
