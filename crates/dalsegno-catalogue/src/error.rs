//! Why documents cannot be read or written.

use dalsegno_database::OpenError;

use crate::document::Version;

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
