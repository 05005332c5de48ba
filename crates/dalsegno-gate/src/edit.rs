//! What differs between two versions of a workspace, line by line; and the texts with some of these lines changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dalsegno_workspace::InCode;
use serde::Serialize;
use similar::{DiffOp, TextDiff};

use crate::version::Version;

/// A change of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Edit {
    /// The file, by its path below the workspace's folder.
    pub file: PathBuf,
    /// What has changed.
    #[serde(flatten)]
    pub what: Changed,
}

/// What has changed of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "changed", rename_all = "snake_case")]
pub enum Changed {
    /// A line.
    Line {
        /// Its number in the file as it is now, counted from 1; of a removed line, the number of the one that stands in its place.
        line: usize,
        /// The line as it was; absent where it is new.
        #[serde(skip_serializing_if = "Option::is_none")]
        old: Option<String>,
        /// The line as it is; absent where it was removed.
        #[serde(skip_serializing_if = "Option::is_none")]
        new: Option<String>,
    },
    /// The file is new.
    Added,
    /// The file was removed.
    Removed,
}

/// What differs between two versions.
#[derive(Debug)]
pub(crate) struct Diff {
    pub(crate) edits: Vec<Edit>,
    files: BTreeMap<PathBuf, Change>,
}

/// A file that differs between two versions.
#[derive(Debug)]
enum Change {
    /// It is in one of them alone: the index of the edit, and both texts.
    Whole { index: usize, old: Option<String>, new: Option<String> },
    /// It is in both.
    Lines(Vec<Piece>),
}

/// A part of a file that is in both versions.
#[derive(Debug)]
enum Piece {
    /// In both versions.
    Same(String),
    /// In one form or the other, line breaks included: the index of the edit, the old form, the new one.
    Edit(usize, Option<String>, Option<String>),
}

impl Diff {
    /// What differs between two versions, by file and line.
    pub(crate) fn between(old: &Version, new: &Version) -> Self {
        let mut diff = Self { edits: Vec::new(), files: BTreeMap::new() };
        let files: BTreeSet<&PathBuf> = old.texts.keys().chain(new.texts.keys()).collect();
        for file in files {
            match (old.texts.get(file), new.texts.get(file)) {
                (Some(old), Some(new)) if old == new => {}
                (Some(old), Some(new)) => diff.lines(file, old, new),
                (old, new) => {
                    let what = if new.is_some() { Changed::Added } else { Changed::Removed };
                    let index = diff.add(file, what);
                    let whole = Change::Whole { index, old: old.cloned(), new: new.cloned() };
                    diff.files.insert(file.clone(), whole);
                }
            }
        }
        diff
    }

    /// Adds an edit; returns its index.
    fn add(&mut self, file: &Path, what: Changed) -> usize {
        self.edits.push(Edit { file: file.to_path_buf(), what });
        self.edits.len() - 1
    }

    fn lines(&mut self, file: &Path, old: &str, new: &str) {
        let lines = |text: &str| text.split_inclusive('\n').map(str::to_owned).collect::<Vec<_>>();
        let (olds, news) = (lines(old), lines(new));
        let mut pieces = Vec::new();
        for op in TextDiff::from_lines(old, new).ops() {
            let (from, to) = (op.old_range(), op.new_range());
            if let DiffOp::Equal { .. } = op {
                pieces.push(Piece::Same(olds[from].concat()));
                continue;
            }
            let mut line = to.start;
            for (old, new) in pair(&olds[from], &news[to]) {
                let shown = |line: &Option<String>| {
                    line.as_ref().map(|line| line.trim_end_matches(['\n', '\r']).to_owned())
                };
                let what = Changed::Line { line: line + 1, old: shown(&old), new: shown(&new) };
                let index = self.add(file, what);
                line += usize::from(new.is_some());
                pieces.push(Piece::Edit(index, old, new));
            }
        }
        self.files.insert(file.to_path_buf(), Change::Lines(pieces));
    }

    /// The old version with these edits applied, as texts that are read instead of the files of the new one. `chosen` is in order.
    pub(crate) fn with(&self, chosen: &[usize]) -> InCode {
        let is_chosen = |index: &usize| chosen.binary_search(index).is_ok();
        let mut texts = InCode::default();
        for (file, change) in &self.files {
            let text = match change {
                Change::Whole { index, old, new } => if is_chosen(index) { new } else { old }.clone(),
                Change::Lines(pieces) => {
                    let parts = pieces.iter().filter_map(|piece| match piece {
                        Piece::Same(part) => Some(part),
                        Piece::Edit(index, old, new) => if is_chosen(index) { new } else { old }.as_ref(),
                    });
                    Some(parts.map(String::as_str).collect())
                }
            };
            match text {
                Some(text) => texts.set_text(file, text),
                None => texts.set_absent(file),
            }
        }
        texts
    }
}

/// A line before a change and after it; one of them is absent where it was added or removed.
type Pair = (Option<String>, Option<String>);

