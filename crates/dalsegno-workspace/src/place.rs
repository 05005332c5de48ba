//! Where the files of a workspace are read from.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::workspace::is_kept_aside;

/// A folder, and texts that are read instead of some of its files. Such a file need not exist.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) root: &'a Path,
    /// By the path below `root`.
    texts: &'a BTreeMap<PathBuf, String>,
}

impl<'a> Place<'a> {
    pub(crate) const fn new(root: &'a Path, texts: &'a BTreeMap<PathBuf, String>) -> Self {
        Self { root, texts }
    }

    /// A folder and nothing else.
    pub(crate) const fn on_disk(root: &'a Path) -> Self {
        const NONE: &BTreeMap<PathBuf, String> = &BTreeMap::new();
        Self { root, texts: NONE }
    }

    /// Says whether there is such a file.
    pub(crate) fn has(&self, file: &Path) -> bool {
        self.texts.contains_key(file) || self.root.join(file).exists()
    }

    /// The files of a folder with this extension, in the order of their names; none if the folder does not exist.
    pub(crate) fn files(
        &self,
        folder: &Path,
        extension: &str,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<PathBuf> {
        let entries = match self.root.join(folder).read_dir() {
            Ok(entries) => entries.collect::<io::Result<Vec<_>>>(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let entries = entries.unwrap_or_else(|error| {
            let message = format!("the folder cannot be listed: {error}");
            diagnostics.push(Diagnostic::new(Code::UnreadableFile, Severity::Error, folder, message));
            Vec::new()
        });
        let on_disk = entries
            .iter()
            .filter(|entry| !is_kept_aside(&entry.file_name()))
            .map(|entry| folder.join(entry.file_name()));
        let in_code = self.texts.keys().filter(|file| file.parent() == Some(folder)).cloned();
        let files: BTreeSet<PathBuf> = on_disk.chain(in_code).collect();
        files.into_iter().filter(|file| file.extension().is_some_and(|found| found == extension)).collect()
    }

    /// Reads a file of at most this many bytes; reports why it cannot be.
    pub(crate) fn read(&self, file: &Path, most: u64, diagnostics: &mut Vec<Diagnostic>) -> Option<String> {
        let mut bytes = Vec::new();
        let read = match self.texts.get(file) {
            Some(text) => {
                bytes.extend_from_slice(text.as_bytes());
                Ok(())
            }
            None => File::open(self.root.join(file))
                .and_then(|opened| opened.take(most + 1).read_to_end(&mut bytes))
                .map(drop)
                .map_err(|error| format!("the file cannot be read: {error}")),
        };
        let text = read.and_then(|()| {
            if bytes.len() as u64 > most {
                return Err(format!("the file is larger than {} KiB", most >> 10));
            }
            String::from_utf8(bytes).map_err(|error| {
                format!(
                    "the file is not UTF-8: byte {} is not part of a character",
                    error.utf8_error().valid_up_to()
                )
            })
        });
        text.map_err(|message| {
            diagnostics.push(Diagnostic::new(Code::UnreadableFile, Severity::Error, file, message));
        })
        .ok()
    }
}
