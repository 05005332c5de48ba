//! What all processes of a simulated world share besides the journal, and how a store on a real disk fits into virtual time.

use std::io::{BufRead, Write};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use async_trait::async_trait;
use dalsegno_memory::{
    Correct, Corrected, Created, Delete, Deleted, EntityList, EntityView, ExportCounts, ExportError, Found,
    Hit, ImportCounts, ImportError, ImportMode, Memory, MemoryError, NewObservation, OpenError, Relate,
    Related, RelationTo, ScopeSet, SearchQuery, SqliteMemory, Traversal, Traverse, Unrelate, Unrelated,
};
use dalsegno_secrets::{
    MasterKey, MemorySecrets, Put, Rotated, Rotation, SecretEntry, SecretError, SecretName, SecretStore,
    Stored, Tenant, Version,
};

use crate::process::Process;
use crate::world::World;

/// Several times as long as the engine may wait for the memory.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for work of other threads while virtual time stands still and nothing else happens, so that real time decides about
/// nothing.
pub(crate) fn at_once<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    // The budget of a task is given back only when it yields, which this does not.
    let mut work = pin!(tokio::task::unconstrained(work));
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// The memory that all processes share.
pub(crate) struct SharedMemory(Arc<SqliteMemory>);

impl SharedMemory {
    pub(crate) fn new() -> Result<Self, OpenError> {
        SqliteMemory::in_memory().map(|memory| Self(Arc::new(memory)))
    }

    /// The memory as one process has it.
    pub(crate) fn of(&self, world: &Arc<World>, process: &Arc<Process>) -> MemoryOf {
        MemoryOf { inner: Arc::clone(&self.0), world: Arc::clone(world), process: Arc::clone(process) }
    }
}

/// The memory, as one process has it: it may die before and after each write, and keep silent.
pub(crate) struct MemoryOf {
    inner: Arc<SqliteMemory>,
    world: Arc<World>,
    process: Arc<Process>,
}

impl MemoryOf {
    async fn may_die(&self, when: &str) {
        self.process.breathe().await;
        if !self.process.outside && self.process.dies_now() {
            self.world.note(&format!("p{} dies {when} a write of the memory", self.process.number));
            self.world.count("fault", "dies_at_write");
            self.process.kill();
        }
        self.process.breathe().await;
    }

    /// The memory may never answer. The engine must stop waiting.
    async fn may_keep_silent(&self) {
        let silent = self.world.faults().memory_silent;
        if !self.process.outside && self.process.random().chance(silent) {
            self.world.count("fault", "memory_silent");
            tokio::time::sleep(PATIENCE).await;
            // Not one that is dead by now.
            self.process.breathe().await;
            let words = format!("p{} waits for the memory for more than {PATIENCE:?}", self.process.number);
            self.world.judge(|guarantees| guarantees.broken(words));
            std::future::pending::<()>().await;
        }
        self.process.breathe().await;
    }
}

#[async_trait]
impl Memory for MemoryOf {
    async fn search(&self, scopes: &ScopeSet, query: &SearchQuery) -> Result<Vec<Hit>, MemoryError> {
        self.may_keep_silent().await;
        at_once(self.inner.search(scopes, query))
    }

    async fn create_related(
        &self,
        scopes: &ScopeSet,
        observation: NewObservation,
        relations: Vec<RelationTo>,
    ) -> Result<Created, MemoryError> {
        self.may_keep_silent().await;
        self.may_die("before").await;
        let created = at_once(self.inner.create_related(scopes, observation, relations));
        self.may_die("after").await;
        self.may_keep_silent().await;
        created
    }

    async fn relate(&self, scopes: &ScopeSet, relate: Relate) -> Result<Related, MemoryError> {
        at_once(self.inner.relate(scopes, relate))
    }

    async fn unrelate(&self, scopes: &ScopeSet, unrelate: Unrelate) -> Result<Unrelated, MemoryError> {
        at_once(self.inner.unrelate(scopes, unrelate))
    }

    async fn find(&self, scopes: &ScopeSet, beginning: &str) -> Result<Vec<Found>, MemoryError> {
        at_once(self.inner.find(scopes, beginning))
    }

    async fn would_delete(&self, scopes: &ScopeSet, delete: &Delete) -> Result<Deleted, MemoryError> {
        at_once(self.inner.would_delete(scopes, delete))
    }

    async fn delete(&self, scopes: &ScopeSet, delete: &Delete) -> Result<Deleted, MemoryError> {
        at_once(self.inner.delete(scopes, delete))
    }

    async fn correct(&self, scopes: &ScopeSet, correct: Correct) -> Result<Corrected, MemoryError> {
        at_once(self.inner.correct(scopes, correct))
    }

    async fn traverse(&self, scopes: &ScopeSet, traverse: &Traverse) -> Result<Traversal, MemoryError> {
        self.may_keep_silent().await;
        at_once(self.inner.traverse(scopes, traverse))
    }

    async fn entity(&self, scopes: &ScopeSet, name: &str) -> Result<Option<EntityView>, MemoryError> {
        at_once(self.inner.entity(scopes, name))
    }

    async fn entities(&self, scopes: &ScopeSet, prefix: &str, limit: u32) -> Result<EntityList, MemoryError> {
        at_once(self.inner.entities(scopes, prefix, limit))
    }

    async fn export(
        &self,
        scopes: &ScopeSet,
        output: Box<dyn Write + Send>,
    ) -> Result<ExportCounts, ExportError> {
        at_once(self.inner.export(scopes, output))
    }

    async fn import(
        &self,
        scopes: &ScopeSet,
        lines: Box<dyn BufRead + Send>,
        mode: ImportMode,
        at: u64,
    ) -> Result<ImportCounts, ImportError> {
        at_once(self.inner.import(scopes, lines, mode, at))
    }
}

/// The secrets that all processes share.
pub(crate) struct SharedSecrets(pub(crate) Arc<MemorySecrets>);

#[async_trait]
impl SecretStore for SharedSecrets {
    async fn put(&self, tenant: &Tenant, name: &SecretName, put: Put) -> Result<Version, SecretError> {
        self.0.put(tenant, name, put).await
    }

    async fn get(&self, tenant: &Tenant, name: &SecretName, now: u64) -> Result<Option<Stored>, SecretError> {
        self.0.get(tenant, name, now).await
    }

    async fn get_version(
        &self,
        tenant: &Tenant,
        name: &SecretName,
        version: Version,
        now: u64,
    ) -> Result<Option<Stored>, SecretError> {
        self.0.get_version(tenant, name, version, now).await
    }

    async fn list(&self, tenant: &Tenant) -> Result<Vec<SecretEntry>, SecretError> {
        self.0.list(tenant).await
    }

    async fn remove(&self, tenant: &Tenant, name: &SecretName) -> Result<bool, SecretError> {
        self.0.remove(tenant, name).await
    }

    async fn remove_tenant(&self, tenant: &Tenant) -> Result<u64, SecretError> {
        self.0.remove_tenant(tenant).await
    }

    async fn remove_expired(&self, now: u64) -> Result<u64, SecretError> {
        self.0.remove_expired(now).await
    }

    async fn rotate_key(&self, new: &MasterKey, rotation: Rotation) -> Result<Rotated, SecretError> {
        self.0.rotate_key(new, rotation).await
    }
}
