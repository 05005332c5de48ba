//! Messages for the owners of runs, in their table.

use std::ops::ControlFlow;

use dalsegno_core::RunId;
use rusqlite::{Connection, OptionalExtension, params};

use super::Fault;
use super::read::{bytes, damaged_row, status};
use super::rows::reseal;
use crate::bytes::Checksum;
use crate::error::ReadError;
use crate::inbox::{Message, Opened, PostError, StoredMessage, WAITING_MAX, encode_message};
use crate::lease::Tells;
use crate::run::RunStatus;

/// Leaves an encoded message for the run.
pub(super) fn post(connection: &Connection, run: RunId, message: Vec<u8>) -> Result<(), Fault<PostError>> {
    let refused = |error| Err(Fault::Refused(error));
    let Some((id, number, posted)) = entry(connection, run)? else {
        return refused(PostError::UnknownRun { run });
    };
    match status(number) {
        None => return refused(PostError::Unreadable(damaged_row(run))),
        Some(status) if status.is_end() => return refused(PostError::Ended { run, status }),
        Some(_) => {}
    }
    let foreign = "SELECT origin IS NOT NULL FROM run WHERE id = ?1";
    if connection.prepare_cached(foreign)?.query_row([id], |row| row.get(0))? {
        return refused(PostError::Foreign { run });
    }
    let waiting: i64 = connection
        .prepare_cached("SELECT count(*) FROM inbox WHERE run = ?1")?
        .query_row([id], |row| row.get(0))?;
    if waiting.cast_unsigned() >= WAITING_MAX {
        return refused(PostError::Full { run });
    }
    let number = posted.wrapping_add(1);
    insert(connection, id, &StoredMessage::seal(run, number.cast_unsigned(), message))?;
    count(connection, id, number)?;
    Ok(())
}

/// Tells a run to look. One that has ended, or for which messages wait already, needs no word.
pub(super) fn tell(connection: &Connection, tells: Tells) -> Result<(), rusqlite::Error> {
    let Tells { run, sleepers_only } = tells;
    if sleepers_only {
        let known = entry(connection, run)?.and_then(|(_, number, _)| status(number));
        if known != Some(RunStatus::Suspended) {
            return Ok(());
        }
    }
    let Ok(message) = encode_message(&Message::Look) else { return Ok(()) };
    match post(connection, run, message) {
        Ok(()) | Err(Fault::Refused(_)) => Ok(()),
        Err(Fault::Storage(error)) => Err(error),
    }
}

/// Tells the child runs of a run that has just ended to end as well, however many messages wait for them already.
pub(super) fn end_children(connection: &Connection, run: RunId) -> Result<(), rusqlite::Error> {
    let children = {
        let mut statement = connection.prepare_cached(OPEN_CHILDREN)?;
        let row = |row: &rusqlite::Row<'_>| {
            Ok((row.get(0)?, bytes(row.get_ref(1)?).map(RunId::from_bytes), row.get(2)?))
        };
        let rows = statement.query_map([run.as_bytes()], row)?;
        rows.collect::<Result<Vec<(i64, Option<RunId>, i64)>, _>>()?
    };
    if children.is_empty() {
        return Ok(());
    }
    let Ok(message) = encode_message(&Message::parent_ended()) else { return Ok(()) };
    for (id, child, posted) in children {
        // One whose id is damaged can be resumed by nobody.
        let Some(child) = child else { continue };
        let number = posted.wrapping_add(1);
        insert(connection, id, &StoredMessage::seal(child, number.cast_unsigned(), message.clone()))?;
        count(connection, id, number)?;
    }
    Ok(())
}

/// The child runs of a run that have not ended.
pub(super) const OPEN_CHILDREN: &str = "SELECT id, run, posted FROM run WHERE parent = ?1 AND status < 2";

