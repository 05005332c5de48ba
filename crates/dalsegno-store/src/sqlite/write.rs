//! The operations that write, each within a transaction of the writer.

use dalsegno_core::{Digest, RunId};
use rusqlite::{Connection, OptionalExtension, params};

use super::Fault;
use super::inbox;
use super::read::{self, Entry};
use super::rows::{PackedFile, Stored, insert, insert_blob, reseal};
use crate::bytes::Link;
use crate::chain::{Head, checksum, seal};
use crate::copies::Copies;
use crate::error::{AcquireError, AppendError, CreateError, RecordError, SnapshotError};
use crate::lease::{Holds, Lease, Tells};
use crate::owner::{Owner, OwnerId};
use crate::record::NewRecord;
use crate::run::{Created, Existing, NewRun, Progress};
use crate::snapshot::StoredSnapshot;

/// Creates a run with its first rows.
pub(super) fn create(
    connection: &Connection,
    new: &NewRun,
    rows: &[Stored],
    blobs: &[PackedFile],
    holds: &Holds,
) -> Result<Created, Fault<CreateError>> {
    let (started_at, started) = new.started().map_err(Fault::Refused)?;
    if let Some(existing) = find_existing(connection, new)? {
        return new.is_start_of(&existing).map(Created::Existing).map_err(Fault::Refused);
    }
    let copies = new.copies(started_at, started);
    if copies.is_open_root()
        && let Some(run) = open_root(connection, &copies)?
    {
        return Err(Fault::Refused(CreateError::SessionBusy { session: copies.session, run }));
    }
    insert_config(connection, new.config, &new.config_json)?;
    for (digest, form, bytes) in blobs {
        insert_blob(connection, *digest, *form, bytes)?;
    }
    let link = rows.last().map(Stored::link).unwrap_or_default();
    let head = Head { next_seq: rows.len() as u64, link };
    let entry = NewEntry { run: new.run, request_digest: new.request_digest, copies: &copies, head, rows };
    let row = insert_run(connection, &entry, Some(new.owner))?;
    let Head { next_seq, link: head } = head;
    Ok(Created::New(Lease {
        run: new.run,
        epoch: 1,
        next_seq,
        head,
        tells: None,
        row,
        _hold: holds.hold(new.run, 1),
    }))
}

/// Finds the root run that goes on in the session of another one.
pub(super) fn open_root(connection: &Connection, copies: &Copies) -> Result<Option<RunId>, rusqlite::Error> {
    connection
        .prepare_cached(
            "SELECT run FROM run WHERE tenant = ?1 AND session = ?2 AND parent IS NULL AND status < 2 LIMIT 1",
        )?
        .query_row(params![copies.tenant, copies.session], |row| row.get(0).map(RunId::from_bytes))
        .optional()
}

/// Keeps a configuration, unless it is there.
pub(super) fn insert_config(
    connection: &Connection,
    digest: Digest,
    json: &str,
) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached(
            "INSERT INTO config (digest, json, checksum) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        )?
        .execute(params![digest.as_bytes(), json, checksum(json.as_bytes()).as_bytes()])?;
    Ok(())
}

/// A run that enters the journal with these rows.
pub(super) struct NewEntry<'a> {
    pub(super) run: RunId,
    pub(super) request_digest: Digest,
    pub(super) copies: &'a Copies,
    pub(super) head: Head,
    pub(super) rows: &'a [Stored],
}

/// Inserts a run and its rows, and returns the number of its row. One that nobody owns waits for its first epoch.
pub(super) fn insert_run(
    connection: &Connection,
    new: &NewEntry<'_>,
    owner: Option<OwnerId>,
) -> Result<i64, rusqlite::Error> {
    let NewEntry { run, request_digest, copies, head, rows } = new;
    connection
        .prepare_cached(
            "INSERT INTO run (run, agent, tenant, session, config, start_key, request_digest, status, wake_at,
                started_at, updated_at, owner, epoch, next_seq, head, parent, waiting)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
        )?
        .execute(params![
            run.as_bytes(),
            copies.agent,
            copies.tenant,
            copies.session,
            copies.config.as_bytes(),
            copies.start_key,
            request_digest.as_bytes(),
            copies.progress.status as u8,
            copies.progress.wake_at.map(|at| at.as_millis().cast_signed()),
            copies.started_at.as_millis().cast_signed(),
            copies.updated_at.as_millis().cast_signed(),
            owner.as_ref().map(OwnerId::as_bytes),
            i64::from(owner.is_some()),
            head.next_seq.cast_signed(),
            head.link.as_bytes(),
            copies.parent.as_ref().map(RunId::as_bytes),
            copies.progress.waiting.number(),
        ])?;
    let row = connection.last_insert_rowid();
    reseal(connection, row)?;
    insert(connection, row, rows)?;
    Ok(row)
}

