//! The operations that every memory offers.

use std::io::{BufRead, Write};

use async_trait::async_trait;

use crate::{
    Correct, Corrected, Created, Delete, Deleted, EntityList, EntityView, ExportCounts, ExportError, Found,
    Hit, ImportCounts, ImportError, ImportMode, MemoryError, NewObservation, Relate, Related, RelationTo,
    ScopeSet, SearchQuery, Traversal, Traverse, Unrelate, Unrelated,
};

/// Keeps observations and relations and finds them again, within scopes.
///
/// Implementations may be shared between runs and called at the same time. Dropping a future does not undo a
/// write that had begun; repeating it under the same operation id is always safe.
///
/// Reading takes all readable scopes together: where several of them have an entity of one name, it is one
/// entity to the reader. Its type is that of the narrowest scope that knows it.
#[async_trait]
pub trait Memory: Send + Sync {
    /// Returns the observations that fit the query best, among those that `scopes` may read.
    ///
    /// The best comes first; equal scores stand in the order of their ids. A query without a single word
    /// finds nothing, which is not an error.
    ///
    /// # Errors
    /// [`MemoryError::Limit`] and [`MemoryError::MinScore`] for a query out of bounds, otherwise trouble
    /// with the storage.
    async fn search(&self, scopes: &ScopeSet, query: &SearchQuery) -> Result<Vec<Hit>, MemoryError>;

    /// Writes one observation into the scope that `scopes` may write, at most once for each operation id.
    ///
    /// This is [`Memory::create_related`] without relations.
    ///
    /// # Errors
    /// Those of [`Memory::create_related`].
    async fn create(&self, scopes: &ScopeSet, observation: NewObservation) -> Result<Created, MemoryError> {
        self.create_related(scopes, observation, Vec::new()).await
    }

    /// Writes one observation and relations of its entity, all or none, at most once for each operation id.
    ///
    /// The entity is made when its scope has none of that name. The same text and metadata about the same
    /// entity are kept once, whatever the operation: the first stays as it is and [`Created::duplicate`]
    /// says so; if it no longer stood, it stands again. Each relation is written as [`Memory::relate`] does,
    /// of full strength.
    ///
    /// # Errors
    /// A value out of bounds, [`MemoryError::EntityType`] when the entity is of another type,
    /// [`MemoryError::OperationReused`] when the operation id stands for something else, otherwise trouble
    /// with the storage. Nothing was written then.
    async fn create_related(
        &self,
        scopes: &ScopeSet,
        observation: NewObservation,
        relations: Vec<RelationTo>,
    ) -> Result<Created, MemoryError>;

    /// Writes a relation between two entities of the written scope, at most once for each operation id.
    ///
    /// An entity that the scope does not have is made, of the type [`UNKNOWN_TYPE`](crate::UNKNOWN_TYPE):
    /// relations are often learned before what they lead to, and [`Related::made`] shows a misspelt name.
    /// The same relation of the same strength is kept once. With another strength, the one that stood ends
    /// and a new one begins. Periods of one relation never overlap: a time before the last end becomes that
    /// end.
    ///
    /// # Errors
    /// A value out of bounds, [`MemoryError::OperationReused`], otherwise trouble with the storage. Nothing
    /// was written then.
    async fn relate(&self, scopes: &ScopeSet, relate: Relate) -> Result<Related, MemoryError>;

    /// Ends a relation of the written scope, at most once for each operation id.
    ///
    /// It stays in the history, for at least a millisecond. That there is none to end is not an error;
    /// [`Unrelated::ended`] says so.
    ///
    /// # Errors
    /// A value out of bounds, [`MemoryError::OperationReused`], otherwise trouble with the storage. Nothing
    /// was written then.
    async fn unrelate(&self, scopes: &ScopeSet, unrelate: Unrelate) -> Result<Unrelated, MemoryError>;

