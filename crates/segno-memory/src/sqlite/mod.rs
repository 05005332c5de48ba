//! The memory in one SQLite file.

mod create;
mod rank;
mod schema;
mod search;

use std::io::BufRead;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::seed::{SeedCounts, SeedError, SeedLines};
use crate::{Created, Hit, Memory, MemoryError, NewObservation, OpenError, ScopeSet, SearchQuery};

/// A [`Memory`] in one SQLite file, or in SQLite's own memory.
///
/// Clones share one connection; its calls run one at a time on Tokio's blocking threads. Several processes
/// may have the same file open: writes take turns, nothing is lost, and a write that was answered survives
/// a power cut.
#[derive(Clone, Debug)]
pub struct SqliteMemory {
    connection: Arc<Mutex<Connection>>,
}

impl SqliteMemory {
    /// Opens the file, or makes it; its folder must exist. Blocks for a moment.
    ///
    /// # Errors
    /// Says whether the file cannot be opened, is damaged, belongs to another program, comes from a newer
    /// version of this one, or is held by another process. Such a file is left as it is.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let connection =
            Connection::open(path).map_err(|source| OpenError::from_sqlite(path.to_owned(), source))?;
        Self::with(connection, path)
    }

    /// Opens an empty memory that is gone when its last clone is dropped.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn in_memory() -> Result<Self, OpenError> {
        let path = Path::new(":memory:");
        let connection =
            Connection::open_in_memory().map_err(|source| OpenError::from_sqlite(path.to_owned(), source))?;
        Self::with(connection, path)
    }

    /// Loads JSON lines of `{"entity", "type", "text", "metadata"}` into the written scope, all or none.
    ///
    /// A line that stands there already is counted and left alone, so that loading a file again changes
    /// nothing. Blank lines are skipped. Lines are read one by one while the file is locked for other
    /// writers.
    ///
    /// # Errors
    /// Names the first line that cannot be read or kept, and what was expected; nothing was written then.
    pub async fn seed(
        &self,
        scopes: &ScopeSet,
        lines: impl BufRead + Send + 'static,
        recorded_at: u64,
    ) -> Result<SeedCounts, SeedError> {
        let scopes = scopes.clone();
        self.write(move |transaction| {
            let mut counts = SeedCounts::default();
            for entry in SeedLines::new(lines, scopes.write_key(), recorded_at) {
                let (line, observation) = entry?;
                let created = create::create(transaction, scopes.write_key(), &observation)
                    .map_err(|problem| SeedError::Refused { line, problem })?;
                counts.count(created.duplicate);
            }
            Ok(counts)
        })
        .await
    }

    fn with(connection: Connection, path: &Path) -> Result<Self, OpenError> {
        let connection = schema::prepare(connection, path)?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    /// Runs `work` in a transaction that holds the write lock from its start, and commits if it succeeds.
    async fn write<T, E>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<MemoryError> + Send + 'static,
    {
        self.transact(TransactionBehavior::Immediate, work).await
    }

    async fn transact<T, E>(
        &self,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<MemoryError> + Send + 'static,
    {
        let connection = Arc::clone(&self.connection);
        let task = tokio::task::spawn_blocking(move || {
            // A panic in between rolled its transaction back, so that the connection is as good as before.
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let transaction = connection.transaction_with_behavior(behavior).map_err(MemoryError::from)?;
            let done = work(&transaction)?;
            transaction.commit().map_err(MemoryError::from)?;
            Ok(done)
        });
        task.await.unwrap_or_else(|source| Err(MemoryError::Stopped { source }.into()))
    }
}

#[async_trait]
impl Memory for SqliteMemory {
    async fn search(&self, scopes: &ScopeSet, query: &SearchQuery) -> Result<Vec<Hit>, MemoryError> {
        query.check()?;
        let (scopes, query) = (scopes.clone(), query.clone());
        // One transaction, so that words, statistics and texts are of the same moment.
        self.transact(TransactionBehavior::Deferred, move |transaction| {
            search::search(transaction, &scopes, &query)
        })
        .await
    }

    async fn create(&self, scopes: &ScopeSet, observation: NewObservation) -> Result<Created, MemoryError> {
        let observation = observation.check()?;
        let scope = scopes.write_key().clone();
        self.write(move |transaction| create::create(transaction, &scope, &observation)).await
    }
}
