//! Whole workspaces, right and wrong. Each wrong one has one fault, which its folder's name tells.
#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use segno_workspace::{Code, Diagnostic, Loaded, Workspace};

/// Draws diagnostics as text: what is wrong, where, the line underlined, what was expected, what to do.
fn render(loaded: &Loaded, diagnostics: &[Diagnostic]) -> String {
    let mut text = String::new();
    for diagnostic in diagnostics {
        writeln!(text, "{diagnostic}").unwrap();
        if let (Some(start), Some(span)) = (diagnostic.start, &diagnostic.span) {
            let source = loaded.source(&diagnostic.file).unwrap();
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
fn check(kind: &str, expected: fn(&Loaded) -> bool) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(format!("snapshots/{kind}"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for sample in samples(kind) {
        let loaded = Workspace::load(&sample);
        let text = render(&loaded, &loaded.diagnostics);
        assert!(expected(&loaded), "{}: {text}", name(&sample));
        settings.bind(|| insta::assert_snapshot!(name(&sample), text));
    }
}

#[test]
fn a_wrong_workspace_is_refused_with_words_for_its_fault() {
    check("invalid", |loaded| loaded.workspace.is_none() && loaded.has_errors());
}

#[test]
fn a_doubtful_workspace_loads_with_warnings() {
    check("doubtful", |loaded| loaded.workspace.is_some() && !loaded.diagnostics.is_empty());
}

#[test]
fn a_right_workspace_loads_without_a_word() {
    for sample in samples("valid") {
        let loaded = Workspace::load(&sample);
        assert_eq!(render(&loaded, &loaded.diagnostics), "", "{}", name(&sample));
        assert!(loaded.workspace.is_some(), "{}", name(&sample));
    }
}

/// Codes that no file on disk shows: they need a catalogue of tools, or bytes that are not text.
const ELSEWHERE: &[Code] = &[Code::UnknownTool, Code::ToolNameClash, Code::UnreadableFile];

#[test]
fn every_code_has_a_sample() {
    let mut missing: Vec<_> = Code::ALL.iter().filter(|code| !ELSEWHERE.contains(code)).collect();
    for sample in samples("invalid").into_iter().chain(samples("doubtful")) {
        let loaded = Workspace::load(&sample);
        missing.retain(|code| loaded.diagnostics.iter().all(|diagnostic| diagnostic.code != **code));
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_code_of_a_fault_stands_in_its_folder_name() {
    for sample in samples("invalid") {
        let loaded = Workspace::load(&sample);
        let is_named = |diagnostic: &Diagnostic| name(&sample).starts_with(diagnostic.code.as_str());
        assert!(
            loaded.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).all(is_named),
            "{}: {:?}",
            name(&sample),
            loaded.diagnostics
        );
    }
}
