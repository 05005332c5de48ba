//! The memory in one SQLite file.

mod amend;
mod create;
mod examine;
mod export;
mod import;
mod rank;
mod readers;
mod relate;
mod rows;
mod schema;
mod search;
mod seeded;
mod traverse;
mod view;

use std::io::{BufRead, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use self::readers::Readers;
use crate::relation::check_relations;
use crate::seed::{Digesting, SeedCounts, SeedError, SeedLines};
use crate::traverse::check_limit;
use crate::{
    Correct, Corrected, Created, Delete, Deleted, EntityList, EntityView, ExportCounts, ExportError, Found,
    Hit, ImportCounts, ImportError, ImportMode, Memory, MemoryError, NewObservation, OpenError, Relate,
    Related, RelationTo, ScopeSet, SearchQuery, Traversal, Traverse, Unrelate, Unrelated,
};

/// A [`Memory`] in one SQLite file, or in SQLite's own memory.
///
/// Clones share their connections: one that writes, one call at a time, and a few that read beside it. Calls
/// run on Tokio's blocking threads. Several processes may have the same file open: writes take turns,
/// nothing is lost, and a write that was answered survives a power cut.
#[derive(Clone, Debug)]
pub struct SqliteMemory {
    // Dropped before the writer: the last connection to close folds the log into the file, and must be able
    // to write it.
    /// Absent when the memory is in no file, which only its own connection sees.
    readers: Option<Arc<Readers>>,
    writer: Arc<Mutex<Connection>>,
}

impl SqliteMemory {
    /// Opens the file, or makes it; its folder must exist. Blocks for a moment.
    ///
    /// # Errors
    /// Says whether the file cannot be opened, is damaged, belongs to another program, comes from a newer
    /// version of this one, or is held by another process. Such a file is left as it is.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        // Its owner's alone from the start; what cannot be made or changed is told by what opens it.
        if let Err(error) = dalsegno_files::reserve(path) {
            tracing::debug!(path = %path.display(), %error, "the file of the memory was not made");
        }
        for closed in dalsegno_files::close_database(path) {
            tracing::warn!(
                path = %closed.path.display(),
                mode = format!("{:04o}", closed.mode),
                "other users could use this file: it is closed to them from now on"
            );
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)
            .map_err(|source| OpenError::from_sqlite(path.to_owned(), source))?;
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

    /// Copies the memory as of this moment, with all scopes, to a new file for its owner only, and examines the copy. Others may write
    /// meanwhile, in other processes. Blocks.
    ///
    /// # Errors
    /// When something stands there already, it cannot be written, or the copy is damaged. Nothing is left there then.
    pub fn copy(&self, target: impl AsRef<Path>) -> Result<(), OpenError> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(dalsegno_database::copy("the memory file", &writer, target.as_ref())?)
    }

    /// Examines the whole file: each page, each index, and that no entry refers to one that is missing. Nothing is written, made or
    /// migrated. Returns what is wrong with it, nothing where it is sound. Blocks.
    ///
    /// # Errors
    /// When the file cannot be opened, is held by another process, or is of a newer version.
    pub fn examine(path: impl AsRef<Path>) -> Result<Vec<String>, OpenError> {
        examine::examine(path.as_ref())
    }

    /// Loads JSON lines of `{"entity", "type", "text", "metadata"}` into the written scope, all or none.
    ///
    /// A line that stands there already is counted and left alone, so that loading a file again changes
    /// nothing. Blank lines are skipped. Lines are read one by one while the file is locked for other
    /// writers. [`is_seeded`](Self::is_seeded) knows the file from then on.
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
            let mut lines = Digesting::new(lines);
            for entry in SeedLines::new(&mut lines, scopes.write_key(), recorded_at) {
                let (line, observation) = entry?;
                let created = create::create(transaction, scopes.write_key(), &observation, &[])
                    .map_err(|problem| SeedError::Refused { line, problem })?;
                counts.count(created.duplicate || created.repeated);
            }
            seeded::keep(transaction, scopes.write_key(), &lines.digest())?;
            Ok(counts)
        })
        .await
    }

    /// Says whether the written scope has taken in a seed file with this content, the BLAKE3 digest of all its bytes: loading it
    /// once more would change nothing.
    ///
    /// # Errors
    /// When the memory cannot be read.
    pub async fn is_seeded(&self, scopes: &ScopeSet, digest: [u8; 32]) -> Result<bool, MemoryError> {
        let scopes = scopes.clone();
        self.read(move |transaction| seeded::is_kept(transaction, scopes.write_key(), &digest)).await
    }

    fn with(connection: Connection, path: &Path) -> Result<Self, OpenError> {
        let connection = schema::prepare(connection, path)?;
        let log: String = connection
            .pragma_query_value(None, "journal_mode", |row| row.get(0))
            .map_err(|source| OpenError::from_sqlite(path.to_owned(), source))?;
        let readers = match connection.path() {
            Some(file) if log == "wal" => Some(Arc::new(Readers::open(file)?)),
            _ => None,
        };
        Ok(Self { readers, writer: Arc::new(Mutex::new(connection)) })
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
        let writer = Arc::clone(&self.writer);
        blocking(move || {
            // A panic in between rolled its transaction back, so that the connection is as good as before.
            let mut connection = writer.lock().unwrap_or_else(PoisonError::into_inner);
            transact(&mut connection, TransactionBehavior::Immediate, work)
        })
        .await
    }

    /// Runs `work` like [`write`](Self::write), without the check of references. What it deletes is gone from the log as well
    /// when it returns, unless another process reads an earlier state at that moment.
    async fn erase<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let writer = Arc::clone(&self.writer);
        blocking(move || {
            let mut connection = writer.lock().unwrap_or_else(PoisonError::into_inner);
            connection.pragma_update(None, "foreign_keys", false)?;
            let done = transact(&mut connection, TransactionBehavior::Immediate, work);
            connection.pragma_update(None, "foreign_keys", true)?;
            let done = done?;
            let folded =
                connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
            if !matches!(folded, Ok(0)) {
                tracing::warn!(
                    "the log of the memory still holds what was deleted: another process reads it"
                );
            }
            Ok(done)
        })
        .await
    }

    /// Runs `work` on one state of the memory, while others may write.
    async fn read<T, E>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<MemoryError> + Send + 'static,
    {
        let Some(readers) = &self.readers else {
            let writer = Arc::clone(&self.writer);
            return blocking(move || {
                let mut connection = writer.lock().unwrap_or_else(PoisonError::into_inner);
                transact(&mut connection, TransactionBehavior::Deferred, work)
            })
            .await;
        };
        let turn = readers.turn().await;
        blocking(move || turn.with(|connection| transact(connection, TransactionBehavior::Deferred, work)))
            .await
    }
}

