//! Deleting and correcting rows of one scope.

use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::create;
use super::rows::{self, json, optional_unsigned};
use crate::scope::ScopeKey;
use crate::{
    Correct, Corrected, Delete, Deleted, FOUND_MAX, Found, MemoryError, NewObservation, ObservationId,
};

/// The rows that a deletion is about.
enum Doomed {
    Entity { row: i64 },
    Observation { row: i64, entity: i64, content_hash: [u8; 32], stands: bool },
    Relation { from: i64, relation: String, to: i64 },
}

/// Finds observations of the scope by the beginning of their ids, in the order of ids.
pub(super) fn find(
    transaction: &Transaction<'_>,
    scope: &ScopeKey,
    beginning: &str,
) -> Result<Vec<Found>, MemoryError> {
    let Some(scope) = rows::find_scope(transaction, scope)? else { return Ok(Vec::new()) };
    // From the entities of the scope, in that order: the content of other scopes must not take time.
    let mut statement = transaction.prepare_cached(
        "SELECT public_id, entity.name, text, valid_to
         FROM entity CROSS JOIN observation ON observation.entity = entity.id
         WHERE entity.scope = ?1 AND substr(hex(public_id), 1, length(?2)) = upper(?2)
         ORDER BY public_id LIMIT ?3",
    )?;
    let read = |row: &Row<'_>| {
        Ok(Found {
            observation: ObservationId::from_bytes(row.get(0)?),
            entity: row.get(1)?,
            text: row.get(2)?,
            valid_to: optional_unsigned(row, 3)?,
        })
    };
    let found = statement.query_map(params![scope, beginning, FOUND_MAX as i64], read)?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Counts what a deletion would remove.
pub(super) fn would_delete(
    transaction: &Transaction<'_>,
    scope: &ScopeKey,
    delete: &Delete,
) -> Result<Deleted, MemoryError> {
    let Some(scope) = rows::find_scope(transaction, scope)? else { return Ok(Deleted::default()) };
    let Some(doomed) = doomed(transaction, scope, delete)? else { return Ok(Deleted::default()) };
    extent(transaction, &doomed)
}

