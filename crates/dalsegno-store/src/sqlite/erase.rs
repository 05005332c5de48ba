//! Erasure in the file: bodies, parts, files, the snapshot; then the bytes themselves.

use std::collections::BTreeSet;

use dalsegno_core::{OperationId, RunId};
use rusqlite::{Connection, OptionalExtension, params};

use super::read::{bytes, damaged_row, status};
use super::{Fault, rows};
use crate::erase::{EraseError, Erased, has_content};
use crate::pack::Form;
use crate::record::RecordKind;

/// Takes the content out of an ended run, or of one operation of it and those below it.
pub(super) fn erase(
    connection: &Connection,
    run: RunId,
    operation: Option<OperationId>,
) -> Result<Erased, Fault<EraseError>> {
    let found: Option<(i64, i64)> = connection
        .prepare_cached("SELECT id, status FROM run WHERE run = ?1")?
        .query_row([run.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (id, number) = found.ok_or(Fault::Refused(EraseError::UnknownRun { run }))?;
    match status(number) {
        None => return Err(Fault::Refused(EraseError::Unreadable(damaged_row(run)))),
        Some(status) if !status.is_end() => return Err(Fault::Refused(EraseError::NotEnded { run, status })),
        Some(_) => {}
    }
    let keys = select(connection, run, id, operation)?;
    let mut erased = Erased::default();
    let mut files = BTreeSet::new();
    for key in keys {
        connection
            .prepare_cached("UPDATE record SET form = ?2, body = NULL WHERE key = ?1")?
            .execute(params![key, Form::Erased as u8])?;
        erased.records += 1;
        drop_references(connection, key, key, &mut files)?;
    }
    let dropped = delete_all_unused(connection, &files)?;
    erased.files = dropped.files;
    erased.shared_files = dropped.shared;
    connection.prepare_cached("DELETE FROM snapshot WHERE run = ?1")?.execute([id])?;
    connection.prepare_cached("DELETE FROM inbox WHERE run = ?1")?.execute([id])?;
    rows::reseal(connection, id)?;
    Ok(erased)
}

/// The keys of the records that still have content, in order.
fn select(
    connection: &Connection,
    run: RunId,
    id: i64,
    operation: Option<OperationId>,
) -> Result<Vec<i64>, Fault<EraseError>> {
    let (first, last) = rows::keys(id, 0);
    let mut statement = connection.prepare_cached(
        "SELECT key, kind, operation, parent, form FROM record WHERE key BETWEEN ?1 AND ?2 ORDER BY key",
    )?;
    let mut found = statement.query([first, last])?;
    let mut family: BTreeSet<OperationId> = operation.into_iter().collect();
    let (mut keys, mut known) = (Vec::new(), operation.is_none());
    while let Some(row) = found.next()? {
        let id = |index| Ok::<_, rusqlite::Error>(bytes(row.get_ref(index)?).map(OperationId::from_bytes));
        let (of, below) = (id(2)?, id(3)?);
        if operation.is_some() {
            if !of.is_some_and(|of| family.contains(&of))
                && !below.is_some_and(|below| family.contains(&below))
            {
                continue;
            }
            family.extend(of);
            known = true;
        }
        let number: i64 = row.get(1)?;
        let kind = RecordKind::ALL.iter().find(|kind| i64::from(**kind as u8) == number);
        // Of a damaged kind nobody knows what it holds.
        if kind.is_none_or(|kind| has_content(*kind))
            && row.get::<_, i64>(4)? != i64::from(Form::Erased as u8)
        {
            keys.push(row.get(0)?);
        }
    }
    match operation {
        Some(operation) if !known => Err(Fault::Refused(EraseError::UnknownOperation { run, operation })),
        _ => Ok(keys),
    }
}

/// What became of files that records do not use any more.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) shared: u64,
}

/// Forgets which files these records use, and says which they were.
pub(super) fn drop_references(
    connection: &Connection,
    first: i64,
    last: i64,
    files: &mut BTreeSet<Vec<u8>>,
) -> Result<(), rusqlite::Error> {
    let mut statement =
        connection.prepare_cached("DELETE FROM reference WHERE record BETWEEN ?1 AND ?2 RETURNING digest")?;
    let mut rows = statement.query([first, last])?;
    while let Some(row) = rows.next()? {
        files.insert(row.get(0)?);
    }
    Ok(())
}

/// Deletes those of these files that nobody uses any more.
pub(super) fn delete_all_unused(
    connection: &Connection,
    files: &BTreeSet<Vec<u8>>,
) -> Result<Dropped, rusqlite::Error> {
    let mut dropped = Dropped::default();
    for digest in files {
        match delete_unused(connection, digest)? {
            Some(bytes) => {
                dropped.files += 1;
                dropped.bytes += bytes;
            }
            // One that is not here at all is nobody's.
            None => {
                dropped.shared += u64::from(
                    connection
                        .prepare_cached("SELECT EXISTS (SELECT 1 FROM blob WHERE digest = ?1)")?
                        .query_row([digest], |row| row.get::<_, bool>(0))?,
                );
            }
        }
    }
    Ok(dropped)
}

/// Deletes a file that no record uses, and returns how many bytes it took; none if it is used or gone.
pub(super) fn delete_unused(connection: &Connection, digest: &[u8]) -> Result<Option<u64>, rusqlite::Error> {
    let bytes: Option<i64> = connection
        .prepare_cached(
            "DELETE FROM blob WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM reference WHERE reference.digest = ?1)
             RETURNING length(bytes)",
        )?
        .query_row([digest], |row| row.get(0))
        .optional()?;
    Ok(bytes.map(i64::cast_unsigned))
}

/// Writes the file anew, without what was deleted, and empties the log. Says whether the log could be emptied.
///
/// SQLite overwrites what is deleted (`secure_delete`), but a page that was filled anew may keep a copy between its
/// rows of what once was moved out of it.
pub(super) fn scrub(connection: &Connection) -> Result<bool, rusqlite::Error> {
    connection.execute_batch("VACUUM")?;
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
        .map(|busy| busy == 0)
}
