//! Documents are shown, checked and changed.

use std::path::Path;
use std::sync::Arc;

use dalsegno_catalogue::{
    Author, Change, ChangeError, Document, DocumentId, DocumentSet, DocumentsError, Version, VersionEntry,
};
use dalsegno_workspace::{Catalogue, Diagnostic, DocumentPlace, InCode, Workspace};

use super::judge::{DocumentCheck, Judged};
use super::{Shelf, document_place, documents};
use crate::engine::Engine;
use crate::error::EngineError;

/// How often a change is checked again because another process was faster.
const ROUNDS: u32 = 16;

/// Where what is in use at a place comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// A file of the workspace.
    File,
    /// A document of the catalogue.
    Catalogue,
}

/// A document as it is in use.
#[derive(Debug, Clone)]
pub struct ShownDocument {
    /// Where it comes from.
    pub layer: Layer,
    /// Its text. Secrets in a file are masked.
    pub text: String,
    /// The version of the text.
    pub version: Version,
    /// Who wrote it, if the catalogue has it.
    pub written: Option<Document>,
}

/// What a writer has seen of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// That there is none, neither in the catalogue nor as a file.
    Absent,
    /// That there is one.
    Any,
    /// One of these versions.
    OneOf(Vec<Version>),
}

/// A change that a client asks for.
#[derive(Debug, Clone)]
pub struct DocumentChange {
    /// Which document.
    pub id: DocumentId,
    /// Its new text; none deletes it, so that the file below is in use again.
    pub text: Option<String>,
    /// What the client has seen.
    pub expected: Expected,
    /// Who it is.
    pub by: Author,
    /// Whether the client may change whom a tenant reaches and what it spends, add a tenant, and delete one.
    pub may_set_terms: bool,
}

/// What came of a change.
#[derive(Debug, Clone)]
pub struct DocumentChanged {
    /// Whether there was nothing at this place before.
    pub is_first: bool,
    /// What is in use now; none where nothing is.
    pub shown: Option<ShownDocument>,
    /// What of the document works, but probably not as intended.
    pub warnings: Vec<Diagnostic>,
}

