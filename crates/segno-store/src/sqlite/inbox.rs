//! Messages for the owners of runs, in their table.

use rusqlite::{Connection, OptionalExtension, params};
use segno_core::RunId;

use super::Fault;
use super::read::{bytes, damaged_row, status};
use crate::bytes::Checksum;
use crate::error::ReadError;
use crate::inbox::{Message, PostError, StoredMessage, WAITING_MAX};

/// Leaves an encoded message for the run.
pub(super) fn post(connection: &Connection, run: RunId, message: Vec<u8>) -> Result<(), Fault<PostError>> {
    let refused = |error| Err(Fault::Refused(error));
    let found: Option<(i64, i64, i64)> = connection
        .prepare_cached("SELECT id, status, posted FROM run WHERE run = ?1")?
        .query_row([run.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((id, number, posted)) = found else { return refused(PostError::UnknownRun { run }) };
    match status(number) {
        None => return refused(PostError::Unreadable(damaged_row(run))),
        Some(status) if status.is_end() => return refused(PostError::Ended { run, status }),
        Some(_) => {}
    }
    let waiting: i64 = connection
        .prepare_cached("SELECT count(*) FROM inbox WHERE run = ?1")?
        .query_row([id], |row| row.get(0))?;
    if waiting.cast_unsigned() >= WAITING_MAX {
        return refused(PostError::Full { run });
    }
    let number = posted.wrapping_add(1);
    let stored = StoredMessage::seal(run, number.cast_unsigned(), message);
    connection.prepare_cached("UPDATE run SET posted = ?2 WHERE id = ?1")?.execute(params![id, number])?;
    super::rows::reseal(connection, id)?;
    connection
        .prepare_cached("INSERT INTO inbox (run, number, message, checksum) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![id, number, stored.bytes, stored.checksum.as_bytes()])?;
    Ok(())
}

/// Reads the messages that wait for the run's owner.
pub(super) fn read(connection: &Connection, run: RunId) -> Result<Vec<(u64, Message)>, Fault<ReadError>> {
    let id: Option<i64> = connection
        .prepare_cached("SELECT id FROM run WHERE run = ?1")?
        .query_row([run.as_bytes()], |row| row.get(0))
        .optional()?;
    let id = id.ok_or(Fault::Refused(ReadError::UnknownRun { run }))?;
    let mut statement = connection
        .prepare_cached("SELECT number, message, checksum FROM inbox WHERE run = ?1 ORDER BY number")?;
    let mut rows = statement.query([id])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        let number = row.get::<_, i64>(0)?.cast_unsigned();
        let checksum = bytes(row.get_ref(2)?)
            .map(Checksum::from_bytes)
            .ok_or(Fault::Refused(ReadError::DamagedMessage { run, number }))?;
        let stored = StoredMessage { number, bytes: row.get(1)?, checksum };
        messages.push(stored.open(run).map_err(Fault::Refused)?);
    }
    Ok(messages)
}