async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<MemoryError> + Send + 'static,
{
    let task = tokio::task::spawn_blocking(work);
    task.await.unwrap_or_else(|source| Err(MemoryError::Stopped { source }.into()))
}

fn transact<T, E: From<MemoryError>>(
    connection: &mut Connection,
    behavior: TransactionBehavior,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let transaction = connection.transaction_with_behavior(behavior).map_err(MemoryError::from)?;
    let done = work(&transaction)?;
    transaction.commit().map_err(MemoryError::from)?;
    Ok(done)
}

#[async_trait]
impl Memory for SqliteMemory {
    async fn search(&self, scopes: &ScopeSet, query: &SearchQuery) -> Result<Vec<Hit>, MemoryError> {
        query.check()?;
        let (scopes, query) = (scopes.clone(), query.clone());
        self.read(move |transaction| search::search(transaction, &scopes, &query)).await
    }

    async fn create_related(
        &self,
        scopes: &ScopeSet,
        observation: NewObservation,
        relations: Vec<RelationTo>,
    ) -> Result<Created, MemoryError> {
        let (observation, relations) = (observation.check()?, check_relations(relations)?);
        let scope = scopes.write_key().clone();
        self.write(move |transaction| create::create(transaction, &scope, &observation, &relations)).await
    }

    async fn relate(&self, scopes: &ScopeSet, relate: Relate) -> Result<Related, MemoryError> {
        let (change, scope) = (relate.check()?, scopes.write_key().clone());
        self.write(move |transaction| relate::relate(transaction, &scope, &change)).await
    }

    async fn unrelate(&self, scopes: &ScopeSet, unrelate: Unrelate) -> Result<Unrelated, MemoryError> {
        let (change, scope) = (unrelate.check()?, scopes.write_key().clone());
        self.write(move |transaction| relate::unrelate(transaction, &scope, &change)).await
    }

    async fn find(&self, scopes: &ScopeSet, beginning: &str) -> Result<Vec<Found>, MemoryError> {
        let (scope, beginning) = (scopes.write_key().clone(), beginning.to_owned());
        self.read(move |transaction| amend::find(transaction, &scope, &beginning)).await
    }

    async fn would_delete(&self, scopes: &ScopeSet, delete: &Delete) -> Result<Deleted, MemoryError> {
        let (scope, delete) = (scopes.write_key().clone(), delete.clone());
        self.read(move |transaction| amend::would_delete(transaction, &scope, &delete)).await
    }

    async fn delete(&self, scopes: &ScopeSet, delete: &Delete) -> Result<Deleted, MemoryError> {
        let (scope, delete) = (scopes.write_key().clone(), delete.clone());
        self.erase(move |transaction| amend::delete(transaction, &scope, &delete)).await
    }

    async fn correct(&self, scopes: &ScopeSet, correct: Correct) -> Result<Corrected, MemoryError> {
        let scope = scopes.write_key().clone();
        self.write(move |transaction| amend::correct(transaction, &scope, &correct)).await
    }

    async fn traverse(&self, scopes: &ScopeSet, traverse: &Traverse) -> Result<Traversal, MemoryError> {
        traverse.check()?;
        let (scopes, traverse) = (scopes.clone(), traverse.clone());
        self.read(move |transaction| traverse::traverse(transaction, &scopes, &traverse)).await
    }

    async fn entity(&self, scopes: &ScopeSet, name: &str) -> Result<Option<EntityView>, MemoryError> {
        let (scopes, name) = (scopes.clone(), name.to_owned());
        self.read(move |transaction| view::entity(transaction, &scopes, &name)).await
    }

    async fn entities(&self, scopes: &ScopeSet, prefix: &str, limit: u32) -> Result<EntityList, MemoryError> {
        check_limit(limit)?;
        let (scopes, prefix) = (scopes.clone(), prefix.to_owned());
        self.read(move |transaction| view::entities(transaction, &scopes, &prefix, limit)).await
    }

    async fn export(
        &self,
        scopes: &ScopeSet,
        output: Box<dyn Write + Send>,
    ) -> Result<ExportCounts, ExportError> {
        let scope = scopes.write_key().clone();
        self.read(move |transaction| export::export(transaction, &scope, &mut BufWriter::new(output))).await
    }

    async fn import(
        &self,
        scopes: &ScopeSet,
        lines: Box<dyn BufRead + Send>,
        mode: ImportMode,
        at: u64,
    ) -> Result<ImportCounts, ImportError> {
        let scope = scopes.write_key().clone();
        // What comes slowly keeps nobody from writing.
        let entries = blocking(move || import::read(lines, at)).await?;
        self.write(move |transaction| import::import(transaction, &scope, &entries, mode)).await
    }
}
