//! Versioned documents that are changed while the engine runs: agents, tools and tenants.
//!
//! A [`DocumentStore`] knows nothing of what its documents say: who writes one has checked it before. It keeps each document
//! with its versions and with who wrote them, and a *generation* that each write raises. A process that has read the documents
//! of a generation reads them again when there is a later one. [`SqliteDocuments`] keeps them in a file that several processes
//! share, [`MemoryDocuments`] in memory; both pass one conformance suite.
//!
//! ```
//! use dalsegno_catalogue::{Author, Change, DocumentId, DocumentKind, DocumentStore, MemoryDocuments};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryDocuments::new();
//! let id = DocumentId::new(None, DocumentKind::Tool, "save_meal")?;
//! let by = Author { key: "0123456789abcdef".to_owned(), name: Some("ci".to_owned()) };
//! let change = Change { id: &id, text: Some("{}"), expected: None, generation: store.generation()?, by: &by, at: 1 };
//! let written = store.change(&change)?;
//! assert_eq!(store.get(&id)?.map(|document| document.text), Some("{}\n".to_owned()));
//! // Without the version that is there, a second write is refused.
//! assert!(store.change(&Change { generation: written.generation, ..change }).is_err());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod document;
mod error;
mod limits;
mod memory;
mod rules;
mod sqlite;
mod store;
mod version;

pub use dalsegno_database::OpenError;
pub use document::{Author, Document, DocumentId, DocumentKind, NoDocumentName, Version, VersionEntry};
pub use error::{ChangeError, DocumentsError};
pub use limits::{Limits, Room};
pub use memory::MemoryDocuments;
pub use sqlite::SqliteDocuments;
pub use store::{Change, Changed, DocumentSet, DocumentStore};
pub use version::canonical;
