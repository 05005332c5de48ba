//! Where the files of a workspace are read from.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::documents::Documents;
use crate::workspace::is_kept_aside;

/// A folder, and texts that are read instead of some of its files. Such a file need not exist, and one without a text does
/// not, even if the folder has it.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) root: &'a Path,
    /// By the path below `root`.
    texts: &'a BTreeMap<PathBuf, Option<String>>,
    /// What stands in for files, and reaches less than they do.
    pub(crate) documents: &'a Documents,
}

impl<'a> Place<'a> {
    pub(crate) const fn new(
        root: &'a Path,
        texts: &'a BTreeMap<PathBuf, Option<String>>,
        documents: &'a Documents,
    ) -> Self {
        Self { root, texts, documents }
    }

    /// The same folder, with documents that stand in for its files.
    pub(crate) const fn under<'b>(self, documents: &'b Documents) -> Place<'b>
    where
        'a: 'b,
    {
        Place { documents, ..self }
    }

    /// The text that a program gives for this file.
    pub(crate) fn given(&self, file: &Path) -> Option<&'a str> {
        self.texts.get(file)?.as_deref()
    }

    /// A folder and nothing else.
    pub(crate) const fn on_disk(root: &'a Path) -> Self {
        const NONE: &BTreeMap<PathBuf, Option<String>> = &BTreeMap::new();
        Self { root, texts: NONE, documents: Documents::NONE }
    }

    /// Says whether there is such a file.
    pub(crate) fn has(&self, file: &Path) -> bool {
        match self.texts.get(file) {
            Some(text) => text.is_some(),
            None => self.root.join(file).exists(),
        }
    }

    /// Says whether this path, which begins with the folder, is that of a file.
    pub(crate) fn is_file(&self, path: &Path) -> bool {
        match self.text(path) {
            Some(text) => text.is_some(),
            None => path.is_file(),
        }
    }

    /// Says whether there is anything at this path, which begins with the folder.
    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.text(path).map_or_else(|| path.exists(), Option::is_some)
    }

    /// Reads the file of this path, which begins with the folder; at most one byte more than `most`.
    pub(crate) fn bytes(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        match self.text(path) {
            Some(Some(text)) => Ok(text.as_bytes().to_vec()),
            Some(None) => Err(io::ErrorKind::NotFound.into()),
            None => {
                let mut bytes = Vec::new();
                File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
                Ok(bytes)
            }
        }
    }

    /// What is read instead of the file of this path, which begins with the folder.
    fn text(&self, path: &Path) -> Option<&'a Option<String>> {
        self.texts.get(path.strip_prefix(self.root).ok()?)
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
            .map(|entry| folder.join(entry.file_name()))
            .filter(|file| !matches!(self.texts.get(file), Some(None)));
        let given = self.texts.iter().filter(|(_, text)| text.is_some());
        let in_code = given.map(|(file, _)| file).filter(|file| file.parent() == Some(folder)).cloned();
        let files: BTreeSet<PathBuf> = on_disk.chain(in_code).collect();
        files.into_iter().filter(|file| file.extension().is_some_and(|found| found == extension)).collect()
    }

    /// Reads a file of at most this many bytes; reports why it cannot be.
    pub(crate) fn read(&self, file: &Path, most: u64, diagnostics: &mut Vec<Diagnostic>) -> Option<String> {
        let read = self.bytes(&self.root.join(file), most);
        let text = read.map_err(|error| format!("the file cannot be read: {error}")).and_then(|bytes| {
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