/// The number of a run's row, its status and the number of messages that were ever posted to it.
fn entry(connection: &Connection, run: RunId) -> Result<Option<(i64, i64, i64)>, rusqlite::Error> {
    connection
        .prepare_cached("SELECT id, status, posted FROM run WHERE run = ?1")?
        .query_row([run.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()
}

fn insert(connection: &Connection, id: i64, stored: &StoredMessage) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached("INSERT INTO inbox (run, number, message, checksum) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![id, stored.number.cast_signed(), stored.bytes, stored.checksum.as_bytes()])?;
    Ok(())
}

/// Notes how many messages were ever posted to a run.
fn count(connection: &Connection, id: i64, posted: i64) -> Result<(), rusqlite::Error> {
    connection.prepare_cached("UPDATE run SET posted = ?2 WHERE id = ?1")?.execute(params![id, posted])?;
    reseal(connection, id)
}

/// Moves what waits for a run that has just ended to the one that goes on, one message at a time.
pub(super) fn pass_on(
    connection: &Connection,
    from: RunId,
    from_id: i64,
    to: RunId,
) -> Result<(), rusqlite::Error> {
    if let Some((id, number, posted)) = entry(connection, to)?
        && status(number).is_some_and(|status| !status.is_end())
    {
        let mut numbers =
            connection.prepare_cached("SELECT number FROM inbox WHERE run = ?1 ORDER BY number")?;
        let numbers = numbers.query_map([from_id], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
        let mut last = posted;
        for number in numbers {
            let stored = connection
                .prepare_cached("SELECT number, message, checksum FROM inbox WHERE run = ?1 AND number = ?2")?
                .query_row([from_id, number], stored)?;
            if let Some(passed) = stored.pass_on(from, to, last.wrapping_add(1).cast_unsigned()) {
                insert(connection, id, &passed)?;
                last = passed.number.cast_signed();
            }
        }
        if last != posted {
            count(connection, id, last)?;
        }
    }
    clear(connection, from_id)
}

/// Throws away what waits for the run of this row.
pub(super) fn clear(connection: &Connection, id: i64) -> Result<(), rusqlite::Error> {
    connection.prepare_cached("DELETE FROM inbox WHERE run = ?1")?.execute([id])?;
    Ok(())
}

/// Reads the messages that wait for the run's owner.
pub(super) fn read(connection: &Connection, run: RunId) -> Result<Vec<Opened>, Fault<ReadError>> {
    let (id, ..) = entry(connection, run)?.ok_or(Fault::Refused(ReadError::UnknownRun { run }))?;
    let mut messages = Vec::new();
    visit(connection, run, id, |opened| {
        messages.push(opened);
        ControlFlow::Continue(())
    })?;
    Ok(messages)
}

/// Says whether a message that can be read waits for the run.
pub(super) fn has_readable(connection: &Connection, run: RunId, id: i64) -> Result<bool, rusqlite::Error> {
    let mut found = false;
    visit(connection, run, id, |(_, message)| {
        found = message.is_ok();
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// The messages of a run.
const MESSAGES: &str = "SELECT number, message, checksum FROM inbox WHERE run = ?1 ORDER BY number";

/// Opens the messages of the run with this row, one at a time.
pub(super) fn visit(
    connection: &Connection,
    run: RunId,
    id: i64,
    mut each: impl FnMut(Opened) -> ControlFlow<()>,
) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare_cached(MESSAGES)?;
    let mut rows = statement.query([id])?;
    while let Some(row) = rows.next()? {
        if each(stored(row)?.open(run)).is_break() {
            break;
        }
    }
    Ok(())
}

/// A row of number, message and checksum. A checksum of another length belongs to no message.
fn stored(row: &rusqlite::Row<'_>) -> Result<StoredMessage, rusqlite::Error> {
    let checksum = bytes(row.get_ref(2)?).map(Checksum::from_bytes).unwrap_or_default();
    Ok(StoredMessage { number: row.get::<_, i64>(0)?.cast_unsigned(), bytes: row.get(1)?, checksum })
}

#[cfg(test)]
mod tests {
    use dalsegno_core::Timestamp;
    use rusqlite::StatementStatus;

    use super::super::{SqliteStore, open};
    use super::*;
    use crate::conformance::{
        create, handed_off, in_session, new_run, note, run_id, successor_of, suspended,
    };
    use crate::{Message, Owner, Store};

    #[test]
    fn looking_for_messages_compiles_nothing_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        let writer = open::open_writer(&path).unwrap();
        let reader = open::open_reader(&path, open::Reading::Shared).unwrap();
        for connection in [&writer, &reader] {
            for run in 0..5 {
                visit(connection, run_id(1), run, |_| ControlFlow::Continue(())).unwrap();
            }
            let statement = connection.prepare_cached(MESSAGES).unwrap();
            assert!(statement.get_status(StatementStatus::Run) >= 4, "it is not in the cache");
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
        }
    }

    #[tokio::test]
    async fn what_a_newer_release_wrote_waits_for_one_and_wakes_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        let (store, owner) = (SqliteStore::open(&path).unwrap(), Owner::in_process());
        let mut lease = create(&store, in_session(new_run(1, &owner), "s")).await;
        store.append(&mut lease, vec![suspended(50, None)]).await.unwrap();
        store.release(lease).await.unwrap();
        let behind = open::open_writer(&path).unwrap();
        let teleport = rmp_serde::to_vec_named(&serde_json::json!({"teleport": {"to": 1}})).unwrap();
        assert!(post(&behind, run_id(1), teleport.clone()).is_ok());
        let takeable = async || store.takeable(&owner, Timestamp::from_millis(99), 9).await.unwrap();
        assert_eq!(takeable().await, []);
        assert_eq!(store.inbox(run_id(1)).await.unwrap(), []);
        // One that can be read is read, and the other one stays where it is.
        store.post(run_id(1), Message::Look).await.unwrap();
        assert_eq!(takeable().await, [run_id(1)]);
        assert_eq!(store.inbox(run_id(1)).await.unwrap(), [(2, Message::Look)]);
        let mut lease = store.acquire(run_id(1), &owner).await.unwrap();
        store.append_with(&mut lease, vec![note(1)], vec![2]).await.unwrap();
        let next = successor_of(new_run(2, &owner), run_id(1), "s");
        store.hand_off(&mut lease, vec![handed_off(run_id(2))], next).await.unwrap();
        let (id, ..) = entry(&behind, run_id(2)).unwrap().unwrap();
        let passed = behind
            .query_row("SELECT number, message, checksum FROM inbox WHERE run = ?1", [id], stored)
            .unwrap();
        assert_eq!((passed.number, &passed.bytes), (1, &teleport));
        assert!(matches!(passed.open(run_id(2)), (1, Err(ReadError::NewerMessage { .. }))));
    }
}
