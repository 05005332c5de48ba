//! The operations that write, each within a transaction of the writer.

use rusqlite::{Connection, OptionalExtension, params};
use segno_core::RunId;

use super::Fault;
use super::read::{self, Entry};
use crate::bytes::Link;
use crate::chain::{Head, Row, checksum};
use crate::error::{AcquireError, AppendError, CreateError, SnapshotError};
use crate::lease::{Holds, Lease};
use crate::owner::{Owner, OwnerId};
use crate::run::{Created, Existing, NewRun, Progress};
use crate::snapshot::StoredSnapshot;

/// Creates a run with its first rows.
pub(super) fn create(
    connection: &Connection,
    new: &NewRun,
    rows: &[Row],
    holds: &Holds,
) -> Result<Created, Fault<CreateError>> {
    let (started_at, started) = new.started().map_err(Fault::Refused)?;
    if let Some(existing) = find_existing(connection, new)? {
        return new.is_start_of(&existing).map(Created::Existing).map_err(Fault::Refused);
    }
    let copies = new.copies(started_at, started);
    let head = rows.last().map(|row| row.link).unwrap_or_default();
    let next_seq = rows.len() as u64;
    connection
        .prepare_cached(
            "INSERT INTO config (digest, json, checksum) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            new.config.as_bytes(),
            new.config_json,
            checksum(new.config_json.as_bytes()).as_bytes()
        ])?;
    connection
        .prepare_cached(
            "INSERT INTO run (run, agent, tenant, session, config, start_key, request_digest, status, wake_at,
                started_at, updated_at, owner, epoch, next_seq, head)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 1, ?13, ?14)",
        )?
        .execute(params![
            new.run.as_bytes(),
            copies.agent,
            copies.tenant,
            copies.session,
            copies.config.as_bytes(),
            copies.start_key,
            new.request_digest.as_bytes(),
            copies.progress.status as u8,
            copies.progress.wake_at.map(|at| at.as_millis().cast_signed()),
            copies.started_at.as_millis().cast_signed(),
            copies.updated_at.as_millis().cast_signed(),
            new.owner.as_bytes(),
            next_seq.cast_signed(),
            head.as_bytes(),
        ])?;
    let row = connection.last_insert_rowid();
    insert(connection, row, rows)?;
    Ok(Created::New(Lease { run: new.run, epoch: 1, next_seq, head, row, _hold: holds.hold(new.run, 1) }))
}

fn find_existing(connection: &Connection, new: &NewRun) -> Result<Option<Existing>, rusqlite::Error> {
    let read = |row: &rusqlite::Row<'_>, by_key| {
        let run = RunId::from_bytes(row.get(0)?);
        Ok(Existing { run, agent: row.get(1)?, request_digest: row.get(2)?, by_key })
    };
    if let Some(key) = &new.key {
        let existing = connection
            .prepare_cached(
                "SELECT run, agent, request_digest FROM run WHERE tenant = ?1 AND start_key = ?2",
            )?
            .query_row(params![new.tenant, key], |row| read(row, true))
            .optional()?;
        if existing.is_some() {
            return Ok(existing);
        }
    }
    connection
        .prepare_cached("SELECT run, agent, request_digest FROM run WHERE run = ?1")?
        .query_row([new.run.as_bytes()], |row| read(row, false))
        .optional()
}

/// What an append writes, prepared by the caller so that the writer only writes.
pub(super) struct Append {
    pub(super) run: RunId,
    pub(super) row: i64,
    pub(super) epoch: u64,
    pub(super) next_seq: u64,
    pub(super) rows: Vec<Row>,
    pub(super) head: Link,
    pub(super) progress: Option<Progress>,
}

/// Appends rows, if the lease still holds.
pub(super) fn append(connection: &Connection, append: &Append) -> Result<(), Fault<AppendError>> {
    let Some(last) = append.rows.last() else { return Ok(()) };
    // One statement checks the condition and moves the head. An end is final (statuses from 2 on).
    let changed = connection
        .prepare_cached(
            "UPDATE run SET next_seq = ?4, head = ?5, updated_at = ?6,
                wake_at = CASE WHEN status >= 2 OR ?7 IS NULL THEN wake_at ELSE ?8 END,
                status = CASE WHEN status >= 2 OR ?7 IS NULL THEN status ELSE ?7 END
             WHERE id = ?1 AND epoch = ?2 AND next_seq = ?3",
        )?
        .execute(params![
            append.row,
            append.epoch.cast_signed(),
            append.next_seq.cast_signed(),
            (last.seq + 1).cast_signed(),
            append.head.as_bytes(),
            last.at.as_millis().cast_signed(),
            append.progress.map(|progress| progress.status as u8),
            append.progress.and_then(|progress| progress.wake_at).map(|at| at.as_millis().cast_signed()),
        ])?;
    if changed == 0 {
        return Err(refusal(connection, append.run, append.row, append.epoch, append.next_seq)?);
    }
    insert(connection, append.row, &append.rows)?;
    Ok(())
}

