//! The catalogue of a workspace: documents that stand in for its files, and that are changed while runs are performed.

mod change;
mod judge;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use dalsegno_catalogue::{
    DocumentId, DocumentKind, DocumentSet, DocumentStore, DocumentsError, OpenError, SqliteDocuments,
};
use dalsegno_workspace::{DocumentPlace, Documents, InCode, Loaded, Settings, Workspace};
use tokio::sync::Semaphore;

pub use self::change::{DocumentChange, DocumentChanged, DocumentFailure, Expected, Layer, ShownDocument};
pub use self::judge::DocumentCheck;

pub use dalsegno_catalogue::canonical as canonical_document;

/// The name of the file, beside the journal.
const FILE: &str = "catalogue.db";

/// Reads a workspace as an engine does: with the documents of its catalogue.
pub fn load_workspace(root: &Path) -> Loaded {
    load_workspace_with(root, &InCode::default())
}

/// The same, with the parts that a program gives instead of files.
pub fn load_workspace_with(root: &Path, in_code: &InCode) -> Loaded {
    Workspace::load_under(root, in_code, |settings| Shelf::of(root, settings).documents())
}

/// Where a document stands in the workspace.
pub fn document_place(id: &DocumentId) -> DocumentPlace {
    let name = id.name().to_owned();
    match (id.kind(), id.tenant()) {
        (DocumentKind::Agent, _) => DocumentPlace::Agent(name),
        (DocumentKind::Tenant, _) => DocumentPlace::Tenant(name),
        (DocumentKind::Tool, None) => DocumentPlace::Tool(name),
        (DocumentKind::Tool, Some(tenant)) => DocumentPlace::ToolOf { tenant: tenant.to_owned(), name },
    }
}

/// The catalogue of a workspace. Its file is made by the first process that writes a document, and noticed by all others.
#[derive(Debug)]
pub(crate) struct Shelf {
    file: PathBuf,
    store: Mutex<Option<Arc<dyn DocumentStore>>>,
    /// The work that reads the whole workspace: one at a time, and what waits for it takes no thread.
    turns: Arc<Semaphore>,
}

impl Shelf {
    /// That of a workspace with these settings.
    pub(crate) fn of(root: &Path, settings: &Settings) -> Self {
        let folder = settings.store.parent().unwrap_or(root);
        Self { file: folder.join(FILE), store: Mutex::default(), turns: Arc::new(Semaphore::new(1)) }
    }

    /// One that is kept elsewhere.
    pub(crate) fn given(store: Arc<dyn DocumentStore>) -> Self {
        Self { file: PathBuf::from(FILE), store: Mutex::new(Some(store)), turns: Arc::new(Semaphore::new(1)) }
    }

    /// The store, if there is one; it is made first where one is `wanted`.
    fn store(&self, wanted: bool) -> Result<Option<Arc<dyn DocumentStore>>, DocumentsError> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        if store.is_none() && (wanted || self.is_there()?) {
            *store = Some(Arc::new(SqliteDocuments::open(&self.file)?));
        }
        Ok(store.clone())
    }

    /// Whether there is a file. One that cannot be seen may be there, and the files below it may allow more than its documents.
    fn is_there(&self) -> Result<bool, DocumentsError> {
        match std::fs::symlink_metadata(&self.file) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => {
                Err(OpenError::File { what: SqliteDocuments::WHAT, path: self.file.clone(), source }.into())
            }
        }
    }

    /// The generation of the documents by now.
    pub(crate) fn generation(&self) -> Result<u64, String> {
        let read = || self.store(false)?.map_or(Ok(0), |store| store.generation());
        read().map_err(|error| in_words(&error))
    }

    /// The documents by now; where they cannot be read, the file and why not.
    pub(crate) fn documents(&self) -> Result<Documents, (PathBuf, String)> {
        let snapshot = self.snapshot().map_err(|error| (self.file.clone(), in_words(&error)))?;
        Ok(documents(&snapshot))
    }

    fn snapshot(&self) -> Result<DocumentSet, DocumentsError> {
        let none = DocumentSet { generation: 0, documents: Vec::new() };
        self.store(false)?.map_or(Ok(none), |store| store.snapshot())
    }
}

/// The documents as a workspace reads them.
fn documents(snapshot: &DocumentSet) -> Documents {
    let mut documents = Documents::of_generation(snapshot.generation);
    for document in &snapshot.documents {
        documents.set(document_place(&document.id), Some(&document.text));
    }
    documents
}

fn in_words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words.push_str(": ");
        words.push_str(&cause.to_string());
        source = cause.source();
    }
    words
}