/// Puts lines that were changed beside what they became, in order: those that are alike belong together, so that a line that was
/// added beside a changed one is a change of its own.
fn pair(old: &[String], new: &[String]) -> Vec<Pair> {
    if old.len() * new.len() > PAIRS_MAX {
        // Of a text that was written anew, the first line stands for the first, and so on.
        let line = |lines: &[String], at: usize| lines.get(at).cloned();
        return (0..old.len().max(new.len())).map(|at| (line(old, at), line(new, at))).collect();
    }
    // How alike the ends of both are at best, from each pair of lines on.
    let mut best = vec![vec![0.0_f64; new.len() + 1]; old.len() + 1];
    let alike: Vec<Vec<f64>> =
        old.iter().map(|one| new.iter().map(|other| likeness(one, other)).collect()).collect();
    for a in (0..old.len()).rev() {
        for b in (0..new.len()).rev() {
            let paired = alike[a][b] + best[a + 1][b + 1];
            best[a][b] = paired.max(best[a + 1][b]).max(best[a][b + 1]);
        }
    }
    let (mut a, mut b, mut pairs) = (0, 0, Vec::new());
    while a < old.len() || b < new.len() {
        let rest = best[a][b];
        let both = a < old.len() && b < new.len();
        if both && alike[a][b] > 0.0 && alike[a][b] + best[a + 1][b + 1] >= rest {
            pairs.push((Some(old[a].clone()), Some(new[b].clone())));
            (a, b) = (a + 1, b + 1);
        } else if a < old.len() && (b == new.len() || best[a + 1][b] >= rest) {
            pairs.push((Some(old[a].clone()), None));
            a += 1;
        } else {
            pairs.push((None, Some(new[b].clone())));
            b += 1;
        }
    }
    pairs
}

/// How alike two lines are, from 0 to 1.1. A comment, a blank line and any other are not alike at all; two of one kind are a little,
/// so that a line that was written anew still stands in the place of the one before.
fn likeness(one: &str, other: &str) -> f64 {
    let is_note = |line: &str| line.trim_start().starts_with('#');
    let is_blank = |line: &str| line.trim().is_empty();
    match is_note(one) == is_note(other) && is_blank(one) == is_blank(other) {
        true => 0.1 + strsim::normalized_levenshtein(one, other),
        false => 0.0,
    }
}

/// The most pairs of lines that are held against each other.
const PAIRS_MAX: usize = 2_500;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(texts: &[(&str, &str)]) -> Version {
        let texts = texts.iter().map(|(file, text)| (PathBuf::from(file), (*text).to_owned()));
        Version { name: "v".into(), texts: texts.collect() }
    }

    /// An edit: the file, and of a line its number and both forms.
    type Shown<'d> = (&'d str, Option<usize>, Option<&'d str>, Option<&'d str>);

    fn shown(diff: &Diff) -> Vec<Shown<'_>> {
        let shown = diff.edits.iter().map(|edit| {
            let file = edit.file.to_str().unwrap();
            match &edit.what {
                Changed::Line { line, old, new } => (file, Some(*line), old.as_deref(), new.as_deref()),
                Changed::Added => (file, None, None, Some("added")),
                Changed::Removed => (file, None, Some("removed"), None),
            }
        });
        shown.collect()
    }

    fn expected(texts: &[(&str, Option<&str>)]) -> InCode {
        let mut in_code = InCode::default();
        for (file, text) in texts {
            match text {
                Some(text) => in_code.set_text(*file, *text),
                None => in_code.set_absent(*file),
            }
        }
        in_code
    }

    #[test]
    fn each_changed_line_is_an_edit_with_its_place_in_the_new_file() {
        let old = version(&[("a", "one\ntwo\nthree\nfour\n"), ("gone", "x"), ("same", "s")]);
        let new = version(&[("a", "one\n2\nthree\nnew\nfour"), ("born", "y"), ("same", "s")]);
        let diff = Diff::between(&old, &new);
        assert_eq!(
            shown(&diff),
            [
                ("a", Some(2), Some("two"), Some("2")),
                ("a", Some(4), None, Some("new")),
                ("a", Some(5), Some("four"), Some("four")),
                ("born", None, None, Some("added")),
                ("gone", None, Some("removed"), None),
            ]
        );
        let half = expected(&[("a", Some("one\n2\nthree\nfour\n")), ("born", None), ("gone", Some("x"))]);
        assert_eq!(diff.with(&[0]), half);
        let files = expected(&[("a", Some("one\ntwo\nthree\nfour\n")), ("born", Some("y")), ("gone", None)]);
        assert_eq!(diff.with(&[3, 4]), files);
    }

    #[test]
    fn a_line_that_was_added_beside_a_changed_one_is_a_change_of_its_own() {
        let old = version(&[("a", "x = 1\nlimit = 3\nz = 1\n")]);
        let new = version(&[("a", "x = 1\n# Fewer.\n\nlimit = 2\nmore = true\nz = 1\n")]);
        let diff = Diff::between(&old, &new);
        let expected = [
            ("a", Some(2), None, Some("# Fewer.")),
            ("a", Some(3), None, Some("")),
            ("a", Some(4), Some("limit = 3"), Some("limit = 2")),
            ("a", Some(5), None, Some("more = true")),
        ];
        assert_eq!(shown(&diff), expected);
    }

    proptest! {
        #[test]
        fn no_edit_is_the_old_version_and_all_of_them_are_the_new_one(
            old in "([ab]\n|\n|[ab]){0,12}",
            new in "([ab]\n|\n|[ab]){0,12}",
        ) {
            let diff = Diff::between(&version(&[("f", &old)]), &version(&[("f", &new)]));
            let all: Vec<usize> = (0..diff.edits.len()).collect();
            let whole = |text: &str| match old == new {
                true => InCode::default(),
                false => expected(&[("f", Some(text))]),
            };
            prop_assert_eq!(diff.with(&[]), whole(&old));
            prop_assert_eq!(diff.with(&all), whole(&new));
        }
    }
}
