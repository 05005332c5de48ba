//! The pages of the book about the codes of diagnostics, as wrong workspaces.
//!
//! A page shows the files of a workspace, each in a block below a line with its path, and then, in a block that is marked
//! `text,check`, what `dalsegno check` prints about them. A page has as many of these cases as it likes, each below a heading
//! of its own.
#![allow(dead_code, reason = "each test that includes this module uses its own part of it")]

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A file that a case need not show has this content. An empty `dalsegno.toml` is enough for a workspace, most agents with a
/// model use the script, and of a compiled tool server only the existence is checked.
const BESIDE: &[(&str, &str)] = &[
    ("dalsegno.toml", ""),
    ("script.toml", "[[replies]]\ntext = \"Hello.\"\n"),
    ("risk.bin", "x"),
    ("files.bin", "x"),
];

/// The page about folders that are no workspace: its cases get no `dalsegno.toml`.
const WITHOUT_SETTINGS: &str = "not-a-workspace";

/// A wrong workspace, and what the page says about it.
pub(crate) struct Case {
    /// The code of the page.
    pub(crate) code: String,
    /// The heading above the case.
    pub(crate) title: String,
    /// The paths and texts of the files that the page shows.
    pub(crate) files: Vec<(String, String)>,
    /// What the command prints, as the page has it.
    pub(crate) printed: String,
    /// The place of `printed` on the page, in bytes.
    pub(crate) place: Range<usize>,
}

impl Case {
    /// Creates the workspace in an empty folder.
    pub(crate) fn write(&self, folder: &Path) {
        let write = |path: &str, text: &str| {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let is_wanted = |path: &str| self.code != WITHOUT_SETTINGS || path != "dalsegno.toml";
        BESIDE.iter().filter(|(path, _)| is_wanted(path)).for_each(|(path, text)| write(path, text));
        self.files.iter().for_each(|(path, text)| write(path, text));
    }

    /// The page and the heading, for the message of a failed test.
    pub(crate) fn name(&self) -> String {
        format!("docs/src/errors/{}.md, {}", self.code, self.title)
    }
}

/// The folder of the pages.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/errors")
}

/// The cases of a page. Fails for a block of a file that no message follows.
pub(crate) fn cases(code: &str, page: &str) -> Vec<Case> {
    let (mut cases, mut files) = (Vec::new(), Vec::new());
    let (mut title, mut path) = (String::new(), None);
    let mut block = None;
    let mut at = 0;
    for line in page.split_inclusive('\n') {
        let end = at + line.len();
        let words = line.trim_end();
        match (block.take(), words.strip_prefix("```")) {
            (None, Some(marks)) => block = Some((marks, end)),
            (Some(("text,check", begin)), Some(_)) => cases.push(Case {
                code: code.to_owned(),
                title: title.clone(),
                files: std::mem::take(&mut files),
                printed: page[begin..at].to_owned(),
                place: begin..at,
            }),
            (Some((_, begin)), Some(_)) => {
                files.extend(path.take().map(|path| (path, page[begin..at].to_owned())));
            }
            (Some(open), None) => block = Some(open),
            (None, None) if words.starts_with('#') => {
                title = words.trim_start_matches('#').trim().to_owned();
            }
            (None, None) if words.is_empty() => {}
            (None, None) => {
                let between = words.strip_prefix('`').and_then(|words| words.strip_suffix("`:"));
                path = between.filter(|between| !between.contains('`')).map(str::to_owned);
            }
        }
        at = end;
    }
    assert!(files.is_empty(), "{code}: no message follows {files:?}");
    cases
}

/// The cases of all pages, by their codes.
pub(crate) fn all() -> Vec<Case> {
    let mut pages: Vec<_> = folder().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    let code = |page: &Path| page.file_stem().unwrap().to_string_lossy().into_owned();
    pages.iter().flat_map(|page| cases(&code(page), &fs::read_to_string(page).unwrap())).collect()
}
