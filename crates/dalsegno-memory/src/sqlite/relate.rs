//! Writing and ending relations, at most once.

use rusqlite::{OptionalExtension, Transaction, params};

use super::rows;
use crate::relation::{CheckedChange, CheckedRelation};
use crate::scope::ScopeKey;
use crate::{MemoryError, Related, UNKNOWN_TYPE, Unrelated};

/// Writes the relation into the scope, unless the operation has been performed before.
pub(super) fn relate(
    transaction: &Transaction<'_>,
    scope: &ScopeKey,
    change: &CheckedChange,
) -> Result<Related, MemoryError> {
    let scope_id = rows::find_or_add_scope(transaction, scope)?;
    if rows::is_done(transaction, scope_id, &change.operation, &change.digest, || change.operation_text())?
        .is_some()
    {
        return Ok(Related { duplicate: true, made: Vec::new() });
    }
    let related = stand(transaction, scope_id, &change.relation)?;
    rows::set_done(transaction, scope_id, &change.operation, &change.digest, None, None)?;
    Ok(related)
}

/// Ends the relation of the scope, unless the operation has been performed before.
pub(super) fn unrelate(
    transaction: &Transaction<'_>,
    scope: &ScopeKey,
    change: &CheckedChange,
) -> Result<Unrelated, MemoryError> {
    let scope_id = rows::find_or_add_scope(transaction, scope)?;
    if rows::is_done(transaction, scope_id, &change.operation, &change.digest, || change.operation_text())?
        .is_some()
    {
        return Ok(Unrelated { ended: false });
    }
    let relation = &change.relation;
    let from = rows::find_entity(transaction, scope_id, &relation.from)?;
    let to = rows::find_entity(transaction, scope_id, &relation.to)?;
    let mut ended = false;
    if let (Some((from, _)), Some((to, _))) = (from, to)
        && let Some((valid_from, _)) = standing(transaction, from, to, &relation.relation)?
    {
        end(transaction, from, to, relation, valid_from)?;
        ended = true;
    }
    rows::set_done(transaction, scope_id, &change.operation, &change.digest, None, None)?;
    Ok(Unrelated { ended })
}

/// Lets the relation stand between two entities of the scope, which are made when they are new.
pub(super) fn stand(
    transaction: &Transaction<'_>,
    scope_id: i64,
    relation: &CheckedRelation,
) -> Result<Related, MemoryError> {
    let mut made = Vec::new();
    let mut entity = |name: &str| match rows::find_entity(transaction, scope_id, name)? {
        Some((id, _)) => Ok(id),
        None => {
            made.push(name.to_owned());
            rows::add_entity(transaction, scope_id, name, UNKNOWN_TYPE)
        }
    };
    let (from, to) = (entity(&relation.from)?, entity(&relation.to)?);
    match standing(transaction, from, to, &relation.relation)? {
        Some((_, strength)) if strength.to_bits() == relation.strength.to_bits() => {
            return Ok(Related { duplicate: true, made });
        }
        Some((valid_from, _)) => end(transaction, from, to, relation, valid_from)?,
        None => {}
    }
    // Periods of one relation follow each other, also when clocks do not.
    let last_end: Option<i64> = transaction
        .prepare_cached(
            "SELECT max(valid_to) FROM relation WHERE from_entity = ?1 AND type = ?2 AND to_entity = ?3",
        )?
        .query_row(params![from, relation.relation, to], |row| row.get(0))?;
    let valid_from = last_end.map_or(relation.at, |last_end| last_end.max(relation.at));
    let (run, step) = relation.source.as_ref().map(|(run, step)| (run, step)).unzip();
    transaction
        .prepare_cached(
            "INSERT INTO relation (from_entity, type, to_entity, valid_from, strength, recorded_at,
                                   source_run, source_step)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            from,
            relation.relation,
            to,
            valid_from,
            relation.strength,
            relation.at,
            run,
            step
        ])?;
    Ok(Related { duplicate: false, made })
}

/// Returns since when a relation stands, and its strength.
fn standing(
    transaction: &Transaction<'_>,
    from: i64,
    to: i64,
    relation: &str,
) -> Result<Option<(i64, f64)>, MemoryError> {
    let found = transaction
        .prepare_cached(
            "SELECT valid_from, strength FROM relation
             WHERE from_entity = ?1 AND type = ?2 AND to_entity = ?3 AND valid_to IS NULL",
        )?
        .query_row(params![from, relation, to], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(found)
}

/// Ends the relation that stands since `valid_from`, at the earliest a millisecond later.
fn end(
    transaction: &Transaction<'_>,
    from: i64,
    to: i64,
    by: &CheckedRelation,
    valid_from: i64,
) -> Result<(), MemoryError> {
    let (run, step) = by.source.as_ref().map(|(run, step)| (run, step)).unzip();
    transaction
        .prepare_cached(
            "UPDATE relation SET valid_to = ?5, ended_run = ?6, ended_step = ?7
             WHERE from_entity = ?1 AND type = ?2 AND to_entity = ?3 AND valid_from = ?4",
        )?
        .execute(params![
            from,
            by.relation,
            to,
            valid_from,
            by.at.max(valid_from.saturating_add(1)),
            run,
            step
        ])?;
    Ok(())
}
