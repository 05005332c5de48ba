//! The operations that every memory offers.

use async_trait::async_trait;

use crate::{Created, Hit, MemoryError, NewObservation, ScopeSet, SearchQuery};

/// Keeps observations and finds them again, within scopes.
///
/// Implementations may be shared between runs and called at the same time. Dropping a future does not undo a
/// write that had begun; repeating it under the same operation id is always safe.
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
    /// The entity is made when its scope has none of that name. The same text and metadata about the same
    /// entity are kept once, whatever the operation: the first stays as it is and [`Created::duplicate`]
    /// says so.
    ///
    /// # Errors
    /// A value out of bounds, [`MemoryError::EntityType`] when the entity is of another type,
    /// [`MemoryError::OperationReused`] when the operation id stands for a different observation, otherwise
    /// trouble with the storage. Nothing was written then.
    async fn create(&self, scopes: &ScopeSet, observation: NewObservation) -> Result<Created, MemoryError>;
}
