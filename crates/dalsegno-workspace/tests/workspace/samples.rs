//! Whole workspaces, right and wrong. The right ones are folders; the wrong ones are on the pages of the book, and the tests
//! of the command compare what it prints about each of them.

use std::collections::BTreeSet;
use std::path::Path;

use dalsegno_workspace::{Catalogue, Code, Diagnostic, Workspace};

use crate::pages::Case;

/// What reading a workspace and its lock file comes to.
struct Checked {
    workspace: Option<Workspace>,
    /// What is wrong with the workspace, with the lock file, or with both together.
    diagnostics: Vec<Diagnostic>,
}

impl Checked {
    fn new(root: &Path) -> Self {
        let loaded = Workspace::load(root);
        let mut diagnostics = loaded.diagnostics;
        diagnostics.extend(loaded.lock.diagnostics);
        if let (Some(workspace), Some(lock)) = (&loaded.workspace, &loaded.lock.lock) {
            diagnostics.extend(workspace.check(lock, &Catalogue::new()));
        }
        diagnostics.extend(loaded.workspace.iter().flat_map(|workspace| workspace.cases().diagnostics));
        Self { workspace: loaded.workspace, diagnostics }
    }

    fn of(case: &Case) -> Self {
        let folder = tempfile::tempdir().unwrap();
        case.write(folder.path());
        Self::new(folder.path())
    }
}

#[test]
fn a_page_shows_workspaces_with_its_own_code_and_no_other_error() {
    let cases = crate::pages::all();
    assert!(cases.len() > 180, "{}", cases.len());
    for case in &cases {
        let checked = Checked::of(case);
        let is_named = |found: &&Diagnostic| found.code.as_str() == case.code;
        let name = case.name();
        assert!(
            checked.diagnostics.iter().any(|found| is_named(&found)),
            "{name}: {:?}",
            checked.diagnostics
        );
        let others: Vec<_> =
            checked.diagnostics.iter().filter(|found| found.is_error() && !is_named(found)).collect();
        assert!(others.is_empty(), "{name}: {others:?}");
    }
}

#[test]
fn a_doubtful_workspace_loads_with_warnings() {
    let checked: Vec<_> = crate::pages::all().iter().map(|case| (case.name(), Checked::of(case))).collect();
    let has_errors = |checked: &Checked| checked.diagnostics.iter().any(Diagnostic::is_error);
    let doubtful: Vec<_> = checked.iter().filter(|(_, checked)| !has_errors(checked)).collect();
    assert!(doubtful.len() > 10, "{}", doubtful.len());
    for (name, checked) in doubtful {
        assert!(checked.workspace.is_some(), "{name}");
    }
}

#[test]
fn a_right_workspace_loads_without_a_word() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/valid");
    let samples: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(samples.len() > 5, "{samples:?}");
    for sample in samples {
        let checked = Checked::new(&sample);
        assert!(checked.diagnostics.is_empty(), "{}: {:?}", sample.display(), checked.diagnostics);
        assert!(checked.workspace.is_some(), "{}", sample.display());
    }
}

/// What no file shows that is kept as text: bytes that are none.
const ELSEWHERE: &[Code] = &[Code::UnreadableFile];

#[test]
fn every_code_has_a_workspace_that_shows_it() {
    let shown: BTreeSet<_> = crate::pages::all().into_iter().map(|case| case.code).collect();
    let codes = Code::ALL.iter().filter(|code| !ELSEWHERE.contains(code));
    assert_eq!(shown, codes.map(|code| code.as_str().to_owned()).collect());
}

#[test]
fn two_workspaces_of_a_page_have_headings_of_their_own() {
    let mut names = BTreeSet::new();
    for case in crate::pages::all() {
        assert!(names.insert(case.name()), "{} is there twice", case.name());
    }
}

#[test]
fn every_code_says_in_a_sentence_what_it_means() {
    for code in Code::ALL {
        let summary = code.summary();
        assert!(summary.ends_with('.') && summary.starts_with(char::is_uppercase), "{code}: {summary}");
    }
}
