//! Showing entities as they stand, with their history.

use std::collections::BTreeMap;

use rusqlite::{Row, Transaction, params};
use serde_json::{Map, Value};

use super::rows::{self, ReadableScope, json, optional_unsigned, source, unsigned};
use crate::view::VIEW_MAX;
use crate::{
    EntityList, EntitySummary, EntityView, MemoryError, ObservationId, ObservationView, RelationView,
    ScopeSet,
};

/// Returns everything about an entity.
pub(super) fn entity(
    transaction: &Transaction<'_>,
    scopes: &ScopeSet,
    name: &str,
) -> Result<Option<EntityView>, MemoryError> {
    let mut types = Vec::new();
    let mut view = EntityView {
        name: name.to_owned(),
        entity_type: String::new(),
        metadata: Map::new(),
        observations: Vec::new(),
        relations_out: Vec::new(),
        relations_in: Vec::new(),
        truncated: false,
    };
    for scope in rows::readable(transaction, scopes)? {
        if let Some((row, entity_type)) = rows::find_entity(transaction, scope.id, name)? {
            types.push(entity_type);
            observations(transaction, &scope, name, row, &mut view.observations)?;
            relations(transaction, &scope, row, OUT, &mut view.relations_out)?;
            relations(transaction, &scope, row, IN, &mut view.relations_in)?;
        }
    }
    if types.is_empty() {
        return Ok(None);
    }
    view.entity_type = rows::shown_type(types.iter().map(String::as_str));
    view.observations.sort_by(|one, other| {
        other.valid_from.cmp(&one.valid_from).then(one.observation.cmp(&other.observation))
    });
    // Stable: of equal ones, the narrowest scope stays first.
    view.relations_out.sort_by(|one, other| order(one).cmp(&order(other)));
    view.relations_in.sort_by(|one, other| order(one).cmp(&order(other)));
    view.truncated = cut(&mut view.observations) | cut(&mut view.relations_out) | cut(&mut view.relations_in);
    view.metadata = metadata(&view.observations);
    Ok(Some(view))
}

/// Lists entities by the beginning of their names.
pub(super) fn entities(
    transaction: &Transaction<'_>,
    scopes: &ScopeSet,
    prefix: &str,
    limit: u32,
) -> Result<EntityList, MemoryError> {
    let limit = limit as usize;
    // What each scope keeps under a name, the narrowest first.
    let mut found: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
    let mut statement = transaction.prepare_cached(
        "SELECT name, id, type FROM entity WHERE scope = ?1 AND name >= ?2 ORDER BY name LIMIT ?3",
    )?;
    for scope in rows::readable(transaction, scopes)? {
        let mut rows = statement.query(params![scope.id, prefix, limit as i64 + 1])?;
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            if !name.starts_with(prefix) {
                break;
            }
            found.entry(name).or_default().push((row.get(1)?, row.get(2)?));
        }
    }
    let truncated = found.len() > limit;
    let summary = |(name, rows): (String, Vec<(i64, String)>)| {
        let mut summary = EntitySummary {
            name,
            entity_type: rows::shown_type(rows.iter().map(|(_, entity_type)| entity_type.as_str())),
            observations: 0,
            relations: 0,
        };
        for (row, _) in rows {
            let (observations, relations) = counts(transaction, row)?;
            summary.observations += observations;
            summary.relations += relations;
        }
        Ok(summary)
    };
    let entities = found.into_iter().take(limit).map(summary).collect::<Result<_, MemoryError>>()?;
    Ok(EntityList { entities, truncated })
}

fn counts(transaction: &Transaction<'_>, row: i64) -> Result<(u64, u64), MemoryError> {
    let counts = transaction
        .prepare_cached(
            "SELECT (SELECT count(*) FROM observation WHERE entity = ?1 AND valid_to IS NULL),
                    (SELECT count(*) FROM relation WHERE from_entity = ?1 AND valid_to IS NULL)
                    + (SELECT count(*) FROM relation
                       WHERE to_entity = ?1 AND from_entity <> ?1 AND valid_to IS NULL)",
        )?
        .query_row([row], |row| Ok((unsigned(row, 0)?, unsigned(row, 1)?)))?;
    Ok(counts)
}

