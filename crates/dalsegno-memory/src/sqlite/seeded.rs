//! Which seed files a scope has taken in.

use rusqlite::{OptionalExtension, Transaction};

use super::rows;
use crate::MemoryError;
use crate::scope::ScopeKey;

/// Takes note of a file that was taken in whole.
pub(super) fn keep(
    transaction: &Transaction<'_>,
    scope: &ScopeKey,
    digest: &[u8; 32],
) -> Result<(), MemoryError> {
    let scope = rows::find_or_add_scope(transaction, scope)?;
    transaction
        .prepare_cached("INSERT OR IGNORE INTO seed (scope, digest) VALUES (?1, ?2)")?
        .execute((scope, digest))?;
    Ok(())
}

/// Says whether a file was taken in whole.
pub(super) fn is_kept(
    transaction: &Transaction<'_>,
    scope: &ScopeKey,
    digest: &[u8; 32],
) -> Result<bool, MemoryError> {
    let Some(scope) = rows::find_scope(transaction, scope)? else { return Ok(false) };
    let found = transaction
        .prepare_cached("SELECT 1 FROM seed WHERE scope = ?1 AND digest = ?2")?
        .query_row((scope, digest), |_| Ok(()))
        .optional()?;
    Ok(found.is_some())
}
