//! Reads paths: joined with the workspace's folder, never expanded.

use std::path::PathBuf;

use super::reach::Reach;
use crate::code::Code;
use crate::place::Place;
use crate::report::Report;
use crate::section::{Located, Section, string};

/// Where the paths of a file start, and where their problems go.
pub(crate) struct Paths<'t> {
    pub(crate) report: &'t Report,
    pub(crate) place: Place<'t>,
    /// Whose the file is, for the secrets that it names.
    pub(crate) reach: Reach<'t>,
}

impl Paths<'_> {
    /// Reads a path that need not exist.
    pub(crate) fn path(&self, section: &Section<'_>, key: &str) -> Option<Located<PathBuf>> {
        self.joined(key, section.string(key)?)
    }

    /// Reads the path of a file that must be there.
    pub(crate) fn file(&self, section: &Section<'_>, key: &str, help: &str) -> Option<PathBuf> {
        self.existing(key, section.string(key)?, help)
    }

    /// Reads the paths of files that must be there.
    pub(crate) fn files(&self, section: &Section<'_>, key: &str, help: &str) -> Vec<PathBuf> {
        let items = section.items(key, "a list of paths").iter();
        items.filter_map(|item| self.existing(key, string(self.report, key, item)?, help)).collect()
    }

    fn existing(&self, key: &str, text: Located<String>, help: &str) -> Option<PathBuf> {
        let written = text.value.clone();
        if let Reach::Document { .. } = self.reach {
            self.report
                .error(Code::InvalidValue, text.span, format!("`{key}` names a file"))
                .label("a document of the catalogue may not name files of the workspace")
                .help(format!("write the content of the file here, as a table: `[… {key}]`"));
            return None;
        }
        let path = self.joined(key, text)?;
        if !self.place.is_file(&path.value) {
            let what = if self.place.exists(&path.value) { "is not a file" } else { "does not exist" };
            self.report
                .error(Code::MissingFile, path.span, format!("the file `{written}` {what}"))
                .label("relative to the workspace's folder")
                .help(help);
            return None;
        }
        Some(path.value)
    }

    pub(super) fn joined(&self, key: &str, text: Located<String>) -> Option<Located<PathBuf>> {
        let problem = if text.value.is_empty() {
            "expected a path"
        } else if text.value.contains("${") || text.value.starts_with("~/") {
            "variables and `~` are not expanded: write the path itself"
        } else if text.value.contains('\0') {
            "a path cannot contain NUL"
        } else {
            return Some(text.map(|path| self.place.root.join(path)));
        };
        self.report
            .error(Code::InvalidValue, text.span, format!("`{key}` is not a usable path"))
            .label(problem);
        None
    }
}
