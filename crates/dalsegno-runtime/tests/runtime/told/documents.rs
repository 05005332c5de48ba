//! Documents that stand in for files, in an engine that a program opens.

use std::sync::Arc;

use dalsegno_catalogue::{
    Author, ChangeError, Changed, Document, DocumentId, DocumentKind, DocumentSet, DocumentStore,
    DocumentsError, MemoryDocuments, Version, VersionEntry,
};
use dalsegno_core::AgentRequest;
use dalsegno_runtime::{DocumentChange, DocumentFailure, Engine, Expected, Layer, Look};

use crate::support::World;

fn says(word: &str) -> String {
    format!("name = \"a\"\n[[steps]]\nrespond = \"{word}\"\n")
}

/// One store for two engines, as two processes have one file; or none that can be read.
#[derive(Debug, Clone)]
struct Shared(Arc<MemoryDocuments>, Arc<std::sync::atomic::AtomicBool>);

impl Shared {
    fn check(&self) -> Result<(), DocumentsError> {
        match self.1.load(std::sync::atomic::Ordering::SeqCst) {
            true => Err(DocumentsError::Damaged { what: "agent `a`".to_owned() }),
            false => Ok(()),
        }
    }
}

impl DocumentStore for Shared {
    fn generation(&self) -> Result<u64, DocumentsError> {
        self.check()?;
        self.0.generation()
    }
    fn snapshot(&self) -> Result<DocumentSet, DocumentsError> {
        self.check()?;
        self.0.snapshot()
    }
    fn get(&self, id: &DocumentId) -> Result<Option<Document>, DocumentsError> {
        self.0.get(id)
    }
    fn versions(&self, id: &DocumentId) -> Result<Vec<VersionEntry>, DocumentsError> {
        self.0.versions(id)
    }
    fn version(&self, id: &DocumentId, version: Version) -> Result<Option<String>, DocumentsError> {
        self.0.version(id, version)
    }
    fn change(&self, change: &dalsegno_catalogue::Change<'_>) -> Result<Changed, ChangeError> {
        self.0.change(change)
    }
}

async fn open(world: &World, store: &Shared) -> Engine {
    Engine::builder().documents(store.clone()).open(world.path()).await.unwrap()
}

async fn answer(engine: &Engine) -> String {
    let response = engine.execute_agent_request(&"a".parse().unwrap(), AgentRequest::text("")).await.unwrap();
    response.answer.unwrap_or_default()
}

fn change(text: Option<&str>, expected: Expected) -> DocumentChange {
    DocumentChange {
        id: DocumentId::new(None, DocumentKind::Agent, "a").unwrap(),
        text: text.map(str::to_owned),
        expected,
        by: Author { key: "k".to_owned(), name: None },
        may_set_terms: false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_with_one_catalogue_see_its_changes_at_their_next_start() {
    let world = World::new("[[steps]]\nrespond = \"of the file\"\n");
    let store = Shared(Arc::default(), Arc::default());
    let (one, other) = (open(&world, &store).await, open(&world, &store).await);
    assert_eq!(answer(&other).await, "of the file");
    let absent = one.change_document(change(Some(&says("x")), Expected::Absent)).await;
    assert!(matches!(absent, Err(DocumentFailure::Stale { found: Some(_) })), "{absent:?}");
    let changed = one.change_document(change(Some(&says("written")), Expected::Any)).await.unwrap();
    assert!(!changed.is_first);
    assert_eq!(changed.shown.unwrap().layer, Layer::Catalogue);
    assert!(matches!(one.look().await, Look::Unchanged), "the writer has it already");
    assert_eq!((answer(&one).await, answer(&other).await), ("written".to_owned(), "written".to_owned()));
    let uncovered = other.change_document(change(None, Expected::Any)).await.unwrap();
    assert_eq!(uncovered.shown.unwrap().layer, Layer::File);
    assert_eq!(
        (answer(&one).await, answer(&other).await),
        ("of the file".to_owned(), "of the file".to_owned())
    );
    let wrong = one.change_document(change(Some("name = "), Expected::Any)).await;
    let Err(DocumentFailure::Invalid(check)) = wrong else { panic!("{wrong:?}") };
    assert!(
        check.errors.iter().all(|found| found.file.starts_with("catalogue/agents")),
        "{:?}",
        check.errors
    );
    assert_eq!(store.generation().unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalogue_that_cannot_be_read_leaves_the_workspace_as_it_was() {
    let world = World::new("[[steps]]\nrespond = \"of the file\"\n");
    let store = Shared(Arc::default(), Arc::default());
    let engine = open(&world, &store).await;
    engine.change_document(change(Some(&says("written")), Expected::Any)).await.unwrap();
    store.1.store(true, std::sync::atomic::Ordering::SeqCst);
    let Look::Refused(found) = engine.look().await else { panic!("it is refused") };
    assert!(found.iter().any(|found| found.is_error() && found.message.contains("damaged")), "{found:?}");
    assert!(matches!(engine.look().await, Look::Unchanged), "the same trouble is told once");
    // The file below may allow more, so that it is not used instead; neither by an engine that is opened now.
    assert_eq!(answer(&engine).await, "written");
    assert!(Engine::builder().documents(store.clone()).open(world.path()).await.is_err());
    store.1.store(false, std::sync::atomic::Ordering::SeqCst);
    assert!(matches!(engine.look().await, Look::Taken(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_of_files_alone_takes_no_documents() {
    let world = World::new("[[steps]]\nrespond = \"of the file\"\n");
    let files = dalsegno_workspace::Workspace::load(world.path()).workspace.unwrap();
    let engine = Engine::builder().build(files).await.unwrap();
    let refused = engine.change_document(change(Some(&says("x")), Expected::Any)).await;
    assert!(matches!(refused, Err(DocumentFailure::Off)), "{refused:?}");
    let whole = Engine::open(world.path()).await.unwrap();
    whole.change_document(change(Some(&says("written")), Expected::Any)).await.unwrap();
    assert_eq!(
        (answer(&engine).await, answer(&whole).await),
        ("of the file".to_owned(), "written".to_owned())
    );
}
