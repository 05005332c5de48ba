//! What SQL alone cannot do when an older file is brought to a newer version.

use dalsegno_core::{Digest, OperationId, Timestamp};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use super::read::{bytes, optional};
use super::rows::{self, Stored};
use crate::blob::digest_bytes;
use crate::bytes::{Checksum, Link};
use crate::chain::{Row, checksum};
use crate::codec::decode_body;
use crate::pack::pack_file;
use crate::record::{Body, RecordKind};
use crate::waiting::WaitingSet;

/// Moves records and files into the form of version 3, and finds out what suspended runs wait for.
///
/// Whatever is damaged goes along as it is, so that it is found where it would have been found before.
pub(super) fn to_version_3(connection: &Connection) -> Result<(), rusqlite::Error> {
    move_records(connection)?;
    connection.execute_batch("DROP TABLE record_2")?;
    pack_blobs(connection)?;
    find_waiting(connection)?;
    let mut statement = connection.prepare("SELECT id FROM run")?;
    let runs = statement.query_map([], |row| row.get::<_, i64>(0))?.collect::<Result<Vec<_>, _>>()?;
    runs.into_iter().try_for_each(|run| rows::reseal(connection, run))
}

fn move_records(connection: &Connection) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare(
        "SELECT run, seq, at, kind, operation, parent, body, checksum, link FROM record_2 ORDER BY run, seq",
    )?;
    let mut raw = connection.prepare(
        "INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link)
         SELECT ?3, at, kind, 0, operation, parent, body, checksum, link FROM record_2 WHERE run = ?1 AND seq = ?2",
    )?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let (run, seq): (i64, i64) = (row.get(0)?, row.get(1)?);
        match parse(row)? {
            Some(row) if rows::key(run, row.seq).is_some() => {
                rows::insert(connection, run, &[Stored::new(row)])?;
            }
            _ => match rows::key(run, seq.cast_unsigned()) {
                Some(key) => drop(raw.execute(params![run, seq, key])?),
                // Its run then lacks it, or ended before it; either was so already.
                None => {
                    tracing::warn!(run, seq, "a record has a number that no record can have: it is left out");
                }
            },
        }
    }
    Ok(())
}

/// A row of version 2 whose content has its checksum; none if it is damaged.
fn parse(row: &rusqlite::Row<'_>) -> Result<Option<Row>, rusqlite::Error> {
    let operation = |value| optional(value, |value| bytes(value).map(OperationId::from_bytes));
    let (Some(operation), Some(parent), Some(stored), Some(link)) = (
        operation(row.get_ref(4)?),
        operation(row.get_ref(5)?),
        bytes(row.get_ref(7)?),
        bytes(row.get_ref(8)?),
    ) else {
        return Ok(None);
    };
    let (ValueRef::Blob(body), Ok(kind)) = (row.get_ref(6)?, u8::try_from(row.get::<_, i64>(3)?)) else {
        return Ok(None);
    };
    let stored = Checksum::from_bytes(stored);
    Ok((checksum(body) == stored).then_some(Row {
        seq: row.get::<_, i64>(1)?.cast_unsigned(),
        at: Timestamp::from_millis(row.get::<_, i64>(2)?.cast_unsigned()),
        kind,
        operation,
        parent,
        body: Some(body.to_vec()),
        checksum: stored,
        link: Link::from_bytes(link),
    }))
}

fn pack_blobs(connection: &Connection) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare("SELECT rowid, digest FROM blob WHERE form = 0")?;
    let blobs = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
    for (rowid, digest) in blobs.collect::<Result<Vec<_>, _>>()? {
        let plain: Vec<u8> =
            connection.query_row("SELECT bytes FROM blob WHERE rowid = ?1", [rowid], |row| row.get(0))?;
        let known: Option<[u8; 32]> = digest.try_into().ok();
        if known.map(Digest::from_bytes) == Some(digest_bytes(&plain)) {
            let (form, packed) = pack_file(&plain);
            connection
                .prepare_cached("UPDATE blob SET form = ?2, bytes = ?3 WHERE rowid = ?1")?
                .execute(params![rowid, form as u8, packed])?;
        }
    }
    Ok(())
}

fn find_waiting(connection: &Connection) -> Result<(), rusqlite::Error> {
    let sql = format!(
        "SELECT {} FROM record WHERE key BETWEEN ?1 AND ?2 AND kind = ?3 ORDER BY key DESC LIMIT 1",
        rows::COLUMNS
    );
    let mut statement = connection.prepare("SELECT id FROM run WHERE status = 1")?;
    let runs = statement.query_map([], |row| row.get::<_, i64>(0))?.collect::<Result<Vec<_>, _>>()?;
    for run in runs {
        let (first, last) = rows::keys(run, 0);
        let mut found = connection.prepare_cached(&sql)?;
        let mut found = found.query(params![first, last, RecordKind::Suspended as u8])?;
        let Some(row) = found.next()? else { continue };
        let body = rows::load(connection, row)?.ok().and_then(|row| row.body);
        if let Some(Ok(Body::Suspended { waiting_for, wake_at })) = body.as_deref().map(decode_body) {
            let waiting = WaitingSet::of(&waiting_for, wake_at);
            connection
                .prepare_cached("UPDATE run SET waiting = ?2 WHERE id = ?1")?
                .execute(params![run, waiting.number()])?;
        }
    }
    Ok(())
}
