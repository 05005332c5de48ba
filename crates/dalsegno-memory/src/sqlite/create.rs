//! Writing one observation, at most once.

use rusqlite::{OptionalExtension, Transaction, params};

use super::{relate, rows};
use crate::observation::CheckedObservation;
use crate::relation::CheckedRelation;
use crate::scope::ScopeKey;
use crate::{Created, MemoryError, RelationTo, STRENGTH_DEFAULT, UNKNOWN_TYPE, words};

/// How an observation was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Observed {
    /// It is new.
    Added,
    /// It was there and no longer stood; now it does.
    Revived,
    /// It was there.
    Present,
}

/// Writes the observation and the relations of its entity into the scope, unless the operation or the content
/// has been written before.
pub(super) fn create(
    transaction: &Transaction<'_>,
    scope: &ScopeKey,
    new: &CheckedObservation,
    relations: &[RelationTo],
) -> Result<Created, MemoryError> {
    let created = |duplicate, repeated| Created {
        observation: new.id(scope),
        entity: new.entity.clone(),
        duplicate,
        repeated,
    };
    let scope_id = rows::find_or_add_scope(transaction, scope)?;
    let digest = new.digest(relations);
    // Whoever asks again after a crash is answered as the first time: what follows must not depend on the crash.
    if let Some(done) =
        rows::is_done(transaction, scope_id, &new.operation, &digest, || new.operation_text())?
    {
        return Ok(created(done.duplicate.unwrap_or(true), true));
    }
    let entity = entity_of_type(transaction, scope_id, new)?;
    let (observation, observed) = observe(transaction, scope, scope_id, entity, new)?;
    for related in relations {
        let relation = CheckedRelation {
            from: new.entity.clone(),
            relation: related.relation.clone(),
            to: related.to.clone(),
            strength: STRENGTH_DEFAULT,
            source: new.source.clone(),
            at: new.recorded_at,
        };
        relate::stand(transaction, scope_id, &relation)?;
    }
    let duplicate = observed != Observed::Added;
    rows::set_done(transaction, scope_id, &new.operation, &digest, Some(observation), Some(duplicate))?;
    Ok(created(duplicate, false))
}

/// Writes the observation unless its content is there, and lets it stand.
pub(super) fn observe(
    transaction: &Transaction<'_>,
    scope: &ScopeKey,
    scope_id: i64,
    entity: i64,
    new: &CheckedObservation,
) -> Result<(i64, Observed), MemoryError> {
    let present: Option<(i64, bool)> = transaction
        .prepare_cached("SELECT id, valid_to IS NULL FROM observation WHERE public_id = ?1")?
        .query_row([new.id(scope).as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match present {
        None => Ok((add(transaction, scope, scope_id, entity, new)?, Observed::Added)),
        Some((id, true)) => Ok((id, Observed::Present)),
        Some((id, false)) => {
            transaction
                .prepare_cached("UPDATE observation SET valid_to = NULL, superseded_by = NULL WHERE id = ?1")?
                .execute([id])?;
            index(transaction, scope_id, id, new)?;
            Ok((id, Observed::Revived))
        }
    }
}

/// Adds the row of an observation whose content is not there, and indexes it if it stands.
pub(super) fn add(
    transaction: &Transaction<'_>,
    scope: &ScopeKey,
    scope_id: i64,
    entity: i64,
    new: &CheckedObservation,
) -> Result<i64, MemoryError> {
    let (run, step) = new.source.as_ref().map(|(run, step)| (run, step)).unzip();
    let id = transaction
        .prepare_cached(
            "INSERT INTO observation (public_id, entity, word_count, valid_from, recorded_at, content_hash,
                                      source_run, source_step, metadata, text, valid_to, superseded_by)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .insert(params![
            new.id(scope).as_bytes(),
            entity,
            terms(new).count() as i64,
            new.valid_from,
            new.recorded_at,
            new.content_hash,
            run,
            step,
            new.metadata,
            new.text,
            new.valid_to,
            new.superseded_by,
        ])?;
    if new.valid_to.is_none() {
        index(transaction, scope_id, id, new)?;
    }
    Ok(id)
}

/// Adds the words of an observation to the index and their number to the statistics of the scope.
pub(super) fn index(
    transaction: &Transaction<'_>,
    scope_id: i64,
    id: i64,
    new: &CheckedObservation,
) -> Result<(), MemoryError> {
    let tokens: Vec<String> = terms(new).map(|term| token(scope_id, &term)).collect();
    transaction
        .prepare_cached("INSERT INTO word (rowid, token) VALUES (?1, ?2)")?
        .execute(params![id, tokens.join(" ")])?;
    count(transaction, scope_id, 1, tokens.len() as i64)
}

/// Takes the words of an observation that stands out of the index and the statistics.
pub(super) fn remove_from_index(
    transaction: &Transaction<'_>,
    scope_id: i64,
    id: i64,
) -> Result<(), MemoryError> {
    let words: i64 = transaction
        .prepare_cached("SELECT word_count FROM observation WHERE id = ?1")?
        .query_row([id], |row| row.get(0))?;
    transaction.prepare_cached("DELETE FROM word WHERE rowid = ?1")?.execute([id])?;
    count(transaction, scope_id, -1, -words)
}

fn count(
    transaction: &Transaction<'_>,
    scope_id: i64,
    observations: i64,
    words: i64,
) -> Result<(), MemoryError> {
    transaction
        .prepare_cached(
            "UPDATE scope SET observation_count = observation_count + ?2, word_count = word_count + ?3
             WHERE id = ?1",
        )?
        .execute([scope_id, observations, words])?;
    Ok(())
}

/// Returns the entity's row. An entity takes the first type that is given to it, and keeps it.
fn entity_of_type(
    transaction: &Transaction<'_>,
    scope_id: i64,
    new: &CheckedObservation,
) -> Result<i64, MemoryError> {
    match rows::find_entity(transaction, scope_id, &new.entity)? {
        None => rows::add_entity(transaction, scope_id, &new.entity, &new.entity_type),
        Some((id, existing)) if existing == new.entity_type || new.entity_type == UNKNOWN_TYPE => Ok(id),
        Some((id, existing)) if existing == UNKNOWN_TYPE => {
            rows::set_type(transaction, id, &new.entity_type)?;
            Ok(id)
        }
        Some((_, existing)) => Err(MemoryError::EntityType {
            entity: new.entity.clone(),
            existing,
            given: new.entity_type.clone(),
        }),
    }
}

fn terms(new: &CheckedObservation) -> impl Iterator<Item = String> {
    words::terms(&new.entity).chain(words::terms(&new.text))
}

/// The form in which a term of a scope stands in the index. A term has no dot, so that no two scopes share
/// a token.
pub(super) fn token(scope_id: i64, term: &str) -> String {
    format!("{scope_id}.{term}")
}