fn observations(
    transaction: &Transaction<'_>,
    scope: &ReadableScope<'_>,
    name: &str,
    row: i64,
    into: &mut Vec<ObservationView>,
) -> Result<(), MemoryError> {
    let read = |row: &Row<'_>| {
        let successor: Option<[u8; 32]> = row.get(6)?;
        Ok(ObservationView {
            observation: ObservationId::from_bytes(row.get(0)?),
            scope: scope.key.level,
            text: row.get(1)?,
            metadata: json(row, 2)?,
            valid_from: unsigned(row, 3)?,
            valid_to: optional_unsigned(row, 4)?,
            recorded_at: unsigned(row, 5)?,
            superseded_by: successor.map(|hash| ObservationId::derive(scope.key, name, &hash)),
            source: source(row, 7)?,
        })
    };
    let mut statement = transaction.prepare_cached(
        "SELECT public_id, text, metadata, valid_from, valid_to, recorded_at, superseded_by, source_run,
                source_step
         FROM observation WHERE entity = ?1 ORDER BY valid_from DESC, public_id LIMIT ?2",
    )?;
    for observation in statement.query_map(params![row, VIEW_MAX as i64 + 1], read)? {
        into.push(observation?);
    }
    Ok(())
}

/// Selects the relations that start from an entity.
const OUT: &str =
    "SELECT start.name, relation.type, goal.name, strength, valid_from, valid_to, source_run, source_step,
            ended_run, ended_step
     FROM relation JOIN entity AS start ON start.id = from_entity JOIN entity AS goal ON goal.id = to_entity
     WHERE from_entity = ?1 AND start.scope = ?2 AND goal.scope = ?2
     ORDER BY relation.type, goal.name, valid_from LIMIT ?3";

/// Selects the relations that lead to an entity.
const IN: &str =
    "SELECT start.name, relation.type, goal.name, strength, valid_from, valid_to, source_run, source_step,
            ended_run, ended_step
     FROM relation JOIN entity AS start ON start.id = from_entity JOIN entity AS goal ON goal.id = to_entity
     WHERE to_entity = ?1 AND start.scope = ?2 AND goal.scope = ?2
     ORDER BY relation.type, start.name, valid_from LIMIT ?3";

fn relations(
    transaction: &Transaction<'_>,
    scope: &ReadableScope<'_>,
    row: i64,
    sql: &str,
    into: &mut Vec<RelationView>,
) -> Result<(), MemoryError> {
    let read = |row: &Row<'_>| {
        Ok(RelationView {
            scope: scope.key.level,
            from: row.get(0)?,
            relation: row.get(1)?,
            to: row.get(2)?,
            strength: row.get(3)?,
            valid_from: unsigned(row, 4)?,
            valid_to: optional_unsigned(row, 5)?,
            source: source(row, 6)?,
            ended_by: source(row, 8)?,
        })
    };
    let mut statement = transaction.prepare_cached(sql)?;
    for relation in statement.query_map(params![row, scope.id, VIEW_MAX as i64 + 1], read)? {
        into.push(relation?);
    }
    Ok(())
}

fn order(relation: &RelationView) -> (&str, &str, &str, u64) {
    (&relation.relation, &relation.from, &relation.to, relation.valid_from)
}

fn cut<T>(list: &mut Vec<T>) -> bool {
    let more = list.len() > VIEW_MAX;
    list.truncate(VIEW_MAX);
    more
}

/// Takes the metadata of what stands together; of each key, the newest value.
fn metadata(observations: &[ObservationView]) -> Map<String, Value> {
    let mut keys = BTreeMap::new();
    // The newest come first, and must go in last.
    for observation in observations.iter().rev().filter(|observation| observation.valid_to.is_none()) {
        for (key, value) in observation.metadata.as_object().into_iter().flatten() {
            keys.insert(key.clone(), value.clone());
        }
    }
    keys.into_iter().collect()
}