/// Why a document was not shown, checked or changed. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentFailure {
    /// The engine was opened without a catalogue.
    #[error("this engine uses no catalogue of documents")]
    Off,
    /// The workspace cannot be used as it is.
    #[error("the files of the workspace have errors that no document can mend: run `dalsegno check`")]
    Workspace {
        /// What is wrong with it.
        diagnostics: Vec<Diagnostic>,
    },
    /// There is no such document.
    #[error("there is no such document")]
    Unknown,
    /// It is a file, which only those who can write the workspace's folder delete.
    #[error("it is a file of the workspace, and no document of the catalogue")]
    IsFile,
    /// The document is at another version than the client has seen.
    #[error("the document is at another version")]
    Stale {
        /// The version that it is at; none if there is none.
        found: Option<Version>,
    },
    /// The document, or what it touches, would have errors.
    #[error("the document cannot be used")]
    Invalid(Box<DocumentCheck>),
    /// The client may not change what the document says of a tenant's hosts or spending.
    #[error("the document changes whom the tenant reaches or what it may spend")]
    Terms,
    /// Other writers were faster, again and again.
    #[error("the catalogue changes too often to check a document: try again")]
    Busy,
    /// A limit of the catalogue.
    #[error(transparent)]
    Limit(ChangeError),
    /// The catalogue cannot be read or written.
    #[error(transparent)]
    Documents(#[from] DocumentsError),
    /// What the process itself offers cannot be read, or the work was stopped.
    #[error(transparent)]
    Engine(#[from] Box<EngineError>),
}

impl Engine {
    /// Shows a document as it is in use.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub async fn document(&self, id: &DocumentId) -> Result<ShownDocument, DocumentFailure> {
        let own = id.clone();
        let found = self.blocking(move |desk| {
            let store = desk.shelf.store(false)?;
            Ok(store.map_or(Ok(None), |store| store.get(&own))?)
        });
        if let Some(document) = found.await? {
            return Ok(of_catalogue(document));
        }
        let place = document_place(id);
        // A file is shown as the workspace has read it, with its secrets masked.
        let shown = self.in_turn(move |desk| Ok(desk.read(&desk.shelf.snapshot()?)?.file(&place)));
        shown.await?.ok_or(DocumentFailure::Unknown)
    }

    /// All documents of the catalogue.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn documents(&self) -> Result<Vec<Document>, DocumentFailure> {
        self.blocking(|desk| Ok(desk.shelf.snapshot()?.documents)).await
    }

    /// The changes of a document that the catalogue keeps, the newest first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn document_versions(&self, id: &DocumentId) -> Result<Vec<VersionEntry>, DocumentFailure> {
        let id = id.clone();
        self.blocking(move |desk| {
            let store = desk.shelf.store(false)?;
            Ok(store.map_or_else(|| Ok(Vec::new()), |store| store.versions(&id))?)
        })
        .await
    }

    /// The text of a version that the catalogue keeps.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub async fn document_version(
        &self,
        id: &DocumentId,
        version: Version,
    ) -> Result<String, DocumentFailure> {
        let id = id.clone();
        let found = self.blocking(move |desk| {
            let store = desk.shelf.store(false)?;
            Ok(store.map_or(Ok(None), |store| store.version(&id, version))?)
        });
        found.await?.ok_or(DocumentFailure::Unknown)
    }

    /// Checks a document with everything that it touches, and writes nothing. Without a text it checks what its deletion touches.
    ///
    /// # Errors
    /// When the workspace or the catalogue cannot be read.
    pub async fn check_document(
        &self,
        id: &DocumentId,
        text: Option<String>,
    ) -> Result<DocumentCheck, DocumentFailure> {
        let place = document_place(id);
        self.in_turn(move |desk| {
            let snapshot = desk.shelf.snapshot()?;
            let before = desk.read(&snapshot)?;
            Ok(desk.check(&snapshot, &before, &place, text.as_deref()))
        })
        .await
    }

    /// Checks a document with everything that it touches, and writes it. Every process uses it from its next start of a run on; runs
    /// keep what they began with.
    ///
    /// # Errors
    /// When the document or what it touches would have errors, the client has not seen the version that is there, or it may not make
    /// the change.
    pub async fn change_document(&self, change: DocumentChange) -> Result<DocumentChanged, DocumentFailure> {
        let at = self.now().as_millis();
        let changed = self.in_turn(move |desk| desk.change(&change, at)).await;
        // This process uses it at once.
        self.look().await;
        changed
    }

    /// Work that reads the whole workspace, in its turn.
    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Desk) -> Result<T, DocumentFailure> + Send + 'static,
    ) -> Result<T, DocumentFailure> {
        let shelf = self.ports().live.shelf().cloned().ok_or(DocumentFailure::Off)?;
        // It is never closed. The turn is the work's own: it ends with it, and not when the caller gives up.
        let turn = Arc::clone(&shelf.turns).acquire_owned().await;
        self.blocking(move |desk| {
            let _turn = turn;
            work(desk)
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Desk) -> Result<T, DocumentFailure> + Send + 'static,
    ) -> Result<T, DocumentFailure> {
        let shelf = self.ports().live.shelf().cloned().ok_or(DocumentFailure::Off)?;
        let registered = self.bindings().catalogue(Vec::new()).await.map_err(Box::new)?;
        let workspace = self.workspace();
        let (root, in_code) = (workspace.root.clone(), workspace.in_code.clone());
        let desk = Desk { shelf, root: root.into(), in_code, registered };
        let done = tokio::task::spawn_blocking(move || work(&desk)).await;
        match done {
            Ok(done) => done,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The process is about to end.
            Err(_) => Err(DocumentFailure::Busy),
        }
    }
}

/// What is needed to judge a document.
struct Desk {
    shelf: Arc<Shelf>,
    root: Box<Path>,
    in_code: InCode,
    registered: Catalogue,
}

impl Desk {
    /// The workspace with these documents, as it is now.
    fn read(&self, snapshot: &DocumentSet) -> Result<Judged, DocumentFailure> {
        let now = Judged::read(&self.root, &self.in_code, &documents(snapshot), &self.registered);
        match now.refused() {
            Some(diagnostics) => Err(DocumentFailure::Workspace { diagnostics }),
            None => Ok(now),
        }
    }

    fn check(
        &self,
        snapshot: &DocumentSet,
        before: &Judged,
        place: &DocumentPlace,
        text: Option<&str>,
    ) -> DocumentCheck {
        let mut documents = documents(snapshot);
        // What is stored is the canonical text, so that is what is checked.
        documents.set(place.clone(), text.map(dalsegno_catalogue::canonical).as_deref());
        before.compare(&Judged::read(&self.root, &self.in_code, &documents, &self.registered), place)
    }