/// Ends a run with a handover and creates the one that goes on.
pub(super) fn hand_off(
    connection: &Connection,
    ended: &Append,
    successor: &NewRun,
    rows: &[Stored],
    blobs: &[PackedFile],
    holds: &Holds,
) -> Result<Created, Fault<CreateError>> {
    append_rows(connection, ended).map_err(Fault::within)?;
    let entry = read::entry(connection, ended.run).map_err(|fault| match fault {
        Fault::Refused(error) => Fault::Refused(CreateError::Predecessor(error)),
        Fault::Storage(error) => Fault::Storage(error),
    })?;
    successor.goes_on_from(ended.run, &entry.copies).map_err(Fault::Refused)?;
    let created = create(connection, successor, rows, blobs, holds)?;
    inbox::pass_on(connection, ended.run, ended.row, successor.run)?;
    Ok(created)
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
    pub(super) rows: Vec<Stored>,
    pub(super) head: Link,
    pub(super) progress: Option<Progress>,
    /// The numbers of the messages that leave the inbox.
    pub(super) consumed: Vec<u64>,
    /// The run that is told if this one ends.
    pub(super) tells: Option<Tells>,
}

impl Append {
    /// Prepares records to follow the lease's last one.
    pub(super) fn new(lease: &Lease, records: &[NewRecord], consumed: Vec<u64>) -> Result<Self, RecordError> {
        let Lease { run, row, epoch, next_seq, head, tells, .. } = *lease;
        let rows = seal(run, next_seq, head, records)?;
        let head = rows.last().map_or(head, |row| row.link);
        let progress = Progress::of(records.iter().map(|record| &record.body));
        let rows = Stored::all(rows);
        Ok(Self { run, row, epoch, next_seq, rows, head, progress, consumed, tells })
    }

    /// The number of the run's records after it.
    pub(super) fn end(&self) -> u64 {
        self.next_seq + self.rows.len() as u64
    }
}

/// Appends rows, if the lease still holds. A run that ends with them loses what still waits for it.
pub(super) fn append(connection: &Connection, append: &Append) -> Result<(), Fault<AppendError>> {
    append_rows(connection, append)?;
    if append.progress.is_some_and(|progress| progress.status.is_end()) {
        inbox::clear(connection, append.row)?;
        if let Some(tells) = append.tells {
            inbox::tell(connection, tells)?;
        }
    }
    Ok(())
}

/// Appends rows, if the lease still holds, and takes the consumed messages out of the inbox.
fn append_rows(connection: &Connection, append: &Append) -> Result<(), Fault<AppendError>> {
    if append.rows.is_empty() && append.consumed.is_empty() {
        return Ok(());
    }
    if !(move_head(connection, append)? || move_head_and_status(connection, append)?) {
        return Err(refusal(connection, append.run, append.row, append.epoch, append.next_seq)?);
    }
    insert(connection, append.row, &append.rows)?;
    for number in &append.consumed {
        let changed = connection
            .prepare_cached("DELETE FROM inbox WHERE run = ?1 AND number = ?2")?
            .execute(params![append.row, number.cast_signed()])?;
        if changed == 0 {
            return Err(Fault::Refused(AppendError::UnknownMessage { run: append.run, number: *number }));
        }
    }
    Ok(())
}

/// Checks the condition and moves the head in one statement, when the status stays as it is: nearly always. Nothing
/// that an index covers is written then.
fn move_head(connection: &Connection, append: &Append) -> Result<bool, rusqlite::Error> {
    let status = match append.progress {
        None => None,
        Some(Progress::BEGUN) => Some(Progress::BEGUN.status as u8),
        Some(_) => return Ok(false),
    };
    let changed = connection
        .prepare_cached(
            "UPDATE run SET next_seq = ?4, head = ?5, updated_at = coalesce(?6, updated_at)
             WHERE id = ?1 AND epoch = ?2 AND next_seq = ?3 AND (?7 IS NULL OR status = ?7 AND wake_at IS NULL AND waiting = 0)",
        )?
        .execute(params![
            append.row,
            append.epoch.cast_signed(),
            append.next_seq.cast_signed(),
            append.end().cast_signed(),
            append.head.as_bytes(),
            append.rows.last().map(|last| last.at().as_millis().cast_signed()),
            status,
        ])?;
    Ok(changed == 1)
}

/// The same, and changes the status. An end is final (statuses from 2 on).
fn move_head_and_status(connection: &Connection, append: &Append) -> Result<bool, rusqlite::Error> {
    let (Some(progress), Some(last)) = (append.progress, append.rows.last()) else { return Ok(false) };
    let changed = connection
        .prepare_cached(
            "UPDATE run SET next_seq = ?4, head = ?5, updated_at = ?6,
                wake_at = CASE WHEN status >= 2 THEN wake_at ELSE ?8 END,
                waiting = CASE WHEN status >= 2 THEN waiting ELSE ?9 END,
                status = CASE WHEN status >= 2 THEN status ELSE ?7 END
             WHERE id = ?1 AND epoch = ?2 AND next_seq = ?3",
        )?
        .execute(params![
            append.row,
            append.epoch.cast_signed(),
            append.next_seq.cast_signed(),
            append.end().cast_signed(),
            append.head.as_bytes(),
            last.at().as_millis().cast_signed(),
            progress.status as u8,
            progress.wake_at.map(|at| at.as_millis().cast_signed()),
            progress.waiting.number(),
        ])?;
    Ok(changed == 1)
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
    reseal(connection, row)?;
    let lease = Lease { run, epoch, next_seq, head, tells: None, row, _hold: holds.hold(run, epoch) };
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
    reseal(connection, lease.row)?;
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
