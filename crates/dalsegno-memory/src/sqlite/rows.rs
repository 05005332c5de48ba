//! Scopes, entities and operations as rows, and how values of rows are read.

use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde_json::Value;

use crate::scope::ScopeKey;
use crate::{MemoryError, ScopeSet, SourceStep, UNKNOWN_TYPE};

/// A scope that may be read and has been written, with its statistics.
pub(super) struct ReadableScope<'set> {
    pub(super) id: i64,
    pub(super) key: &'set ScopeKey,
    pub(super) observations: u64,
    pub(super) words: u64,
}

/// Returns the scopes that may be read, the narrowest first.
pub(super) fn readable<'set>(
    transaction: &Transaction<'_>,
    scopes: &'set ScopeSet,
) -> Result<Vec<ReadableScope<'set>>, MemoryError> {
    let mut statement = transaction.prepare_cached(
        "SELECT id, observation_count, word_count FROM scope
         WHERE level = ?1 AND tenant = ?2 AND workspace = ?3 AND agent = ?4 AND session = ?5",
    )?;
    let mut found = Vec::new();
    for key in scopes.read_keys() {
        let scope = statement
            .query_row(key.parts(), |row| {
                let (observations, words) = (unsigned(row, 1)?, unsigned(row, 2)?);
                Ok(ReadableScope { id: row.get(0)?, key, observations, words })
            })
            .optional()?;
        found.extend(scope);
    }
    Ok(found)
}

/// Returns the row of a scope, if it has been written.
pub(super) fn find_scope(
    transaction: &Transaction<'_>,
    scope: &ScopeKey,
) -> Result<Option<i64>, MemoryError> {
    let id = transaction
        .prepare_cached(
            "SELECT id FROM scope
             WHERE level = ?1 AND tenant = ?2 AND workspace = ?3 AND agent = ?4 AND session = ?5",
        )?
        .query_row(scope.parts(), |row| row.get(0))
        .optional()?;
    Ok(id)
}

/// Returns the row of a scope, which is made when it is new.
pub(super) fn find_or_add_scope(transaction: &Transaction<'_>, scope: &ScopeKey) -> Result<i64, MemoryError> {
    if let Some(id) = find_scope(transaction, scope)? {
        return Ok(id);
    }
    let id = transaction
        .prepare_cached(
            "INSERT INTO scope (level, tenant, workspace, agent, session) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .insert(scope.parts())?;
    Ok(id)
}

/// Returns the row and the type of an entity of a scope.
pub(super) fn find_entity(
    transaction: &Transaction<'_>,
    scope: i64,
    name: &str,
) -> Result<Option<(i64, String)>, MemoryError> {
    let found = transaction
        .prepare_cached("SELECT id, type FROM entity WHERE scope = ?1 AND name = ?2")?
        .query_row(params![scope, name], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(found)
}

/// Adds an entity that the scope does not have.
pub(super) fn add_entity(
    transaction: &Transaction<'_>,
    scope: i64,
    name: &str,
    entity_type: &str,
) -> Result<i64, MemoryError> {
    let id = transaction
        .prepare_cached("INSERT INTO entity (scope, name, type) VALUES (?1, ?2, ?3)")?
        .insert(params![scope, name, entity_type])?;
    Ok(id)
}

/// Gives an entity another type.
pub(super) fn set_type(transaction: &Transaction<'_>, id: i64, entity_type: &str) -> Result<(), MemoryError> {
    transaction
        .prepare_cached("UPDATE entity SET type = ?2 WHERE id = ?1")?
        .execute(params![id, entity_type])?;
    Ok(())
}

/// What is known of an operation that has been performed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// Whether what it wrote had been there before; none where that was not kept.
    pub(super) duplicate: Option<bool>,
}

/// Whether the operation has been performed; an error when its id stands for something else.
pub(super) fn is_done(
    transaction: &Transaction<'_>,
    scope: i64,
    operation: &[u8; 16],
    digest: &[u8; 16],
    text: impl FnOnce() -> String,
) -> Result<Option<Done>, MemoryError> {
    let known: Option<([u8; 16], Option<bool>)> = transaction
        .prepare_cached("SELECT digest, duplicate FROM operation WHERE scope = ?1 AND id = ?2")?
        .query_row(params![scope, operation], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match known {
        None => Ok(None),
        Some((known, duplicate)) if known == *digest => Ok(Some(Done { duplicate })),
        Some(_) => Err(MemoryError::OperationReused { operation: text() }),
    }
}

/// Remembers that the operation has been performed, and what it was answered.
pub(super) fn set_done(
    transaction: &Transaction<'_>,
    scope: i64,
    operation: &[u8; 16],
    digest: &[u8; 16],
    observation: Option<i64>,
    duplicate: Option<bool>,
) -> Result<(), MemoryError> {
    transaction
        .prepare_cached(
            "INSERT INTO operation (scope, id, digest, observation, duplicate) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![scope, operation, digest, observation, duplicate])?;
    Ok(())
}

/// Of the types that scopes know an entity by, the narrowest first, the one that is shown.
pub(super) fn shown_type<'types>(types: impl Iterator<Item = &'types str>) -> String {
    types.into_iter().find(|known| *known != UNKNOWN_TYPE).unwrap_or(UNKNOWN_TYPE).to_owned()
}

pub(super) fn unsigned(row: &Row<'_>, index: usize) -> Result<u64, rusqlite::Error> {
    let value: i64 = row.get(index)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(index, value))
}

pub(super) fn optional_unsigned(row: &Row<'_>, index: usize) -> Result<Option<u64>, rusqlite::Error> {
    let value: Option<i64> = row.get(index)?;
    value
        .map(|value| u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(index, value)))
        .transpose()
}

pub(super) fn json(row: &Row<'_>, index: usize) -> Result<Value, rusqlite::Error> {
    let text = row.get_ref(index)?.as_str()?;
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(index, Type::Text, Box::new(error)))
}

/// Reads a run and, in the column after it, a step.
pub(super) fn source(row: &Row<'_>, index: usize) -> Result<Option<SourceStep>, rusqlite::Error> {
    let run: Option<String> = row.get(index)?;
    let step = optional_unsigned(row, index + 1)?;
    Ok(run.zip(step).map(|(run, step)| SourceStep { run, step }))
}