    fn change(&self, change: &DocumentChange, at: u64) -> Result<DocumentChanged, DocumentFailure> {
        let DocumentChange { id, text, expected, by, may_set_terms } = change;
        let place = document_place(id);
        for _ in 0..ROUNDS {
            let snapshot = self.shelf.snapshot()?;
            let before = self.read(&snapshot)?;
            let of_tenant = id.tenant().filter(|tenant| !has_tenant(&before, tenant));
            if of_tenant.is_some() {
                return Err(DocumentFailure::Unknown);
            }
            let document = snapshot.documents.iter().find(|document| document.id == *id);
            let file = before.file(&place);
            let found = document.map(|document| document.version).or(file.as_ref().map(|file| file.version));
            let is_seen = match (expected, found) {
                (Expected::Absent, None) | (Expected::Any, Some(_)) => true,
                (Expected::OneOf(versions), Some(found)) => versions.contains(&found),
                _ => false,
            };
            match (text, found, document) {
                (None, None, _) => return Err(DocumentFailure::Unknown),
                _ if !is_seen => return Err(DocumentFailure::Stale { found }),
                (None, Some(_), None) => return Err(DocumentFailure::IsFile),
                _ => {}
            }
            let check = self.check(&snapshot, &before, &place, text.as_deref());
            if !check.errors.is_empty() || !check.agents.is_empty() {
                return Err(DocumentFailure::Invalid(Box::new(check)));
            }
            if check.changes_terms && !may_set_terms {
                return Err(DocumentFailure::Terms);
            }
            let store = self.shelf.store(true)?.ok_or(DocumentFailure::Off)?;
            let expected = document.map(|document| document.version);
            let write =
                Change { id, text: text.as_deref(), expected, generation: snapshot.generation, by, at };
            let written = match store.change(&write) {
                Ok(written) => written,
                // Another process has written since: what was checked is not what is there.
                Err(ChangeError::Stale { .. } | ChangeError::Moved { .. }) => continue,
                Err(ChangeError::Documents(error)) => return Err(error.into()),
                Err(limit) => return Err(DocumentFailure::Limit(limit)),
            };
            let shown = match (written.version, text) {
                // Not what is there by now: another process may have written since.
                (Some(version), Some(text)) if written.is_new => {
                    let text = dalsegno_catalogue::canonical(text);
                    let (id, by, number) = (id.clone(), by.clone(), written.number);
                    Some(of_catalogue(Document { id, text, version, number, at, by }))
                }
                (Some(_), _) => document.cloned().map(of_catalogue),
                (None, _) => Judged::read(
                    &self.root,
                    &self.in_code,
                    &self.without(&snapshot, &place),
                    &self.registered,
                )
                .file(&place),
            };
            let is_first = found.is_none();
            return Ok(DocumentChanged { is_first, shown, warnings: check.warnings });
        }
        Err(DocumentFailure::Busy)
    }

    fn without(&self, snapshot: &DocumentSet, place: &DocumentPlace) -> dalsegno_workspace::Documents {
        let mut documents = documents(snapshot);
        documents.set(place.clone(), None);
        documents
    }
}

impl Judged {
    /// What a file of the workspace has at this place, whether it is in use or not.
    fn file(&self, place: &DocumentPlace) -> Option<ShownDocument> {
        let workspace = self.workspace()?;
        let source = match place {
            DocumentPlace::Agent(name) => {
                let agent = name.parse().ok().and_then(|name| workspace.agents.get(&name));
                agent.map(|agent| agent.source.clone())
            }
            DocumentPlace::Tool(name) => workspace.toolkits.get(name).and_then(|file| file.source.clone()),
            DocumentPlace::Tenant(name) => workspace.tenants.get(name).map(|tenant| tenant.source.clone()),
            DocumentPlace::ToolOf { tenant, name } => {
                let own = workspace.tenants.get(tenant).and_then(|tenant| tenant.tools.get(name));
                own.and_then(|file| file.source.clone())
            }
        };
        let in_use = source.filter(|source| !source.is_document()).map(|source| source.text().to_owned());
        // One with errors is there all the same.
        let text = in_use.or_else(|| self.text(&place.file()).map(str::to_owned))?;
        Some(ShownDocument { layer: Layer::File, version: Version::of(&text), text, written: None })
    }
}

fn of_catalogue(document: Document) -> ShownDocument {
    let (text, version) = (document.text.clone(), document.version);
    ShownDocument { layer: Layer::Catalogue, text, version, written: Some(document) }
}

/// Says whether a document of this tenant would be read: the tenant has a file or a document of its own, with or without errors.
fn has_tenant(judged: &Judged, tenant: &str) -> bool {
    let known = |workspace: &Workspace| {
        workspace.tenants.contains_key(tenant) || workspace.broken.tenants.contains(tenant)
    };
    judged.workspace().is_some_and(known)
}