    /// Returns the observations of the written scope whose ids begin with these hexadecimal digits, in the order of ids, at
    /// most [`FOUND_MAX`](crate::FOUND_MAX).
    ///
    /// # Errors
    /// Trouble with the storage.
    async fn find(&self, scopes: &ScopeSet, beginning: &str) -> Result<Vec<Found>, MemoryError>;

    /// Counts what [`Memory::delete`] would remove, and changes nothing.
    ///
    /// # Errors
    /// Trouble with the storage.
    async fn would_delete(&self, scopes: &ScopeSet, delete: &Delete) -> Result<Deleted, MemoryError>;

    /// Deletes something from the written scope with its history, and overwrites its bytes.
    ///
    /// Nothing brings it back by itself: the operations that wrote it count as performed, and so do the lines of a seed file.
    /// A new operation may write the same content again. That there is nothing to delete is not an error;
    /// [`Deleted::is_empty`] says so.
    ///
    /// # Errors
    /// Trouble with the storage. Nothing was deleted then.
    async fn delete(&self, scopes: &ScopeSet, delete: &Delete) -> Result<Deleted, MemoryError>;

    /// Gives an observation of the written scope another text.
    ///
    /// The old observation ends and names the new one as its successor, so the history shows both. Repeating the same
    /// correction changes nothing.
    ///
    /// # Errors
    /// A value out of bounds, [`MemoryError::UnknownObservation`], [`MemoryError::Ended`] when the observation no longer
    /// holds, otherwise trouble with the storage. Nothing was written then.
    async fn correct(&self, scopes: &ScopeSet, correct: Correct) -> Result<Corrected, MemoryError>;

    /// Follows relations from an entity, breadth first, among what `scopes` may read.
    ///
    /// # Errors
    /// [`MemoryError::Depth`] and [`MemoryError::Limit`] for a walk out of bounds, otherwise trouble with
    /// the storage.
    async fn traverse(&self, scopes: &ScopeSet, traverse: &Traverse) -> Result<Traversal, MemoryError>;

    /// Returns everything about the entity of that name, none when `scopes` may read no such entity.
    ///
    /// # Errors
    /// Trouble with the storage.
    async fn entity(&self, scopes: &ScopeSet, name: &str) -> Result<Option<EntityView>, MemoryError>;

    /// Lists the entities whose names begin with `prefix`, in the order of their names.
    ///
    /// # Errors
    /// [`MemoryError::Limit`] for a limit that is not 1 to
    /// [`ENTITIES_LIMIT_MAX`](crate::ENTITIES_LIMIT_MAX), otherwise trouble with the storage.
    async fn entities(&self, scopes: &ScopeSet, prefix: &str, limit: u32) -> Result<EntityList, MemoryError>;

    /// Writes the written scope as JSON lines, all of one moment.
    ///
    /// Two memories with the same content give the same bytes. The lines name no scope, so that another
    /// scope can take them, and hold no operation ids.
    ///
    /// # Errors
    /// Trouble with the output or with the storage. What was written until then is not complete.
    async fn export(
        &self,
        scopes: &ScopeSet,
        output: Box<dyn Write + Send>,
    ) -> Result<ExportCounts, ExportError>;

    /// Takes JSON lines into the written scope, all or none.
    ///
    /// They are an export of this memory, or the file of the MCP reference memory server, which has neither
    /// times nor sources: its content counts as recorded at `at`. Which of the two it is, the first line
    /// says. What is there already and equal is left alone in every mode; `mode` decides about what differs.
    /// Lines are read one by one, while the scope's file is locked for other writers.
    ///
    /// # Errors
    /// Names the first line that cannot be read or kept and what was expected. Nothing was written then.
    async fn import(
        &self,
        scopes: &ScopeSet,
        lines: Box<dyn BufRead + Send>,
        mode: ImportMode,
        at: u64,
    ) -> Result<ImportCounts, ImportError>;
}
