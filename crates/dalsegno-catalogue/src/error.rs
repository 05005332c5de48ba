//! Why documents cannot be read or written.

use std::io;
use std::path::PathBuf;

use crate::document::Version;

/// Why the file of documents cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file or its folder cannot be used.
    #[error("cannot open `{}`, the catalogue of documents", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file belongs to another user.
    #[error("`{}`, the catalogue of documents, belongs to another user", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// Another program's database.
    #[error("`{}` is not a catalogue of documents", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A newer release wrote it.
    #[error("`{}` has version {found}, and this release reads version {known}: use a newer release", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The version of this release.
        known: i64,
    },
    /// What was copied is not what was there.
    #[error("`{}`, a copy of the catalogue of documents, is damaged, as what it was copied from is", path.display())]
    Damaged {
        /// The copy.
        path: PathBuf,
    },
    /// The database failed.
    #[error("cannot use `{}`, the catalogue of documents", path.display())]
    Storage {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
}

/// Why documents cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentsError {
    /// An entry is not what was written.
    #[error("the {what} is damaged in the catalogue of documents: restore `catalogue.db` from a backup")]
    Damaged {
        /// The entry.
        what: String,
    },
    /// The database failed.
    #[error("the catalogue of documents cannot be read or written")]
    Storage(#[from] rusqlite::Error),
    /// The file cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Why a change was not made. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The document is at another version than the writer has seen.
    #[error("the document is at another version")]
    Stale {
        /// The version that it is at; none if there is no such document.
        found: Option<Version>,
    },
    /// Some document has changed since the change was checked.
    #[error("another document has changed meanwhile")]
    Moved {
        /// The generation by now.
        generation: u64,
    },
    /// The text is too large.
    #[error("the document has {bytes} bytes: at most {most} are kept")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// There are as many documents as are kept.
    #[error("there are {most} documents of this kind already: delete one first")]
    TooMany {
        /// The limit.
        most: u64,
    },
    /// The documents are together as large as is kept.
    #[error("the documents of this kind would have more than {most} bytes together: delete one first")]
    Full {
        /// The limit.
        most: u64,
    },
    /// They cannot be read or written.
    #[error(transparent)]
    Documents(#[from] DocumentsError),
}

impl From<rusqlite::Error> for ChangeError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Documents(error.into())
    }
}