/// Deletes rows with everything that refers to them.
///
/// The caller has switched off the check of references: SQLite would look for each deleted observation in all operations.
pub(super) fn delete(
    transaction: &Transaction<'_>,
    scope: &ScopeKey,
    delete: &Delete,
) -> Result<Deleted, MemoryError> {
    let Some(scope) = rows::find_scope(transaction, scope)? else { return Ok(Deleted::default()) };
    let Some(doomed) = doomed(transaction, scope, delete)? else { return Ok(Deleted::default()) };
    let deleted = extent(transaction, &doomed)?;
    match &doomed {
        Doomed::Entity { row } => {
            // The operations stay: a run that repeats one of them does not write again what was deleted.
            transaction
                .prepare_cached(
                    "UPDATE operation SET observation = NULL
                     WHERE scope = ?1 AND observation IN (SELECT id FROM observation WHERE entity = ?2)",
                )?
                .execute([scope, *row])?;
            let standing: Vec<i64> = transaction
                .prepare_cached("SELECT id FROM observation WHERE entity = ?1 AND valid_to IS NULL")?
                .query_map([row], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            for observation in standing {
                create::remove_from_index(transaction, scope, observation)?;
            }
            for sql in [
                "DELETE FROM observation WHERE entity = ?1",
                "DELETE FROM relation WHERE from_entity = ?1 OR to_entity = ?1",
                "DELETE FROM entity WHERE id = ?1",
            ] {
                transaction.prepare_cached(sql)?.execute([row])?;
            }
        }
        Doomed::Observation { row, entity, content_hash, stands } => {
            transaction
                .prepare_cached(
                    "UPDATE operation SET observation = NULL WHERE scope = ?1 AND observation = ?2",
                )?
                .execute([scope, *row])?;
            if *stands {
                create::remove_from_index(transaction, scope, *row)?;
            }
            transaction.prepare_cached("DELETE FROM observation WHERE id = ?1")?.execute([row])?;
            // What it replaced has ended all the same.
            transaction
                .prepare_cached(
                    "UPDATE observation SET superseded_by = NULL WHERE entity = ?1 AND superseded_by = ?2",
                )?
                .execute(params![entity, content_hash])?;
        }
        Doomed::Relation { from, relation, to } => {
            transaction
                .prepare_cached(
                    "DELETE FROM relation WHERE from_entity = ?1 AND type = ?2 AND to_entity = ?3",
                )?
                .execute(params![from, relation, to])?;
        }
    }
    if deleted.observations > 0 {
        // The index only marks words as deleted; it drops them when it is merged.
        transaction.execute("INSERT INTO word (word) VALUES ('optimize')", [])?;
    }
    Ok(deleted)
}

/// Finds the rows that a deletion is about.
fn doomed(transaction: &Transaction<'_>, scope: i64, delete: &Delete) -> Result<Option<Doomed>, MemoryError> {
    match delete {
        Delete::Entity { name } => {
            let found = rows::find_entity(transaction, scope, name)?;
            Ok(found.map(|(row, _)| Doomed::Entity { row }))
        }
        Delete::Observation { id } => {
            let found = transaction
                .prepare_cached(
                    "SELECT observation.id, entity.id, content_hash, valid_to IS NULL
                     FROM observation JOIN entity ON entity.id = observation.entity
                     WHERE public_id = ?1 AND entity.scope = ?2",
                )?
                .query_row(params![id.as_bytes(), scope], |row| {
                    Ok(Doomed::Observation {
                        row: row.get(0)?,
                        entity: row.get(1)?,
                        content_hash: row.get(2)?,
                        stands: row.get(3)?,
                    })
                });
            Ok(found.optional()?)
        }
        Delete::Relation { from, relation, to } => {
            let from = rows::find_entity(transaction, scope, from)?;
            let to = rows::find_entity(transaction, scope, to)?;
            let ends = from.zip(to);
            Ok(ends.map(|((from, _), (to, _))| Doomed::Relation { from, relation: relation.clone(), to }))
        }
    }
}

fn extent(transaction: &Transaction<'_>, doomed: &Doomed) -> Result<Deleted, MemoryError> {
    let count = |sql: &str, values: &[&dyn rusqlite::ToSql]| -> Result<u64, MemoryError> {
        Ok(transaction.prepare_cached(sql)?.query_row(values, |row| rows::unsigned(row, 0))?)
    };
    match doomed {
        Doomed::Entity { row } => Ok(Deleted {
            entities: 1,
            observations: count("SELECT count(*) FROM observation WHERE entity = ?1", &[row])?,
            relations: count(
                "SELECT count(*) FROM relation WHERE from_entity = ?1 OR to_entity = ?1",
                &[row],
            )?,
        }),
        Doomed::Observation { .. } => Ok(Deleted { observations: 1, ..Deleted::default() }),
        Doomed::Relation { from, relation, to } => Ok(Deleted {
            relations: count(
                "SELECT count(*) FROM relation WHERE from_entity = ?1 AND type = ?2 AND to_entity = ?3",
                &[from, relation, to],
            )?,
            ..Deleted::default()
        }),
    }
}

/// Replaces an observation by one with another text. The old one ends and names its successor.
pub(super) fn correct(
    transaction: &Transaction<'_>,
    scope: &ScopeKey,
    correct: &Correct,
) -> Result<Corrected, MemoryError> {
    let unknown = || MemoryError::UnknownObservation { observation: correct.observation };
    let scope_id = rows::find_scope(transaction, scope)?.ok_or_else(unknown)?;
    let found = transaction
        .prepare_cached(
            "SELECT observation.id, entity.id, entity.name, entity.type, metadata, valid_from, valid_to,
                    superseded_by
             FROM observation JOIN entity ON entity.id = observation.entity
             WHERE public_id = ?1 AND entity.scope = ?2",
        )?
        .query_row(params![correct.observation.as_bytes(), scope_id], |row| {
            let new = NewObservation {
                // Not kept: a correction that is repeated finds that it was made.
                operation: [0; 16],
                entity: row.get(2)?,
                entity_type: row.get(3)?,
                text: correct.text.clone(),
                metadata: json(row, 4)?,
                source: correct.source.clone(),
                recorded_at: correct.at,
            };
            let ended: (Option<i64>, Option<[u8; 32]>) = (row.get(6)?, row.get(7)?);
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, new, row.get::<_, i64>(5)?, ended))
        })
        .optional()?;
    let (row, entity, new, valid_from, (valid_to, successor)) = found.ok_or_else(unknown)?;
    let new = new.check()?;
    let corrected = |changed| Corrected {
        observation: new.id(scope),
        replaced: correct.observation,
        entity: new.entity.clone(),
        changed,
    };
    if valid_to.is_some() && successor != Some(new.content_hash) {
        return Err(MemoryError::Ended { observation: correct.observation });
    }
    if valid_to.is_some() || new.id(scope) == correct.observation {
        return Ok(corrected(false));
    }
    create::observe(transaction, scope, scope_id, entity, &new)?;
    create::remove_from_index(transaction, scope_id, row)?;
    transaction
        .prepare_cached("UPDATE observation SET valid_to = ?2, superseded_by = ?3 WHERE id = ?1")?
        .execute(params![row, new.recorded_at.max(valid_from.saturating_add(1)), new.content_hash])?;
    Ok(corrected(true))
}
