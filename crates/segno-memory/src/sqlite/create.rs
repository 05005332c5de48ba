//! Writing one observation, at most once.

use rusqlite::{OptionalExtension, Transaction, params};

use crate::observation::CheckedObservation;
use crate::scope::ScopeKey;
use crate::{Created, MemoryError, words};

/// Writes the observation into the scope, unless the operation or the content has been written before.
pub(super) fn create(
    transaction: &Transaction<'_>,
    scope: &ScopeKey,
    new: &CheckedObservation,
) -> Result<Created, MemoryError> {
    let created = |duplicate| Created { observation: new.id(scope), entity: new.entity.clone(), duplicate };
    let scope_id = find_or_add_scope(transaction, scope)?;
    let done: Option<[u8; 16]> = transaction
        .prepare_cached("SELECT digest FROM operation WHERE scope = ?1 AND id = ?2")?
        .query_row(params![scope_id, new.operation], |row| row.get(0))
        .optional()?;
    if let Some(digest) = done {
        return if digest == new.digest() {
            Ok(created(true))
        } else {
            Err(MemoryError::OperationReused { operation: new.operation_text() })
        };
    }

    let entity_id = find_or_add_entity(transaction, scope_id, new)?;
    let present: Option<i64> = transaction
        .prepare_cached("SELECT id FROM observation WHERE public_id = ?1")?
        .query_row([new.id(scope).as_bytes()], |row| row.get(0))
        .optional()?;
    let observation_id = match present {
        Some(id) => id,
        None => add_observation(transaction, scope, scope_id, entity_id, new)?,
    };
    transaction
        .prepare_cached("INSERT INTO operation (scope, id, digest, observation) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![scope_id, new.operation, new.digest(), observation_id])?;
    Ok(created(present.is_some()))
}

fn find_or_add_scope(transaction: &Transaction<'_>, scope: &ScopeKey) -> Result<i64, MemoryError> {
    transaction
        .prepare_cached(
            "INSERT INTO scope (level, tenant, workspace, agent, session) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO NOTHING",
        )?
        .execute(scope.parts())?;
    let id = transaction
        .prepare_cached(
            "SELECT id FROM scope
             WHERE level = ?1 AND tenant = ?2 AND workspace = ?3 AND agent = ?4 AND session = ?5",
        )?
        .query_row(scope.parts(), |row| row.get(0))?;
    Ok(id)
}

fn find_or_add_entity(
    transaction: &Transaction<'_>,
    scope_id: i64,
    new: &CheckedObservation,
) -> Result<i64, MemoryError> {
    let known: Option<(i64, String)> = transaction
        .prepare_cached("SELECT id, type FROM entity WHERE scope = ?1 AND name = ?2")?
        .query_row(params![scope_id, new.entity], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match known {
        Some((id, existing)) if existing == new.entity_type => Ok(id),
        Some((_, existing)) => Err(MemoryError::EntityType {
            entity: new.entity.clone(),
            existing,
            given: new.entity_type.clone(),
        }),
        None => {
            let id = transaction
                .prepare_cached("INSERT INTO entity (scope, name, type) VALUES (?1, ?2, ?3)")?
                .insert(params![scope_id, new.entity, new.entity_type])?;
            Ok(id)
        }
    }
}

/// Adds the row, its words to the index and their number to the statistics of the scope.
fn add_observation(
    transaction: &Transaction<'_>,
    scope: &ScopeKey,
    scope_id: i64,
    entity_id: i64,
    new: &CheckedObservation,
) -> Result<i64, MemoryError> {
    let tokens: Vec<String> =
        words::terms(&new.entity).chain(words::terms(&new.text)).map(|term| token(scope_id, &term)).collect();
    let word_count = tokens.len() as i64;
    let (run, step) = new.source.as_ref().map(|(run, step)| (run, step)).unzip();
    let id = transaction
        .prepare_cached(
            "INSERT INTO observation (public_id, entity, word_count, valid_from, recorded_at, content_hash,
                                      source_run, source_step, metadata, text)
             VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .insert(params![
            new.id(scope).as_bytes(),
            entity_id,
            word_count,
            new.recorded_at,
            new.content_hash,
            run,
            step,
            new.metadata,
            new.text,
        ])?;
    transaction
        .prepare_cached("INSERT INTO word (rowid, token) VALUES (?1, ?2)")?
        .execute(params![id, tokens.join(" ")])?;
    transaction
        .prepare_cached(
            "UPDATE scope SET observation_count = observation_count + 1, word_count = word_count + ?2
             WHERE id = ?1",
        )?
        .execute([scope_id, word_count])?;
    Ok(id)
}

/// The form in which a term of a scope stands in the index. A term has no dot, so that no two scopes share
/// a token.
pub(super) fn token(scope_id: i64, term: &str) -> String {
    format!("{scope_id}.{term}")
}