/// Finds out why a conditional write changed nothing.
fn refusal(
    connection: &Connection,
    run: RunId,
    row: i64,
    epoch: u64,
    expected: u64,
) -> Result<Fault<AppendError>, rusqlite::Error> {
    let found = connection
        .prepare_cached("SELECT epoch, next_seq FROM run WHERE id = ?1")?
        .query_row([row], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?.cast_unsigned()))
        })
        .optional()?;
    Ok(Fault::Refused(match found {
        None => AppendError::UnknownRun { run },
        Some((current, _)) if current != epoch => AppendError::Fenced { run, epoch, current },
        Some((_, found)) => AppendError::SeqMismatch { run, expected, found },
    }))
}

fn insert(connection: &Connection, run: i64, rows: &[Row]) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO record (run, seq, at, kind, operation, parent, body, checksum, link)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for row in rows {
        statement.execute(params![
            run,
            row.seq.cast_signed(),
            row.at.as_millis().cast_signed(),
            row.kind,
            row.operation.as_ref().map(segno_core::OperationId::as_bytes),
            row.parent.as_ref().map(segno_core::OperationId::as_bytes),
            row.body,
            row.checksum.as_bytes(),
            row.link.as_bytes(),
        ])?;
    }
    Ok(())
}

/// A run that was taken, and from whom.
pub(super) struct Acquired {
    pub(super) lease: Lease,
    pub(super) from: Option<OwnerId>,
}

/// Takes a run that nobody alive owns.
pub(super) fn acquire(
    connection: &Connection,
    run: RunId,
    owner: &Owner,
    holds: &Holds,
) -> Result<Acquired, Fault<AcquireError>> {
    let found = connection
        .prepare_cached("SELECT owner, epoch FROM run WHERE run = ?1")?
        .query_row([run.as_bytes()], |row| {
            let by: Option<[u8; 16]> = row.get(0)?;
            Ok((by.map(OwnerId::from_bytes), row.get::<_, i64>(1)?.cast_unsigned()))
        })
        .optional()?;
    let Some((by, epoch)) = found else {
        return Err(Fault::Refused(AcquireError::UnknownRun { run }));
    };
    if let Some(by) = by {
        let lives = if by == owner.id() { holds.holds(run, epoch) } else { owner.sees_alive(by) };
        if lives {
            return Err(Fault::Refused(AcquireError::Owned { run, by }));
        }
    }
    let Entry { id: row, head: Head { next_seq, link: head }, .. } =
        read::verify(connection, run).map_err(Fault::within)?;
    let epoch = epoch + 1;
    connection.prepare_cached("UPDATE run SET owner = ?2, epoch = ?3 WHERE id = ?1")?.execute(params![
        row,
        owner.id().as_bytes(),
        epoch.cast_signed()
    ])?;
    let lease = Lease { run, epoch, next_seq, head, row, _hold: holds.hold(run, epoch) };
    Ok(Acquired { lease, from: by.filter(|by| *by != owner.id()) })
}

/// Gives a run back.
pub(super) fn release(connection: &Connection, lease: &Lease) -> Result<(), Fault<AppendError>> {
    let changed = connection
        .prepare_cached("UPDATE run SET owner = NULL WHERE id = ?1 AND epoch = ?2")?
        .execute(params![lease.row, lease.epoch.cast_signed()])?;
    if changed == 0 {
        return Err(refusal(connection, lease.run, lease.row, lease.epoch, lease.next_seq)?);
    }
    Ok(())
}

/// Replaces a run's snapshot, if the lease still holds.
pub(super) fn save_snapshot(
    connection: &Connection,
    run: RunId,
    row: i64,
    epoch: u64,
    snapshot: &StoredSnapshot,
) -> Result<(), Fault<SnapshotError>> {
    let changed = connection
        .prepare_cached(
            "INSERT OR REPLACE INTO snapshot (run, seq, state, checksum)
             SELECT id, ?3, ?4, ?5 FROM run WHERE id = ?1 AND epoch = ?2",
        )?
        .execute(params![
            row,
            epoch.cast_signed(),
            snapshot.seq.cast_signed(),
            snapshot.state,
            snapshot.checksum.as_bytes()
        ])?;
    if changed == 0 { Err(Fault::Refused(SnapshotError::Fenced { run, epoch })) } else { Ok(()) }
}
