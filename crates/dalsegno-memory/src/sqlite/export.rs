//! Writing one scope as JSON lines.

use std::io::Write;

use rusqlite::{Row, Transaction};
use serde::Serialize;

use super::rows::{self, json, optional_unsigned, unsigned};
use crate::exchange::{EntityRecord, ObservationRecord, Record, RelationRecord, header};
use crate::hash::hex;
use crate::scope::ScopeKey;
use crate::{ExportCounts, ExportError};

/// Writes the scope.
pub(super) fn export(
    transaction: &Transaction<'_>,
    scope: &ScopeKey,
    output: &mut dyn Write,
) -> Result<ExportCounts, ExportError> {
    let mut counts = ExportCounts::default();
    write_line(output, &header())?;
    if let Some(scope) = rows::find_scope(transaction, scope)? {
        each_entity(transaction, scope, |row, name, entity_type| {
            counts.entities += 1;
            write_line(output, &Record::Entity(EntityRecord { name: name.clone(), entity_type }))?;
            counts.observations += observations(transaction, row, &name, output)?;
            Ok(())
        })?;
        each_entity(transaction, scope, |row, name, _| {
            counts.relations += relations(transaction, row, &name, output)?;
            Ok(())
        })?;
    }
    output.flush()?;
    Ok(counts)
}

/// Calls `work` with row, name and type of each entity of the scope, in the order of names.
fn each_entity(
    transaction: &Transaction<'_>,
    scope: i64,
    mut work: impl FnMut(i64, String, String) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let mut statement =
        transaction.prepare_cached("SELECT id, name, type FROM entity WHERE scope = ?1 ORDER BY name")?;
    let mut rows = statement.query([scope])?;
    while let Some(row) = rows.next()? {
        work(row.get(0)?, row.get(1)?, row.get(2)?)?;
    }
    Ok(())
}

fn observations(
    transaction: &Transaction<'_>,
    entity: i64,
    name: &str,
    output: &mut dyn Write,
) -> Result<u64, ExportError> {
    // Not in the order of ids, which another scope would not share.
    let mut statement = transaction.prepare_cached(
        "SELECT text, metadata, content_hash, valid_from, recorded_at, valid_to, superseded_by, source_run,
                source_step
         FROM observation WHERE entity = ?1 ORDER BY valid_from, content_hash",
    )?;
    let read = |row: &Row<'_>| {
        let (hash, successor): ([u8; 32], Option<[u8; 32]>) = (row.get(2)?, row.get(6)?);
        Ok(Record::Observation(ObservationRecord {
            entity: name.to_owned(),
            text: row.get(0)?,
            metadata: json(row, 1)?,
            hash: hex(&hash),
            valid_from: unsigned(row, 3)?,
            recorded_at: unsigned(row, 4)?,
            valid_to: optional_unsigned(row, 5)?,
            superseded_by: successor.map(|hash| hex(&hash)),
            run: row.get(7)?,
            step: optional_unsigned(row, 8)?,
        }))
    };
    let mut count = 0;
    for record in statement.query_map([entity], read)? {
        write_line(output, &record?)?;
        count += 1;
    }
    Ok(count)
}

fn relations(
    transaction: &Transaction<'_>,
    entity: i64,
    name: &str,
    output: &mut dyn Write,
) -> Result<u64, ExportError> {
    let mut statement = transaction.prepare_cached(
        "SELECT relation.type, entity.name, strength, valid_from, recorded_at, valid_to, source_run,
                source_step, ended_run, ended_step
         FROM relation JOIN entity ON entity.id = to_entity
         WHERE from_entity = ?1 ORDER BY relation.type, entity.name, valid_from",
    )?;
    let read = |row: &Row<'_>| {
        Ok(Record::Relation(RelationRecord {
            from: name.to_owned(),
            relation: row.get(0)?,
            to: row.get(1)?,
            strength: row.get(2)?,
            valid_from: unsigned(row, 3)?,
            recorded_at: unsigned(row, 4)?,
            valid_to: optional_unsigned(row, 5)?,
            run: row.get(6)?,
            step: optional_unsigned(row, 7)?,
            ended_run: row.get(8)?,
            ended_step: optional_unsigned(row, 9)?,
        }))
    };
    let mut count = 0;
    for record in statement.query_map([entity], read)? {
        write_line(output, &record?)?;
        count += 1;
    }
    Ok(count)
}

fn write_line(output: &mut dyn Write, record: &impl Serialize) -> Result<(), ExportError> {
    let mut line = serde_json::to_vec(record).map_err(std::io::Error::from)?;
    line.push(b'\n');
    output.write_all(&line)?;
    Ok(())
}
