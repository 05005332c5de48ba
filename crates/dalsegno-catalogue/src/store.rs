//! What every store of documents does.

use std::fmt::Debug;

use crate::document::{Author, Document, DocumentId, Version, VersionEntry};
use crate::error::{ChangeError, DocumentsError};

/// A change of one document.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// Which document.
    pub id: &'a DocumentId,
    /// Its new text; none deletes it.
    pub text: Option<&'a str>,
    /// The version that it must be at; none if there must be no such document.
    pub expected: Option<Version>,
    /// The generation of the documents with which the change was checked.
    pub generation: u64,
    /// Who makes the change.
    pub by: &'a Author,
    /// When, in milliseconds since the epoch.
    pub at: u64,
}

/// What came of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// The version that the document is at; none if it was deleted.
    pub version: Option<Version>,
    /// The number of the change that wrote it.
    pub number: u64,
    /// The generation from now on.
    pub generation: u64,
    /// Whether there is something new: the text that is there already changes nothing.
    pub is_new: bool,
}

/// All documents in use at one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentSet {
    /// The generation.
    pub generation: u64,
    /// The documents, in the order of their ids.
    pub documents: Vec<Document>,
}

/// Keeps documents with their versions. Its calls block, those that write for as long as another process writes.
pub trait DocumentStore: Send + Sync + Debug {
    /// The number that each write raises; 0 before the first one.
    ///
    /// # Errors
    /// When it cannot be read.
    fn generation(&self) -> Result<u64, DocumentsError>;

    /// All documents in use.
    ///
    /// # Errors
    /// When one of them cannot be read: some without the others would be another workspace.
    fn snapshot(&self) -> Result<DocumentSet, DocumentsError>;

    /// One document in use.
    ///
    /// # Errors
    /// When it cannot be read.
    fn get(&self, id: &DocumentId) -> Result<Option<Document>, DocumentsError>;

    /// The changes of a document that are kept, the newest first.
    ///
    /// # Errors
    /// When they cannot be read.
    fn versions(&self, id: &DocumentId) -> Result<Vec<VersionEntry>, DocumentsError>;

    /// The text of a version that is kept.
    ///
    /// # Errors
    /// When it cannot be read.
    fn version(&self, id: &DocumentId, version: Version) -> Result<Option<String>, DocumentsError>;

    /// Makes a change, whole or not at all, and raises the generation.
    ///
    /// # Errors
    /// When the document or the generation is another one than expected, a limit is reached, or it cannot be written.
    fn change(&self, change: &Change<'_>) -> Result<Changed, ChangeError>;
}
